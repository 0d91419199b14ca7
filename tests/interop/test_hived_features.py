"""What HiveD's users rely on, feature by feature: the situations of its own tests and more.

The sections carry the numbers of HiveD's feature list; 9 to 14 are in test_hived_preemption.py, 18
to 20 in test_hived_hardware.py, 22 to 24 and 27 in test_hived_recovery.py. Each scenario states one
fact. It asserts what the semantics force (who runs, on which node or on one of which nodes, who has
to go), often that the other tenants still get all that they own.
"""

import itertools
import json
import random

import pytest
from interop.hived_cluster import (
    FLAT,
    TREE,
    Hived,
    config,
    flat,
    node,
    nodes,
    rack,
    rack_of,
    racks,
    walk,
)
from profiles import seeds

from hivecore.errors import StaleDecisionError
from hivecore.interop.hived import HivedScheduler, RequestError

ALL = {0, 1, 2, 3}


# --- 1. Multi-level cell types, forged levels


def test_cells_of_any_depth_are_split_only_as_far_as_needed():
    types = {
        "PAIR": (2, "GPU"),
        "HALF": (2, "PAIR"),
        "NODE": (2, "HALF"),
        "RACK": (3, "NODE"),
        "ROW": (2, "RACK"),
    }
    hived = Hived(config(types, [{"cellType": "ROW"}], {"A": {"ROW.RACK.NODE.HALF": 1}}))
    assert hived.free() == {("ROW", "ROW"): ["0"]}
    hived.run("a", "A", 3)
    left = {cell_type: len(cells) for (_, cell_type), cells in hived.free().items()}
    assert left == {"RACK": 1, "NODE": 2, "HALF": 1}


def test_a_forged_level_guarantees_aligned_halves_of_a_node():
    types = {"HALF": (4, "GPU"), "NODE": (2, "HALF")}
    hived = Hived(config(types, nodes("n0"), {"A": {"NODE.HALF": 2}}))
    places = [set(hived.run(pod, "A", 4).leaf_cells) for pod in ("a", "b")]
    assert sorted(places, key=min) == [{0, 1, 2, 3}, {4, 5, 6, 7}]


def test_sibling_cells_below_a_node_are_not_merged_for_a_larger_pod():
    hived = flat(1, {"A": {"NODE.SWITCH": 2}})
    assert hived.ask("a", "A", 3).outcome == "wait"
    assert hived.ask("b", "A", 4).outcome == "wait"
    hived.claim("A", 2, 2)


# --- 2. Addresses, names, indices


def test_default_addresses_continue_the_index_of_the_top_cell_and_restart_inside_a_node():
    gpus = {"A": {"RACK.NODE.SWITCH.GPU": 16}}
    hived = Hived(config(TREE, [{"cellType": "RACK"}, {"cellType": "RACK"}], gpus))
    assert hived.free() == {("RACK", "RACK"): ["0", "1"]}
    places = {f"p{i}": hived.run(f"p{i}", "A", 1) for i in range(16)}
    assert hived.free() == {}
    assert {(place.node, *place.leaf_cells) for place in places.values()} == {
        (name, leaf) for name in "0123" for leaf in range(4)
    }
    for pod, place in places.items():
        hived.gone(pod)
        (leaf,) = place.leaf_cells
        address = f"{int(place.node) // 2}/{place.node}/{leaf // 2}/{leaf}"
        assert hived.free() == {("RACK", "GPU"): [address]}
        hived.run(pod, "A", 1)


def test_nodes_and_gpus_are_called_what_the_configuration_calls_them():
    switches = [
        {"cellAddress": "left", "cellChildren": [{"cellAddress": "8"}, {"cellAddress": "9"}]},
        {"cellChildren": [{"cellAddress": "1"}, {"cellAddress": "0"}]},
    ]
    cells = [node("10.0.0.1", cellChildren=switches)]
    hived = Hived(config(FLAT, cells, {"A": {"NODE.SWITCH": 2}}))
    first, second = hived.run("a", "A", 2), hived.run("b", "A", 2)
    assert first.node == second.node == "10.0.0.1"
    assert {frozenset(first.leaf_cells), frozenset(second.leaf_cells)} == {
        frozenset({8, 9}),
        frozenset({0, 1}),
    }
    one_switch_free = Hived(config(FLAT, cells, {"A": {"NODE.SWITCH": 1}}))
    used = set(one_switch_free.run("a", "A", 2).leaf_cells)
    (address,) = one_switch_free.free()[("NODE", "SWITCH")]
    assert address == {8: "10.0.0.1/1", 0: "10.0.0.1/left"}[8 if 8 in used else 0]


def test_one_machine_may_hold_several_kinds_of_devices():
    types = {"G-NODE": (4, "G"), "F-NODE": (2, "F")}
    tenants = {"A": {"G-NODE": 1, "F-NODE": 1}}
    hived = Hived(config(types, [node("m", "G-NODE"), node("m", "F-NODE")], tenants))
    g = hived.run("g", "A", 4, leafCellType="G")
    f = hived.run("f", "A", 2, leafCellType="F")
    assert (g.node, g.chain, set(g.leaf_cells)) == ("m", "G-NODE", ALL)
    assert (f.node, f.chain, set(f.leaf_cells)) == ("m", "F-NODE", {0, 1})
    hived.gone("g", "f")
    hived.fail("m")
    for kind in "GF":
        assert hived.ask(kind, "A", 1, leafCellType=kind).outcome == "wait"
    hived.heal("m")
    hived.claim("A", 4, leafCellType="G", name="g")
    hived.claim("A", 2, leafCellType="F", name="f")


# --- 3. Virtual clusters: quantity, topology and type are guaranteed


@pytest.mark.parametrize("first_release", [0, 1])
def test_a_rack_stays_whole_for_its_owner_however_the_other_tenant_comes_and_goes(first_release):
    hived = racks(2, {"A": {"RACK": 1}, "B": {"RACK.NODE": 2}})
    for turn in range(4):
        mine = hived.run("b0", "B", 4).node, hived.run("b1", "B", 4).node
        assert rack_of(mine[0]) == rack_of(mine[1])
        gang = hived.gang("a", "A", [(2, 4)])
        assert {pod.node for pod in gang} | set(mine) == {"n0", "n1", "n2", "n3"}
        hived.gone("a/0", "a/1")
        hived.gone(f"b{first_release}")
        assert rack_of(hived.run(f"c{turn}", "B", 4).node) == rack_of(mine[0])
        hived.gone(f"c{turn}", f"b{1 - first_release}")


def test_idle_foreign_cells_are_not_lent_to_guaranteed_pods():
    hived = flat(3, {"A": {"NODE": 1}, "B": {"NODE": 2}})
    hived.run("a", "A", 4)
    assert hived.ask("more", "A", 1, priority=1000, phase="Filtering").outcome == "preempt"
    assert hived.ask("equal", "A", 1).outcome == "wait"
    hived.claim("B", 4, 4)


# --- 4. Feasibility at start


@pytest.mark.parametrize(
    ("owned", "fits"),
    [
        ({"RACK": 2}, True),
        ({"RACK": 3}, False),
        ({"RACK": 1, "RACK.NODE": 2}, True),
        ({"RACK": 1, "RACK.NODE": 3}, False),
        ({"RACK": 1, "RACK.NODE": 1, "RACK.NODE.SWITCH": 2}, True),
        ({"RACK": 1, "RACK.NODE": 1, "RACK.NODE.SWITCH": 3}, False),
        ({"RACK": 1, "RACK.NODE": 1, "RACK.NODE.SWITCH": 1, "RACK.NODE.SWITCH.GPU": 2}, True),
        ({"RACK": 1, "RACK.NODE": 1, "RACK.NODE.SWITCH": 1, "RACK.NODE.SWITCH.GPU": 3}, False),
        ({"RACK.NODE.SWITCH.GPU": 16}, True),
        ({"RACK.NODE.SWITCH.GPU": 17}, False),
        ({"RACK.NODE": 4, "RACK.NODE.SWITCH.GPU": 1}, False),
    ],
)
def test_an_assignment_is_accepted_up_to_the_last_cell_and_not_beyond(owned, fits):
    cells = [rack("n0", "n1"), rack("n2", "n3")]
    everything = config(TREE, cells, {"A": owned})
    one_tenant_per_path = config(
        TREE, cells, {f"T{i}": {path: count} for i, (path, count) in enumerate(owned.items())}
    )
    for document in (everything, one_tenant_per_path):
        if fits:
            assert HivedScheduler(document).free_cells()
        else:
            with pytest.raises(ValueError, match=r"NODE|RACK|SWITCH|GPU"):
                HivedScheduler(document)


@pytest.mark.parametrize(
    ("tenants", "named"),
    [
        ({"A": {"NOPE": 1}}, "NOPE"),
        ({"A": {"RACK.NOPE": 1}}, "NOPE"),
        ({"A": ({}, ["unknown"])}, "unknown"),
        ({"A": ({}, ["pin"]), "B": ({}, ["pin"])}, "pin"),
        ({"A": ({"RACK": 1}, ["pin"]), "B": {"RACK": 1}}, "RACK"),
        ({"A": ({"RACK": 1}, ["pin"]), "B": {"RACK.NODE": 2}}, "NODE"),
        ({"A": {"SPARE": 1}}, "SPARE"),
    ],
)
def test_an_assignment_that_names_nothing_real_or_too_much_is_refused(tenants, named):
    cells = [rack("n0", "n1", n0="pin"), rack("n2", "n3")]
    types = {**TREE, "SPARE": (2, "RACK")}
    with pytest.raises(ValueError, match=named):
        HivedScheduler(config(types, cells, tenants))


def test_pins_in_every_rack_leave_no_whole_rack_to_own():
    cells = [rack("n0", "n1", n0="p0"), rack("n2", "n3", n2="p1")]
    with pytest.raises(ValueError, match="RACK"):
        HivedScheduler(config(TREE, cells, {"A": ({"RACK": 1}, ["p0", "p1"])}))
    fits = Hived(config(TREE, cells, {"A": ({"RACK.NODE": 2}, ["p0", "p1"])}))
    fits.claim("A", 4, 4)
    fits.claim("A", 4, pinnedCellId="p0", name="p0")
    fits.claim("A", 4, pinnedCellId="p1", name="p1")


# --- 5. Pinned cells


def pinned(**more):
    cells = [node("n0", pinnedCellId="pin"), node("n1"), node("n2")]
    return Hived(config(FLAT, cells, {"A": ({"NODE": 1}, ["pin"]), "B": {"NODE": 1}, **more}))


def test_a_pinned_cell_is_reached_by_its_id_and_only_by_it():
    hived = pinned()
    assert hived.run("plain", "A", 4).node in ("n1", "n2")
    assert hived.ask("second", "A", 4).outcome == "wait"
    assert hived.run("foreign", "B", 4).node in ("n1", "n2")
    assert hived.run("pinned", "A", 4, pinnedCellId="pin").node == "n0"
    assert hived.ask("again", "A", 1, pinnedCellId="pin").outcome == "wait"


def test_an_idle_pinned_cell_serves_opportunistic_pods_until_its_owner_comes():
    hived = pinned()
    for i in range(3):
        hived.run(f"o{i}", "B", 4, priority=-1)
    (guest,) = (pod for pod, place in hived.running.items() if place.node == "n0")
    assert hived.evict("a", "A", 4, pinnedCellId="pin") == [guest]
    assert hived.running["a"].node == "n0"
    hived.claim("A", 4)
    hived.claim("B", 4)


def test_half_a_node_can_be_pinned():
    halves = [{"pinnedCellId": "half"}, {}]
    cells = [node("n0", cellChildren=halves)]
    hived = Hived(config(FLAT, cells, {"A": ({}, ["half"]), "B": {"NODE.SWITCH": 1}}))
    assert set(hived.run("b", "B", 2).leaf_cells) == {2, 3}
    assert hived.ask("b2", "B", 1).outcome == "wait"
    assert set(hived.run("a", "A", 2, pinnedCellId="half").leaf_cells) == {0, 1}


# --- 6. Leaf types


def two_kinds():
    types = {"X-NODE": (4, "X"), "Y-NODE": (4, "Y"), "Z-NODE": (4, "Z")}
    cells = [node(f"{kind.lower()}{i}", f"{kind}-NODE") for kind in "XYZ" for i in range(2)]
    tenants = {"A": {"X-NODE": 1, "Y-NODE": 1}, "B": {"X-NODE": 1, "Y-NODE": 1}}
    return Hived(config(types, cells, tenants))


def test_a_pod_that_names_its_gpu_type_runs_on_that_type_or_waits():
    hived = two_kinds()
    assert hived.run("x", "A", 4, leafCellType="X").chain == "X-NODE"
    assert hived.ask("x2", "A", 1, leafCellType="X").outcome == "wait"
    assert hived.run("y", "A", 4, leafCellType="Y").chain == "Y-NODE"
    for kind in "XY":
        hived.claim("B", 4, leafCellType=kind, name=kind)


def test_a_pod_without_a_gpu_type_takes_any_that_its_tenant_owns():
    hived = two_kinds()
    assert {hived.run(f"p{i}", "A", 4).chain for i in range(2)} == {"X-NODE", "Y-NODE"}
    assert hived.ask("third", "A", 1).outcome == "wait"
    hived.claim("B", 4, 4)


def test_a_group_never_spans_two_types():
    hived = two_kinds()
    assert hived.ask("g/0", "A", 4, members=[(2, 4)]).outcome == "wait"
    assert len(hived.gang("h", "A", [(2, 2)])) == 2
    assert hived.running["h/0"].chain == hived.running["h/1"].chain


def test_an_opportunistic_pod_may_use_a_type_that_its_tenant_does_not_own():
    hived = two_kinds()
    with pytest.raises(RequestError, match="Z"):
        hived.ask("g", "A", 1, leafCellType="Z")
    assert hived.run("o", "A", 4, priority=-1, leafCellType="Z").chain == "Z-NODE"


# --- 7. Gangs


def test_a_gang_gets_all_of_its_places_or_none():
    hived = flat(3, {"A": {"NODE": 3}})
    hived.run("one", "A", 1)
    before = hived.free()
    assert hived.ask("g/0", "A", 4, members=[(3, 4)]).outcome == "wait"
    assert hived.group("g") is None
    assert hived.free() == before
    hived.gone("one")
    places = hived.gang("h", "A", [(3, 4)])
    assert {place.node for place in places} == {"n0", "n1", "n2"}


def test_the_first_pod_decides_for_its_gang_and_holds_all_of_its_cells():
    hived = flat(2, {"A": {"NODE": 2}})
    first = hived.run("g/0", "A", 4, members=[(2, 4)])
    assert [(part["leaf_cell_number"], len(part["pods"])) for part in first.group] == [(4, 2)]
    planned = {pod["node"]: set(pod["leaf_cells"]) for pod in first.group[0]["pods"]}
    assert planned == {"n0": ALL, "n1": ALL}
    assert hived.ask("other", "A", 1).outcome == "wait"
    assert hived.ask("opportunist", "A", 1, priority=-1).outcome == "wait"
    second = hived.run("g/1", "A", 4, members=[(2, 4)])
    assert {first.node, second.node} == {"n0", "n1"}


def test_members_of_different_sizes_are_placed_together():
    hived = flat(2, {"A": {"NODE": 2}})
    members = [(1, 4), (2, 1), (1, 2)]
    places = hived.gang("g", "A", members)
    assert places[0].node != places[1].node == places[2].node == places[3].node
    assert set().union(*(place.leaf_cells for place in places[1:])) == ALL
    assert set(places[3].leaf_cells) in ({0, 1}, {2, 3})


def test_members_of_one_size_are_one_member():
    hived = flat(2, {"A": {"NODE": 2}})
    members = [(1, 2), (1, 4), (1, 2)]
    places = hived.gang("g", "A", members)
    sizes = {part["leaf_cell_number"]: len(part["pods"]) for part in places[0].group}
    assert sizes == {2: 2, 4: 1}
    with pytest.raises(RequestError):
        hived.ask("g/3", "A", 2, members=members)


def test_a_gang_keeps_its_cells_until_its_last_running_pod_is_gone():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("g", "A", [(2, 4)])
    hived.gone("g/0")
    assert hived.ask("other", "A", 4).outcome == "wait"
    hived.gone("g/1")
    assert hived.group("g") is None
    hived.claim("A", 4, 4)


def test_members_that_never_ran_do_not_hold_the_cells_of_a_gang():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("g/0", "A", 4, members=[(2, 4)])
    hived.gone("g/0")
    assert hived.group("g") is None
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}


# --- 8. Jobs that grow pod by pod


def test_pods_of_an_incremental_job_start_one_by_one_as_far_as_cells_reach():
    hived = flat(3, {"A": {"NODE": 2}, "B": {"NODE": 1}})
    for i in range(4):
        hived.run(f"p{i}", "A", 2)
    assert hived.ask("p4", "A", 2).outcome == "wait"
    hived.gone("p1")
    freed = hived.run("p4", "A", 2)
    assert len({place.node for place in hived.running.values()}) == 2
    assert set(freed.leaf_cells) in ({0, 1}, {2, 3})
    hived.claim("B", 4)


def test_a_decision_that_was_overtaken_is_refused_and_changes_nothing():
    hived = flat(1, {"A": {"NODE": 1}})
    for pod in ("slow", "fast"):
        assert hived.ask(pod, "A", 3).outcome == "bind"
    hived.scheduler.allocate("fast")
    before = hived.scheduler.status()
    with pytest.raises(StaleDecisionError):
        hived.scheduler.allocate("slow")
    assert hived.scheduler.status() == before
    assert hived.ask("slow", "A", 3).outcome == "wait"
    with pytest.raises(RequestError):
        hived.scheduler.allocate("slow")


def test_a_pod_without_a_group_is_a_group_of_its_own():
    hived = flat(1, {"A": {"NODE": 1}})
    spec = {"virtualCluster": "A", "priority": 0, "leafCellNumber": 2}
    for pod in ("default/a", "default/b"):
        hived.allocate(pod, hived.decide(pod, spec))
    assert hived.decide("default/c", spec).outcome == "wait"
    assert hived.scheduler.affinity_group("default/a")["state"] == "Allocated"


# --- 15. Topology-aware packing


def test_small_pods_fill_a_started_node_before_they_open_another():
    hived = flat(3, {"A": {"NODE": 3}})
    assert len({hived.run(f"p{i}", "A", 1).node for i in range(4)}) == 1
    assert len({hived.run(f"q{i}", "A", 1).node for i in range(4)}) == 1
    assert len({place.node for place in hived.running.values()}) == 2


@pytest.mark.parametrize("fuller", [0, 1])
@pytest.mark.parametrize("priority", [0, -1])
def test_a_small_pod_goes_to_the_fuller_node(fuller, priority):
    hived = flat(3, {"A": {"NODE": 3}})
    started = [
        [hived.run(f"p{i}{j}", "A", 1, priority=priority).node for j in range(4)] for i in range(2)
    ]
    hived.gone(f"p{fuller}0", *(f"p{1 - fuller}{j}" for j in range(3)))
    assert hived.run("pod", "A", 1, priority=priority).node == started[fuller][0]


@pytest.mark.parametrize(
    ("free", "wanted", "allowed"),
    [
        # 8 GPUs: pairs below switches of 4.
        ([0, 2, 3, 5], 2, [{2, 3}]),
        ([0, 3, 4, 6], 2, [{0, 3}, {4, 6}]),
        ([1, 2, 5, 6, 7], 3, [{5, 6, 7}]),
        ([0, 1, 2, 5, 6], 3, [{0, 1, 2}]),
        ([0, 1, 2, 3, 4, 5], 4, [{0, 1, 2, 3}]),
        ([1, 2, 3, 4, 5, 6], 3, [{1, 2, 3}, {4, 5, 6}]),
        ([0, 1, 4, 5], 4, [{0, 1, 4, 5}]),
    ],
)
def test_a_pod_gets_the_closest_gpus_that_are_free(free, wanted, allowed):
    types = {"PAIR": (2, "GPU"), "SWITCH": (2, "PAIR"), "NODE": (2, "SWITCH")}
    hived = Hived(config(types, nodes("n0"), {"A": {"NODE": 1}}))
    hived.packed(free, node_leaves=8)
    assert set(hived.run("pod", "A", wanted).leaf_cells) in allowed


def test_the_closest_gpus_may_be_bought_with_opportunistic_victims_but_not_by_more_than_needed():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("o", "A", 2, priority=-1)
    assert set(hived.run("a", "A", 2).leaf_cells) in ({0, 1}, {2, 3})
    assert hived.state("o") == "Allocated"
    assert hived.evict("b", "A", 2) == ["o"]


# --- 16. Binding avoids opportunistic pods


@pytest.mark.parametrize(
    ("path", "size"), [("NODE", 4), ("NODE.SWITCH", 2), ("NODE.SWITCH.GPU", 1)]
)
def test_an_owner_is_bound_where_nobody_has_to_go(path, size):
    hived = flat(2, {"A": {path: 1}})
    hived.run("o", "A", 4, priority=-1)
    place = hived.run("a", "A", size)
    assert place.node != hived.running["o"].node


def test_an_owner_is_bound_where_the_fewest_opportunistic_gpus_are():
    hived = flat(3, {"A": {"NODE": 1}})
    # 4, 3 and 2: no two fit into one node.
    for size in (4, 3, 2):
        hived.run(f"o{size}", "A", size, priority=-1)
    assert len({place.node for place in hived.running.values()}) == 3
    assert hived.evict("a", "A", 4) == ["o2"]


def test_inside_a_bound_cell_the_emptiest_node_is_taken():
    hived = racks(2, {"A": {"RACK": 1}})
    for size in (4, 3, 2):
        hived.run(f"o{size}", "A", size, priority=-1)
    (idle,) = {"n0", "n1", "n2", "n3"} - {place.node for place in hived.running.values()}
    assert hived.run("a", "A", 4).node == idle
    neighbour = next(
        pod
        for pod, place in hived.running.items()
        if pod != "a" and rack_of(place.node) == rack_of(idle)
    )
    assert hived.evict("b", "A", 4) == [neighbour]


# --- 17. Buddy split and merge


def test_cells_split_as_little_as_possible_and_merge_in_any_order_of_release():
    types = {**TREE, "ROW": (2, "RACK")}
    cells = [{"cellType": "ROW"}, {"cellType": "ROW"}]
    gpu = {"A": {"ROW.RACK.NODE.SWITCH.GPU": 5}}
    for order in itertools.permutations(range(5)):
        hived = Hived(config(types, cells, gpu))
        whole = hived.free()
        for i in range(5):
            hived.run(f"p{i}", "A", 1)
        counts = {cell_type: len(found) for (_, cell_type), found in hived.free().items()}
        # 16 + 16 GPUs, of which 5 are taken side by side: 1 + 2 + 8 + 16 are left.
        assert counts == {"GPU": 1, "SWITCH": 1, "RACK": 1, "ROW": 1}
        for i in order:
            hived.gone(f"p{i}")
        assert hived.free() == whole


@pytest.mark.parametrize("seed", seeds(6))
def test_every_request_within_an_assignment_is_served_whatever_came_before(seed):
    """Theorem 1 of the paper, for tenants that own cells of every level, at full assignment."""
    owned = {
        "R": ("RACK", 1, [(2, 4)]),
        "N": ("RACK.NODE", 3, [(1, 4)]),
        "S": ("RACK.NODE.SWITCH", 3, [(1, 2)]),
        "G": ("RACK.NODE.SWITCH.GPU", 6, [(1, 1)]),
    }
    hived = racks(4, {vc: {path: count} for vc, (path, count, _) in owned.items()})
    whole, rng, live = hived.free(), random.Random(seed), {vc: [] for vc in owned}
    for step in range(120):
        vc = rng.choice("RNSG")
        path, count, members = owned[vc]
        if len(live[vc]) < count and rng.random() < 0.7:
            name = f"{vc}{step}"
            hived.gang(name, vc, members)
            live[vc].append([f"{name}/{i}" for i in range(members[0][0])])
        elif live[vc]:
            hived.gone(*live[vc].pop(rng.randrange(len(live[vc]))))
        level = path.rpartition(".")[2]
        idle = count - len(live[vc])
        assert hived.unused(vc) == ({("RACK", level): idle} if idle else {})
        if len(live[vc]) == count:
            assert hived.ask("over", vc, 1).outcome == "wait"
    hived.gone(*list(hived.running))
    assert hived.free() == whole


# --- 21. Several chains of one type

CHAINS = {"NODE": (4, "GPU"), "PAIR": (2, "NODE")}


def two_chains(**options):
    cells = [node("s0"), node("s1"), rack("p0", "p1", cell_type="PAIR")]
    tenants = {"A": {"NODE": 1, "PAIR.NODE": 1}, "B": {"NODE": 1, "PAIR.NODE": 1}}
    return Hived(config(CHAINS, cells, tenants), **options)


def test_a_pod_moves_on_to_the_next_chain_of_its_type():
    hived = two_chains()
    asked = {"leafCellType": "GPU"}
    assert {hived.run(f"a{i}", "A", 4, **asked).chain for i in range(2)} == {"NODE", "PAIR"}
    assert hived.ask("a2", "A", 1, **asked).outcome == "wait"
    hived.claim("B", 4, 4, **asked)


@pytest.mark.parametrize("order", [["NODE", "PAIR"], ["PAIR", "NODE"]])
def test_the_order_of_chains_is_the_callers(order):
    hived = two_chains(chain_order=order)
    assert [hived.run(f"a{i}", "A", 4).chain for i in range(2)] == order
    hived.claim("B", 4, 4)


# --- 25. Why a pod waits


def test_a_waiting_pod_is_told_why():
    hived = flat(2, {"A": {"NODE": 2}})
    short = hived.ask("g/0", "A", 4, members=[(3, 4)]).reason.lower()
    assert "bad" not in short
    assert "suggested" not in short
    hived.fail("n0", "n1")
    assert "bad" in hived.ask("a", "A", 4).reason.lower()
    hived.heal("n0", "n1")
    reason = hived.ask("b", "A", 4, ignore=False, suggested=[]).reason.lower()
    assert "suggested" in reason


# --- 26. The inspect API


def test_the_status_shows_what_runs_where_and_for_whom():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    place = hived.run("a", "A", 2, priority=3)
    guest = hived.run("o", "B", 1, priority=-1)
    status = json.loads(json.dumps(hived.scheduler.status()))
    physical = {cell["cellAddress"]: cell for cell in walk(status["physicalCluster"])}
    assert {(cell["cellType"], cell.get("isNodeLevel", False)) for cell in physical.values()} == {
        ("NODE", True),
        ("SWITCH", False),
        ("GPU", False),
    }
    mine = {f"{place.node}/{leaf // 2}/{leaf}" for leaf in place.leaf_cells}
    (leaf,) = guest.leaf_cells
    theirs = f"{guest.node}/{leaf // 2}/{leaf}"
    for address, cell in physical.items():
        if cell["cellType"] != "GPU":
            continue
        assert cell["cellHealthiness"] == "Healthy"
        used = address in mine or address == theirs
        assert cell["cellState"] == ("Used" if used else "Free")
        if used:
            assert cell["cellPriority"] == (3 if address in mine else -1)
        if address in mine:
            assert cell["vc"] == "A"
    virtual = [cell for cell in walk(status["virtualClusters"]["A"]) if cell["cellType"] == "GPU"]
    bound = {c["physicalCell"]["cellAddress"] for c in virtual if c.get("physicalCell")}
    assert bound == mine
    extra = [c["cellAddress"] for c in walk(status["virtualClusters"]["B"])]
    assert f"{theirs}-opp" in extra


def test_the_status_shows_bad_nodes_with_all_that_is_above_them():
    hived = racks(2, {"A": {"RACK": 2}})
    hived.fail("n2")
    physical = walk(hived.scheduler.status()["physicalCluster"])
    bad = {cell["cellAddress"] for cell in physical if cell["cellHealthiness"] == "Bad"}
    inside = {"1/n2", "1/n2/0", "1/n2/1", *(f"1/n2/{i // 2}/{i}" for i in range(4))}
    assert bad == {"1", *inside}


# --- 28. A pod that is being bound


def test_a_pod_that_is_being_bound_is_sent_to_the_same_place_again():
    hived = flat(3, {"A": {"NODE": 3}})
    place = hived.run("a", "A", 3)
    again = hived.ask("a", "A", 3, ignore=False, suggested=["n0", "n1", "n2"])
    assert (again.outcome, again.node) == ("bind", place.node)
    assert set(again.leaf_cells) == set(place.leaf_cells)
    assert len(hived.free()[("NODE", "NODE")]) == 2


# --- 29. What the container may see


def test_the_gpus_to_isolate_are_the_indices_of_the_node():
    leaves = [{"cellAddress": str(index)} for index in (7, 3, 5, 1)]
    document = config({"NODE": (4, "GPU")}, [node("n0", cellChildren=leaves)], {"A": {"NODE": 1}})
    assert sorted(Hived(document).run("a", "A", 4).leaf_cells) == [1, 3, 5, 7]


# --- 30. Old names


def test_the_names_of_old_annotations_are_understood():
    hived = two_kinds()
    spec = {
        "virtualCluster": "A",
        "priority": 0,
        "gpuType": "Y",
        "gpuNumber": 2,
        "affinityGroup": {"name": "g", "members": [{"podNumber": 1, "gpuNumber": 2}]},
    }
    place = hived.scheduler.schedule("g", spec)
    assert (place.outcome, place.chain, len(place.leaf_cells)) == ("bind", "Y-NODE", 2)


# --- The user's mistakes

GOOD = {
    "virtualCluster": "A",
    "priority": 0,
    "leafCellNumber": 2,
    "affinityGroup": {"name": "g", "members": [{"podNumber": 1, "leafCellNumber": 2}]},
}


def with_members(*members, name="g"):
    return {
        "affinityGroup": {
            "name": name,
            "members": [
                {"podNumber": number, "leafCellNumber": leaves} for number, leaves in members
            ],
        }
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"virtualCluster": ""},
        {"virtualCluster": "nobody"},
        {"priority": -2},
        {"priority": 1001},
        {"leafCellNumber": 0},
        {"leafCellNumber": -1},
        with_members((1, 2), name=""),
        with_members((0, 2)),
        with_members((1, 2), (1, 0)),
        with_members((1, 2), (-1, 1)),
        with_members((1, 3)),
        {"pinnedCellId": "unknown"},
        {"pinnedCellId": "theirs"},
        {"pinnedCellId": "pin", "priority": -1},
        {"leafCellType": "H200"},
    ],
)
def test_a_users_mistake_is_an_error_and_changes_nothing(wrong):
    cells = [node("n0", pinnedCellId="pin"), node("n1", pinnedCellId="theirs"), *nodes("n2")]
    tenants = {"A": ({"NODE": 1}, ["pin"]), "B": ({}, ["theirs"])}
    hived = Hived(config(FLAT, cells, tenants))
    before = hived.scheduler.status()
    with pytest.raises(RequestError):
        hived.scheduler.schedule("g", {**GOOD, **wrong})
    assert hived.scheduler.status() == before
    assert hived.scheduler.affinity_group("g") is None
    assert hived.decide("g", GOOD).outcome == "bind"


def test_one_pod_more_than_declared_is_an_error():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("g", "A", [(2, 1), (1, 2)])
    for size in (1, 2):
        with pytest.raises(RequestError):
            hived.ask("g/9", "A", size, members=[(2, 1), (1, 2)])
    hived.gone("g/2")
    hived.run("g/9", "A", 2, members=[(2, 1), (1, 2)])


# --- A day in the life


def test_normal_operations():
    """Two tenants with gangs, small pods and guests on the same racks, from start to end."""
    tenants = {
        "A": {"RACK": 1, "RACK.NODE": 1},
        "B": {"RACK.NODE": 2, "RACK.NODE.SWITCH": 1},
    }
    hived = racks(3, tenants)
    whole = hived.free()
    guests = hived.gang("guests", "B", [(6, 4)], priority=-1)
    assert {place.node for place in guests} == {f"n{i}" for i in range(6)}
    assert set(hived.evict("a", "A", 4)) == {f"guests/{i}" for i in range(6)}
    hived.gang("gang", "A", [(2, 4)])
    assert hived.ask("a2", "A", 1).outcome == "wait"
    hived.claim("B", 4, 4)
    hived.run("small", "B", 2)
    left = hived.run("guest", "A", 2, priority=-1)
    assert left.node == hived.running["small"].node
    assert hived.ask("b2", "B", 1).outcome == "wait"
    assert hived.ask("b3", "B", 4, priority=2).outcome == "preempt"
    hived.gone(*list(hived.running))
    assert hived.free() == whole
