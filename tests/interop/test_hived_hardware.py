"""Nodes that HiveD must not use: not suggested ones, bad ones, and the way around them."""

import pytest
from interop.hived_cluster import FLAT, TREE, Hived, config, flat, nodes, rack_of, racks

from hivecore.errors import StaleDecisionError

# --- 18. Suggested nodes


def test_only_suggested_nodes_are_used_where_the_pod_asks_for_that():
    hived = flat(4, {"A": {"NODE": 3}})
    assert hived.run("a", "A", 1, ignore=False, suggested=["n2"]).node == "n2"
    assert hived.ask("b", "A", 1, ignore=False, suggested=[]).outcome == "wait"
    gang = {"members": [(2, 4)], "ignore": False}
    assert hived.ask("g/0", "A", 4, suggested=["n1", "n2"], **gang).outcome == "wait"
    assert hived.ask("g/0", "A", 4, suggested=["n1", "n3"], **gang).outcome == "bind"
    opportunist = {"priority": -1, "ignore": False}
    assert hived.run("o", "A", 4, suggested=["n0"], **opportunist).node == "n0"
    assert hived.ask("o2", "A", 4, suggested=["n0", "n2"], **opportunist).outcome == "wait"


@pytest.mark.parametrize("said", [{}, {"ignore": True}])
def test_suggested_nodes_are_ignored_unless_the_pod_asks_otherwise(said):
    hived = flat(2, {"A": {"NODE": 1}})
    hived.run("a", "A", 1, suggested=[], **said)
    hived.run("o", "A", 4, priority=-1, suggested=[], **said)


@pytest.mark.parametrize("suggested", [["n2", "n3"], ["n1", "n3", "n2"], ["n3", "n0", "n2"]])
def test_the_search_for_a_cell_backs_out_of_racks_that_are_not_suggested_enough(suggested):
    hived = racks(2, {"A": {"RACK": 1}, "B": {"RACK": 1}})
    asked = {"members": [(2, 4)], "ignore": False, "suggested": suggested}
    places = hived.gang("g", "A", [(2, 4)], ignore=False, suggested=suggested)
    assert {place.node for place in places} == {"n2", "n3"}
    assert hived.ask("h/0", "B", 4, **asked).outcome == "wait"
    assert hived.ask("h/0", "B", 4, members=[(2, 4)]).outcome == "bind"


def test_the_search_backs_out_of_a_branch_deep_below_the_free_cell():
    types = {**TREE, "ROW": (2, "RACK")}
    names = [{"cellAddress": f"n{i}"} for i in range(8)]
    halves = [{"cellChildren": names[i : i + 2]} for i in range(0, 8, 2)]
    cells = [{"cellType": "ROW", "cellChildren": halves[i : i + 2]} for i in (0, 2)]
    hived = Hived(config(types, cells, {"A": {"ROW.RACK": 1}, "B": {"ROW": 1}}))
    suggested = ["n0", "n2", "n5", "n6", "n7"]
    gang = hived.gang("g", "A", [(2, 4)], ignore=False, suggested=suggested)
    assert {place.node for place in gang} == {"n6", "n7"}
    gang = hived.gang("b", "B", [(4, 4)])
    assert {place.node for place in gang} == {"n0", "n1", "n2", "n3"}


def test_a_preemption_is_planned_anew_when_its_node_is_no_longer_suggested():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    on = {hived.running[pod].node: pod for pod in ("low0", "low1")}
    high = {"priority": 1, "ignore": False}
    first = hived.preempting("high", "A", 4, suggested=["n0"], **high)
    assert list(first.victims) == [on["n0"]]
    second = hived.preempting("high", "A", 4, suggested=["n1"], **high)
    assert list(second.victims) == [on["n1"]]
    assert (hived.state(on["n0"]), hived.state(on["n1"])) == ("Allocated", "BeingPreempted")
    hived.gone(on["n1"])
    last = hived.preempting("high", "A", 4, suggested=["n1"], **high)
    assert hived.allocate("high", last).node == "n1"


def test_a_preemption_is_planned_anew_when_its_node_fails():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    (victim,) = hived.preempting("high", "A", 4, priority=1).victims
    (other,) = {"low0", "low1"} - {victim}
    hived.fail(hived.running[victim].node)
    assert list(hived.preempting("high", "A", 4, priority=1).victims) == [other]
    assert (hived.state(victim), hived.state(other)) == ("Allocated", "BeingPreempted")


def reserved_and_free(**options):
    """`high` has reserved the node of `low`, which is gone; the other node is idle by now."""
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    (victim,) = hived.preempting("high", "A", 4, priority=1, **options).victims
    name = hived.running[victim].node
    hived.gone("low0", "low1")
    (other,) = {"n0", "n1"} - {name}
    return hived, name, other


def test_a_filter_does_not_bind_a_reservation_whose_node_has_failed():
    hived, name, other = reserved_and_free()
    early = hived.ask("high", "A", 4, priority=1)
    assert early.node == name
    hived.fail(name)
    with pytest.raises(StaleDecisionError):
        hived.scheduler.allocate("high")
    assert hived.state("high") == "Preempting"
    hived.fail(other)
    assert hived.ask("high", "A", 4, priority=1).outcome == "wait"
    assert hived.state("high") == "Preempting"  # phase filtering gives up no reservation
    hived.scheduler.check()
    hived.heal(other)
    assert hived.run("high", "A", 4, priority=1).node == other
    hived.scheduler.check()
    hived.gone("high")
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}


def test_a_filter_does_not_bind_a_reservation_whose_node_is_not_suggested():
    hived, name, other = reserved_and_free(ignore=False)
    asked = {"priority": 1, "ignore": False}
    assert hived.ask("high", "A", 4, suggested=[], **asked).outcome == "wait"
    assert hived.ask("high", "A", 4, suggested=[name], **asked).node == name
    assert hived.run("high", "A", 4, suggested=[other], **asked).node == other
    hived.scheduler.check()


def test_a_filter_binds_a_reservation_anywhere_if_the_pod_ignores_suggestions():
    hived, name, other = reserved_and_free()
    assert hived.run("high", "A", 4, priority=1, suggested=[other]).node == name


# --- 19. Bad hardware


def bad_cells(hived, vc):
    """Preassigned cells that a tenant sees as bad."""
    trees = hived.scheduler.status()["virtualClusters"][vc]
    return sum(tree["cellHealthiness"] == "Bad" for tree in trees)


def test_nothing_new_is_placed_on_a_bad_node():
    hived = flat(3, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.fail("n0", "n2")
    assert hived.run("o", "B", 4, priority=-1).node == "n1"
    assert hived.ask("o2", "B", 1, priority=-1).outcome == "wait"
    assert hived.evict("a", "A", 4) == ["o"]
    assert hived.running["a"].node == "n1"
    assert "bad" in hived.ask("b", "B", 4).reason.lower()
    hived.heal("n2")
    assert hived.run("b", "B", 4).node == "n2"


def test_a_running_pod_stays_on_a_node_that_fails():
    hived = flat(2, {"A": {"NODE": 2}})
    name = hived.run("a", "A", 2).node
    hived.fail(name)
    assert hived.state("a") == "Allocated"
    assert hived.run("b", "A", 2).node != name
    hived.gone("a")
    hived.heal(name)
    hived.gone("b")
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}


def test_a_tenant_sees_that_a_cell_it_owns_cannot_be_served():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    assert (bad_cells(hived, "A"), bad_cells(hived, "B")) == (0, 0)
    hived.fail("n0", "n1")
    assert (bad_cells(hived, "A"), bad_cells(hived, "B")) == (1, 1)
    hived.heal("n1")
    assert bad_cells(hived, "A") + bad_cells(hived, "B") == 1
    hived.heal("n0")
    assert (bad_cells(hived, "A"), bad_cells(hived, "B")) == (0, 0)


def test_a_spare_node_spares_the_tenants_the_sight_of_a_bad_one():
    hived = flat(3, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.fail("n1")
    assert (bad_cells(hived, "A"), bad_cells(hived, "B")) == (0, 0)
    hived.claim("A", 4)
    hived.claim("B", 4)


def test_nothing_runs_before_the_cluster_has_reported_its_nodes():
    document = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 1}})
    hived = Hived(document, initially_healthy=False)
    assert hived.ask("a", "A", 1).outcome == "wait"
    assert hived.ask("o", "A", 1, priority=-1).outcome == "wait"
    hived.heal("n1")
    assert hived.run("a", "A", 1).node == "n1"


def test_a_gang_in_a_rack_steps_around_its_bad_node():
    hived = racks(2, {"A": {"RACK": 1}, "B": {"RACK": 1}})
    hived.fail("n0")
    places = hived.gang("a", "A", [(2, 4)])
    assert {place.node for place in places} == {"n2", "n3"}
    assert hived.ask("b/0", "B", 4, members=[(2, 4)]).outcome == "wait"
    assert hived.run("b1", "B", 4).node == "n1"
    assert hived.ask("b2", "B", 1).outcome == "wait"
    hived.heal("n0")
    assert hived.run("b2", "B", 4).node == "n0"


@pytest.mark.parametrize("bad", [["n0", "n3"], ["n1", "n2"], ["n1", "n3"]])
def test_a_gang_uses_the_good_nodes_of_racks_that_have_each_lost_one(bad):
    good = {"n0", "n1", "n2", "n3"} - set(bad)
    hived = racks(2, {"A": {"RACK": 2}})
    chosen = hived.ask("g/0", "A", 4, members=[(2, 4)], ignore=False, suggested=sorted(good))
    hived.fail(*bad)
    places = hived.gang("g", "A", [(2, 4)])
    assert {place.node for place in places} == good
    assert chosen.outcome == "bind"


# --- 20. Safe relaxed split


def split_rack(others):
    """Two racks; a tenant C sits on one node, whose neighbour fails."""
    hived = racks(2, {"A": {"RACK.NODE": 1}, "C": {"RACK.NODE": 1}, **others})
    taken = hived.run("c", "C", 4).node
    (neighbour,) = (
        n for n in ("n0", "n1", "n2", "n3") if rack_of(n) == rack_of(taken) and n != taken
    )
    hived.fail(neighbour)
    return hived, neighbour


def test_another_rack_is_split_around_a_bad_node_if_nobody_owns_it():
    hived, neighbour = split_rack({})
    assert rack_of(hived.run("a", "A", 4).node) != rack_of(neighbour)


def test_a_rack_that_is_owed_is_not_split_around_a_bad_node():
    hived, neighbour = split_rack({"B": {"RACK": 1}})
    assert hived.ask("a", "A", 4).outcome == "wait"
    gang = hived.gang("b", "B", [(2, 4)])
    assert {rack_of(place.node) for place in gang} == {1 - rack_of(neighbour)}
    hived.heal(neighbour)
    assert hived.run("a", "A", 4).node == neighbour
