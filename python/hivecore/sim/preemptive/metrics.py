"""What an outcome comes to: completion times and queueing."""

from dataclasses import dataclass
from math import prod

from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.training import Outcome

__all__ = ["JobFigures", "job_figures"]


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Figures over all jobs, times in seconds. A job's completion time counts from submission.

    :param mean_completion: mean completion time.
    :param p99_completion: of the sorted completion times the one at place floor(0.99 jobs), from 0.
    :param makespan: end of the last job, counted from time 0.
    :param mean_queueing: mean time without GPUs between submission and end.
    :param preemptions: how often the policy stopped a running job.
    :param events: instants at which the policy chose.
    :param interruptions: how often a failure stopped a running job.
    :param lost_gpu_hours: work that failures undid, as if each job had been alone on its GPUs.
    """

    mean_completion: float
    p99_completion: float
    makespan: float
    mean_queueing: float
    preemptions: int
    events: int
    interruptions: int = 0
    lost_gpu_hours: float = 0.0


def job_figures(jobs: Jobs, outcome: Outcome) -> JobFigures:
    """Return the figures of an outcome.

    :param jobs: the jobs.
    :param outcome: of these jobs.
    """
    count = len(jobs)
    times = sorted(end - submit for end, submit in zip(outcome.end, jobs.submit, strict=True))
    completion, held = sum(times), sum(outcome.held)
    return JobFigures(
        mean_completion=completion / count,
        p99_completion=times[int(0.99 * count)],
        makespan=max(outcome.end),
        mean_queueing=(completion - held) / count,
        preemptions=outcome.preemptions,
        events=outcome.events,
        interruptions=outcome.interruptions,
        lost_gpu_hours=sum(map(prod, zip(outcome.lost, jobs.solo, jobs.gpus, strict=True))) / 3600,
    )
