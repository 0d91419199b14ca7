"""Proves an allocation of cache and remote IO from its certificate, independently of kernel and
twin.

The cheapest cache for given rates is a linear program with one constraint, so a multiplier proves
it by complementary slackness; likewise the fastest use of a bandwidth. Modes that fill to a level
are proved by that level: all jobs meet it, and the budget is used up. A stage of max-min filling is
proved by showing that at its level the cheapest cache leaves a demand of the whole bandwidth (or
that all GPU time is used), as the demand rises with the level.
"""

import math
from typing import Any

import numpy as np

from hivecore.errors import CertificateError
from hivecore.storage._numbers import Bool, Float64, fill_in_order
from hivecore.storage.order_proof import prove_shortest_first
from hivecore.storage.shares import Problem, Shares

__all__ = ["verify_allocation"]

_TOLERANCE = 1e-9
_FULL = 1e-12


def verify_allocation(shares: Shares, problem: Problem) -> None:
    """Raise a CertificateError that names the first failed check."""
    _Audit(shares, problem).run()


class _Audit:
    def __init__(self, shares: Shares, problem: Problem) -> None:
        self.shares, self.problem, self.proof = shares, problem, shares.certificate
        jobs, n = problem.jobs, len(problem.jobs)
        self.wanted = np.ones(n, dtype=np.bool_) if jobs.running is None else jobs.running
        self.weight = _column(jobs.weight, n, 1.0)
        self.remaining = _column(jobs.remaining_gb, n, 0.0)
        self.elapsed = _column(jobs.elapsed, n, 0.0)
        self.elapsed_alone = self.elapsed if jobs.elapsed_alone is None else jobs.elapsed_alone
        self.gpus = _column(jobs.gpus if problem.gpu_capacity < math.inf else None, n, 0.0)
        self.effective = _column(jobs.effective_gb, n, math.inf)
        self.current = _column(problem.current, len(problem.size), 0.0)
        self.rate = np.zeros(n)

    def run(self) -> None:
        self.shapes()
        self.rate = np.where(self.shares.running, self.problem.jobs.rate_mbps, 0.0)
        problem, shares = self.problem, self.shares
        _demand(not (shares.running & ~self.wanted).any(), "running: a queued job runs")
        cached = np.minimum(self.effective, shares.cache_gb[problem.dataset])
        self.missed = _missed(cached, problem.size[problem.dataset])
        self.steady_missed = _missed(shares.cache_gb, problem.size)[problem.dataset]
        _near(shares.demand_mbps, self.rate * self.missed, "demand is not rate * (1 - h)")
        self.feasible()
        if shares.objective in ("max_min", "finish_time"):
            self.filling()
        else:
            self.rates_follow()
            self.ration(self.rate)
        if shares.objective != "sjf":
            self.first_come()
        self.cache()

    def shapes(self) -> None:
        n, m = len(self.problem.dataset), len(self.problem.size)
        for name, length in {
            "cache_gb": m,
            "remote_io_mbps": n,
            "rates_mbps": n,
            "demand_mbps": n,
        }.items():
            array = getattr(self.shares, name)
            _demand(array.shape == (length,), f"{name} must have shape ({length},)")
            good = np.isfinite(array) & (array >= 0.0)
            _demand(good.all(), f"{name} must be finite and not negative")
        _demand(self.shares.running.shape == (n,), f"running must have shape ({n},)")

    def feasible(self) -> None:
        shares, problem = self.shares, self.problem
        _demand(
            (shares.cache_gb <= problem.size * (1 + _TOLERANCE)).all(), "cache exceeds a dataset"
        )
        if shares.objective != "given":
            _at_most(shares.cache_gb.sum(), problem.cache, "cache exceeds the capacity")
        _at_most(shares.remote_io_mbps.sum(), problem.bandwidth, "remote_io exceeds the bandwidth")
        for name in ("remote_io_mbps", "rates_mbps"):
            _demand(
                not getattr(shares, name)[~shares.running].any(), f"{name}: a queued job has some"
            )
        reach = self.reached(shares.remote_io_mbps)
        _demand((shares.rates_mbps <= reach * (1 + _TOLERANCE) + 1e-300).all(), "rates: too fast")
        if problem.gpu_capacity < math.inf and shares.objective in ("fifo", "sjf"):
            used = self.gpus[shares.running].sum()
            _at_most(used, problem.gpu_capacity, "running jobs exceed gpu_capacity")

    def reached(self, remote_io: Float64) -> Float64:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            fed = np.where(self.missed > 0.0, remote_io / self.missed, np.inf)
        return np.minimum(self.rate, fed)

    def rates_follow(self) -> None:
        reach = self.reached(self.shares.remote_io_mbps)
        _near(self.shares.rates_mbps, reach, "rates are not those of the performance model")

    # --- cache -----------------------------------------------------------------------------

    def cache(self) -> None:
        shares, problem, method = self.shares, self.problem, self.proof.method
        if method == "given":
            _near(shares.cache_gb, self.current, "cache is not the given one")
        elif shares.objective == "throughput":
            self.relaxation()
        elif shares.objective == "sjf":
            self.shortest_first()
        elif shares.objective in ("greedy", "fifo"):
            worth = self.per_dataset(self.weight * self.rate)
            self.slackness(worth / problem.size, self.current, problem.eps)

    def per_dataset(self, amounts: Float64) -> Float64:
        totals = np.bincount(self.problem.dataset, amounts, minlength=len(self.problem.size))
        return totals.astype(np.float64)

    def slackness(self, value: Float64, kept: Float64, eps: float) -> None:
        """The cache is a cheapest one: bytes worth more than the multiplier are all cached."""
        cache, size, cut = self.shares.cache_gb, self.problem.size, self.proof.cache_multiplier
        near = _TOLERANCE * size + _FULL * self.problem.cache
        _demand(math.isfinite(cut) and cut >= 0.0, "cache_multiplier must be finite and >= 0")
        above, below = value > cut * (1 + _TOLERANCE), value < cut * (1 - _TOLERANCE)
        _demand((cache[above] >= (size - near)[above]).all(), "cache: an efficient dataset lacks")
        _demand((cache[below] <= (kept + near)[below]).all(), "cache: an inefficient one has some")
        value = value * (1.0 + eps)
        above, below = value > cut * (1 + _TOLERANCE), value < cut * (1 - _TOLERANCE)
        _demand((cache >= kept - near)[above].all(), "cache: bytes were moved without need")
        _demand((cache <= near)[below].all(), "cache: an inefficient dataset kept its bytes")
        if cut > 0.0:
            _near(cache.sum(), self.problem.cache, "cache: capacity is left, with a multiplier")

    def first_come(self) -> None:
        """All jobs that may run do; in "fifo" up to the first that lacks GPUs."""
        problem = self.problem
        rows = np.flatnonzero(self.wanted)
        running = int(self.shares.running.sum())
        if running < len(rows):
            needed = self.gpus[rows[: running + 1]].sum()
            _demand(
                self.shares.objective == "fifo"
                and needed > problem.gpu_capacity * (1 - _TOLERANCE),
                "running: the next job would fit",
            )
            rows = rows[:running]
        _demand(
            np.array_equal(rows, np.flatnonzero(self.shares.running)), "running: not the first jobs"
        )
        _demand(np.array_equal(self.proof.order, rows), "order is not that of arrival")

    def shortest_first(self) -> None:
        problem = self.problem
        order = self.proof.order
        _demand(
            np.array_equal(np.sort(order), np.flatnonzero(self.shares.running)),
            "order does not hold every running job once",
        )
        needed = prove_shortest_first(
            order,
            self.wanted,
            problem.dataset,
            np.where(self.wanted, problem.jobs.rate_mbps, 0.0),
            self.remaining,
            self.gpus,
            problem.size,
            problem.cache,
            problem.bandwidth,
            problem.gpu_capacity,
        )
        worth = self.per_dataset(self.rate)
        if self.proof.method == "shortest":
            held = np.where(worth > 0.0, self.shares.cache_gb, 0.0)
            _near(held, np.where(worth > 0.0, needed, 0.0), "cache is not as jobs needed it")
        else:
            self.slackness(worth / problem.size, np.zeros(len(problem.size)), 0.0)
            _at_most(
                self.pace(needed),
                self.pace(self.shares.cache_gb),
                "cache: what the jobs needed would end them sooner",
            )

    def pace(self, cache: Float64) -> Any:
        problem, order = self.problem, self.proof.order
        missed = _missed(cache, problem.size)[problem.dataset[order]]
        rate, remaining = self.rate[order], self.remaining[order]
        demand = rate * missed
        granted = fill_in_order(demand, problem.bandwidth)
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.where(missed > 0.0, np.minimum(rate, granted / missed), rate)
            return np.where(remaining > 0.0, reached / remaining, 0.0).sum()

    def relaxation(self) -> None:
        """The total rate is at most bandwidth plus hits, and at most all full rates.

        Hits of D are at most efficiency * cache, so all hits are at most the dual of a knapsack.
        """
        shares, problem, cut = self.shares, self.problem, self.proof.cache_multiplier
        _demand(math.isfinite(cut) and cut >= 0.0, "cache_multiplier must be finite and >= 0")
        totals = self.per_dataset(self.rate)
        hits = cut * problem.cache + _excess(totals, cut * problem.size).sum()
        bound = min(totals.sum(), problem.bandwidth + hits)
        if self.proof.method == "exact":
            from hivecore.storage.exact_search import best_cache

            best, _ = best_cache(totals, problem.size, problem.cache, problem.bandwidth)
            _demand(best <= bound * (1 + _TOLERANCE), "bound is below the optimum")
            bound = best
        _near(shares.bound_mbps, bound, "bound does not follow from the multiplier")
        if not (self.effective < shares.cache_gb[problem.dataset]).any():
            _at_most(
                shares.rates_mbps.sum(), shares.bound_mbps, "the total of rates exceeds the bound"
            )
            if self.proof.method == "exact":
                _near(
                    shares.rates_mbps.sum(),
                    shares.bound_mbps,
                    "the total of rates is not the optimum",
                )

    # --- remote IO -------------------------------------------------------------------------

    def ration(self, cap: Float64, slope: Float64 | None = None) -> None:
        shares, level, budget = self.shares, self.proof.io_level, self.problem.bandwidth
        granted, demand, mode = shares.remote_io_mbps, shares.demand_mbps, shares.io_mode
        _demand(not math.isnan(level), "io_level is not a number")
        used = granted.sum()
        if mode == "priority":
            order = self.proof.order
            _demand(
                np.array_equal(np.sort(order), np.flatnonzero(shares.running)),
                "order does not hold every running job once",
            )
            place = np.flatnonzero(order == level)
            first = int(place[0]) if len(place) else len(order)
            _near(granted[order[:first]], demand[order[:first]], "remote_io: an early job lacks")
            _demand(not granted[order[first + 1 :]].any(), "remote_io: a late job has some")
            short = first < len(order)
        elif mode == "throughput":
            short = level > 0.0
            dual = (self.rate * _excess(1.0, level * self.missed)).sum()
            dual += level * budget if short else 0.0
            _near(
                shares.rates_mbps.sum(), dual, "remote_io does not give the greatest total of rates"
            )
        elif mode == "maxmin_io":
            short = level < math.inf
            _near(granted, np.minimum(demand, level), "remote_io does not fill up to io_level")
        elif mode == "maxmin_rate":
            short = level < math.inf
            slope = self.slope() if slope is None else slope
            with np.errstate(invalid="ignore"):
                height = np.where(slope > 0.0, np.minimum(cap, level * slope), 0.0)
            _near(granted, self.missed * height, "remote_io does not fill up to io_level")
        else:
            short = level < 1.0
            _near(granted, level * demand, "remote_io is not proportional")
        if short:
            _near(used, budget, "remote_io: bandwidth is left while a job lacks some")
        elif mode != "maxmin_rate":
            _near(granted, demand, "remote_io: a job lacks some without need")

    # --- max-min ---------------------------------------------------------------------------

    def slope(self) -> Float64:
        """Return a job's gain per unit of level: weight * reference."""
        problem, given = self.problem, self.shares.reference_mbps
        if given is None:
            raise CertificateError("reference is missing")
        rate = np.where(self.wanted, problem.jobs.rate_mbps, 0.0)
        sharers = max(1, int(self.wanted.sum()))
        users = np.bincount(problem.dataset, self.wanted, minlength=len(problem.size))
        missed = _missed(np.minimum(problem.size, users * (problem.cache / sharers)), problem.size)
        top = rate
        if problem.gpu_capacity < math.inf:
            need = np.maximum(self.gpus * sharers, problem.gpu_capacity)
            with np.errstate(invalid="ignore"):
                time = np.where(need > 0.0, problem.gpu_capacity / need, 1.0)
            top = rate * time
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            fed = (problem.bandwidth / sharers) / missed[problem.dataset]
        reference = np.where(missed[problem.dataset] > 0.0, np.minimum(top, fed), top)
        _near(given, reference, "reference is not the rate with equal shares")
        return self.weight * np.where(given > 0.0, given, rate)

    def finish_curve(self) -> tuple[Float64, Float64]:
        """T = slope * level / (1 - sag * level) has the ratio of finish times 1 / level."""
        reference = self.shares.reference_mbps
        if reference is None:
            raise CertificateError("reference is missing")
        speed = np.where(reference > 0.0, reference, self.rate)
        left = 1000.0 * self.remaining
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            alone = self.elapsed_alone + np.where(speed > 0.0, left / speed, 0.0)
            slope, sag = left / alone, self.elapsed / alone
        return np.where(alone > 0.0, slope, 0.0), np.where(alone > 0.0, sag, 0.0)

    def risen(self, level: float, slope: Float64, sag: Float64) -> Float64:
        if level == math.inf:
            return np.where(slope > 0.0, self.rate, 0.0)
        share = 1.0 - level * sag
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(share > 0.0, np.minimum(self.rate, level * slope / share), self.rate)

    def filling(self) -> None:
        shares, problem, proof = self.shares, self.problem, self.proof
        stage = proof.stage
        slope, sag = self.slope(), np.zeros(len(self.rate))
        if shares.objective == "finish_time":
            slope, sag = self.finish_curve()
        if stage is None or stage.shape != self.rate.shape:
            raise CertificateError("stage must have an entry per job")
        some = (self.rate > 0.0) & (slope > 0.0)
        _demand(((stage >= 0) == some).all(), "stage: a job was left out")
        _demand((stage < len(proof.stages)).all(), "stage: there are not so many")
        final = np.zeros(len(stage))
        before = 0.0
        for number, (level, binding) in enumerate(proof.stages):
            _demand(level >= before * (1 - _TOLERANCE), "stages: a level falls")
            before = level
            now = np.where(stage >= number, self.risen(level, slope, sag), final)
            # Where a curve is steep, the demand at a level is no more precise than the level.
            above = self.risen(level * (1 + _TOLERANCE), slope, sag)
            above = np.where(stage >= number, above, final)
            held = stage == number
            final[held] = now[held]
            stopped = held & (now < self.rate * (1 - _TOLERANCE))
            self.binding(binding, now, above, stopped, slope)
        missed_io = (final * self.steady_missed).sum()
        _at_most(missed_io, problem.bandwidth, "the filled rates exceed the bandwidth")
        if problem.gpu_capacity < math.inf:
            _at_most(self.gpu_time(final), problem.gpu_capacity, "the rates exceed the GPU time")
        held = shares.cache_gb[problem.dataset]
        if not ((self.rate > 0.0) & (self.effective < held)).any():
            _near(shares.rates_mbps, final, "rates are not what the stages say")
            _near(
                shares.remote_io_mbps, final * self.missed, "remote_io is not what the rates need"
            )
        else:
            shares_gpus = problem.gpu_capacity < math.inf
            cap = final if shares_gpus else np.where(stage >= 0, self.rate, 0.0)
            self.ration(cap, final if shares.objective == "finish_time" else slope)
            _near(
                shares.rates_mbps,
                np.minimum(cap, self.reached(shares.remote_io_mbps)),
                "rates are not those of the performance model",
            )

    def gpu_time(self, rates: Float64) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.rate > 0.0, self.gpus * (rates / self.rate), 0.0).sum()

    def binding(
        self, binding: str, now: Float64, above: Float64, stopped: Bool, slope: Float64
    ) -> None:
        problem = self.problem
        if binding == "rate":
            _demand(not stopped.any(), "stages: a job stops below its rate without a reason")
        elif binding == "gpus":
            _at_most(self.gpu_time(now), problem.gpu_capacity, "stages: too much GPU time")
            _at_most(problem.gpu_capacity, self.gpu_time(above), "stages: GPU time is left")
            _demand((self.gpus[stopped] > 0.0).all(), "stages: a job without GPUs stops for them")
        elif binding == "remote_io":
            worth = self.per_dataset(now)
            if not worth.any():
                worth = self.per_dataset(np.where(stopped | (self.rate > 0.0), slope, 0.0))
            self.slackness(worth / problem.size, np.zeros(len(problem.size)), 0.0)
            missed = self.steady_missed
            _at_most((now * missed).sum(), problem.bandwidth, "stages: too much demand")
            _at_most(problem.bandwidth, (above * missed).sum(), "stages: bandwidth is left")
            _demand((self.steady_missed[stopped] > 0.0).all(), "stages: a cached job stops for IO")
        else:
            raise CertificateError(f"stages: unknown binding {binding!r}")


def _column(values: Float64 | None, length: int, otherwise: float) -> Float64:
    return np.full(length, otherwise) if values is None else values


def _missed(cached: Float64, size: Float64) -> Float64:
    share = 1.0 - cached / size
    return np.where(share < _FULL, 0.0, share)


def _excess(a: Any, b: Float64) -> Float64:
    """Return how far a exceeds b, beyond rounding."""
    return np.where(a - b > _FULL * a, a - b, 0.0)


def _demand(holds: Any, message: str) -> None:
    if not holds:
        raise CertificateError(message)


def _near(a: Any, b: Any, message: str) -> None:
    a, b = np.asarray(a), np.asarray(b)
    if not (a.shape == b.shape and np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE)):
        raise CertificateError(message)


def _at_most(amount: Any, limit: float, message: str) -> None:
    _demand(amount <= limit * (1 + _TOLERANCE) + _TOLERANCE, f"{message}: {amount} > {limit}")
