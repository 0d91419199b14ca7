"""Replays a decision log, and resumes it after a crash.

Decisions are compared with the log as text, written by the same code. If the texts differ, as
another release may write them differently, the data are compared. Most lines have one of a few
forms, and are not decoded as JSON; of jobs that differ only in name and estimate, one is decoded.
"""

import json
import os
import re
import warnings
from base64 import b64decode
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from hivecore._arguments import as_int
from hivecore._record import between
from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.scheduler.events import event_of_plain
from hivecore.scheduler.job import Job
from hivecore.scheduler.log.files import LogPath, OwnFile, older_segments
from hivecore.scheduler.log.reader import Line, LogRecord, read_lines
from hivecore.scheduler.log.writer import LogWriter, decided
from hivecore.scheduler.plain import plain_record, record_of_plain
from hivecore.scheduler.scheduler import Scheduler

__all__ = ["recover", "replay", "replayed"]

_MOST_JOBS = 4096
#: number, event, time and job
_OF_JOB = re.compile(
    r'\{"n":(\d+),"event":"(finish|cancel|stopped)","now":([^,]+),"job":"([^"\\]*)"'
)
#: time, and the limit of attempts
_DECIDED = re.compile(r'\{"n":\d+,"event":"decide","now":([^,]+),(?:"most":(\d+),)?')
#: number, time, name and estimate of a job, then the rest
_SUBMITTED = re.compile(
    r'\{"n":(\d+),"event":"submit","now":([^,]+),'
    r'"job":\{"name":("[^"\\]*(?:\\.[^"\\]*)*")(?:,"run_time":([^,]+))?(,.*)'
)


def replay(path: LogPath, *, until: float | None = None) -> Scheduler:
    """Replay a log, and check that every decision is the same, to the byte.

    :param path: of the newest segment; older ones beside it are replayed first.
    :param until: stop before the first event after this time; ``None``: at the end of the log.
    :returns: the scheduler in its state at that time.
    :raises CorruptStateError: the log is damaged, or a decision differs. The message names the
        line.
    """
    for step in _steps(path, until):
        scheduler = step[0]
    return scheduler


def replayed(path: LogPath, *, until: float | None = None) -> Iterator[tuple[Scheduler, LogRecord]]:
    """Replay a log line by line; yields the scheduler after each. Else as `replay`."""
    for scheduler, line in _steps(path, until):
        yield scheduler, line.record


def _steps(path: LogPath, until: float | None) -> Iterator[tuple[Scheduler, Line]]:
    rerun, last = _Rerun(), None if until is None else between(-inf, inf)(until, "until")
    for line in read_lines(path):
        if last is not None:
            record = line.record
            if record.event not in ("begin", "state") and record.now > last:
                return
        yield rerun.repeat(line), line


def recover(path: LogPath, state: bytes | None = None) -> Scheduler:
    """Rebuild the scheduler that wrote a log, after a crash; it continues the log.

    :param path: of the newest segment, which is replayed. If the state at its beginning is damaged,
        the segment before is replayed too, and a warning is issued.
    :param state: the result of ``to_bytes`` at some time since the log began; only later lines are
        replayed. ``None``: the newest segment is replayed.
    :raises CorruptStateError: the log is damaged, see `replay`; or the state does not belong to it.
    :raises BlockingIOError: another scheduler writes to this log, in this process or another.

    A torn last line is cut off: the call that wrote it had not returned. `Scheduler.actions` has
    the decisions of all lines that were replayed.
    """
    file = OwnFile(path, is_old=True)
    try:
        scheduler, last = _run_again(path) if state is None else _run_on(path, state)
        file.cut_at(last.end)
    except BaseException:
        file.close()
        raise
    scheduler._go_on(LogWriter(file, last.number, last.hash, last.first), last.number)
    return scheduler


def _run_again(path: LogPath) -> tuple[Scheduler, Line]:
    """Replay the newest segment, and older ones if its state is damaged. Also the last line."""
    real = Path(os.path.realpath(path))
    damage: CorruptStateError | None = None
    for first in (2**63, *reversed(older_segments(real))):
        rerun, lines = _Rerun(), read_lines(real, first)
        try:
            last = next(lines)
            scheduler = rerun.repeat(last)
        except CorruptStateError as error:
            damage = damage or error
            continue
        source = last.file
        for last in lines:
            scheduler = rerun.repeat(last)
        if damage is not None:
            warnings.warn(f"{path}: {damage}; goes on from {source}", stacklevel=3)
        return scheduler, last
    assert damage is not None
    raise damage


def _run_on(path: LogPath, state: bytes) -> tuple[Scheduler, Line]:
    """Replay the lines that are newer than a state. Also returns the last line."""
    scheduler = Scheduler.from_bytes(state)
    rerun, outbox, since = _Rerun(scheduler), scheduler._outbox, scheduler.logged
    number, last_action = -1, 0
    for last in read_lines(path):
        number = last.number
        if number > since:
            scheduler = rerun.repeat(last)
            continue
        fields = last.record.fields
        if last.record.event == "begin":
            last_action = fields.get("last_action", 0)
        elif last.record.event == "decide":
            last_action += len(fields["actions"])
        if number == since:
            outbox.last = last_action - len(outbox.pending)
    if number < since:
        raise CorruptStateError(f"state: is of event {since}, and the log ends with {number}")
    return scheduler, last


class _Rerun:
    """A scheduler that gets the events of a log again."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler
        #: for the common text of similar jobs, one of them
        self._jobs: dict[str, Job] = {}

    def repeat(self, line: Line) -> Scheduler:
        """Pass the event of a line to the scheduler, or compare its decisions with the line."""
        scheduler = self._scheduler
        try:
            if scheduler is None or line.number == line.first:
                scheduler = self._adopt(line)
            else:
                scheduler._is_rerun = True
                scheduler = self._tell(scheduler, line)
        except (KeyError, TypeError, ValueError, CorruptStateError, StaleDecisionError) as error:
            text = str(error.args[0] if error.args else error)
            where = f"{line.where}: "
            raise CorruptStateError(text if text.startswith(where) else where + text) from None
        finally:
            if scheduler is not None:
                scheduler._is_rerun = False
        self._scheduler = scheduler
        return scheduler

    def _adopt(self, line: Line) -> Scheduler:
        fields = line.record.fields
        scheduler = Scheduler.from_bytes(b64decode(fields["state"], validate=True))
        last = as_int(fields.get("last_action", 0), "last_action", 0, 2**62)
        scheduler._outbox.last = max(0, last - len(scheduler._outbox.pending))
        return scheduler

    def _tell(self, scheduler: Scheduler, line: Line) -> Scheduler:
        scheduler._outbox.deliver()  # the caller got the actions of earlier lines
        if (form := _SUBMITTED.match(line.text)) and int(form[1]) == line.number:
            scheduler.submit(self._job(line, *form.groups()[2:]), float(form[2]))
            return scheduler
        if (form := _OF_JOB.fullmatch(line.text)) and int(form[1]) == line.number:
            getattr(scheduler, form[2])(form[4], float(form[3]))
            return scheduler
        now: float
        if form := _DECIDED.match(line.text):
            now, most = float(form[1]), None if form[2] is None else int(form[2])
        else:
            event, now, fields = line.record[2:]
            if event == "state":
                adopted = self._adopt(line)
                adopted._outbox = scheduler._outbox
                return adopted
            if event != "decide":
                event_of_plain({"event": event, "now": now, **fields}).tell(scheduler, now)
                return scheduler
            most = fields.get("most")
        actions = scheduler.decide(now, most)
        if f'{{"n":{line.number},{decided(now, most, actions)}' != line.text:
            _compare([plain_record(action) for action in actions], line.record.fields["actions"])
        return scheduler

    def _job(self, line: Line, name: str, estimate: str | None, alike: str) -> Job:
        more = {} if estimate is None else {"run_time": float(estimate)}
        like = self._jobs.get(alike)
        if like is not None:
            return like.replace(name=json.loads(name) if "\\" in name else name[1:-1], **more)
        if len(self._jobs) >= _MOST_JOBS:
            self._jobs.clear()
        job = record_of_plain(Job, line.record.fields["job"])
        self._jobs[alike] = job.replace(run_time=None) if more else job
        return job


def _compare(actions: list[Any], logged: list[Any]) -> None:
    """Check that the decisions are the logged ones."""
    if actions == logged:
        return
    for action, other in zip(actions, logged, strict=False):
        if action != other:
            raise CorruptStateError(f"the scheduler decides {action}, the log has {other}")
    raise CorruptStateError(
        f"the scheduler decides {len(actions)} actions, the log has {len(logged)}"
    )
