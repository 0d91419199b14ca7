"""What HiveD's users rely on: names, pinned cells, kinds of devices, reasons.

Each scenario states one fact. It asserts what the semantics force (which pods run, on which
node or on one of which nodes, and which are evicted), often that the other tenants still get all
that they own.
"""

import pytest
from interop.hived.clusters import (
    FLAT,
    Hived,
    config,
    node,
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
