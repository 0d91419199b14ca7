"""Who gives way to whom in HiveD: guaranteed, opportunistic and lazy pods, reservations."""

import pytest
from interop.hived_cluster import flat

# --- 9. Guaranteed priorities


@pytest.mark.parametrize("priority", [0, 1, 1000])
def test_no_priority_reaches_into_the_cells_of_another_tenant(priority):
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.run("b", "B", 4)
    hived.run("a", "A", 4, priority=priority)
    assert hived.ask("a2", "A", 1, priority=priority).outcome == "wait"
    victims = hived.preempting("a3", "A", 1, priority=1000).victims if priority < 1000 else ["a"]
    assert list(victims) == ["a"]
    assert hived.state("b") == "Allocated"


# --- 10. Opportunistic pods


def test_an_opportunistic_pod_uses_what_is_idle_and_waits_rather_than_preempt():
    hived = flat(3, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    taken = [hived.run(f"o{i}", "A", 4, priority=-1).node for i in range(3)]
    assert sorted(taken) == ["n0", "n1", "n2"]
    assert hived.ask("o3", "B", 1, priority=-1).outcome == "wait"
    assert hived.preempting("o4", "B", 1, priority=-1).outcome == "wait"
    group = hived.group("o0")
    assert (group["state"], group["guaranteed"]) == ("Allocated", False)


def test_opportunistic_pods_use_no_quota():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.run("o", "A", 4, priority=-1)
    assert hived.unused("A") == {("NODE", "NODE"): 1}
    hived.claim("A", 4)
    hived.claim("B", 4)


def test_opportunistic_pods_stay_together_and_away_from_guaranteed_ones():
    hived = flat(3, {"A": {"NODE": 1}})
    guaranteed = hived.run("a", "A", 1).node
    first = hived.run("o0", "A", 1, priority=-1).node
    second = hived.run("o1", "A", 1, priority=-1).node
    assert first == second != guaranteed


# --- 11. Preemption between tenants


def test_an_owner_evicts_the_opportunistic_gang_on_its_cell_as_a_whole():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.gang("o", "B", [(2, 4)], priority=-1)
    decision = hived.preempting("a", "A", 4)
    assert set(decision.victims) == {"o/0", "o/1"}
    assert set(decision.victims_by_node) == {"n0", "n1"}
    hived.gone("o/0", "o/1")
    hived.allocate("a", hived.preempting("a", "A", 4))
    hived.claim("B", 4)


def test_a_victim_is_not_named_where_an_idle_cell_will_do():
    hived = flat(2, {"A": {"NODE": 1}})
    guest = hived.run("o", "A", 4, priority=-1).node
    assert hived.run("a", "A", 4).node != guest
    assert hived.state("o") == "Allocated"


def test_a_guaranteed_pod_is_never_the_victim_of_another_tenant():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.run("o", "A", 4, priority=-1)
    hived.run("b", "B", 4)
    assert list(hived.preempting("a", "A", 4, priority=1000).victims) == ["o"]


# --- 12. Immediate preemption inside a tenant


def test_only_a_strictly_higher_priority_preempts_within_a_tenant():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.run("low", "A", 4, priority=5)
    for phase in ("Filtering", "Preempting"):
        assert hived.ask("lower", "A", 1, priority=4, phase=phase).outcome == "wait"
        assert hived.ask("equal", "A", 1, priority=5, phase=phase).outcome == "wait"
    assert list(hived.ask("higher", "A", 1, priority=6).victims) == ["low"]
    assert hived.evict("higher", "A", 1, priority=6) == ["low"]
    hived.claim("B", 4)


def test_nobody_is_preempted_as_long_as_own_cells_are_free():
    hived = flat(2, {"A": {"NODE": 2}})
    low = hived.run("low", "A", 3, priority=0).node
    assert hived.run("high", "A", 2, priority=9).node != low
    assert hived.run("small", "A", 1, priority=9).node in ("n0", "n1")


def test_a_victim_gang_goes_as_a_whole():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("low", "A", [(2, 4)])
    assert set(hived.ask("high", "A", 1, priority=1).victims) == {"low/0", "low/1"}


# --- 13. Lazy preemption


def test_a_lazy_victim_keeps_running_without_its_guarantee():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    low = hived.run("low", "A", 4, lazy=True).node
    assert hived.run("high", "A", 4, priority=1).node != low
    group = hived.group("low")
    assert (group["state"], group["guaranteed"]) == ("Allocated", False)
    assert group["lazy_preempted_by"] == "high"
    assert hived.group("high")["guaranteed"]
    assert hived.evict("b", "B", 4) == ["low"]


def test_a_lazy_victim_must_go_where_there_is_no_other_place():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("low", "A", 4, lazy=True)
    assert list(hived.ask("high", "A", 4, priority=1).victims) == ["low"]
    assert hived.evict("high", "A", 4, priority=1) == ["low"]


def test_a_victim_that_is_not_lazy_must_go_even_if_there_is_room_elsewhere():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived.run("low", "A", 4)
    assert hived.evict("high", "A", 4, priority=1) == ["low"]
    hived.claim("B", 4)


def test_a_lazy_gang_loses_its_guarantee_as_a_whole():
    hived = flat(4, {"A": {"NODE": 2}})
    low = {place.node for place in hived.gang("low", "A", [(2, 4)], lazy=True)}
    assert hived.run("high", "A", 4, priority=1).node not in low
    assert not hived.group("low")["guaranteed"]
    assert hived.run("second", "A", 4).node not in low


def test_a_lazy_victim_is_spared_when_the_preemptor_finds_no_place_anyway():
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    low = hived.run("low", "A", 4, lazy=True).node
    hived.fail("n0", "n1")
    assert hived.ask("high", "A", 4, priority=1, phase="Preempting").outcome == "wait"
    group = hived.group("low")
    assert (group["guaranteed"], group["lazy_preempted_by"]) == (True, None)
    hived.heal(low)
    assert hived.ask("equal", "A", 4).outcome == "wait"


# --- 14. Preemption with a state


def reserved():
    """One node: `low` runs, `mid` has preempted it and reserves its cells."""
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("low", "A", 4)
    assert list(hived.preempting("mid", "A", 4, priority=5).victims) == ["low"]
    assert (hived.state("mid"), hived.state("low")) == ("Preempting", "BeingPreempted")
    return hived


def test_reserved_cells_are_out_of_reach_for_equal_priorities():
    hived = reserved()
    for phase in ("Filtering", "Preempting"):
        assert hived.ask("rival", "A", 4, priority=5, phase=phase).outcome == "wait"
    hived.gone("low")
    assert hived.ask("rival", "A", 4, priority=5).outcome == "wait"
    assert hived.ask("opportunist", "A", 1, priority=-1).outcome == "wait"
    hived.allocate("mid", hived.ask("mid", "A", 4, priority=5))
    assert hived.state("mid") == "Allocated"


def test_a_higher_preemptor_takes_the_reservation_over():
    hived = reserved()
    assert list(hived.preempting("high", "A", 4, priority=6).victims) == ["low"]
    assert hived.group("mid") is None
    assert (hived.state("high"), hived.state("low")) == ("Preempting", "BeingPreempted")
    hived.gone("low")
    assert hived.preempting("mid", "A", 4, priority=5).outcome == "wait"
    hived.allocate("high", hived.preempting("high", "A", 4, priority=6))


def test_a_takeover_gives_back_all_other_cells_of_the_earlier_preemptor():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    gang = {"members": [(2, 4)], "priority": 5}
    assert set(hived.preempting("mid/0", "A", 4, **gang).victims) == {"low0", "low1"}
    (victim,) = hived.preempting("high", "A", 4, priority=6).victims
    (spared,) = {"low0", "low1"} - {victim}
    assert hived.group("mid") is None
    assert (hived.state(victim), hived.state(spared)) == ("BeingPreempted", "Allocated")
    assert hived.group(spared)["guaranteed"]


def test_a_preemption_ends_with_its_last_pod_and_the_victim_stays():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.gang("low", "A", [(2, 4)])
    gang = {"members": [(2, 4)], "priority": 1}
    for pod in ("high/0", "high/1"):
        assert set(hived.preempting(pod, "A", 4, **gang).victims) == {"low/0", "low/1"}
    hived.gone("high/0")
    assert hived.state("high") == "Preempting"
    hived.gone("high/1")
    assert hived.group("high") is None
    group = hived.group("low")
    assert (group["state"], group["guaranteed"]) == ("Allocated", True)
    hived.gone("low/0", "low/1")
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}


def test_a_preemptor_waits_for_all_pods_of_its_victim():
    hived = flat(2, {"A": {"NODE": 1}})
    hived.gang("o", "A", [(2, 4)], priority=-1)
    hived.preempting("a", "A", 4)
    hived.gone("o/0")
    assert list(hived.preempting("a", "A", 4).victims) == ["o/1"]
    hived.gone("o/1")
    hived.allocate("a", hived.preempting("a", "A", 4))


def test_all_pods_of_a_preempting_gang_get_their_places_when_the_victims_are_gone():
    hived = flat(3, {"A": {"NODE": 3}})
    hived.gang("low", "A", [(2, 4)])
    asked = {"members": [(2, 4), (1, 2)], "priority": 1}
    sizes = {"high/0": 4, "high/1": 4, "high/2": 2}
    for pod, size in sizes.items():
        assert set(hived.preempting(pod, "A", size, **asked).victims) == {"low/0", "low/1"}
    hived.gone("low/0", "low/1")
    places = [hived.run(pod, "A", size, **asked) for pod, size in reversed(sizes.items())]
    assert {place.node for place in places} == {"n0", "n1", "n2"}
    assert hived.state("high") == "Allocated"


def test_asking_in_the_filtering_phase_reserves_nothing():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("low", "A", 4)
    assert hived.ask("high", "A", 4, priority=1).outcome == "preempt"
    assert hived.group("high") is None
    assert hived.state("low") == "Allocated"
