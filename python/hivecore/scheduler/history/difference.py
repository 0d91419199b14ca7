"""Compares a log with another configuration: which jobs would have started sooner or later."""

from collections.abc import Container
from itertools import accumulate
from math import inf, nan

from hivecore._record import Record
from hivecore._stateful import counted
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.scheduler.history.recorder import JobHistory, Recorder
from hivecore.scheduler.history.rerun import LoggedRun, rerun
from hivecore.scheduler.log.files import LogPath
from hivecore.scheduler.scheduler import Scheduler

__all__ = ["JobDifference", "LogDifference", "LogFigures", "diff_log"]

_ENDS = {"finish", "cancel"}


class JobDifference(Record, frozen=True):
    """When a job started, and when it would have started under another configuration.

    :param job: its name; a later job of the same name gets "#2" and so on.
    :param tenant: its tenant.
    :param gpus: GPUs of all its pods.
    :param submitted: time of submission, in seconds.
    :param before: time of its first start in the log; ``None``: it did not start.
    :param after: time of its first start under the other configuration.
    :param rejected_before: why it was rejected in the log; "": it was not.
    :param rejected_after: why the other configuration rejects it; "": it does not.
    """

    job: str
    tenant: str
    gpus: int
    submitted: float
    before: float | None
    after: float | None
    rejected_before: str = ""
    rejected_after: str = ""

    @property
    def sooner(self) -> float:
        """By how many seconds it starts sooner; negative: later; inf: only the other configuration
        starts it.

        >>> from hivecore.scheduler import JobDifference
        >>> JobDifference("train", "vision", 8, 0.0, 60.0, 20.0).sooner
        40.0
        """
        if self.before == self.after:
            return 0.0
        if self.before is None:
            return inf
        return -inf if self.after is None else self.before - self.after


class LogFigures(Record, frozen=True):
    """Summary of a log, from its beginning to its end.

    :param started: number of jobs that started.
    :param rejected: number of jobs that could never run.
    :param preemptions: how often a job was stopped for another one.
    :param mean_wait: mean time in seconds from submission to the first start, to the cancellation
        or to the end of the log, whichever comes first; without jobs that either configuration
        rejects, NaN if no others are left.
    :param gpus: GPUs of the cluster at the beginning; 0 if unknown.
    :param gpu_seconds: GPU-seconds in use.
    :param utilisation: these as a fraction of the capacity; above 1 if GPUs were added, 0.0 if the
        capacity is unknown.
    :param usage: pairs of a time and the GPUs in use from then on.
    :param waiting: pairs of a time and the number of waiting jobs from then on.
    """

    started: int
    rejected: int
    preemptions: int
    mean_wait: float
    gpus: int
    gpu_seconds: float
    utilisation: float
    usage: tuple[tuple[float, int], ...]
    waiting: tuple[tuple[float, int], ...]


class LogDifference(Record, frozen=True):
    """A log compared with the same events under another configuration.

    :param begin: beginning of the log, in seconds.
    :param end: end of the log.
    :param jobs: in order of submission.
    :param before: summary of the log.
    :param after: summary of the other configuration.
    :param endless: number of jobs that start under the other configuration and never end, as the
        log does not say how long they run.
    :param skipped: number of events that do not apply to the other configuration: of unknown nodes,
        quotas or cells, changes of a part from outside, orders of jobs, moves and regroupings.
    """

    begin: float
    end: float
    jobs: tuple[JobDifference, ...]
    before: LogFigures
    after: LogFigures
    endless: int
    skipped: int

    @property
    def sooner(self) -> tuple[JobDifference, ...]:
        """Jobs that start sooner, or only, under the other configuration; the largest gain first,
        then by name. Without `rejected` jobs.
        """
        jobs = (job for job in self.jobs if job.sooner > 0 and not _is_rejected(job))
        return tuple(sorted(jobs, key=lambda job: (-job.sooner, job.job)))

    @property
    def later(self) -> tuple[JobDifference, ...]:
        """Jobs that start later under the other configuration, or only in the log; the largest
        loss first, then by name. Without `rejected` jobs.
        """
        jobs = (job for job in self.jobs if job.sooner < 0 and not _is_rejected(job))
        return tuple(sorted(jobs, key=lambda job: (job.sooner, job.job)))

    @property
    def rejected(self) -> tuple[JobDifference, ...]:
        """Jobs that the log, the other configuration or both reject, in order of submission."""
        return tuple(filter(_is_rejected, self.jobs))


def _is_rejected(job: JobDifference) -> bool:
    return bool(job.rejected_before or job.rejected_after)


def diff_log(path: LogPath, scheduler: Scheduler, *, until: float | None = None) -> LogDifference:
    """Replay the events of a log with another scheduler, and compare.

    :param scheduler: the other scheduler, without jobs. It is used up.
    :param until: treat the log as ended at this time, in seconds; ``None``: use all of it.
    :raises ValueError: the scheduler has jobs, or its time is after the beginning of the log.
    :raises CorruptStateError: the log is damaged, see `replay`.

    Jobs are submitted, waiting jobs are cancelled, and nodes, quotas and cells change at the logged
    times. Everything else follows from the other scheduler's decisions: a job runs for as long as
    in the log and ends as it did there; a preempted job resumes with the rest; a job without an end
    in the log has none. Victims take as long to stop as in the log, other jobs the mean of these
    times, or 30 seconds. Decisions come at the logged times; if most events of the log are decided
    on at once, so are events at other times. Failures of single pods that joined later are left
    out. The same configuration gives the same starts if no event is skipped and no idle cells are
    lent.

    Cost: a `replay`, and the decisions of the other scheduler.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler, diff_log
    >>> def with_gpus(gpus, **options):
    ...     tree = QuotaTree([Quota("lab", max={"gpu": gpus})], total={"gpu": gpus})
    ...     return Scheduler(quotas=tree, **options)
    >>> path = Path(tempfile.mkdtemp()) / "log"
    >>> scheduler = with_gpus(8, log=path)
    >>> for name in ("a", "b"):
    ...     scheduler.submit(Job(name, "lab", 6), 0.0)
    >>> _ = scheduler.decide(0.0)
    >>> for name, now in (("a", 60.0), ("b", 100.0)):
    ...     scheduler.finish(name, now)
    ...     _ = scheduler.decide(now)
    >>> scheduler.close()
    >>> found = diff_log(path, with_gpus(12))
    >>> [(one.job, one.before, one.after) for one in found.sooner], found.after.mean_wait
    ([('b', 60.0, 0.0)], 0.0)
    """
    given: object = scheduler
    if not isinstance(given, Scheduler):
        raise TypeError(f"scheduler must be a Scheduler, not {type(given).__name__}")
    if len(scheduler):
        raise ValueError(f"scheduler: has {counted(len(scheduler), 'job')}, and must have none")
    log = LoggedRun(path, until)
    begin, end = log.recorder.begin, log.end
    if scheduler.now > begin:
        raise ValueError(f"scheduler: its time is {scheduler.now!r}, the log begins at {begin!r}")
    gpus = gpus_of(scheduler)
    after, skipped = rerun(log, scheduler)
    logged = log.recorder.jobs
    jobs = tuple(_job(key, history, after.jobs[key]) for key, history in logged.items())
    running = [
        key for key, history in after.jobs.items() if history.runs and history.runs[-1].end is None
    ]
    rejected = {job.job for job in jobs if _is_rejected(job)}
    endless = sum(not {run.how for run in logged[key].runs} & _ENDS for key in running)
    return LogDifference(
        begin,
        end,
        jobs,
        _figures(log.recorder, log.gpus, end, rejected),
        _figures(after, gpus, end, rejected),
        endless,
        log.skipped + skipped,
    )


def _job(key: str, before: JobHistory, after: JobHistory) -> JobDifference:
    job = before.job
    starts = before.submitted, before.started, after.started
    return JobDifference(key, job.tenant, job.gpus, *starts, before.rejected, after.rejected)


def _figures(recorder: Recorder, gpus: int, end: float, unlike: Container[str]) -> LogFigures:
    waits, changes = [], {recorder.begin: 0}
    for key, history in recorder.jobs.items():
        if history.rejected:
            continue
        until = history.started
        if until is None:
            until = end if history.gone is None else history.gone
        if key not in unlike:
            waits.append(until - history.submitted)
        changes[history.submitted] = changes.get(history.submitted, 0) + 1
        if history.runs or history.gone is not None:
            changes[until] = changes.get(until, 0) - 1
    until_next = [*[time for time, _ in recorder.usage[1:]], end]
    used = sum(
        held * (last - first)
        for (first, held), last in zip(recorder.usage, until_next, strict=True)
    )
    possible = gpus * (end - recorder.begin)
    histories, times = recorder.jobs.values(), sorted(changes)
    return LogFigures(
        started=sum(bool(history.runs) for history in histories),
        rejected=sum(bool(history.rejected) for history in histories),
        preemptions=sum(run.how == "preempt" for history in histories for run in history.runs),
        mean_wait=sum(waits) / len(waits) if waits else nan,
        gpus=gpus,
        gpu_seconds=used,
        utilisation=used / possible if possible else 0.0,
        usage=tuple(recorder.usage),
        waiting=tuple(zip(times, accumulate(map(changes.__getitem__, times)), strict=True)),
    )
