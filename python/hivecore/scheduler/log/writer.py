"""Writes the decision log.

The log is JSON Lines. The first line has the state of the scheduler. Each further line is an event,
or a decision with its actions. Lines are numbered, and a checksum covers a line and all before it,
so that a damaged, missing or added line is found. Each decision passes its lines to the operating
system before the caller gets the actions. If that fails, the lines are kept, and written with the
next decision. A torn last line is dropped by readers: the call that wrote it had not returned.

A part that was changed from outside does not follow from events: `Scheduler.touch` writes the state
again.
"""

import os
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from typing import IO, Any
from zlib import crc32

from hivecore.scheduler.actions import Action, Start
from hivecore.scheduler.job import Job
from hivecore.scheduler.log.files import GivenFile, LogPath, OwnFile
from hivecore.scheduler.plain import plain_record

__all__ = ["VERSION", "LogWriter", "decided"]

VERSION = 1
_encode = JSONEncoder(separators=(",", ":"), default=float).encode
_MOST_KINDS = 2**16


class LogWriter:
    """Writes the events and decisions of a scheduler.

    :param file: the path of a new file, or an open file.
    :raises FileExistsError: the file has content; use `recover` to continue a log.
    :raises BlockingIOError: another scheduler writes to this log.
    :param number: number of the last line; -1: there is none.
    :param last: hash of that line.
    :param first: number of the first line of the file.
    """

    def __init__(
        self,
        file: "LogPath | IO[bytes] | OwnFile",
        number: int = -1,
        last: int = 0,
        first: int = 0,
    ) -> None:
        self._file: OwnFile | GivenFile | None = None
        self._lines: list[bytes] = []
        if isinstance(file, (str, os.PathLike)):
            file = OwnFile(file)
        self._file = file if isinstance(file, OwnFile) else GivenFile(file)
        self._process = os.getpid()
        self._number, self._hash = number, last
        self.first = first
        """The number with which the newest segment begins."""
        self.is_behind = False
        """Whether the last write has failed, and its lines are still to be written."""
        #: by kind, the JSON that its jobs share
        self._alike: dict[int, str] = {}

    def close(self) -> None:
        """Write all lines, and close the file if it was opened here."""
        if self._file is not None:
            if self._process == os.getpid():  # after a fork, the parent writes them
                self.flush()
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """Close without writing the remaining lines."""
        self._lines.clear()
        self.close()

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()

    def state(self, event: str, state: bytes) -> None:
        """Write the present state."""
        text = b64encode(state).decode()
        self._write(f'"event":"{event}","version":{VERSION},"state":"{text}"')
        self.flush()

    @property
    def path(self) -> str | None:
        """Path of the file; ``None`` if the caller opened it."""
        return self._file.path if isinstance(self._file, OwnFile) else None

    def snapshot(self, state: bytes, last_action: int) -> None:
        """Begin a new segment with the present state.

        :param last_action: number of the last action so far.
        :raises ValueError: the caller opened the file.
        :raises OSError: a file cannot be written; the log continues in the old segment.
        """
        self.flush()
        if not isinstance(self._file, OwnFile):
            raise ValueError("log: only one that was given as a path has snapshots")
        if self._number == self.first:
            return
        head = f'{{"n":{self._number},"event":"begin","version":{VERSION}'
        after = f'"after":"{self._hash:08x}","last_action":{last_action}'
        line = f'{head},{after},"state":"{b64encode(state).decode()}"'.encode()
        last = crc32(line)
        self._file.rotate(b'%b,"hash":"%08x"}\n' % (line, last), self.first)
        self._hash, self.first = last, self._number

    def descriptor(self) -> int:
        """Write all lines, and return a duplicate of the file's descriptor."""
        self.flush()
        assert self._file is not None
        return self._file.descriptor()

    def submit(self, job: Job, kind: int, now: float) -> None:
        """Write that a job was submitted; the JSON that a kind shares is made once."""
        if job.stages or job.data is not None or job.after or job.together:
            body = _encode(plain_record(job))
        else:
            alike = self._alike.get(kind)
            if alike is None:
                if len(self._alike) >= _MOST_KINDS:
                    self._alike.clear()
                plain = plain_record(job.replace(run_time=None))
                del plain["name"]
                alike = self._alike[kind] = f",{_encode(plain)[1:-1]}"
            estimate = "" if job.run_time is None else f',"run_time":{job.run_time!r}'
            body = f'{{"name":{quoted(job.name)}{estimate}{alike}}}'
        self._write(f'"event":"submit","now":{now!r},"job":{body}')

    def event(self, event: str, now: float, fields: Mapping[str, Any]) -> None:
        """Write another event."""
        text = f'"event":"{event}","now":{now!r}'
        for name, value in fields.items():
            text += f',"{name}":{quoted(value) if type(value) is str else _encode(value)}'
        self._write(text)

    def decided(self, now: float, most: int | None, actions: list[Action]) -> None:
        """Write a decision."""
        self._write(decided(now, most, actions))
        self.flush()

    def flush(self) -> None:
        """Pass all lines to the system; OSError, and they are kept, if it fails or in a fork."""
        if not self._lines:
            return
        assert self._file is not None
        self.is_behind = True
        if self._process != os.getpid():
            raise OSError(f"the log is written by process {self._process}, which has forked")
        self._file.write(b"".join(self._lines))
        self._lines.clear()
        self.is_behind = False

    def _write(self, text: str) -> None:
        self._number += 1
        line = f'{{"n":{self._number},{text}'.encode()
        self._hash = crc32(line, self._hash)
        self._lines.append(b'%b,"hash":"%08x"}\n' % (line, self._hash))


def decided(now: float, most: int | None, actions: list[Action]) -> str:
    """A decision as it stands in its line, behind the number."""
    limit = "" if most is None else f',"most":{most}'
    said = ",".join(
        [
            _start(action) if isinstance(action, Start) else _encode(plain_record(action))
            for action in actions
        ]
    )
    return f'"event":"decide","now":{now!r}{limit},"actions":[{said}]'


def _start(start: Start) -> str:
    """An action as JSON. Starts are so frequent that they have a fast path."""
    if start.shares_with:
        return _encode(plain_record(start))
    pods = [
        f"[{quoted(pod.role)},{pod.index},{quoted(pod.node)},{{{_devices(pod.minors)}}}]"
        for pod in start.pods
    ]
    lent = ',"lent":true' if start.lent else ""
    return f'{{"action":"start","job":{quoted(start.job)},"pods":[{",".join(pods)}]{lent}}}'


@lru_cache(4096)  # nodes often have the same minors
def _devices(minors: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return ",".join([f'"{type}":[{",".join(map(str, them))}]' for type, them in minors])
