"""Benchmarks to compare one's own change with what was before, on one's own machine.

    make bench-save                  # before: measure and keep the numbers
    make bench-compare               # after: measure again, beside the last kept numbers

Each measures a whole batch (a single call is shorter than the timer's own cost) and checks its
answer. The comparison with twins and peers is in bench_*.py.
"""

from functools import partial

import numpy as np
import pytest
from bench_cell_cluster import Filled
from bench_cells import FANOUTS, half_occupied

from hivecore.caching import UniformCache, simulate
from hivecore.cells import BuddyAllocator
from hivecore.sim import Workload, replay
from hivecore.storage import StorageJobs, allocate_storage
from hivecore.traces import generate


@pytest.fixture(scope="module")
def occupied():
    return half_occupied(512)


def fresh_copy(allocator):
    """The arguments of a round: every round starts from the same state."""
    return (allocator.copy(),), {}


def test_pairs_of_release_and_allocate(benchmark, occupied):
    allocator, (levels, cells) = occupied
    batch = list(zip(levels[:1000], cells[:1000], strict=True))

    def pairs(branch):
        return [(branch.release(*cell), branch.allocate(cell[0]))[1] for cell in batch]

    fresh = partial(fresh_copy, allocator)
    assert min(benchmark.pedantic(pairs, setup=fresh, rounds=50)) >= 0


def test_a_batch_of_allocations(benchmark, occupied):
    allocator, _ = occupied
    levels = np.random.default_rng(2).integers(1, 5, 5000)
    fresh = partial(fresh_copy, allocator)
    cells = benchmark.pedantic(lambda b: b.allocate_many(levels), setup=fresh, rounds=50)
    assert (cells >= 0).sum() > 1000


def test_restoring_a_saved_allocator(benchmark, occupied):
    saved = occupied[0].to_bytes()
    assert benchmark(BuddyAllocator.from_bytes, saved).fanouts == tuple(FANOUTS)


def test_replaying_a_trace(benchmark):
    nodes = {"a": 9, "b": 14}
    work = Workload.of(generate(nodes, jobs=2000, seed=0), nodes)
    outcome = benchmark(lambda: replay(work, []).runs["private"])
    assert np.isfinite(outcome.start).all()


def test_an_epoch_through_a_uniform_cache(benchmark):
    items = 200_000
    cache = UniformCache(items // 4)
    cache.add_dataset("images", items, 1, quota=items // 4)
    cache.attach("job", "images")
    order = np.random.default_rng(0).permutation(items)
    cache.access("images", order, "job")
    assert benchmark(cache.access, "images", order, "job") == items // 4


def test_a_trace_through_a_lru_cache(benchmark):
    trace = np.random.default_rng(0).integers(0, 100_000, 400_000)
    assert 90_000 < benchmark(simulate, "lru", trace, 25_000) < 110_000


@pytest.mark.parametrize("objective", ["greedy", "max_min"])
def test_shares_of_cache_and_remote_io(benchmark, objective):
    random = np.random.default_rng(0)
    jobs = StorageJobs(dataset=np.arange(10_000), rate_mbps=random.uniform(10, 100, 10_000))
    sizes = random.uniform(100, 1000, 10_000)
    shares = benchmark(allocate_storage, jobs, sizes, sizes.sum() / 2, 1e5, objective)
    assert shares.verify()


def test_groups_of_a_busy_cluster(benchmark):
    filled = Filled(64)
    names = [group.name for group in filled.small[:200]]

    def release_and_come_back(branch):
        for name in names:
            group = branch.group(name).group
            branch.release(name)
            decision = branch.schedule(group)
            if decision.outcome == "bind":
                branch.commit(decision)
        return branch

    fresh = partial(fresh_copy, filled.cluster)
    after = benchmark.pedantic(release_and_come_back, setup=fresh, rounds=20)
    assert len(after.groups()) > 0.9 * len(filled.cluster.groups())
