"""Running a decision log again, and going on with it after a crash.

What the scheduler says is compared with the log as text: it is written anew, by the same code. Only
where the texts differ, as those of another release may, are the data compared. Of jobs that differ
only in their names and estimates one is read.
"""

import os
import warnings
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivecore._arguments import as_float, as_int
from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.scheduler.events import event_of_plain
from hivecore.scheduler.job import Job
from hivecore.scheduler.log.files import OwnFile
from hivecore.scheduler.log.reader import Line, LogRecord, Submitted, read_lines
from hivecore.scheduler.log.segments import older_segments
from hivecore.scheduler.log.writer import LogWriter, decided
from hivecore.scheduler.plain import plain_record, record_of_plain

if TYPE_CHECKING:
    from hivecore.scheduler.scheduler import Scheduler

__all__ = ["recover", "replay", "replayed"]

_MOST_JOBS = 4096
#: The events that there are most of, beside those that are looked at as text.
_OF_JOB = frozenset(("finish", "cancel", "stopped"))


def replay(path: "str | os.PathLike[str]", *, until: float | None = None) -> "Scheduler":
    """Run a log again; the scheduler must say what it said, to the byte.

    :param until: stop before the first event after this time; ``None``: all of it.
    :returns: the scheduler as it was then.
    :raises CorruptStateError: the log is damaged, or the scheduler says something else; the message
        names the line.
    """
    rerun = _Rerun()
    for _ in rerun.lines(path, until):
        pass
    assert rerun.scheduler is not None
    return rerun.scheduler


def replayed(
    path: "str | os.PathLike[str]", *, until: float | None = None
) -> "Iterator[tuple[Scheduler, LogRecord]]":
    """Run a log again line by line: the scheduler as it is after each; else as `replay`."""
    rerun = _Rerun()
    for line in rerun.lines(path, until):
        assert rerun.scheduler is not None
        yield rerun.scheduler, line.record


def recover(path: "str | os.PathLike[str]", state: bytes | None = None) -> "Scheduler":
    """The scheduler that wrote a log, after a crash; it goes on writing there.

    :param path: of the newest segment, which is run again. If the state with which it begins is
        damaged, so is the segment before it, with a warning.
    :param state: what ``to_bytes`` gave at some time since the log began: only what came after it
        is run again. ``None``: the newest segment is.
    :raises CorruptStateError: as of `replay`; the state is of no time of the log.
    :raises BlockingIOError: another scheduler writes this log, in this process or another.

    A torn last line is cut off. It was an event whose call had not returned. What the scheduler
    decided before the crash is in `Scheduler.actions`, as far as it was run again.
    """
    file = OwnFile.existing(path)
    try:
        rerun, last = _run_again(path) if state is None else _run_on(path, state)
        file.cut_at(last.end)
    except BaseException:
        file.close()
        raise
    assert rerun.scheduler is not None
    log = LogWriter(file, last.number, last.hash, last.first)
    rerun.scheduler._go_on(log, last.number)
    return rerun.scheduler


def _run_again(path: "str | os.PathLike[str]") -> "tuple[_Rerun, Line]":
    """The newest segment run again, with those before it whose states are needed; the last line."""
    real = Path(os.path.realpath(path))
    damage: CorruptStateError | None = None
    for first in (2**63, *reversed(older_segments(real))):
        rerun, lines = _Rerun(), read_lines(real, first)
        try:
            last = next(lines)
            rerun.repeat(last)
        except CorruptStateError as error:
            damage = damage or error
            continue
        source = last.file
        for last in lines:
            rerun.repeat(last)
        if damage is not None:
            warnings.warn(f"{path}: {damage}; goes on from {source}", stacklevel=3)
        return rerun, last
    assert damage is not None
    raise damage


def _run_on(path: "str | os.PathLike[str]", state: bytes) -> "tuple[_Rerun, Line]":
    """What came after a state run again; the last line."""
    from hivecore.scheduler.scheduler import Scheduler

    rerun = _Rerun()
    scheduler = rerun.scheduler = Scheduler.from_bytes(state)
    outbox, since = scheduler._outbox, scheduler.logged
    last: Line | None = None
    said = 0
    for last in read_lines(path):
        if last.number > since:
            rerun.repeat(last)
            continue
        record = last.record
        if record.event == "begin":
            said = record.fields.get("last_action", 0)
        elif record.event == "decide":
            said += len(record.fields["actions"])
        if last.number == since:
            outbox.last = said - len(outbox.pending)
    if last is None or last.number < since:
        number = -1 if last is None else last.number
        raise CorruptStateError(f"state: is of event {since}, and the log ends with {number}")
    return rerun, last


class _Rerun:
    """A scheduler that is told again what a log tells."""

    def __init__(self) -> None:
        self.scheduler: Scheduler | None = None
        #: by the text of what jobs have in common, one of them
        self._jobs: dict[str, Job] = {}

    def lines(self, path: "str | os.PathLike[str]", until: float | None) -> Iterator[Line]:
        """Those of a log, each when it has been repeated."""
        last = None if until is None else as_float(until, "until")
        for line in read_lines(path):
            if last is not None:
                record = line.record
                if record.event not in ("begin", "state") and record.now > last:
                    break
            self.repeat(line)
            yield line

    def repeat(self, line: Line) -> None:
        """Tell it what a line tells, or see that it says what the line says."""
        told = self.scheduler
        try:
            if told is not None:
                told._is_rerun = True
            self._tell(line)
        except (KeyError, TypeError, ValueError, CorruptStateError, StaleDecisionError) as error:
            text = str(error.args[0] if error.args else error)
            where = f"{line.where}: "
            raise CorruptStateError(text if text.startswith(where) else where + text) from None
        finally:
            if told is not None:
                told._is_rerun = False

    def _tell(self, line: Line) -> None:
        scheduler = self.scheduler
        if scheduler is not None:
            scheduler._outbox.deliver()  # the call that this line is of has returned it
            decision = line.decision()
            if decision is not None:
                now, most, text = decision
                actions = scheduler.decide(now, most)
                if decided(now, most, actions) != text:
                    _compare([plain_record(one) for one in actions], line.record.fields["actions"])
                return
            submitted = line.submitted()
            if submitted is not None:
                scheduler.submit(self._job(submitted, line), submitted.now)
                return
        event, now, fields = line.record[2:]
        if scheduler is None or event in ("begin", "state"):
            from hivecore.scheduler.scheduler import Scheduler

            self.scheduler = Scheduler.from_bytes(b64decode(fields["state"], validate=True))
            outbox = self.scheduler._outbox
            last = as_int(fields.get("last_action", 0), "last_action", 0, 2**62)
            outbox.last = max(0, last - len(outbox.pending))
            if scheduler is not None and event == "state":
                self.scheduler._outbox = scheduler._outbox
        elif event == "decide":
            actions = scheduler.decide(now, fields.get("most"))
            _compare([plain_record(one) for one in actions], fields["actions"])
        elif event in _OF_JOB and len(fields) == 1:
            getattr(scheduler, event)(fields["job"], now)
        else:
            event_of_plain({"event": event, "now": now, **fields}).tell(scheduler, now)

    def _job(self, submitted: Submitted, line: Line) -> Job:
        name, run_time = submitted.name, submitted.run_time
        like = self._jobs.get(submitted.alike)
        if like is None:
            if len(self._jobs) >= _MOST_JOBS:
                self._jobs.clear()
            job = record_of_plain(Job, line.record.fields["job"])
            # An estimate among what is alike is the same for all.
            self._jobs[submitted.alike] = job if run_time is None else job.replace(run_time=None)
            return job
        return like.replace(name=name, **({} if run_time is None else {"run_time": run_time}))


def _compare(said: list[Any], logged: list[Any]) -> None:
    """See that a scheduler says what it said."""
    if said == logged:
        return
    for mine, other in zip(said, logged, strict=False):
        if mine != other:
            raise CorruptStateError(f"the scheduler says {mine}, the log {other}")
    raise CorruptStateError(f"the scheduler says {len(said)} actions, the log {len(logged)}")
