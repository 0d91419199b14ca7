"""How fast jobs run that wait for data: by hand, by items in a cache, and by the fluid clock."""

from collections import OrderedDict
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore._sim import FluidClock
from hivecore.caching import expected_hit_ratio
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    Job,
    Preempt,
    Scheduler,
    SetCache,
    SetRemoteIO,
    Sharing,
    Start,
    StoragePool,
)
from hivecore.sim import simulate
from hivecore.sim.worlds import AllottedStorage, InterleavedGpus, UnmanagedStorage
from hivecore.sim.worlds._lru import lru_misses


def readers(*rates, dataset=None):
    return [
        Job(f"j{i}", "a", 1, data=Data(dataset or f"d{i}", rate)) for i, rate in enumerate(rates)
    ]


def one_node(**settings):
    quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    return Scheduler(quotas=quotas, immediate=True, **settings)


def starts(jobs):
    return [Start(job.name, ()) for job in jobs]


def sizes(count, gb):
    return {f"d{i}": gb for i in range(count)}


# --- nobody schedules storage


def test_remote_io_is_shared_so_that_who_wants_little_has_all_of_it():
    jobs = [*readers(30.0, 100.0, 100.0), Job("reads nothing", "a", 1)]
    world = UnmanagedStorage(jobs, sizes(3, 500.0), 0.0, 130.0, InterleavedGpus(jobs))
    world.obey(starts(jobs), 0.0)
    assert world.speeds(0.0) == pytest.approx({"reads nothing": 1.0, "j1": 0.5, "j2": 0.5})
    world.end("j0", 10.0)
    assert world.speeds(10.0) == pytest.approx({"j1": 0.65, "j2": 0.65})
    world.obey([Preempt("j2", "j1", "priority")], 20.0)
    assert world.speeds(20.0) == {"j1": 1.0}
    assert world.next_change() == inf


def test_who_runs_in_a_cache_that_holds_all_never_waits():
    jobs = readers(100.0, 100.0)
    world = UnmanagedStorage(jobs, sizes(2, 50.0), 100.0, 1.0, InterleavedGpus(jobs))
    world.obey(starts(jobs), 0.0)
    assert world.speeds(0.0) == {}


def test_who_shares_gpus_wants_less_remote_io():
    jobs = [
        Job(name, "a", 8, stages=stages, data=Data("images", 80.0))
        for name, stages in (("one", [2, 2]), ("two", [3, 1]))
    ]
    world = UnmanagedStorage(jobs, {"images": 500.0}, 0.0, 100.0, InterleavedGpus(jobs))
    world.obey([Start("one", ())], 0.0)
    assert world.speeds(0.0) == {}
    world.obey([Start("two", (), ("one",))], 1.0)
    # Rounds of 5 seconds instead of 4: both at 64 MB/s by their GPUs, and at 50 by the network.
    assert world.speeds(1.0) == {"one": 0.625, "two": 0.625}
    world.end("one", 2.0)
    assert world.speeds(2.0) == {"two": 1.0}


def hits_of_items(rates, dataset, counts, capacity, epochs=12):
    """The share of hits of each job if real items go through a real LRU cache."""
    rng = np.random.default_rng(0)
    cache = OrderedDict()
    orders = [[] for _ in rates]
    asked, hits = [0] * len(rates), [0] * len(rates)
    clock = [0.0] * len(rates)
    until = epochs * max(counts[code] / rate for code, rate in zip(dataset, rates, strict=True))
    while min(clock) < until:
        job = clock.index(min(clock))
        clock[job] += 1.0 / rates[job]
        if not orders[job]:
            orders[job] = rng.permutation(counts[dataset[job]]).tolist()
        item = dataset[job], orders[job].pop()
        found = item in cache
        cache[item] = None
        cache.move_to_end(item)
        if len(cache) > capacity:
            cache.popitem(last=False)
        if clock[job] > until / 3:
            asked[job] += 1
            hits[job] += found
    return [hit / count for hit, count in zip(hits, asked, strict=True)]


@pytest.mark.parametrize(
    ("rates", "dataset", "counts", "capacity"),
    [
        ([1.0], [0], [600], 300),
        ([1.0, 1.0], [0, 0], [600], 150),
        ([1.0, 3.0], [0, 0], [600], 300),
        ([1.0, 1.0], [0, 1], [400, 200], 300),
        ([1.0, 2.0, 0.5, 0.5], [0, 1, 1, 2], [400, 300, 200], 500),
        ([4.0, 1.0], [0, 1], [100, 800], 400),
    ],
)
def test_lru_serves_what_it_serves_of_items(rates, dataset, counts, capacity):
    misses = lru_misses(
        np.array(rates), np.array(dataset), np.array(counts, dtype=float), float(capacity)
    )
    assert 1.0 - misses == pytest.approx(hits_of_items(rates, dataset, counts, capacity), abs=0.035)


@pytest.mark.parametrize("kappa", [0.05, 0.25, 0.5, 0.75, 0.95])
def test_lru_of_one_job_is_near_the_closed_form(kappa):
    hit = 1.0 - lru_misses(np.ones(1), np.zeros(1, dtype=int), np.ones(1), kappa)[0]
    # That tau is constant is only true of many jobs.
    assert hit == pytest.approx(expected_hit_ratio("lru", kappa, 1.0), abs=0.045)


def test_rates_behind_an_lru_cache_are_those_of_the_fluid_clock():
    rates = [100.0, 60.0, 120.0, 30.0, 80.0, 40.0, 110.0, 50.0, 20.0, 90.0]
    gb = [300.0, 200.0, 500.0, 100.0, 400.0, 350.0, 250.0, 150.0, 50.0, 450.0]
    jobs = readers(*rates)
    datasets = {f"d{i}": size for i, size in enumerate(gb)}
    world = UnmanagedStorage(jobs, datasets, 1000.0, 500.0, InterleavedGpus(jobs))
    world.obey(starts(jobs), 0.0)
    told = {job.name: 1.0 for job in jobs} | world.speeds(0.0)
    begin, end = 20_000.0, 200_000.0
    clock = FluidClock(
        [1000 * size for size in gb],
        range(10),
        [1e12] * 10,
        capacity=1000e3,
        bandwidth=500.0,
        io_mode="maxmin_io",
        policy="lru",
    )
    clock.allocate(range(10), rates)
    clock.advance(begin)
    before = clock.left
    clock.advance(end)
    speeds = (before - clock.left) / (end - begin) / rates
    assert sorted(told.values())[0] < 0.6
    assert list(told.values()) == pytest.approx(speeds.tolist(), rel=0.05)


# --- the scheduler allots it


class Told:
    """A world in which a scheduler has said more when the first job started."""

    def __init__(self, world, said):
        self.world, self.said = world, list(said)
        self.end, self.speeds, self.next_change = world.end, world.speeds, world.next_change

    def obey(self, actions, now):
        said, self.said = (self.said, []) if actions else ([], self.said)
        self.world.obey([*actions, *said], now)


def test_a_cache_counts_from_the_epoch_after_it_was_filled():
    jobs = readers(100.0)
    world = AllottedStorage(jobs, {"d0": 100.0}, 40.0, InterleavedGpus(jobs))
    world.obey([*starts(jobs), SetCache("d0", 50 * 10**9), SetRemoteIO("j0", 40.0)], 0.0)
    assert world.speeds(0.0) == {"j0": 0.4}
    assert world.next_change() == 2500.0
    assert world.speeds(1000.0) == {}
    assert world.speeds(2500.0) == {"j0": 0.8}
    assert world.next_change() == inf
    # Half of the room is taken away, and half of what it held; an epoch later nothing is new.
    world.obey([SetCache("d0", 25 * 10**9)], 3000.0)
    assert world.speeds(3000.0) == {"j0": 40.0 / 0.75 / 100.0}
    world.obey([SetCache("d0", 0)], 3001.0)
    assert world.speeds(3001.0) == {"j0": 0.4}


def test_a_job_that_comes_later_finds_what_another_one_has_read():
    jobs = readers(100.0, 100.0, dataset="x")
    world = AllottedStorage(jobs, {"x": 100.0}, 100.0, InterleavedGpus(jobs))
    world.obey([Start("j0", ()), SetCache("x", 100 * 10**9)], 0.0)
    assert world.speeds(0.0) == {}
    world.obey([Start("j1", ())], 600.0)
    # It misses 40 MB/s; the other one, in its first epoch, 100: together more than there is.
    assert world.speeds(600.0) == {"j0": 0.6}
    # j1 reads at full speed and ends its epoch at 1600; j0 has 40 GB left at 60 MB/s.
    assert world.next_change() == pytest.approx(600 + 40e3 / 60)
    now = world.next_change()
    assert world.speeds(now) == {"j0": 1.0}


def test_remote_io_is_a_limit_but_for_what_fills_a_cache():
    jobs = readers(100.0, 100.0)
    world = AllottedStorage(jobs, sizes(2, 100.0), 500.0, InterleavedGpus(jobs))
    said = [SetRemoteIO("j0", 10.0), SetRemoteIO("j1", 0.0), SetCache("d1", 100 * 10**9)]
    world.obey([*starts(jobs), *said, SetRemoteIO("gone", 7.0)], 0.0)
    assert world.speeds(0.0) == {"j0": 0.1}
    assert world.speeds(1000.0) == {}
    world.obey([SetRemoteIO("j0", 1000.0)], 1200.0)
    assert world.speeds(1200.0) == {"j0": 1.0}


def test_who_is_preempted_begins_its_epoch_anew():
    jobs = readers(100.0)
    world = AllottedStorage(jobs, {"d0": 100.0}, 50.0, InterleavedGpus(jobs))
    world.obey([*starts(jobs), SetCache("d0", 50 * 10**9), SetRemoteIO("j0", 50.0)], 0.0)
    assert world.speeds(0.0) == {"j0": 0.5}
    world.obey([Preempt("j0", "x", "priority")], 1000.0)  # 50 GB are read and kept
    assert world.speeds(1000.0) == {}
    world.obey(starts(jobs), 3000.0)
    assert world.speeds(3000.0) == {}  # at full speed: half of it comes from the cache


def test_a_dataset_that_nobody_told_of_is_refused():
    jobs = readers(1.0)
    for make in (
        lambda: UnmanagedStorage(jobs, {"x": 1.0}, 1.0, 1.0, InterleavedGpus(jobs)),
        lambda: AllottedStorage(jobs, {"x": 1.0}, 1.0, InterleavedGpus(jobs)),
    ):
        with pytest.raises(ValueError, match="datasets_gb: there is no 'd0'"):
            make()


READER = st.tuples(
    st.floats(1.0, 50.0), st.floats(0.5, 20.0), st.floats(0.0, 1.0), st.floats(0.2, 6.0)
)


@given(st.lists(READER, min_size=1, max_size=5), st.floats(1.0, 120.0))
@examples(150)
def test_jobs_on_datasets_of_their_own_end_as_in_the_fluid_clock(given_jobs, bandwidth):
    """Rate, GB, the part that may be cached, epochs: with remote IO as for caches that are full."""
    rates, gb, parts, epochs = (list(column) for column in zip(*given_jobs, strict=True))
    totals = [1000 * size * count for size, count in zip(gb, epochs, strict=True)]
    jobs = readers(*rates)
    room = [round(1e9 * size * part) for size, part in zip(gb, parts, strict=True)]
    said = [SetCache(f"d{i}", size) for i, size in enumerate(room)]
    said += [
        SetRemoteIO(job.name, max(rate * (1.0 - kept / (1e9 * size)), 0.0))
        for job, rate, size, kept in zip(jobs, rates, gb, room, strict=True)
    ]
    datasets = {f"d{i}": size for i, size in enumerate(gb)}
    world = Told(AllottedStorage(jobs, datasets, bandwidth, InterleavedGpus(jobs)), said)
    duration = [total / rate for total, rate in zip(totals, rates, strict=True)]
    found = simulate(one_node(), jobs, [0.0] * len(jobs), duration, world)

    clock = FluidClock(
        [1000 * size for size in gb],
        list(range(len(jobs))),
        totals,
        capacity=1e9,
        bandwidth=bandwidth,
        io_mode="maxmin_io",
    )
    running, ends = list(range(len(jobs))), [0.0] * len(jobs)
    while running:
        clock.allocate(running, [rates[job] for job in running], [size / 1e6 for size in room])
        for job in clock.advance().tolist():
            running.remove(job)
            ends[job] = clock.now
    assert found.end.tolist() == pytest.approx(ends, rel=1e-6)


def by_small_steps(rates, gb, room, remote_io, bandwidth, begins, until, step=0.05):
    """MB that jobs on one dataset have read by then; in each step as the docstring tells it."""
    size = gb * 1000.0
    count = len(rates)
    absent = size
    read, cached, done = [0.0] * count, [None] * count, [0.0] * count
    for tick in range(round(until / step)):
        now = tick * step
        runs = [job for job in range(count) if begins[job] <= now + 1e-9]
        for job in runs:
            if cached[job] is None:
                cached[job] = size - absent
        wanted = {
            job: min(
                rates[job] * (1 - cached[job] / size),
                remote_io + rates[job] * max(room - cached[job], 0.0) / size,
            )
            for job in runs
        }
        level = bandwidth
        left, waiting = bandwidth, sorted(wanted, key=wanted.get)
        got = {}
        while waiting:
            level = left / len(waiting)
            job = waiting.pop(0)
            got[job] = min(wanted[job], level)
            left -= got[job]
        for job in runs:
            miss = 1 - cached[job] / size
            rate = rates[job] if miss < 1e-12 else min(rates[job], got[job] / miss)
            new = rate * step
            absent = max(absent * max(1 - new / (size - read[job]), 0.0), size - room)
            read[job] += new
            done[job] += new
            if read[job] >= size - 1e-6:
                read[job] -= min(read[job], size)
                cached[job] = size - absent
    return done


@given(
    st.lists(st.tuples(st.floats(5.0, 40.0), st.integers(0, 60)), min_size=1, max_size=4),
    st.floats(0.3, 1.0),
    st.floats(0.1, 1.0),
    st.floats(2.0, 30.0),
    st.floats(20.0, 80.0),
)
@examples(40)
def test_jobs_on_one_dataset_read_as_in_small_steps(given_jobs, gb, part, remote_io, bandwidth):
    rates, begins = (list(column) for column in zip(*given_jobs, strict=True))
    order = np.argsort(begins, kind="stable")
    rates, begins = [rates[at] for at in order], [float(begins[at]) for at in order]
    room = round(1e9 * gb * part)
    jobs = readers(*rates, dataset="x")
    world = AllottedStorage(jobs, {"x": gb}, bandwidth, InterleavedGpus(jobs))
    said = [SetCache("x", room), *(SetRemoteIO(job.name, remote_io) for job in jobs)]
    until, now = 150.0, 0.0
    speed, done = {}, dict.fromkeys((job.name for job in jobs), 0.0)
    comes = sorted(set(begins))
    while now < until:
        here = [job for job, begin in zip(jobs, begins, strict=True) if begin == now]
        if here:
            world.obey([*starts(here), *said], now)
            speed |= {job.name: 1.0 for job in here}
        speed |= world.speeds(now)
        after = min(until, world.next_change(), *(time for time in comes if time > now), until)
        assert after > now
        for name, share in speed.items():
            done[name] += (after - now) * share
        now = after
    expected = by_small_steps(rates, gb, room / 1e6, remote_io, bandwidth, begins, until)
    found = [seconds * rate for seconds, rate in zip(done.values(), rates, strict=True)]
    assert found == pytest.approx(expected, rel=0.03, abs=0.01 * gb * 1000)


class Audited:
    """A world of storage in which nobody has more than there is."""

    def __init__(self, world, pool):
        self.world, self.pool = world, pool
        self.obey, self.end, self.next_change = world.obey, world.end, world.next_change

    def speeds(self, now):
        found = self.world.speeds(now)
        world, pool, rows = self.world, self.pool, self.world.running
        # Actions tell whole bytes: what is less counts as cached.
        missed = 1.0 - world._cached[rows] / world.size[rows]
        assert (missed >= -1e-9).all()
        assert world._rate[rows] @ missed <= pool.bandwidth_mbps * (1 + 1e-6)
        assert world._held.sum() <= pool.cache_gb * 1000 * (1 + 1e-6)
        assert (world._held <= world.sizes * (1 + 1e-6)).all()
        assert (world._rate[rows] <= world.rate[rows] * world.pace[rows] * (1 + 1e-6)).all()
        return found


@given(st.integers(0, 2**32 - 1))
@examples(30)
def test_all_jobs_end_where_a_scheduler_allots_storage_and_lets_jobs_share(seed):
    rng = np.random.default_rng(seed)
    datasets = {f"d{i}": float(rng.uniform(1, 40)) for i in range(4)}
    jobs = [
        Job(
            f"j{i}",
            "a",
            int(rng.choice([1, 2, 4, 8])),
            stages=rng.uniform(0.1, 1.0, 3).tolist(),
            data=Data(f"d{rng.integers(4)}", float(rng.uniform(5, 100))) if i % 4 else None,
        )
        for i in range(25)
    ]
    bandwidth = float(rng.uniform(20, 200))
    pool = StoragePool(datasets, float(rng.uniform(1, 60)), bandwidth, "max_min", threshold=0.0)
    world = AllottedStorage(jobs, datasets, bandwidth, InterleavedGpus(jobs))
    submit = np.cumsum(rng.exponential(60.0, len(jobs)))
    duration = rng.uniform(10, 2000, len(jobs))
    found = simulate(
        one_node(sharing=Sharing(3), storage=pool),
        jobs,
        submit.tolist(),
        duration.tolist(),
        Audited(world, pool),
    )
    assert (found.end - found.start >= duration - 1e-6).all()
