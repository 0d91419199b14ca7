"""What a spec made of the jobs, in figures.

Specs refuse different jobs, so completion and queueing are told of those only that ran to their end
under all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np
import numpy.typing as npt

from hivecore.sim.specs.run import SpecRun
from hivecore.sim.specs.trace_jobs import TraceJobs

__all__ = ["SpecFigures", "compared_jobs", "spec_figures"]


@dataclass(frozen=True, slots=True)
class SpecFigures:
    """What one tenant, or all of them, got under one spec; times in seconds.

    :param jobs: how many came.
    :param refused: those of them that were rejected, or waited for ever.
    :param compared: those that ran to their end under all specs; the times are theirs, NaN if there
        are none.
    :param mean_completion: from submission to end, mean.
    :param p50_completion: the median of it.
    :param p99_completion: the 99th percentile of it, interpolated linearly, as is the median.
    :param mean_queueing: from submission to the begin of the run that was completed: runs that were
        preempted count as waiting.
    :param utilisation: useful work of all jobs until the last submission, or until the last end if
        all came at once / what the GPUs of the cluster could have done. Useful is what a job does
        that it does not lose: GPUs times seconds at full speed, spread evenly over the run that it
        completed. NaN: it is not known how many GPUs there are.
    :param preemptions: how often jobs were preempted.
    :param lost_gpu_hours: work of runs that were preempted, in vain.
    """

    jobs: int
    refused: int
    compared: int
    mean_completion: float
    p50_completion: float
    p99_completion: float
    mean_queueing: float
    utilisation: float
    preemptions: int
    lost_gpu_hours: float


def compared_jobs(runs: Mapping[str, SpecRun]) -> npt.NDArray[np.bool_]:
    """Return which jobs ran to their end under all specs, bool[jobs].

    :param runs: of `replay_specs`, at least one.
    """
    ends = np.array([run.outcome.end for run in runs.values()])
    done: npt.NDArray[np.bool_] = np.isfinite(ends).all(axis=0)
    return done


def spec_figures(
    trace: TraceJobs, runs: Mapping[str, SpecRun], name: str, tenant: str | None = None
) -> SpecFigures:
    """Return the figures of a spec.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.
    :param name: of the spec.
    :param tenant: whose jobs, on all GPUs; ``None``: all.
    :raises KeyError: there is no such spec, or no such tenant.

    Cost: O(specs jobs).

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.sim.specs import replay_specs
    >>> from hivecore.traces import Trace
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: {}}"
    >>> specs = {"one": SchedulerSpec.of_yaml(text)}
    >>> columns = ["a", "b", "c"], ["x", "x", "x"], [0, 0, 9], [60, 30, 5], [8, 8, 99]
    >>> trace = TraceJobs.of(Trace.from_columns(*columns))
    >>> found = spec_figures(trace, replay_specs(trace, specs), "one")
    >>> found.refused, found.mean_completion, found.mean_queueing
    (1, 75.0, 30.0)
    """
    run = runs[name]
    outcome = run.outcome
    own = np.ones(len(trace), dtype=np.bool_)
    if tenant is not None:
        own = np.array([one == tenant for one in trace.tenant])
        if not own.any():
            raise KeyError(f"there is no tenant {tenant!r}")
    done = own & np.isfinite(outcome.end)
    both = own & compared_jobs(runs)
    completion = (outcome.end - trace.submit)[both]
    queueing = (outcome.start - trace.submit)[both]
    some = len(completion) > 0
    return SpecFigures(
        jobs=int(own.sum()),
        refused=int(own.sum() - done.sum()),
        compared=len(completion),
        mean_completion=float(completion.mean()) if some else nan,
        p50_completion=float(np.median(completion)) if some else nan,
        p99_completion=float(np.percentile(completion, 99)) if some else nan,
        mean_queueing=float(queueing.mean()) if some else nan,
        utilisation=_utilisation(trace, run, done),
        preemptions=int(outcome.preemptions[own].sum()),
        lost_gpu_hours=float(trace.gpus[own] @ outcome.lost[own]) / 3600.0,
    )


def _utilisation(trace: TraceJobs, run: SpecRun, done: npt.NDArray[np.bool_]) -> float:
    if not run.gpus:
        return nan
    if not done.any():
        return 0.0
    start, end = run.outcome.start[done], run.outcome.end[done]
    window = float(trace.submit[-1]) or float(end.max())
    span = np.maximum(end - start, 1e-9)  # a job may be too short for the clock
    share = np.clip((window - start) / span, 0.0, 1.0)
    useful = float(trace.gpus[done] * trace.duration[done] @ share)
    return useful / (run.gpus * window)
