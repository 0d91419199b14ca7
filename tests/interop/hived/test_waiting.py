"""Pods that wait, which pods exist, and how requests are read: parts behind `hivecore serve`."""

import asyncio
import json
import random
import threading
import time

import pytest
from interop.hived.clusters import binding, config, rack
from interop.hived.clusters import filter_request as ask
from interop.hived.clusters import kubernetes_pod as pod
from interop.kubernetes.fake_api_server import FakeApiServer
from profiles import seeds

from hivecore.cells import NodeSet
from hivecore.interop.hived import Extender, HivedScheduler
from hivecore.interop.hived.serving.node_names import split_names
from hivecore.interop.kubernetes.calls import BadCall, parsed
from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.client.lease import Lease

TREE = {"NODE": (4, "GPU"), "RACK": (2, "NODE")}
CONFIG = config(TREE, [rack("n1", "n2")], {"A": {"RACK.NODE": 1}, "B": {"RACK.NODE": 1}})
FILTER, BIND = "/v1/extender/filter", "/v1/extender/bind"


@pytest.fixture
def extender():
    return Extender(HivedScheduler(CONFIG))


def filtered(extender, *arguments, **more):
    answer = extender.handle(FILTER, ask(*arguments, **more))[1]
    return answer["NodeNames"] or answer["Error"] or answer["FailedNodes"]


def gone(name):
    return {"type": "DELETED", "object": {"kind": "Pod", **pod(name)}}


def pod_list(*pods, version="", **meta):
    meta = {"resourceVersion": version, **meta}
    return {"kind": "PodList", "metadata": meta, "items": list(pods)}


# --- which pods exist


def test_after_a_list_a_pod_that_is_not_known_gets_nothing(extender):
    assert filtered(extender, "early") == ["n1"]
    assert extender.apply(pod_list(pod("p"))) == []
    assert extender.scheduler.pods() == []  # the list does not name `early`
    assert filtered(extender, "p") == ["n1"]
    assert "'x/q' (u-q) does not exist, or is not known yet" in filtered(extender, "q", vc="B")
    assert extender.apply({"type": "ADDED", "object": {"kind": "Pod", **pod("q")}}) == []
    assert filtered(extender, "q", vc="B") == ["n2"]


@pytest.mark.parametrize("why", ["", "gates", "deletion"])
def test_nothing_is_evicted_for_a_pod_that_kube_scheduler_does_not_try(extender, why):
    assert filtered(extender, "low") == ["n1"]
    report(extender, "low", "n1")
    high = {**pod("high", priority=5), "spec": {}}
    if why == "gates":
        high["spec"]["schedulingGates"] = [{"name": "quota"}]
    elif why == "deletion":
        high["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert extender.apply({"type": "MODIFIED", "object": {"kind": "Pod", **high}}) == []
    assert list(extender.victims()) == ([] if why else ["u-low"])


def report(extender, name, node=None, **more):
    """A watch tells of a pod: it is bound there, or has no node."""
    item = pod(name, **more)
    if node is not None:
        sent = extender.handle(BIND, binding(name, node))[1]["Binding"]
        item["metadata"]["annotations"] |= sent["metadata"]["annotations"]
        item["spec"] = {"nodeName": node}
    assert extender.apply({"type": "MODIFIED", "object": {"kind": "Pod", **item}}) == []


def run_low(extender):
    """Two opportunistic pods have both nodes."""
    for name in ("low", "low2"):
        report(extender, name, filtered(extender, name, priority=-1)[0], priority=-1)


def test_a_pod_whose_group_has_become_complete_keeps_no_victim_of_others(extender):
    """The service looks for victims once a second; it must not end with one pod's mistake."""
    for name, vc in (("low", "A"), ("low2", "B")):
        report(extender, name, filtered(extender, name, vc=vc, priority=-1)[0], vc=vc, priority=-1)
    declared = {"priority": 5, "group": "g", "members": [(1, 4)]}
    for name in ("p", "q"):  # one pod is declared, and two ask
        assert "to be preempted" in str(filtered(extender, name, **declared))
    [victim] = extender.victims()
    extender.apply(gone(victim.removeprefix("u-")))
    report(extender, "p", filtered(extender, "p", **declared)[0], **declared)
    assert extender.victims() == {}
    assert "to be preempted" in str(filtered(extender, "other", vc="B", priority=5))
    assert list(extender.victims()) == [{"u-low": "u-low2", "u-low2": "u-low"}[victim]]


def test_a_virtual_cluster_that_is_gone_keeps_no_victim_of_others(extender):
    run_low(extender)
    for vc in "BA":
        assert "to be preempted" in str(filtered(extender, f"of-{vc}", vc=vc, priority=5))
    extender.scheduler.reconfigure(config(TREE, [rack("n1", "n2")], {"A": {"RACK.NODE": 1}}))
    assert list(extender.victims().values()) == ["it has to stop for the group 'x/of-A'"]


def test_victims_are_those_of_what_a_pod_asks_for_now(extender):
    """Users correct the annotation of a pod that waits."""
    run_low(extender)
    report(extender, "p", priority=5, vc="A")
    assert "to be preempted" in str(filtered(extender, "p", priority=5, vc="A"))
    assert len(extender.victims()) == 1
    report(extender, "p", priority=5, vc="B")
    assert "to be preempted" in str(filtered(extender, "p", priority=5, vc="B"))
    assert len(extender.victims()) == 1
    assert extender.scheduler.affinity_group("x/p")["virtual_cluster"] == "B"


@pytest.mark.parametrize("mistake", ["another tenant", "no annotation"])
def test_nothing_is_evicted_for_a_pod_that_asks_for_a_mistake_by_now(extender, mistake):
    run_low(extender)
    assert "to be preempted" in str(filtered(extender, "p", priority=5))
    assert len(extender.victims()) == 1
    assert extender.scheduler.affinity_group("x/p") is not None
    gains = extender.gains
    if mistake == "another tenant":
        assert "known are" in filtered(extender, "p", priority=5, vc="C")
    else:
        question = ask("p")
        question["Pod"]["metadata"]["annotations"].clear()
        assert "annotations" in extender.handle(FILTER, question)[1]["Error"]
    assert extender.victims() == {}
    assert extender.scheduler.affinity_group("x/p") is None
    assert len(extender.waiting) == 0
    assert extender.gains > gains


def test_a_list_in_pages_counts_when_it_is_complete(extender):
    assert filtered(extender, "a") == ["n1"]
    assert filtered(extender, "b", vc="B") == ["n2"]
    extender.apply(pod_list(pod("a"), version="7", **{"continue": "more"}))
    assert extender.scheduler.pods() == ["u-a", "u-b"]
    # Another list begins before the first one has ended: the first does not count.
    extender.apply(pod_list(pod("b"), version="8", **{"continue": "more"}))
    extender.apply(pod_list(version="8"))
    assert extender.scheduler.pods() == ["u-b"]


def test_what_is_newer_than_a_list_stays(extender):
    new = pod("p")
    new["metadata"]["resourceVersion"] = "20"
    extender.apply(pod_list(version="5"))
    extender.apply({"type": "ADDED", "object": {"kind": "Pod", **new}})
    assert filtered(extender, "p") == ["n1"]
    extender.apply(pod_list(version="19"))
    assert extender.scheduler.pods() == ["u-p"]
    # An older event of it does not make it older.
    extender.apply({"type": "MODIFIED", "object": {"kind": "Pod", **pod("p")}})
    new["metadata"]["resourceVersion"] = "3"
    extender.apply({"type": "MODIFIED", "object": {"kind": "Pod", **new}})
    extender.apply(pod_list(version="19"))
    assert extender.scheduler.pods() == ["u-p"]
    extender.apply(pod_list(version="21"))
    assert extender.scheduler.pods() == []


def test_a_list_of_nodes_says_that_there_are_no_others_but_newer_ones(extender):
    conditions = [{"type": "Ready", "status": "True"}]

    def node(name, version):
        meta = {"name": name, "resourceVersion": version}
        return {"kind": "Node", "metadata": meta, "status": {"conditions": conditions}}

    extender.apply({"type": "ADDED", "object": node("n1", "20")})
    listed = {"kind": "NodeList", "metadata": {"resourceVersion": "10"}, "items": []}
    extender.apply(listed)
    assert filtered(extender, "p", vc="B") == ["n1"]  # n2 is gone
    extender.apply({**listed, "metadata": {"resourceVersion": "21"}})
    assert "wait" in str(filtered(extender, "q"))


def test_a_list_is_about_pods_that_another_caller_has_placed_too(extender):
    spec = {"virtualCluster": "A", "leafCellNumber": 4}
    assert extender.scheduler.schedule("default/own", spec).outcome == "bind"
    extender.scheduler.allocate("default/own")
    extender.apply(pod_list())
    assert extender.scheduler.pods() == []


def test_an_older_version_of_a_node_or_a_pod_that_is_gone_has_no_effect(extender):
    def node(version, ready):
        conditions = [{"type": "Ready", "status": str(ready)}]
        meta = {"name": "n2", "resourceVersion": version}
        return {"kind": "Node", "metadata": meta, "status": {"conditions": conditions}}

    for version, ready in (("5", False), ("4", True)):
        extender.apply({"type": "MODIFIED", "object": node(version, ready)})
        assert filtered(extender, f"p{version}", priority=-1) == ["n1"]
        extender.apply(gone(f"p{version}"))
    extender.apply({"type": "ADDED", "object": {"kind": "Pod", **pod("p5")}})
    assert "does not exist" in filtered(extender, "p5")


def test_a_binder_that_finds_no_pod_has_it_forgotten():
    def binder(binding):
        raise LookupError("no such pod")

    extender = Extender(HivedScheduler(CONFIG), binder)
    assert filtered(extender, "p") == ["n1"]
    answer = extender.handle(BIND, binding("p", "n1"))[1]
    assert answer["Error"] == "binding failed: no such pod"
    assert extender.scheduler.pods() == []


# --- what is answered


def test_what_can_never_be_served_does_not_read_like_waiting(extender):
    gang = {"group": "g", "members": [(3, 4)]}
    error = filtered(extender, "p", **gang)
    assert "12 leaf cells (3 x 4), which it can never have" in error
    assert "wait" not in error
    gang = {"group": "g", "members": [(2, 4)]}
    assert "virtual cluster 'A' is too small" in filtered(extender, "p", **gang)
    assert filtered(extender, "p", priority=-1, **gang) == ["n2"]
    assert len(extender.waiting) == 0


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_pod_of_a_gang_takes_the_slot_on_the_node_that_it_was_promised(extender, node):
    gang = {"group": "g", "members": [(2, 4)], "priority": -1}
    promised = ask("b", **gang) | {"NodeNames": [node]}
    promised["Pod"]["status"] = {"nominatedNodeName": node}
    assert extender.handle(FILTER, promised)[1]["NodeNames"] == [node]
    assert filtered(extender, "a", **gang) == list({"n1", "n2"} - {node})


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_slot_that_is_taken_is_given_to_no_other_pod(extender, node):
    gang = {"number": 2, "group": "g", "members": [(4, 2)], "priority": -1}
    nodes = []
    for name in "abcd":
        body = ask(name, **gang) | {"NodeNames": [node]}
        nodes += extender.handle(FILTER, body)[1]["NodeNames"]
    [other] = {"n1", "n2"} - {node}
    assert nodes == [node, node, other, other]
    extender.scheduler.check()


def test_a_promised_node_that_is_not_its_own_does_not_force_a_pod():
    sent = []
    extender = Extender(HivedScheduler(CONFIG), sent.append)
    assert filtered(extender, "p") == ["n1"]
    alone = ask("p") | {"NodeNames": ["n2"]}
    alone["Pod"]["status"] = {"nominatedNodeName": "n2"}
    answer = extender.handle(FILTER, alone)[1]
    assert (answer["NodeNames"], answer["FailedNodes"]) == (None, {"n2": "the pod goes to n1"})
    assert sent == []
    assert extender.handle(FILTER, ask("p") | {"NodeNames": ["n2"]})[1]["NodeNames"] == ["n1"]
    assert [binding["target"]["name"] for binding in sent] == ["n1"]


def test_a_request_that_names_no_nodes_offers_all_of_them():
    sent = []
    extender = Extender(HivedScheduler(CONFIG), sent.append)
    careful = {"ignoreK8sSuggestedNodes": False}
    for body in (ask("p", **careful) | {"NodeNames": None}, {"Pod": pod("q", vc="B", **careful)}):
        assert len(extender.handle(FILTER, body)[1]["NodeNames"]) == 1
    assert sent == []


def test_a_node_that_is_not_offered_yet_is_waited_for_once():
    sent = []
    extender = Extender(HivedScheduler(CONFIG), sent.append)
    extender.touches = True
    elsewhere = ask("p") | {"NodeNames": ["n2"]}
    answer = extender.handle(FILTER, elsewhere)[1]
    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {"n1": "the pod goes to n1, which is not offered yet"}
    assert sent == []
    now = time.monotonic()
    assert due(extender, now) == []
    assert due(extender, now + 0.2) == ["p"]
    assert extender.handle(FILTER, elsewhere)[1]["NodeNames"] == ["n1"]
    assert [binding["target"]["name"] for binding in sent] == ["n1"]
    assert len(extender.waiting) == 0


def test_a_pod_that_waits_holds_no_other_up():
    slow = Extender(HivedScheduler({**CONFIG, "waitingPodSchedulingBlockMilliSec": 3_600_000}))
    assert filtered(slow, "p") == ["n1"]
    waiting = threading.Thread(target=filtered, args=(slow, "q"), daemon=True)
    waiting.start()
    while len(slow.waiting) < 1:
        time.sleep(0.001)
    assert filtered(slow, "r", vc="B") == ["n2"]
    assert waiting.is_alive()


# --- node names


@pytest.mark.parametrize("seed", seeds(40))
def test_bodies_are_read_the_same_whatever_was_read_before(seed):
    rng = random.Random(seed)
    last, split = None, 0
    lists = [[f"node-{rng.random()}" for _ in range(rng.randint(90, 200))] for _ in range(3)]
    for _ in range(120):
        body = {"Pod": {"metadata": {"name": str(rng.random())}}, "Nodes": None}
        body["NodeNames"] = rng.choice(lists)
        text = json.dumps(body, separators=(",", ":")).encode()
        kind = rng.randrange(5)
        if kind == 1:  # the names inside of something else
            inner = text[text.index(b',"NodeNames"') :].decode()
            text = json.dumps({"Pod": "x" + inner}, separators=(",", ":")).encode()
        elif kind == 2:
            text = text[: rng.randrange(len(text))]
        elif kind == 3:
            text = text[:-1] + rng.choice([b',"more":1}', b"}}", b"]", b" }"])
        elif kind == 4:
            text = b"[" + text + b"]"
        try:
            expected = parsed(text)
        except BadCall:
            with pytest.raises(BadCall, match="no JSON"):
                fields, nodes = split_names(text, last)
                nodes.node_set()
            continue
        fields, nodes = split_names(text, last)
        if nodes is not None:
            split += 1
            fields = {**fields, "NodeNames": expected["NodeNames"]}
            assert nodes.node_set() == NodeSet(expected["NodeNames"])
            assert expected["NodeNames"][0] in nodes
            assert expected["NodeNames"][0][:-1] not in nodes
            last = nodes
        assert fields == expected
    assert split > 3


# --- waiting


def due(extender, now):
    return [waiting.pod.name for waiting in extender.waiting.to_touch(now) if waiting is not None]


def test_as_many_are_touched_as_would_get_something_and_the_longest_waiting_first(extender):
    for name, vc in (("a", "A"), ("b", "B")):
        filtered(extender, name, vc=vc)
    for name, vc in (("a2", "A"), ("b2", "B"), ("a3", "A"), ("a4", "A")):
        filtered(extender, name, vc=vc, number=2 if name != "b2" else 4)
    now = time.monotonic()
    assert due(extender, now) == []
    extender.apply(gone("a"))
    extender.waiting.look_again(now)
    assert due(extender, now) == ["a2", "a3"]  # not a4, and not what waits for B
    extender.waiting.look_again(now + 0.5)
    assert due(extender, now + 0.5) == []  # at most once a second
    assert due(extender, now + 1) == ["a2", "a3"]
    assert due(extender, now + 1.9) == []


def test_a_pod_that_does_not_come_keeps_no_other_from_being_touched(extender):
    filtered(extender, "a")
    for name in ("a2", "a3"):
        filtered(extender, name)
    extender.apply(gone("a"))
    touched = []
    for now in range(8):
        extender.waiting.look_again(float(now))
        touched += due(extender, float(now))
    assert touched == ["a2", "a2", "a2", "a3", "a3", "a3", "a2", "a2"]


def test_all_pods_of_a_gang_are_touched_together(extender):
    filtered(extender, "low", number=1, priority=-1)
    gang = {"group": "g", "members": [(2, 4)], "priority": -1}
    for name in "xy":
        assert "Pod is waiting" in str(filtered(extender, name, **gang))
    filtered(extender, "alone", number=4, priority=-1)
    extender.apply(gone("low"))
    extender.apply(gone("alone"))
    extender.waiting.look_again(0.0)
    assert due(extender, 0.0) == ["x", "y"]


def test_a_pod_of_a_gang_is_touched_when_another_one_was_offered_nodes_that_do_for_both(extender):
    gang = {"group": "g", "members": [(1, 4), (1, 1)], "priority": -1}
    gang["ignoreK8sSuggestedNodes"] = False
    [taken] = filtered(extender, "low", number=1, priority=-1)
    [free] = {"n1", "n2"} - {taken}
    large = ask("large", **gang) | {"NodeNames": [free]}
    assert "Pod is waiting" in str(extender.handle(FILTER, large)[1])
    assert due(extender, 0.0) == []
    assert filtered(extender, "small", number=1, **gang) == [taken]
    assert extender.waiting.is_sooner
    assert due(extender, 0.0) == ["large"]
    assert extender.handle(FILTER, large)[1]["NodeNames"] == [free]
    assert len(extender.waiting) == 0


def test_a_pod_that_is_not_asked_for_is_touched_less_and_less(extender):
    filtered(extender, "a")
    filtered(extender, "a2")
    extender.apply(gone("a"))
    extender.waiting.look_again(0.0)
    touched = [now for now in range(400) if due(extender, float(now))]
    assert touched == [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]
    filtered(extender, "a2")
    assert len(extender.waiting) == 0


def test_a_pod_is_touched_for_more_than_it_was_answered_last(extender):
    filtered(extender, "p", priority=5)
    assert "Pod is waiting" in str(filtered(extender, "q", priority=3))
    extender.apply(gone("p"))
    filtered(extender, "low")
    assert "to be preempted: x/low" in str(filtered(extender, "q", priority=3))
    extender.waiting.look_again(0.0)
    assert due(extender, 0.0) == []
    extender.apply(gone("low"))
    extender.waiting.look_again(1.0)
    assert due(extender, 1.0) == ["q"]


def test_pods_that_are_bound_or_gone_wait_no_more(extender):
    filtered(extender, "a")
    for name in ("b", "c"):
        filtered(extender, name)
    assert len(extender.waiting) == 2
    extender.apply(gone("b"))
    bound = {"kind": "Pod", **pod("c"), "spec": {"nodeName": "n7"}}
    extender.apply({"type": "MODIFIED", "object": bound})
    assert len(extender.waiting) == 0


def test_a_preempting_group_is_touched_when_its_victims_are_gone(extender):
    for name in ("low1", "low2"):
        filtered(extender, name, priority=-1)
    high = {"priority": 5, "vc": "A"}
    assert "to be preempted: x/low" in str(filtered(extender, "high", **high))
    victims = {"n1": {"Pods": []}, "n2": {"Pods": []}}
    body = {"Pod": pod("high", **high), "NodeNameToMetaVictims": victims}
    answer = extender.handle("/v1/extender/preempt", body)[1]["NodeNameToMetaVictims"]
    [(_, evicted)] = answer.items()
    [victim] = evicted["Pods"]
    extender.waiting.look_again(0.0)
    assert due(extender, 0.0) == []
    extender.apply(gone(victim["UID"].removeprefix("u-")))
    extender.waiting.look_again(5.0)
    assert due(extender, 5.0) == ["high"]


def test_what_was_reserved_is_for_others_when_a_higher_priority_takes_over_a_part_of_it():
    owned = {"A": {"RACK.NODE": 2}}
    extender = Extender(HivedScheduler(config(TREE, [rack("n1", "n2")], owned)))
    for name in ("low1", "low2"):
        filtered(extender, name, priority=-1)
    gang = {"priority": 1, "group": "g", "members": [(2, 4)]}
    filtered(extender, "p", **gang)
    assert sorted(extender.victims()) == ["u-low1", "u-low2"]  # reserves the cells of both
    for name in ("low1", "low2"):
        extender.apply(gone(name))
    assert "Pod is waiting" in str(filtered(extender, "idle", priority=-1))
    before = extender.gains
    assert filtered(extender, "high", priority=5) == ["n1"]  # the gang gives both nodes up
    assert extender.gains > before
    extender.waiting.look_again(0.0)
    assert due(extender, 0.0) == ["idle"]


def test_what_another_scheduler_binds_elsewhere_leaves_its_cells_to_pods_that_wait(extender):
    filtered(extender, "p")
    filtered(extender, "q")
    before = extender.gains
    elsewhere = {"kind": "Pod", **pod("p"), "spec": {"nodeName": "n7"}}
    extender.apply({"type": "MODIFIED", "object": elsewhere})
    assert extender.gains == before + 1
    extender.apply({"type": "MODIFIED", "object": elsewhere})
    assert extender.gains == before + 1
    extender.waiting.look_again(0.0)
    assert due(extender, 0.0) == ["q"]


# --- leases


def test_of_several_one_holds_the_lease_until_it_stops_renewing(tmp_path):
    async def run(api):
        server = await ApiServer.of_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        said = []
        first, second = (
            Lease(server, "x", "lease", name, said.append, seconds=1) for name in ("a", "b")
        )
        await first.acquire()
        holding = asyncio.ensure_future(first.hold())
        waiting = asyncio.ensure_future(second.acquire())
        await asyncio.sleep(2.5)
        assert not waiting.done()
        assert not holding.done()
        holding.cancel()  # as if it were killed
        await asyncio.wait_for(waiting, 5)
        lease = api.objects["leases"]["x", "lease"]["spec"]
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("b", 1)
        # The first one comes back, and sees that it has lost it.
        await asyncio.wait_for(first.hold(), 5)
        # One that cannot renew gives up before another one could take over.
        holding = asyncio.ensure_future(second.hold())
        api.refuse = lambda request: 500
        started = time.monotonic()
        await asyncio.wait_for(holding, 5)
        assert time.monotonic() - started < 1
        assert "made up (status 500)" in said[-1]
        await server.close()

    with FakeApiServer() as api:
        asyncio.run(run(api))


def test_a_leader_that_gets_no_answer_gives_up_in_time_too():
    class Silent:
        async def request(self, *_, **__):
            await asyncio.sleep(60)

    async def run():
        said = []
        lease = Lease(Silent(), "x", "lease", "a", said.append, seconds=1)
        started = time.monotonic()
        await asyncio.wait_for(lease.hold(), 5)
        assert time.monotonic() - started < 1  # then another one may take it over
        assert said == ["lease lease: no answer in time"]

    asyncio.run(run())
