"""Worked numbers: Alluxio's replica-aware eviction."""

import numpy as np
import pytest

from hivecore.reference.replicas import ReplicaAwareCache as CacheTwin
from hivecore.reference.replicas import ReplicaDirectory as DirectoryTwin
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory

both_caches = pytest.mark.parametrize("cache_class", [ReplicaAwareCache, CacheTwin])
A, B, C, D = range(4)


@both_caches
def test_a_goes_although_c_is_least_recently_used(cache_class):
    """Alluxio's example: worker 1 holds A, B and C; C is the only copy, A has two more."""
    cache = cache_class(3, 4)
    for block in (C, A, B):
        cache.access(block)
    assert cache.victim() == C
    cache.apply([A], [2])
    assert cache.access(D) is False
    assert cache.last_evicted == A
    assert cache.cached().tolist() == [B, C, D]


@both_caches
def test_the_order_of_alluxios_own_test(cache_class):
    """ReplicaBasedAnnotatorTest: ratios 1e-5 and 1000, blocks 0 to 99."""
    cache = cache_class(100, 100, alpha=1e-5, beta=1000.0)
    everything = list(range(100))
    cache.access_many(everything)
    assert cache.eviction_order().tolist() == everything
    cache.access_many(everything)
    even, odd = everything[::2], everything[1::2]
    cache.apply(even, [2] * 50)
    assert cache.eviction_order().tolist() == even + odd
    fourth = everything[::4]
    cache.apply(fourth, [-1] * 25)
    cache.access_many(everything)
    assert cache.eviction_order().tolist() == everything[2::4] + fourth + odd


@both_caches
def test_a_delta_does_not_refresh_recency(cache_class):
    """The original takes a fresh clock value for it: block 0 would then be the last to go."""
    cache = cache_class(4, 4)
    cache.access_many([0, 1, 2, 3])
    cache.apply([0, 0], [1, -1])
    assert cache.eviction_order().tolist() == [0, 1, 2, 3]
    cache.apply([2, 0, 3], [1, 1, 1])
    assert cache.eviction_order().tolist() == [0, 2, 3, 1]
    assert cache.clock == 4


@both_caches
def test_ties_go_to_the_lower_clock(cache_class):
    cache = cache_class(2, 3, alpha=1.0, beta=1.0)
    cache.access_many([0, 1])  # clocks 1 and 2
    cache.apply([1], [1])  # both score 1
    assert cache.eviction_order().tolist() == [0, 1]
    cache.apply([1], [1])
    assert cache.eviction_order().tolist() == [1, 0]


def shared_block(directory_class, cache_class, holders, arbitrated):
    """Workers that all hold block 0 and know how many others do."""
    directory = directory_class(holders, 10)
    caches = [cache_class(1, 10, arbitrated=arbitrated) for _ in range(holders)]
    for worker, cache in enumerate(caches):
        directory.join(worker, *cache.full_report())
        cache.access(0)
    for worker, cache in enumerate(caches):
        for other, deltas in directory.report(worker, *cache.heartbeat()).items():
            caches[other].apply(*deltas)
    assert [cache.count(0) for cache in caches] == [holders - 1] * holders
    return directory, caches


both_pairs = pytest.mark.parametrize(
    "classes", [(ReplicaDirectory, ReplicaAwareCache), (DirectoryTwin, CacheTwin)]
)


@both_pairs
@pytest.mark.parametrize("holders", [2, 3, 5])
def test_naive_holders_all_evict_on_stale_counts(classes, holders):
    directory, caches = shared_block(*classes, holders, arbitrated=False)
    for worker, cache in enumerate(caches):
        cache.access(1 + worker)  # each believes that the others keep block 0
        assert cache.last_evicted == 0
    assert not any(0 in cache for cache in caches)
    for worker, cache in enumerate(caches):
        directory.report(worker, *cache.heartbeat())
    assert directory.replicas(0) == 0


@both_pairs
@pytest.mark.parametrize("holders", [2, 3, 5])
def test_arbitrated_holders_keep_one_copy(classes, holders):
    directory, caches = shared_block(*classes, holders, arbitrated=True)
    for worker, cache in enumerate(caches):
        request = cache.propose()
        cache.answer(request, directory.lease(worker, request))
    evicted = []
    for worker, cache in enumerate(caches):
        cache.access(1 + worker)
        evicted.append(cache.last_evicted)
    assert evicted == [0] * (holders - 1) + [-1]
    assert 0 in caches[-1] and holders not in caches[-1]  # the last one reads past its cache
    for worker, cache in enumerate(caches):
        directory.report(worker, *cache.heartbeat())
    assert directory.holders(0).tolist() == [holders - 1]
    assert all(directory.leases(worker).tolist() == [] for worker in range(holders))


# Random visits: 5 workers, 500 blocks; a local read costs 0, a peer read 1, a remote read 10.


def cost_of_visits(capacity, visits, *, alpha, beta, knowing=False, seed=1):
    directory = ReplicaDirectory(5, 500)
    caches = [ReplicaAwareCache(capacity, 500, alpha=alpha, beta=beta) for _ in range(5)]
    for worker, cache in enumerate(caches):
        directory.join(worker, *cache.full_report())
    rng = np.random.default_rng(seed)
    cost = 0
    for worker, block in zip(
        rng.integers(5, size=visits).tolist(), rng.integers(500, size=visits).tolist(), strict=True
    ):
        copies = directory.replicas(block)
        if not caches[worker].access(block, copies if knowing else 0):
            cost += 1 if copies else 10
            for other, deltas in directory.report(worker, *caches[worker].heartbeat()).items():
                caches[other].apply(*deltas)
    return cost


@pytest.mark.parametrize(
    ("capacity", "knowing", "low", "high"),
    [
        (50, False, 0.87, 0.88),
        (100, False, 0.34, 0.36),
        (50, True, 0.86, 0.88),
        (100, True, 0.32, 0.335),
    ],
)
def test_replicas_first_beats_lru_on_random_visits(capacity, knowing, low, high):
    """Alluxio's pull request reports 0.938 and 0.861 of LRU's time for its weights.

    Knowing of a peer's copy, a worker does not give a last copy for one more.
    """
    ratios = []
    for seed in range(3):
        lru = cost_of_visits(capacity, 10_000, alpha=1.0, beta=0.0, seed=seed)
        ours = cost_of_visits(capacity, 10_000, alpha=1e-5, beta=1000.0, knowing=knowing, seed=seed)
        ratios.append(ours / lru)
    assert low < np.mean(ratios) < high
