"""Kernel == twin, bit by bit, and both against oracles that enumerate, bisect or ask an LP solver.

For given rates the cheapest caches are the vertices of a knapsack, and datasets filled one after
the other, in any order, give all of those that use the capacity up.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from profiles import examples
from scipy.optimize import linprog

from hivecore._storage import solve_storage as kernel
from hivecore.errors import CertificateError
from hivecore.reference import storage as reference
from hivecore.storage import (
    StorageJobs,
    allocate_storage,
    cache_efficiency,
    cache_for_rate,
    greedy_cache,
    ration_remote_io,
    reclaim_order,
    remote_io_demand,
    throughput,
)
from hivecore.storage.order_proof import prove_shortest_first

OBJECTIVES = ["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf", "given"]
FREE = ["greedy", "fifo", "sjf", "given"]  # these have every io_mode
IO_MODES = ["priority", "throughput", "maxmin_io", "maxmin_rate", "proportional"]

# Small integers make ties and exact fits; floats make everything else.
amounts = st.one_of(st.integers(0, 6).map(float), st.floats(1e-9, 100))
positive = st.one_of(st.integers(1, 6).map(float), st.floats(0.01, 100))


@dataclass
class Instance:
    jobs: StorageJobs
    sizes: list[float]
    cache: float
    bandwidth: float
    current: list[float]
    gpu_capacity: float | None

    def allocate(self, objective="greedy", io_mode=None, **options):
        return allocate_storage(
            self.jobs, self.sizes, self.cache, self.bandwidth, objective, io_mode, **options
        )

    @property
    def rate(self):
        running = self.jobs.running
        return (
            self.jobs.rate_mbps if running is None else np.where(running, self.jobs.rate_mbps, 0.0)
        )

    @property
    def weight(self):
        return np.ones(len(self.jobs)) if self.jobs.weight is None else self.jobs.weight

    def totals(self):
        return np.bincount(self.jobs.dataset, self.rate, minlength=len(self.sizes))

    def caches(self):
        for order in itertools.permutations(range(len(self.sizes))):
            cache, left = np.zeros(len(self.sizes)), self.cache
            for d in order:
                cache[d] = min(self.sizes[d], left)
                left -= cache[d]
            yield cache

    def missed(self, cache):
        share = 1 - cache / np.array(self.sizes)
        return np.where(share < 1e-12, 0.0, share)[self.jobs.dataset]


@st.composite
def instances(draw, jobs=8, datasets=4, plain=False):
    m = draw(st.integers(1, datasets))
    n = draw(st.integers(1 if plain else 0, jobs))

    def column(of):
        return draw(st.lists(of, min_size=n, max_size=n))

    def maybe(of):
        return None if plain or draw(st.booleans()) else column(of)

    sizes = draw(st.lists(positive, min_size=m, max_size=m))
    return Instance(
        StorageJobs(
            dataset=np.array(column(st.integers(0, m - 1)), dtype=np.int64),
            rate_mbps=column(positive if plain else amounts),
            weight=maybe(st.sampled_from([0.5, 1.0, 2.0, 3.25])),
            remaining_gb=column(positive if plain else amounts),
            gpus=column(st.integers(0, 4)),
            running=None if plain or draw(st.booleans()) else np.array(column(st.booleans()), bool),
            effective_gb=maybe(amounts),
            elapsed=maybe(st.floats(0, 1e4)),
            elapsed_alone=maybe(st.floats(0, 1e4)),
        ),
        sizes,
        draw(amounts),
        draw(amounts),
        [draw(st.sampled_from([0.0, 0.5, 1.0])) * size for size in sizes],
        None if plain else draw(st.one_of(st.none(), amounts)),
    )


def arguments(given, objective, io_mode, eps):
    jobs, n = given.jobs, len(given.jobs)

    def column(values, default):
        return np.full(n, default) if values is None else values

    return (
        jobs.dataset,
        jobs.rate_mbps,
        column(jobs.weight, 1.0),
        column(jobs.running, True),
        column(jobs.effective_gb, math.inf),
        column(jobs.remaining_gb, 0.0),
        column(jobs.gpus, 0.0),
        column(jobs.elapsed, 0.0),
        column(jobs.elapsed_alone, 0.0),
        np.array(given.sizes),
        np.array(given.current),
        given.cache,
        given.bandwidth,
        math.inf if given.gpu_capacity is None else given.gpu_capacity,
        objective,
        io_mode,
        eps,
    )


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def assert_twins_agree(given, objective, io_mode, eps=0.1):
    wanted = arguments(given, objective, io_mode, eps)
    assert [*map(plain, kernel(*wanted))] == [*reference.solve_storage(*map(plain, wanted))]


@given(
    instances(), st.sampled_from(OBJECTIVES), st.sampled_from(IO_MODES), st.sampled_from([0, 0.5])
)
@examples(300)
def test_the_kernel_is_its_twin_bit_by_bit(given, objective, io_mode, eps):
    assert_twins_agree(given, objective, io_mode, eps)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("datasets", [40, 2000])
def test_the_kernel_is_its_twin_where_orders_are_found_digit_by_digit(objective, datasets):
    rng = np.random.default_rng(datasets)
    n = 2000
    jobs = StorageJobs(
        rng.integers(0, datasets, n),
        rng.lognormal(3, 1, n).round(1),
        weight=rng.uniform(0.5, 2, n),
        remaining_gb=rng.lognormal(5, 2, n),
        gpus=2.0 ** rng.integers(0, 4, n),
        effective_gb=rng.lognormal(5, 2, n) if datasets == 40 else None,
        elapsed=rng.lognormal(7, 1, n),
        elapsed_alone=rng.lognormal(7, 1, n),
    )
    sizes = rng.lognormal(5, 1.5, datasets)
    current = sizes * (rng.random(datasets) < 0.3)
    for gpu_capacity, scarce in itertools.product((None, 3000.0), (0.05, 0.5)):
        given = Instance(
            jobs, sizes, sizes.sum() * 0.1, jobs.rate_mbps.sum() * scarce, current, gpu_capacity
        )
        for io_mode in ("throughput", "maxmin_rate"):
            assert_twins_agree(given, objective, io_mode)


@given(instances(), st.sampled_from(OBJECTIVES[:-1]), st.sampled_from(IO_MODES), st.booleans())
@examples(300)
def test_every_allocation_proves_itself(given, objective, io_mode, moved):
    options = {"current_gb": given.current} if moved else {}
    if objective not in ("greedy", "throughput"):
        options["gpu_capacity"] = given.gpu_capacity
    if objective not in FREE:
        io_mode = None
    decision = given.allocate(objective, io_mode, **options)
    assert decision.verify()
    assert np.all(decision.rates_mbps <= given.rate)


@given(instances(), st.sampled_from(IO_MODES))
def test_every_share_of_a_given_cache_proves_itself(given, io_mode):
    allocation = ration_remote_io(given.jobs, given.sizes, given.current, given.bandwidth, io_mode)
    assert allocation.verify()
    assert allocation.cache_gb.tolist() == given.current
    # Whatever the mode, no bandwidth is left while a demand is not met.
    used = min(given.bandwidth, allocation.demand_mbps.sum())
    assert allocation.remote_io_mbps.sum() == pytest.approx(used, rel=1e-9)


# --- oracles -----------------------------------------------------------------------------------


@given(instances(plain=True))
def test_greedy_leaves_the_least_demand_of_all_caches(given):
    least = min((given.rate * given.missed(cache)).sum() for cache in given.caches())
    assert given.allocate().demand_mbps.sum() == pytest.approx(least, rel=1e-9, abs=1e-9)


def most_throughput(given, cache):
    """The linear program of remote IO for a fixed cache."""
    missed = given.missed(cache)
    optimum = linprog(
        -np.ones(len(missed)),
        A_ub=[missed],
        b_ub=[given.bandwidth],
        bounds=[(0, rate) for rate in given.rate],
    )
    return -optimum.fun


@given(instances(jobs=5, datasets=3, plain=True))
@examples(40)
def test_the_io_mode_throughput_solves_its_linear_program(given):
    decision = given.allocate("fifo", "throughput")
    assert decision.throughput_mbps == pytest.approx(
        most_throughput(given, decision.cache_gb), rel=1e-7, abs=1e-7
    )


@given(instances(jobs=5, datasets=3, plain=True))
@examples(40)
def test_the_exact_throughput_is_the_best_of_all_vertices(given):
    best = max(most_throughput(given, cache) for cache in given.caches())
    exact, near = (given.allocate("throughput", exact=exact) for exact in (True, False))
    assert exact.throughput_mbps == pytest.approx(best, rel=1e-7, abs=1e-7)
    assert exact.verify() and exact.gap <= 1e-9
    assert near.throughput_mbps <= best * (1 + 1e-7) + 1e-7
    assert near.bound_mbps >= best * (1 - 1e-7) - 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_throughput_is_that_of_enumerated_sets(seed):
    """Nine datasets, each set as a whole and each other one in part."""
    rng = np.random.default_rng(seed)
    m = 9
    given = Instance(
        StorageJobs(np.arange(m), rng.integers(1, 60, m)),
        rng.integers(1, 40, m).astype(float),
        float(rng.integers(30, 120)),
        float(rng.integers(0, 40)),
        [],
        None,
    )
    best = 0.0
    sizes = np.array(given.sizes)
    for chosen in itertools.product([False, True], repeat=m):
        room = given.cache - sizes[list(chosen)].sum()
        for part in np.flatnonzero(~np.array(chosen)) if room >= 0 else ():
            cache = np.where(chosen, sizes, 0.0)
            cache[part] = min(room, sizes[part])
            order = np.argsort(given.missed(cache))
            left = given.bandwidth
            total = 0.0
            for j in order:
                missed = given.missed(cache)[j]
                rate = min(given.rate[j], left / missed) if missed else given.rate[j]
                left -= rate * missed
                total += rate
            best = max(best, total)
    decision = given.allocate("throughput", exact=True)
    assert decision.throughput_mbps == pytest.approx(best, rel=1e-9)
    assert decision.verify()


def level_of(budget_holds):
    """The highest level that a test, which holds up to a point, admits."""
    low, high = 0.0, 1.0
    while budget_holds(high) and high < 1e12:
        high *= 2.0
    if high >= 1e12:
        return math.inf
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if budget_holds(middle) else (low, middle)
    return low


@given(instances(plain=True), st.one_of(st.none(), st.floats(0.1, 20)))
@examples(60)
def test_the_level_of_max_min_is_the_best_of_all_caches(given, gpu_capacity):
    decision = given.allocate("max_min", gpu_capacity=gpu_capacity)
    slope = given.weight * np.where(
        decision.reference_mbps > 0, decision.reference_mbps, given.rate
    )
    best = 0.0
    for cache in given.caches():
        missed = given.missed(cache)

        def holds(level, missed=missed):
            rates = np.minimum(given.rate, level * slope)
            time = (given.jobs.gpus * rates / given.rate).sum()
            return (rates * missed).sum() <= given.bandwidth and (
                gpu_capacity is None or time <= gpu_capacity
            )

        best = max(best, level_of(holds))
    level = decision.certificate.stages[0].level
    assert level == pytest.approx(best, rel=1e-7, abs=1e-7)


@given(st.integers(0, 10**6))
@examples(100)
def test_max_min_is_the_best_of_all_caches_job_after_job(seed):
    """In ascending order, what jobs have of their references is lexicographically greatest."""
    rng = np.random.default_rng(seed)
    n, m = 6, 4
    given = Instance(
        StorageJobs(rng.integers(0, m, n), rng.uniform(1, 100, n), weight=rng.uniform(0.5, 2, n)),
        rng.uniform(1, 100, m),
        rng.uniform(0, 150),
        rng.uniform(1, 50),
        [],
        None,
    )
    decision = given.allocate("max_min")
    slope = given.weight * decision.reference_mbps
    have = np.sort(decision.rates_mbps / slope)
    for cache in given.caches():
        missed = given.missed(cache)
        level = level_of(
            lambda level, missed=missed: (
                (np.minimum(given.rate, level * slope) * missed).sum() <= given.bandwidth
            )
        )
        rates = np.where(missed > 0, np.minimum(given.rate, level * slope), given.rate)
        other = np.sort(rates / slope)
        different = np.flatnonzero(~np.isclose(have, other, rtol=1e-7))
        if len(different):
            assert have[different[0]] > other[different[0]]


@given(instances(plain=True), st.lists(st.floats(0, 5000), min_size=8, max_size=8))
@examples(60)
def test_the_greatest_ratio_of_finish_times_is_the_least_of_all_caches(given, elapsed):
    n = len(given.jobs)
    jobs = given.jobs.replace(elapsed=elapsed[:n], elapsed_alone=elapsed[-n:])
    given.jobs = jobs
    decision = given.allocate("finish_time")
    left = 1000 * jobs.remaining_gb
    reference = np.where(decision.reference_mbps > 0, decision.reference_mbps, given.rate)
    alone = jobs.elapsed_alone + left / reference

    def rates_at(level):  # (elapsed + left / rate) / alone = 1 / level
        time = alone / level - jobs.elapsed if level else np.full(n, math.inf)
        with np.errstate(divide="ignore"):
            return np.where(time > 0, np.minimum(given.rate, left / time), given.rate)

    best = 0.0
    for cache in given.caches():
        missed = given.missed(cache)
        best = max(
            best,
            level_of(
                lambda level, missed=missed: (rates_at(level) * missed).sum() <= given.bandwidth
            ),
        )
    assert decision.certificate.stages[0].level == pytest.approx(best, rel=1e-6, abs=1e-6)
    stopped = np.flatnonzero(
        (decision.certificate.stage == 0) & (decision.rates_mbps < given.rate * (1 - 1e-9))
    )
    if best > 0:
        ratios = (jobs.elapsed + left / decision.rates_mbps)[stopped] / alone[stopped]
        assert_allclose(ratios, 1 / best, rtol=1e-6)


@given(instances(), st.randoms(use_true_random=False))
@examples(150)
def test_of_all_orders_only_the_shortest_first_is_proved(given, random):
    """An order passes just if a plain walk finds no job, at any step, that would end sooner."""
    jobs = given.jobs
    wanted = np.ones(len(jobs), bool) if jobs.running is None else jobs.running
    gpus = math.inf if given.gpu_capacity is None else given.gpu_capacity
    needs = np.zeros(len(jobs)) if given.gpu_capacity is None else jobs.gpus
    rate = np.where(wanted, jobs.rate_mbps, 0.0)

    def is_right(order):
        cache, room, flow, free = [0.0] * len(given.sizes), given.cache, given.bandwidth, gpus

        def seconds(j):
            size = given.sizes[jobs.dataset[j]]
            missed = 1 - min(size, cache[jobs.dataset[j]] + room) / size
            speed = min(rate[j], flow / missed) if missed > 1e-12 else rate[j]
            work = jobs.remaining_gb[j]
            return 0.0 if work == 0 else work / speed if speed > 0 else math.inf

        left = set(np.flatnonzero(wanted).tolist())
        for j in order:
            left.remove(j)
            if needs[j] > free * (1 + 1e-10):
                return False
            others = [k for k in left if needs[k] <= free * (1 + 1e-10)]
            alike = [k for k in others if k < j and seconds(k) == seconds(j) == math.inf]
            alike += [
                k
                for k in others
                if k < j
                and (jobs.dataset[k], rate[k], jobs.remaining_gb[k])
                == (jobs.dataset[j], rate[j], jobs.remaining_gb[j])
            ]
            if alike or any(seconds(k) < seconds(j) * (1 - 1e-9) for k in others):
                return False
            free -= needs[j]
            d = jobs.dataset[j]
            more = min(given.sizes[d] - cache[d], room)
            room = room - more
            cache[d] = given.sizes[d] if more == given.sizes[d] - cache[d] else cache[d] + more
            missed = 1 - cache[d] / given.sizes[d]
            flow -= min(rate[j] * missed, flow) if missed > 1e-12 else 0.0
        return all(needs[k] > free * (1 + 1e-10) for k in left)

    columns = jobs.dataset, rate, jobs.remaining_gb, needs, np.array(given.sizes)
    amounts = given.cache, given.bandwidth, gpus
    right = given.allocate("sjf", gpu_capacity=given.gpu_capacity).certificate.order
    others = [*map(list, itertools.islice(itertools.permutations(right.tolist()), 24))]
    others += [right[:-1].tolist(), random.sample(range(len(jobs)), len(jobs))]
    for order in [right.tolist(), *others]:
        if not wanted[order].all():
            continue
        try:
            prove_shortest_first(np.array(order, dtype=np.int64), wanted, *columns, *amounts)
            proved = True
        except CertificateError:
            proved = False
        assert proved == is_right(order), order


@given(instances())
@examples(100)
def test_sjf_takes_the_shortest_job_of_all_that_are_left(given):
    decision = given.allocate("sjf", gpu_capacity=given.gpu_capacity)
    gpus = math.inf if given.gpu_capacity is None else given.gpu_capacity
    cache, cache_left, io_left = [0.0] * len(given.sizes), given.cache, given.bandwidth
    waiting = [
        j for j in range(len(given.jobs)) if given.jobs.running is None or given.jobs.running[j]
    ]
    order = []

    def key(j):
        d = given.jobs.dataset[j]
        size = given.sizes[d]
        held = min(size, cache[d] + cache_left)
        speed = reference.throughput(given.jobs.rate_mbps[j], io_left, held, size)
        work = given.jobs.remaining_gb[j]
        return (0.0 if work == 0 else work / speed if speed > 0 else math.inf), j

    while waiting:
        j = min(waiting, key=key)
        waiting.remove(j)
        if given.jobs.gpus[j] > gpus:
            continue
        gpus -= given.jobs.gpus[j]
        d = given.jobs.dataset[j]
        need = min(given.sizes[d] - cache[d], cache_left)
        cache_left -= need
        cache[d] = given.sizes[d] if need == given.sizes[d] - cache[d] else cache[d] + need
        demand = reference.remote_io_demand(given.jobs.rate_mbps[j], cache[d], given.sizes[d])
        io_left -= min(demand, io_left)
        order.append(j)
    assert decision.certificate.order.tolist() == order


@given(instances(), st.sampled_from([0.0, 0.1, 1.0]))
@examples(100)
def test_bytes_move_only_where_that_saves_enough(given, eps):
    decision = given.allocate(current_gb=given.current, eps=eps)
    worth = cache_efficiency(given.jobs, given.sizes)
    kept = np.array(given.current)
    lost = np.flatnonzero((decision.cache_gb < kept - 1e-9) & (worth > 0))
    gained = np.flatnonzero(decision.cache_gb > kept + 1e-9)
    for d, other in itertools.product(lost, gained):
        assert worth[other] > worth[d] * (1 + eps) * (1 - 1e-12)
    if eps == 0.0:
        left = ((1 - decision.cache_gb / given.sizes) * given.totals() * 1.0).sum()
        plain = given.jobs.replace(weight=None)
        if given.jobs.weight is None:
            fresh = allocate_storage(plain, given.sizes, given.cache, given.bandwidth)
            best = ((1 - fresh.cache_gb / given.sizes) * given.totals()).sum()
            assert left == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(instances())
def test_unused_contents_stay_in_the_reverse_of_the_reclaim_order(given):
    decision = given.allocate(current_gb=given.current)
    worth = cache_efficiency(given.jobs, given.sizes)
    order = [d for d in reclaim_order(given.jobs, given.sizes) if worth[d] == 0.0]
    share = [decision.cache_gb[d] / given.current[d] for d in order if given.current[d]]
    # Reclaimed first: nothing left; at most one in part; all others whole.
    assert share == sorted(share)
    assert sum(0 < part < 1 for part in share) <= 1
    if decision.cache_gb.sum() < given.cache * (1 - 1e-9):
        assert all(part == 1 for part in share)


@given(instances())
def test_fifo_serves_no_job_before_an_earlier_one_is_satisfied(given):
    decision = given.allocate("fifo")
    lacking = np.flatnonzero(decision.remote_io_mbps < decision.demand_mbps)
    if len(lacking):
        assert not decision.remote_io_mbps[lacking[0] + 1 :].any()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 10.0]) | amounts), max_size=8),
    st.lists(st.tuples(positive, st.sampled_from([0.0, 0.5, 1.0])), min_size=5, max_size=5),
    st.just(0.0) | st.floats(1e-9, 300.0),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_the_greedy_cache_is_that_of_the_allocation_and_of_the_twin(jobs, datasets, capacity, eps):
    dataset = np.array([d for d, _ in jobs], dtype=np.int64)
    rate = np.array([f for _, f in jobs])
    size, share = np.array(datasets).T
    worth = np.bincount(dataset, rate, 5) / size
    cache_ = greedy_cache(worth, size, capacity, size * share, eps)
    assert cache_.tolist() == reference.greedy_cache(worth, size, capacity, size * share, eps)
    whole = allocate_storage(
        StorageJobs(dataset, rate), size, capacity, 50.0, current_gb=size * share, eps=eps
    ).cache_gb
    # The allocation keeps what no job reads, if there is room.
    assert cache_.tolist() == np.where(worth > 0, whole, 0.0).tolist()


# --- the performance model ---------------------------------------------------------------------

model_numbers = st.lists(st.tuples(amounts, amounts, amounts, positive), min_size=1, max_size=20)


@given(model_numbers)
def test_arrays_scalars_and_the_twin_give_the_same_rates(rows):
    f, b, c, d = np.array(rows).T
    for name, columns in {
        "throughput": (f, b, c, d),
        "remote_io_demand": (f, c, d),
        "cache_for_rate": (f, b, d),
    }.items():
        ours = {"throughput": throughput, "remote_io_demand": remote_io_demand}.get(
            name, cache_for_rate
        )
        twin = getattr(reference, name)
        rowwise = [twin(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        assert ours(*columns).tolist() == rowwise
        assert [ours(*row) for row in zip(*(c.tolist() for c in columns), strict=True)] == rowwise


def test_columns_of_jobs_are_all_compared():
    """The columns above are those that there are."""
    assert set(StorageJobs.__struct_fields__) == {
        "dataset", "rate_mbps", "weight", "remaining_gb", "gpus", "running", "effective_gb",
        "elapsed", "elapsed_alone", "names",
    }  # fmt: skip
