"""Running pods outlive restarts, new configurations and their own siblings (HiveD)."""

import json
import random

import pytest
from interop.hived_cluster import FLAT, TREE, Hived, config, flat, node, nodes, rack, rack_of, racks
from profiles import seeds

# --- 22. Recovery from bind records


def busy():
    """Four racks with gangs, small pods, opportunistic and pinned ones."""
    cells = [rack("n0", "n1", n0="pin"), rack("n2", "n3"), rack("n4", "n5"), rack("n6", "n7")]
    tenants = {"A": ({"RACK": 1, "RACK.NODE": 1}, ["pin"]), "B": {"RACK.NODE.SWITCH": 4, "RACK": 1}}
    document = config(TREE, cells, tenants)
    hived = Hived(document)
    hived.gang("gang", "A", [(2, 4)])
    hived.run("pinned", "A", 2, pinnedCellId="pin")
    for i in range(3):
        hived.run(f"small{i}", "B", 2, priority=i)
    hived.gang("guests", "B", [(2, 1)], priority=-1)
    return hived, document


@pytest.mark.parametrize("seed", seeds(8))
def test_a_restart_recovers_everything_in_any_order_of_the_records(seed):
    hived, document = busy()
    order = list(hived.running)
    random.Random(seed).shuffle(order)
    new = hived.restarted(document, order)
    assert new.free() == hived.free()
    for vc in "AB":
        assert new.unused(vc) == hived.unused(vc)
    for pod in hived.running:
        before, after = hived.group(pod), new.group(pod)
        assert after["state"] == "Allocated"
        assert after["guaranteed"] == before["guaranteed"]
        assert after["lazy_preempted_by"] is None
    assert new.ask("over", "A", 3, pinnedCellId="pin").outcome == "wait"
    new.claim("B", 2)
    new.gone(*list(new.running))
    assert new.free() == Hived(document).free()


def test_a_recovered_gang_still_has_a_place_for_its_missing_member():
    document = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 2}})
    hived = Hived(document)
    first, second = hived.gang("g", "A", [(2, 4)])
    hived.gone("g/1")
    new = hived.restarted(document)
    assert new.ask("other", "A", 1).outcome == "wait"
    assert new.run("g/2", "A", 4, members=[(2, 4)]).node == second.node
    assert first.node != second.node


def test_recovery_does_not_mind_nodes_that_have_failed_meanwhile():
    hived, document = busy()
    new = hived.restarted(document, bad=["n0", "n2", "n4", "n6"])
    for pod in hived.running:
        assert new.group(pod)["guaranteed"] == hived.group(pod)["guaranteed"]
    new.heal("n0", "n2", "n4", "n6")
    assert new.free() == hived.free()
    new.gone(*list(new.running))
    assert new.free() == Hived(document).free()


def test_a_preemption_does_not_survive_a_restart_but_can_be_planned_again():
    document = config(FLAT, nodes("n0"), {"A": {"NODE": 1}})
    hived = Hived(document)
    hived.run("low", "A", 4)
    hived.preempting("high", "A", 4, priority=1)
    new = hived.restarted(document)
    assert new.group("high") is None
    assert new.state("low") == "Allocated"
    assert new.evict("high", "A", 4, priority=1) == ["low"]


def test_bind_records_are_plain_data():
    hived, document = busy()
    records = {pod: hived.scheduler.bind_info(pod) for pod in hived.running}
    stored = json.loads(json.dumps(records))
    new = Hived(document)
    for pod, record in stored.items():
        new.scheduler.recover(pod, hived.specs[pod], record)
    assert new.free() == hived.free()


# --- 23. Reconfiguration keeps every pod running


def test_a_pod_on_a_removed_cell_runs_on_unaccounted():
    hived = flat(2, {"A": {"NODE": 2}})
    gone = hived.run("gone", "A", 4).node
    (kept,) = {"n0", "n1"} - {gone}
    new = hived.restarted(config(FLAT, nodes(kept), {"A": {"NODE": 1}}))
    assert new.run("a", "A", 4).node == kept
    new.gone("gone", "a")
    assert new.free() == {("NODE", "NODE"): [kept]}


@pytest.mark.parametrize("restart", [True, False])
def test_a_pod_on_a_removed_cell_is_accounted_again_when_the_cell_comes_back(restart):
    both = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 2}})
    hived = Hived(both)
    gone = hived.run("gone", "A", 4).node
    (kept,) = {"n0", "n1"} - {gone}
    one = config(FLAT, nodes(kept), {"A": {"NODE": 1}})
    for document in (one, both):
        if restart:
            hived = hived.restarted(document)
        else:
            hived.scheduler.reconfigure(document)
    assert hived.run("a", "A", 4).node == kept
    assert hived.ask("b", "A", 1).outcome == "wait"
    assert hived.ask("o", "A", 1, priority=-1).outcome == "wait"


def test_added_nodes_change_nothing_for_running_pods():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("a", "A", 4)
    new = hived.restarted(config(FLAT, nodes("new", "n0"), {"A": {"NODE": 1}, "B": {"NODE": 1}}))
    assert new.group("a")["guaranteed"]
    assert new.ask("more", "A", 1).outcome == "wait"
    assert new.run("b", "B", 4).node == "new"


def test_of_a_gang_on_a_removed_node_the_rest_stays_accounted():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("g", "A", [(2, 4)])
    new = hived.restarted(config(FLAT, nodes("n0"), {"A": {"NODE": 1}}))
    assert new.ask("a", "A", 1).outcome == "wait"
    assert new.ask("o", "A", 1, priority=-1).outcome == "wait"
    new.gone("g/0", "g/1")
    assert new.free() == {("NODE", "NODE"): ["n0"]}


@pytest.mark.parametrize("tenants", [{"B": {"NODE": 2}}, {"A": {"NODE": 1}, "B": {"NODE": 1}}])
def test_a_gang_loses_its_guarantee_as_a_whole_with_its_cells(tenants):
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("g", "A", [(2, 4)])
    new = hived.restarted(config(FLAT, nodes("n0", "n1"), tenants))
    group = new.group("g")
    assert (group["state"], group["guaranteed"]) == ("Allocated", False)
    assert group["lazy_preempted_by"] == "g"
    assert set(new.evict("b", "B", 4)) == {"g/0", "g/1"}


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_a_shrunk_tenant_keeps_its_highest_priorities_in_any_order_of_recovery(order):
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low", "A", 4, priority=1)
    hived.run("high", "A", 4, priority=5)
    new = hived.restarted(
        config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 1}, "B": {"NODE": 1}}), order
    )
    assert new.group("high")["guaranteed"]
    assert not new.group("low")["guaranteed"]
    assert new.evict("b", "B", 4) == ["low"]


@pytest.mark.parametrize(
    "types",
    [
        {"NODE": (4, "GPU"), "RACK": (2, "NODE")},
        {"PAIR": (2, "GPU"), "NODE": (2, "PAIR"), "RACK": (2, "NODE")},
    ],
)
def test_a_guarantee_outlives_new_levels_below_its_own(types):
    tenants = {"A": {"RACK.NODE": 1}, "B": {"RACK": 1}}
    hived = racks(2, tenants)
    taken = hived.run("a", "A", 4).node
    new = hived.restarted(config(types, [rack("n0", "n1"), rack("n2", "n3")], tenants))
    assert new.group("a")["guaranteed"]
    assert new.ask("more", "A", 1).outcome == "wait"
    gang = new.gang("b", "B", [(2, 4)])
    assert {rack_of(place.node) for place in gang} == {1 - rack_of(taken)}


def test_a_level_that_is_gone_takes_the_guarantee_with_it():
    hived = racks(1, {"A": {"RACK": 1}})
    hived.run("a", "A", 4)
    new = hived.restarted(config(TREE, [rack("n0", "n1")], {"A": {"RACK.NODE": 2}}))
    assert not new.group("a")["guaranteed"]
    new.claim("A", 4, 4)


def test_a_gpu_is_found_again_in_another_chain():
    hived = racks(1, {"A": {"RACK.NODE": 2}})
    hived.run("a", "A", 4)
    new = hived.restarted(config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 1}, "B": {"NODE": 1}}))
    assert new.group("a")["guaranteed"]
    assert new.ask("more", "A", 1).outcome == "wait"
    new.claim("B", 4)


PINNED_TYPES = {"NODE": (4, "GPU"), "X-NODE": (4, "X")}


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(
    ("cells", "owned", "kept"),
    [
        ([node("n0", pinnedCellId="pin"), *nodes("n1")], {"A": ({}, ["pin"])}, True),
        ([node("n1", pinnedCellId="pin"), *nodes("n0")], {"A": ({}, ["pin"])}, False),
        ([node("n0", pinnedCellId="pin")], {"A": {}, "B": ({}, ["pin"])}, False),
        (nodes("n0", "n1"), {"A": {"NODE": 2}}, False),
        ([node("x", "X-NODE", pinnedCellId="pin"), *nodes("n0")], {"A": ({}, ["pin"])}, False),
    ],
    ids=["same", "other node", "other tenant", "no pin", "other chain"],
)
def test_a_pinned_pod_keeps_its_guarantee_only_with_its_pin(cells, owned, kept, restart):
    before = [node("n0", pinnedCellId="pin"), node("n1")]
    hived = Hived(config(PINNED_TYPES, before, {"A": ({}, ["pin"])}))
    assert hived.run("a", "A", 4, pinnedCellId="pin").node == "n0"
    after = config(PINNED_TYPES, cells, owned)
    if restart:
        hived = hived.restarted(after)
    else:
        hived.scheduler.reconfigure(after)
    group = hived.group("a")
    assert (group["state"], group["guaranteed"]) == ("Allocated", kept)
    for vc, cells_and_pins in owned.items():
        if cells_and_pins == ({}, ["pin"]) and not kept:
            hived.claim(vc, 4, pinnedCellId="pin")
    hived.gone(*list(hived.running))
    assert hived.free() == Hived(after).free()


# --- 24. A retried member keeps its place


@pytest.mark.parametrize("trouble", ["none", "bad", "not suggested"])
def test_a_retried_member_gets_the_place_of_the_one_it_replaces(trouble):
    hived = flat(3, {"A": {"NODE": 2}, "B": {"NODE": 1}})
    suggested = ["n0", "n1", "n2"]
    hived.gang("g", "A", [(2, 3)], ignore=False, suggested=suggested)
    lost = hived.running["g/0"]
    hived.gone("g/0")
    if trouble == "bad":
        hived.fail(lost.node)
    if trouble == "not suggested":
        suggested.remove(lost.node)
    asked = {"members": [(2, 3)], "ignore": False, "suggested": suggested}
    retried = hived.ask("g/9", "A", 3, **asked)
    hived.allocate("g/9", retried, insists=True)
    assert (retried.node, set(retried.leaf_cells)) == (lost.node, set(lost.leaf_cells))


def test_a_retried_member_gets_the_place_of_its_own_size():
    hived = flat(2, {"A": {"NODE": 2}})
    members = [(2, 1), (2, 2)]
    hived.gang("g", "A", members)
    lost = [hived.running[pod] for pod in ("g/1", "g/3")]
    hived.gone("g/1", "g/3")
    two = hived.run("g/8", "A", 2, members=members)
    one = hived.run("g/9", "A", 1, members=members)
    for old, new in zip(lost, (one, two), strict=True):
        assert (old.node, set(old.leaf_cells)) == (new.node, set(new.leaf_cells))


# --- 27. A new configuration without a restart


def test_a_reconfiguration_in_place_does_what_a_restart_would():
    hived = flat(3, {"A": {"NODE": 2}})
    hived.run("low", "A", 4, priority=1)
    hived.run("high", "A", 4, priority=5)
    document = config(FLAT, nodes("n0", "n1", "n2"), {"A": {"NODE": 1}, "B": {"NODE": 2}})
    hived.scheduler.reconfigure(document)
    assert hived.group("high")["guaranteed"]
    assert not hived.group("low")["guaranteed"]
    assert hived.ask("more", "A", 1).outcome == "wait"
    hived.claim("B", 4, 4)
    assert "low" not in hived.running


def test_a_configuration_that_is_wrong_changes_nothing():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("a", "A", 4)
    before = hived.scheduler.status()
    with pytest.raises(ValueError, match="NODE"):
        hived.scheduler.reconfigure(config(FLAT, nodes("n0"), {"A": {"NODE": 2}}))
    assert hived.scheduler.status() == before
    hived.claim("A", 4)


@pytest.mark.parametrize("after", [{"NODE": (6, "GPU")}, {"NODE": (2, "GPU")}, FLAT])
def test_a_bad_node_is_bad_as_a_whole_in_a_new_configuration(after):
    hived = Hived(config({"NODE": (4, "GPU")}, nodes("n0", "n1"), {"A": {"NODE": 2}}))
    hived.fail("n1", "n2")
    hived.scheduler.reconfigure(config(after, nodes("n0", "n1", "n2"), {"A": {"NODE": 2}}))
    assert hived.run("o", "A", 1, priority=-1).node == "n0"
    assert hived.run("a", "A", 1).node == "n0"
    assert hived.ask("o2/0", "A", 2, priority=-1, members=[(3, 2)]).outcome == "wait"
    hived.heal("n1", "n2")
    assert hived.ask("o2/0", "A", 2, priority=-1, members=[(2, 2)]).outcome == "bind"
