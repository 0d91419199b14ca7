"""Exact answers where a search device by device does not end, within a bound on the work."""

import pytest
from dra.hard_worlds import HARD
from dra.worlds import World, cluster_of

MOST_WORK = 20_000  # steps; some microseconds each


@pytest.mark.parametrize("mode", ["first", "best", "any"])
@pytest.mark.parametrize("name", HARD)
def test_a_hard_instance_has_its_answer_soon(name, mode):
    slices, claim, is_served = HARD[name]
    slices = slices if isinstance(slices, list) else [slices]
    cluster = cluster_of(*slices, limit=MOST_WORK)
    decision = cluster.allocate([claim], "n1", mode)
    assert decision.outcome == ("allocated" if is_served else "unsatisfiable")
    assert decision.is_first
    assert bool(decision.reason) == (not is_served)
    if is_served:
        World(*slices).commit("it", decision.allocations[0])  # refuses what is not free
        cluster.commit(decision)
        cluster.check()
