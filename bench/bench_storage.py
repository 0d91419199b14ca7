"""Dividing cache and remote IO: kernel, twin, straight NumPy, and HiGHS where it is an LP.

    python bench/bench_storage.py [--smoke] [--out DIR]

Jobs with log-normal rates, each on its own dataset, of log-normal sizes, a tenth of which fits into
the cache, with remote IO for a twentieth of the rates.

allocate   one call of `allocate_storage` from arrays to shares, for each objective
max-min    "max_min" again; NumPy finds the level alone, by bisection, and sorts the datasets by
           efficiency in each step; HiGHS solves the linear program that is left when the cache,
           and the jobs at their full rate, are given
limiter    requests of random jobs at advancing times, about half of which are granted; peer: a
           bucket of floats per job, without a total

NumPy is what one writes by hand: bincount, stable argsort, cumsum. Contenders take turns and must
give the same answers. Times are CPU time, the least of several rounds; the twin runs once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, milliseconds, report, save, take_turns
from peers.float_bucket import FloatLimiter
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from hivecore._storage import solve_storage as kernel
from hivecore.reference.storage import RemoteIOLimiter as LimiterTwin
from hivecore.reference.storage import solve_storage as twin
from hivecore.storage import RemoteIOLimiter, StorageJobs, allocate_storage

OBJECTIVES = ["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"]


class Setting:
    """One instance, and the columns of which its jobs are made."""

    def __init__(self, jobs: int) -> None:
        rng = np.random.default_rng(jobs)
        self.dataset = np.arange(jobs)
        self.columns = {
            "rate_mbps": rng.lognormal(3, 1, jobs),
            "weight": rng.uniform(0.5, 2, jobs),
            "remaining_gb": rng.lognormal(5, 2, jobs),
            "elapsed": rng.lognormal(7, 1, jobs),
        }
        self.size = rng.lognormal(5, 1.5, jobs)
        self.cache = float(self.size.sum() * 0.1)
        self.bandwidth = float(self.columns["rate_mbps"].sum() * 0.05)
        self.jobs = StorageJobs(self.dataset, **self.columns)

    def allocate(self, objective: str) -> Any:
        return allocate_storage(self.jobs, self.size, self.cache, self.bandwidth, objective)

    def arguments(self, objective: str, io_mode: str) -> list[Any]:
        columns, none = self.columns, np.zeros(len(self.jobs))
        return [
            self.dataset,
            columns["rate_mbps"],
            columns["weight"],
            np.ones(len(none), dtype=np.bool_),
            np.full(len(none), np.inf),
            columns["remaining_gb"],
            none,
            columns["elapsed"],
            columns["elapsed"],
            self.size,
            np.zeros(len(self.size)),
            self.cache,
            self.bandwidth,
            float("inf"),
            objective,
            io_mode,
            0.1,
        ]


# --- by hand, in NumPy -------------------------------------------------------------------------


def numpy_cache(worth: Any, size: Any, capacity: float) -> Any:
    order = np.argsort(-(worth / size), kind="stable")
    before = np.cumsum(size[order]) - size[order]
    cache = np.empty(len(size))
    cache[order] = np.clip(capacity - before, 0.0, size[order])
    cache[worth == 0.0] = 0.0
    return cache


def numpy_fill(demand: Any, order: Any, budget: float) -> Any:
    wanted = demand[order]
    granted = np.empty(len(demand))
    granted[order] = np.clip(budget - (np.cumsum(wanted) - wanted), 0.0, wanted)
    return granted


def numpy_missed(cache: Any, size: Any) -> Any:
    share = 1.0 - cache / size
    share[share < 1e-12] = 0.0
    return share


def numpy_rates(rate: Any, granted: Any, missed: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(missed > 0.0, np.minimum(rate, granted / missed), rate)


def numpy_greedy(setting: Setting, mode: str) -> Any:
    rate, dataset, size = setting.columns["rate_mbps"], setting.dataset, setting.size
    worth = np.bincount(dataset, setting.columns["weight"] * rate, minlength=len(size))
    missed = numpy_missed(numpy_cache(worth, size, setting.cache), size)[dataset]
    demand = rate * missed
    order = np.argsort(missed, kind="stable") if mode == "throughput" else np.arange(len(rate))
    return numpy_rates(rate, numpy_fill(demand, order, setting.bandwidth), missed)


def numpy_max_min(setting: Setting) -> tuple[float, Any]:
    """The highest level, by bisection, and the cache there."""
    rate, dataset, size = setting.columns["rate_mbps"], setting.dataset, setting.size
    n = len(rate)
    users = np.bincount(dataset, minlength=len(size))
    equal = numpy_missed(np.minimum(size, users * (setting.cache / n)), size)[dataset]
    reference = numpy_rates(rate, np.full(n, setting.bandwidth / n), equal)
    slope = setting.columns["weight"] * reference
    low, high = 0.0, float((rate / slope).max())
    cache = np.zeros(len(size))
    for _ in range(50):
        level = 0.5 * (low + high)
        now = np.minimum(rate, level * slope)
        worth = np.bincount(dataset, now, minlength=len(size))
        tried = numpy_cache(worth, size, setting.cache)
        if (worth * numpy_missed(tried, size)).sum() <= setting.bandwidth:
            low, cache = level, tried
        else:
            high = level
    return low, cache


def highs_level(setting: Setting, result: Any) -> float:
    """The level for the cache that was found, with the jobs at their full rate taken out."""
    level = result.certificate.stages[0].level
    slope = setting.columns["weight"] * result.reference_mbps
    rate = setting.columns["rate_mbps"]
    missed = numpy_missed(result.cache_gb.copy(), setting.size)[setting.dataset]
    free = np.flatnonzero((level * slope < rate) & (missed > 0.0))
    full = np.setdiff1d(np.arange(len(rate)), free)
    left = setting.bandwidth - (rate[full] * missed[full]).sum()
    k = len(free)
    rows = np.arange(k)
    # level * slope - rate_j <= 0 for each, and sum(rate * missed) <= left.
    floor = coo_array(
        (
            np.concatenate((-np.ones(k), slope[free])),
            (np.concatenate((rows, rows)), np.concatenate((rows, np.full(k, k)))),
        ),
        shape=(k, k + 1),
    )
    total = coo_array((missed[free], (np.zeros(k, int), rows)), shape=(1, k + 1))
    answer = linprog(
        np.concatenate((np.zeros(k), [-1.0])),
        A_ub=vstack((floor, total)).tocsr(),
        b_ub=np.concatenate((np.zeros(k), [left])),
        bounds=np.stack((np.zeros(k + 1), np.append(rate[free], np.inf)), axis=1),
        method="highs",
    )
    return float(answer.x[-1])


# --- measurements ------------------------------------------------------------------------------


def timed_twin(arguments: list[Any]) -> tuple[float, Any]:
    answers: list[Any] = []
    seconds = cpu_seconds(lambda: answers.append(twin(*arguments)))
    return seconds, answers[0]


def allocate(setting: Setting, rounds: int) -> dict[str, float]:
    contenders = {o: milliseconds(lambda o=o: setting.allocate(o)) for o in OBJECTIVES}
    contenders["greedy, NumPy"] = milliseconds(lambda: numpy_greedy(setting, "throughput"))
    contenders["fifo, NumPy"] = milliseconds(lambda: numpy_greedy(setting, "priority"))
    figures = take_turns(contenders, rounds)
    for objective, mode in (("greedy", "throughput"), ("fifo", "priority")):
        by_hand = numpy_greedy(setting, mode)
        np.testing.assert_allclose(
            setting.allocate(objective).rates_mbps, by_hand, rtol=1e-6, atol=1e-6
        )
    for objective in OBJECTIVES:
        default = setting.allocate(objective).io_mode
        arguments = setting.arguments(objective, default)
        plain = [a.tolist() if isinstance(a, np.ndarray) else a for a in arguments]
        seconds, answer = timed_twin(plain)
        figures[f"{objective}, twin"] = 1e3 * seconds
        assert [a.tolist() if isinstance(a, np.ndarray) else a for a in kernel(*arguments)] == [
            *answer
        ]
    return figures


def level(setting: Setting, rounds: int) -> dict[str, float]:
    decision = setting.allocate("max_min")
    wanted = decision.certificate.stages[0].level
    assert abs(numpy_max_min(setting)[0] / wanted - 1) < 1e-9
    answers: list[float] = []
    figures = take_turns(
        {
            "kernel": milliseconds(lambda: setting.allocate("max_min")),
            "NumPy, 50 bisections": milliseconds(lambda: numpy_max_min(setting)),
        },
        rounds,
    )
    figures["HiGHS, cache given"] = 1e3 * cpu_seconds(
        lambda: answers.append(highs_level(setting, decision))
    )
    assert abs(answers[0] / wanted - 1) < 1e-6
    return figures


def limiter_figures(jobs: int, requests: int, rounds: int) -> dict[str, float]:
    rate, burst = 1_000_000, 64_000
    contenders: dict[str, Any] = {}
    for name, make in (
        ("one by one", RemoteIOLimiter),
        ("batches of 1000", RemoteIOLimiter),
        ("twin", LimiterTwin),
    ):
        limiter = make(2 * rate * jobs, 2 * burst * jobs)
        for _ in range(jobs):
            limiter.add_job(rate, burst, 0)
        contenders[name] = limiter
    contenders["floats"] = FloatLimiter([float(rate)] * jobs, float(burst))
    granted: dict[str, int] = dict.fromkeys(contenders, 0)
    # On average a job asks for twice what it gets.
    step = 16_000 * 10**9 // (2 * rate * jobs)

    def contender(name: str) -> Callable[[], float]:
        limiter = contenders[name]
        rng = np.random.default_rng(4)
        now = 0
        few = max(requests // (20 * jobs), 10) if name == "twin" else requests

        def measure() -> float:
            nonlocal now
            rows = rng.integers(jobs, size=few)
            sizes = rng.integers(1, 32_000, size=few)
            waits: list[Any] = []
            if "batches" in name:
                starts = range(0, few, 1000)
                parts = [(rows[i : i + 1000], sizes[i : i + 1000]) for i in starts]

                def run() -> None:
                    for number, (jobs_, sizes_) in enumerate(parts):
                        waits.append(limiter.take_many(jobs_, sizes_, now + number * 1000 * step))

                seconds = cpu_seconds(run)
                granted[name] += int((np.concatenate(waits) == 0).sum())
            else:
                floats = name == "floats"
                times = [now + i * step for i in range(few)]
                requests_ = list(
                    zip(
                        rows.tolist(),
                        sizes.astype(float).tolist() if floats else sizes.tolist(),
                        [time / 1e9 for time in times] if floats else times,
                        strict=True,
                    )
                )
                take, keep = limiter.take, waits.append

                def run() -> None:
                    for job, size, time in requests_:
                        keep(take(job, size, time))

                seconds = cpu_seconds(run)
                granted[name] += sum(wait == 0 for wait in waits)
            now += few * step
            return 1e9 * seconds / few

        return measure

    figures = take_turns({f"take, {name}": contender(name) for name in contenders}, rounds)
    # Floats round: near the limit they may decide differently.
    assert abs(granted["one by one"] - granted["floats"]) <= 1e-4 * granted["floats"] + 10
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    jobs, rounds = (500, 2) if smoke else (100_000, 7)
    setting = Setting(jobs)
    size = f"own: {jobs:,} jobs, {jobs:,} datasets"
    count, requests = (10, 2000) if smoke else (1000, 100_000)
    figures = [
        report(f"allocate, {size}", "ms", allocate(setting, rounds)),
        report(f"max-min, {size}", "ms", level(setting, 1 if smoke else 3)),
        report(
            f"limiter: {count:,} jobs", "ns per request", limiter_figures(count, requests, rounds)
        ),
    ]
    save(arguments, "storage", figures)


if __name__ == "__main__":
    main()
