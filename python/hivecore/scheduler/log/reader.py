"""Reading the decision log, line by line, each checked when its turn comes."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

from hivecore._arguments import as_object
from hivecore.errors import CorruptStateError
from hivecore.scheduler.log.segments import older_segments, read_beginning
from hivecore.scheduler.log.writer import VERSION

__all__ = ["Line", "LogRecord", "Submitted", "read_actions", "read_lines", "read_log"]

_TAIL = len(',"hash":"01234567"}\n')
_DECIDE, _SUBMIT = ',"event":"decide","now":', ',"event":"submit","now":'
_JOB, _RUN_TIME = '"job":{"name":', ',"run_time":'
_decode = json.JSONDecoder().raw_decode


class LogRecord(NamedTuple):
    """A line of a log.

    :param line: its number in its file, from 1.
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


class Submitted(NamedTuple):
    """A line that tells a job, as a writer puts it: what differs among jobs of a kind comes first.

    :param alike: the text of all else.
    """

    now: float
    name: str
    run_time: float | None
    alike: str


class Line:
    """A line whose checksum is right.

    :param number: how many there have been in the log, from 0 for the first.
    :param text: without the checksum, which is ``hash``.
    :param end: where it ends in the file.
    :param first: the number with which its file begins.
    :param file: the name of its file if that is an older segment.

    Most lines are of few forms and need not be read as JSON: `decision` and `submitted` look at the
    first characters only.
    """

    __slots__ = ("_record", "end", "file", "first", "hash", "number", "text")

    def __init__(
        self, number: int, text: str, hash: int, end: int, first: int = 0, file: str = ""
    ) -> None:
        self.number, self.text, self.hash, self.end = number, text, hash, end
        self.first, self.file = first, file
        self._record: LogRecord | None = None

    @property
    def record(self) -> LogRecord:
        """What it says.

        :raises CorruptStateError: nothing that could be.
        """
        if self._record is None:
            self._record = _record(self)
        return self._record

    @property
    def where(self) -> str:
        """Its place, as a message names it."""
        return _where(self.file, self.number - self.first)

    def decision(self) -> tuple[float, int | None, str] | None:
        """Of a round of decisions, as a writer puts it: the time, the bound of attempts, and all
        behind the number; ``None``: it is something else.
        """
        head = f'{{"n":{self.number}'
        if not self.text.startswith(_DECIDE, len(head)) or not self.text.startswith(head):
            return None
        told = self.text[len(head) + 1 :]
        now, _, rest = told[len(_DECIDE) - 1 :].partition(",")
        most = rest.removeprefix('"most":').partition(",")[0] if rest.startswith('"most":') else ""
        try:
            return float(now), int(most) if most else None, told
        except ValueError:
            return None

    def submitted(self) -> Submitted | None:
        """Of a job that comes, as a writer puts it; ``None``: it is something else."""
        head = f'{{"n":{self.number}'
        if not self.text.startswith(_SUBMIT, len(head)) or not self.text.startswith(head):
            return None
        now, _, rest = self.text[len(head) + len(_SUBMIT) :].partition(",")
        if not rest.startswith(_JOB):
            return None
        try:
            name, end = _decode(rest, len(_JOB))
            run_time = None
            if rest.startswith(_RUN_TIME, end):
                end += len(_RUN_TIME)
                estimate = rest[end:].partition(",")[0]
                run_time, end = float(estimate), end + len(estimate)
            return Submitted(float(now), str(name), run_time, rest[end:])
        except ValueError:
            return None


def read_log(path: "str | os.PathLike[str]") -> Iterator[LogRecord]:
    """The lines of a log, each checked when its turn comes.

    :param path: of its newest segment; the older ones that are there are read before it.
    :raises CorruptStateError: a line but a torn last one is damaged; the message names it. So is a
        segment that does not follow the one before it.

    Beginnings of segments are left out, but for the first.
    """
    for line in read_lines(path):
        yield line.record


def read_lines(path: "str | os.PathLike[str]", first: int = 0) -> Iterator[Line]:
    """The same, not yet read as JSON.

    :param first: older segments that begin with a smaller number are left out.
    """
    real = Path(os.path.realpath(path))
    with real.open("rb") as newest:  # first: what is older than this one stays as it is
        older = older_segments(real)
        beginning = read_beginning(newest) if not older or _begins_whole(newest) else None
        last: Line | None = None
        for number, segment in older.items():
            if number < first or (beginning is not None and number >= beginning.number):
                continue
            with segment.open("rb") as file:
                for line in _segment(file, segment.name, last):
                    yield line
                    last = line
        yield from _segment(newest, "", last)


def read_actions(
    path: "str | os.PathLike[str]", since: int | None = None
) -> tuple[int, Iterator[tuple[float, dict[str, Any]]]]:
    """The actions of a log as plain data, with the time of each, from a segment's beginning on.

    :param since: the number of an action; those after it are in this segment and newer ones.
        ``None``: those of the newest segment.
    :returns: the number of the last action before these, and them.
    :raises CorruptStateError: as of `read_log`.
    :raises LookupError: the segment is not there any more.
    """
    real = Path(os.path.realpath(path))
    oldest = 0
    damage: CorruptStateError | None = None
    for segment in (real, *reversed(older_segments(real).values())):
        with segment.open("rb") as file:
            beginning = read_beginning(file)
        if beginning is None or (since is not None and since < beginning.last_action):
            oldest = oldest if beginning is None else beginning.last_action
            continue
        lines = read_lines(real, beginning.number)
        try:
            next(lines)
        except CorruptStateError as error:  # then the one before has all that is needed
            damage = damage or error
            continue
        return beginning.last_action, _actions(lines)
    if damage is not None:
        raise damage
    raise LookupError(f"since={since}: the oldest action that is known is {oldest + 1}")


def _actions(lines: Iterator[Line]) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in lines:
        record = line.record
        if record.event == "decide":
            for action in record.fields["actions"]:
                yield record.now, action


def _segment(file: IO[bytes], name: str, before: Line | None) -> Iterator[Line]:
    """The lines of a segment, but for its beginning if there is a line before it."""
    beginning = read_beginning(file)
    first = 0 if beginning is None else beginning.number
    last_hash, end = 0, 0
    for index, line in enumerate(file):
        where = _where(name, index)
        if not line.endswith(b"\n"):
            if index == 0:
                raise CorruptStateError(f"{where}: is torn, so that the log says nothing")
            return
        if index == 0 and before is None and not line.startswith(b'{"n":'):
            raise CorruptStateError(f"{where}: does not begin a decision log")
        end += len(line)
        body = line[:-_TAIL]
        known, last_hash = last_hash, crc32(body, last_hash)
        if line[-_TAIL:] != b',"hash":"%08x"}\n' % last_hash and index > 0:
            body = _repeated(line, first + index)[:-_TAIL]
            last_hash = crc32(body, known)
        if line[-_TAIL:] != b',"hash":"%08x"}\n' % last_hash:
            if index > 0 or before is None:
                raise CorruptStateError(f"{where}: its checksum is another")
            first, last_hash = before.number, _hash_of(line, where)  # its state is not needed
            continue
        if index == 0 and before is not None:
            if beginning is None or beginning[:2] != (before.number, before.hash):
                raise CorruptStateError(f"{where}: does not follow {before.where}")
            continue
        try:
            yield Line(first + index, body.decode(), last_hash, end, first, name)
        except UnicodeDecodeError as error:
            raise CorruptStateError(f"{where}: {error}") from None
    if end == 0:
        raise CorruptStateError(f"{_where(name, 0)}: there is none")


def _repeated(line: bytes, number: int) -> bytes:
    """The line without the parts of it before it, which failed writes to a caller's file leave."""
    at = max(0, line.rfind(b'{"n":%d,' % number))
    whole, rest = line[at:], line[:at]
    while rest:
        alike = 0
        while rest[alike : alike + 1] == whole[alike : alike + 1] and alike < len(rest):
            alike += 1
        if alike == 0:
            return line
        rest = rest[alike:]
    return whole


def _begins_whole(file: IO[bytes]) -> bool:
    """Whether the first line is not damaged. The file is read again."""
    line = file.readline()
    file.seek(0)
    return line[-_TAIL:] == b',"hash":"%08x"}\n' % crc32(line[:-_TAIL])


def _hash_of(line: bytes, where: str) -> int:
    """The hash that a damaged line has, by which those after it can be checked."""
    found = re.search(rb',"hash":"([0-9a-f]{8})"}\n$', line)
    if found is None:
        raise CorruptStateError(f"{where}: its checksum is another")
    return int(found[1], 16)


def _where(file: str, index: int) -> str:
    return f"{file}: line {index + 1}" if file else f"line {index + 1}"


def _record(line: Line) -> LogRecord:
    where, number = line.where, line.number
    try:
        fields = json.loads(f"{line.text}}}", object_pairs_hook=as_object)
        told, event = fields.pop("n"), fields.pop("event")
        now = float(fields.pop("now", 0.0))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptStateError(f"{where}: {error}") from None
    if told != number:
        raise CorruptStateError(f"{where}: is number {told}, not {number}")
    is_first = number == line.first
    if (event == "begin") != is_first:
        raise CorruptStateError(f"{where}: a log begins with its state, and once")
    if is_first and fields.get("version") != VERSION:
        version = fields.get("version")
        raise CorruptStateError(f"{where}: version {version}, this release reads {VERSION}")
    return LogRecord(number - line.first + 1, number, event, now, fields)
