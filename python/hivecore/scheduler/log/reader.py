"""Reads a decision log, and checks each line as it is read.

Snapshots divide a log into segments. A segment begins with the state of the scheduler, the number
and the hash of the previous line, and the number of the last action before it. So a reader can tell
whether segments follow each other, and can start at any segment.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

from msgspec import Struct

from hivecore._arguments import as_object
from hivecore.errors import CorruptStateError
from hivecore.scheduler.log.files import LogPath, older_segments
from hivecore.scheduler.log.writer import VERSION

__all__ = ["Line", "LogRecord", "read_actions", "read_lines", "read_log"]

_TAIL = len(',"hash":"01234567"}\n')
_BEGINNING = re.compile(
    rb'\{"n":(\d{1,19}),"event":"begin","version":\d+'
    rb'(?:,"after":"([0-9a-f]{8})","last_action":(\d{1,19}))?,"state":"'
)
_HASH = re.compile(rb',"hash":"([0-9a-f]{8})"}\n$')


class LogRecord(NamedTuple):
    """A line of a log.

    :param line: its number in its file, from 1.
    :param number: its number in the log, from 0.
    :param event: "begin" or "state": the state is stored; "decide": a decision; else the name of
        the method of `Scheduler` that was called.
    :param now: the time of the call; 0.0 for "state".
    :param fields: the other arguments, as plain data.
    """

    line: int
    number: int
    event: str
    now: float
    fields: dict[str, Any]


class Line(Struct):
    """A line whose checksum is right.

    :param number: its number in the log, from 0.
    :param text: the line without its checksum, which is ``hash``.
    :param end: offset of its end in the file.
    :param first: number of the first line of its file.
    :param file: name of its file; "": the newest segment.
    """

    number: int
    text: str
    hash: int
    end: int
    first: int
    file: str
    _record: LogRecord | None = None

    @property
    def record(self) -> LogRecord:
        """The line as a record; CorruptStateError: it is no line of a log."""
        if self._record is None:
            self._record = self._read()
        return self._record

    @property
    def where(self) -> str:
        """The line's place, for messages."""
        return _where(self.file, self.number - self.first)

    def _read(self) -> LogRecord:
        where, number, is_first = self.where, self.number, self.number == self.first
        try:
            fields = json.loads(f"{self.text}}}", object_pairs_hook=as_object)
            written, event = fields.pop("n"), fields.pop("event")
            now = float(fields.pop("now", 0.0))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptStateError(f"{where}: {error}") from None
        if written != number:
            raise CorruptStateError(f"{where}: is number {written}, not {number}")
        if (event == "begin") != is_first:
            raise CorruptStateError(f"{where}: only the first line has the state of the beginning")
        if is_first and (version := fields.get("version")) != VERSION:
            raise CorruptStateError(f"{where}: version {version}, this release reads {VERSION}")
        return LogRecord(number - self.first + 1, number, event, now, fields)


def read_log(path: LogPath) -> Iterator[LogRecord]:
    """Read a log line by line; each is checked as it is read.

    :param path: of the newest segment; older ones beside it are read first.
    :raises CorruptStateError: a line is damaged, and is not a torn last one; or a segment does not
        follow the one before. The message names the line.

    The beginnings of later segments are left out.
    """
    for line in read_lines(path):
        yield line.record


def read_lines(path: LogPath, first: int = 0) -> Iterator[Line]:
    """Read lines as text; skip older segments that begin before the line ``first``."""
    real = Path(os.path.realpath(path))
    with real.open("rb") as newest:  # opened first, so that the older segments stay as they are
        older = older_segments(real)
        is_whole = not older or _whole(newest.readline(), 0) is not None
        newest.seek(0)
        beginning = _beginning(newest) if is_whole else None
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
    path: LogPath, since: int | None = None
) -> tuple[int, Iterator[tuple[float, dict[str, Any]]]]:
    """The actions of a log as plain data, each with its time, from the beginning of a segment.

    :param since: number of an action; the actions after it are among the result. ``None``: read the
        newest segment only.
    :returns: the number of the last action before the result, and the actions.
    :raises CorruptStateError: the log is damaged, see `read_log`.
    :raises LookupError: the segment does not exist any more.
    """
    real = Path(os.path.realpath(path))
    oldest = 0
    damage: CorruptStateError | None = None
    for segment in (real, *reversed(older_segments(real).values())):
        with segment.open("rb") as file:
            beginning = _beginning(file)
        if beginning is None or (since is not None and since < beginning.last_action):
            oldest = oldest if beginning is None else beginning.last_action
            continue
        lines = read_lines(real, beginning.number)
        try:
            next(lines)
        except CorruptStateError as error:  # the previous segment has all that is needed
            damage = damage or error
            continue
        decisions = (line.record for line in lines if line.record.event == "decide")
        return beginning.last_action, (
            (record.now, action) for record in decisions for action in record.fields["actions"]
        )
    raise damage or LookupError(f"since={since}: the oldest known action is {oldest + 1}")


class _Beginning(NamedTuple):
    """The first line of a segment: number and hash of the line before, and the last action."""

    number: int
    after: int | None
    last_action: int


def _beginning(file: IO[bytes]) -> _Beginning | None:
    """Read the first line of a segment, then rewind; ``None`` if the line is damaged."""
    match = _BEGINNING.match(file.read(256))
    file.seek(0)
    if match is None:
        return None
    number, after, last_action = match.groups()
    return _Beginning(int(number), None if after is None else int(after, 16), int(last_action or 0))


def _segment(file: IO[bytes], name: str, before: Line | None) -> Iterator[Line]:
    """The lines of a segment. If a line precedes it, its beginning is checked and left out."""
    beginning = _beginning(file)
    first = 0 if beginning is None else beginning.number
    last_hash, end = 0, 0
    for index, line in enumerate(file):
        where = _where(name, index)
        if not line.endswith(b"\n"):
            if index == 0:
                raise CorruptStateError(f"{where}: is torn, so the log is empty")
            return
        if index == 0 and before is None and not line.startswith(b'{"n":'):
            raise CorruptStateError(f"{where}: does not begin a decision log")
        end += len(line)
        whole = _whole(line, last_hash)
        if whole is None and index > 0:
            whole = _whole(_repeated(line, first + index), last_hash)
        if whole is None:
            match = _HASH.search(line)
            if index > 0 or before is None or match is None:
                raise CorruptStateError(f"{where}: its checksum is wrong")
            first, last_hash = before.number, int(match[1], 16)  # its state is not needed
            continue
        body, last_hash = whole
        if index == 0 and before is not None:
            if beginning is None or beginning[:2] != (before.number, before.hash):
                raise CorruptStateError(f"{where}: does not follow {before.where}")
            continue
        try:
            yield Line(first + index, body.decode(), last_hash, end, first, name)
        except UnicodeDecodeError as error:
            raise CorruptStateError(f"{where}: {error}") from None
    if end == 0:
        raise CorruptStateError(f"{_where(name, 0)}: is missing")


def _whole(line: bytes, before: int) -> tuple[bytes, int] | None:
    """A line without its hash, and the hash; ``None`` if the line is damaged."""
    body = line[:-_TAIL]
    hash = crc32(body, before)
    return (body, hash) if line[-_TAIL:] == b',"hash":"%08x"}\n' % hash else None


def _repeated(line: bytes, number: int) -> bytes:
    """The line without torn copies before it, which failed writes to a caller's file leave."""
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


def _where(file: str, index: int) -> str:
    return f"{file}: line {index + 1}" if file else f"line {index + 1}"
