"""What a configuration brought, in figures.

A guarantee is that a tenant gets on as though it were alone on the nodes that it owns. It is broken
for a job that starts later than that, by more than a microsecond. Jobs that share GPUs, or wait for
data, take longer: whether a job also *ends* later than alone is counted beside it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hivecore.sim.demo.run import ALONE, Demo

__all__ = ["DemoFigures", "demo_figures"]

_TOLERANCE = 1e-6  # seconds; sums of durations are rounded
_GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """What one tenant, or all of them, got from one configuration; times in seconds.

    :param jobs: how many.
    :param mean_completion: from submission to end, mean over all jobs.
    :param p99_completion: the 99th percentile of it, interpolated linearly.
    :param mean_queueing: from submission to the begin of the run that was completed: runs that were
        preempted count as waiting.
    :param utilisation: useful work until the last submission / what the owned GPUs could have done.
        Useful is what a job does that it does not lose: GPUs times seconds at full speed, spread
        evenly over the run that it completed. Jobs that share GPUs count each with its own work,
        those that wait for data with what they get done.
    :param later: jobs that start later than alone: broken guarantees.
    :param max_excess: by how much, at most; 0 if none does.
    :param ends_later: jobs that end later than alone.
    :param lost_gpu_hours: work of runs that were preempted, in vain.
    """

    jobs: int
    mean_completion: float
    p99_completion: float
    mean_queueing: float
    utilisation: float
    later: int
    max_excess: float
    ends_later: int
    lost_gpu_hours: float


def demo_figures(demo: Demo, name: str, tenant: str | None = None) -> DemoFigures:
    """Return the figures of a configuration.

    :param demo: outcome of `run_demo`.
    :param name: of the configuration.
    :param tenant: whose jobs and nodes; ``None``: all.
    :raises KeyError: there is no such configuration, or no such tenant.

    Cost: O(jobs).

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> demo = run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000.0, 6000.0)
    >>> demo_figures(demo, "cells").jobs, demo_figures(demo, "alone").later
    (60, 0)
    """
    trace, run, alone = demo.made.trace, demo.runs[name], demo.runs[ALONE]
    own: npt.NDArray[np.bool_] = np.ones(trace.jobs, dtype=np.bool_)
    nodes = sum(demo.made.nodes.values())
    if tenant is not None:
        nodes = demo.made.nodes[tenant]
        own = trace.tenant == trace.tenants.index(tenant)
    submit, start, end = trace.submit[own], run.start[own], run.end[own]
    excess = start - alone.start[own]
    window = float(trace.submit[-1])
    done = np.clip((window - start) / (end - start), 0.0, 1.0)
    useful = float(trace.gpus[own] * trace.duration[own] @ done)
    later = excess > _TOLERANCE
    return DemoFigures(
        jobs=int(own.sum()),
        mean_completion=float((end - submit).mean()),
        p99_completion=float(np.percentile(end - submit, 99)),
        mean_queueing=float((start - submit).mean()),
        utilisation=useful / (nodes * _GPUS_PER_NODE * window),
        later=int(later.sum()),
        max_excess=float(excess[later].max(initial=0.0)),
        ends_later=int((end - alone.end[own] > _TOLERANCE).sum()),
        lost_gpu_hours=float(trace.gpus[own] @ run.lost[own]) / 3600.0,
    )
