import copy
import pickle
import threading
from contextlib import suppress

import numpy as np
import pytest

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError
from hivecore.storage import FluidStorage, greedy_cache

GOOD = {
    "sizes": [100.0, 50.0],
    "cache_of": [0, 1, 1],
    "totals": [300.0, 100.0, 50.0],
    "capacity": 80.0,
    "bandwidth": 40.0,
}


def storage(**changes):
    return FluidStorage(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"sizes": [100.0, 0.0]}, ValueError, r"sizes\[1\]=0.0: allowed are 1e-06 to 1e\+18"),
        ({"sizes": [100.0, float("nan")]}, ValueError, r"sizes\[1\]=nan"),
        ({"sizes": [[100.0]]}, ValueError, "sizes must have one dimension, not 2"),
        ({"sizes": [[1.0], [1.0, 2.0]]}, ValueError, "sizes must be an array of numbers"),
        ({"sizes": ["x", "y"]}, TypeError, "sizes must hold numbers"),
        ({"sizes": np.array([True, False])}, TypeError, "sizes must hold numbers, not bool"),
        ({"cache_of": [0, 1, 2]}, ValueError, r"cache_of\[2\]=2: allowed are 0 to 1"),
        ({"cache_of": [0.0, 1.0, 1.0]}, TypeError, "cache_of must hold integers"),
        ({"totals": [1.0]}, ValueError, "totals has 1 elements, 3 are needed"),
        ({"totals": [1.0, -1.0, 1.0]}, ValueError, r"totals\[1\]=-1.0"),
        ({"capacity": -1.0}, ValueError, "capacity=-1.0: allowed are 0 to 1e"),
        ({"capacity": float("inf")}, ValueError, "capacity=inf"),
        ({"capacity": "1"}, TypeError, "capacity"),
        ({"bandwidth": 0.0}, ValueError, "bandwidth=0.0"),
        ({"io_mode": "fair"}, ValueError, "io_mode='fair': must be one of priority, through"),
        ({"io_mode": 1}, TypeError, "io_mode must be a string, not int"),
        ({"policy": "fifo"}, ValueError, "policy='fifo': must be one of uniform, lru"),
        ({"shrink": "all"}, ValueError, "shrink='all': must be one of random, read_first"),
        ({"lazy": 1}, TypeError, "lazy must be a bool, not int"),
        ({"policy": "lru", "warm_up": True}, ValueError, "policy='lru' has no shrink, lazy"),
    ],
)
def test_a_storage_that_cannot_be_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        storage(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"jobs": [0, 3]}, ValueError, r"jobs\[1\]=3: allowed are 0 to 2"),
        ({"jobs": [1, 1]}, ValueError, r"jobs\[1\]=1: stands there twice"),
        ({"jobs": ["a", "b"]}, TypeError, "jobs must hold integers"),
        ({"rates": [1.0]}, ValueError, "rates has 1 elements, 2 are needed"),
        ({"rates": [1.0, float("inf")]}, ValueError, r"rates\[1\]=inf"),
        ({"quota": [1.0]}, ValueError, "quota has 1 elements, 2 are needed"),
        ({"quota": [0.0, 51.0]}, ValueError, r"quota\[1\]=51.0: a full cache holds 50.0"),
        ({"quota": [-1.0, 0.0]}, ValueError, r"quota\[0\]=-1.0"),
        ({"reclaim": [2]}, ValueError, r"reclaim\[0\]=2: allowed are 0 to 1"),
        ({"wanted": [-1]}, ValueError, r"wanted\[0\]=-1: allowed are 0 to 1"),
        ({"reference": [1.0]}, ValueError, "reference has 1 elements, 2 are needed"),
        ({"reference": [1.0, None]}, TypeError, "reference must hold numbers"),
    ],
)
def test_a_decision_that_cannot_be_changes_nothing(changes, error, says):
    one = storage()
    one.allocate([2, 0], [60.0, 10.0], [30.0, 50.0])
    one.advance(1.0)
    before = one.jobs.tolist(), one.rates.tolist(), one.left.tolist(), one.cached.tolist()
    with pytest.raises(error, match=says):
        one.allocate(**{"jobs": [0, 1], "rates": [9.0, 9.0], **changes})
    assert before == (one.jobs.tolist(), one.rates.tolist(), one.left.tolist(), one.cached.tolist())
    one.check()


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((0.5,), ValueError, "until=0.5: must not be before now, 1.0"),
        ((float("nan"),), ValueError, "until=nan"),
        (("soon",), TypeError, "until"),
        ((9.0, 0), ValueError, "events=0: allowed are 1 to 1000000"),
        ((9.0, 1.5), TypeError, "events must be an integer"),
    ],
)
def test_time_does_not_go_back(arguments, error, says):
    one = storage()
    one.allocate([0], [10.0])
    one.advance(1.0)
    with pytest.raises(error, match=says):
        one.advance(*arguments)
    assert one.now == 1.0


def test_a_wait_without_end_is_refused_and_time_stands_still():
    one = storage()
    one.allocate([0], [0.0])
    with pytest.raises(ValueError, match="no job gets ahead from 0 s on: 1 run without data"):
        one.advance()
    assert one.now == 0.0
    assert one.advance(7.0).tolist() == [] and one.now == 7.0


def test_arrays_of_any_layout_are_taken():
    one, other = storage(), storage()
    one.allocate([2, 0], [60.0, 10.0], [30.0, 50.0])
    quota = np.array([30.0, 0.0, 50.0, 0.0])[::2]
    frozen = np.array([60, 10], dtype=np.uint8)
    frozen.flags.writeable = False
    other.allocate(np.array([2, 9, 0], dtype=np.int32)[::2], frozen, quota)
    assert one.advance().tolist() == other.advance().tolist() == [2]
    assert one.left.tolist() == other.left.tolist()


def test_nothing_at_all_is_allowed():
    empty = FluidStorage([], [], [], 0.0, 1.0)
    empty.allocate([], [], [])
    assert empty.advance(5.0).tolist() == [] and empty.now == 5.0
    empty.check()


@pytest.mark.parametrize("policy", ["uniform", "lru"])
def test_a_copy_is_independent(policy):
    one = storage(policy=policy)
    one.allocate([0, 1], [60.0, 10.0], [30.0, 50.0])
    one.advance(2.0)
    others = [copy.copy(one), copy.deepcopy(one), one.copy()]
    ended = one.advance().tolist()
    for other in others:
        assert other.now == 2.0
        assert other.advance().tolist() == ended and other.now == one.now
    assert repr(one) == "<FluidStorage: 2 of 3 jobs run>"
    assert one.__sizeof__() > object.__sizeof__(one)


@pytest.mark.parametrize("policy", ["uniform", "lru"])
def test_what_was_saved_goes_on_alike(policy):
    one = storage(policy=policy, io_mode="maxmin_rate")
    one.allocate([0, 1, 2], [60.0, 10.0, 7.0], [30.0, 50.0], [1, 0], reference=[1.0, 2.0, 3.0])
    one.advance(2.0)
    other = pickle.loads(pickle.dumps(one))
    assert other.to_bytes() == one.to_bytes()
    for _ in range(3):
        assert other.advance().tolist() == one.advance().tolist()
        assert (other.now, other.fetched, other.events) == (one.now, one.fetched, one.events)
        left = [job for job in range(3) if one.left[job] > 1e-6]
        for each in (one, other):
            each.allocate(left, [60.0] * len(left), [50.0, 30.0], [0, 1])


@pytest.mark.parametrize("policy", ["uniform", "lru"])
def test_damaged_bytes_are_refused(policy):
    one = storage(policy=policy)
    one.allocate([0, 1], [60.0, 10.0], [30.0, 50.0], [0, 1], [1])
    one.advance(2.0)
    good = one.to_bytes()
    with pytest.raises(TypeError, match="data must be bytes, not str"):
        FluidStorage.from_bytes("x")
    for bad in (b"", good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:], b"HCRL" + good[4:]):
        with pytest.raises(CorruptStateError, match="data: "):
            FluidStorage.from_bytes(bad)


@pytest.mark.parametrize("policy", ["uniform", "lru"])
def test_no_sealed_bytes_crash(policy):
    """With a checksum that fits: what is read back is refused, or a state that goes on."""
    one = storage(policy=policy)
    one.allocate([0, 1], [60.0, 10.0], [30.0, 50.0], [0, 1], [1])
    one.advance(2.0)
    payload = unseal(b"HCFS", 1, one.to_bytes())
    refused = 0
    for place in range(0, len(payload) - 7):
        for word in (b"\xff" * 8, b"\0" * 8, np.float64(1e9).tobytes(), np.float64(-3).tobytes()):
            bad = payload[:place] + word + payload[place + 8 :]
            try:
                other = FluidStorage.from_bytes(seal(b"HCFS", 1, bad))
            except CorruptStateError:
                refused += 1
                continue
            other.check()
            with suppress(ValueError):
                other.advance(other.now + 1.0, 50)
    assert refused > 100
    for cut in range(0, len(payload), 8):
        with pytest.raises(CorruptStateError):
            FluidStorage.from_bytes(seal(b"HCFS", 1, payload[:cut]))


def test_what_is_handed_out_is_not_the_state():
    one = storage()
    one.allocate([0], [10.0])
    one.advance(1.0)
    for name in ("rates", "misses", "cached", "left", "last_use", "jobs"):
        before = getattr(one, name).tolist()
        getattr(one, name)[:] = 7
        assert getattr(one, name).tolist() == before


def test_a_stopped_job_goes_on_where_it_was_in_its_epoch():
    one = storage()
    one.allocate([0], [100.0], [50.0, 0.0])
    one.advance(1.0)
    one.allocate([1], [40.0], [50.0, 0.0])
    one.advance(2.0)
    one.allocate([0], [100.0], [50.0, 0.0])
    assert one.left.tolist() == pytest.approx([260.0, 60.0, 50.0])
    one.advance(2.5)
    # Of the 60 MB that are left in the epoch it has cached nothing yet.
    assert one.misses.tolist() == [1.0]


def test_threads_take_turns():
    one = storage(totals=[1e6, 1e6, 1e6])
    one.allocate([0, 1, 2], [60.0, 10.0, 7.0], [30.0, 50.0])

    def work():
        for _ in range(50):
            one.advance(events=1)
            one.check()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.events == 200


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (([1.0], [1.0, 2.0], 1.0), ValueError, "efficiency has 1 elements, 2 are needed"),
        (([-1.0], [1.0], 1.0), ValueError, r"efficiency\[0\]=-1.0"),
        (([1.0], [0.0], 1.0), ValueError, r"datasets\[0\]=0.0"),
        (([1.0], [1.0], -1.0), ValueError, "capacity=-1.0"),
        (([1.0], [1.0], 1.0, [2.0]), ValueError, r"current\[0\]=2.0: a full cache holds 1.0"),
        (([1.0], [1.0], 1.0, [1.0], -0.1), ValueError, "eps=-0.1"),
        ((["a"], [1.0], 1.0), TypeError, "efficiency must hold numbers"),
    ],
)
def test_a_greedy_cache_of_what_cannot_be_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        greedy_cache(*arguments)
