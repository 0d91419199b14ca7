"""Defects of HiveD in restarts and phases, reproduced by running it: the right behaviour of each.

D1 ... D12 number them; those of cells are tests of the kernel, in `tests/cells` and `tests/golden`.
"""

import pytest
from interop.hived.clusters import FLAT, TREE, Hived, config, flat, nodes, rack, rack_of

# --- D2


@pytest.mark.parametrize("order", [("p0", "p1"), ("p1", "p0")])
@pytest.mark.parametrize("bad", [(), ("n0",), ("n1", "n3"), ("n0", "n1", "n2", "n3")])
def test_d2_a_replay_after_a_shrunk_assignment_downgrades_what_would_break_safety(order, bad):
    cells = [rack("n0", "n1"), rack("n2", "n3")]
    hived = Hived(config(TREE, cells, {"A": {"RACK.NODE": 4}}))
    for i in range(4):
        hived.run(f"j{i}", "A", 4)
    on = {rack_of(place.node): pod for pod, place in hived.running.items()}
    hived.gone(*(pod for pod in list(hived.running) if pod not in on.values()))
    names = dict(zip(("p0", "p1"), sorted(on.values()), strict=True))
    document = config(TREE, cells, {"A": {"RACK.NODE": 2}, "B": {"RACK": 1}})
    new = hived.restarted(document, [names[pod] for pod in order], bad=bad)
    kept, lost = names["p0"], names["p1"]  # of equal ones the first, in whatever order they come
    assert new.group(kept)["guaranteed"]
    assert not new.group(lost)["guaranteed"]
    new.heal(*bad)
    decision = new.preempting("b/0", "B", 4, members=[(2, 4)])
    assert list(decision.victims) == [lost]
    new.gone(lost)
    gang = new.gang("b", "B", [(2, 4)])
    assert {rack_of(place.node) for place in gang} == {1 - rack_of(new.running[kept].node)}
    new.claim("A", 4)
    new.gone(*list(new.running))
    assert new.free() == Hived(document).free()


# --- D5


def test_d5_a_pod_recovered_onto_a_bad_node_leaks_nothing():
    document = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived = Hived(document)
    name = hived.run("p", "A", 4).node
    new = hived.restarted(document, bad=["n0", "n1"])
    assert new.group("p")["guaranteed"]
    new.heal(name)
    new.gone("p")
    new.fail(name)
    new.heal("n0", "n1")
    assert new.free() == {("NODE", "NODE"): ["n0", "n1"]}
    new.claim("A", 4)
    new.claim("B", 4)


# --- D10


def test_d10_a_preemption_that_ignores_suggestions_is_not_planned_again():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    (victim,) = hived.preempting("high", "A", 4, priority=1).victims
    (other,) = {"low0", "low1"} - {victim}
    for suggested in ([hived.running[other].node], []):
        again = hived.preempting("high", "A", 4, priority=1, suggested=suggested)
        assert list(again.victims) == [victim]
    assert hived.state(other) == "Allocated"
    place = hived.running[victim].node
    hived.gone(victim)
    last = hived.preempting("high", "A", 4, priority=1, suggested=[])
    assert hived.allocate("high", last).node == place
