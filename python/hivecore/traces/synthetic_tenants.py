"""Generates a trace of five tenants with different jobs, for all parts of a scheduler.

Each job has stages, so that it may share GPUs, and most read a dataset, so that storage may slow
them. Nothing is measured: the numbers are round, in the range of the neighbouring modules. Do not
compare results with published figures.

vision     data-bound: a GPU reads up to 114 MB/s of image sets that several jobs read.
language   big gangs, bound by the network, that read next to nothing.
speech     bursts of some twenty small jobs of equal size, then nothing for hours.
ads        most of the jobs, all of one or two GPUs.
robots     jobs on all of its nodes, one after another at equal intervals, that read nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hivecore.traces._random_jobs import as_factor, as_sizes
from hivecore.traces.trace import Trace

__all__ = ["TenantsTrace", "generate_tenants"]

_GPUS_PER_NODE = 8
_GAP_IN_BURST = 5.0  # seconds
_LONGEST = 12.0  # medians
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class _Model:
    """A model in training: a share of its tenant's jobs.

    Milliseconds of an iteration for storage and CPU, for the GPU, and for each doubling of the GPUs
    on the network; MB/s that a GPU reads.
    """

    share: float
    stages: tuple[float, float, float]
    rate_mbps: float = 0.0


@dataclass(frozen=True, slots=True)
class _Tenant:
    """An owner of nodes, and the kind of its jobs."""

    nodes: int
    #: of all jobs
    share: float
    gpus: tuple[int, ...]
    shares: tuple[float, ...]
    log_deviation: float
    models: tuple[_Model, ...]
    datasets_gb: tuple[float, ...] = ()
    arrivals: Literal["random", "bursts", "steady"] = "random"
    burst: int = 1


_TENANTS: Mapping[str, _Tenant] = {
    "vision": _Tenant(
        nodes=14,
        share=0.2,
        gpus=(1, 2, 4, 8, 16),
        shares=(0.3, 0.1, 0.25, 0.3, 0.05),
        log_deviation=1.0,
        models=(_Model(0.7, (350, 60, 10), 114.0), _Model(0.3, (60, 340, 10), 20.0)),
        datasets_gb=3 * (143.0, 330.0, 660.0, 900.0, 1360.0, 1460.0),
    ),
    "language": _Tenant(
        nodes=16,
        share=0.06,
        gpus=(8, 16, 32, 64),
        shares=(0.45, 0.3, 0.2, 0.05),
        log_deviation=1.0,
        models=(_Model(0.6, (5, 200, 60), 2.0), _Model(0.4, (5, 340, 20), 2.0)),
        datasets_gb=(20_900.0,),
    ),
    "speech": _Tenant(
        nodes=8,
        share=0.28,
        gpus=(1, 2, 4),
        shares=(0.6, 0.2, 0.2),
        log_deviation=0.7,
        models=(_Model(0.7, (40, 330, 10), 15.0), _Model(0.3, (300, 60, 5), 40.0)),
        datasets_gb=(500.0, 960.0),
        arrivals="bursts",
        burst=20,
    ),
    "ads": _Tenant(
        nodes=10,
        share=0.43,
        gpus=(1, 2),
        shares=(0.7, 0.3),
        log_deviation=1.2,
        models=(_Model(0.5, (60, 60, 110), 30.0), _Model(0.5, (200, 100, 20), 30.0)),
        datasets_gb=(2000.0, 4000.0),
    ),
    "robots": _Tenant(
        nodes=6,
        share=0.03,
        gpus=(48,),
        shares=(1.0,),
        log_deviation=0.3,
        models=(_Model(0.5, (300, 20, 2)), _Model(0.5, (40, 300, 5))),
        arrivals="steady",
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class TenantsTrace:
    """Jobs of several tenants, with their stages and datasets.

    :param trace: what each tenant submits, when, and each job's duration at full speed.
    :param nodes: tenant -> owned nodes of 8 GPUs; together they are the cluster.
    :param stages: float64[jobs, 3], seconds of an iteration on storage and CPU, the GPU, and the
        network.
    :param dataset: str[jobs], what each reads, or "".
    :param rate_mbps: float64[jobs], MB/s that all GPUs of a job consume if they never wait.
    :param datasets_gb: size of each dataset by name.
    """

    trace: Trace
    nodes: Mapping[str, int]
    stages: npt.NDArray[np.float64]
    dataset: npt.NDArray[np.str_]
    rate_mbps: npt.NDArray[np.float64]
    datasets_gb: Mapping[str, float]


def generate_tenants(jobs: int, seed: int, load: float = 0.9, days: float = 3.0) -> TenantsTrace:
    """Return random jobs of five tenants, each with a different kind.

    :param jobs: of all tenants together, at least 50. Fewer jobs are longer.
    :param seed: equal seeds give equal traces.
    :param load: positive; GPU time of a tenant's jobs at full speed, divided by the GPU time that
        it owns in these days. Each tenant has exactly this load.
    :param days: positive; all jobs are submitted within them.
    :raises ValueError: an argument is out of range.

    Run times are log-normal, at most 12 times the median of the tenant. Cost: O(jobs). Source:
    invented, see the module.

    >>> tenants = generate_tenants(jobs=500, seed=0, load=0.8)
    >>> tenants.trace.tenants, sum(tenants.nodes.values())
    (('ads', 'language', 'robots', 'speech', 'vision'), 54)
    >>> round(tenants.trace.gpu_hours / (54 * 8 * 72), 6)
    0.8
    """
    jobs, load, seed = as_sizes(jobs, load, seed)
    if jobs < _FEWEST:
        raise ValueError(f"jobs must be at least {_FEWEST}, not {jobs}")
    days = as_factor(days, "days")
    counts = _split(jobs)
    streams = np.random.SeedSequence(seed).spawn(len(_TENANTS))
    parts = [
        _jobs_of(name, tenant, count, np.random.default_rng(stream), load, days * _DAY)
        for (name, tenant), count, stream in zip(_TENANTS.items(), counts, streams, strict=True)
    ]
    submit, duration, gpus, stages, dataset, rate = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    order = np.argsort(submit, kind="stable")
    owners = np.repeat(np.array(list(_TENANTS)), counts)[order]
    return TenantsTrace(
        trace=Trace.from_columns(
            np.arange(jobs).astype(np.str_),
            owners.tolist(),
            submit[order],
            duration[order],
            gpus[order],
        ),
        nodes={name: tenant.nodes for name, tenant in _TENANTS.items()},
        stages=stages[order],
        dataset=dataset[order],
        rate_mbps=rate[order],
        datasets_gb={
            _dataset(name, number): size
            for name, tenant in _TENANTS.items()
            for number, size in enumerate(tenant.datasets_gb)
        },
    )


_FEWEST = 50


def _split(jobs: int) -> list[int]:
    """Return the number of jobs of each tenant."""
    share = np.cumsum([tenant.share for tenant in _TENANTS.values()])
    edges = np.rint(share / share[-1] * jobs).astype(np.int64)
    return [int(count) for count in np.diff(edges, prepend=0)]


def _dataset(tenant: str, number: int) -> str:
    return f"{tenant}-{number}"


def _jobs_of(
    name: str, tenant: _Tenant, count: int, rng: np.random.Generator, load: float, span: float
) -> tuple[npt.NDArray[np.generic], ...]:
    """Return the columns of a tenant's jobs; those of a burst have equal size,
    model and dataset.
    """
    submit, burst = _submissions(tenant, count, rng, span)
    bursts = int(burst[-1]) + 1
    gpus = np.array(tenant.gpus)[rng.choice(len(tenant.gpus), size=bursts, p=tenant.shares)][burst]
    shares = [model.share for model in tenant.models]
    model = rng.choice(len(shares), size=bursts, p=shares)[burst]
    duration = np.exp(tenant.log_deviation * rng.standard_normal(count))
    duration = np.minimum(duration, _LONGEST)
    duration *= load * tenant.nodes * _GPUS_PER_NODE * span / float(gpus @ duration)
    stages = np.array([profile.stages for profile in tenant.models])[model] / 1000.0
    stages[:, 2] *= np.log2(gpus)
    rate = np.array([profile.rate_mbps for profile in tenant.models])[model] * gpus
    dataset = np.full(count, "", dtype="U16")
    if tenant.datasets_gb:
        names = [_dataset(name, number) for number in range(len(tenant.datasets_gb))]
        dataset = np.array(names, dtype="U16")[rng.integers(len(names), size=bursts)][burst]
    return submit, duration, gpus, stages, dataset, rate


def _submissions(
    tenant: _Tenant, count: int, rng: np.random.Generator, span: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return ascending times within the span, and the number of each job's burst."""
    burst = np.arange(count) // tenant.burst
    bursts = int(burst[-1]) + 1
    if tenant.arrivals == "steady":
        begins = (np.arange(bursts) + rng.random()) * span / bursts
    else:
        begins = np.sort(rng.uniform(0.0, span, bursts))
    since = (np.arange(count) - burst * tenant.burst) * _GAP_IN_BURST
    return np.minimum(begins[burst] + since, span), burst
