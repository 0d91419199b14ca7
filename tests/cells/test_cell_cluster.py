"""What `CellCluster` and its data classes accept, refuse and remember."""

import json
import pickle
import sys
from collections import Counter

import numpy as np
import pytest
from cells.affinity_groups import (
    LEVELS,
    admitted_by,
    nodes_of,
    owned,
    racks,
    schedule_and_reserve,
    start,
)

from hivecore._sealed import seal, unseal
from hivecore.cells import (
    AffinityGroup,
    CellCluster,
    Chain,
    ClusterSpec,
    Member,
    NodeOrderPolicy,
    PodPlacement,
)
from hivecore.errors import (
    CorruptStateError,
    InfeasibleAssignmentError,
    StaleDecisionError,
)


def two_tenants(**policies):
    spec = owned({"A": {"node": 2}, "B": {"rack": 1}})
    return CellCluster(spec, policies=policies)


# --- Chain and ClusterSpec


def test_the_node_level_is_the_one_called_node_or_the_last():
    assert racks().node_level == "node"
    assert Chain(["gpu", "box"], [4], 2).node_level == "box"
    assert Chain(LEVELS, [2, 2, 2], 1, node_level="rack").node_level == "rack"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"node_level": "pod"}, ValueError, "node_level='pod'"),
        ({"nodes": ["a"]}, ValueError, "nodes has 1 name, the chain has 4 nodes"),
        ({"nodes": ["a", "b", "c", 4]}, TypeError, r"nodes\[3\]"),
        ({"nodes": "abcd"}, TypeError, "nodes must be a sequence"),
        ({"leaf_indices": [[0, 1, 2, 3]]}, ValueError, "leaf_indices has 1 row"),
        ({"leaf_indices": [[0, 1, 2]] * 4}, ValueError, r"leaf_indices\[0\] has 3 entries"),
        ({"leaf_indices": [[0, 1, 2, -1]] * 4}, ValueError, r"leaf_indices\[0\]\[3\]=-1"),
    ],
)
def test_a_chain_refuses_nodes_that_do_not_fit_its_shape(options, error, text):
    with pytest.raises(error, match=text):
        racks(**options)


@pytest.mark.parametrize(
    ("pins", "error", "text"),
    [
        ({"C": {}}, KeyError, "no virtual cluster 'C'"),
        ({"A": {"p": ("d", "gpu", 0)}}, KeyError, "no chain 'd'"),
        ({"A": {"p": ("c", "row", 0)}}, KeyError, "no level 'row'"),
        ({"A": {"p": ("c", "node", 4)}}, ValueError, r"\[2\]=4: allowed are 0 to 3"),
        ({"A": {"p": ("c", "node")}}, ValueError, r"must be \(chain, level, index\)"),
        ({"A": {"": ("c", "node", 0)}}, ValueError, "must not be empty"),
        (
            {"A": {"p": ("c", "node", 0)}, "B": {"p": ("c", "node", 1)}},
            ValueError,
            "another pinned cell has this name",
        ),
        ([], TypeError, "pinned_cells must be a mapping"),
    ],
)
def test_a_specification_refuses_impossible_pins(pins, error, text):
    with pytest.raises(error, match=text):
        ClusterSpec({"c": racks()}, {"A": {}, "B": {}}, pins)


def test_pins_count_as_owned_cells():
    spec = owned({"A": {"node": 2}}, racks(1), {"A": {"p": ("c", "gpu", 0)}})
    with pytest.raises(InfeasibleAssignmentError, match="chain 'c', level 'gpu'"):
        CellCluster(spec)


def test_pins_that_tear_up_the_cells_of_others_are_refused():
    spec = owned(
        {"A": {"node": 1}},
        racks(1),
        {"A": {"p": ("c", "gpu", 0), "q": ("c", "gpu", 4)}},
    )
    spec.check_feasible()
    with pytest.raises(InfeasibleAssignmentError, match="pinned_cells"):
        CellCluster(spec)


def test_pins_that_overlap_are_refused():
    pins = {"A": {"p": ("c", "node", 0), "q": ("c", "gpu", 0)}}
    with pytest.raises(InfeasibleAssignmentError, match="pinned_cells"):
        CellCluster(owned({"A": {}}, racks(1), pins))


def test_more_leaves_than_there_are_numbers_are_refused():
    chain = Chain(["gpu", "node"], [2**15], 2**16)
    with pytest.raises(ValueError, match="4294967296 leaves in all"):
        CellCluster(ClusterSpec({"a": chain, "b": chain}, {}))


def test_one_name_stands_for_two_nodes_with_other_devices():
    spec = ClusterSpec(
        {
            "x": Chain(["v100", "xnode"], [2], 1, nodes=["n"], leaf_indices=[[0, 1]]),
            "y": Chain(["a100", "ynode"], [2], 1, nodes=["n"], leaf_indices=[[3, 2]]),
        },
        {"A": {"x": {"xnode": 1}, "y": {"ynode": 1}}},
    )
    cluster = CellCluster(spec)
    old = start(cluster, "old", leaf_type="v100")
    new = start(cluster, "new", members=[(1, 2)], leaf_type="a100")
    assert (old.placement[0].node, old.placement[0].leaf_indices) == ("n", (0,))
    assert (new.placement[0].node, new.placement[0].leaf_indices) == ("n", (3, 2))
    cluster.set_health("n", False)
    assert cluster.bad_leaves() == (("n", 0), ("n", 1), ("n", 3), ("n", 2))
    assert cluster.bad_nodes() == ("n",)
    cluster.set_health("n", True, leaf_index=2)
    assert cluster.bad_leaves() == (("n", 0), ("n", 1), ("n", 3))


def test_two_kinds_of_devices_of_a_node_may_both_count_from_zero():
    kinds = {name: Chain([name, "node"], [2], 1, nodes=["n"]) for name in ("x", "y")}
    cluster = CellCluster(ClusterSpec(kinds, {"A": {"x": {"node": 1}, "y": {"node": 1}}}))
    start(cluster, "old", leaf_type="x")
    new = start(cluster, "new", leaf_type="y")
    restarted = CellCluster(cluster.spec)
    restarted.recover(new.request, new.placement)
    assert restarted.leaf_groups("y")[0] == ["new", None]
    cluster.set_health("n", False, leaf_index=1)
    assert cluster.bad_leaves() == (("n", 1), ("n", 1))
    cluster.reconfigure(cluster.spec)
    assert cluster.leaf_groups("x")[0] == ["old", None]
    assert [row.tolist() for row in cluster.leaf_group_numbers("y")] == [[1, -1], [-1, -1]]
    with pytest.raises(KeyError, match="known are"):
        cluster.leaf_group_numbers("z")
    assert cluster.status()["chains"]["y"]["bad"] == 1


def test_a_device_that_a_node_has_twice_is_refused():
    chain = Chain(["gpu", "node"], [2], 2, nodes=["n", "n"], leaf_indices=[[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="node 'n' has one leaf index twice"):
        CellCluster(ClusterSpec({"c": chain}, {}))
    chain = Chain(["gpu", "node"], [2], 1, leaf_indices=[[1, 1]])
    with pytest.raises(ValueError, match="node 'c/0' has one leaf index twice"):
        CellCluster(ClusterSpec({"c": chain}, {}))


# --- AffinityGroup


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("", "A", [(1, 1)]), {}, ValueError, "name must not be empty"),
        ((1, "A", [(1, 1)]), {}, TypeError, "name must be a string"),
        (("g", "", [(1, 1)]), {}, ValueError, "virtual_cluster must not be empty"),
        (("g", "A", []), {}, ValueError, "members must not be empty"),
        (("g", "A", "ab"), {}, TypeError, "members must be a sequence"),
        (("g", "A", [(1,)]), {}, TypeError, r"members\[0\] must be"),
        (("g", "A", [(0, 1)]), {}, ValueError, r"members\[0\].pods=0"),
        (("g", "A", [(1, 0)]), {}, ValueError, r"members\[0\].leaves=0"),
        (("g", "A", [(1, 1.5)]), {}, TypeError, r"members\[0\].leaves"),
        (("g", "A", [(2**30, 4)]), {}, ValueError, "more than"),
        (("g", "A", [(1, 1, 7)]), {}, TypeError, r"members\[0\].within"),
        (("g", "A", [(1, 1)]), {"priority": -2}, ValueError, "priority=-2"),
        (("g", "A", [(1, 1)]), {"priority": 1001}, ValueError, "priority=1001"),
        (("g", "A", [(1, 1)]), {"priority": 0.5}, TypeError, "priority"),
        (("g", "A", [(1, 1)]), {"placement": "best"}, ValueError, "placement must be one of"),
        (("g", "A", [(1, 1)]), {"evictions": "few"}, ValueError, "evictions must be one of"),
        (("g", "A", [(1, 1)]), {"evictions": 1}, TypeError, "evictions"),
        (("g", "A", [(1, 1)]), {"lazy_preemption": 1}, TypeError, "lazy_preemption"),
        (("g", "A", [(1, 1)]), {"merge_siblings": None}, TypeError, "merge_siblings"),
        (("g", "A", [(1, 1)]), {"priority": -1, "pinned_cell": "p"}, ValueError, "pinned_cell"),
    ],
)
def test_a_group_refuses_wrong_arguments(arguments, options, error, text):
    with pytest.raises(error, match=text):
        AffinityGroup(*arguments, **options)


def test_a_group_is_a_value():
    group = AffinityGroup("g", "A", [Member(2, 4, "pair"), (1, 1)], priority=3, within="rack")
    assert group.sizes == (4, 4, 1)
    assert (group.pods, group.leaves) == (3, 9)
    assert pickle.loads(pickle.dumps(group)) == group
    assert hash(group.replace()) == hash(group)
    assert group.replace(priority=4) != group
    with pytest.raises(AttributeError):
        group.priority = 5


# --- what a cluster refuses


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"virtual_cluster": "Z"}, KeyError, "virtual_cluster='Z'"),
        ({"leaf_type": "tpu"}, KeyError, "leaf_type='tpu'"),
        ({"pinned_cell": "p"}, KeyError, "pinned_cell='p'"),
        ({"within": "row"}, KeyError, "within='row'"),
        ({"members": [(1, 1, "row")]}, KeyError, r"members\[0\].within='row'"),
    ],
)
def test_schedule_names_what_it_does_not_know(options, error, text):
    cluster = two_tenants()
    group = AffinityGroup("g", "A", [(1, 1)]).replace(**options)
    before = cluster.to_bytes()
    with pytest.raises(error, match=text):
        cluster.schedule(group)
    assert cluster.to_bytes() == before


@pytest.mark.parametrize(
    ("members", "options", "text"),
    [
        ([(1, 5)], {}, "chain 'c': a pod asks for 5 leaves, a cell of level 'node' has 4"),
        ([(1, 5)], {"priority": -1}, "'node' has 4"),
        ([(1, 5)], {"merge_siblings": True}, "'node' has 4"),
        ([(1, 1), (1, 3, "pair")], {}, "a pod asks for 3 leaves, a cell of level 'pair' has 2"),
        ([(1, 3)], {"within": "pair"}, "'pair' has 2"),
        ([(1, 5)], {"within": "rack"}, "'node' has 4"),
    ],
)
def test_a_pod_that_is_larger_than_any_cell_it_may_be_in_is_refused(members, options, text):
    cluster = two_tenants()
    group = AffinityGroup("g", "A", members, **options)
    before = cluster.to_bytes()
    with pytest.raises(ValueError, match=f"group 'g' can never be served: .*{text}"):
        cluster.schedule(group)
    assert cluster.explain(group).outcome == "wait"
    assert cluster.to_bytes() == before


def test_only_chains_that_a_group_may_use_decide_whether_a_pod_is_too_large():
    chains = {"small": Chain(["gpu", "node"], [2], 1), "large": Chain(["gpu", "node"], [8], 1)}
    pins = {"A": {"pin": ("small", "gpu", 1)}}
    cells = {"A": {"small": {"gpu": 1}}, "B": {"large": {"node": 1}}, "C": {}}
    cluster = CellCluster(ClusterSpec(chains, cells, pins))
    start(cluster, "b", "B", [(1, 8)])
    assert cluster.schedule(AffinityGroup("g", "B", [(1, 8)])).outcome == "wait"
    assert cluster.schedule(AffinityGroup("g", "C", [(1, 8)])).outcome == "wait"  # owns nothing
    assert cluster.schedule(AffinityGroup("g", "C", [(1, 8)], priority=-1)).outcome == "wait"
    assert cluster.schedule(AffinityGroup("g", "A", [(1, 2)])).outcome == "wait"
    for options in ({}, {"pinned_cell": "pin"}):
        group = AffinityGroup("g", "A", [(1, 3)], **options)
        with pytest.raises(ValueError, match="chain 'small': a pod asks for 3 leaves"):
            cluster.schedule(group)


@pytest.mark.parametrize("priority", [-1, 0])
def test_a_node_gets_no_more_pods_of_a_group_than_most_says(priority):
    cluster = CellCluster(owned({"A": {"node": 4}}))
    gang = AffinityGroup("gang", "A", [(4, 1)], priority=priority)
    assert len(set(nodes_of(cluster.schedule(gang)))) == 1
    for most, pods in (([2, 2, 2, 2], [2, 2]), ([1, 1, 1, 1], [1] * 4), ([0, 3, 0, 1], [3, 1])):
        decision = cluster.schedule(gang, most=most)
        on = Counter(nodes_of(decision))
        assert sorted(on.values(), reverse=True) == pods
        assert all(on[node] <= limit for node, limit in zip(cluster.nodes, most, strict=True))
    assert cluster.schedule(gang, most=[9, 9, 4, 9]).placement == cluster.schedule(gang).placement
    assert cluster.schedule(gang, most=[0, 1, 1, 1]).outcome == "wait"
    only = cluster.schedule(gang, most=[2] * 4, suggested_nodes=["c/1", "c/3"])
    assert Counter(nodes_of(only)) == {"c/1": 2, "c/3": 2}


def test_wrong_arguments_of_methods_are_named():
    cluster = two_tenants()
    group = AffinityGroup("g", "A", [(1, 1)])
    with pytest.raises(TypeError, match="group must be"):
        cluster.schedule("g")
    with pytest.raises(TypeError, match="suggested_nodes must be"):
        cluster.schedule(group, suggested_nodes="c/0")
    with pytest.raises(TypeError, match="suggested_nodes must be"):
        cluster.schedule(group, suggested_nodes=5)
    with pytest.raises(ValueError, match=r"most must have shape \(4,\), not \(1,\)"):
        cluster.schedule(group, most=[1])
    with pytest.raises(TypeError, match="most must hold integers"):
        cluster.schedule(group, most=[1.0] * 4)
    with pytest.raises(TypeError, match="decision must be"):
        cluster.commit(group)
    with pytest.raises(KeyError, match="'g'"):
        cluster.release("g")
    with pytest.raises(KeyError, match="no group"):
        cluster.release(["g"])
    with pytest.raises(KeyError, match="'g'"):
        cluster.cancel("g")
    with pytest.raises(KeyError, match="node='x'"):
        cluster.set_health("x", True)
    with pytest.raises(TypeError, match="node must be"):
        cluster.set_health(["x"], True)
    with pytest.raises(TypeError, match="healthy must be"):
        cluster.set_health("c/0", 1)
    with pytest.raises(KeyError, match="leaf_index=4"):
        cluster.set_health("c/0", True, leaf_index=4)
    with pytest.raises(KeyError, match="chain='d'"):
        cluster.surplus("d")
    with pytest.raises(KeyError, match="virtual_cluster='Z'"):
        cluster.virtual_trees("Z")
    with pytest.raises(TypeError, match="spec must be"):
        cluster.reconfigure({})
    with pytest.raises(TypeError, match="spec must be"):
        CellCluster({})
    with pytest.raises(KeyError, match="policies"):
        CellCluster(cluster.spec, policies={"Z": NodeOrderPolicy([])})
    with pytest.raises(TypeError, match="choose"):
        CellCluster(cluster.spec, policies={"A": "pack"})
    with pytest.raises(TypeError, match="policies"):
        CellCluster(cluster.spec, policies=[])
    cluster.check()


def test_a_name_that_another_live_group_has_is_refused():
    cluster = two_tenants()
    start(cluster, "g")
    with pytest.raises(ValueError, match="has the name 'g'"):
        cluster.schedule(AffinityGroup("g", "B", [(1, 1)]))
    again = cluster.schedule(AffinityGroup("g", "A", [(1, 1)]))
    assert again.outcome == "bind"
    assert again.placement == cluster.group("g").placement
    cluster.commit(again)
    assert cluster.groups() == ("g",)
    cluster.release(again.request.name)
    assert cluster.groups() == ()


def test_only_fresh_bind_decisions_of_this_cluster_are_committed():
    cluster = two_tenants()
    group = AffinityGroup("g", "A", [(2, 4)])
    decision = cluster.schedule(group)
    rival = cluster.schedule(group.replace(name="rival"))
    with pytest.raises(ValueError, match="another cluster"):
        cluster.copy().commit(decision)
    cluster.commit(rival)
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        cluster.commit(decision)
    waits = cluster.schedule(group)
    assert waits.outcome == "wait"
    with pytest.raises(ValueError, match="must be 'bind', not 'wait'"):
        cluster.commit(waits)
    assert cluster.to_bytes() == before
    with pytest.raises(StaleDecisionError, match="live already"):
        cluster.commit(rival)
    stays = cluster.schedule(rival.request)
    cluster.release("rival")
    with pytest.raises(StaleDecisionError, match="gone"):
        cluster.commit(stays)
    cluster.commit(decision)


def test_a_decision_of_before_a_reconfiguration_is_refused():
    cluster = two_tenants()
    decision = cluster.schedule(AffinityGroup("g", "A", [(1, 1)]))
    cluster.reconfigure(cluster.spec)
    with pytest.raises(ValueError, match="before a reconfiguration"):
        cluster.commit(decision)


def test_recover_refuses_what_contradicts_the_live_groups():
    cluster = two_tenants()
    placed = start(cluster, "g", members=[(1, 2)]).placement
    other = AffinityGroup("h", "A", [(1, 2)])
    before = cluster.to_bytes()
    with pytest.raises(ValueError, match="live already"):
        cluster.recover(other.replace(name="g"), placed)
    with pytest.raises(ValueError, match="placement has 0 pods"):
        cluster.recover(other, [])
    with pytest.raises(TypeError, match=r"placement\[0\] must be"):
        cluster.recover(other, ["c/0"])
    with pytest.raises(ValueError, match=r"placement\[0\] has not the 2 leaves"):
        cluster.recover(other, [PodPlacement("c", "c/0", (0,), ("node",), ())])
    with pytest.raises(StaleDecisionError, match="'h'"):
        cluster.recover(other, placed)
    with pytest.raises(TypeError, match="group must be"):
        cluster.recover("h", placed)
    assert cluster.to_bytes() == before


def test_a_record_of_unknown_things_is_recovered_as_far_as_it_goes():
    cluster = two_tenants()
    lost = cluster.recover(
        AffinityGroup("lost", "A", [(1, 2)]),
        [PodPlacement("c", "gone", (0, 1), ("node", "node"), ())],
    )
    assert lost.lost == (("gone", 0), ("gone", 1))
    strange = cluster.recover(
        AffinityGroup("strange", "Z", [(1, 1)]), [PodPlacement("d", "c/0", (0,), ("row",), ())]
    )
    assert strange.downgraded
    assert not cluster.group("strange").guaranteed
    cluster.check()
    restored = CellCluster.from_bytes(cluster.to_bytes())
    assert restored.to_bytes() == cluster.to_bytes()
    assert cluster.record("lost") == (PodPlacement("c", "gone", (0, 1), ("node", "node"), ()),)
    cluster.release("lost")
    cluster.release("strange")
    assert cluster.to_bytes() == two_tenants().to_bytes()


def test_a_record_of_a_downgraded_group_has_the_levels_that_it_is_to_have_again():
    cluster = two_tenants()
    start(cluster, "g", members=[(2, 4)])
    whole, spec = cluster.record("g"), cluster.spec
    assert whole == cluster.group("g").placement
    cluster.reconfigure(owned({"B": {"rack": 1}}))
    record = cluster.record("g")
    assert [pod.preassigned for pod in record] == [pod.preassigned for pod in whole]
    assert not cluster.group("g").guaranteed
    before = cluster.to_bytes()
    group = cluster.group("g").group
    cluster.release("g")
    cluster.recover(group, record)
    assert cluster.to_bytes() == before
    assert cluster.reconfigure(spec).promoted == ("g",)
    with pytest.raises(KeyError, match="'unknown'"):
        cluster.record("unknown")


# --- state


def test_a_reservation_survives_saving():
    cluster = two_tenants()
    start(cluster, "low", members=[(2, 4)])
    high = AffinityGroup("high", "A", [(1, 4)], priority=7)
    assert schedule_and_reserve(cluster, high).victims == ("low",)
    restored = CellCluster.from_bytes(cluster.to_bytes())
    assert restored.group("high").state == "Preempting"
    assert restored.group("high").victims == ("low",)
    assert restored.group("low").state == "BeingPreempted"
    restored.cancel("high")
    assert restored.group("low").state == "Allocated"
    with pytest.raises(ValueError, match="release it"):
        restored.cancel("low")
    restored.check()


def test_status_counts_what_there_is():
    cluster = two_tenants()
    start(cluster, "a", members=[(1, 3)])
    cluster.set_health("c/3", False)
    status = cluster.status()
    assert status["chains"]["c"]["used"] == 3
    assert status["chains"]["c"]["bad"] == 4
    assert status["chains"]["c"]["idle"] == 9
    assert status["virtual_clusters"]["A"]["unused"] == {"c": {"node": 1}}
    assert status["groups"]["a"]["pods"] == [["c", "c/0", [0, 1, 2]]]


# --- policies


def test_a_policy_can_follow_an_order_of_nodes():
    cluster = two_tenants(A=NodeOrderPolicy(["c/1", "c/0"]))
    first = start(cluster, "first", members=[(1, 2)])
    start(cluster, "second", members=[(1, 4)])
    third = start(cluster, "third", members=[(1, 2)])
    assert third.placement[0].node == first.placement[0].node
    cluster.release("third")
    cluster.release("second")
    start(cluster, "fourth", members=[(1, 3)])
    nodes = {cluster.group(name).placement[0].node for name in ("first", "fourth")}
    assert nodes == {"c/0", "c/1"}
    fifth = start(cluster, "fifth", members=[(1, 1)])
    assert fifth.placement[0].node == "c/1"


# --- explanations


def test_every_change_of_an_explanation_admits_the_group():
    cluster = two_tenants()
    start(cluster, "one", members=[(1, 4)], priority=2)
    start(cluster, "two", members=[(1, 2)], priority=2)
    start(cluster, "three", members=[(1, 1)], priority=2)
    request = AffinityGroup("asked", "A", [(1, 3)], priority=1)
    explanation = cluster.explain(request)
    assert explanation.outcome == "wait"
    assert explanation.reason
    shortage = explanation.shortages[0]
    assert (shortage.chain, shortage.level) == ("c", "node")
    assert (shortage.needed, shortage.available, shortage.owned) == (1, 0, 2)
    assert shortage.holders == ("one", "two", "three")
    release = next(change for change in explanation.changes if change.kind == "release")
    assert release.owners == ("two",)
    assert all(admitted_by(cluster, change) for change in explanation.changes)
    relaxed = next(change for change in explanation.changes if change.kind == "relax")
    assert relaxed.relaxed == ("priority",)
    explanation = cluster.explain(request.replace(priority=3))
    assert explanation.outcome == "preempt"
    preempt = next(change for change in explanation.changes if change.kind == "preempt")
    assert preempt.owners == ("two",)  # no release is cheaper
    assert all(admitted_by(cluster, change) for change in explanation.changes)


def test_several_groups_to_release_are_irreducible():
    cluster = two_tenants()
    for i in range(8):
        start(cluster, f"g{i}")
    request = AffinityGroup("asked", "A", [(1, 4)])
    change = cluster.explain(request).cheapest
    assert change.kind == "release"
    assert change.cost == 4
    assert admitted_by(cluster, change)
    for kept in change.owners:
        branch = cluster.copy()
        for name in change.owners:
            if name != kept:
                branch.release(name)
        assert branch.schedule(request).outcome == "wait"


def test_wishes_that_stand_in_the_way_are_named():
    cluster = two_tenants()
    start(cluster, "one", members=[(1, 3)])
    start(cluster, "two", members=[(1, 3)])
    request = AffinityGroup("asked", "A", [(2, 1)], within="pair")
    explanation = cluster.explain(request)
    assert explanation.cheapest.relaxed == ("within",)
    assert admitted_by(cluster, explanation.cheapest)
    request = AffinityGroup("asked", "B", [(1, 1)])
    explanation = cluster.explain(request, suggested_nodes=["elsewhere"])
    assert explanation.cheapest.relaxed == ("suggested_nodes",)
    assert all(admitted_by(cluster, c, ["elsewhere"]) for c in explanation.changes)
    assert cluster.explain(request).cheapest is None


# --- what can go wrong around a call


class Fickle(str):
    """A name that can be hashed a few times only."""

    left = 100

    def __hash__(self):
        type(self).left -= 1
        if type(self).left < 0:
            raise RuntimeError("no hash any more")
        return str.__hash__(self)


def test_names_are_kept_as_plain_strings():
    cluster = two_tenants()
    group = AffinityGroup(Fickle("g"), Fickle("A"), [(1, 1)])
    Fickle.left = 0
    cluster.commit(cluster.schedule(group))
    cluster.check()
    assert {type(name) for name in cluster.groups()} == {str}
    assert type(Chain([Fickle("gpu")], [], 1).levels[0]) is str


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.group([]), KeyError, "there is no group"),
        (lambda c: c.surplus({}), TypeError, "chain must be a string"),
        (lambda c: c.virtual_trees([]), TypeError, "virtual_cluster must be a string"),
        (
            lambda c: c.set_health("c/0", True, leaf_index="0"),
            TypeError,
            "leaf_index must be an integer",
        ),
        (
            lambda c: c.schedule(AffinityGroup("g", "A", [(1, 1)]), suggested_nodes=[[]]),
            TypeError,
            "suggested_nodes must be names",
        ),
        (
            lambda c: c.explain(AffinityGroup("g", "A", [(1, 1)]), suggested_nodes=3),
            TypeError,
            "suggested_nodes must be a sequence",
        ),
        (lambda c: AffinityGroup("g", "A", [(1, 10**5000)]), ValueError, "2\\*\\*31 leaves"),
        (lambda c: AffinityGroup("g", "A", [(1, 1)], priority=10**5000), ValueError, "a huge"),
        (lambda c: NodeOrderPolicy([["c/0"]]), TypeError, r"nodes\[0\] must be a string"),
    ],
)
def test_arguments_of_odd_types_are_named(call, error, message):
    cluster = two_tenants()
    before = cluster.to_bytes()
    with pytest.raises(error, match=message):
        call(cluster)
    assert cluster.to_bytes() == before


def place(**changes):
    right = PodPlacement("c", "c/0", (0, 1), ("node", "node"), ())
    return right._replace(**changes)


@pytest.mark.parametrize(
    ("pod", "error", "message"),
    [
        (place(leaf_indices=0), TypeError, "leaf_indices must be a sequence"),
        (place(leaf_indices=(0.0, 1.0)), TypeError, "leaf_indices must be an integer"),
        (place(leaf_indices=(-1, 0)), ValueError, "leaf_indices=-1"),
        (place(leaf_indices=(1, 1)), ValueError, "a leaf is named twice"),
        (place(leaf_indices=(0,)), ValueError, "has not the 2 leaves"),
        (place(node=["c/0"]), TypeError, "node must be a string"),
        (place(chain=None), TypeError, "chain must be a string"),
        (place(preassigned=("node", None)), TypeError, "preassigned must be a string"),
    ],
)
def test_a_placement_to_recover_is_checked(pod, error, message):
    cluster = two_tenants()
    before = cluster.to_bytes()
    with pytest.raises(error, match=message):
        cluster.recover(AffinityGroup("g", "A", [(1, 2)]), [pod])
    assert cluster.to_bytes() == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record[0][2].reverse() or record[0].__setitem__(2, ["0", "9"]),
        lambda record: record[0].__setitem__(1, {}),
        lambda record: record[0].__setitem__(1, "c/1"),
        lambda record: record[0][3].pop(),
        lambda record: record.append(record[0]),
    ],
)
def test_a_saved_record_that_is_not_of_its_group_is_refused(spoil):
    cluster = two_tenants()
    cluster.recover(AffinityGroup("g", "A", [(1, 2)]), [place(leaf_indices=(0, 9))])
    state = json.loads(unseal(b"HCCC", 1, cluster.to_bytes()))
    spoil(state["groups"][0][6])
    with pytest.raises(CorruptStateError):
        CellCluster.from_bytes(seal(b"HCCC", 1, json.dumps(state).encode()))


class Moody:
    """The packing policy, with something done before it answers."""

    def __init__(self):
        self.before = lambda: None

    def choose(self, view, group):
        self.before()
        return [node.number for node in view.nodes if node.leaves >= 4][: group.pods]


def preempting(policy):
    """A cluster in which "high" has reserved the leaves of "low", on a node that is bad now."""
    cluster = two_tenants(B=policy)
    start(cluster, "low", "B", [(2, 4)])
    high = AffinityGroup("high", "B", [(2, 4)], priority=5)
    decision = schedule_and_reserve(cluster, high)
    assert decision.outcome == "preempt"
    cluster.set_health(decision.placement[0].node, False)
    return cluster, high


def test_a_reservation_outlives_a_policy_that_raises():
    policy = Moody()
    cluster, high = preempting(policy)
    before = cluster.to_bytes()
    policy.before = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        schedule_and_reserve(cluster, high)
    assert cluster.to_bytes() == before
    cluster.check()


def test_a_policy_that_reconfigures_the_cluster_gets_no_decision():
    policy = Moody()
    cluster = two_tenants(B=policy)
    policy.before = lambda: cluster.reconfigure(cluster.spec)
    with pytest.raises(StaleDecisionError, match="reconfigured"):
        schedule_and_reserve(cluster, AffinityGroup("g", "B", [(1, 4)]))
    assert cluster.groups() == ()


def test_a_policy_may_answer_with_integers_of_numpy():
    policy = Moody()
    policy.choose = lambda view, group: np.array([len(view.nodes) - 1])
    assert two_tenants(A=policy).schedule(AffinityGroup("g", "A", [(1, 4)])).outcome == "bind"


def test_the_life_of_a_small_group_takes_few_python_frames():
    cluster = two_tenants()
    start(cluster, "other", members=[(1, 2)])
    frames = []
    sys.setprofile(lambda frame, event, _: event == "call" and frames.append(frame.f_code.co_name))
    try:
        group = AffinityGroup("g", "A", [(1, 2)])
        decision = cluster.schedule(group)
        cluster.commit(decision)
        cluster.release("g")
    finally:
        sys.setprofile(None)
    assert 0 < len(frames) <= 14, frames


def test_the_lightest_group_to_release_is_named_of_any_tenant():
    cluster = two_tenants()
    start(cluster, "large", "A", [(3, 4)], priority=-1)
    start(cluster, "small", "B", [(1, 4)], priority=-1)
    waiting = AffinityGroup("waits", "A", [(1, 4)], priority=-1)
    (release,) = cluster.explain(waiting).changes[:1]
    assert (release.kind, release.owners, release.cost) == ("release", ("small",), 4)


# --- reservations on hardware that fails


def reserved(priority=0, **options):
    """Two nodes of two GPUs, one owned by A; `train` has reserved one of them, and it is free."""
    pins = {"A": {"pin": ("c", "node", 0)}} if "pinned_cell" in options else {}
    cells = {"A": {"node": 0 if pins else 1}, "B": {}}
    cluster = CellCluster(owned(cells, Chain(["gpu", "node"], [2], 2), pins))
    start(cluster, "spare", "B", [(2, 2)], priority=-1)
    train = AffinityGroup("train", "A", [(1, 2)], priority=priority, **options)
    request = schedule_and_reserve(cluster, train)
    assert (request.outcome, request.placement[0].node) == ("preempt", "c/0")
    cluster.release("spare")
    return cluster, train


@pytest.mark.parametrize("whole_node", [True, False])
def test_a_reservation_whose_hardware_fails_moves_with_the_next_commit(whole_node):
    cluster, train = reserved()
    early = cluster.schedule(train)
    assert nodes_of(early) == ["c/0"]
    if whole_node:
        cluster.set_health("c/0", False)
    else:
        cluster.set_health("c/0", False, leaf_index=1)
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError, match="a reserved leaf is bad"):
        cluster.commit(early)
    moved = cluster.schedule(train)
    assert (moved.outcome, nodes_of(moved), moved.cancels) == ("bind", ["c/1"], ("train",))
    assert cluster.explain(train).outcome == "bind"
    assert cluster.to_bytes() == before  # phase filtering changes nothing
    cluster.commit(moved)
    assert (cluster.group("train").state, nodes_of(cluster.group("train"))) == (
        "Allocated",
        ["c/1"],
    )
    with pytest.raises(StaleDecisionError, match="reserved nothing"):
        cluster.commit(moved)
    with pytest.raises(StaleDecisionError, match="placed elsewhere"):
        cluster.commit(early)
    cluster.check()
    assert cluster.free_cells()["c"]["node"].tolist() == [0]


def test_a_move_that_comes_too_late_leaves_the_reservation_where_it_was():
    cluster, train = reserved()
    cluster.set_health("c/0", False)
    moved = cluster.schedule(train)
    cluster.set_health("c/1", False)
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        cluster.commit(moved)
    waits = cluster.schedule(train)
    assert (waits.outcome, waits.cancels) == ("wait", ())
    assert cluster.explain(train).outcome == "wait"
    assert cluster.to_bytes() == before
    cluster.set_health("c/0", True)
    again = cluster.schedule(train)
    assert nodes_of(again) == ["c/0"]
    cluster.commit(again)
    cluster.check()


def test_a_reservation_in_a_pinned_cell_waits_until_the_cell_is_healthy():
    cluster, train = reserved(pinned_cell="pin")
    cluster.set_health("c/0", False)
    assert cluster.schedule(train).outcome == "wait"
    cluster.set_health("c/0", True)
    cluster.commit(cluster.schedule(train))
    assert nodes_of(cluster.group("train")) == ["c/0"]


def test_a_reservation_without_victims_is_only_bound_on_suggested_nodes():
    cluster, train = reserved()
    moved = cluster.schedule(train, suggested_nodes=["c/1"])
    assert (moved.outcome, nodes_of(moved)) == ("bind", ["c/1"])
    assert cluster.schedule(train, suggested_nodes=[]).outcome == "wait"
    assert nodes_of(cluster.schedule(train, suggested_nodes=["c/0"])) == ["c/0"]
    cluster.commit(moved)
    assert nodes_of(cluster.group("train")) == ["c/1"]


def test_victims_are_not_evicted_from_bad_hardware():
    cluster = CellCluster(owned({"A": {"node": 2}}, Chain(["gpu", "node"], [2], 2)))
    start(cluster, "low", members=[(1, 2)])
    start(cluster, "low2", members=[(1, 2)])
    high = AffinityGroup("high", "A", [(1, 2)], priority=5)
    (victim,) = schedule_and_reserve(cluster, high).victims
    (node,) = nodes_of(cluster.group("high"))
    assert cluster.schedule(high).victims == (victim,)
    cluster.set_health(node, False)
    (other,) = cluster.schedule(high).victims
    assert other != victim
    assert schedule_and_reserve(cluster, high).victims == (other,)


@pytest.mark.parametrize("downgrades", [(), ("lazy",)])
def test_a_decision_of_before_a_failure_is_refused(downgrades):
    cluster = two_tenants()
    if downgrades:
        start(cluster, "lazy", members=[(2, 4)], lazy_preemption=True)
    group = AffinityGroup("g", "A", [(1, 4)], priority=3)
    decision = cluster.schedule(group)
    assert (decision.outcome, decision.downgrades) == ("bind", downgrades)
    cluster.set_health(decision.placement[0].node, False, leaf_index=2)
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        cluster.commit(decision)
    assert cluster.to_bytes() == before
    cluster.check()


def test_a_policy_that_fails_for_a_reservation_leaves_other_decisions_valid():
    class Failing:
        fails = False

        def choose(self, view, group):
            if self.fails:
                raise ArithmeticError
            return NodeOrderPolicy([]).choose(view, group)

    policy = Failing()
    spec = owned({"A": {"node": 2}, "B": {"node": 1}}, Chain(["gpu", "node"], [2], 3))
    cluster = CellCluster(spec, policies={"A": policy})
    for name in ("s0", "s1", "s2"):
        start(cluster, name, "B", [(1, 2)], priority=-1)
    train = AffinityGroup("train", "A", [(1, 2)])
    reserved = schedule_and_reserve(cluster, train)
    cluster.release("s0")
    cluster.release("s1")
    decision = cluster.schedule(AffinityGroup("other", "B", [(1, 2)]))
    assert (reserved.outcome, decision.outcome) == ("preempt", "bind")
    cluster.set_health(reserved.placement[0].node, False)
    before = cluster.to_bytes()
    policy.fails = True
    with pytest.raises(ArithmeticError):
        schedule_and_reserve(cluster, train)
    assert cluster.to_bytes() == before
    cluster.commit(decision)
    cluster.check()


# --- Downgraded groups


def nodes_each(**count):
    """Two racks of two nodes; the tenants own so many nodes."""
    return owned({name: {"node": n} for name, n in count.items()})


def test_a_reconfiguration_promotes_the_more_important_first():
    cluster = CellCluster(nodes_each(A=3))
    for name, priority in (("low", 0), ("high", 5), ("top", 9)):
        start(cluster, name, members=[(1, 4)], priority=priority)
    assert cluster.reconfigure(nodes_each(A=1, B=2)).downgraded == ("low", "high")
    assert cluster.reconfigure(nodes_each(A=2, B=2)).promoted == ("high",)


def test_a_downgraded_group_remembers_its_cells_while_its_tenant_is_gone():
    cluster = CellCluster(nodes_each(A=1))
    start(cluster, "one", members=[(1, 4)])
    assert cluster.reconfigure(nodes_each(B=1)).downgraded == ("one",)
    cluster = CellCluster.from_bytes(cluster.to_bytes())
    assert cluster.reconfigure(nodes_each(A=1)).promoted == ("one",)


def test_least_evictions_takes_the_chain_where_the_least_is_evicted():
    chains = {"a": racks(1), "b": racks(1)}
    cluster = CellCluster(ClusterSpec(chains, {"A": {name: {"node": 1} for name in chains}}))
    for name, sizes in (("o4", 4), ("o3", 4), ("o2", 4), ("o1", 1), ("o0", 3)):
        start(cluster, name, members=[(1, sizes)], priority=-1)
    group = AffinityGroup("asked", "A", [(1, 1)])
    assert len(cluster.schedule(group).victims) == 1
    assert cluster.schedule(group.replace(evictions="least")).victims == ("o1",)
