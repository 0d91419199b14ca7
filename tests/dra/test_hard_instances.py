"""Exact answers where a search device by device does not end, within a bound on the work."""

import pytest
from dra.hard_worlds import HARD, claim, mig_node, request
from dra.worlds import World, cluster_of

from hivecore import _dra

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


def test_a_node_with_very_many_devices_is_answered_or_not_known():
    for count in (1_000, 5_000, 100_000):
        # Shares of devices that are almost large enough for the second request.
        node = _dra.node([(0, 0, [], [5])] * count, [], [])
        offers = ([0, 1], [False, False], [3, 3], [])
        claims = _dra.claims([(0, 0, 32, False), (1, 1, 32, False)], [], [offers])
        assert _dra.search(node, claims, 2, 10**6, 0)[0] in (0, 2)
        # All in one block, as they take of one counter.
        takes = [(0, 1, [(0, 2)])]
        node = _dra.node([(0, 0, takes, [])] * count, [63], [1])
        claims = _dra.claims([(0, 0, 32, False)], [], [([-1], [False], [], [])])
        assert _dra.search(node, claims, 0, 10**6, 0)[0] in (1, 2)
    # Unique values of so many devices would need a square of bits.
    node = _dra.node([(i, 0, [], []) for i in range(100_000)], [], [])
    profiles = [([-1], [False], [], [[i]]) for i in range(100_000)]
    with pytest.raises(ValueError, match="too many"):
        _dra.search(node, _dra.claims([(0, 0, 2, False)], [(False, [0])], profiles), 0, 10, 10)


def test_very_many_requests_with_alternatives_are_not_known():
    node = _dra.node([(0, 0, [], [])] * 40, [], [])
    alternatives = [(r, r // 32, 1, False) for r in range(1_000) for _ in range(2)]
    claims = _dra.claims(alternatives, [], [([-1] * 2_000, [False] * 2_000, [], [])])
    assert _dra.search(node, claims, 1, 10**6, 0)[0] == 2


def test_the_reason_of_a_no_that_is_soon_known_is_soon_known():
    partitions = request("r", where="model=4g"), request("q", 2, where="model=3g")
    shares = [request(f"s{i}", capacity={"m": str(3 + i)}) for i in range(12)]
    cluster = cluster_of(*mig_node(1, shared=True))
    decision = cluster.allocate([claim(*partitions, *shares)], "n1")
    assert decision.outcome == "unsatisfiable"
    assert decision.reason
    assert decision.work < MOST_WORK
