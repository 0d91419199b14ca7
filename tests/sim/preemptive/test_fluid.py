import numpy as np
import pytest

from hivecore._sim import FluidClock

GOOD = {
    "sizes": [100.0, 50.0],
    "cache_of": [0, 1, 1],
    "totals": [300.0, 100.0, 50.0],
    "capacity": 80.0,
    "bandwidth": 40.0,
}


def clock(**changes):
    return FluidClock(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"jobs": [0, 3]}, ValueError, r"jobs\[1\]=3: allowed are 0 to 2"),
        ({"jobs": ["a", "b"]}, TypeError, "jobs must hold integers"),
        ({"rates": [1.0]}, ValueError, "rates must have 2 elements, not 1"),
        ({"quota": [1.0]}, ValueError, "quota must have 2 elements, not 1"),
        ({"reclaim": [2]}, ValueError, r"reclaim\[0\]=2: allowed are 0 to 1"),
        ({"wanted": [-1]}, ValueError, r"wanted\[0\]=-1: allowed are 0 to 1"),
        ({"again": [3]}, ValueError, r"again\[0\]=3: allowed are 0 to 2"),
        ({"reference": [1.0]}, ValueError, "reference must have 2 elements, not 1"),
    ],
)
def test_a_decision_that_cannot_be_changes_nothing(changes, error, says):
    each = clock()
    each.allocate([2, 0], [60.0, 10.0], [30.0, 50.0])
    each.advance(1.0)
    before = each.jobs.tolist(), each.rates.tolist(), each.left.tolist(), each.cached.tolist()
    with pytest.raises(error, match=says):
        each.allocate(**{"jobs": [0, 1], "rates": [9.0, 9.0], **changes})
    assert before == (
        each.jobs.tolist(),
        each.rates.tolist(),
        each.left.tolist(),
        each.cached.tolist(),
    )
    each.check()


def test_a_wait_without_end_is_refused_and_time_stands_still():
    each = clock()
    each.allocate([0], [0.0])
    with pytest.raises(ValueError, match="no job gets ahead from 0 s on: 1 run without data"):
        each.advance()
    assert each.now == 0.0
    assert each.advance(7.0).tolist() == [] and each.now == 7.0


def test_arrays_of_any_layout_are_taken():
    entry, other = clock(), clock()
    entry.allocate([2, 0], [60.0, 10.0], [30.0, 50.0])
    quota = np.array([30.0, 0.0, 50.0, 0.0])[::2]
    frozen = np.array([60, 10], dtype=np.uint8)
    frozen.flags.writeable = False
    other.allocate(np.array([2, 9, 0], dtype=np.int32)[::2], frozen, quota)
    assert entry.advance().tolist() == other.advance().tolist() == [2]
    assert entry.left.tolist() == other.left.tolist()


def test_nothing_at_all_is_allowed():
    empty = FluidClock([], [], [], 0.0, 1.0)
    empty.allocate([], [], [])
    assert empty.advance(5.0).tolist() == [] and empty.now == 5.0
    empty.check()


def test_what_is_handed_out_is_not_the_state():
    each = clock()
    each.allocate([0], [10.0])
    each.advance(1.0)
    for name in ("rates", "misses", "cached", "left", "last_use", "jobs"):
        before = getattr(each, name).tolist()
        getattr(each, name)[:] = 7
        assert getattr(each, name).tolist() == before


def test_a_stopped_job_goes_on_where_it_was_in_its_epoch():
    each = clock()
    each.allocate([0], [100.0], [50.0, 0.0])
    each.advance(1.0)
    each.allocate([1], [40.0], [50.0, 0.0])
    each.advance(2.0)
    each.allocate([0], [100.0], [50.0, 0.0])
    assert each.left.tolist() == pytest.approx([260.0, 60.0, 50.0])
    each.advance(2.5)
    # Of the 60 MB that are left in the epoch it has cached nothing yet.
    assert each.misses.tolist() == [1.0]


def test_late_in_time_an_lru_cache_still_holds_no_more_than_its_capacity():
    entry = FluidClock([178.0], [0], [2.5 * 178.0], 30.0, 5.0, policy="lru")
    for rate, events in ((1.0, 82), (0.0, 40), (10.0, 1)):
        entry.allocate([0], [rate])
        entry.advance(events=events)
        entry.check()
    # A step of the clock is 60 us by now, in which 0.3 kB are read.
    assert entry.now > 1e11 and 29.9 < entry.cached.sum() <= 30.0 * (1 + 1e-6)


@pytest.mark.parametrize("policy", ["uniform", "lru"])
def test_a_job_that_begins_again_finds_what_it_had_cached_and_reads_all_of_it(policy):
    """Two epochs of 100 MB at 10 MB/s: 60 MB are read and lost, and then need not come again."""
    fluid = FluidClock([100.0], [0], [200.0], 100.0, 10.0, policy=policy)
    fluid.allocate([0], [40.0], [100.0])
    fluid.advance(6.0)
    fluid.allocate([], [], [100.0], again=[0])
    fluid.advance(50.0)
    fluid.allocate([0], [40.0], [100.0])
    assert fluid.left.tolist() == [200.0]
    assert fluid.advance().tolist() == [0]
    # 40 MB/s where it misses 10 of 25, and after this epoch nothing.
    assert fluid.now == pytest.approx(50.0 + 4.0 + 2.5)
    assert fluid.fetched == pytest.approx(100.0)
    fluid.check()
