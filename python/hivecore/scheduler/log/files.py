"""The files of a decision log.

The log locks a file that it opens itself, so that there is one writer. The lock belongs to the open
file, also excludes a second writer in the same process, and ends with the process. The log knows
how long its file is, and cuts off what a failed write has left, at the latest before the next
write.

A snapshot begins a new segment. The new segment is written beside the file and synchronised, the
file gets a second name, and the new segment replaces it under the first name. A crash between these
steps leaves a complete log.

A file that the caller has opened is only written to and flushed: never truncated, closed or
rewound. After a failed write the next one continues behind the bytes that were written. If the file
does not say how many these are, the line is written again, and readers skip its torn copy.
"""

import io
import os
import re
import stat
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["GivenFile", "LogPath", "OwnFile", "is_new_log", "older_segments"]

LogPath = str | os.PathLike[str]
_BEGINNING = b'{"n":0,"event":"begin",'
_BLANK = b"\0\r\n"
_LINE = b'{"n":'
_SEGMENT = re.compile(r"\.(\d{12,19})")  # suffix of a segment: the number of its first line
_FAR = 2**62  # Windows locks this byte, so that all bytes before it can be read


class OwnFile:
    """A file that the log opens and locks.

    :param path: a path for which `is_new_log` holds; or of an old log, to continue behind `cut_at`.
    :raises FileExistsError: a new log has content, or older segments of another log beside it.
    :raises FileNotFoundError: the old log does not exist.
    :raises BlockingIOError: another scheduler writes to the log.
    """

    def __init__(self, path: LogPath, is_old: bool = False) -> None:
        if not is_old:
            _check_new(path)
        self.path, self._name = os.path.realpath(path), str(path)
        flags = 0 if is_old else os.O_CREAT
        self._descriptor = _locked(self.path, self._name, flags)  # -1: closed
        self._end, self._is_torn = 0, False
        self._is_new = True  # its folder may not be synchronised yet
        _OWN.add(self)
        if is_old:
            return
        try:
            _check_new(path)  # again, now that the file is locked
            for segment in older_segments(self.path).values():
                raise FileExistsError(
                    f"{segment}: is an older segment of a log that does not exist"
                )
            self.cut_at(0)
        except BaseException:
            self.close()
            raise

    def cut_at(self, end: int) -> None:
        """Truncate the file; the next write begins there."""
        self._end = end
        self._cut()

    def _cut(self) -> None:
        self._is_torn = True
        os.ftruncate(self._descriptor, self._end)
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        self._is_torn = False

    def write(self, text: bytes) -> None:
        """Append the text, and pass it to the operating system.

        :raises OSError: some of it was not written. The file is as before, or is truncated before
            the next write.
        """
        if self._descriptor < 0:
            raise OSError(f"{self.path}: the log is closed")
        if self._is_torn:
            self._cut()
        try:
            _write(self._descriptor, text)
        except BaseException as error:
            self._is_torn = True
            with suppress(OSError):
                self._cut()
            _name_file(error, self._name)
            raise
        self._end += len(text)

    def rotate(self, line: bytes, number: int) -> None:
        """Begin a new segment; what was written so far becomes an older one.

        :param line: first line of the new segment.
        :param number: number of the first line of the old one.
        :raises OSError: the log has not changed; an unused file may be left beside it.
        """
        os.fsync(self._descriptor)
        part = self.path + ".part"
        descriptor = _locked(part, part, os.O_CREAT)
        is_mine = False
        try:
            if not _LINE.startswith(os.read(descriptor, len(_LINE)).rstrip(_BLANK)):
                raise FileExistsError(f"{part}: the file exists, and is not overwritten")
            is_mine = True
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(self._descriptor).st_mode))
            _write(descriptor, line)
            os.fsync(descriptor)
            _link(self.path, Path(f"{self.path}.{number:012d}"))
            os.replace(part, self.path)
        except BaseException as error:
            if is_mine:
                with suppress(OSError):  # the disk may be full
                    os.unlink(part)
            os.close(descriptor)
            _name_file(error, part)
            raise
        old = self._descriptor
        self._descriptor, self._end, self._is_new = descriptor, len(line), True
        with suppress(OSError):  # it is synchronised already
            os.close(old)

    def descriptor(self) -> int:
        """A duplicate of the descriptor, for `os.fsync`; synchronises the folder if needed."""
        if self._is_new and os.name != "nt":  # Windows cannot open a folder
            folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._is_new = False
        return os.dup(self._descriptor)

    def close(self) -> None:
        """Close and unlock the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class GivenFile:
    """A binary file that the caller has opened; TypeError for others, and read-only ones."""

    def __init__(self, file: IO[bytes]) -> None:
        given: object = file
        if not callable(getattr(given, "write", None)) or isinstance(given, io.TextIOBase):
            raise TypeError(f"log must be a path or a binary file, not {type(file).__name__}")
        self._file = file
        self._taken = 0  # bytes that a failed call has written

    def write(self, text: bytes) -> None:
        """Append the text as `OwnFile.write` does. After an error, the next text must begin with
        this one.
        """
        while self._taken < len(text):
            begin, end_of_line = self._position(), text.index(b"\n", self._taken) + 1
            line = text[self._taken : end_of_line]
            try:
                took: Any = self._file.write(line)
            except BaseException:
                # The file may have taken a part before it raised.
                end = self._position()
                if begin is not None and end is not None and end > begin:
                    self._taken = min(len(text), self._taken + end - begin)
                raise
            if took is None and isinstance(self._file, io.RawIOBase):
                raise BlockingIOError("the log's file accepts no more data now")
            self._taken += len(line) if took is None else took
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()
        self._taken = 0

    def _position(self) -> int | None:
        """The file's position; ``None`` if it does not say."""
        try:
            return int(self._file.tell())
        except (AttributeError, OSError, TypeError, ValueError):
            return None

    def descriptor(self) -> int:
        """A duplicate of the descriptor, for `os.fsync`."""
        return os.dup(self._file.fileno())

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""


def is_new_log(path: LogPath) -> bool:
    """Whether a new log may be written to this path.

    So it is if there is no file, or if the file is empty or ends within the first line of a log, as
    after a crash: then no call has returned yet. Zero bytes at the end are ignored, as some file
    systems leave them after a power cut.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "log"
    >>> is_new_log(path)
    True
    >>> _ = path.write_text('{"n":0,"event":"begin","vers')
    >>> is_new_log(path)
    True
    >>> _ = path.write_text("what another program has written")
    >>> is_new_log(path)
    False
    """
    if not Path(path).is_file():
        return True
    with Path(path).open("rb") as file:
        first = file.readline()
        if any(chunk.strip(_BLANK) for chunk in iter(lambda: file.read(2**20), b"")):
            return False
    text = first.rstrip(_BLANK)
    if text.endswith(b'"}') and first.endswith(b"\n"):
        return False  # a complete line
    return text.startswith(_BEGINNING) or _BEGINNING.startswith(text)


def _name_file(error: BaseException, name: str) -> None:
    """Add the file's name to an error that has none."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = name


def _check_new(path: LogPath) -> None:
    if not is_new_log(path):
        raise FileExistsError(f"{path}: the file exists, and is not overwritten")


def older_segments(path: LogPath) -> dict[int, Path]:
    """The older segments of a log in order, by the number of their first line.

    The newest segment has the name of the log; older ones have their number as suffix.
    """
    newest = Path(path)
    segments = {}
    for file in newest.parent.iterdir():
        end = _SEGMENT.fullmatch(file.name.removeprefix(newest.name))
        # A crash during a snapshot may leave a second name of the newest segment.
        if end and file.name != end[0] and not (newest.exists() and file.samefile(newest)):
            segments[int(end[1])] = file
    return dict(sorted(segments.items()))


def _write(descriptor: int, text: bytes) -> None:
    done = 0
    while done < len(text):  # a full disk takes a part first
        done += os.write(descriptor, text[done:] if done else text)


def _link(path: str, name: Path) -> None:
    try:
        os.link(path, name)
    except FileExistsError:
        if not name.samefile(path):  # left by a crash
            raise


def _locked(path: str, name: str, flags: int) -> int:
    """Open a file for reading and writing, lock it, and return its descriptor."""
    flags |= os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise FileExistsError(f"{name}: is not a regular file")
        descriptor = os.open(path, flags, 0o666)
        try:
            _lock(descriptor, name)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # replaced or removed before it was locked


def _lock(descriptor: int, name: str) -> None:
    try:
        _take(descriptor)
    except (BlockingIOError, PermissionError):
        raise BlockingIOError(f"{name}: another scheduler writes this log") from None
    except OSError as error:
        raise OSError(error.errno, f"{name}: cannot be locked: {error.strerror}") from None


try:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)


#: A lock lasts until all descriptors are closed, and a fork copies them.
_OWN: "weakref.WeakSet[OwnFile]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    for file in list(_OWN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
