"""Proves that jobs were taken shortest first, from the order alone, without computing it.

Each job takes all that it needs, as far as available, so an order determines what each step has:
the remaining cache, remote IO and free GPUs. They only shrink, so a job's time only grows. The
order is right if at no step another job that is not taken yet and fits into the free GPUs would
have ended sooner than the one taken.

That compares all jobs with all steps, but few are close. So steps are checked by the hundred: a job
that would end later than all jobs of a block when the block begins does not matter to any of them.
"""

import numpy as np

from hivecore.errors import CertificateError
from hivecore.storage._numbers import Bool, Float64, Int64

__all__ = ["prove_shortest_first"]

_BLOCK = 256  # steps that are checked together
_PAIRS = 1 << 20  # pairs of a job and a step, at most
_TOLERANCE = 1e-9
_GPU_SLACK = 1e-10  # 0.9 and 0.1 GPUs fit into 1
_FULL = 1e-12  # fewer misses are rounding


def prove_shortest_first(
    order: Int64,
    wanted: Bool,
    dataset: Int64,
    rate: Float64,
    remaining: Float64,
    gpus: Float64,
    size: Float64,
    cache: float,
    bandwidth: float,
    gpu_capacity: float,
) -> Float64:
    """Return float64[datasets], the cache as the jobs needed it, taken in this order.

    :param order: int64[running], the jobs in the order in which they were taken.
    :param wanted: bool[jobs], which may run; the other columns are those of the problem.
    :raises CertificateError: a job is listed twice or may not run, does not fit into the GPUs left
        by earlier jobs, or is not the one that ends first; or a job that fits is missing.

    A job that ends within a part in 10**9 of the first may precede it; of equal jobs the lower id
    comes first. O(jobs**2 / 256) at least, in NumPy; memory O(jobs + 2**20).
    """
    steps, count = len(order), len(rate)
    if steps and not (order.min() >= 0 and order.max() < count):
        raise CertificateError("order: an id is out of range")
    turn = np.full(count, steps)
    turn[order] = np.arange(steps)
    if not (turn[order] == np.arange(steps)).all() or not wanted[order].all():
        raise CertificateError("order: a job stands there twice, or is queued")
    slack = _GPU_SLACK * gpu_capacity
    free = gpu_capacity - np.concatenate(([0.0], np.cumsum(gpus[order])))
    if not (gpus[order] <= free[:-1] + slack).all():
        raise CertificateError("order: a job does not fit into the free GPUs")
    if (gpus[wanted & (turn == steps)] <= free[-1] + slack).any():
        raise CertificateError("running: a job that fits is left out")

    room, flow, before, held = _walk(order, dataset, rate, size, cache, bandwidth)

    def seconds(jobs: Int64, own: Float64, room: Float64, flow: Float64) -> Float64:
        """Return the jobs' remaining seconds / 1000, with `own` of their datasets cached."""
        whole = size[dataset[jobs]]
        missed = 1.0 - np.minimum(own + room, whole) / whole
        with np.errstate(divide="ignore", invalid="ignore"):
            fed = np.where(missed < _FULL, np.inf, flow / missed)
            needed = remaining[jobs] / np.minimum(rate[jobs], fed)
        return np.where(remaining[jobs] > 0.0, needed, 0.0)

    taken = seconds(order, before, room, flow)
    cached = np.zeros(len(size))
    begin = 0
    while begin < steps:
        if np.isinf(taken[begin]) and (np.diff(order[begin:]) < 0).any():
            # From here on no job makes progress, so all remaining jobs are alike.
            raise CertificateError("order: of jobs that never end the lowest id is first")
        late = np.flatnonzero(wanted & (turn > begin) & (gpus <= free[begin] + slack))
        now = seconds(late, cached[dataset[late]], room[begin], flow[begin])
        span = _span(begin, taken, now)
        end = span.stop
        close = late[now < taken[span].max() * (1.0 - _TOLERANCE)]
        own = np.tile(cached[dataset[close]], (end - begin, 1))
        for step in np.flatnonzero(held[span] > before[span]) + begin:
            read = dataset[order[step]]
            own[step + 1 - begin :, dataset[close] == read] = cached[read] = held[step]
        sooner = seconds(close, own, room[span, None], flow[span, None]) < taken[span, None] * (
            1.0 - _TOLERANCE
        )
        sooner &= turn[close] > np.arange(begin, end)[:, None]
        sooner &= gpus[close] <= free[span, None] + slack
        if sooner.any():
            raise CertificateError("order is not shortest first")
        begin = steps if np.isinf(taken[begin]) else end
    equal = np.lexsort((turn[order], remaining[order], rate[order], dataset[order]))
    rows = np.stack((dataset[order], rate[order], remaining[order]))[:, equal]
    alike = (rows[:, 1:] == rows[:, :-1]).all(axis=0)
    if (np.diff(order[equal])[alike] < 0).any():
        raise CertificateError("order: of equal jobs the lowest id is first")
    np.maximum.at(cached, dataset[order], held)
    return cached


def _span(begin: int, taken: Float64, now: Float64) -> slice:
    """Return the steps to check together: up to one that never ends, and fewer if many are close.

    `now` is what each of the others would take to end when they begin.
    """
    end = min(begin + _BLOCK, len(taken))
    stuck = np.flatnonzero(np.isinf(taken[begin:end]))
    if len(stuck):
        end = begin + max(int(stuck[0]), 1)
    while end - begin > 1:
        close = np.count_nonzero(now < taken[begin:end].max())
        if close * (end - begin) <= _PAIRS:
            break
        end = begin + (end - begin) // 2
    return slice(begin, end)


def _walk(
    order: Int64, dataset: Int64, rate: Float64, size: Float64, cache: float, bandwidth: float
) -> tuple[Float64, Float64, Float64, Float64]:
    """Return, by step: remaining cache and remote IO before it, its dataset cached before and
    after.
    """
    columns = np.zeros((4, len(order)))
    cached = dict.fromkeys(dataset[order].tolist(), 0.0)
    jobs = zip(dataset[order].tolist(), rate[order].tolist(), strict=True)
    for step, (read, speed) in enumerate(jobs):
        before, whole = cached[read], float(size[read])
        fits = whole - before <= cache
        after = whole if fits else before + cache
        columns[:, step] = cache, bandwidth, before, after
        cache = cache - (whole - before) if fits else 0.0
        cached[read] = after
        missed = 1.0 - after / whole
        bandwidth -= min(speed * missed, bandwidth) if missed >= _FULL else 0.0
    room, flow, before_each, after_each = columns
    return room, flow, before_each, after_each
