"""What `CellCluster` offers beyond HiveD, in the situations in which its users asked for it."""

import random
from collections import Counter

import pytest
from profiles import seeds

from hivecore.cells import (
    AffinityGroup,
    CellCluster,
    Chain,
    ClusterSpec,
    Member,
    NodeOrderPolicy,
    PackingPolicy,
)
from hivecore.errors import InfeasibleAssignmentError, StaleDecisionError

LEVELS = ("gpu", "socket", "node", "rack")


def spec(owned, fanouts=(2, 2), roots=2, pins=None):
    """One chain "c" of gpu, socket, node[, rack]: nodes c/0, c/1, ..."""
    chain = Chain(LEVELS[: len(fanouts) + 1], fanouts, roots)
    return ClusterSpec({"c": chain}, {vc: {"c": cells} for vc, cells in owned.items()}, pins or {})


def racks(owned):
    """Two racks of two nodes of 2 sockets of 4 GPUs."""
    return CellCluster(spec(owned, (4, 2, 2)))


def ask(cluster, name, vc, *members, suggested=None, **options):
    group = AffinityGroup(name, vc, members, **options)
    return cluster.schedule(group, suggested_nodes=suggested)


def reserve(cluster, name, vc, *members, **options):
    """Ask for what somebody has to give way to, and take it for when they are gone."""
    decision = ask(cluster, name, vc, *members, **options)
    cluster.reserve(decision)
    return decision


def start(cluster, name, vc, *members, **options):
    """Place a group, which must be possible at once; where its pods are."""
    decision = ask(cluster, name, vc, *members, **options)
    assert decision.outcome == "bind", decision.reason
    cluster.commit(decision)
    cluster.check()
    return decision.placement


def fill(cluster, vc, size, count):
    """Groups of one pod of that size: place -> name of the group."""
    places = {}
    for i in range(count):
        (pod,) = start(cluster, f"{vc}{i}", vc, (1, size))
        places[pod.node, pod.leaf_indices] = f"{vc}{i}"
    return places


def sockets(pod, size=4):
    return {index // size for index in pod.leaf_indices}


def rack_of(node):
    return int(node.partition("/")[2]) // 2


# --- Hard constraints: within one cell


def split_node(vc="A"):
    """One node of two sockets of 4 GPUs, of which GPUs 0 and 5 are taken."""
    cluster = CellCluster(spec({vc: {"node": 1}}, (4, 2), roots=1))
    for (_, (leaf,)), name in fill(cluster, vc, 1, 8).items():
        if leaf not in (0, 5):
            cluster.release(name)
    return cluster


@pytest.mark.parametrize("priority", [0, -1])
def test_all_gpus_of_a_pod_are_within_one_socket_if_it_says_so(priority):
    cluster = split_node()
    asked = {"priority": priority}
    assert ask(cluster, "g", "A", (1, 4), **asked).outcome == "bind"
    assert ask(cluster, "g", "A", (1, 4, "socket"), **asked).outcome == "wait"
    pods = start(cluster, "g", "A", Member(2, 3, within="socket"), **asked)
    assert [sockets(pod) for pod in pods] in ([{0}, {1}], [{1}, {0}])


def test_members_have_constraints_of_their_own():
    cluster = split_node()
    wide, narrow = start(cluster, "g", "A", (1, 4), Member(1, 2, within="socket"))
    assert sockets(wide) == {0, 1}
    assert len(sockets(narrow)) == 1


def test_a_socket_constraint_is_kept_on_cells_that_are_not_bound_yet():
    cluster = CellCluster(spec({"A": {"node": 2}}, (4, 2), roots=2))
    for pod in start(cluster, "g", "A", Member(4, 3, within="socket")):
        assert len(sockets(pod)) == 1
    assert ask(cluster, "h", "A", Member(1, 2, within="socket")).outcome == "wait"
    assert ask(cluster, "h", "A", (1, 2)).outcome == "bind"


def test_a_whole_group_is_within_one_socket_if_it_says_so():
    cluster = split_node()
    assert ask(cluster, "g", "A", (2, 2)).outcome == "bind"
    assert ask(cluster, "g", "A", (2, 2), within="socket").outcome == "wait"
    pods = start(cluster, "g", "A", (1, 2), (1, 1), within="socket")
    assert len(set().union(*map(sockets, pods))) == 1


def one_free_node_per_rack():
    cluster = racks({"A": {"rack": 2}})
    on = {node: name for (node, _), name in fill(cluster, "A", 8, 4).items()}
    cluster.release(on["c/0"])
    cluster.release(on["c/3"])
    return cluster, on


def test_a_whole_group_is_within_one_rack_if_it_says_so():
    cluster, on = one_free_node_per_rack()
    assert ask(cluster, "g", "A", (2, 8)).outcome == "bind"
    assert ask(cluster, "g", "A", (2, 8), within="rack").outcome == "wait"
    cluster.release(on["c/2"])
    pods = start(cluster, "g", "A", (2, 8), within="rack")
    assert {pod.node for pod in pods} == {"c/2", "c/3"}


def test_a_group_within_a_rack_preempts_in_one_rack_only():
    cluster, on = one_free_node_per_rack()
    decision = ask(cluster, "g", "A", (2, 8), within="rack", priority=1)
    assert decision.outcome == "preempt"
    assert decision.victims in ((on["c/1"],), (on["c/2"],))
    assert len({rack_of(pod.node) for pod in decision.placement}) == 1


def test_an_opportunistic_group_is_within_one_rack_if_it_says_so():
    cluster, on = one_free_node_per_rack()
    asked = {"priority": -1, "within": "rack"}
    assert ask(cluster, "g", "A", (2, 8), **asked).outcome == "wait"
    assert len(start(cluster, "g", "A", (2, 4), **asked)) == 2
    cluster.release("g")
    cluster.release(on["c/1"])
    assert {pod.node for pod in start(cluster, "h", "A", (2, 8), **asked)} == {"c/0", "c/1"}


@pytest.mark.parametrize("level", ["rack", "node", "socket", "gpu"])
def test_a_constraint_that_can_never_be_kept_makes_the_group_wait(level):
    cluster = racks({"A": {"rack": 2}})
    size = {"rack": 16, "node": 8, "socket": 4, "gpu": 1}[level]
    assert ask(cluster, "fits", "A", (size, 1), within=level).outcome == "bind"
    assert ask(cluster, "over", "A", (size + 1, 1), within=level).outcome == "wait"


# --- Racks


@pytest.mark.parametrize("priority", [0, -1])
def test_a_gang_stays_in_one_rack_where_it_can(priority):
    cluster = racks({"A": {"rack": 2}})
    (first,) = start(cluster, "one", "A", (1, 8), priority=priority)
    gang = start(cluster, "gang", "A", (2, 8), priority=priority)
    assert {rack_of(pod.node) for pod in gang} == {1 - rack_of(first.node)}
    assert start(cluster, "last", "A", (1, 8), priority=priority)


def test_a_gang_goes_over_two_racks_rather_than_wait():
    cluster, _ = one_free_node_per_rack()
    assert {pod.node for pod in start(cluster, "g", "A", (2, 8))} == {"c/0", "c/3"}


# --- Pack or spread


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize(("placement", "nodes"), [("pack", 1), ("spread", 4)])
def test_pods_of_a_group_are_packed_or_spread_as_asked(priority, placement, nodes):
    cluster = CellCluster(spec({"A": {"node": 4}}, roots=4))
    pods = start(cluster, "g", "A", (4, 1), placement=placement, priority=priority)
    assert len({pod.node for pod in pods}) == nodes


def test_spread_groups_of_one_pod_go_to_the_least_used_node():
    cluster = CellCluster(spec({"A": {"node": 3}}, roots=3))
    nodes = [start(cluster, f"g{i}", "A", (1, 1), placement="spread")[0].node for i in range(6)]
    assert len(set(nodes[:3])) == len(set(nodes[3:])) == 3


def test_spreading_does_not_keep_a_group_from_the_only_place_it_has():
    cluster = CellCluster(spec({"A": {"node": 2}}))
    start(cluster, "one", "A", (1, 3))
    pods = start(cluster, "g", "A", (1, 1), (1, 4), placement="spread")
    assert len({pod.node for pod in pods}) == 2


# --- Merging sibling cells


def test_single_gpu_cells_serve_a_larger_pod_on_request():
    cluster = CellCluster(spec({"A": {"gpu": 3}, "B": {"node": 1}}))
    assert ask(cluster, "g", "A", (1, 3)).outcome == "wait"
    start(cluster, "g", "A", (1, 3), merge_siblings=True)
    assert ask(cluster, "more", "A", (1, 1)).outcome == "wait"
    start(cluster, "b", "B", (1, 4))


def test_merged_cells_make_a_whole_node():
    cluster = CellCluster(spec({"A": {"socket": 2}, "B": {"node": 1}}))
    (pod,) = start(cluster, "g", "A", (1, 4), merge_siblings=True)
    assert pod.leaf_indices == (0, 1, 2, 3)
    start(cluster, "b", "B", (1, 4))
    cluster.release("g")
    start(cluster, "a0", "A", (1, 2))
    start(cluster, "a1", "A", (1, 2))


def test_merging_never_goes_beyond_what_the_tenant_owns_or_a_node_has():
    cluster = CellCluster(spec({"A": {"gpu": 5}}))
    with pytest.raises(ValueError, match="can never be served"):
        ask(cluster, "g", "A", (1, 5), merge_siblings=True)
    assert ask(cluster, "g", "A", (2, 3), merge_siblings=True).outcome == "wait"
    pods = start(cluster, "g", "A", (1, 3), (1, 2), merge_siblings=True)
    assert [len(pod.leaf_indices) for pod in pods] == [3, 2]


def test_merging_breaks_no_rack_that_is_owed():
    owned = {"A": {"socket": 2}, "B": {"rack": 1}}
    cluster = racks(owned)
    start(cluster, "g", "A", (1, 8), merge_siblings=True)
    gang = start(cluster, "b", "B", (2, 8))
    assert len({rack_of(pod.node) for pod in gang}) == 1


# --- Health of single GPUs


def test_only_the_broken_gpu_of_a_node_is_avoided():
    cluster = CellCluster(spec({"A": {"node": 1}}, roots=1))
    cluster.set_health("c/0", False, leaf_index=2)
    assert cluster.bad_nodes() == ("c/0",)
    assert ask(cluster, "g", "A", (1, 4)).outcome == "wait"
    assert ask(cluster, "g", "A", (1, 3)).placement[0].leaf_indices == (0, 1, 3)
    assert start(cluster, "two", "A", (1, 2))[0].leaf_indices == (0, 1)
    assert start(cluster, "o", "A", (1, 1), priority=-1)[0].leaf_indices == (3,)
    cluster.set_health("c/0", True, leaf_index=2)
    assert start(cluster, "one", "A", (1, 1))[0].leaf_indices == (2,)


def test_a_whole_node_is_preferred_to_one_with_a_broken_gpu():
    for broken in ("c/0", "c/1", "c/2"):
        cluster = CellCluster(spec({"A": {"node": 2}, "B": {"node": 1}}, roots=3))
        cluster.set_health(broken, False, leaf_index=0)
        pods = start(cluster, "g", "A", (2, 4))
        assert broken not in {pod.node for pod in pods}
        assert start(cluster, "b", "B", (1, 3))[0].node == broken


def test_a_group_stays_on_a_gpu_that_breaks():
    cluster = CellCluster(spec({"A": {"node": 1}}, roots=1))
    start(cluster, "g", "A", (1, 4))
    cluster.set_health("c/0", False, leaf_index=1)
    assert cluster.group("g").state == "Allocated"
    cluster.release("g")
    assert ask(cluster, "g", "A", (1, 4)).outcome == "wait"


# --- Policies within a tenant


@pytest.mark.parametrize("order", [["c/0", "c/1"], ["c/1", "c/0"]])
def test_a_policy_chooses_the_node_within_its_tenant(order):
    cluster = CellCluster(spec({"A": {"node": 2}}), policies={"A": NodeOrderPolicy(order)})
    nodes = {start(cluster, name, "A", (1, 3))[0].node for name in "xy"}
    assert nodes == {"c/0", "c/1"}
    assert [start(cluster, f"p{i}", "A", (1, 1))[0].node for i in range(2)] == order


def test_the_packing_policy_packs():
    cluster = CellCluster(spec({"A": {"node": 2}}), policies={"A": PackingPolicy()})
    assert len({start(cluster, f"p{i}", "A", (1, 1))[0].node for i in range(4)}) == 1
    assert start(cluster, "q", "A", (1, 4))


class Emptiest:
    """A policy of a third party: every pod on a node of its own, the emptiest first."""

    def choose(self, view, group):
        nodes = sorted(view.nodes, key=lambda node: -node.free)
        return [node.number for node in nodes[: group.pods]] if group.pods <= len(nodes) else None


def test_a_policy_of_a_third_party_decides_for_its_tenant_alone():
    owned = {"A": {"node": 2}, "B": {"node": 1}}
    cluster = CellCluster(spec(owned, roots=3), policies={"A": Emptiest()})
    assert len({pod.node for pod in start(cluster, "a", "A", (2, 1))}) == 2
    assert ask(cluster, "three", "A", (3, 1)).outcome == "wait"
    assert len({pod.node for pod in start(cluster, "b", "B", (2, 1))}) == 1


class Fixed:
    def __init__(self, answer):
        self.answer = answer

    def choose(self, view, group):
        return self.answer


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("answer", [[0, 2, 3], [0, 1, 2], [3, 0, 1]])
def test_a_policys_choice_is_mapped_around_a_bad_node_wherever_that_is_possible(bad, answer):
    """One rack is asked for two nodes and the other for one: only one way round fits."""
    chain = Chain(("gpu", "node", "rack", "row"), (4, 2, 2), 1)
    owned = ClusterSpec({"c": chain}, {"A": {"c": {"row": 1}}})
    cluster = CellCluster(owned, policies={"A": Fixed(answer)})
    cluster.set_health(f"c/{bad}", False)
    pods = start(cluster, "g", "A", (3, 4))
    assert {pod.node for pod in pods} == {f"c/{i}" for i in range(4)} - {f"c/{bad}"}


@pytest.mark.parametrize(
    "answer",
    [None, [], [0, 0], [0, 1, 0], [7, 8], [-1, 0], [2**70, 0], ["c/0", "c/1"], [0.0, 1.0], 5],
)
def test_whatever_a_policy_answers_every_guarantee_holds(answer):
    owned = {"A": {"node": 2}, "B": {"node": 2}}
    cluster = CellCluster(spec(owned, roots=4), policies={"A": Fixed(answer)})
    start(cluster, "o", "A", (4, 4), priority=-1)
    before = cluster.to_bytes()
    try:
        decision = ask(cluster, "g", "A", (2, 4))
    except (ValueError, TypeError):
        pass
    else:
        assert decision.outcome == "wait"
    assert cluster.to_bytes() == before
    cluster.check()
    assert ask(cluster, "b", "B", (2, 4)).victims == ("o",)
    cluster.release("o")
    start(cluster, "b", "B", (2, 4))


# --- Explanations


def apply(cluster, change, suggested=None):
    """The decision about the group on a branch where the change is made."""
    branch = cluster.copy()
    for name in change.owners:
        branch.release(name)
    if "suggested_nodes" in change.relaxed:
        suggested = None
    return branch.schedule(change.request, suggested_nodes=suggested)


def explained(cluster, group, suggested=None):
    """The explanation of a group that has to wait; each change is tried, and nothing changes."""
    before = cluster.to_bytes()
    found = cluster.explain(group, suggested_nodes=suggested)
    assert found.outcome in ("wait", "preempt")
    assert found.reason
    for change in found.changes:
        assert apply(cluster, change, suggested).outcome == "bind"
    costs = [(change.relaxed == ("priority",), change.cost) for change in found.changes]
    assert costs == sorted(costs)
    assert found.cheapest == (found.changes[0] if found.changes else None)
    assert cluster.to_bytes() == before
    return found


def test_the_cheapest_release_is_the_smallest_group_that_is_in_the_way():
    cluster = CellCluster(spec({"A": {"node": 2}}))
    for name, size in (("four", 4), ("three", 3), ("one", 1)):
        start(cluster, name, "A", (1, size))
    found = explained(cluster, AffinityGroup("g", "A", [(1, 1)]))
    assert (found.outcome, found.cheapest.kind) == ("wait", "release")
    assert (found.cheapest.owners, found.cheapest.cost) == (("one",), 1)
    assert explained(cluster, AffinityGroup("g", "A", [(1, 2)])).cheapest.owners == ("three",)
    whole = explained(cluster, AffinityGroup("g", "A", [(1, 4)])).cheapest
    assert (set(whole.owners), whole.cost) in (({"four"}, 4), ({"three", "one"}, 4))
    (shortage,) = found.shortages
    assert (shortage.chain, set(shortage.holders)) == ("c", {"four", "three", "one"})


def test_a_preemption_is_explained_by_its_victims():
    cluster = CellCluster(spec({"A": {"node": 1}}, roots=1))
    start(cluster, "low", "A", (1, 4))
    found = explained(cluster, AffinityGroup("g", "A", [(1, 2)], priority=1))
    assert (found.outcome, found.cheapest.kind) == ("preempt", "preempt")
    assert found.cheapest.owners == ("low",)


def test_a_constraint_in_the_way_is_named():
    cluster = split_node()
    found = explained(cluster, AffinityGroup("g", "A", [Member(1, 4, within="socket")]))
    assert (found.cheapest.kind, found.cheapest.owners) == ("relax", ())
    (suggested,) = explained(cluster, AffinityGroup("h", "A", [(1, 2)]), suggested=[]).changes[:1]
    assert suggested.relaxed == ("suggested_nodes",)


def test_nothing_helps_a_group_larger_than_all_that_its_tenant_owns():
    cluster = CellCluster(spec({"A": {"node": 1}}))
    start(cluster, "low", "A", (1, 4))
    found = explained(cluster, AffinityGroup("g", "A", [(1, 5)]))
    assert found.cheapest is None


def test_a_group_that_can_start_needs_no_change():
    cluster = CellCluster(spec({"A": {"node": 1}}))
    found = cluster.explain(AffinityGroup("g", "A", [(1, 4)]))
    assert (found.outcome, found.reason, found.cheapest) == ("bind", "", None)


@pytest.mark.parametrize("seed", seeds(15))
def test_every_proposed_change_admits_the_group(seed):
    rng = random.Random(seed)
    cluster = racks({"A": {"rack": 1, "node": 1}, "B": {"socket": 2}})
    for i in range(12):
        members = [(rng.randint(1, 2), rng.choice([1, 2, 3, 4, 8]))]
        decision = ask(cluster, f"g{i}", rng.choice("AAB"), *members, priority=rng.randint(-1, 2))
        if decision.outcome == "bind":
            cluster.commit(decision)
    if rng.random() < 0.5:
        cluster.set_health(f"c/{rng.randrange(4)}", False)
    for _ in range(6):
        options = {"within": rng.choice([None, "socket", "rack"]), "priority": rng.randint(-1, 2)}
        group = AffinityGroup("new", rng.choice("AB"), [(rng.randint(1, 2), 4)], **options)
        if cluster.schedule(group).outcome != "bind":
            explained(cluster, group)


# --- Doomed cells, accounted over all tenants


def doomed(cluster):
    return {
        (vc, level): count
        for vc, chains in cluster.doomed().items()
        for levels in chains.values()
        for level, count in levels.items()
        if count
    }


def test_a_cell_that_two_tenants_hope_for_is_counted_once():
    cluster = CellCluster(spec({"A": {"node": 1}, "B": {"node": 1}}))
    assert doomed(cluster) == {}
    cluster.set_health("c/1", False)
    assert sum(doomed(cluster).values()) == 1
    cluster.set_health("c/0", False)
    assert doomed(cluster) == {("A", "node"): 1, ("B", "node"): 1}
    cluster.set_health("c/1", True)
    start(cluster, "b", "B", (1, 4))
    assert doomed(cluster) == {("A", "node"): 1}


def test_what_is_lost_is_charged_to_whom_it_leaves_most():
    cluster = CellCluster(spec({"A": {"node": 2}, "B": {"node": 1}}, roots=3))
    cluster.set_health("c/2", False)
    assert doomed(cluster) == {("A", "node"): 1}


def test_owners_of_large_cells_are_not_doomed_by_what_small_ones_lose():
    cluster = racks({"A": {"rack": 1}, "B": {"node": 2}})
    cluster.set_health("c/0", False)
    assert doomed(cluster) == {("B", "node"): 1}
    cluster.set_health("c/3", False)
    assert doomed(cluster) == {("A", "rack"): 1}


# --- Reconfiguration in place


def test_a_reconfiguration_downgrades_the_lowest_priorities_and_kills_nobody():
    cluster = CellCluster(spec({"A": {"node": 3}}, roots=3))
    for name, priority in (("low", 0), ("high", 2), ("mid", 1)):
        start(cluster, name, "A", (1, 4), priority=priority)
    changes = cluster.reconfigure(spec({"A": {"node": 2}, "B": {"node": 1}}, roots=3))
    assert (changes.downgraded, changes.lost, changes.cancelled) == (("low",), {}, ())
    assert cluster.groups() == ("low", "high", "mid")
    cluster.check()
    assert ask(cluster, "b", "B", (1, 4)).victims == ("low",)


def test_a_reconfiguration_gives_up_reservations_and_lost_gpus():
    cluster = CellCluster(spec({"A": {"node": 2}}))
    start(cluster, "gang", "A", (2, 4))
    assert reserve(cluster, "high", "A", (1, 4), priority=1).outcome == "preempt"
    changes = cluster.reconfigure(spec({"A": {"node": 1}}, roots=1))
    assert (changes.downgraded, changes.cancelled) == ((), ("high",))
    assert {name: set(gpus) for name, gpus in changes.lost.items()} == {
        "gang": {("c/1", i) for i in range(4)}
    }
    assert cluster.group("gang").state == "Allocated"
    assert ask(cluster, "more", "A", (1, 1)).outcome == "wait"


def test_a_reconfiguration_that_does_not_fit_changes_nothing():
    cluster = CellCluster(spec({"A": {"node": 2}}))
    start(cluster, "g", "A", (1, 4))
    before = cluster.to_bytes()
    with pytest.raises(InfeasibleAssignmentError):
        cluster.reconfigure(spec({"A": {"node": 3}}))
    assert cluster.to_bytes() == before


def test_bad_hardware_stays_bad_over_a_reconfiguration():
    cluster = CellCluster(spec({"A": {"node": 2}}))
    cluster.set_health("c/0", False)
    cluster.reconfigure(spec({"A": {"node": 3}}, roots=3))
    assert cluster.bad_nodes() == ("c/0",)
    assert ask(cluster, "g", "A", (3, 4)).outcome == "wait"
    assert {pod.node for pod in start(cluster, "g", "A", (2, 4))} == {"c/1", "c/2"}


# --- Decisions, branches, saved states


def test_a_decision_changes_nothing_and_is_refused_when_it_no_longer_fits():
    cluster = CellCluster(spec({"A": {"node": 1}}, roots=1))
    before = cluster.to_bytes()
    first, second = ask(cluster, "x", "A", (1, 3)), ask(cluster, "y", "A", (1, 3))
    assert cluster.to_bytes() == before
    cluster.commit(first)
    state = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        cluster.commit(second)
    assert cluster.to_bytes() == state


def test_a_branch_and_a_saved_state_go_on_like_the_original():
    cluster = racks({"A": {"rack": 1}, "B": {"node": 1, "socket": 2}})
    start(cluster, "a", "A", (2, 3))
    start(cluster, "b", "B", (1, 4))
    decision = reserve(cluster, "high", "A", (2, 8), priority=3)
    assert decision.victims == ("a",)
    branch, saved = cluster.copy(), CellCluster.from_bytes(cluster.to_bytes())
    placements = []
    for one in (cluster, branch, saved):
        one.release("a")
        one.commit(ask(one, "high", "A", (2, 8), priority=3))
        pods = [pod for i in range(3) for pod in start(one, f"b{i}", "B", (1, 4))]
        placements.append(pods)
        one.check()
    assert placements[0] == placements[1] == placements[2]
    assert cluster.groups() == ("b", "high", "b0", "b1", "b2")


@pytest.mark.parametrize("seed", seeds(5))
def test_the_surplus_is_never_negative_on_whole_hardware(seed):
    rng = random.Random(seed)
    cluster = CellCluster(
        spec({"A": {"rack": 1, "node": 1, "gpu": 3}, "B": {"socket": 4, "node": 2}}, (4, 2, 2), 4)
    )
    for i in range(80):
        if cluster.groups() and rng.random() < 0.4:
            cluster.release(rng.choice(cluster.groups()))
        else:
            members = [(rng.randint(1, 3), rng.choice([1, 1, 2, 3, 4, 8]))]
            options = {
                "priority": rng.randint(-1, 2),
                "placement": rng.choice(["pack", "spread"]),
                "merge_siblings": rng.random() < 0.3,
                "within": rng.choice([None, None, "node", "rack"]),
                "lazy_preemption": rng.random() < 0.5,
            }
            decision = ask(cluster, f"g{i}", rng.choice("AB"), *members, **options)
            for victim in decision.victims:
                cluster.release(victim)
            if decision.outcome == "preempt":
                decision = ask(
                    cluster, f"g{i}", decision.request.virtual_cluster, *members, **options
                )
            if decision.outcome == "bind":
                cluster.commit(decision)
        assert min(cluster.surplus("c").values()) >= 0
        users, _ = cluster.leaf_groups("c")
        sizes = Counter(name for name in users if name is not None)
        assert sizes == {name: cluster.group(name).group.leaves for name in cluster.groups()}
    cluster.check()
