"""The files that a decision log is written to.

A file that the log opens itself is locked, so that one writer has it: the lock belongs to the open
file, excludes a second writer of the same process as well, and ends with the process. Its end is
known, so what a failed write has left behind is cut off at once, or before the next write.

With a snapshot a new segment of the log takes the place of the file, in steps after each of which a
crash leaves a whole log: the new segment is written beside it and reaches the disk, the old one
gets a second name, and the new one replaces it under the first.

A file that a caller has opened is written to and flushed, and nothing else: it is never truncated,
closed or moved back. After a failed write the next one goes on behind the bytes that it has taken.
If the file does not say how many these are, the line is written once more, and readers skip what
the failed write has left before it.
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
_SEGMENT = re.compile(r"\.(\d{12,19})")  # behind the name: the number of its first line
_FAR = 2**62  # where Windows locks a byte: others may read all that stands before


class OwnFile:
    """A file that the log has opened and locked.

    :param path: of a file that `is_new_log`; or of an old one, to go on with behind `cut_at`.
    :raises FileExistsError: a new one has content, or segments of another log are beside it.
    :raises FileNotFoundError: there is no old one.
    :raises BlockingIOError: another scheduler writes it.
    """

    def __init__(self, path: LogPath, is_old: bool = False) -> None:
        if not is_old:
            _check_new(path)
        self.path, self._name = os.path.realpath(path), str(path)
        flags = 0 if is_old else os.O_CREAT
        self._descriptor = _locked(self.path, self._name, flags)  # -1: closed
        self._end, self._is_torn = 0, False
        self._is_new = True  # its name is perhaps not on the disk yet
        _OWN.add(self)
        if is_old:
            return
        try:
            _check_new(path)  # now that no other scheduler writes it
            for segment in older_segments(self.path).values():
                raise FileExistsError(f"{segment}: is an older segment of a log that is not there")
            self.cut_at(0)
        except BaseException:
            self.close()
            raise

    def cut_at(self, end: int) -> None:
        """Drop all behind this offset; the next write begins there."""
        self._end = end
        self._cut()

    def _cut(self) -> None:
        self._is_torn = True
        os.ftruncate(self._descriptor, self._end)
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        self._is_torn = False

    def write(self, text: bytes) -> None:
        """Append all of the text and hand it to the system.

        :raises OSError: not all of it was taken. The file is as it was, or is cut off later.
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
        """Begin a new segment; what was written so far is an older one from now on.

        :param line: the first line of the new segment.
        :param number: with which the old one begins.
        :raises OSError: nothing has changed, but for a file beside the log that is not used.
        """
        os.fsync(self._descriptor)
        part = self.path + ".part"
        descriptor = _locked(part, part, os.O_CREAT)
        is_mine = False
        try:
            if not _LINE.startswith(os.read(descriptor, len(_LINE)).rstrip(_BLANK)):
                raise FileExistsError(f"{part}: there is a file, which is not overwritten")
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
                with suppress(OSError):  # on a full disk the log needs the room
                    os.unlink(part)
            os.close(descriptor)
            _name_file(error, part)
            raise
        old = self._descriptor
        self._descriptor, self._end, self._is_new = descriptor, len(line), True
        with suppress(OSError):  # it is on the disk
            os.close(old)

    def descriptor(self) -> int:
        """A new descriptor, by which the file can be synchronised with the disk, where its folder
        has its name by then.
        """
        if self._is_new and os.name != "nt":  # a folder cannot be opened there
            folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._is_new = False
        return os.dup(self._descriptor)

    def close(self) -> None:
        """Nothing more is written; another scheduler may have the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class GivenFile:
    """A binary file that a caller has opened.

    :raises TypeError: it cannot be written to, or is one of text.
    """

    def __init__(self, file: IO[bytes]) -> None:
        given: object = file
        if not callable(getattr(given, "write", None)) or isinstance(given, io.TextIOBase):
            raise TypeError(f"log must be a path or a binary file, not {type(file).__name__}")
        self._file = file
        self._taken = 0  # bytes of the text that a failed call has left

    def write(self, text: bytes) -> None:
        """As of `OwnFile`; after an error the next call has to begin with the same text."""
        while self._taken < len(text):
            begin, end_of_line = self._position(), text.index(b"\n", self._taken) + 1
            line = text[self._taken : end_of_line]
            try:
                took: Any = self._file.write(line)
            except BaseException:
                # A buffered file, or one of a caller's own, may have taken a part.
                end = self._position()
                if begin is not None and end is not None and end > begin:
                    self._taken = min(len(text), self._taken + end - begin)
                raise
            if took is None and isinstance(self._file, io.RawIOBase):
                raise BlockingIOError("the log's file takes nothing more for now")
            self._taken += len(line) if took is None else took
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()
        self._taken = 0

    def _position(self) -> int | None:
        """Where the file is; ``None``: it does not say."""
        try:
            return int(self._file.tell())
        except (AttributeError, OSError, TypeError, ValueError):
            return None

    def descriptor(self) -> int:
        """A new descriptor, by which the file can be synchronised with the disk."""
        return os.dup(self._file.fileno())

    def close(self) -> None:
        """The file stays open: it is the caller's."""


def is_new_log(path: LogPath) -> bool:
    """Whether a log may begin at this path: there is no file, or one that says nothing.

    That is a file which is empty or ends within the first line of a log, as a crash may leave it:
    no caller has had an answer by such a log. Zero bytes at the end are what a file system may
    leave of a write that a power cut has interrupted.

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
        return False  # a whole line
    return text.startswith(_BEGINNING) or _BEGINNING.startswith(text)


def _name_file(error: BaseException, name: str) -> None:
    """Have an error of a descriptor say of which file it is."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = name


def _check_new(path: LogPath) -> None:
    if not is_new_log(path):
        raise FileExistsError(f"{path}: there is a file, which is not overwritten")


def older_segments(path: LogPath) -> dict[int, Path]:
    """The older segments of a log, by the number that each begins with, in order.

    The newest has the name of the log, and each older one its number behind that.
    """
    newest = Path(path)
    segments = {}
    for file in newest.parent.iterdir():
        end = _SEGMENT.fullmatch(file.name.removeprefix(newest.name))
        # A snapshot that a crash has cut short leaves two names of the newest one.
        if end and file.name != end[0] and not (newest.exists() and file.samefile(newest)):
            segments[int(end[1])] = file
    return dict(sorted(segments.items()))


def _write(descriptor: int, text: bytes) -> None:
    done = 0
    while done < len(text):  # a full disk takes a part before it refuses
        done += os.write(descriptor, text[done:] if done else text)


def _link(path: str, name: Path) -> None:
    try:
        os.link(path, name)
    except FileExistsError:
        if not name.samefile(path):  # a crash may have left it so
            raise


def _locked(path: str, name: str, flags: int) -> int:
    """The descriptor of the file, open for reading and writing, and locked."""
    flags |= os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise FileExistsError(f"{name}: is no regular file")
        descriptor = os.open(path, flags, 0o666)
        try:
            _lock(descriptor, name)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was replaced or removed before it was locked


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


#: A fork copies the open files, and a lock is held until all copies are closed.
_OWN: "weakref.WeakSet[OwnFile]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    for file in list(_OWN):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
