"""What a real kube-scheduler and API server sent, given to the extender."""

import json
import os
import random
from pathlib import Path

import pytest
from interop.hived.clusters import DOMAIN, config, rack
from profiles import seeds

from hivecore.interop.hived import Extender, HivedScheduler

ROOT = Path(__file__).resolve().parents[4] / "shared"
TRACES = os.environ.get("HIVECORE_TRACES")
RECORDED = (Path(TRACES).parent if TRACES else ROOT) / "kubernetes"
INFO = f"{DOMAIN}/pod-bind-info"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded requests are not here")

RACKS = [rack(*(f"node-{4 * i + j:02}" for j in range(4))) for i in range(4)]
CONFIG = config(
    {"V100-NODE": (8, "V100"), "RACK": (4, "V100-NODE")},
    RACKS,
    {"vision": {"RACK": 2}, "speech": {"RACK.V100-NODE": 4}},
)


def lines(name):
    return [json.loads(line) for line in (RECORDED / name).read_text("utf-8").splitlines()]


def requests(verb):
    sent = lines("extender_requests.jsonl")
    return [request["body"] for request in sent if request["path"].endswith(verb)]


@pytest.fixture
def extender():
    return Extender(HivedScheduler(CONFIG))


def ask(extender, verb, body):
    status, answer = extender.handle(f"/v1/extender/{verb}", json.dumps(body))
    assert status == 200
    assert not answer.get("Error"), answer
    return answer


def held(extender):
    """Node -> leaf cells in use."""
    by_node = {}
    for group in extender.scheduler.affinity_groups()["items"]:
        for node, leaves in group["status"]["physicalPlacement"].items():
            by_node.setdefault(node, []).extend(leaves)
    return {node: sorted(leaves) for node, leaves in by_node.items()}


def test_pods_that_were_bound_get_the_same_cells_and_give_them_back(extender):
    recorded = {}
    for event in lines("watch_pods.jsonl"):
        assert extender.apply(event) == []
        extender.scheduler.check()
        info = event["object"]["metadata"]["annotations"].get(INFO)
        if info:
            bound = json.loads(info)
            recorded[event["object"]["metadata"]["uid"]] = bound["node"], bound["leafCellIsolation"]
        if event["type"] == "DELETED":
            del recorded[event["object"]["metadata"]["uid"]]
        now = held(extender)
        for node, leaves in recorded.values():
            assert set(leaves) <= set(now[node])
        # The first pod of a gang brings the cells of all.
        nodes = {node for node, _ in recorded.values()}
        assert set(now) - nodes <= {"node-08", "node-09", "node-10", "node-11"}
    assert held(extender) == {} == recorded
    assert extender.informer.pods == {}


@pytest.mark.parametrize("seed", seeds(30))
def test_the_same_late_twice_and_out_of_order_comes_to_the_same(seed):
    rng = random.Random(seed)
    events = lines("watch_pods.jsonl")
    moved = sorted(
        (
            (i + rng.expovariate(0.2), event)
            for i, event in enumerate(events)
            for _ in range(rng.randint(1, 2))
        ),
        key=lambda entry: entry[0],
    )
    extender = Extender(HivedScheduler(CONFIG))
    for _, event in moved:
        assert extender.apply(event) == []
        extender.scheduler.check()
    assert held(extender) == {}


def test_a_node_goes_and_comes_back(extender):
    seen = []
    for event in lines("watch_nodes.jsonl"):
        assert extender.apply(event) == []
        seen.append(bad(extender))
    assert seen == [{"node-03"}, set()]


def test_the_first_page_of_a_list_says_nothing_of_the_others():
    page = json.loads((RECORDED / "list_nodes.json").read_text("utf-8"))
    extender = Extender(HivedScheduler(CONFIG, initially_healthy=True))
    assert extender.apply(page) == []
    assert not bad(extender)
    last = {**page, "metadata": {"resourceVersion": page["metadata"]["resourceVersion"]}}
    assert extender.apply({**last, "items": []}) == []
    listed = {node["metadata"]["name"] for node in page["items"]}
    assert bad(extender) == {f"node-{i:02}" for i in range(16)} - listed


def bad(extender):
    return {
        node["cellAddress"].rpartition("/")[2]
        for rack in extender.scheduler.status()["physicalCluster"]
        for node in rack["cellChildren"]
        if node["cellHealthiness"] == "Bad"
    }


def test_requests_are_answered_as_kube_scheduler_reads_them(extender):
    opportunistic, nominated, objects, gang = requests("filter")
    answer = ask(extender, "filter", opportunistic)
    assert len(answer["NodeNames"]) == 1
    [bind] = requests("bind")
    assert ask(extender, "bind", {**bind, "Node": answer["NodeNames"][0]})["Error"] == ""
    # Its gang of four is decided with the node that it was promised.
    assert ask(extender, "filter", nominated)["NodeNames"] == nominated["NodeNames"]
    for body in (objects, gang):
        [item] = ask(extender, "filter", body)["Nodes"]["items"]
        assert item["metadata"]["name"].startswith("node-")
    extender.scheduler.check()


def test_health_is_taken_from_the_nodes_of_a_request():
    extender = Extender(HivedScheduler(CONFIG, initially_healthy=False))
    [body] = requests("filter")[2:3]
    [item] = ask(extender, "filter", body)["Nodes"]["items"]
    named = {node["metadata"]["name"] for node in body["Nodes"]["items"]}
    assert item["metadata"]["name"] in named
    assert {f"node-{i:02}" for i in range(16)} - bad(extender) == named


@pytest.mark.parametrize("which", [0, 1])
def test_each_pod_of_a_gang_is_answered_with_another_nodes_victims(extender, which):
    """With victims as UIDs, and as whole pods: all sixteen nodes are full of opportunistic ones."""
    body = requests("preempt")[which]
    template = requests("filter")[0]
    for i in range(16):
        pod = json.loads(json.dumps(template["Pod"]))
        pod["metadata"] |= {"name": f"opp{i:02}", "uid": f"opp{i:02}"}
        assert len(ask(extender, "filter", {**template, "Pod": pod})["NodeNames"]) == 1
    nodes = []
    for i in range(4):
        pod = json.loads(json.dumps(body["Pod"]))
        pod["metadata"] |= {"name": f"g{i}", "uid": f"g{i}"}
        for _ in range(2):  # asked again it is the same node
            answer = ask(extender, "preempt", {**body, "Pod": pod})["NodeNameToMetaVictims"]
            [(node, victims)] = answer.items()
            assert len(victims["Pods"]) == 1
        nodes.append(node)
    assert len(set(nodes)) == 4
    question = {**template, "Pod": body["Pod"]}
    failed = ask(extender, "filter", question)["FailedNodes"]
    assert set(failed) == set(nodes)
    assert all("default/opp" in text for text in failed.values())
