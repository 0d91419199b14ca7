"""The decision log: everything that came in and went out, so that it can be run again.

JSON Lines. The first line has the state of the scheduler when the log began. Each further line is
an event, or a round of decisions with its actions, in the order in which they happened; its number
is one more than that of the line before, and its checksum covers its text and all lines before. So
a line that was damaged, lost or added is found, and which. Lines are handed to the system with each
round of decisions, before anybody can act by them. The last line may be torn, when the process was
stopped while it was written: it is dropped, as its caller had no answer yet.

A part that was changed from outside cannot be known from events: `Scheduler.touch` writes the state
again.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self
from zlib import crc32

from hivecore._arguments import as_float
from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.scheduler.actions import Start
from hivecore.scheduler.events import event_of_plain
from hivecore.scheduler.plain import plain_action, plain_job

if TYPE_CHECKING:
    from hivecore.scheduler.actions import Action
    from hivecore.scheduler.job import Job
    from hivecore.scheduler.scheduler import Scheduler

__all__ = ["LogRecord", "LogWriter", "read_log", "recover", "replay", "replayed"]

_VERSION = 1
_encode = json.JSONEncoder(separators=(",", ":")).encode
_TAIL = len(',"hash":"01234567"}\n')
_MOST_TEXTS = 4096


class LogRecord(NamedTuple):
    """A line of a log.

    :param line: its number in the file, from 1.
    :param number: how many there have been in the log, from 0 for the first.
    :param event: "begin" and "state": the state is told; "decide": what the scheduler said; else
        the method of `Scheduler` that was called.
    :param now: the time that was told; 0.0 with "state".
    :param fields: what else was told, as plain data.
    """

    line: int
    number: int
    event: str
    now: float
    fields: dict[str, Any]


class LogWriter:
    """Writes what a scheduler is told and says.

    :param file: a path, at which there must be no file yet, or a binary file open for writing.
    :raises FileExistsError: there is a file; see `recover` for going on with one.
    """

    def __init__(self, file: "str | os.PathLike[str] | IO[bytes]") -> None:
        self._is_mine = isinstance(file, (str, os.PathLike))
        self._file: Any = None
        if isinstance(file, (str, os.PathLike)):
            self._file = Path(file).open("xb", buffering=0)  # noqa: SIM115 - it stays open
        else:
            self._file = file
        self._number = -1
        self._hash = 0
        self._lines: list[bytes] = []
        self._texts: dict[Any, str] = {}

    @classmethod
    def behind(cls, path: "str | os.PathLike[str]", end: int, number: int, last: int) -> Self:
        """Go on behind a line of this number and hash, which ends there."""
        file = Path(path).open("r+b", buffering=0)  # noqa: SIM115 - it stays open
        file.truncate(end)
        file.seek(end)
        made = cls(file)
        made._is_mine, made._number, made._hash = True, number, last
        return made

    def close(self) -> None:
        """Nothing more is written; a file that was opened here is closed."""
        if self._file is not None:
            self.flush()
            if self._is_mine:
                self._file.close()
                self._file = None

    def __del__(self) -> None:
        self.close()

    def state(self, event: str, state: bytes) -> None:
        """The state as it is now."""
        text = b64encode(state).decode()
        self._write(f'"event":"{event}","version":{_VERSION},"state":"{text}"')
        self.flush()

    def submit(self, job: "Job", now: float) -> None:
        """A job has come; roles and places that many have are put into words once."""
        if job.stages or job.data is not None or job.run_time is not None or job.after:
            body = _encode(plain_job(job))
        else:
            key = job.roles, job.where, job.priority, job.preemptible, job.guaranteed
            known = self._texts.get(key)
            if known is None:
                if len(self._texts) >= _MOST_TEXTS:
                    self._texts.clear()
                plain = plain_job(job)
                for field in ("name", "tenant", "quota"):
                    plain.pop(field, None)
                known = self._texts[key] = _encode(plain)[1:]
            quota = "" if job.quota == job.tenant else f'"quota":{quoted(job.quota)},'
            named = f'{{"name":{quoted(job.name)},"tenant":{quoted(job.tenant)},'
            body = f"{named}{quota}{known}"
        self._write(f'"event":"submit","now":{now!r},"job":{body}')

    def event(self, event: str, now: float, **fields: Any) -> None:
        """Something else has happened."""
        more = "".join([f',"{name}":{_encode(value)}' for name, value in fields.items()])
        self._write(f'"event":"{event}","now":{now!r}{more}')

    def of_job(self, event: str, job: str, now: float) -> None:
        """Something has happened to a job."""
        self._write(f'"event":"{event}","now":{now!r},"job":{quoted(job)}')

    def decided(self, now: float, most: int | None, actions: "list[Action]") -> None:
        """What the scheduler said."""
        limit = "" if most is None else f',"most":{most}'
        said = ",".join(
            [
                _start(action) if isinstance(action, Start) else _encode(plain_action(action))
                for action in actions
            ]
        )
        self._write(f'"event":"decide","now":{now!r}{limit},"actions":[{said}]')
        self.flush()

    def flush(self) -> None:
        """Hand all lines to the system; what it does not take is kept for the next time."""
        if self._lines:
            text, self._lines = b"".join(self._lines), []
            if not self._is_mine:
                self._file.write(text)
                return
            left = memoryview(text)
            try:
                # A full disk takes a part before it refuses.
                while left:
                    left = left[self._file.write(left) :]
            finally:
                if left:
                    self._lines = [bytes(left)]

    def _write(self, text: str) -> None:
        self._number += 1
        line = f'{{"n":{self._number},{text}'.encode()
        self._hash = crc32(line, self._hash)
        self._lines.append(b'%b,"hash":"%08x"}\n' % (line, self._hash))


def _start(start: Start) -> str:
    """Its plain data as JSON; there are so many that it is worth a way of its own."""
    if start.shares_with:
        return _encode(plain_action(start))
    pods = []
    for pod in start.pods:
        minors = ",".join([f'"{type}":[{",".join(map(str, them))}]' for type, them in pod.minors])
        pods.append(f"[{quoted(pod.role)},{pod.index},{quoted(pod.node)},{{{minors}}}]")
    lent = ',"lent":true' if start.lent else ""
    return f'{{"action":"start","job":{quoted(start.job)},"pods":[{",".join(pods)}]{lent}}}'


def read_log(path: "str | os.PathLike[str]") -> Iterator[LogRecord]:
    """The lines of a log, each checked when its turn comes.

    :raises CorruptStateError: a line but a torn last one is damaged; the message names it.
    """
    for record, _, _ in _checked(path):
        yield record


def _checked(path: "str | os.PathLike[str]") -> Iterator[tuple[LogRecord, int, int]]:
    """Each record, its checksum, and where its line ends."""
    last_hash, end = 0, 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):
                if number == 0:
                    raise CorruptStateError("line 1: is torn, so that the log says nothing")
                return
            body, end = line[:-_TAIL], end + len(line)
            last_hash = crc32(body, last_hash)
            if line[-_TAIL:] != b',"hash":"%08x"}\n' % last_hash:
                raise CorruptStateError(f"line {number + 1}: its checksum is another")
            yield _record(number, line), last_hash, end
        if end == 0:
            raise CorruptStateError("line 1: there is none")


def _record(number: int, line: bytes) -> LogRecord:
    where = f"line {number + 1}"
    try:
        fields = json.loads(line)
        told, event = fields.pop("n"), fields.pop("event")
        now = float(fields.pop("now", 0.0))
        fields.pop("hash")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptStateError(f"{where}: {error}") from None
    if told != number:
        raise CorruptStateError(f"{where}: is number {told}, not {number}")
    if (event == "begin") != (number == 0):
        raise CorruptStateError(f"{where}: a log begins with its state, and once")
    if number == 0 and fields.get("version") != _VERSION:
        version = fields.get("version")
        raise CorruptStateError(f"{where}: version {version}, this release reads {_VERSION}")
    return LogRecord(number + 1, number, event, now, fields)


def replay(path: "str | os.PathLike[str]", *, until: float | None = None) -> "Scheduler":
    """Run a log again; the scheduler must say what it said, to the byte.

    :param until: stop before the first event after this time; ``None``: all of it.
    :returns: the scheduler as it was then.
    :raises CorruptStateError: the log is damaged, or the scheduler says something else; the message
        names the line.
    """
    scheduler: Scheduler | None = None
    for scheduler, _ in replayed(path, until=until):  # noqa: B007 - the last one counts
        pass
    assert scheduler is not None
    return scheduler


def replayed(
    path: "str | os.PathLike[str]", *, until: float | None = None
) -> "Iterator[tuple[Scheduler, LogRecord]]":
    """Run a log again line by line: the scheduler as it is after each; else as `replay`."""
    last = None if until is None else as_float(until, "until")
    scheduler: Scheduler | None = None
    for record in read_log(path):
        if last is not None and record.event not in ("begin", "state") and record.now > last:
            break
        scheduler = _repeated(scheduler, record)
        yield scheduler, record


def recover(path: "str | os.PathLike[str]", state: bytes | None = None) -> "Scheduler":
    """The scheduler that wrote a log, after a crash; it goes on writing there.

    :param state: what ``to_bytes`` gave at some time since the log began: only what came after it
        is run again. ``None``: all of it is.
    :raises CorruptStateError: as of `replay`; the state is of no time of the log.

    A torn last line is cut off. It was an event whose call had not returned.
    """
    from hivecore.scheduler.scheduler import Scheduler

    scheduler = None if state is None else Scheduler.from_bytes(state)
    since = -1 if scheduler is None else scheduler.logged
    last_hash, end, number = 0, 0, -1
    for record, last_hash, end in _checked(path):  # noqa: B007 - the last ones count
        number = record.number
        if number > since:
            scheduler = _repeated(scheduler, record)
    if scheduler is None or number < since:
        raise CorruptStateError(f"state: is of event {since}, and the log ends with {number}")
    scheduler._write_to(LogWriter.behind(path, end, number, last_hash), number)
    return scheduler


def _repeated(scheduler: "Scheduler | None", record: LogRecord) -> "Scheduler":
    from hivecore.scheduler.scheduler import Scheduler

    event, now, fields = record.event, record.now, record.fields
    try:
        if event in ("begin", "state") or scheduler is None:
            return Scheduler.from_bytes(b64decode(fields["state"], validate=True))
        if event == "decide":
            said = [plain_action(action) for action in scheduler.decide(now, fields.get("most"))]
            if said != fields["actions"]:
                raise CorruptStateError(_difference(said, fields["actions"]))
        else:
            event_of_plain({"event": event, "now": now, **fields}).tell(scheduler, now)
    except (KeyError, TypeError, ValueError, CorruptStateError, StaleDecisionError) as error:
        told = error.args[0] if error.args else error
        raise CorruptStateError(f"line {record.line}: {told}") from None
    return scheduler


def _difference(said: list[Any], logged: list[Any]) -> str:
    for mine, other in zip(said, logged, strict=False):
        if mine != other:
            return f"the scheduler says {_encode(mine)}, the log {_encode(other)}"
    return f"the scheduler says {len(said)} actions, the log {len(logged)}"
