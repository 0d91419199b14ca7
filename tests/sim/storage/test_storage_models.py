"""Jobs that share storage: promises that hold for every workload, and three independent models.

The fluid model against plain small steps (`by_steps`), against real items in real caches,
and its two rules of arithmetic against the public functions of `hivecore.storage`.
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples, seeds
from sim.storage.by_steps import Job, by_steps
from sim.storage.items import IO_MODES, grant, schedule_items
from sim.storage.jobs_on_storage import workload

from hivecore import scheduler as composed
from hivecore.sim.storage import (
    GPU_POLICIES,
    STORAGE_SYSTEMS,
    Rules,
    StorageCluster,
    schedule_storage,
)
from hivecore.sim.storage.caches import Allotted
from hivecore.sim.storage.orders import Fifo
from hivecore.sim.storage.situation import Grants, Situation, reached
from hivecore.storage import StorageJobs, allocate_storage, ration_remote_io, reclaim_order

SIZES = {"u": 40.0, "v": 100.0, "w": 70.0, "x": 250.0}


@st.composite
def workloads(draw):
    jobs = draw(
        st.lists(
            st.tuples(
                st.sampled_from(sorted(SIZES)),
                st.sampled_from([0.3, 1.0, 2.0, 2.5, 4.0]),
                st.sampled_from([10.0, 25.0, 60.0, 114.0]),
                st.sampled_from([1, 1, 2, 4]),
                st.sampled_from([0.0, 0.0, 500.0, 1300.0, 4000.0]),
            ),
            min_size=1,
            max_size=8,
        )
    )
    jobs.sort(key=lambda job: job[-1])
    return workload(*((name, SIZES[name], n * SIZES[name], *rest) for name, n, *rest in jobs))


clusters = st.builds(
    StorageCluster,
    gpus=st.sampled_from([4, 6, 8]),
    cache_gb=st.sampled_from([0.0, 20.0, 90.0, 200.0, 1000.0]),
    bandwidth_mbps=st.sampled_from([15.0, 60.0, 400.0]),
)
options = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(GPU_POLICIES),
        "storage": st.sampled_from(STORAGE_SYSTEMS),
        "warm_up": st.booleans(),
        "lazy": st.booleans(),
        "shrink": st.sampled_from(["random", "read_first"]),
    }
)


#: A lazy cache gives up room for one that is set to its quota.
LAZY = [
    ("u", 12.0, 25.0, 0.0),
    ("v", 30.0, 10.0, 0.0),
    ("v", 30.0, 114.0, 0.0),
    ("w", 21.0, 60.0, 0.0),
    *[("u", 12.0, 10.0, 500.0)] * 3,
]


@example(
    workload(*((name, SIZES[name], gb, rate, 1, at) for name, gb, rate, at in LAZY)),
    StorageCluster(4, 90.0, 400.0),
    {"policy": "fifo", "storage": "silod", "warm_up": True, "lazy": True},
)
@given(workloads(), clusters, options)
@examples(60)
def test_nothing_is_read_twice_or_beyond_what_there_is(work, cluster, wanted):
    outcome = schedule_storage(work, cluster, record=True, **wanted)
    history = outcome.history
    assert outcome.read_mb == pytest.approx(work.total_mb.sum())
    assert (outcome.start >= work.submit).all()
    # No job is faster than without waiting.
    assert (outcome.end - outcome.start >= (1 - 1e-6) * work.total_mb / work.rate_mbps).all()
    assert outcome.busy == pytest.approx(float(work.gpus @ (work.total_mb / work.rate_mbps)))
    assert history.time[-1] == outcome.end.max()
    spans = np.diff(history.time)
    assert float(spans @ history.rate_mbps[:-1]) == pytest.approx(outcome.read_mb, rel=1e-5)
    assert (history.remote_mbps <= cluster.bandwidth_mbps * (1 + 1e-6)).all()
    assert (history.cached_gb.sum(axis=1) <= cluster.cache_gb * (1 + 1e-9)).all()
    if wanted["storage"] != "coordl":
        assert (history.cached_gb <= work.size_mb / 1e3 * (1 + 1e-6)).all()
    assert (history.busy <= cluster.gpus * (1 + 1e-6)).all()
    assert outcome.remote_mb >= -1e-6
    if not wanted["warm_up"]:
        assert outcome.remote_mb <= outcome.read_mb * (1 + 1e-6)


def test_of_datasets_that_are_worth_the_same_that_of_the_first_job_is_cached():
    """It is cached at 2,500 s and read at 50 MB/s then. At 6,500 s the second job, at 40 MB/s until
    then, has 140 GB left: 40 GB that fill the cache, and 100 GB of which 60 are not cached.
    """
    for names in ("ab", "ba"):
        work = workload(*((name, 100.0, 300.0, 50.0, 1, 0.0) for name in names))
        end = schedule_storage(work, StorageCluster(2, 100.0, 40.0)).end
        assert end.tolist() == pytest.approx([6500.0, 9500.0])


@pytest.mark.parametrize("storage", STORAGE_SYSTEMS)
@given(st.integers(0, 2**32 - 1))
@examples(40)
def test_other_names_of_datasets_change_no_completion_time(storage, seed):
    draw = random.Random(seed)
    jobs = [
        (draw.randrange(6), draw.choice([50.0, 100.0, 300.0]), draw.choice([1, 1, 2]))
        for _ in range(draw.randint(4, 10))
    ]
    submit = sorted(draw.choice([0.0, 0.0, 500.0, 1300.0]) for _ in jobs)
    shared = draw.choice([4, 6]), draw.choice([90.0, 200.0]), draw.choice([15.0, 60.0, 400.0])
    policy = draw.choice(GPU_POLICIES)
    wanted = {"warm_up": draw.random() < 0.5, "lazy": draw.random() < 0.5}
    outcomes = []
    for names in ("abcdef", draw.sample("abcdef", 6)):
        rows = zip(jobs, submit, strict=True)
        work = workload(*((names[i], 100.0, gb, 50.0, gpus, at) for (i, gb, gpus), at in rows))
        outcomes.append(schedule_storage(work, StorageCluster(*shared), policy, storage, **wanted))
    assert outcomes[0].end.tolist() == outcomes[1].end.tolist()
    assert outcomes[0].remote_mb == outcomes[1].remote_mb


@given(workloads(), clusters, options)
@examples(25)
def test_equal_inputs_give_equal_outcomes(work, cluster, wanted):
    first, second = (schedule_storage(work, cluster, **wanted) for _ in range(2))
    assert first.end.tolist() == second.end.tolist()
    assert first.remote_mb == second.remote_mb


@given(
    st.sampled_from(STORAGE_SYSTEMS),
    st.floats(1.0, 200.0),
    st.floats(1.0, 200.0),
    st.floats(0.0, 120.0),
    st.floats(0.0, 120.0),
)
def test_more_storage_never_makes_a_single_job_slower(storage, slow, fast, small, large):
    work = workload(("x", 100.0, 350.0, 114.0, 1, 0.0))
    (slow, fast), (small, large) = sorted([slow, fast]), sorted([small, large])
    base = schedule_storage(work, StorageCluster(1, small, slow), "fifo", storage).end[0]
    wider = schedule_storage(work, StorageCluster(1, small, fast), "fifo", storage).end[0]
    larger = schedule_storage(work, StorageCluster(1, large, slow), "fifo", storage).end[0]
    assert wider <= base * (1 + 1e-6)
    # The steps in which the LRU's hit ratio moves depend on the cache.
    assert larger <= base * (1 + (1e-2 if storage == "alluxio" else 1e-6))


@given(
    st.lists(
        st.tuples(st.floats(0.1, 500.0), st.sampled_from([0.0, 0.1, 0.5, 0.5, 1.0])),
        min_size=1,
        max_size=8,
    ),
    st.floats(0.1, 900.0),
    st.sampled_from(IO_MODES),
)
def test_remote_io_is_shared_out_as_the_library_does_it(jobs, bandwidth, mode):
    full, miss = map(np.array, zip(*jobs, strict=True))
    size = 100.0
    allocation = ration_remote_io(
        StorageJobs(dataset=np.arange(len(full)), rate_mbps=full, effective_gb=size * (1.0 - miss)),
        np.full(len(full), size),
        np.full(len(full), size),
        bandwidth,
        mode,
        capacity_gb=200.0,
    )
    reference = allocation.reference_mbps if mode == "maxmin_rate" else None
    shares = grant(full, miss, bandwidth, mode, reference)
    assert shares == pytest.approx(allocation.remote_io_mbps, rel=1e-6, abs=1e-6)
    assert reached(full, miss, shares) == pytest.approx(allocation.rates_mbps, rel=1e-6, abs=1e-6)


def seen(now, work, cluster, present, running, quota, **contents):
    """How things are before any job has read anything."""
    nothing = {"cached": np.zeros(len(work.size_mb)), "last_use": np.zeros(len(work.size_mb))}
    none = np.zeros(len(work))
    caches = SimpleNamespace(**{"left": work.total_mb, **nothing, **contents})
    return Situation(now, work, cluster, present, running, none, none, quota, quota, caches)


@given(workloads(), clusters)
def test_equal_shares_are_those_that_the_library_compares_with(work, cluster):
    everyone = np.arange(len(work))
    situation = seen(0.0, work, cluster, everyone, everyone, np.zeros(len(work.size_mb)))
    allocation = allocate_storage(
        situation.jobs(everyone, work.rate_mbps),
        work.size_mb[situation.live] / 1e3,
        cluster.cache_gb,
        cluster.bandwidth_mbps,
        "max_min",
        gpu_capacity=cluster.gpus,
    )
    assert situation.equal_rates() == pytest.approx(allocation.reference_mbps)


def allotted(work, cluster, present, running, held):
    """MB of each dataset that a scheduler lets be cached while these run and those wait."""
    scheduler = composed.Scheduler(storage=Allotted().pool(work, cluster))
    for job in present.tolist():
        data = composed.Data(work.names[work.dataset[job]], float(work.rate_mbps[job]))
        scheduler.submit(composed.Job(str(job), "all", 1, data=data), now=0.0)
    scheduler.observe(0.0, cached_gb=dict(zip(work.names, (held / 1e3).tolist(), strict=True)))
    scheduler.reorder([str(job) for job in running.tolist()], now=0.0)
    actions = scheduler.decide(0.0)
    messages = {
        action.dataset: action.size for action in actions if isinstance(action, composed.SetCache)
    }
    scheduler.check()
    return np.array([messages.get(name, 0) / 1e6 for name in work.names])


@given(
    workloads(),
    clusters,
    st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=4, max_size=4),
    st.lists(st.sampled_from([0.0, 5.0, 9.0]), min_size=4, max_size=4),
    st.integers(1, 8),
)
def test_the_scheduler_allots_cache_as_the_library_does(work, cluster, shares, last_use, running):
    present = np.arange(len(work))[len(work) // 3 :]
    held = np.array(shares[: len(work.size_mb)]) * work.size_mb
    held *= min(1.0, cluster.cache_mb / max(held.sum(), 1e-9))
    used = np.array(last_use[: len(work.size_mb)])
    jobs = present[:running]
    quota = allotted(work, cluster, present, jobs, held)
    situation = seen(9.0, work, cluster, present, jobs, quota, cached=held, last_use=used)
    grants = Grants(jobs, np.ones(len(jobs)), None, np.inf)
    same, reclaim = Allotted().quotas(situation, grants)
    assert same.tolist() == quota.tolist()
    columns = StorageJobs(
        dataset=work.dataset[present],
        rate_mbps=work.rate_mbps[present],
        running=np.isin(present, jobs),
    )
    size = work.size_mb / 1e3
    # The library caches the first of equals, and keeps the last: the first job's in both cases.
    read = list(dict.fromkeys(work.dataset[jobs].tolist()))
    later = list(dict.fromkeys(work.dataset[present].tolist()))
    places = [code for code in range(len(size)) if code not in later]
    places = read + places + [code for code in later[::-1] if code not in read]
    result = np.empty(len(size))
    result[places] = allocate_storage(
        columns.replace(dataset=np.argsort(places)[columns.dataset]),
        size[places],
        cluster.cache_gb,
        cluster.bandwidth_mbps,
        current_gb=held[places] / 1e3,
        last_use=used[places],
    ).cache_gb
    runs = np.isin(np.arange(len(size)), work.dataset[jobs])
    wanted = np.isin(np.arange(len(size)), work.dataset[present])
    assert quota[runs] == pytest.approx(result[runs] * 1e3)
    # What waiting jobs read keeps what it has, and gets the rest; no other dataset gets any.
    assert (quota[wanted] >= result[wanted] * 1e3 * (1 - 1e-9)).all() and not quota[~wanted].any()
    most = min(cluster.cache_mb, float(work.size_mb[wanted].sum()))
    assert quota.sum() == pytest.approx(most)
    order = reclaim_order(columns, size, used)
    assert reclaim.tolist() == [code for code in order.tolist() if held[code] > quota[code]]


def random_jobs(seed):
    draw = random.Random(seed)
    sizes = [draw.uniform(400.0, 1500.0) for _ in range(draw.randint(1, 3))]
    jobs = []
    for _ in range(draw.randint(1, 5)):
        dataset = draw.randrange(len(sizes))
        total = sizes[dataset] * draw.choice([1, 2, 2.5, 3, 4])
        submit = draw.choice([0.0, 0.0, 13.0, 37.0, 50.5])
        jobs.append(
            (dataset, sizes[dataset], total, draw.uniform(20, 100), draw.choice([1, 1, 2]), submit)
        )
    return sorted(jobs, key=lambda job: job[-1]), draw


# In the last two, a job that misses everything begins epochs while others warm up, and next to
# nothing of a dataset is not cached.
@pytest.mark.parametrize("seed", [*seeds(40), 81581, 90001])
def test_the_fluid_model_is_what_small_steps_come_to(seed):
    jobs, draw = random_jobs(seed)
    gpus, bandwidth = draw.choice([2, 3, 6]), draw.choice([15.0, 40.0, 90.0])
    cache = draw.choice([0.0, 300.0, 800.0, 1700.0, 5000.0])
    mode = draw.choice(["priority", "maxmin_io", "proportional"])
    shrink, warm_up, lazy = draw.choice(["random", "read_first"]), *draw.choices([True, False], k=2)
    result = by_steps(
        [Job(*job) for job in jobs],
        gpus,
        cache,
        bandwidth,
        0.02,
        mode,
        shrink == "read_first",
        warm_up,
        lazy,
    )
    work = workload(*((str(name), d / 1e3, total / 1e3, *rest) for name, d, total, *rest in jobs))
    outcome = schedule_storage(
        work,
        StorageCluster(gpus, cache / 1e3, bandwidth),
        Rules(Fifo(), Allotted(eps=0.0), mode, warm_up),
        shrink=shrink,
        lazy=lazy,
    )
    assert outcome.end == pytest.approx(result, rel=4e-3)


#: name; jobs (dataset, its size, what is read, rate, GPUs, submission) / cluster / rules
LINES = """\
one job, cold
x 100 300 114 1 0/1 50 40/fifo silod
two jobs on a dataset, not aligned
x 100 400 60 1 0, x 100 400 90 1 700/2 60 50/fifo silod
three jobs on a dataset that fits
x 100 400 60 1 0, x 100 300 90 1 700, x 100 250 120 1 1300/3 100 70/fifo silod
a lazy shrink on a shared dataset
x 100 500 60 1 0, x 100 500 50 1 900, y 80 300 140 1 3000/3 70 60/fifo silod
a shrink at once, what was read first
x 100 500 60 1 0, y 80 300 120 1 3000/2 70 50/fifo silod
a warm-up while jobs wait and read
x 100 300 60 1 0, y 80 240 120 1 100, x 100 250 50 1 100/2 150 110/fifo silod
jobs that are stopped and go on
x 100 500 60 1 0, y 80 160 100 1 1000, x 100 150 80 1 1500, z 50 200 70 1 2500/2 90 60/srtf silod
jobs that take turns
x 100 300 60 1 0, y 80 160 100 1 1000, x 100 150 80 1 1500/2 90 60/max-min silod
a cache per job
x 100 300 60 1 0, y 80 160 100 2 1000, x 100 150 80 1 1500/4 90 60/fifo coordl
whole datasets
x 100 300 60 1 0, y 80 160 100 1 1000, x 100 150 80 1 1500/2 90 60/fifo quiver
LRU, one job that is bound by its GPUs at times
x 100 400 114 1 0/1 90 40/fifo alluxio
LRU, three datasets
x 100 400 60 1 0, y 80 320 90 1 500, z 150 320 40 1 900/3 150 60/fifo alluxio
LRU, a shared dataset
x 100 400 60 1 0, x 100 320 90 1 500/2 60 60/fifo alluxio
LRU, what jobs that have ended leave behind
x 100 300 60 1 0, x 100 300 90 1 500, y 50 150 50 1 600/1 120 60/fifo alluxio
""".splitlines()
SCENARIOS = dict(zip(LINES[::2], LINES[1::2], strict=True))
OPTIONS = {
    "a shrink at once, what was read first": {"lazy": False, "shrink": "read_first"},
    "a warm-up while jobs wait and read": {"warm_up": True},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_amounts_tell_within_one_percent_what_real_items_do(name):
    rows, shared, rules = SCENARIOS[name].split("/")
    jobs = [(row[0], *map(float, row[2:].split())) for row in rows.split(", ")]
    work, cluster = workload(*jobs), StorageCluster(*map(int, shared.split()))
    policy, storage = rules.split()
    wanted = OPTIONS.get(name, {})
    items = 5_000 if storage == "alluxio" else 20_000
    fluid = schedule_storage(work, cluster, policy, storage, **wanted)
    real = schedule_items(work, cluster, policy, storage, items=items, **wanted)
    assert fluid.end - work.submit == pytest.approx(real.end - work.submit, rel=1e-2)
    assert fluid.remote_mb == pytest.approx(real.remote_mb, rel=1.2e-2)
