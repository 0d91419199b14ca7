"""Hit ratios and hit counts that are known: enumerations, closed forms, published simulators."""

from itertools import permutations

import cachetools
import numpy as np
import pytest

from hivecore.caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    expected_hit_ratio,
    simulate,
)


def shuffled_epochs(seed, items, epochs):
    shuffle = EpochShuffle(seed, items)
    return np.concatenate([shuffle.order(epoch) for epoch in range(epochs)])


def hits_per_epoch(policy, trace, capacity, items):
    out = np.empty(len(trace), dtype=bool)
    simulate(policy, trace, capacity, out=out)
    return out.reshape(-1, items).mean(axis=1)


# --- closed forms --------------------------------------------------------------------------------

SHARES = [0.1, 0.25, 0.5, 0.75, 0.9]
TABLE = {
    "uniform": [0.1, 0.25, 0.5, 0.75, 0.9],
    "min": [0.1, 0.25, 0.5, 0.75, 0.9],
    "random": [0.0105, 0.0704, 0.2831, 0.6027, 0.8331],
    "fifo": [0.0054, 0.0377, 0.1931, 0.5704, 0.8282],
    "lru": [0.0052, 0.0342, 0.1534, 0.4034, 0.6697],
    "clock": [0.0052, 0.0342, 0.1534, 0.4034, 0.6697],
}


@pytest.mark.parametrize("policy", TABLE)
def test_closed_forms_have_the_tabulated_values(policy):
    ratios = [expected_hit_ratio(policy, share, 1) for share in SHARES]
    assert ratios == pytest.approx(TABLE[policy], abs=0.00006)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("policy", TABLE)
def test_simulated_shuffles_meet_the_closed_form(policy, share):
    items = 100_000
    ratios = hits_per_epoch(policy, shuffled_epochs(4, items, 9), int(share * items), items)[1:]
    assert ratios.mean() == pytest.approx(expected_hit_ratio(policy, share, 1), abs=0.002)
    if policy in ("uniform", "min"):
        assert (ratios == share).all()


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(
    "policy", ["uniform", "min", "random", "fifo", "lru", "lfu", "clock", "sieve"]
)
def test_simulated_scans_meet_the_closed_form(policy, share):
    items = 100_000
    trace = np.tile(np.arange(items, dtype=np.uint32), 30)
    ratio = hits_per_epoch(policy, trace, int(share * items), items)[-1]
    expected = expected_hit_ratio(policy, share, 1, "scan")
    assert ratio == pytest.approx(expected, abs=0.002 if policy == "random" else 1e-12)


@pytest.mark.parametrize(
    "policy", ["uniform", "lru", "fifo", "random", "lfu", "clock", "sieve", "s3fifo"]
)
def test_drawing_with_replacement_gives_every_policy_its_share(policy):
    items = 100_000
    cache = PolicyCache(policy, items, 30_000, seed=1)
    rng = np.random.default_rng(2)
    cache.access(rng.integers(0, items, items))
    assert cache.used == 30_000
    ratio = cache.access(rng.integers(0, items, 1_000_000)) / 1_000_000
    assert ratio == pytest.approx(expected_hit_ratio(policy, 0.3, 1, "replacement"), abs=0.002)


@pytest.mark.parametrize(("d", "c", "ways"), [(4, 2, 5 / 24), (4, 3, 23 / 48), (8, 4, 307 / 1680)])
@pytest.mark.parametrize("policy", ["lru", "clock"])
def test_the_exact_form_is_the_mean_over_all_second_epochs(policy, d, c, ways):
    first = list(range(d))
    orders = np.array(list(permutations(first)))
    hits = sum(simulate(policy, [*first, *order], c) for order in orders)
    assert hits / orders.size == pytest.approx(ways, abs=1e-12)
    assert expected_hit_ratio(policy, c, d, exact=True) == pytest.approx(ways, abs=1e-12)


def test_lfu_and_sieve_rise_towards_the_share_and_s3_fifo_does_not():
    items = 20_000
    trace = shuffled_epochs(5, items, 40)
    for policy in ("lfu", "sieve"):
        ratios = hits_per_epoch(policy, trace, items // 4, items)
        assert ratios[[1, 2, 3]] == pytest.approx([0.034, 0.061, 0.081], abs=0.005)
        assert ratios[[19, 39]] == pytest.approx([0.19, 0.215], abs=0.01)
    ratios = hits_per_epoch("s3fifo", trace, items // 4, items)
    assert ratios[2:].mean() == pytest.approx(0.167, abs=0.002)


# --- several jobs --------------------------------------------------------------------------------


def merged(items, epochs, starts, offsets, seed=10):
    """The trace of jobs of rate 1 on one schedule, and whose each access is."""
    times, ids, jobs = [], [], []
    for job, (start, offset) in enumerate(zip(starts, offsets, strict=True)):
        order = shuffled_epochs(seed + job, items, epochs).astype(np.int64)
        times.append(start + np.arange(len(order)))
        ids.append(order + offset)
        jobs.append(np.full(len(order), job))
    by_time = np.argsort(np.concatenate(times), kind="stable")
    return np.concatenate(ids)[by_time], np.concatenate(jobs)[by_time]


def hit_ratios(items, epochs, starts, datasets, capacity, ends):
    """Of uniform, LRU and MIN between the ends of the trace; a clairvoyant cache hits as MIN does.

    :param datasets: of each job.
    :param ends: parts of the trace, at its begin and its end, that are left out.
    """
    trace, reader = merged(items, epochs, starts, [items * dataset for dataset in datasets])
    middle = slice(len(trace) // ends[0], -len(trace) // ends[1])
    hits = {}
    for policy in ("uniform", "lru", "min"):
        hits[policy] = np.empty(len(trace), dtype=bool)
        simulate(policy, trace, capacity, out=hits[policy])
    cache = ClairvoyantCache(capacity, [items] * (max(datasets) + 1))
    for job, (start, dataset) in enumerate(zip(starts, datasets, strict=True)):
        cache.attach(job, dataset, 10 + job, 1.0, start, epochs=epochs)
    assert [cache.access(job) for job in reader.tolist()] == hits["min"].tolist()
    cache.check()
    return [hit[middle].mean() for hit in hits.values()]


SHARED = {  # jobs: share of the dataset -> LRU, MIN
    1: {0.25: (0.0342, 0.25), 0.5: (0.1534, 0.5)},
    2: {0.25: (0.142, 0.4995), 0.5: (0.327, 0.731)},
    4: {0.25: (0.196, 0.566), 0.5: (0.413, 0.773)},
    8: {0.25: (0.223, 0.593), 0.5: (0.457, 0.792)},
}


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("jobs", SHARED)
def test_clairvoyance_beats_uniform_for_jobs_that_share_a_dataset(jobs, share):
    items = 20_000
    starts = [job / jobs for job in range(jobs)]
    ends = 4, 8  # neither cold, nor with the end in sight
    uniform, lru, best = hit_ratios(items, 8, starts, [0] * jobs, int(share * items), ends)
    assert uniform == pytest.approx(share, abs=0.002)
    assert [lru, best] == pytest.approx([*SHARED[jobs][share]], abs=0.004)


STAGGERED = {0.125: (0.008, 0.249), 0.25: (0.033, 0.375)}  # share of both datasets: LRU, MIN


@pytest.mark.parametrize("share", STAGGERED)
def test_clairvoyance_beats_uniform_for_two_datasets_half_an_epoch_apart(share):
    items = 10_000
    starts = [0.0, items / 2 + 0.5]
    ratios = hit_ratios(items, 8, starts, [0, 1], int(share * 2 * items), (4, 4))
    assert ratios == pytest.approx([share, *STAGGERED[share]], abs=0.002)


@pytest.mark.parametrize("jobs", [2, 4, 8])
def test_jobs_with_one_shuffle_fetch_what_the_cache_lacks_once_for_all(jobs):
    """Coordinated sampling: 1 - (1 - k) / J, less the few items that wait for the last reader."""
    items, epochs, share = 10_000, 5, 0.25
    cache = ClairvoyantCache(int(share * items), [items])
    for job in range(jobs):
        cache.attach(job, 0, 1, 1.0, start=job)  # one item apart
    turns = [job for _ in range(items) for job in range(jobs)]
    for _ in range(epochs):
        hits = sum(cache.access(job) for job in turns)
    assert hits / len(turns) == pytest.approx(1 - (1 - share) / jobs, abs=0.002)


def test_jobs_that_do_not_keep_to_their_rates_still_come_close_to_min():
    """Batches of random lengths: each job is up to some hundred items early or late."""
    items, epochs, jobs = 10_000, 6, 4
    rng = np.random.default_rng(3)
    cache = ClairvoyantCache(items // 4, [items])
    for job in range(jobs):
        cache.attach(job, 0, 10 + job, 1.0, epochs=epochs)
    orders = [shuffled_epochs(10 + job, items, epochs) for job in range(jobs)]
    uses, trace, hits = [0] * jobs, [], 0
    while min(uses) < items * epochs:
        job = int(np.argmin(np.array(uses) + rng.integers(0, 300, jobs)))
        count = min(int(rng.integers(1, 200)), items * epochs - uses[job])
        if count:
            hits += cache.access(job, count)
            trace.append(orders[job][uses[job] : uses[job] + count])
            uses[job] += count
        elif uses[job] == items * epochs:
            uses[job] = 10**9
    assert hits > 0.95 * simulate("min", np.concatenate(trace), items // 4)


# --- other simulators ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    """Four epochs of shuffles of 10,000 items; 40,000 accesses of skewed popularity; sizes."""
    items = 10_000
    skewed = EpochShuffle(2, 4 * items).order(0).astype(np.int64) ** 4 // 4_000**4
    sizes = 1 + (EpochShuffle(1, items).order(9).astype(np.int64) * 7919) % 100
    return {"shuffled": shuffled_epochs(1, items, 4), "skewed": skewed, "sizes": sizes}


# Hits by libCacheSim 0.3.5 (process_trace of an oracleGeneral file with these very requests).
LIBCACHESIM = {
    ("shuffled", 2_500): [958, 1063, 1669, 958, 1669, 5145],
    ("skewed", 500): [12998, 11836, 16300, 13463, 16300, 16769],
}
LIBCACHESIM_SIZED = {
    ("shuffled", 125_000): [920, 1016, 1622, 920, 1622, 5112],
    ("skewed", 25_000): [12994, 11817, 16280, 13439, 16280, 16765],
}
SAME = ["lru", "fifo", "lfu", "clock", "sieve", "s3fifo"]


@pytest.mark.parametrize("case", LIBCACHESIM)
def test_hit_counts_are_those_of_libcachesim(recorded, case):
    trace, capacity = case
    assert [simulate(policy, recorded[trace], capacity) for policy in SAME] == LIBCACHESIM[case]


@pytest.mark.parametrize("case", LIBCACHESIM_SIZED)
def test_hit_counts_with_sizes_are_those_of_libcachesim(recorded, case):
    trace, capacity = case
    hits = [simulate(policy, recorded[trace], capacity, recorded["sizes"]) for policy in SAME]
    assert hits == LIBCACHESIM_SIZED[case]


def test_min_with_bypass_stands_between_two_capacities_of_libcachesims_belady(recorded):
    """That one admits every missed item: one slot of it may be lost to an item of no use."""
    assert simulate("min", recorded["shuffled"], 2_500) == 7500  # as there
    assert (
        simulate("min", recorded["skewed"], 499)
        <= 21486
        <= simulate("min", recorded["skewed"], 500)
    )


@pytest.mark.parametrize(
    ("policy", "peer"),
    [("lru", cachetools.LRUCache), ("fifo", cachetools.FIFOCache), ("lfu", cachetools.LFUCache)],
)
@pytest.mark.parametrize(("trace", "capacity"), [("shuffled", 2_500), ("skewed", 500)])
def test_hits_are_those_of_cachetools(recorded, policy, peer, trace, capacity):
    cache = peer(capacity)
    expected = []
    for item in recorded[trace][:20_000].tolist():
        expected.append(item in cache)
        if expected[-1]:
            cache[item]
        else:
            cache[item] = True
    out = np.empty(20_000, dtype=bool)
    simulate(policy, recorded[trace][:20_000], capacity, out=out)
    assert out.tolist() == expected
