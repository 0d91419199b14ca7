"""Records when jobs were submitted, started, stopped and ended, by observing a scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hivecore.scheduler.job import Job
from hivecore.scheduler.log.reader import LogRecord
from hivecore.scheduler.plain import record_of_plain
from hivecore.scheduler.scheduler import Scheduler

__all__ = ["JobHistory", "Recorder", "Run"]

_OF_JOB = "finish", "cancel", "fail", "stopped"
_OF_RUNS = "preempt", "start", "move", "shrink"


@dataclass(slots=True)
class Run:
    """One run of a job, from a start to the event that ended it.

    :param start: in seconds.
    :param end: in seconds; ``None``: it still runs.
    :param how: how it ended: "finish", "cancel", "fail", "preempt", or "node" (its node was
        removed); "": it still runs.
    :param line: number of the event that ended it.
    """

    start: float
    end: float | None = None
    how: str = ""
    line: int = -1


@dataclass(slots=True)
class JobHistory:
    """The history of a job.

    :param job: as submitted.
    :param submitted: time of submission, at the earliest the beginning of the record.
    :param runs: in order.
    :param rejected: why it could never run; "": it was not rejected.
    :param gone: when it ended, was cancelled or rejected.
    """

    job: Job
    submitted: float
    runs: list[Run] = field(default_factory=list)
    rejected: str = ""
    gone: float | None = None

    @property
    def started(self) -> float | None:
        """When it started first."""
        return self.runs[0].start if self.runs else None


class Recorder:
    """Records the history of jobs from ``begin``; those of the same name get different keys."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        #: by key: the name of the job, or with "#2" for the second job of the name
        self.jobs: dict[str, JobHistory] = {}
        #: pairs of a time and the GPUs in use from then on
        self.usage: list[tuple[float, int]] = [(begin, 0)]
        #: by key and time of the order to stop: when the job stopped, and the number of that event
        self.stops: dict[tuple[str, float], tuple[float, int]] = {}
        self._named: dict[str, str] = {}
        self._held: dict[str, int] = {}
        self._stopping: dict[str, float] = {}
        #: jobs that have stopped and hold their GPUs until others have stopped, too
        self._halted: set[str] = set()

    @property
    def stopping(self) -> set[tuple[str, float]]:
        """Jobs that were ordered to stop and still run, as keys and times of the order."""
        return {(self.key(name), ordered) for name, ordered in self._stopping.items()}

    def key(self, name: str) -> str:
        """The key of the latest job with this name."""
        return self._named.get(name, name)

    def follow(self, scheduler: Scheduler, record: LogRecord) -> None:
        """Record what a line of a log has changed, from the scheduler's state after it."""
        event, now, fields = record.event, record.now, record.fields
        if event == "begin":
            for name in scheduler:
                self.submitted(scheduler.job(name), self.begin)
                self.see(scheduler, name, self.begin)
        elif event in ("submit", "adopt"):
            job = fields["job"]
            is_there = job["name"] in scheduler
            self.submitted(
                scheduler.job(job["name"]) if is_there else record_of_plain(Job, job), now
            )
            if event == "adopt":
                self.see(scheduler, job["name"], now)
        elif event == "decide":
            self.decided(scheduler, fields["actions"], now)
        elif event == "remove_node":
            self.see_all(scheduler, now, record.number)
        elif event in _OF_JOB:
            how = "preempt" if event == "stopped" else event
            self.see(scheduler, fields["job"], now, how, record.number)

    def submitted(self, job: Job, now: float) -> str:
        """Add a job, and return its key."""
        key, number = job.name, 1
        while key in self.jobs:
            number += 1
            key = f"{job.name}#{number}"
        self._named[job.name] = key
        self.jobs[key] = JobHistory(job, now)
        return key

    def decided(
        self, scheduler: Scheduler, actions: Sequence[Mapping[str, Any]], now: float
    ) -> None:
        """Record the actions of a decision, given as plain data."""
        self._halted = {name for name in self._halted if _holds(scheduler, name)}
        for action in actions:
            if action["action"] == "reject":
                history = self.jobs[self.key(action["job"])]
                history.rejected, history.gone = action["reason"], now
            elif action["action"] == "preempt":
                self._stopping[action["job"]] = now
        for name in {action["job"]: None for action in actions if action["action"] in _OF_RUNS}:
            self.see(scheduler, name, now)
            live = scheduler._state.jobs.get(name)
            if live is None or not live.for_job:
                self._stopping.pop(name, None)

    def see(
        self, scheduler: Scheduler, name: str, now: float, how: str = "preempt", line: int = -1
    ) -> None:
        """Compare a job with its record, and update that; a run ended at ``line``, see `Run`."""
        live = scheduler._state.jobs.get(name)
        running = live if live is not None and live.runs else None
        history = self.jobs[self.key(name)]
        latest = history.runs[-1] if history.runs else None
        if running is not None and running.has_stopped:
            running = None
            self._halted.add(name)
        elif name in self._halted:
            self._halted.discard(name)
            if latest is not None and how in ("finish", "cancel"):
                latest.how = how  # it ended before it could wait again
        since = None if running is None else max(self.begin, running.since)
        is_open = latest is not None and latest.end is None
        if latest is not None and is_open and since != latest.start:
            ordered = self._stopping.pop(name, None)
            if ordered is not None:
                self.stops[self.key(name), ordered] = now, line
            is_victim = ordered is not None and how == "fail"
            latest.end, latest.how, latest.line = now, "preempt" if is_victim else how, line
            is_open = False
        if since is not None and not is_open:
            history.runs.append(Run(since))
        if how in ("finish", "cancel") and history.gone is None:
            history.gone = now
        held = 0
        if running is not None and scheduler._holds(name):
            held = sum(unit.gpus for unit in running.all_placed)
        if more := held - self._held.get(name, 0):
            self._held[name] = held
            used = self.usage[-1][1] + more
            if self.usage[-1][0] == now:
                self.usage.pop()
            self.usage.append((now, used))

    def see_all(self, scheduler: Scheduler, now: float, line: int) -> None:
        """Update all jobs after a node was removed. See `see`."""
        for name, key in self._named.items():
            runs = self.jobs[key].runs
            if runs and runs[-1].end is None:
                self.see(scheduler, name, now, "node", line)


def _holds(scheduler: Scheduler, name: str) -> bool:
    """Whether a job has stopped and holds its GPUs until others have stopped, too."""
    live = scheduler._state.jobs.get(name)
    return live is not None and live.runs and live.has_stopped
