"""Replays what users did in a log with another scheduler.

Events that follow from decisions are generated from the other scheduler's decisions. A job runs for
as long as in the log, and ends the same way; a preempted job resumes with the rest. A victim takes
as long to stop as in the log, another job the mean of these times, or 30 seconds.

A generated end at the time of the logged end keeps that event's position, so that the same
scheduler decides the same.
"""

from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

from hivecore.scheduler.events import SchedulerEvent, event_of_plain
from hivecore.scheduler.history.capacity import gpus_of
from hivecore.scheduler.history.recorder import JobHistory, Recorder, Run
from hivecore.scheduler.log.files import LogPath
from hivecore.scheduler.log.reader import LogRecord
from hivecore.scheduler.log.replay import replayed
from hivecore.scheduler.plain import plain_record
from hivecore.scheduler.scheduler import Scheduler

__all__ = ["LoggedRun", "rerun"]

#: Changes of the parts.
_CHANGES = (
    *("set_node", "drain", "add_node", "remove_node", "set_quota", "set_total", "reconfigure"),
    *("update_claims", "set_eviction_limits"),
)
#: Not applicable to another scheduler, where other jobs run at that time.
_NOT_FOR_OTHERS = "state", "reorder", "move", "regroup", "defragment"
_FIRST = -1  # before the other events of its time
_GRACE = 30.0  # seconds, as in Kubernetes


class LoggedRun:
    """The contents of a log, from a replay."""

    def __init__(self, path: LogPath, until: float | None = None) -> None:
        steps = replayed(path, until=until)
        scheduler, record = next(steps)
        begin = self.end = scheduler.now
        #: GPUs of the cluster
        self.gpus = gpus_of(scheduler)
        #: the history of the jobs
        self.recorder = Recorder(begin)
        self.recorder.follow(scheduler, record)
        #: events that do not follow from decisions: time, number, kind and subject
        self.events: list[tuple[float, int, str, Any]] = [
            (begin, _FIRST, "submit", key) for key in self.recorder.jobs
        ]
        if self.events:
            self.events.append((begin, _FIRST, "decide", None))
        #: number of events that do not apply to another scheduler
        self.skipped = 0
        happened: set[float] = set()
        #: times at which no decision came after the last event
        self.undecided: set[float] = set()
        for scheduler, record in steps:
            self.recorder.follow(scheduler, record)
            if record.event == "decide":
                self.undecided.discard(record.now)
            else:
                happened.add(record.now)
                self.undecided.add(record.now)
            self.end = max(self.end, scheduler.now)
            self._note(record)
        #: the scheduler at the end, and the number of the last line
        self.scheduler, self.number = scheduler, record.number
        #: whether a decision followed most events
        self.prompt = 2 * len(self.undecided) <= len(happened)

    def _note(self, record: LogRecord) -> None:
        """Keep an event that does not follow from decisions."""
        event, fields = record.event, record.fields
        subject: Any = None
        if event in ("submit", "adopt"):
            event = "submit"
            subject = self.recorder.key(fields["job"]["name"])
        elif event == "cancel":
            subject = self.recorder.key(fields["job"])
            runs = self.recorder.jobs[subject].runs
            if runs and runs[-1].line == record.number:
                return  # the end of a run
        elif event in _CHANGES:
            subject = event_of_plain({"event": event, **fields})
        elif event == "amend":
            changes = event_of_plain({"event": event, **fields}).arguments[1:]
            subject = self.recorder.key(fields["job"]), dict(changes)
        elif event == "decide":
            subject = fields.get("most")
        elif event != "advance":
            self.skipped += event in _NOT_FOR_OTHERS
            return
        self.events.append((record.now, record.number, event, subject))


def rerun(log: LoggedRun, scheduler: Scheduler) -> tuple[Recorder, int]:
    """Replay the events with another scheduler, until the end of the log.

    :param scheduler: without jobs; it is used up.
    :returns: the history of the jobs, by the keys of the log, and the number of events that do not
        apply.
    """
    return _Rerun(log, scheduler).run()


class _Rerun:
    def __init__(self, log: LoggedRun, scheduler: Scheduler) -> None:
        self.log, self.scheduler, logged = log, scheduler, log.recorder
        self.recorder = Recorder(logged.begin)
        self.queue: list[tuple[float, int, int, str, Any]] = []
        self.pushed = self.skipped = 0
        self.lives = {key: _lives(history) for key, history in logged.jobs.items()}
        #: by key, the index of the first run of the present life
        self.first = dict.fromkeys(logged.jobs, 0)
        self.running: dict[str, Run] = {}
        #: key of the latest job of each name
        self.latest: dict[str, str] = {}
        #: jobs that had not stopped by the end of the log, with the time of the order
        self.never_stopped = logged.stopping
        times = [stop - ordered for (_, ordered), (stop, _) in logged.stops.items()]
        self.grace = sum(times) / max(1, len(times)) or _GRACE

    def run(self) -> tuple[Recorder, int]:
        for event in self.log.events:
            self.push(*event)
        is_new = False
        while self.queue and (now := self.queue[0][0]) <= self.log.end:
            while self.queue and self.queue[0][0] == now:
                _, number, _, kind, subject = heappop(self.queue)
                if kind == "decide":
                    self.decide(now, subject)
                    is_new = False
                else:
                    is_new |= self.happen(kind, subject, now, number)
            if is_new and self.log.prompt and now not in self.log.undecided:
                self.decide(now)
                is_new = False
        return self.recorder, self.skipped

    def push(self, now: float, number: int, kind: str, subject: Any) -> None:
        self.pushed += 1
        heappush(self.queue, (now, number, self.pushed, kind, subject))

    def happen(self, kind: str, subject: Any, now: float, number: int) -> bool:
        """Pass an event to the scheduler. Returns whether it applied."""
        if kind == "shrunk":
            with suppress(KeyError, ValueError):  # it has stopped already
                self.scheduler.stopped(subject[0], now, subject[1])
            return True
        if kind == "submit":
            self.submit(subject, now)
        elif kind == "advance":
            self.scheduler.advance(now)
        elif kind in _CHANGES:
            return self.change(subject, now, number)
        elif kind == "amend":
            return self.amend(subject[0], subject[1], now)
        elif kind == "cancel":
            if subject not in self.scheduler:
                return False
            self.scheduler.cancel(subject, now)
            self.see(subject, now, "cancel", number)
        else:
            key, run, how = subject
            if self.running.get(key) is not run:
                return False  # it has ended in another way
            getattr(self.scheduler, "stopped" if how == "preempt" else how)(key, now)
            if how != "preempt":
                self.lives[key].pop()
                self.first[key] = len(self.recorder.jobs[key].runs)
            self.see(key, now, how, number)
        return True

    def amend(self, key: str, changes: dict[str, Any], now: float) -> bool:
        """Amend a job; false if it does not wait, so that it cannot change."""
        try:
            self.scheduler.amend(key, now, **changes)
        except (KeyError, ValueError):
            self.skipped += 1
            return False
        return True

    def change(self, event: SchedulerEvent, now: float, number: int) -> bool:
        """Change nodes, quotas or cells; false if the scheduler does not know them."""
        try:
            event.tell(self.scheduler, now)
        except (KeyError, ValueError):
            self.skipped += 1
            return False
        if event.name == "remove_node":
            self.recorder.see_all(self.scheduler, now, number)
            for key in list(self.running):
                self.follow(key)
        return True

    def submit(self, key: str, now: float) -> None:
        job = self.log.recorder.jobs[key].job
        # An earlier job of that name may still exist here, though not in the log.
        named = job.replace(
            name=key,
            after=[self.latest.get(other, other) for other in job.after],
            together=[self.latest.get(other, other) for other in job.together],
        )
        self.latest[job.name] = key
        history = self.recorder.jobs[self.recorder.submitted(named, now)]
        reason = self.scheduler._state.stages.unenforced(named)
        if reason:
            history.rejected, history.gone = reason, now
        else:
            self.scheduler.submit(named, now)

    def decide(self, now: float, most: int | None = None) -> None:
        actions = [plain_record(action) for action in self.scheduler.decide(now, most)]
        self.recorder.decided(self.scheduler, actions, now)
        for key in {action["job"]: None for action in actions if "job" in action}:
            self.follow(key)
        for victim in [action["job"] for action in actions if action["action"] == "preempt"]:
            run = self.running.get(victim)
            is_stopping = run is not None and self.scheduler._state.jobs[victim].for_job
            if is_stopping and (victim, now) not in self.never_stopped:
                usual = now + self.grace, _FIRST
                stop, number = self.log.recorder.stops.get((victim, now), usual)
                self.push(stop, number, "end", (victim, run, "preempt"))
        for action in actions:
            for role, index, *_ in action["pods"] if action["action"] == "shrink" else ():
                pod = action["job"], f"{role}/{index}"
                self.push(now + self.grace, _FIRST, "shrunk", pod)

    def see(self, key: str, now: float, how: str, number: int) -> None:
        self.recorder.see(self.scheduler, key, now, how, number)
        self.follow(key)

    def follow(self, key: str) -> None:
        """If a job runs now, schedule its end."""
        runs = self.recorder.jobs[key].runs
        run = runs[-1] if runs and runs[-1].end is None else None
        if self.running.get(key) is run:
            return
        if run is None:
            del self.running[key]
            return
        self.running[key] = run
        if self.lives[key]:
            like = self.lives[key][-1]
            end, number = _end(like, runs[self.first[key] :])
            self.push(end, number, "end", (key, run, like[-1].how))


def _lives(history: JobHistory) -> list[list[Run]]:
    """The runs up to each end that the scheduler did not cause, the last first; none later."""
    lives: list[list[Run]] = [[]]
    for run in history.runs:
        lives[-1].append(run)
        if run.end is not None and run.how not in ("preempt", "node"):
            lives.append([])
    return lives[-2::-1]


def _end(logged: list[Run], runs: list[Run]) -> tuple[float, int]:
    """When the last run ends, and its place in that time's events; ``logged``: the log's runs."""
    pairs = zip(runs, logged, strict=False)
    if len(runs) == len(logged) and all(
        run.start == other.start and run.end in (None, other.end) for run, other in pairs
    ):
        return _ended(logged[-1]), logged[-1].line
    left = sum(_ended(run) - run.start for run in logged)
    left -= sum(_ended(run) - run.start for run in runs[:-1])
    return runs[-1].start + max(0.0, left), _FIRST


def _ended(run: Run) -> float:
    assert run.end is not None
    return run.end
