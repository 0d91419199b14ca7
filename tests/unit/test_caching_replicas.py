"""What replicas, limiter and placement refuse, and that refusing changes nothing."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

from hivecore.caching import (
    Bandwidths,
    RemoteIOLimiter,
    ReplicaAwareCache,
    ReplicaDirectory,
    copy_replicas,
    epoch_cost,
    peer_cache_model,
    place_near_data,
    wait_for_locality,
)
from hivecore.errors import CorruptStateError, FullReportNeededError

NAN, INF = float("nan"), float("inf")
HUGE = 2**200


def cache():
    made = ReplicaAwareCache(3, 8, arbitrated=True)
    made.access_many([1, 2, 3])
    made.apply([1, 2], [2, 1])
    made.heartbeat()
    made.answer(made.propose(1), [True])
    made.pin(3)
    return made


def directory():
    made = ReplicaDirectory(3, 8)
    for worker in (0, 1):
        made.join(worker, [1, 2], sequence=4)
    made.lease(0, [1])
    return made


def limiter():
    made = RemoteIOLimiter(1000, 500, lend=True)
    made.add_job(300, 100, now=0)
    made.add_job(300, 100, now=0)
    made.remove_job(0, now=0)
    made.take(1, 60, now=10)
    return made


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
        (lambda: RemoteIOLimiter(-1, 0), ValueError, "rate=-1"),
        (lambda: RemoteIOLimiter(10**12 + 1, 0), ValueError, "rate=1000000000001"),
        (lambda: RemoteIOLimiter(1, 10**15 + 1), ValueError, "burst="),
        (lambda: RemoteIOLimiter(1.0, 5), TypeError, "rate must be an integer, not float"),
        (lambda: RemoteIOLimiter(1, 5, lend="no"), TypeError, "lend must be a bool"),
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
    (limiter, lambda b: b.take(0, 1, 20), KeyError, "job=0: no such job"),
    (limiter, lambda b: b.take(7, 1, 20), KeyError, "job=7: no such job"),
    (limiter, lambda b: b.take(-1, 1, 20), KeyError, "job=-1: no such job"),
    (limiter, lambda b: b.take(1, 101, 20), ValueError, "bytes=101: .* the burst, 100"),
    (limiter, lambda b: b.take(1, -1, 20), ValueError, "bytes=-1"),
    (limiter, lambda b: b.take(1, 1, -1), ValueError, "now=-1"),
    (limiter, lambda b: b.take(1, 1, 2**62 + 1), ValueError, "now="),
    (limiter, lambda b: b.take(1, 1, NAN), TypeError, "now must be an integer, not float"),
    (limiter, lambda b: b.take(1, HUGE, 20), ValueError, "bytes=.*too large"),
    (limiter, lambda b: b.take_many([1, 0], [1, 1], 20), KeyError, r"jobs\[1\]=0: no such job"),
    (limiter, lambda b: b.take_many([1, 1], [1, 101], 20), ValueError, r"bytes\[1\]=101"),
    (limiter, lambda b: b.take_many([1], [1, 1], 20), ValueError, "jobs has 1 elements"),
    (limiter, lambda b: b.add_job(701, 0, 20), ValueError, "rate=701: allowed are 0 to 700"),
    (limiter, lambda b: b.add_job(0, 401, 20), ValueError, "burst=401: allowed are 0 to 400"),
    (limiter, lambda b: b.set_rate(1, 1001, now=20), ValueError, "rate=1001"),
    (limiter, lambda b: b.set_rate(1, 5, 501, now=20), ValueError, "burst=501"),
    (limiter, lambda b: b.set_rate(0, 5, now=20), KeyError, "job=0"),
    (limiter, lambda b: b.remove_job(0, 20), KeyError, "job=0"),
    (limiter, lambda b: b.tokens(0, 20), KeyError, "job=0"),
]


@pytest.mark.parametrize(("make", "call", "error", "says"), CALLS)
def test_a_wrong_call_is_named_and_changes_nothing(make, call, error, says):
    thing = make()
    before = thing.to_bytes()
    with pytest.raises(error, match=says):
        call(thing)
    assert thing.to_bytes() == before
    thing.check()


def test_a_block_that_was_proposed_must_be_answered_before_it_is_dropped():
    thing = ReplicaAwareCache(2, 4, arbitrated=True)
    thing.access_many([0, 1])
    assert thing.propose(1).tolist() == [0]
    with pytest.raises(ValueError, match="block=0: proposed and not answered"):
        thing.discard(0)
    thing.answer([0], [False])
    thing.discard(0)


def test_a_lease_of_a_block_that_was_pinned_meanwhile_goes_back():
    thing = ReplicaAwareCache(2, 4, arbitrated=True)
    thing.access_many([0, 1])
    assert thing.propose(1).tolist() == [0]
    thing.pin(0)
    thing.answer([0], [True])
    assert thing.leased == 0 and thing.victim() == -1
    thing.check()
    assert thing.heartbeat()[2].tolist() == [0]


def test_a_lease_that_was_to_be_given_back_is_not_forgotten_with_the_block():
    thing = ReplicaAwareCache(2, 4, arbitrated=True)
    thing.access_many([0, 1])
    thing.heartbeat()
    thing.answer(thing.propose(1), [True])
    thing.access(0)
    thing.discard(0)
    thing.access(0)
    assert thing.propose(2).tolist() == [1]
    added, removed, released, _ = thing.heartbeat()
    assert [*added, *removed] == [] and released.tolist() == [0]


def test_a_naive_cache_needs_no_leases():
    thing = ReplicaAwareCache(2, 4)
    with pytest.raises(ValueError, match="arbitrated=False"):
        thing.propose()
    with pytest.raises(ValueError, match="arbitrated=False"):
        thing.answer([1], [True])


@pytest.mark.parametrize("make", [cache, directory, limiter])
def test_copies_and_pickles_are_equal_and_independent(make):
    thing = make()
    for other in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
        assert type(other) is type(thing)
        assert other.to_bytes() == thing.to_bytes()
        assert sys.getsizeof(other) > 100
        other.check()


@pytest.mark.parametrize("make", [cache, directory, limiter])
def test_damaged_bytes_are_refused(make):
    data = make().to_bytes()
    load = type(make()).from_bytes
    for position in range(len(data)):
        with pytest.raises(CorruptStateError):
            load(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(CorruptStateError):
            load(data[:position])
    with pytest.raises(TypeError, match="data must be bytes"):
        load("text")


@pytest.mark.parametrize("make", [cache, directory, limiter])
def test_sealed_nonsense_is_refused_or_sound(make):
    """Whatever a payload says, the outcome is an error or an object in a possible state."""
    from hivecore._sealed import seal, unseal

    data = make().to_bytes()
    magic = data[:4]
    payload = unseal(magic, 1, data)
    rng = np.random.default_rng(3)
    accepted = 0
    for _ in range(1500):
        changed = bytearray(payload)
        for _ in range(int(rng.integers(1, 3))):
            position = int(rng.integers(len(changed)))
            changed[position] = int(rng.choice([0, 1, 2, 3, 127, 128, 255, rng.integers(256)]))
        # Sizes may be plausible and huge; what they would need is not there or not allocated here.
        if magic == b"HCRC" and (any(changed[2:8]) or any(changed[10:16])):
            continue
        try:
            thing = type(make()).from_bytes(seal(magic, 1, bytes(changed)))
        except CorruptStateError:
            continue
        thing.check()
        assert type(thing).from_bytes(thing.to_bytes()).to_bytes() == thing.to_bytes()
        accepted += 1
    assert accepted > 0


def test_arrays_of_any_layout_are_read():
    thing = ReplicaAwareCache(4, 100)
    blocks = np.arange(100, dtype=np.int32)[::7]
    blocks.flags.writeable = False
    hits, admitted, evicted = thing.access_many(blocks)
    assert (hits.dtype, admitted.dtype, evicted.dtype) == (bool, bool, np.int64)
    assert admitted.all()
    assert evicted.tolist() == [-1] * 4 + blocks[:-4].tolist()
    assert [part.tolist() for part in thing.access_many([])] == [[], [], []]


def test_a_cache_of_pinned_blocks_reads_past_itself():
    thing = ReplicaAwareCache(2, 4)
    thing.access_many([0, 1])
    thing.pin(0)
    thing.pin(1)
    assert (thing.access(2), 2 in thing, thing.last_evicted) == (False, False, -1)
    thing.unpin(1)
    assert (thing.access(2), 2 in thing, thing.last_evicted) == (False, True, 1)


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
    made = cache()
    for changes in ([2**64 - 1], np.array([2**64 - 1], np.uint64)):
        with pytest.raises(ValueError, match=rf"changes\[0\]={2**64 - 1}: too large"):
            made.apply([4], changes)
    made.apply([4], np.array([3], np.uint64))
    assert made.count(4) == 3


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


def test_a_block_used_again_under_lease_gives_it_back():
    thing = ReplicaAwareCache(2, 4, arbitrated=True)
    thing.access_many([0, 1])
    thing.heartbeat()
    thing.answer(thing.propose(2), [True, True])
    assert thing.leased == 2
    assert thing.access(0)
    assert thing.leased == 1
    thing.access(2)
    assert thing.last_evicted == 1
    added, removed, released, sequence = thing.heartbeat()
    assert [added.tolist(), removed.tolist(), released.tolist(), sequence] == [[2], [1], [0], 2]


def test_an_eviction_undone_before_the_heartbeat_ends_its_lease():
    thing = ReplicaAwareCache(1, 4, arbitrated=True)
    thing.access(0)
    thing.heartbeat()
    thing.answer(thing.propose(), [True])
    thing.access(1)
    thing.answer(thing.propose(), [True])
    thing.access(0)
    added, removed, released, _ = thing.heartbeat()
    assert [added.tolist(), removed.tolist(), released.tolist()] == [[], [], [0]]


def test_threads_take_turns():
    thing = ReplicaAwareCache(500, 1000)
    rng = np.random.default_rng(0)
    batches = [rng.integers(1000, size=20_000) for _ in range(8)]

    def work(batch):
        for _ in range(5):
            thing.access_many(batch)
            thing.apply(batch[:5000], np.tile([1, -1], 2500))
            for block in batch[:200].tolist():
                thing.access(block)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    thing.check()
    assert thing.clock == 8 * 5 * 20_200


def test_a_job_without_rate_waits_for_ever_once_its_burst_is_gone():
    bucket = RemoteIOLimiter(10, 10)
    job = bucket.add_job(0, 10, now=0)
    assert bucket.take(job, 10, now=0) == 0
    assert bucket.take(job, 1, now=2**62) == 2**63 - 1


def test_a_bucket_that_fills_only_after_the_last_time_is_never_full():
    limiter = RemoteIOLimiter(1, 8_000_000_000)
    job = limiter.add_job(1, 8_000_000_000, now=0)
    assert limiter.take(job, 8_000_000_000, now=2**62) == 0
    assert limiter.take(job, 1, now=2**62) == 10**9
    limiter.check()


def test_a_smaller_burst_gives_its_tokens_away_and_a_larger_one_takes_room():
    bucket = RemoteIOLimiter(0, 100)
    job = bucket.add_job(0, 60, now=0)
    bucket.set_rate(job, 0, 20, now=0)
    assert (bucket.tokens(job, 0), bucket.spare(0)) == (20, 80)
    bucket.set_rate(job, 0, 90, now=0)
    assert (bucket.tokens(job, 0), bucket.spare(0)) == (90, 10)
    bucket.remove_job(job, 0)
    assert bucket.spare(0) == 100


# Models and placement


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: peer_cache_model([1, NAN], 10), ValueError, r"cached\[1\]=nan"),
        (lambda: peer_cache_model([-1], 10), ValueError, r"cached\[0\]=-1"),
        (lambda: peer_cache_model([11], 10), ValueError, "more than the dataset"),
        (lambda: peer_cache_model([], 10), ValueError, "at least one worker"),
        (lambda: peer_cache_model(5, 10), ValueError, "at least one worker"),
        (lambda: peer_cache_model(["a"], 10), TypeError, "cached must hold numbers"),
        (lambda: peer_cache_model([1], 0), ValueError, "dataset=0.0: must be .*above 0"),
        (lambda: peer_cache_model([1], 10, replicas=0.5), ValueError, "replicas=0.5"),
        (lambda: peer_cache_model([8, 1], 10, replicas=2), ValueError, "the largest cache"),
        (lambda: peer_cache_model([1], 10, peers=1), TypeError, "peers must be a bool"),
        (lambda: place_near_data([1], [1, 2], 1, 10), ValueError, "one element per node"),
        (lambda: place_near_data([1], [1.5], 1, 10), TypeError, "free must hold integers"),
        (lambda: place_near_data([1], [-1], 1, 10), ValueError, r"free\[0\]=-1"),
        (lambda: place_near_data([1, 1], [1, 1025], 1, 10), ValueError, r"free\[1\]=1025"),
        (lambda: place_near_data([1], [1], 1, [10, 10]), TypeError, "dataset must be a float"),
        (lambda: place_near_data([1], [1], 0, 10), ValueError, "gpus=0"),
        (lambda: place_near_data([11], [1], 1, 10), ValueError, r"cached\[0\]=11"),
        (lambda: place_near_data([1], [1], 1, INF), ValueError, "dataset=inf"),
        (lambda: place_near_data([1], [1], 1, 10, replicas=0), ValueError, "replicas=0"),
        (lambda: Bandwidths(0, 1, 1), ValueError, "local=0.0: must be from 1e-15"),
        (lambda: Bandwidths(1, [1, 2], 1), TypeError, "peer must be a float"),
        (lambda: Bandwidths(1, 1, NAN), ValueError, "remote=nan"),
        (lambda: epoch_cost(1, -2, 3), ValueError, "peer=-2"),
        (lambda: epoch_cost(1, 2, 3, 4), TypeError, "bandwidths must be Bandwidths, not int"),
        (lambda: epoch_cost([1, 2], [1, 2, 3], 1), ValueError, r"\(2,\), \(3,\), \(\) do not"),
        (lambda: peer_cache_model([[1], [2]], [5, 6, 7]), ValueError, r"\(2,\), \(3,\) do not"),
        (
            lambda: copy_replicas(1, 1, 1, None),
            TypeError,
            "bandwidths must be Bandwidths, not None",
        ),
        (lambda: copy_replicas([1, 1], 1, [1] * 3, Bandwidths(1, 1, 1)), ValueError, "broadcast"),
        (lambda: wait_for_locality([1, 2], [1, 2, 3]), ValueError, "do not broadcast"),
        (lambda: place_near_data([1], [1], 1, 1e16), ValueError, r"from 1e-09 to 1e\+15"),
        (lambda: copy_replicas(1, 1.5, 1, Bandwidths(1, 1, 1)), ValueError, "share=1.5"),
        (lambda: wait_for_locality(1, True), TypeError, "wait must hold numbers"),
        (lambda: wait_for_locality(1, 1, locality_wait=-1), ValueError, "locality_wait=-1"),
    ],
)
def test_wrong_amounts_are_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_models_are_vectorised():
    cached = np.arange(24.0).reshape(2, 3, 4)
    model = peer_cache_model(cached, np.full((2, 3), 50.0))
    assert model.hit.shape == (2, 3)
    one = peer_cache_model(cached[1, 2], 50.0)
    assert model.hit[1, 2] == one.hit
    assert epoch_cost([1, 2], 3, [[4], [5]]).tolist() == [[43, 43], [53, 53]]


def test_too_few_gpus_are_no_error():
    assert place_near_data([1, 1], [2, 3], 6, 10) is None
    assert place_near_data([], [], 1, 10) is None


def test_copies_that_are_no_faster_to_read_save_nothing():
    slow_disk = Bandwidths(local=500, peer=1000, remote=100)
    advice = copy_replicas(10, 1, 100, slow_disk)
    assert not advice.copy
    assert advice.saved == 0


def test_no_job_waits_for_locality_by_default():
    assert wait_for_locality(1000, [0, 1e-9, 5]).tolist() == [True, False, False]
    assert wait_for_locality(1000, 5, waited=26, locality_wait=30).tolist() is False
    assert wait_for_locality(4, 5, locality_wait=30).tolist() is False
