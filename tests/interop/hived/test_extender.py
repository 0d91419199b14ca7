import json
import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hived.clusters import DOMAIN, NOTHING, binding, config, rack
from interop.hived.clusters import filter_request as ask
from interop.hived.clusters import kubernetes_pod as pod
from interop.hostile import broken
from interop.servers import at_once
from profiles import examples

from hivecore.errors import StaleDecisionError
from hivecore.interop.hived import Extender, HivedScheduler, RequestError
from hivecore.interop.hived.serving.annotations import read_spec

TREE = {"NODE": (4, "GPU"), "RACK": (2, "NODE")}
CONFIG = config(TREE, [rack("n1", "n2")], {"A": {"RACK.NODE": 1}, "B": {"RACK.NODE": 1}})
NODES = ["n1", "n2"]
FILTER, BIND, PREEMPT = (f"/v1/extender/{verb}" for verb in ("filter", "bind", "preempt"))
GROUPS, STATUS = "/v1/inspect/affinitygroups/", "/v1/inspect/clusterstatus"


def event(type_, kind, item):
    return {"type": type_, "object": {"kind": kind, **item}}


@pytest.fixture
def extender():
    return Extender(HivedScheduler(CONFIG))


def get(extender, path, body=None):
    status, answer = extender.handle(path, body)
    assert status == 200, answer
    return json.loads(json.dumps(answer))


def refused(extender, path, body=None, status=400):
    """The mistake that is named; kube-scheduler reads it with status 200 alone."""
    answered, answer = extender.handle(path, body)
    verb = path.removeprefix("/v1/extender/")
    assert answered == (200 if verb in NOTHING else status)
    assert answer == {**NOTHING.get(verb, {}), "Error": answer["Error"]}
    assert answer["Error"]
    return json.loads(json.dumps(answer))["Error"]


def test_filter_commits_and_bind_carries_the_annotations(extender):
    answer = get(extender, FILTER, ask("p", number=2))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }
    assert get(extender, GROUPS)["items"][0]["status"]["state"] == "Allocated"
    answer = get(extender, BIND, binding("p", "n1"))
    assert answer["Error"] == ""
    binds = answer["Binding"]
    assert (binds["kind"], binds["target"]["name"]) == ("Binding", "n1")
    assert binds["metadata"]["annotations"][f"{DOMAIN}/pod-leaf-cell-isolation"] == "0,1"
    info = json.loads(binds["metadata"]["annotations"][f"{DOMAIN}/pod-bind-info"])
    assert (info["node"], info["leafCellIsolation"], info["cellChain"]) == ("n1", [0, 1], "RACK")
    assert get(extender, BIND, binding("p", "n1")) == answer


def test_a_pod_that_is_binding_insists_on_its_node(extender):
    get(extender, FILTER, ask("p"))
    get(extender, "/v1/watch", event("MODIFIED", "Node", {"metadata": {"name": "n1"}}))
    again = ask("p") | {"NodeNames": ["n2"]}
    assert get(extender, FILTER, again)["NodeNames"] == ["n1"]
    assert get(extender, PREEMPT, {"Pod": pod("p")}) == {"NodeNameToMetaVictims": {}}
    assert "is to be bound to 'n1'" in refused(extender, BIND, binding("p", "n2"))


def test_the_answer_says_why_a_pod_waits(extender):
    get(extender, FILTER, ask("p"))
    answer = get(extender, FILTER, ask("q"))
    assert answer["NodeNames"] is None
    reason = answer["FailedNodes"]["hivedscheduler"]
    assert reason.startswith("Pod is waiting for preemptible or free resource to appear: ")
    assert "q" in refused(extender, BIND, binding("q", "n1"))


OTHERS = ",".join(f'"elsewhere-{i}"' for i in range(200))


@pytest.mark.parametrize(
    "names",
    [
        f'["n2",{OTHERS}]',
        f'[{OTHERS},"n2"]',
        f'[{OTHERS}, "n2"]',
        f'[{OTHERS},"\\u006e2"]',
        f'["z\u00fcrich",{OTHERS},"n2"]',
        f'[{OTHERS},"n2","",","]',
    ],
)
def test_many_suggested_nodes_count_however_they_are_written(extender, names):
    for i, gets in enumerate([["n2"], None]):
        request = json.dumps(pod(f"p{i}", ignoreK8sSuggestedNodes=False), separators=(",", ":"))
        body = f'{{"Pod":{request},"Nodes":null,"NodeNames":{names}}}'.encode()
        assert get(extender, FILTER, body)["NodeNames"] == gets
        assert get(extender, FILTER, body)["NodeNames"] == gets  # the same text again


def test_nodes_may_be_listed_as_objects(extender):
    listed = [{"metadata": {"name": name, "labels": {"a": name}}} for name in NODES]
    arguments = {"Pod": pod("p"), "Nodes": {"items": listed}}
    assert get(extender, FILTER, arguments)["Nodes"] == {"items": listed[:1]}
    others = {"Pod": pod("p"), "Nodes": {"items": []}}
    assert get(extender, FILTER, others)["Nodes"] == {"items": [{"metadata": {"name": "n1"}}]}


def test_preemption_names_victims_node_by_node_until_it_can_bind(extender):
    low = {"priority": -1, "group": "low", "members": [(2, 4)]}
    for name in ("a", "b"):
        get(extender, FILTER, ask(name, **low))
    answer = get(extender, FILTER, ask("high", priority=5))
    assert list(answer["FailedNodes"]) == NODES
    assert answer["FailedNodes"]["n1"].endswith("to be preempted: x/b (u-b)")
    arguments = {"Pod": pod("high", priority=5), "NodeNameToMetaVictims": {"n1": {}, "n2": {}}}
    victims = {"n1": {"Pods": [{"UID": "u-b"}], "NumPDBViolations": 0}}
    for _ in range(2):
        assert get(extender, PREEMPT, arguments) == {"NodeNameToMetaVictims": victims}
    group = get(extender, f"{GROUPS}x/high")["status"]
    assert (group["state"], group["preemptingPods"]) == ("Preempting", ["u-high"])
    get(extender, "/v1/watch", event("DELETED", "Pod", pod("b")))
    victims = {"n2": {"Pods": [{"UID": "u-a"}], "NumPDBViolations": 0}}
    assert get(extender, PREEMPT, arguments) == {"NodeNameToMetaVictims": victims}
    get(extender, "/v1/watch", event("MODIFIED", "Pod", {"status": {"phase": "Failed"}} | pod("a")))
    assert get(extender, PREEMPT, arguments) == {"NodeNameToMetaVictims": {}}
    assert get(extender, FILTER, ask("high", priority=5))["NodeNames"] == ["n1"]
    assert [group["metadata"]["name"] for group in get(extender, GROUPS)["items"]] == ["x/high"]


def test_specs_are_yaml_with_fields_of_hiveds_types(extender):
    text = """
    virtualCluster: A
    gpuNumber: "2"
    gpuType: GPU
    priority: -1
    lazyPreemptionEnable: yes
    ignoreK8sSuggestedNodes: false
    affinityGroup:
      name: 007
      members: [{podNumber: 1, gpuNumber: 2}]
    """
    assert get(extender, FILTER, {"Pod": pod("p", text), "NodeNames": ["n2"]})["NodeNames"] == [
        "n2"
    ]
    assert get(extender, f"{GROUPS}007")["status"]["priority"] == -1


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
ODD = st.sampled_from(["true", "~", "", "<<", "a: b", "# x", "007", "&a", "*a", "!x", "=", "?"])
KEYS = ODD | TEXTS | st.sampled_from(["priority", "lazyPreemptionEnable"])
PARTS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | ODD


@given(
    st.dictionaries(
        KEYS, st.recursive(PARTS, lambda part: st.lists(part) | st.dictionaries(KEYS, part))
    ),
    st.sampled_from([None, (",", ":")]),
)
def test_specs_in_json_mean_what_they_mean_as_yaml(spec, separators):
    text = json.dumps(spec, separators=separators)
    assert read_spec(text) == read_spec(f"# as YAML\n{text}")


def test_a_spec_in_json_has_each_key_once():
    with pytest.raises(RequestError, match="virtualCluster"):
        read_spec('{"virtualCluster": "A", "virtualCluster": "B"}')


def test_inspection_shows_groups_and_cells(extender):
    get(extender, FILTER, ask("p"))
    status = get(extender, STATUS)
    assert list(status) == ["physicalCluster", "virtualClusters"]
    assert get(extender, f"{STATUS}/physicalcluster") == status["physicalCluster"]
    for slash in ("", "/"):
        assert get(extender, f"{STATUS}/virtualclusters{slash}") == status["virtualClusters"]
    assert get(extender, f"{STATUS}/virtualclusters/A") == status["virtualClusters"]["A"]
    assert get(extender, GROUPS[:-1]) == get(extender, GROUPS)
    assert get(extender, f"{GROUPS}x/p") == get(extender, GROUPS)["items"][0]
    assert get(extender, f"{STATUS}/") == status


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/inspect", "/v1/inspect/affinitygroupsx", f"{GROUPS}none", f"{STATUS}/other"),
        *(f"{STATUS}/physicalcluster/x", f"{STATUS}/virtualclusters/none", "/v1/watch/"),
    ],
)
def test_unknown_paths_and_names_are_not_found(extender, path):
    refused(extender, path, {}, status=404)


LARGE = "spec: leafCellNumber=5: no node has more than 4 leaf cells"
BOMB = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcd", "bcde", strict=True)
)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (FILTER, {"Pod": {"metadata": {"name": "p"}}}, "pod-scheduling-spec']: is missing"),
        (
            FILTER,
            {"Pod": {"metadata": {"name": "p", "annotations": 1}}},
            "Pod.metadata.annotations must be a",
        ),
        (FILTER, {"Pod": pod("p", "3")}, "pod-scheduling-spec must be a mapping"),
        (FILTER, {"Pod": pod("p", "{")}, "pod-scheduling-spec: is no YAML"),
        (FILTER, {"Pod": pod("p", "[" * 500)}, "is nested deeper"),
        (FILTER, {"Pod": pod("p", "[" * 100_000)}, "nest"),  # PyYAML has a bound of its own
        (FILTER, {"Pod": pod("p", "a: &a [*a]")}, "no finished node has the anchor"),
        (FILTER, {"Pod": pod("p", BOMB)}, "aliases stand for more than 10,000 parts"),
        (FILTER, {"Pod": pod("p", BOMB.ljust(5000))}, "aliases stand for more than 10,000 parts"),
        (FILTER, {"Pod": pod("p", vc="C")}, "virtualCluster='C': known are"),
        (FILTER, {"Pod": pod("p", leafCellType="H100")}, "the cluster has ['GPU']"),
        (FILTER, {"Pod": pod("p", number="many")}, "leafCellNumber='many'"),
        (FILTER, {"Pod": pod("p", priority=1001)}, "priority=1001"),
        *((verb, {"Pod": pod("p", number=5)}, LARGE) for verb in (FILTER, PREEMPT)),
        (BIND, binding("p", "n1"), "'u-p' is not bound"),
    ],
)
def test_bodies_that_make_no_sense_are_refused_and_change_nothing(extender, path, body, says):
    before = get(extender, STATUS)
    assert says in refused(extender, path, body)
    assert get(extender, STATUS) == before
    assert get(extender, GROUPS) == {"items": []}


def test_nodes_are_healthy_when_ready_and_schedulable(extender):
    def report(type_, ready, **spec):
        conditions = [{"type": "Disk", "status": "True"}, {"type": "Ready", "status": ready}]
        node = {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": conditions}}
        get(extender, "/v1/watch", event(type_, "Node", node))
        return get(extender, STATUS)["physicalCluster"][0]["cellChildren"][0]["cellHealthiness"]

    assert report("ADDED", "True") == "Healthy"
    assert report("MODIFIED", "Unknown") == "Bad"
    assert report("MODIFIED", "True", unschedulable=True) == "Bad"
    assert report("MODIFIED", "True", unschedulable=False) == "Healthy"
    assert report("DELETED", "True") == "Bad"
    assert get(extender, "/v1/watch", {"type": "BOOKMARK", "object": {}}) == {}


def test_a_restart_recovers_from_the_lists_of_nodes_and_pods(extender):
    bound = []
    for name, vc in (("p", "A"), ("q", "B")):
        get(extender, FILTER, ask(name, vc=vc, number=3))
        node = {"p": "n1", "q": "n2"}[name]
        binds = get(extender, BIND, binding(name, node))["Binding"]
        item = pod(name, vc=vc, number=3) | {"spec": {"nodeName": node}}
        item["metadata"]["annotations"] |= binds["metadata"]["annotations"]
        bound.append(item)
    other = Extender(HivedScheduler(CONFIG))
    strangers = [pod("waiting"), {"metadata": {"name": "of-others"}, "spec": {"nodeName": "n1"}}]
    get(other, "/v1/watch", {"kind": "PodList", "items": [*bound, *strangers]})
    assert get(other, STATUS) == get(extender, STATUS)
    assert get(other, GROUPS) == get(extender, GROUPS)
    # A watch says again what is known.
    get(other, "/v1/watch", event("MODIFIED", "Pod", bound[0]))
    wrong = json.loads(json.dumps(bound[0]).replace("[0,1,2]", "[0]"))
    wrong["metadata"]["annotations"][f"{DOMAIN}/pod-bind-info"] = "{node: n1}"
    assert "pod 'p': " in refused(other, "/v1/watch", event("ADDED", "Pod", wrong))


BIND_INFO, SPEC = f"{DOMAIN}/pod-bind-info", f"{DOMAIN}/pod-scheduling-spec"


def started():
    """An extender of two nodes that A owns, both of which are ready."""
    both = config(TREE, [rack("n1", "n2")], {"A": {"RACK.NODE": 2}})
    extender = Extender(HivedScheduler(both), foreign="nvidia.com/gpu")
    for node in NODES:
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        item = {"metadata": {"name": node}, "status": status}
        get(extender, "/v1/watch", event("ADDED", "Node", item))
    return extender


def at(item, node, **notes):
    """The pod, bound there with these annotations."""
    annotations = {**item["metadata"]["annotations"], **notes}
    meta = {**item["metadata"], "annotations": annotations}
    return {**item, "metadata": meta, "spec": {"nodeName": node}}


@pytest.mark.parametrize("key", [BIND_INFO, SPEC])
@pytest.mark.parametrize("text", ["{", "[]", "{node: n1}"])
def test_a_node_is_avoided_while_a_pod_runs_there_whose_cells_cannot_be_read(key, text):
    extender = started()
    running = at(pod("old"), "n1", **{BIND_INFO: "{}", key: text})
    assert "pod 'old': " in refused(extender, "/v1/watch", event("ADDED", "Pod", running))
    assert get(extender, FILTER, ask("p"))["NodeNames"] == ["n2"]
    get(extender, "/v1/watch", event("DELETED", "Pod", running))
    assert get(extender, FILTER, ask("q"))["NodeNames"] == ["n1"]


def test_a_bind_info_of_another_node_than_the_pod_is_on_is_not_taken():
    before, extender = started(), started()
    get(before, FILTER, ask("p"))
    notes = get(before, BIND, binding("p", "n1"))["Binding"]["metadata"]["annotations"]
    running = at(pod("p"), "n2", **notes)
    said = refused(extender, "/v1/watch", event("ADDED", "Pod", running))
    assert "pod 'p': " in said and "the pod is bound to 'n2'" in said
    assert get(extender, FILTER, ask("q"))["NodeNames"] == ["n1"]


@pytest.mark.parametrize("healthy", [True, False])
def test_a_node_that_was_never_reported_is_after_a_stranger_as_it_was_before(healthy):
    scheduler = HivedScheduler(CONFIG, initially_healthy=healthy)
    extender = Extender(scheduler, foreign="nvidia.com/gpu")
    before = get(extender, STATUS)
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": limits}]}
    stranger = {"metadata": {"name": "stranger"}, "spec": spec}
    get(extender, "/v1/watch", event("ADDED", "Pod", stranger))
    cells = get(extender, STATUS)["physicalCluster"][0]["cellChildren"]
    assert cells[0]["cellHealthiness"] == "Bad"
    get(extender, "/v1/watch", event("DELETED", "Pod", stranger))
    assert get(extender, STATUS) == before


def test_where_a_pod_is_bound_counts_and_not_where_it_was_to_be_bound():
    before, extender = started(), started()
    get(before, FILTER, ask("p"))
    notes = get(before, BIND, binding("p", "n1"))["Binding"]["metadata"]["annotations"]
    # The one that leads now has not heard of that, and has another pod on this node for a while.
    assert get(extender, FILTER, ask("other"))["NodeNames"] == ["n1"]
    assert get(extender, FILTER, ask("p"))["NodeNames"] == ["n2"]
    get(extender, "/v1/watch", event("DELETED", "Pod", pod("other")))
    get(extender, "/v1/watch", event("MODIFIED", "Pod", at(pod("p"), "n1", **notes)))
    assert get(extender, FILTER, ask("q"))["NodeNames"] == ["n2"]


def test_a_pod_that_another_scheduler_binds_elsewhere_gives_its_cells_back():
    extender = started()
    assert get(extender, FILTER, ask("p"))["NodeNames"] == ["n1"]
    get(extender, "/v1/watch", event("MODIFIED", "Pod", at(pod("p"), "n2")))
    assert get(extender, FILTER, ask("q"))["NodeNames"] == ["n1"]
    assert get(extender, FILTER, ask("r"))["NodeNames"] is None
    assert extender.scheduler.used_leaf_cells() == {"A": (4, 0)}


def test_a_binder_binds_and_its_failure_is_the_answers_error():
    sent = []

    def binder(binds):
        sent.append(binds["target"]["name"])
        if len(sent) > 1:
            raise OSError("no route")

    extender = Extender(HivedScheduler(CONFIG), binder)
    get(extender, FILTER, ask("p"))
    assert get(extender, BIND, binding("p", "n1"))["Error"] == ""
    assert get(extender, BIND, binding("p", "n1"))["Error"] == "binding failed: no route"
    assert sent == ["n1", "n1"]


@pytest.mark.parametrize(
    ("threshold", "nodes", "calls"),
    [(3, NODES, [0, 0, 0, 1, 2]), (0, NODES, [1, 2, 3, 4, 5]), (3, ["n2"], [1, 2, 3, 4, 5])],
)
def test_a_pod_that_kubernetes_does_not_bind_is_bound_by_force(threshold, nodes, calls):
    sent = []
    scheduler = HivedScheduler(CONFIG | {"forcePodBindThreshold": threshold})
    extender = Extender(scheduler, sent.append)
    bound = []
    for _ in calls:
        assert get(extender, FILTER, ask("p") | {"NodeNames": nodes})["NodeNames"] == ["n1"]
        bound.append(len(sent))
    assert bound == calls


class Restless(HivedScheduler):
    """Another caller commits between a decision and its commitment."""

    turns = 0

    def allocate(self, pod):
        if self.turns:
            self.turns -= 1
            raise StaleDecisionError("too late")
        super().allocate(pod)


def test_a_decision_that_comes_too_late_is_made_again():
    extender = Extender(scheduler := Restless(CONFIG))
    scheduler.turns = 2
    assert get(extender, FILTER, ask("p"))["NodeNames"] == ["n1"]
    scheduler.turns = 9
    assert "too late" in refused(extender, FILTER, ask("q", vc="B"))
    assert "too late" in refused(extender, BIND, binding("q", "n2"))


def test_a_pod_that_waits_holds_up_the_others_if_the_configuration_says_so(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    extender = Extender(HivedScheduler(CONFIG | {"waitingPodSchedulingBlockMilliSec": 250}))
    get(extender, FILTER, ask("p"))
    assert slept == []
    get(extender, FILTER, ask("q"))
    assert slept == [0.25]


def test_pods_that_come_at_once_get_cells_of_their_own():
    extender = Extender(HivedScheduler(CONFIG))
    answers = []

    def run(i):
        spec = {"number": 1, "vc": "AB"[i % 2]}
        answers.append(extender.handle(FILTER, ask(f"p{i}", **spec)))

    at_once(*(partial(run, i) for i in range(12)))
    assert [status for status, _ in answers] == [200] * 12
    assert sum(answer["NodeNames"] is not None for _, answer in answers) == 8
    assert len(get(extender, GROUPS)["items"]) == 8


@examples(120)
@given(st.data())
def test_a_bound_pod_with_a_part_replaced_is_recovered_or_refused(data):
    extender = Extender(HivedScheduler(CONFIG))
    bound = pod("p") | {"spec": {"nodeName": "n1"}}
    place = {"physicalNode": "n1", "physicalLeafCellIndices": [0, 1, 2, 3]}
    record = {"node": "n1", "leafCellIsolation": [0, 1, 2, 3], "cellChain": "RACK"}
    record["affinityGroupBindInfo"] = [{"podPlacements": [place]}]
    text = json.dumps(data.draw(broken(record)), default=str, skipkeys=True)
    bound["metadata"]["annotations"][f"{DOMAIN}/pod-bind-info"] = text
    status, answer = extender.handle("/v1/watch", {"kind": "PodList", "items": [bound]})
    assert status in (200, 400)
    json.dumps(answer)
    extender.scheduler.check()
