"""Worked numbers of SiloD's model (EuroSys'23), item by item, on the uniform cache."""

import numpy as np
import pytest

from hivecore.caching import UniformCache
from hivecore.reference.caching import UniformCache as Twin

GB = 10**9
SECONDS_PER_BYTE = 1 / (40 * 10**6)  # a job that remote IO of 40 MB/s holds up
both = pytest.mark.parametrize("kind", [UniformCache, Twin])


def training(kind, items, quota_gb, seed=0):
    """A job on a dataset of 100 GB; its epochs' orders come from the generator."""
    cache = kind(100 * GB, seed)
    cache.add_dataset("d", items, 100 * GB // items, quota=quota_gb * GB)
    cache.attach("job", "d")
    return cache, np.random.default_rng(seed)


def seconds(cache, reads):
    """How long the reads take: what misses comes at the speed of remote IO."""
    before = cache.statistics("d")["miss_bytes"]
    cache.access("d", reads, "job")
    return (cache.statistics("d")["miss_bytes"] - before) * SECONDS_PER_BYTE


@both
def test_a_cold_job_gains_from_its_cache_in_the_second_epoch(kind):
    """2500, 1250, 1250 s: the cache of 50 GB counts from the next epoch on."""
    cache, rng = training(kind, 1000, 50)
    epochs, effective = [], []
    for _ in range(3):
        effective.append(cache.effective("job"))
        epochs.append(seconds(cache, rng.permutation(1000)))
    assert epochs == [2500, 1250, 1250]
    assert effective == [0, 50 * GB, 50 * GB]


@both
def test_a_larger_quota_counts_from_the_next_epoch_on(kind):
    cache, rng = training(kind, 1000, 0)
    assert seconds(cache, rng.permutation(1000)) == 2500
    cache.set_quota("d", 50 * GB)
    assert cache.effective("job") == 0
    assert [seconds(cache, rng.permutation(1000)) for _ in range(2)] == [2500, 1250]


@both
@pytest.mark.parametrize("pin_until", [None, "first_epoch", "job_end"])
def test_a_warm_up_removes_the_cold_epoch(kind, pin_until):
    """1250 s overlap with queueing."""
    cache, rng = training(kind, 1000, 50)
    assert cache.warm("d", np.arange(1000), "job", pin_until).tolist() == list(range(500))
    assert cache.effective("job") == 50 * GB
    assert cache.hit_ratio("job") == 0.5
    assert [seconds(cache, rng.permutation(1000)) for _ in range(2)] == [1250, 1250]
    assert cache.statistics("d")["pinned"] == (50 * GB if pin_until == "job_end" else 0)


@pytest.mark.parametrize(("shrink", "expected"), [("random", 1625), ("read_first", 1375)])
def test_read_first_keeps_the_hits_of_the_running_epoch(shrink, expected):
    """50 GB are cached; half an epoch later the quota is 20 GB: 625 s, then 1000 or 750 s."""
    durations = []
    for seed in range(5):
        cache, rng = training(UniformCache, 20_000, 50, seed)
        seconds(cache, rng.permutation(20_000))
        order = rng.permutation(20_000)
        first = seconds(cache, order[:10_000])
        cache.set_quota("d", 20 * GB, shrink)
        assert cache.effective("job") == 20 * GB
        ratio = 0.4 if shrink == "read_first" else 0.2
        assert cache.hit_ratio("job") == pytest.approx(ratio, rel=0.05)
        durations.append(first + seconds(cache, order[10_000:]))
    assert np.mean(durations) == pytest.approx(expected, rel=0.005)


@both
def test_a_small_shrink_by_what_has_been_read_costs_the_epoch_nothing(kind):
    cache, rng = training(kind, 500, 50)
    seconds(cache, rng.permutation(500))
    order = rng.permutation(500)
    seconds(cache, order[:250])
    ratio = cache.hit_ratio("job")
    read = np.intersect1d(order[:250], cache.cached("d"))
    evicted = cache.set_quota("d", 30 * GB, "read_first")
    assert np.isin(evicted, read).all()
    assert cache.hit_ratio("job") == ratio


@both
@pytest.mark.parametrize(("c", "d"), [(2, 4), (3, 4), (4, 8), (250, 1000), (1, 7), (7, 7), (0, 5)])
@pytest.mark.parametrize("order", ["in order", "reversed", "shuffled"])
def test_the_hit_ratio_is_c_over_d_in_any_order(kind, c, d, order):
    """Exactly, where LRU and FIFO have 0 for an in-order scan."""
    cache = kind(1000)
    cache.add_dataset("d", d, 1, quota=c)
    cache.attach("job", "d")
    rng = np.random.default_rng(c)
    for epoch in range(5):
        reads = np.arange(d)
        if order == "reversed" and epoch % 2:
            reads = reads[::-1]
        elif order == "shuffled":
            reads = rng.permutation(d)
        hits = cache.access("d", reads, "job")
        assert hits == (c if epoch else 0)


def test_reads_with_replacement_hit_c_over_d():
    cache = UniformCache(10**6)
    cache.add_dataset("d", 10**5, 1, quota=25_000)
    rng = np.random.default_rng(0)
    cache.access("d", rng.integers(0, 10**5, 10**5))
    hits = cache.access("d", rng.integers(0, 10**5, 10**6))
    assert hits / 10**6 == pytest.approx(0.25, abs=0.002)


@both
def test_a_shared_dataset_is_charged_once_by_rate(kind):
    """Half-full 100 GB, rates 114 and 69 MB/s."""
    cache, rng = training(kind, 1000, 50)
    cache.attach("other", "d")
    seconds(cache, rng.permutation(1000))
    charges = cache.charges("d", {"job": 114, "other": 69})
    assert charges["job"] == pytest.approx(50 * GB * 114 / 183)
    assert sum(charges.values()) == pytest.approx(50 * GB)


@both
def test_a_second_job_profits_at_once_from_what_it_has_not_read(kind):
    """Its ratio follows what the first one admits, its effective cache does not."""
    cache, _ = training(kind, 1000, 50)
    cache.attach("other", "d")
    cache.access("d", np.arange(0, 100), "other")
    cache.access("d", np.arange(900, 1000), "job")
    assert cache.effective("other") == 0
    assert cache.hit_ratio("other") == 100 / 900
    assert cache.hit_ratio("job") == 100 / 900
