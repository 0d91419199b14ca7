"""Running pods outlive restarts, new configurations and their own siblings (HiveD)."""

import pytest
from interop.hived.clusters import (
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
)

# --- Reconfiguration keeps every pod running


@pytest.mark.parametrize("restart", [True, False])
def test_a_pod_on_a_removed_cell_is_accounted_again_when_the_cell_comes_back(restart):
    both = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 2}})
    hived = Hived(both)
    gone = hived.run("gone", "A", 4).node
    (kept,) = {"n0", "n1"} - {gone}
    smaller = config(FLAT, nodes(kept), {"A": {"NODE": 1}})
    for document in (smaller, both):
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


# --- A new configuration without a restart


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
