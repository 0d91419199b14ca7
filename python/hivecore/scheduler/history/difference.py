"""A log under another configuration: which jobs start sooner, which later."""

from itertools import accumulate
from math import inf

from hivecore._record import Record
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.scheduler.history.recorder import JobHistory, Recorder
from hivecore.scheduler.history.rerun import Told, rerun
from hivecore.scheduler.log.files import LogPath
from hivecore.scheduler.scheduler import Scheduler

__all__ = ["JobDifference", "LogDifference", "LogFigures", "diff_log"]

_ENDS = {"finish", "cancel"}


class JobDifference(Record, frozen=True):
    """When a job started, and when it would have.

    :param job: its name; "#2" and so on follows that of a later one of the same name.
    :param tenant: the tenant of the job.
    :param gpus: of all its pods.
    :param submitted: when it came, in seconds.
    :param before: when it started for the first time; ``None``: not until the end of the log.
    :param after: the same under the other configuration.
    """

    job: str
    tenant: str
    gpus: int
    submitted: float
    before: float | None
    after: float | None

    @property
    def sooner(self) -> float:
        """By how many seconds it starts sooner, below 0 later; inf: it would not start otherwise.

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
    """How well a cluster did, from the beginning of a log to its end.

    :param started: how many jobs started.
    :param rejected: how many could never run.
    :param preemptions: how often a job was stopped for another one.
    :param mean_wait: seconds from submission to the first start, or to the end of the log for jobs
        that did not start; rejected jobs do not count.
    :param gpus: of the cluster at the beginning; 0: not known.
    :param gpu_seconds: in use.
    :param utilisation: of these GPUs, 0 to 1, or more if others came; 0.0 if it is not known how
        many there are.
    :param usage: pairs of a time and the GPUs in use from then on.
    :param waiting: pairs of a time and the jobs that wait from then on.
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
    """A log, and the same events under another configuration.

    :param begin: of the log, in seconds.
    :param end: of the log.
    :param jobs: in the order in which they came.
    :param before: of the log.
    :param after: of the other configuration.
    :param endless: how many jobs that start under the other configuration have no end, since the
        log does not tell for how long they run.
    :param skipped: how many events say nothing to the other configuration: of nodes, quotas or
        cells that it does not have, changes of a part from outside, orders that say which jobs run,
        moves and regroupings.
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
        """The jobs that start sooner, the one that gains most first."""
        jobs = (job for job in self.jobs if job.sooner > 0)
        return tuple(sorted(jobs, key=lambda job: (-job.sooner, job.job)))

    @property
    def later(self) -> tuple[JobDifference, ...]:
        """The jobs that start later, the one that loses most first."""
        jobs = (job for job in self.jobs if job.sooner < 0)
        return tuple(sorted(jobs, key=lambda job: (job.sooner, job.job)))


def diff_log(path: LogPath, scheduler: Scheduler, *, until: float | None = None) -> LogDifference:
    """The events of a log under another scheduler.

    :param scheduler: another one, with no job in it; it is used up.
    :param until: take the log for ended at this time, in seconds; ``None``: all of it.
    :raises ValueError: the scheduler has a job, or its time is behind the beginning of the log.
    :raises CorruptStateError: as of `replay`.

    Jobs come, are cancelled while they wait, and nodes, quotas and cells change at the logged
    times, as far as the other scheduler has them. What follows
    from decisions does so from the other ones: a job that starts at another time runs for as long
    as it did in the log, then ends, fails or is cancelled as it did there; one that is preempted
    goes on later with what is left; one that the log saw no end of has none. Victims stop after the
    time that they took in the log, others after the mean of these, or 30 seconds if there is none.
    Where the log decides whenever something has happened, so does this; else at its times. Jobs
    that were there at its beginning come at its beginning. Failures of single pods that had joined
    later are left out. The same configuration gives the same starts if no event is skipped, and no
    idle cells are lent.

    Cost: that of a `replay` and of the decisions of the other scheduler.

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
        raise ValueError(f"scheduler: has {len(scheduler)} jobs, allowed is none")
    told = Told(path, until)
    begin, end = told.recorder.begin, told.end
    if scheduler.now > begin:
        raise ValueError(f"scheduler: its time is {scheduler.now!r}, the log begins at {begin!r}")
    gpus = gpus_of(scheduler)
    after, skipped = rerun(told, scheduler)
    logged = told.recorder.jobs
    jobs = tuple(_job(key, history, after.jobs[key]) for key, history in logged.items())
    running = [
        key for key, history in after.jobs.items() if history.runs and history.runs[-1].end is None
    ]
    endless = sum(not {run.how for run in logged[key].runs} & _ENDS for key in running)
    return LogDifference(
        begin,
        end,
        jobs,
        _figures(told.recorder, told.gpus, end),
        _figures(after, gpus, end),
        endless,
        told.skipped + skipped,
    )


def _job(key: str, before: JobHistory, after: JobHistory) -> JobDifference:
    job = before.job
    return JobDifference(key, job.tenant, job.gpus, before.submitted, before.started, after.started)


def _figures(recorder: Recorder, gpus: int, end: float) -> LogFigures:
    waits, changes = [], {recorder.begin: 0}
    for history in recorder.jobs.values():
        if history.rejected:
            continue
        until = history.started
        if until is None:
            until = end if history.gone is None else history.gone
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
        mean_wait=sum(waits) / len(waits) if waits else 0.0,
        gpus=gpus,
        gpu_seconds=used,
        utilisation=used / possible if possible else 0.0,
        usage=tuple(recorder.usage),
        waiting=tuple(zip(times, accumulate(map(changes.__getitem__, times)), strict=True)),
    )
