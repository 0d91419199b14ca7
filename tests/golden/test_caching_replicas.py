"""Worked numbers: Alluxio's replica-aware eviction, peer caches, placement near data."""

import itertools

import numpy as np
import pytest

from hivecore.caching import (
    Bandwidths,
    ReplicaAwareCache,
    ReplicaDirectory,
    copy_replicas,
    peer_cache_model,
    place_near_data,
)
from hivecore.reference.caching import ReplicaAwareCache as CacheTwin
from hivecore.reference.caching import ReplicaDirectory as DirectoryTwin

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
        asked = cache.propose()
        cache.answer(asked, directory.lease(worker, asked))
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


# Peer caches


@pytest.mark.parametrize(
    ("peers", "replicas"), [(False, 1), (True, 1), (True, 2), (True, 3)], ids=str
)
def test_the_peer_model_is_what_an_item_simulation_gives(peers, replicas):
    items, sizes = 6000, np.array([900, 900, 600, 600])
    rng = np.random.default_rng(5)
    workers = len(sizes)
    cached = np.zeros((workers, items), dtype=bool)
    # Each worker's slice of a circle that all of them go round: every item has equally many copies.
    different = int(sizes.sum()) // replicas
    place = 0
    for worker, size in enumerate(sizes):
        cached[worker, np.arange(place, place + size) % different] = True
        place += size
    assert (cached.sum(axis=0)[:different] == replicas).all()
    local = near = 0
    epochs = 40
    for _ in range(epochs):
        reader = rng.integers(workers, size=items)
        own = cached[reader, np.arange(items)]
        local += own.sum()
        near += (cached.any(axis=0) & ~own).sum() if peers else 0
    model = peer_cache_model(sizes, items, replicas=replicas, peers=peers)
    assert local / (epochs * items) == pytest.approx(float(model.local), abs=0.003)
    assert near / (epochs * items) == pytest.approx(float(model.peer), abs=0.004)
    assert float(model.local + model.peer + model.remote) == pytest.approx(1)


def test_private_caches_are_worth_their_mean_and_shared_ones_their_sum():
    private = peer_cache_model([100, 100, 100, 100], 400, peers=False)
    assert (float(private.hit), float(private.local)) == (0.25, 0.25)
    shared = peer_cache_model([100, 100, 100, 100], 400)
    assert (float(shared.hit), float(shared.local)) == (1.0, 0.25)
    twice = peer_cache_model([100, 100, 100, 100], 400, replicas=2)
    assert (float(twice.hit), float(twice.local)) == (0.5, 0.25)


# Placement

HELD, FREE = [0, 50, 0, 50, 0], [4, 4, 4, 4, 4]


def test_a_second_job_goes_to_the_holders():
    """Nodes 1 and 3 hold the dataset."""
    placement = place_near_data(HELD, FREE, 8, 100)
    assert (placement.nodes, placement.gpus) == ((1, 3), (4, 4))
    assert (placement.local, placement.peer, placement.remote) == (50, 50, 0)
    assert placement.cost == 50  # peer reads weigh 1


def test_an_added_node_copies_its_share_if_the_job_runs_long_enough():
    placement = place_near_data(HELD, [0, 4, 0, 4, 4], 12, 100)
    assert (placement.nodes, placement.gpus) == ((1, 3, 4), (4, 4, 4))
    speeds = Bandwidths(local=float("inf"), peer=1000, remote=100)
    advice = copy_replicas(50, 4 / 12, [2, 3, 4], speeds)
    # The node reads a third of the items, so half of the data saves 50 / 3 GB per epoch.
    assert advice.copy.tolist() == [False, False, True]
    assert advice.saved == pytest.approx([33.333333, 50, 66.666667])
    assert advice.cost.tolist() == [50, 50, 50]


def every_placement(cached, free, gpus):
    """(local, nodes) for every node set that the job can run on, with its best split of GPUs."""
    usable = [node for node, space in enumerate(free) if space]
    for count in range(1, len(usable) + 1):
        for nodes in itertools.combinations(usable, count):
            if sum(free[node] for node in nodes) >= gpus >= count:
                rest, local = gpus - count, sum(cached[node] for node in nodes)
                for node in sorted(nodes, key=lambda node: -cached[node]):
                    more = min(free[node] - 1, rest)
                    local += more * cached[node]
                    rest -= more
                yield local / gpus, nodes


def plain_greedy(cached, free, gpus):
    """The usual rule: most cached, then most free, then lowest id, until there are enough GPUs."""
    chosen = []
    for node in sorted(range(len(free)), key=lambda n: (-cached[n], -free[n], n)):
        if gpus > 0 and free[node]:
            chosen.append(node)
            gpus -= free[node]
    return tuple(sorted(chosen))


def test_placement_is_the_lexicographic_optimum_and_the_plain_greedy_nearly():
    rng = np.random.default_rng(11)
    same = total = 0
    for _ in range(600):
        n = int(rng.integers(1, 8))
        cached = (rng.integers(0, int(rng.integers(1, 4)), n) * 10).tolist()
        free = rng.integers(0, int(rng.integers(2, 12)), n).tolist()
        gpus = int(rng.integers(1, 20))
        placement = place_near_data(cached, free, gpus, 60)
        options = list(every_placement(cached, free, gpus))
        assert (placement is None) == (not options)
        if placement is None:
            continue

        def rank(option, free=free, gpus=gpus):
            local, nodes = option
            return -local, len(nodes), sum(free[node] for node in nodes) - gpus, nodes

        best = min(options, key=rank)
        assert placement.nodes == best[1]
        assert placement.local == pytest.approx(best[0])
        assert sum(placement.gpus) == gpus
        assert placement.fragmentation == sum(free[node] for node in best[1]) - gpus
        greedy = plain_greedy(cached, free, gpus)
        reached = next(rank(option) for option in options if option[1] == greedy)
        assert reached[:2] == pytest.approx(rank(best)[:2])  # local bytes and nodes: always
        total += 1
        same += greedy == placement.nodes
    assert 0.6 < same / total < 1


def test_the_plain_greedy_wastes_a_large_hole_on_a_small_job():
    assert plain_greedy([10, 10, 10], [8, 3, 2], 2) == (0,)
    assert place_near_data([10, 10, 10], [8, 3, 2], 2, 30).nodes == (2,)
