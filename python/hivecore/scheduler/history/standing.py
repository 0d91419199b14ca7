"""The state of jobs at some time of a log."""

from hivecore._arguments import as_name
from hivecore._record import Record
from hivecore.scheduler.explanation import JobExplanation
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.scheduler.history.recorder import JobHistory
from hivecore.scheduler.history.rerun import LoggedRun
from hivecore.scheduler.log.files import LogPath

__all__ = ["JobStanding", "LogStanding", "explain_log", "log_standing"]


class JobStanding(Record, frozen=True):
    """The state of a job.

    :param job: its name.
    :param tenant: its tenant.
    :param gpus: GPUs of all its pods.
    :param state: as `Scheduler.state` returns it.
    :param since: when it started, or was submitted if it does not run; in seconds.
    :param reason: why it waits, in a line; "" if no decision said so.
    """

    job: str
    tenant: str
    gpus: int
    state: str
    since: float
    reason: str


class LogStanding(Record, frozen=True):
    """The state of all jobs at some time.

    :param now: time of the last event so far, in seconds.
    :param events: number of events so far, decisions included.
    :param gpus: GPUs of the cluster; 0 if unknown.
    :param in_use: GPUs in use.
    :param jobs: jobs that had not ended, in order of submission.
    :param finished: number of jobs that had finished or were cancelled.
    :param rejected: number of jobs that could never run.
    """

    now: float
    events: int
    gpus: int
    in_use: int
    jobs: tuple[JobStanding, ...]
    finished: int
    rejected: int


def log_standing(path: LogPath, *, until: float | None = None) -> LogStanding:
    """Return the state of all jobs at a time of a log.

    :param until: in seconds, events at that time included; ``None``: the end of the log.
    :raises CorruptStateError: the log is damaged, see `replay`.

    Cost: a `replay` until then.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler, log_standing
    >>> path = Path(tempfile.mkdtemp()) / "log"
    >>> tree = QuotaTree([Quota("lab", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=tree, log=path)
    >>> for name, now in (("a", 0.0), ("b", 5.0)):
    ...     scheduler.submit(Job(name, "lab", 6), now)
    ...     _ = scheduler.decide(now)
    >>> scheduler.close()
    >>> standing = log_standing(path)
    >>> standing.in_use, [(one.job, one.state, one.since) for one in standing.jobs]
    (6, [('a', 'running', 0.0), ('b', 'pending', 5.0)])
    """
    log = LoggedRun(path, until)
    scheduler, recorder = log.scheduler, log.recorder
    jobs = []
    for name in scheduler:
        live = scheduler._state.jobs[name]
        came = recorder.jobs[recorder.key(name)].submitted
        since = live.since if live.runs else came
        reason = (
            live.reported.reason if live.reported is not None and live.state == "pending" else ""
        )
        job = live.job
        jobs.append(JobStanding(name, job.tenant, job.gpus, live.state, since, reason))
    histories = recorder.jobs.values()
    rejected = sum(bool(history.rejected) for history in histories)
    gone = sum(history.gone is not None for history in histories)
    gpus, used = gpus_of(scheduler), recorder.usage[-1][1]
    standings, gone = tuple(jobs), gone - rejected
    return LogStanding(scheduler.now, log.number, gpus, used, standings, gone, rejected)


def explain_log(path: LogPath, job: str, *, at: float) -> JobExplanation:
    """Explain why a job had not started at a time, and what would have let it start.

    :param job: its name.
    :param at: in seconds, events at that time included.
    :raises KeyError: no such job existed. If it had ended, the message says when.
    :raises CorruptStateError: the log is damaged, see `replay`.

    Cost: a `replay` until then, and one `Scheduler.explain`.
    """
    name = as_name(job, "job")
    log = LoggedRun(path, at)
    scheduler, recorder = log.scheduler, log.recorder
    if name in scheduler:
        return scheduler.explain(name)
    history = recorder.jobs.get(recorder.key(name))
    if history is None:
        raise KeyError(f"job={name!r}: no job of this name had come by {at!r}")
    raise KeyError(f"job={name!r}: {_end(history)}")


def _end(history: JobHistory) -> str:
    if history.rejected:
        return f"it was rejected at {history.gone!r}: {history.rejected}"
    if not history.runs and history.gone is None:
        return f"it came at {history.submitted!r} and can never run: the next decision rejects it"
    if not history.runs:
        return f"it was cancelled at {history.gone!r}, before it started"
    first = history.runs[0]
    return f"it had started at {first.start!r} and was gone at {history.gone!r}"
