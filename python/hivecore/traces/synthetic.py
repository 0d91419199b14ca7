"""Generated multi-tenant traces with the statistics of a public one.

Two kinds of tenants take turns: *trainers* submit mostly whole nodes, *experimenters* many one-GPU
jobs. Jobs come in bursts of one size (sweeps over hyper-parameters), bursts come at random times,
and durations are log-normal for each size. All parameters are measured on the ITP clusters of
microsoft/elasticflow-traces (clusters 02, 03, 04, 06, 07: 39,686 jobs, 60 days):

- sizes: the trainer is cluster 06, the experimenter cluster 02; per size, the share of jobs and
  the median and the standard deviation of the logarithm of the duration;
- bursts: 91 % of the jobs have the size of the job before them, where 57 % would by chance (means
  of the five clusters), so a job continues its burst with probability (0.91 - 0.57) / (1 - 0.57);
- gaps: those within a burst last seconds, those between bursts are exponential. The coefficient of
  variation of a tenant's gaps is then about 3 (clusters: 3.3 to 5.3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_int, as_mapping
from hivecore.traces._random_jobs import as_sizes
from hivecore.traces.trace import Trace

__all__ = ["generate"]

_GPUS_PER_NODE = 8
_CONTINUES_BURST = 0.8
_GAP_IN_BURST = 5.0  # seconds
# ITP has no job below ten minutes; its longest ran for 14 days.
_SHORTEST, _LONGEST = 600.0, 14 * 86400.0


@dataclass(frozen=True, slots=True)
class _Mix:
    """Jobs of a kind of tenant: a row per size."""

    gpus: tuple[int, ...]
    share: tuple[float, ...]
    median_minutes: tuple[float, ...]
    log_deviation: tuple[float, ...]


_EXPERIMENTER = _Mix(
    gpus=(1, 2, 4, 8, 16, 32, 64),
    share=(0.854, 0.018, 0.052, 0.061, 0.006, 0.006, 0.002),
    median_minutes=(86, 184, 388, 114, 984, 179, 251),
    log_deviation=(1.42, 1.57, 1.49, 1.46, 1.45, 1.91, 1.74),
)
_TRAINER = _Mix(
    gpus=(1, 2, 4, 8, 16, 32, 64),
    share=(0.448, 0.003, 0.062, 0.452, 0.025, 0.008, 0.003),
    median_minutes=(36, 136, 248, 353, 55, 75, 695),
    log_deviation=(1.18, 2.19, 1.27, 1.44, 0.60, 0.32, 2.82),
)


def generate(tenants: Mapping[str, int], jobs: int, seed: int, load: float = 1.0) -> Trace:
    """Return a random trace of tenants that each keep `load` of their own GPUs busy on average.

    :param tenants: tenant -> owned nodes of 8 GPUs, at least 1. The first, third, ... are trainers,
        the others experimenters; no job is larger than its tenant.
    :param jobs: number of jobs of all tenants together, at least one per tenant.
    :param seed: equal seeds give equal traces.
    :param load: positive; GPU time of a tenant's jobs, divided by the GPU time that it owns while
        jobs are submitted. The trace and each tenant have exactly this load over the time in which
        submissions are drawn; the first to the last submission is a little shorter, by 2 % for
        1,000 jobs and 0.02 % for 50,000.
    :raises ValueError: an argument is out of range. :raises TypeError: it has a wrong type.

    Every tenant's jobs cover the same time, so a tenant with small jobs has many. Cost: O(jobs).
    Source: see the module.

    >>> trace = generate({"speech": 4, "vision": 8}, jobs=1000, seed=0, load=1.2)
    >>> span = float(trace.submit[-1])
    >>> trace.jobs, round(trace.gpu_hours * 3600 / (12 * 8 * span), 1)
    (1000, 1.2)
    """
    if not as_mapping(tenants, "tenants"):
        raise ValueError("tenants must own at least one node each, not {}")
    for name, nodes in tenants.items():
        as_int(nodes, f"tenants[{name!r}]", 1, 2**31 - 1)
    jobs, load, seed = as_sizes(jobs, load, seed)
    if jobs < len(tenants):
        raise ValueError(f"jobs must be at least one per tenant ({len(tenants)}), not {jobs}")

    mixes = [
        _within(_EXPERIMENTER if position % 2 else _TRAINER, nodes * _GPUS_PER_NODE)
        for position, nodes in enumerate(tenants.values())
    ]
    owned = np.array([nodes * _GPUS_PER_NODE for nodes in tenants.values()])
    rate = load * owned / np.array([_mean_work(mix) for mix in mixes])
    span = jobs / rate.sum()
    counts = _split(jobs, rate)
    streams = np.random.SeedSequence(seed).spawn(len(tenants))
    columns: list[tuple[npt.NDArray[np.float64], ...]] = []
    for mix, gpus, count, stream in zip(mixes, owned, counts, streams, strict=True):
        rng = np.random.default_rng(stream)
        submit, burst = _submissions(rng, int(count), span)
        size, duration = _jobs(rng, mix, burst)
        # Durations have heavy tails: without this the load of a trace would be random.
        duration *= load * gpus * span / (size @ duration)
        columns.append((submit, duration, size))
    submit, duration, size = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Trace.from_columns(
        np.arange(jobs).astype(np.str_),
        [name for name, count in zip(tenants, counts, strict=True) for _ in range(count)],
        submit,
        duration,
        size,
    )


def _within(mix: _Mix, gpus: int) -> _Mix:
    """Return the mix without the sizes above `gpus`."""
    kept = [row for row, size in enumerate(mix.gpus) if size <= gpus]
    return _Mix(
        gpus=tuple(mix.gpus[row] for row in kept),
        share=tuple(mix.share[row] for row in kept),
        median_minutes=tuple(mix.median_minutes[row] for row in kept),
        log_deviation=tuple(mix.log_deviation[row] for row in kept),
    )


def _mean_work(mix: _Mix) -> float:
    """Return the mean GPU-seconds per job."""
    rows = zip(mix.gpus, mix.share, mix.median_minutes, mix.log_deviation, strict=True)
    work = sum(
        gpus * share * _mean_duration(60 * minutes, sigma) for gpus, share, minutes, sigma in rows
    )
    return work / sum(mix.share)


def _mean_duration(median: float, sigma: float) -> float:
    """Return the mean of a log-normal duration clipped to [_SHORTEST, _LONGEST]."""
    cdf = NormalDist().cdf
    low, high = log(_SHORTEST / median) / sigma, log(_LONGEST / median) / sigma
    inside = median * exp(sigma**2 / 2) * (cdf(high - sigma) - cdf(low - sigma))
    return _SHORTEST * cdf(low) + inside + _LONGEST * (1 - cdf(high))


def _split(jobs: int, rate: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how many jobs each tenant has: in proportion to its rate, at least one."""
    spare = jobs - len(rate)
    edges = np.floor(np.cumsum(rate) / rate.sum() * spare + 0.5).astype(np.int64)
    counts: npt.NDArray[np.int64] = np.diff(edges, prepend=0) + 1
    return counts


def _submissions(
    rng: np.random.Generator, count: int, span: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return ascending times within [0, span] and the number of each job's burst."""
    new_burst = (rng.random(count) >= _CONTINUES_BURST).astype(np.int64)
    new_burst[0] = 0
    burst = np.cumsum(new_burst)
    begins = np.sort(rng.uniform(0, span, burst[-1] + 1))
    gaps = rng.exponential(_GAP_IN_BURST, count)
    first = np.searchsorted(burst, burst)
    since = np.cumsum(gaps)
    return np.minimum(begins[burst] + since - since[first], span), burst


def _jobs(
    rng: np.random.Generator, mix: _Mix, burst: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return size and duration of each job; the jobs of a burst have equal sizes."""
    share = np.array(mix.share) / sum(mix.share)
    row = rng.choice(len(share), size=int(burst[-1]) + 1, p=share)[burst]
    noise = rng.standard_normal(len(row))
    minutes = np.array(mix.median_minutes)[row]
    duration = minutes * 60 * np.exp(np.array(mix.log_deviation)[row] * noise)
    return np.array(mix.gpus, dtype=np.float64)[row], np.clip(duration, _SHORTEST, _LONGEST)
