"""HiveD at the level of pods, rule by rule, on clusters small enough to follow by hand."""

import json
import random
import unittest.mock

import numpy as np
import pytest
from interop.hived.clusters import (
    FLAT,
    bind,
    config,
    flat,
    flat_config,
    node,
    nodes,
    picture,
    spec,
    walk,
)
from profiles import seeds

from hivecore._sealed import seal, unseal
from hivecore.cells import NodeSet
from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.interop.hived import ConfigError, HivedConfig, HivedScheduler, RequestError

GANG = spec(group="gang", members=[(2, 4)])
EVERYBODY = [f"n{i}" for i in range(4)]


# --- mistakes of users


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (None, "spec"),
        ({"leafCellNumber": 1}, "virtualCluster"),
        (spec(vc=""), "virtualCluster"),
        (spec(vc="Z"), "'Z'"),
        (spec(vc=7), "virtualCluster"),
        (spec(priority=-2), "priority=-2"),
        (spec(priority=1001), "priority=1001"),
        (spec(priority="high"), "priority"),
        (spec(priority=True), "priority"),
        ({"virtualCluster": "A"}, "leafCellNumber=0"),
        (spec(number=0), "leafCellNumber=0"),
        (spec(number=-1), "leafCellNumber=-1"),
        (spec(number=1.5), "leafCellNumber"),
        (spec(number=2**31), "leafCellNumber"),
        (spec(group=""), "affinityGroup.name"),
        (spec(affinityGroup=[]), "affinityGroup"),
        (spec(affinityGroup={"name": "g"}), "members"),
        (spec(affinityGroup={"name": "g", "members": "12"}), "members"),
        (spec(affinityGroup={"name": "g", "members": [3]}), "members[0]"),
        (spec(affinityGroup={"name": "g", "members": []}), "members"),
        (spec(group="g", members=[(0, 4)]), "podNumber=0"),
        (spec(group="g", members=[(1, 4), (1, 0)]), "members[1].leafCellNumber=0"),
        (spec(group="g", members=[(1, 4), (-1, 1)]), "members[1].podNumber=-1"),
        (spec(group="g", members=[(1, 2)]), "leafCellNumber=4"),
        (spec(pinnedCellId="nowhere"), "nowhere"),
        (spec(vc="B", pinnedCellId="P"), "'P'"),
        (spec(pinnedCellId="P", priority=-1), "pinnedCellId"),
        (spec(leafCellType="TPU"), "TPU"),
        (spec(leafCellType="K80"), "K80"),
        (spec(leafCellType=3), "leafCellType"),
        (spec(lazyPreemptionEnable="yes"), "lazyPreemptionEnable"),
        (spec(ignoreK8sSuggestedNodes=1), "ignoreK8sSuggestedNodes"),
    ],
)
def test_a_mistake_of_the_user_is_named_and_changes_nothing(request_, named):
    types = FLAT | {"K80-NODE": (2, "K80")}
    cells = [node("n0"), node("n1", pinnedCellId="P"), node("k0", "K80-NODE")]
    scheduler = HivedScheduler(config(types, cells, {"A": ({"NODE": 1}, ["P"]), "B": {}}))
    before = picture(scheduler)
    for phase in ("Filtering", "Preempting"):
        with pytest.raises(RequestError) as error:
            scheduler.schedule("ns/p", request_, phase)
        assert named in str(error.value)
    assert picture(scheduler) == before
    with pytest.raises(RequestError, match="no decision"):
        scheduler.allocate("ns/p")


@pytest.mark.parametrize(
    "pod", ["", 3, None, {}, {"name": ""}, {"name": 3}, {"metadata": 1}, {"name": "p", "uid": 5}]
)
def test_what_is_no_pod_is_refused_everywhere(pod):
    scheduler = HivedScheduler(flat_config())
    record = {"node": "n0", "leafCellIsolation": [0], "cellChain": "NODE"}
    for call in (
        lambda: scheduler.schedule(pod, spec()),
        lambda: scheduler.allocate(pod),
        lambda: scheduler.delete(pod),
        lambda: scheduler.bind_info(pod),
        lambda: scheduler.recover(pod, spec(number=1), record),
    ):
        with pytest.raises(RequestError, match=r"pod|name"):
            call()


@pytest.mark.parametrize("members", [[(2, 5)], [(1, 4), (2**31 - 1, 2**31 - 1)], [(9, 5), (1, 4)]])
@pytest.mark.parametrize("priority", [-1, 0])
@pytest.mark.parametrize("phase", ["Filtering", "Preempting"])
def test_a_pod_that_is_larger_than_every_node_is_refused_at_once(members, priority, phase):
    scheduler = HivedScheduler(flat_config())
    before = picture(scheduler)
    request = spec(number=members[0][1], group="g", members=members, priority=priority)
    with pytest.raises(RequestError, match=r"spec: leafCellNumber=\d+: no node has more than 4"):
        scheduler.schedule("p", request, phase)
    assert picture(scheduler) == before


def mixed(tpus=1):
    """Nodes of four GPUs, two of which A owns, and nodes of eight TPUs that no tenant owns."""
    cells = [*nodes("n0", "n1"), *(node(f"tpu{i}", "BIG-NODE") for i in range(tpus))]
    types = {"NODE": (4, "GPU"), "BIG-NODE": (8, "TPU")}
    return config(types, cells, {"A": {"NODE": 2}, "B": {}})


def test_only_the_chains_that_a_pod_may_use_count_for_its_size():
    scheduler = HivedScheduler(mixed())
    with pytest.raises(RequestError) as caught:
        scheduler.schedule("p", spec(number=5))
    assert str(caught.value) == (
        "spec: group 'p' can never be served: chain 'NODE': a pod asks for 5 leaves, a cell of "
        "level 'NODE' has 4"
    )
    assert scheduler.schedule("p", spec(number=5, priority=-1)).node == "tpu0"
    with pytest.raises(RequestError, match="can never be served"):
        scheduler.schedule("p", spec(number=5, priority=-1, leafCellType="GPU"))
    scheduler.check()


def test_a_running_pod_is_taken_up_however_small_the_nodes_are_by_now():
    large = HivedScheduler(mixed())
    request = spec(number=8, priority=-1)
    bind(large, "p", request)
    record = large.bind_info("p")
    small = HivedScheduler(mixed(tpus=0))
    recovery = small.recover("p", request, record)
    assert len(recovery.lost) == 8
    assert small.schedule("p", request).outcome == "bind"
    large.reconfigure(mixed(tpus=0))
    assert large.schedule("p", request).outcome == "bind"
    gang = spec(number=8, group="p", members=[(1, 8)], priority=-1)
    large.delete("p")
    with pytest.raises(RequestError, match="no node has more than 4"):
        large.schedule("p", gang)


# --- pods and groups


def test_a_pod_is_known_by_its_uid_and_its_group_by_its_name():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, {"namespace": "ns", "name": "p", "uid": "u-1"}, spec())
    bind(scheduler, {"metadata": {"name": "q"}}, spec())
    assert scheduler.affinity_group("ns/p")["allocated_pods"] == ["u-1"]
    assert scheduler.affinity_group("default/q")["allocated_pods"] == ["default/q"]
    scheduler.delete("u-1")
    scheduler.delete("default/q")
    assert scheduler.affinity_groups() == {"items": []}


def test_the_first_pod_places_the_whole_group_and_the_others_take_the_next_slots():
    scheduler = HivedScheduler(flat_config())
    first = scheduler.schedule("a", GANG)
    assert [row["leaf_cell_number"] for row in first.group] == [4]
    places = [(pod["node"], tuple(pod["leaf_cells"])) for pod in first.group[0]["pods"]]
    assert len(set(places)) == 2
    assert bind(scheduler, "a", GANG) == places[0]
    assert bind(scheduler, "b", GANG) == places[1]
    before = picture(scheduler)
    with pytest.raises(RequestError, match="one more"):
        scheduler.schedule("c", GANG)
    with pytest.raises(RequestError, match="one more"):
        scheduler.schedule("c", spec(number=1, group="gang"))
    assert picture(scheduler) == before


def test_members_of_one_size_are_merged():
    scheduler = HivedScheduler(flat_config())
    request = spec(number=1, group="g", members=[(1, 1), (1, 2), (2, 1)])
    decision = scheduler.schedule("a", request)
    assert [(row["leaf_cell_number"], len(row["pods"])) for row in decision.group] == [
        (1, 3),
        (2, 1),
    ]
    for pod in "abc":
        bind(scheduler, pod, request)
    with pytest.raises(RequestError):
        scheduler.schedule("d", request)
    bind(scheduler, "d", request | {"leafCellNumber": 2})
    taken = [
        (pod["node"], leaf)
        for row in scheduler.affinity_group("g")["placements"]
        for pod in row["pods"]
        for leaf in pod["leaf_cells"]
    ]
    assert len(taken) == len(set(taken)) == 5


def test_a_group_is_held_from_its_first_pod_to_its_last():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 2}}))
    bind(scheduler, "a", GANG)
    assert scheduler.schedule("x", spec()).outcome == "wait"
    bind(scheduler, "b", GANG)
    scheduler.delete("a")
    assert scheduler.schedule("x", spec()).outcome == "wait"
    scheduler.delete("b")
    assert scheduler.affinity_group("gang") is None
    assert scheduler.schedule("x", spec()).outcome == "bind"


def test_pods_that_were_never_bound_hold_nothing():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 2}}))
    bind(scheduler, "a", GANG)
    assert scheduler.schedule("b", GANG).outcome == "bind"
    scheduler.delete("a")
    assert scheduler.affinity_group("gang") is None
    with pytest.raises(StaleDecisionError):
        scheduler.allocate("b")


def test_a_retried_member_gets_the_very_same_cells_on_a_bad_or_not_suggested_node():
    request = GANG | {"ignoreK8sSuggestedNodes": False}
    scheduler = HivedScheduler(flat_config())
    place, other = (bind(scheduler, pod, request, suggested_nodes=EVERYBODY) for pod in "ab")
    scheduler.set_node(place[0], False)
    scheduler.delete("a")
    assert bind(scheduler, "a2", request, suggested_nodes=[other[0]]) == place
    assert bind(scheduler, "a2", request, suggested_nodes=[]) == place


def test_the_old_names_of_the_gpu_fields_mean_the_same():
    scheduler = HivedScheduler(flat_config())
    old = {
        "virtualCluster": "A",
        "gpuType": "GPU",
        "gpuNumber": 4,
        "affinityGroup": {"name": "gang", "members": [{"podNumber": 2, "gpuNumber": 4}]},
    }
    assert scheduler.schedule("a", old) == scheduler.schedule(
        "a", GANG | {"leafCellType": "GPU", "gangReleaseEnable": True, "version": "v1"}
    )


def test_null_means_the_default():
    scheduler = HivedScheduler(flat_config())
    empty = dict.fromkeys(
        ["priority", "pinnedCellId", "leafCellType", "affinityGroup", "lazyPreemptionEnable"]
    )
    assert scheduler.schedule("a", spec() | empty) == scheduler.schedule("a", spec())


def test_a_pod_stays_with_its_group():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    with pytest.raises(RequestError, match="'gang'"):
        scheduler.schedule("a", spec())
    bind(scheduler, "b", spec("B"))
    scheduler.schedule("c", spec("B", priority=1), "Preempting")
    with pytest.raises(RequestError, match="'c'"):
        scheduler.schedule("c", spec("B", group="other"))
    scheduler.check()


# --- suggested nodes


def test_suggested_nodes_count_only_where_the_pod_says_so():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 1}}))
    assert scheduler.schedule("a", spec(), suggested_nodes=[]).outcome == "bind"
    choosy = spec(ignoreK8sSuggestedNodes=False)
    assert scheduler.schedule("a", choosy, suggested_nodes=["n3", "cpu-1"]).node == "n3"
    assert scheduler.schedule("a", choosy, suggested_nodes=["cpu-1"]).outcome == "wait"
    assert scheduler.schedule("a", choosy).outcome == "bind"
    with pytest.raises(TypeError, match="suggested_nodes"):
        scheduler.schedule("a", choosy, suggested_nodes="n3")


class PlainNodes:
    """What a caller offers as a plain set."""

    def __init__(self, names):
        self.names = set(names)

    def __contains__(self, name):
        return name in self.names

    def node_set(self):
        return NodeSet(sorted(self.names))


@pytest.mark.parametrize("seed", seeds(30))
def test_how_nodes_are_suggested_does_not_matter(seed):
    """One list that is changed in place, equal ones, others in another order: as a plain set."""
    rng = random.Random(seed)
    tenants = {"A": {"NODE": 6}, "B": {"NODE": 4}}
    scheduler, plain = (HivedScheduler(flat_config(12, tenants)) for _ in range(2))
    everybody = [*(f"n{i}" for i in range(12)), "cpu-1"]
    offered = list(everybody)
    running = []
    for step in range(60):
        if rng.random() < 0.4:
            offered[:] = rng.sample(everybody, rng.choice([0, 3, 12, 13]))
        elif rng.random() < 0.5:
            offered = ["".join(name) for name in rng.choice([offered, everybody])]
        members = [(rng.randint(1, 3), rng.choice([1, 2, 4]))]
        ask = spec(
            rng.choice("AB"), members[0][1], f"g{step}", members, priority=rng.choice([-1, 1])
        )
        ask["ignoreK8sSuggestedNodes"] = rng.random() < 0.3
        for i in range(members[0][0]):
            pod = f"g{step}/{i}"
            if rng.random() < 0.3:
                rng.shuffle(offered)
            names = rng.choice([offered, tuple(offered), NodeSet(offered), iter(offered)])
            decision = scheduler.schedule(pod, ask, suggested_nodes=names)
            assert decision == plain.schedule(pod, ask, suggested_nodes=PlainNodes(offered))
            if decision.outcome != "bind":
                break
            if not ask["ignoreK8sSuggestedNodes"] and not i:
                assert {slot["node"] for slot in decision.group[0]["pods"]} <= set(offered)
            for each in (scheduler, plain):
                each.allocate(pod)
            running.append(pod)
        while running and rng.random() < 0.5:
            gone = running.pop(rng.randrange(len(running)))
            for each in (scheduler, plain):
                each.delete(gone)
    assert scheduler.status() == plain.status()
    scheduler.check()


def test_every_list_of_names_is_checked():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 1}}))
    choosy = spec(ignoreK8sSuggestedNodes=False)
    names = ["n1", "n2"]
    assert scheduler.schedule("a", choosy, suggested_nodes=names).outcome == "bind"
    names[1] = unittest.mock.ANY  # equal to everything
    with pytest.raises(TypeError, match="suggested_nodes must be names, not _ANY"):
        scheduler.schedule("a", choosy, suggested_nodes=names)
    names.pop()
    assert scheduler.schedule("a", choosy, suggested_nodes=names).node == "n1"


# --- allocate and delete


def test_allocating_needs_a_decision_and_twice_is_once():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 1}}))
    bind(scheduler, "a", spec())
    before = picture(scheduler)
    scheduler.allocate("a")
    assert scheduler.schedule("b", spec()).outcome == "wait"
    with pytest.raises(RequestError, match="schedule it first"):
        scheduler.allocate("b")
    assert picture(scheduler) == before


def test_a_decision_that_others_overtook_is_stale_and_can_be_asked_again():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 1}}))
    assert scheduler.schedule("a", spec()).outcome == "bind"
    bind(scheduler, "b", spec())
    before = picture(scheduler)
    with pytest.raises(StaleDecisionError):
        scheduler.allocate("a")
    assert picture(scheduler) == before
    scheduler.delete("b")
    assert scheduler.schedule("a", spec()).outcome == "bind"
    scheduler.allocate("a")


def test_two_pods_that_were_offered_one_slot_do_not_share_it():
    scheduler = HivedScheduler(flat_config())
    assert scheduler.schedule("a", GANG) == scheduler.schedule("b", GANG)
    scheduler.allocate("a")
    with pytest.raises(StaleDecisionError, match="'a'"):
        scheduler.allocate("b")
    assert bind(scheduler, "b", GANG) != scheduler.schedule("a", GANG).node
    scheduler.check()


def test_a_pod_that_was_offered_another_placement_of_its_group_asks_again():
    scheduler = HivedScheduler(flat_config())
    old = scheduler.schedule("a", GANG).group[0]["pods"][0]["node"]
    scheduler.set_node(old, False)
    bind(scheduler, "b", GANG)
    with pytest.raises(StaleDecisionError, match="elsewhere"):
        scheduler.allocate("a")
    assert bind(scheduler, "a", GANG)[0] != old


def test_a_wait_withdraws_an_earlier_bind():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 1}}))
    scheduler.schedule("a", spec())
    scheduler.set_node("n0", False)
    for name in EVERYBODY:
        scheduler.set_node(name, False)
    assert scheduler.schedule("a", spec()).outcome == "wait"
    with pytest.raises(RequestError):
        scheduler.allocate("a")


def test_deleting_unknown_or_merely_scheduled_pods_changes_nothing():
    scheduler = HivedScheduler(flat_config())
    before = picture(scheduler)
    scheduler.delete("unknown")
    scheduler.schedule("a", spec())
    scheduler.delete("a")
    assert picture(scheduler) == before
    with pytest.raises(RequestError):
        scheduler.allocate("a")


# --- preemption


def full():
    """A owns both nodes; two opportunistic pods of a gang are on both."""
    scheduler = HivedScheduler(flat_config(2, {"A": {"NODE": 2}, "B": {}}))
    low = spec("B", group="low", members=[(2, 4)], priority=-1)
    bind(scheduler, "low-1", low)
    bind(scheduler, "low-0", low)
    return scheduler


def test_preempting_in_phase_filtering_changes_nothing():
    scheduler = full()
    before = picture(scheduler)
    decision = scheduler.schedule("high", spec())
    assert decision.outcome == "preempt"
    assert decision.victims == ["low-0", "low-1"]
    assert decision.victims_by_node == {"n0": ["low-0"], "n1": ["low-1"]}
    assert decision.node in ("n0", "n1")
    assert "low" in decision.reason
    assert picture(scheduler) == before
    with pytest.raises(RequestError):
        scheduler.allocate("high")


def test_a_preemption_goes_from_reservation_to_bind():
    scheduler = full()
    planned = scheduler.schedule("high", spec(), "Preempting")
    assert planned.outcome == "preempt"
    group = scheduler.affinity_group("high")
    assert (group["state"], group["preempting_pods"]) == ("Preempting", ["high"])
    assert scheduler.affinity_group("low")["state"] == "BeingPreempted"
    assert scheduler.schedule("equal", spec(number=4, group="equal")).node != planned.node
    scheduler.check()
    scheduler.delete("low-0")
    assert scheduler.schedule("high", spec(), "Preempting").victims == ["low-1"]
    scheduler.delete("low-1")
    assert bind(scheduler, "high", spec()) == (planned.node, tuple(planned.leaf_cells))
    group = scheduler.affinity_group("high")
    assert (group["state"], group["preempting_pods"]) == ("Allocated", [])


def test_a_preemption_ends_with_the_last_pod_that_asks_for_it():
    scheduler = full()
    before = picture(scheduler)
    gang = spec(group="g", members=[(2, 4)])
    for pod in "ab":
        assert scheduler.schedule(pod, gang, "Preempting").outcome == "preempt"
    assert scheduler.affinity_group("g")["preempting_pods"] == ["a", "b"]
    scheduler.delete("a")
    assert scheduler.affinity_group("g")["preempting_pods"] == ["b"]
    scheduler.delete("b")
    assert scheduler.affinity_group("g") is None
    assert scheduler.affinity_group("low")["state"] == "Allocated"
    assert picture(scheduler) == before


def test_all_pods_of_a_preempting_gang_get_their_places_when_the_victims_are_gone():
    hived = flat(3, {"A": {"NODE": 3}})
    hived.gang("low", "A", [(2, 4)])
    request = {"members": [(2, 4), (1, 2)], "priority": 1}
    sizes = {"high/0": 4, "high/1": 4, "high/2": 2}
    for pod, size in sizes.items():
        assert set(hived.preempting(pod, "A", size, **request).victims) == {"low/0", "low/1"}
    hived.gone("low/0", "low/1")
    places = [hived.run(pod, "A", size, **request) for pod, size in reversed(sizes.items())]
    assert {place.node for place in places} == {"n0", "n1", "n2"}
    assert hived.state("high") == "Allocated"


def test_a_pod_of_an_undeclared_size_does_not_join_a_preemption():
    scheduler = full()
    scheduler.schedule("a", spec(group="g", members=[(2, 4)]), "Preempting")
    with pytest.raises(RequestError, match="'g'"):
        scheduler.schedule("b", spec(number=2, group="g"), "Preempting")
    with pytest.raises(RequestError, match="'g'"):
        scheduler.outlook().outcome("b", spec(number=2, group="g"))
    scheduler.check()


@pytest.mark.parametrize("how", ["bad", "not suggested"])
def test_a_planned_node_that_is_lost_is_given_up_in_phase_preempting_only(how):
    scheduler = full()
    request = spec(ignoreK8sSuggestedNodes=False)
    old = scheduler.schedule("high", request, "Preempting", EVERYBODY).node
    suggested = EVERYBODY
    if how == "bad":
        scheduler.set_node(old, False)
    else:
        suggested = [node for node in EVERYBODY if node != old]
    before = scheduler.affinity_group("high")
    filtered = scheduler.schedule("high", request, "Filtering", suggested)
    assert (filtered.node == old) == (how == "not suggested")  # while its victims are there
    assert scheduler.affinity_group("high") == before
    decision = scheduler.schedule("high", request, "Preempting", suggested)
    assert decision.outcome == "preempt"
    assert decision.node != old
    assert scheduler.affinity_group("high")["placements"][0]["pods"][0]["node"] == decision.node
    scheduler.check()


def test_all_pods_that_asked_go_along_with_a_new_plan():
    scheduler = HivedScheduler(flat_config(3, {"A": {"NODE": 3}, "B": {}}))
    for pod in ("low-0", "low-1", "low-2"):
        bind(scheduler, pod, spec("B", priority=-1))
    gang = spec(group="g", members=[(2, 4)])
    for pod in "ab":
        node = scheduler.schedule(pod, gang, "Preempting").node
    scheduler.set_node(node, False)
    scheduler.schedule("a", gang, "Preempting")
    assert scheduler.affinity_group("g")["preempting_pods"] == ["a", "b"]
    scheduler.delete("a")
    scheduler.delete("b")
    assert scheduler.affinity_group("g") is None
    scheduler.check()


def test_a_preemption_without_any_node_left_is_given_up():
    scheduler = full()
    scheduler.schedule("high", spec(), "Preempting")
    for name in EVERYBODY:
        scheduler.set_node(name, False)
    assert scheduler.schedule("high", spec(), "Preempting").outcome == "wait"
    assert scheduler.affinity_group("high") is None
    scheduler.check()
    scheduler.delete("high")
    assert scheduler.affinity_group("low")["state"] == "Allocated"


def test_lazy_preemption_downgrades_before_it_preempts():
    scheduler = HivedScheduler(flat_config(2, {"A": {"NODE": 1}, "B": {"NODE": 1}}))
    bind(scheduler, "lazy", spec(lazyPreemptionEnable=True))
    assert bind(scheduler, "high", spec(priority=5))
    group = scheduler.affinity_group("lazy")
    assert (group["state"], group["guaranteed"]) == ("Allocated", False)
    assert group["lazy_preempted_by"] == "high"
    status = scheduler.affinity_group_status("lazy")["status"]
    assert status["lazyPreemptionStatus"] == {"preemptor": "high"}
    assert "virtualPlacement" not in status
    assert scheduler.schedule("b", spec("B")).victims == ["lazy"]


# --- restart


def records(scheduler, pods):
    """What a restart finds: JSON texts."""
    return {pod: json.dumps(scheduler.bind_info(pod)) for pod in pods}


def test_the_record_of_a_bound_pod_is_hived_s():
    scheduler = HivedScheduler(flat_config(1, {"A": {"NODE": 1}}))
    request = spec(number=1, group="g", members=[(1, 1), (1, 2)])
    scheduler.schedule("a", request)
    expected = {
        "node": "n0",
        "leafCellIsolation": [0],
        "cellChain": "NODE",
        "affinityGroupBindInfo": [
            {
                "podPlacements": [
                    {
                        "physicalNode": "n0",
                        "physicalLeafCellIndices": [0],
                        "preassignedCellTypes": ["NODE"],
                    }
                ]
            },
            {
                "podPlacements": [
                    {
                        "physicalNode": "n0",
                        "physicalLeafCellIndices": [2, 3],
                        "preassignedCellTypes": ["NODE", "NODE"],
                    }
                ]
            },
        ],
    }
    assert scheduler.bind_info("a") == expected
    scheduler.allocate("a")
    assert scheduler.bind_info("a") == expected
    with pytest.raises(RequestError, match="not bound"):
        scheduler.bind_info("b")


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
@pytest.mark.parametrize("healthy", [True, False])
def test_a_restart_finds_everything_where_it_was(order, healthy):
    requests = {"a": GANG, "b": GANG, "c": spec("B", 2, priority=-1)}
    scheduler = HivedScheduler(flat_config())
    places = {pod: bind(scheduler, pod, requests[pod]) for pod in "abc"}
    kept = records(scheduler, "abc")
    again = HivedScheduler(flat_config(), initially_healthy=healthy)
    for pod in order:
        recovery = again.recover(pod, requests[pod], json.loads(kept[pod]))
        assert (recovery is None) == (
            pod in "ab" and order.index(pod) > min(map(order.index, "ab"))
        )
        again.check()
    for name in EVERYBODY:
        again.set_node(name, True)
    for pod in "abc":
        assert bind(again, pod, requests[pod]) == places[pod]
    for name in ("gang", "c"):
        assert again.affinity_group(name) == scheduler.affinity_group(name)
    assert again.free_cells() == scheduler.free_cells()


def test_records_with_the_old_names_are_read():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    text = json.dumps(scheduler.bind_info("a"))
    text = text.replace("leafCellIsolation", "gpuIsolation")
    text = text.replace("physicalLeafCellIndices", "physicalGpuIndices")
    again = HivedScheduler(flat_config())
    assert again.recover("a", GANG, json.loads(text)).downgraded is False
    assert picture(again)[0] == picture(scheduler)[0]


def test_recovering_a_bound_pod_again_changes_nothing_if_it_is_there():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    before = picture(scheduler)
    record = scheduler.bind_info("a")
    assert scheduler.recover("a", GANG, record) is None
    elsewhere = dict(zip(("node", "leafCellIsolation"), ("n9", [0, 1, 2, 3]), strict=True))
    with pytest.raises(RequestError, match="elsewhere"):
        scheduler.recover("a", GANG, record | elsewhere)
    with pytest.raises(RequestError, match="'gang'"):
        scheduler.recover("a", spec(), record)
    assert picture(scheduler) == before


def test_leaf_cells_that_are_gone_are_left_out_and_their_slots_are_still_handed_out():
    scheduler = HivedScheduler(flat_config(4, {"A": {"NODE": 4}}))
    gang = spec(group="g", members=[(4, 4)])
    places = {pod: bind(scheduler, pod, gang) for pod in "abcd"}
    kept = records(scheduler, "abcd")
    smaller = HivedScheduler(flat_config(3, {"A": {"NODE": 3}}))
    recovery = smaller.recover("a", gang, json.loads(kept["a"]))
    assert recovery.lost == tuple(("n3", i) for i in range(4))
    for pod in "bcd":
        assert bind(smaller, pod, gang) == places[pod]
    assert smaller.schedule("x", spec()).outcome == "wait"
    for pod in "abcd":
        smaller.delete(pod)
    assert picture(smaller) == picture(HivedScheduler(flat_config(3, {"A": {"NODE": 3}})))


def test_recovery_takes_the_place_of_a_preemption_of_the_same_group():
    scheduler = full()
    bound = HivedScheduler(flat_config(2, {"A": {"NODE": 2}, "B": {}}))
    bind(bound, "high", spec())
    record = bound.bind_info("high")
    assert scheduler.schedule("high", spec(), "Preempting").outcome == "preempt"
    before = picture(scheduler)
    with pytest.raises(RequestError, match="bind_info"):
        scheduler.recover("high", spec(), record)
    assert picture(scheduler) == before
    with pytest.raises(RequestError, match="'high' is preempting"):
        scheduler.recover("high", spec(group="other"), record)
    scheduler.delete("low-0")
    scheduler.delete("low-1")
    assert scheduler.schedule("other", spec()).outcome == "bind"
    scheduler.recover("high", spec(), record)
    scheduler.check()
    with pytest.raises(RequestError, match="schedule it first"):
        scheduler.allocate("other")
    assert scheduler.affinity_group("high")["state"] == "Allocated"
    assert scheduler.affinity_group("high")["preempting_pods"] == []


def changed(record, **fields):
    return json.loads(json.dumps(record)) | fields


def test_wrong_records_are_refused_and_change_nothing():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    record = scheduler.bind_info("a")
    table = record["affinityGroupBindInfo"]
    pods = table[0]["podPlacements"]
    other = HivedScheduler(flat_config())
    bind(other, "x", spec(group="x"))
    before = picture(other)
    for wrong, named in [
        (None, "bind_info"),
        ({}, "bind_info"),
        (changed(record, node=""), "node"),
        (changed(record, node="n9"), "no slot"),
        (changed(record, cellChain=None), "cellChain"),
        (changed(record, leafCellIsolation=[]), "leafCellIsolation"),
        (changed(record, leafCellIsolation=[0, 0, 1, 2]), "leafCellIsolation"),
        (changed(record, leafCellIsolation=[0, -1, 1, 2]), "-1"),
        (changed(record, leafCellIsolation=[0, True, 1, 2]), "True"),
        (changed(record, leafCellIsolation=[0, 1]), "leafCellNumber=4"),
        (changed(record, leafCellIsolation="0123"), "leafCellIsolation"),
        (changed(record, affinityGroupBindInfo=None), "affinityGroupBindInfo"),
        (changed(record, affinityGroupBindInfo=[3]), "affinityGroupBindInfo[0]"),
        (changed(record, affinityGroupBindInfo=[{"podPlacements": 1}]), "podPlacements"),
        (changed(record, affinityGroupBindInfo=[{"podPlacements": [1]}]), "podPlacements[0]"),
        (changed(record, affinityGroupBindInfo=[{"podPlacements": pods[:1]}]), "1 pod with"),
        (changed(record, affinityGroupBindInfo=table + table), "4 pods"),
        (
            changed(
                record,
                affinityGroupBindInfo=[
                    {"podPlacements": [{"physicalNode": "n0", "physicalLeafCellIndices": [1]}]}
                ],
            ),
            "1 leaf cell",
        ),
        (
            changed(
                record,
                affinityGroupBindInfo=[
                    {"podPlacements": [pod | {"preassignedCellTypes": ["NODE"]} for pod in pods]}
                ],
            ),
            "preassignedCellTypes",
        ),
        (record, "['x']"),
    ]:
        with pytest.raises(RequestError) as error:
            other.recover("a", GANG, wrong)
        assert named in str(error.value), (named, str(error.value))
        assert picture(other) == before
        other.check()


def test_a_slot_is_recovered_by_one_pod_only():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    record = scheduler.bind_info("a")
    with pytest.raises(RequestError, match="'a'"):
        scheduler.recover("b", GANG, record)
    scheduler.check()


# --- hardware


def test_all_nodes_can_start_bad_and_unknown_ones_are_remembered():
    scheduler = HivedScheduler(flat_config(1, {"A": {"NODE": 1}}), initially_healthy=False)
    assert scheduler.schedule("a", spec()).outcome == "wait"
    scheduler.set_node("n1", True)
    assert scheduler.schedule("a", spec()).outcome == "wait"
    scheduler.reconfigure(flat_config(2, {"A": {"NODE": 1}}))
    assert scheduler.schedule("a", spec()).node == "n1"
    for name, healthy in [(1, True), ("n1", 1), (None, False)]:
        with pytest.raises(TypeError):
            scheduler.set_node(name, healthy)
    with pytest.raises(TypeError, match="initially_healthy"):
        HivedScheduler(flat_config(), initially_healthy=1)


# --- configuration


def two_chains():
    types = {"OLD-NODE": (2, "GPU"), "NEW-NODE": (4, "GPU")}
    cells = [node("o", "OLD-NODE"), node("n", "NEW-NODE")]
    return config(types, cells, {"A": {"OLD-NODE": 1, "NEW-NODE": 1}})


def test_chains_are_tried_in_the_given_order():
    assert HivedScheduler(two_chains()).schedule("a", spec(number=1)).chain == "OLD-NODE"
    scheduler = HivedScheduler(two_chains(), chain_order=["NEW-NODE", "OLD-NODE"])
    assert scheduler.schedule("a", spec(number=1)).chain == "NEW-NODE"
    for wrong in (
        ["NEW-NODE"],
        ["NEW-NODE", "NEW-NODE"],
        ["NEW-NODE", "OLD-NODE", "X"],
        [3, "OLD-NODE"],
        [],
    ):
        with pytest.raises(ValueError, match="chain_order"):
            HivedScheduler(two_chains(), chain_order=wrong)
        with pytest.raises(ValueError, match="chain_order"):
            scheduler.reconfigure(two_chains(), chain_order=wrong)
    with pytest.raises(TypeError, match="chain_order"):
        HivedScheduler(two_chains(), chain_order="NEW-NODE")


def test_the_configuration_may_be_read_already_and_mistakes_in_it_are_named():
    document = HivedConfig.read(flat_config())
    assert HivedScheduler(document).config is document
    with pytest.raises(ConfigError):
        HivedScheduler({"physicalCluster": {}})
    scheduler = HivedScheduler(flat_config())
    before = picture(scheduler)
    with pytest.raises(ConfigError):
        scheduler.reconfigure(flat_config(1))
    assert picture(scheduler) == before


def test_reconfiguring_cancels_preemptions_and_forgets_offers():
    scheduler = full()
    scheduler.schedule("high", spec(), "Preempting")
    change = scheduler.reconfigure(flat_config(3, {"A": {"NODE": 3}, "B": {}}))
    assert change.cancelled == ("high",)
    assert scheduler.affinity_group("high") is None
    scheduler.check()
    assert scheduler.schedule("high", spec()).outcome == "bind"
    scheduler.reconfigure(flat_config(3, {"A": {"NODE": 3}, "B": {}}))
    with pytest.raises(RequestError):
        scheduler.allocate("high")
    bind(scheduler, "high", spec())


# --- inspection


def test_the_status_shows_every_cell_and_what_it_is_bound_to():
    cells = [node("n0"), node("n1", pinnedCellId="P"), node("n2")]
    tenants = {"A": {"NODE": 1, "NODE.SWITCH": 1}, "B": ({}, ["P"])}
    scheduler = HivedScheduler(config(FLAT, cells, tenants))
    bind(scheduler, "a", spec(number=2, priority=7))
    bind(scheduler, "o", spec("B", 1, priority=-1))
    status = scheduler.status()
    assert json.loads(json.dumps(status)) == status
    physical, virtual = status["physicalCluster"], status["virtualClusters"]
    assert [cell["cellAddress"] for cell in physical] == ["n0", "n1", "n2"]
    assert len(list(walk(physical))) == 3 * 7
    assert {cell["cellHealthiness"] for cell in walk(physical)} == {"Healthy"}
    assert [cell["cellAddress"] for cell in virtual["A"]] == ["A/0", "A/1"]
    assert [cell["cellType"] for cell in virtual["A"]] == ["NODE", "SWITCH"]
    bound = [cell for cell in walk(virtual["A"]) if "physicalCell" in cell]
    assert {cell["cellPriority"] for cell in bound} == {7}
    by_address = {cell["cellAddress"]: cell for cell in walk(physical)}
    for cell in bound:
        partner = by_address[cell["physicalCell"]["cellAddress"]]
        assert partner["virtualCell"]["cellAddress"] == cell["cellAddress"]
        assert partner["vc"] == "A"
        assert "cellChildren" not in cell["physicalCell"]
    pinned, idle = virtual["B"]
    assert pinned["physicalCell"]["cellAddress"] == "n1"
    assert (pinned["cellState"], pinned["cellPriority"]) == ("Free", -2)
    assert idle["cellAddress"].endswith("-opp")
    assert (idle["cellState"], idle["cellPriority"]) == ("Used", -1)
    leaf = by_address[idle["cellAddress"].removesuffix("-opp")]
    assert (leaf["vc"], leaf["cellState"], leaf["cellPriority"]) == ("B", "Used", -1)
    top = by_address["n0"]
    assert (top["leafCellType"], top["isNodeLevel"]) == ("GPU", True)
    assert scheduler.physical_cluster() == physical
    assert scheduler.virtual_clusters() == virtual
    assert scheduler.virtual_cluster("A") == virtual["A"]
    with pytest.raises(RequestError, match="'Z'"):
        scheduler.virtual_cluster("Z")


def test_reserved_cells_show_their_states():
    scheduler = full()
    node = scheduler.schedule("high", spec(priority=3), "Preempting").node
    states = {cell["cellAddress"]: cell for cell in walk(scheduler.physical_cluster())}
    assert (states[node]["cellState"], states[node]["cellPriority"]) == ("Reserving", 3)
    other = "n1" if node == "n0" else "n0"
    assert (states[other]["cellState"], states[other]["cellPriority"]) == ("Used", -1)
    scheduler.delete("low-0")
    scheduler.delete("low-1")
    states = {cell["cellAddress"]: cell for cell in walk(scheduler.physical_cluster())}
    assert states[f"{node}/0/1"]["cellState"] == "Reserved"
    assert states[other]["cellState"] == "Free"


def test_cells_that_healthy_hardware_cannot_back_are_bad_in_the_virtual_cluster():
    scheduler = HivedScheduler(flat_config(3, {"A": {"NODE": 2}, "B": {"NODE": 1}}))

    def bad():
        clusters = scheduler.virtual_clusters()
        return {vc: [cell["cellHealthiness"] for cell in cells] for vc, cells in clusters.items()}

    scheduler.set_node("n1", False)
    assert bad() == {"A": ["Healthy", "Bad"], "B": ["Healthy"]}
    assert {cell["cellHealthiness"] for cell in walk(scheduler.virtual_cluster("A")[1:])} == {"Bad"}
    scheduler.set_node("n0", False)
    assert sum(row.count("Bad") for row in bad().values()) == 2
    scheduler.set_node("n2", False)
    assert bad() == {"A": ["Bad", "Bad"], "B": ["Bad"]}
    assert {cell["cellHealthiness"] for cell in walk(scheduler.physical_cluster())} == {"Bad"}
    for name in EVERYBODY:
        scheduler.set_node(name, True)
    assert bad() == {"A": ["Healthy", "Healthy"], "B": ["Healthy"]}


def test_a_group_is_shown_in_hived_s_words_too():
    scheduler = HivedScheduler(flat_config())
    bind(scheduler, "a", GANG)
    (item,) = scheduler.affinity_groups()["items"]
    assert item == scheduler.affinity_group_status("gang")
    assert item["metadata"] == {"name": "gang"}
    status = item["status"]
    assert (status["vc"], status["priority"], status["state"]) == ("A", 0, "Allocated")
    assert sorted(status["physicalPlacement"].values()) == [[0, 1, 2, 3]] * 2
    assert status["virtualPlacement"] == {
        f"A/{k}": [f"A/{k}/{i // 2}/{i}" for i in range(4)] for k in range(2)
    }
    assert status["allocatedPods"] == ["a"]
    assert "preemptingPods" not in status
    assert scheduler.affinity_group_status("unknown") is None
    assert scheduler.affinity_group("unknown") is None


def test_free_and_unused_cells_are_those_that_are_not_bound():
    scheduler = HivedScheduler(flat_config(2, {"A": {"NODE.SWITCH": 2}, "B": {"NODE": 1}}))
    assert scheduler.free_cells() == {"NODE": {"GPU": [], "SWITCH": [], "NODE": ["n0", "n1"]}}
    assert scheduler.unused_cells() == {"A": {"NODE": {"SWITCH": 2}}, "B": {"NODE": {"NODE": 1}}}
    bind(scheduler, "a", spec(number=1))
    assert scheduler.free_cells() == {"NODE": {"GPU": [], "SWITCH": ["n0/1"], "NODE": ["n1"]}}
    assert scheduler.unused_cells() == {"A": {"NODE": {"SWITCH": 1}}, "B": {"NODE": {"NODE": 1}}}


# --- state


def test_what_was_said_of_unknown_nodes_is_saved_too():
    scheduler = HivedScheduler(flat_config(1, {"A": {"NODE": 1}}), initially_healthy=False)
    scheduler.set_node("n1", True)
    again = HivedScheduler.from_bytes(scheduler.to_bytes())
    branch = scheduler.copy()
    branch.set_node("n1", False)
    for each, outcome in ((again, "bind"), (branch, "wait"), (scheduler, "bind")):
        each.reconfigure(flat_config(2, {"A": {"NODE": 1}}))
        assert each.schedule("a", spec()).outcome == outcome


def test_a_saved_state_keeps_the_order_of_chains():
    scheduler = HivedScheduler(two_chains(), chain_order=["NEW-NODE", "OLD-NODE"])
    again = HivedScheduler.from_bytes(scheduler.to_bytes())
    for each in (again, scheduler.copy(), again.copy()):
        assert each.schedule("a", spec(number=1)).chain == "NEW-NODE"


def mutated(value, draw):
    """The JSON value with one of its parts replaced."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        return value | {key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        i = draw.randrange(len(value))
        return [*value[:i], mutated(value[i], draw), *value[i + 1 :]]
    return draw.choice([None, -1, 0, 1, 2**40, 0.5, "", "x", [], {}, [[]], True])


def test_states_that_cannot_be_are_refused_with_a_good_checksum_too():
    scheduler = full()
    scheduler.schedule("high", spec(), "Preempting")
    data = scheduler.to_bytes()
    state = json.loads(unseal(b"HCHV", 2, data))
    draw = random.Random(7)
    refused = 0
    for _ in range(300):
        text = json.dumps(mutated(state, draw)).encode()
        try:
            again = HivedScheduler.from_bytes(seal(b"HCHV", 2, text))
        except CorruptStateError:
            refused += 1
        else:
            again.check()
            picture(again)
    assert refused > 150


def test_a_saved_state_never_makes_a_file_be_read(tmp_path):
    data = full().to_bytes()
    state = json.loads(unseal(b"HCHV", 2, data))
    for path in ("", ".", str(tmp_path), str(tmp_path / "none.yaml")):
        text = json.dumps(state | {"config": path}).encode()
        with pytest.raises(CorruptStateError):
            HivedScheduler.from_bytes(seal(b"HCHV", 2, text))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.affinity_group([]), TypeError, "name must be a string"),
        (lambda s: s.affinity_group_status({}), TypeError, "name must be a string"),
        (lambda s: s.virtual_cluster([]), TypeError, "name must be a string"),
        (lambda s: s.reconfigure(flat_config(), [np.array([1, 2])]), ValueError, "chain_order="),
        (lambda s: s.schedule("p", spec(priority=10**5000)), RequestError, "a huge number"),
        (lambda s: s.schedule("p", spec(), np.array([1, 2])), RequestError, "phase="),
        (lambda s: s.schedule("p", spec(), "Binding"), RequestError, "Filtering"),
        (
            lambda s: s.schedule("p", spec() | {"pinnedCellId": np.array([1, 2])}),
            RequestError,
            "pinnedCellId=a ndarray: must be a string",
        ),
        (
            lambda s: s.schedule("p", spec() | {"virtualCluster": np.array([1, 2])}),
            RequestError,
            "virtualCluster",
        ),
    ],
)
def test_arguments_of_odd_types_are_named(call, error, message):
    scheduler = HivedScheduler(flat_config())
    before = scheduler.to_bytes()
    with pytest.raises(error, match=message):
        call(scheduler)
    assert scheduler.to_bytes() == before


@pytest.mark.parametrize(("evictions", "outcome"), [("private", "preempt"), ("least", "bind")])
def test_what_comes_first_is_said_once_for_all_pods(evictions, outcome):
    scheduler = HivedScheduler(flat_config(2, {"A": {"NODE": 2}}), evictions=evictions)
    bind(scheduler, "low", spec(number=1))
    bind(scheduler, "idle", spec(number=4, priority=-1))
    bind(scheduler, "beside", spec(number=2, priority=-1))
    scheduler.delete("idle")
    for branch in (scheduler, HivedScheduler.from_bytes(scheduler.to_bytes())):
        assert branch.schedule("asked", spec(number=2)).outcome == outcome


def test_an_unknown_way_to_evict_is_refused():
    with pytest.raises(ValueError, match=r"evictions must be one of .*, not 'fewest'"):
        HivedScheduler(flat_config(), evictions="fewest")
