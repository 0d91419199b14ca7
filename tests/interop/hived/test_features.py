"""What HiveD's users rely on: names, pinned cells, kinds of devices, reasons.

Each scenario states one fact. It asserts what the semantics force (who runs, on which node or on
one of which nodes, who has to go), often that the other tenants still get all that they own.
"""

import pytest
from interop.hived.clusters import (
    FLAT,
    Hived,
    config,
    flat,
    node,
    racks,
    walk,
)

from hivecore.interop.hived import RequestError

# --- Addresses, names, indices


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


# --- Leaf types


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


def test_an_opportunistic_pod_may_use_a_type_that_its_tenant_does_not_own():
    hived = two_kinds()
    with pytest.raises(RequestError, match="Z"):
        hived.ask("g", "A", 1, leafCellType="Z")
    assert hived.run("o", "A", 4, priority=-1, leafCellType="Z").chain == "Z-NODE"


# --- Why a pod waits


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


# --- The inspect API


def test_the_status_shows_bad_nodes_with_all_that_is_above_them():
    hived = racks(2, {"A": {"RACK": 2}})
    hived.fail("n2")
    physical = walk(hived.scheduler.status()["physicalCluster"])
    bad = {cell["cellAddress"] for cell in physical if cell["cellHealthiness"] == "Bad"}
    inside = {"1/n2", "1/n2/0", "1/n2/1", *(f"1/n2/{i // 2}/{i}" for i in range(4))}
    assert bad == {"1", *inside}
