"""The figures of training jobs: completion times and queueing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

from hivecore.sim import columns
from hivecore.sim.figures import percentile
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.pictures import job_pictures
from hivecore.sim.preemptive.training import JobOutcome
from hivecore.sim.report import Report

__all__ = ["JobFigures", "job_figures", "jobs_report"]


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Figures over all jobs, times in seconds. Completion times count from submission.

    :param mean_completion: mean completion time.
    :param p99_completion: their 99th percentile, interpolated linearly.
    :param makespan: end of the last job, from time 0.
    :param mean_queueing: mean time without GPUs between submission and end.
    :param preemptions: how often the policy stopped a running job.
    :param events: instants at which the policy chose.
    :param interruptions: how often a failure stopped a running job.
    :param lost_gpu_hours: work lost by failures, as if each job were alone on its GPUs.
    """

    mean_completion: Annotated[float, columns.time("mean\ncompletion")]
    p99_completion: Annotated[float, columns.time("p99\ncompletion")]
    makespan: Annotated[float, columns.time("makespan")]
    mean_queueing: Annotated[float, columns.time("mean\nqueueing")]
    preemptions: Annotated[int, columns.count("preemp-\ntions")]
    events: Annotated[int, columns.count()]
    interruptions: Annotated[int, columns.count("interrup-\ntions")] = 0
    lost_gpu_hours: Annotated[float, columns.Column("lost\nGPU-hours", "{:,.0f}")] = 0.0


def job_figures(jobs: Jobs, outcome: JobOutcome) -> JobFigures:
    """Return the figures of an outcome.

    :param jobs: the jobs.
    :param outcome: of these jobs.
    """
    count = len(jobs)
    times = sorted(end - submit for end, submit in zip(outcome.end, jobs.submit, strict=True))
    completion, held = sum(times), sum(outcome.held)
    return JobFigures(
        mean_completion=completion / count,
        p99_completion=percentile(times, 99),
        makespan=max(outcome.end),
        mean_queueing=(completion - held) / count,
        preemptions=outcome.preemptions,
        events=outcome.events,
        interruptions=outcome.interruptions,
        lost_gpu_hours=sum(map(prod, zip(outcome.lost, jobs.solo, jobs.gpus, strict=True))) / 3600,
    )


def jobs_report(
    jobs: Jobs, nodes: int, outcomes: Mapping[str, JobOutcome], findings: Sequence[str] = ()
) -> Report:
    """Return a report with a row per policy; effects of failures are shown if there were any."""
    figures = {policy: job_figures(jobs, outcome) for policy, outcome in outcomes.items()}
    notes = ["completion: from submission to end; queueing: without GPUs"]
    shown = slice(-2)
    if any(each.interruptions for each in figures.values()):
        notes.append("interruptions: by failures; lost: what they undid")
        shown = slice(None)
    return Report(
        "Training jobs, times in minutes",
        [columns.label("policy"), *columns.of(JobFigures)[shown]],
        [(policy, *columns.values(each)[shown]) for policy, each in figures.items()],
        notes,
        findings,
        "hivecore.jobs/2",
        {"policies": {policy: columns.as_json(each) for policy, each in figures.items()}},
        job_pictures(jobs, nodes, outcomes),
    )
