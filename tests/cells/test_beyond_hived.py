"""What `CellCluster` offers beyond HiveD: that each wish of a group or a tenant is heeded."""

import pytest
from cells.affinity_groups import ask, owned, racks, start

from hivecore.cells import AffinityGroup, CellCluster, Member
from hivecore.errors import InfeasibleAssignmentError

NODES = (2, 2)  # nodes of two pairs
LARGE_NODES = (4, 2, 2)  # racks of two nodes of two "pairs" of four


def flat(tenants, count=2):
    """So many nodes of four GPUs, c/0, c/1, ..., that are in no rack."""
    return owned(tenants, racks(count, NODES))


def fill(cluster, size, count):
    """Groups of one pod of that size: (node, leaves) -> name of the group."""
    places = {}
    for i in range(count):
        (pod,) = start(cluster, f"A{i}", members=[(1, size)]).placement
        places[pod.node, pod.leaf_indices] = f"A{i}"
    return places


def test_members_have_constraints_of_their_own():
    cluster = CellCluster(owned({"A": {"node": 1}}, racks(1, (4, 2))))
    for (_, (leaf,)), name in fill(cluster, 1, 8).items():
        if leaf not in (0, 5):
            cluster.release(name)
    members = [(1, 4), Member(1, 2, within="pair")]
    wide, narrow = start(cluster, "g", members=members).placement
    assert {leaf // 4 for leaf in wide.leaf_indices} == {0, 1}
    assert len({leaf // 4 for leaf in narrow.leaf_indices}) == 1


def test_a_whole_group_is_within_one_rack_if_it_says_so():
    cluster = CellCluster(owned({"A": {"rack": 2}}, racks(2, LARGE_NODES)))
    on = {node: name for (node, _), name in fill(cluster, 8, 4).items()}
    cluster.release(on["c/0"])
    cluster.release(on["c/3"])
    assert ask(cluster, "g", members=[(2, 8)]).outcome == "bind"
    assert ask(cluster, "g", members=[(2, 8)], within="rack").outcome == "wait"
    cluster.release(on["c/2"])
    pods = start(cluster, "g", members=[(2, 8)], within="rack").placement
    assert {pod.node for pod in pods} == {"c/2", "c/3"}


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize(("placement", "nodes"), [("pack", 1), ("spread", 4)])
def test_pods_of_a_group_are_packed_or_spread_as_asked(priority, placement, nodes):
    cluster = CellCluster(flat({"A": {"node": 4}}, 4))
    options = {"placement": placement, "priority": priority}
    pods = start(cluster, "g", members=[(4, 1)], **options).placement
    assert len({pod.node for pod in pods}) == nodes


def test_single_gpu_cells_serve_a_larger_pod_on_request():
    cluster = CellCluster(flat({"A": {"gpu": 3}, "B": {"node": 1}}))
    assert ask(cluster, "g", members=[(1, 3)]).outcome == "wait"
    start(cluster, "g", members=[(1, 3)], merge_siblings=True)
    assert ask(cluster, "more").outcome == "wait"
    start(cluster, "b", "B", [(1, 4)])


def test_only_the_broken_gpu_of_a_node_is_avoided():
    cluster = CellCluster(flat({"A": {"node": 1}}, 1))
    cluster.set_health("c/0", False, leaf_index=2)
    assert cluster.bad_nodes() == ("c/0",)
    assert ask(cluster, "g", members=[(1, 4)]).outcome == "wait"

    def leaves(name, size, priority=0):
        decision = start(cluster, name, members=[(1, size)], priority=priority)
        return decision.placement[0].leaf_indices

    assert leaves("two", 2) == (0, 1)
    assert leaves("o", 1, -1) == (3,)
    cluster.set_health("c/0", True, leaf_index=2)
    assert leaves("one", 1) == (2,)


# --- Policies within a tenant


class Emptiest:
    """A policy of a third party: every pod on a node of its own, the emptiest first."""

    def choose(self, view, group):
        assert view.chain == "c"
        assert [node.leaves for node in view.nodes] == [4, 4]
        nodes = sorted(view.nodes, key=lambda node: -node.free)
        return [node.number for node in nodes[: group.pods]] if group.pods <= len(nodes) else None


def test_a_policy_of_a_third_party_decides_for_its_tenant_alone():
    spec = flat({"A": {"node": 2}, "B": {"node": 1}}, 3)
    cluster = CellCluster(spec, policies={"A": Emptiest()})
    assert len({pod.node for pod in start(cluster, "a", "A", [(2, 1)]).placement}) == 2
    assert ask(cluster, "three", "A", [(3, 1)]).outcome == "wait"
    assert len({pod.node for pod in start(cluster, "b", "B", [(2, 1)]).placement}) == 1


class Fixed:
    def __init__(self, answer):
        self.answer = answer

    def choose(self, view, group):
        return self.answer


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("answer", [[0, 2, 3], [0, 1, 2], [3, 0, 1]])
def test_a_policys_choice_is_mapped_around_a_bad_node_wherever_that_is_possible(bad, answer):
    """One rack is asked for two nodes and the other for one: only one way round fits."""
    row = racks(1, (4, 2, 2), node_level="pair")
    cluster = CellCluster(owned({"A": {"rack": 1}}, row), policies={"A": Fixed(answer)})
    cluster.set_health(f"c/{bad}", False)
    pods = start(cluster, "g", members=[(3, 4)]).placement
    assert {pod.node for pod in pods} == {f"c/{i}" for i in range(4)} - {f"c/{bad}"}


@pytest.mark.parametrize(
    "answer",
    [
        *(None, 5, "ab", [], [0], [0, 0], [0, 1, 0], [7, 8], [0, -1], [-1, 0], [2**70, 0]),
        *(["c/0", "c/1"], [0, "x"], [0.0, 1.0], [0, 1.0]),
    ],
)
def test_whatever_a_policy_answers_every_guarantee_holds(answer):
    spec = flat({"A": {"node": 2}, "B": {"node": 2}}, 4)
    cluster = CellCluster(spec, policies={"A": Fixed(answer)})
    start(cluster, "o", members=[(4, 4)], priority=-1)
    before = cluster.to_bytes()
    if answer in (None, [0, 0]):
        (refusal,) = ask(cluster, "g", members=[(2, 4)]).refusals
        assert refusal.code == "policy"
    else:
        with pytest.raises((ValueError, TypeError), match="policy's choice"):
            ask(cluster, "g", members=[(2, 4)])
    assert cluster.to_bytes() == before
    assert start(cluster, "b", "B", [(2, 4)]).outcome == "bind"


# --- Explanations, doomed cells, reconfiguration


def test_nothing_helps_a_group_larger_than_all_that_its_tenant_owns():
    cluster = CellCluster(flat({"A": {"node": 1}}))
    start(cluster, "low", members=[(1, 4)])
    assert cluster.explain(AffinityGroup("g", "A", [(1, 5)])).cheapest is None


def test_a_cell_that_two_tenants_hope_for_is_counted_once():
    cluster = CellCluster(flat({"A": {"node": 1}, "B": {"node": 1}}))

    def doomed():
        return {vc: chains["c"]["node"] for vc, chains in cluster.doomed().items()}

    assert sum(doomed().values()) == 0
    cluster.set_health("c/1", False)
    assert sum(doomed().values()) == 1
    cluster.set_health("c/0", False)
    assert doomed() == {"A": 1, "B": 1}
    cluster.set_health("c/1", True)
    start(cluster, "b", "B", [(1, 4)])
    assert doomed() == {"A": 1}


def test_a_reconfiguration_gives_up_reservations_and_lost_gpus():
    cluster = CellCluster(flat({"A": {"node": 2}}))
    start(cluster, "gang", members=[(2, 4)])
    preempts = ask(cluster, "high", members=[(1, 4)], priority=1)
    cluster.reserve(preempts)
    changes = cluster.reconfigure(flat({"A": {"node": 1}}, 1))
    assert (changes.downgraded, changes.cancelled) == ((), ("high",))
    assert {name: set(gpus) for name, gpus in changes.lost.items()} == {
        "gang": {("c/1", i) for i in range(4)}
    }
    assert cluster.group("gang").state == "Allocated"
    assert ask(cluster, "more").outcome == "wait"


def test_a_reconfiguration_that_does_not_fit_changes_nothing():
    cluster = CellCluster(flat({"A": {"node": 2}}))
    start(cluster, "g", members=[(1, 4)])
    before = cluster.to_bytes()
    with pytest.raises(InfeasibleAssignmentError):
        cluster.reconfigure(flat({"A": {"node": 3}}))
    assert cluster.to_bytes() == before
