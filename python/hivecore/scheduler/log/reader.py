"""Reading the decision log, line by line, each checked when its turn comes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from hivecore._arguments import as_object
from hivecore.errors import CorruptStateError
from hivecore.scheduler.log.writer import VERSION

__all__ = ["Line", "LogRecord", "Submitted", "read_lines", "read_log"]

_TAIL = len(',"hash":"01234567"}\n')
_DECIDE, _SUBMIT = ',"event":"decide","now":', ',"event":"submit","now":'
_JOB, _RUN_TIME = '"job":{"name":', ',"run_time":'
_decode = json.JSONDecoder().raw_decode


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

    Most lines are of few forms and need not be read as JSON: `decision` and `submitted` look at the
    first characters only.
    """

    __slots__ = ("_record", "end", "hash", "number", "text")

    def __init__(self, number: int, text: str, hash: int, end: int) -> None:
        self.number, self.text, self.hash, self.end = number, text, hash, end
        self._record: LogRecord | None = None

    @property
    def record(self) -> LogRecord:
        """What it says.

        :raises CorruptStateError: nothing that could be.
        """
        if self._record is None:
            self._record = _record(self.number, self.text)
        return self._record

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

    :raises CorruptStateError: a line but a torn last one is damaged; the message names it.
    """
    for line in read_lines(path):
        yield line.record


def read_lines(path: "str | os.PathLike[str]") -> Iterator[Line]:
    """The same, not yet read as JSON."""
    last_hash, end = 0, 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):
                if number == 0:
                    raise CorruptStateError("line 1: is torn, so that the log says nothing")
                return
            if number == 0 and not line.startswith(b'{"n":'):
                raise CorruptStateError("line 1: does not begin a decision log")
            body, end = line[:-_TAIL], end + len(line)
            last_hash = crc32(body, last_hash)
            if line[-_TAIL:] != b',"hash":"%08x"}\n' % last_hash:
                raise CorruptStateError(f"line {number + 1}: its checksum is another")
            try:
                yield Line(number, body.decode(), last_hash, end)
            except UnicodeDecodeError as error:
                raise CorruptStateError(f"line {number + 1}: {error}") from None
        if end == 0:
            raise CorruptStateError("line 1: there is none")


def _record(number: int, text: str) -> LogRecord:
    where = f"line {number + 1}"
    try:
        fields = json.loads(f"{text}}}", object_pairs_hook=as_object)
        told, event = fields.pop("n"), fields.pop("event")
        now = float(fields.pop("now", 0.0))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptStateError(f"{where}: {error}") from None
    if told != number:
        raise CorruptStateError(f"{where}: is number {told}, not {number}")
    if (event == "begin") != (number == 0):
        raise CorruptStateError(f"{where}: a log begins with its state, and once")
    if number == 0 and fields.get("version") != VERSION:
        version = fields.get("version")
        raise CorruptStateError(f"{where}: version {version}, this release reads {VERSION}")
    return LogRecord(number + 1, number, event, now, fields)
