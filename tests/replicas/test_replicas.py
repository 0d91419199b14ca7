"""What replicas refuse, and that refusing changes nothing."""

import struct

import numpy as np
import pytest
from objects.saved_states import sealed_nonsense_is_refused_or_sound

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError, FullReportNeededError
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory

NAN, INF = float("nan"), float("inf")
HUGE = 2**200


def cache():
    built = ReplicaAwareCache(3, 8, arbitrated=True)
    built.access_many([1, 2, 3])
    built.apply([1, 2], [2, 1])
    built.heartbeat()
    built.answer(built.propose(1), [True])
    built.pin(3)
    return built


def directory():
    built = ReplicaDirectory(3, 8)
    for worker in (0, 1):
        built.join(worker, [1, 2], sequence=4)
    built.lease(0, [1])
    return built


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: ReplicaAwareCache(0, 8), ValueError, "capacity=0: allowed are 1 to"),
        (lambda: ReplicaAwareCache(HUGE, 8), ValueError, "capacity=.*too large"),
        (lambda: ReplicaAwareCache(1.5, 8), TypeError, "capacity must be an integer, not float"),
        (lambda: ReplicaAwareCache(3, -1), ValueError, "blocks=-1"),
        (lambda: ReplicaAwareCache(3, 2**31), ValueError, "blocks=2147483648"),
        (lambda: ReplicaAwareCache(3, 8, alpha=NAN), ValueError, "alpha=nan"),
        (lambda: ReplicaAwareCache(3, 8, alpha=-1), ValueError, "alpha=-1"),
        (lambda: ReplicaAwareCache(3, 8, beta=INF), ValueError, "beta=inf"),
        (lambda: ReplicaAwareCache(3, 8, beta=HUGE**9), ValueError, "beta="),
        (lambda: ReplicaAwareCache(3, 8, beta="1"), TypeError, "beta must be a float, not str"),
        (lambda: ReplicaAwareCache(3, 8, alpha=True), TypeError, "alpha must be a float"),
        (lambda: ReplicaAwareCache(3, 8, max_count=64), ValueError, "max_count=64"),
        (lambda: ReplicaAwareCache(3, 8, arbitrated=1), TypeError, "arbitrated must be a bool"),
        (lambda: ReplicaDirectory(0, 8), ValueError, "workers=0"),
        (lambda: ReplicaDirectory(2**20 + 1, 8), ValueError, "workers=1048577"),
        (lambda: ReplicaDirectory(3, None), TypeError, "blocks must be an integer"),
    ],
)
def test_what_cannot_be_made_is_named(make, error, says):
    with pytest.raises(error, match=says):
        make()


CALLS = [
    (cache, lambda c: c.access(8), ValueError, "block=8: allowed are 0 to 7"),
    (cache, lambda c: c.access(-1), ValueError, "block=-1"),
    (cache, lambda c: c.access(1.0), TypeError, "block must be an integer"),
    (cache, lambda c: c.access(1, -1), ValueError, "copies=-1"),
    (cache, lambda c: c.access(1, 0.5), TypeError, "copies must be an integer"),
    (cache, lambda c: c.access_many([1, 2], [1]), ValueError, "copies has 1 elements"),
    (cache, lambda c: c.access_many([1, 2], [1, -1]), ValueError, r"copies\[1\]=-1"),
    (cache, lambda c: 9 in c, ValueError, "block=9"),
    (cache, lambda c: c.access_many([1, 8]), ValueError, r"blocks\[1\]=8"),
    (cache, lambda c: c.access_many([[1]]), ValueError, "one dimension"),
    (cache, lambda c: c.access_many([[1], [1, 2]]), ValueError, "blocks must be an array of int"),
    (cache, lambda c: c.answer([1], [[True], [1, 2]]), ValueError, "granted must be an array of b"),
    (cache, lambda c: c.access_many([0.5]), TypeError, "blocks must hold integers"),
    (cache, lambda c: c.access_many([True]), TypeError, "blocks must hold integers, not bool"),
    (cache, lambda c: c.access_many([NAN]), TypeError, "blocks must hold integers"),
    (cache, lambda c: c.access_many([None]), TypeError, "blocks must hold integers, not object"),
    (cache, lambda c: c.access_many(np.uint64([2**63])), ValueError, r"blocks\[0\]"),
    (cache, lambda c: c.apply([1], [1, 2]), ValueError, "blocks has 1 elements, changes has 2"),
    (cache, lambda c: c.apply([1, 8], [1, 1]), ValueError, r"blocks\[1\]=8"),
    (cache, lambda c: c.apply([1, 2], [1, 2**31 + 1]), ValueError, r"changes\[1\]"),
    (cache, lambda c: c.apply([1], [0.5]), TypeError, "changes must hold integers"),
    (cache, lambda c: c.count(8), ValueError, "block=8"),
    (cache, lambda c: c.pin(0), KeyError, "block=0: not cached"),
    (cache, lambda c: c.unpin(0), KeyError, "block=0: not cached"),
    (cache, lambda c: c.discard(0), KeyError, "block=0: not cached"),
    (cache, lambda c: c.discard(3), ValueError, "block=3: pinned"),
    (cache, lambda c: c.propose(-1), ValueError, "limit=-1"),
    (cache, lambda c: c.answer([1], [1]), TypeError, "granted must hold bools"),
    (cache, lambda c: c.answer([1], [True, False]), ValueError, "granted has 2 elements"),
    (cache, lambda c: c.answer([8], [True]), ValueError, r"blocks\[0\]=8"),
    (cache, lambda c: c.grow(7), ValueError, "blocks=7: allowed are 8 to"),
    (directory, lambda d: d.join(3), ValueError, "worker=3: allowed are 0 to 2"),
    (directory, lambda d: d.join(2, [8]), ValueError, r"held\[0\]=8"),
    (directory, lambda d: d.join(2, [1], -1), ValueError, "sequence=-1"),
    (directory, lambda d: d.report(2, [1]), FullReportNeededError, "worker=2: not known"),
    (directory, lambda d: d.report(0, [3], [8]), ValueError, r"removed\[0\]=8"),
    (directory, lambda d: d.report(0, [3], [], [-1]), ValueError, r"released\[0\]=-1"),
    (directory, lambda d: d.report(0, [0.5]), TypeError, "added must hold integers"),
    (directory, lambda d: d.report(0, [3], sequence=6), FullReportNeededError, "sequence=6"),
    (directory, lambda d: d.report(0, [3], sequence=1.0), TypeError, "sequence must be"),
    (directory, lambda d: d.lease(2, [1]), FullReportNeededError, "worker=2"),
    (directory, lambda d: d.lease(0, [2, 8]), ValueError, r"blocks\[1\]=8"),
    (directory, lambda d: d.remove_worker(-1), ValueError, "worker=-1"),
    (directory, lambda d: d.replicas(8), ValueError, "block=8"),
    (directory, lambda d: d.holders("1"), TypeError, "block must be an integer, not str"),
    (directory, lambda d: d.grow(HUGE), ValueError, "too large"),
]


@pytest.mark.parametrize(("make", "call", "error", "says"), CALLS)
def test_a_wrong_call_is_named_and_changes_nothing(make, call, error, says):
    thing = make()
    before = thing.to_bytes()
    with pytest.raises(error, match=says):
        call(thing)
    assert thing.to_bytes() == before
    thing.check()


@pytest.mark.parametrize("make", [cache, directory])
def test_saved_nonsense_is_refused_or_sound(make):
    sealed_nonsense_is_refused_or_sound(make)


@pytest.mark.parametrize("weight", [NAN, INF, -1.0, 1e101])
@pytest.mark.parametrize(("name", "offset"), [("alpha", 16), ("beta", 24)])
def test_a_saved_weight_is_checked_like_one_that_is_given(weight, name, offset):
    payload = bytearray(unseal(b"HCRC", 1, cache().to_bytes()))
    payload[offset : offset + 8] = struct.pack("<d", weight)
    with pytest.raises(CorruptStateError, match=f"data: {name} is out of range"):
        ReplicaAwareCache.from_bytes(seal(b"HCRC", 1, bytes(payload)))


def test_arrays_of_any_layout_are_read():
    thing = ReplicaAwareCache(4, 100)
    blocks = np.arange(100, dtype=np.int32)[::7]
    blocks.flags.writeable = False
    hits, admitted, evicted = thing.access_many(blocks)
    assert (hits.dtype, admitted.dtype, evicted.dtype) == (bool, bool, np.int64)
    assert admitted.all()
    assert evicted.tolist() == [-1] * 4 + blocks[:-4].tolist()
    assert [part.tolist() for part in thing.access_many([])] == [[], [], []]


def test_ids_may_be_added():
    thing = ReplicaAwareCache(100, 2)
    thing.access_many([0, 1])
    thing.grow(200)
    assert thing.access_many(range(200))[0].sum() == 2
    assert len(thing) == 100
    thing.check()
    master = ReplicaDirectory(2, 1)
    master.join(0, [0])
    master.grow(1000)
    master.join(1, [0, 999])
    assert master.holders(999).tolist() == [1]
    master.check()


@pytest.mark.parametrize("make", [cache, directory])
def test_ids_never_become_fewer_while_their_number_is_read(make):
    growing = make()

    class Number:
        def __index__(self):
            growing.grow(100_000)
            return 9

    with pytest.raises(ValueError, match="blocks=9: allowed are 100000 to"):
        growing.grow(Number())
    assert growing.blocks == 100_000
    growing.check()


def test_changes_beyond_64_bits_do_not_wrap_around():
    built = cache()
    for changes in ([2**64 - 1], np.array([2**64 - 1], np.uint64)):
        with pytest.raises(ValueError, match=rf"changes\[0\]={2**64 - 1}: too large"):
            built.apply([4], changes)
    built.apply([4], np.array([3], np.uint64))
    assert built.count(4) == 3


def test_a_weight_is_checked_as_the_float_that_it_becomes():
    class Small(float):
        def __le__(self, other):
            return True

        __ge__ = __le__

    for value in (Small("nan"), Small("inf")):
        with pytest.raises(ValueError, match="alpha="):
            ReplicaAwareCache(3, 8, alpha=value)


def test_late_and_repeated_reports_are_ignored_and_lost_ones_noticed():
    master = ReplicaDirectory(2, 4)
    master.join(0, [], sequence=1)
    master.report(0, [1], sequence=2)
    master.report(0, [], [1], sequence=3)
    assert master.report(0, [1], sequence=2) == {}
    assert master.replicas(1) == 0
    with pytest.raises(FullReportNeededError):
        master.report(0, [2], sequence=5)
    assert master.sequence(0) == 3
    master.join(0, [1, 2], sequence=9)
    master.report(0, [3], sequence=10)
    assert master.held(0).tolist() == [1, 2, 3]


def test_a_lost_worker_is_forgotten_until_it_joins_again():
    master = ReplicaDirectory(3, 4)
    for worker in range(3):
        master.join(worker, [1])
    assert master.lease(0, [1]).tolist() == [True]
    deltas = master.remove_worker(0)
    assert {w: (b.tolist(), c.tolist()) for w, (b, c) in deltas.items()} == {
        1: ([1], [-1]),
        2: ([1], [-1]),
    }
    assert master.remove_worker(0) == {}
    assert not master.is_known(0)
    with pytest.raises(FullReportNeededError):
        master.report(0)
    assert master.lease(1, [1]).tolist() == [True]
    assert master.lease(2, [1]).tolist() == [False]
    assert {w: c.tolist() for w, (_, c) in master.join(0, [1, 2]).items()} == {
        0: [2],
        1: [1],
        2: [1],
    }
    assert master.lease(2, [1]).tolist() == [True]
    assert master.lease(0, [1]).tolist() == [False]


def test_a_lease_ends_with_the_report_of_the_eviction_or_its_release():
    master = ReplicaDirectory(2, 4)
    for worker in range(2):
        master.join(worker, [1, 2])
    assert master.lease(0, [1, 2, 3]).tolist() == [True, True, False]
    assert master.lease(0, [1]).tolist() == [True]
    assert master.lease(1, [1, 2]).tolist() == [False, False]
    master.report(0, removed=[1], released=[2])
    assert master.leases(0).tolist() == []
    assert master.lease(1, [1, 2]).tolist() == [False, True]
