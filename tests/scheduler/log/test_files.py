"""The file of a decision log: locks, full disks, the caller's own files, torn beginnings."""

import errno
import io
import multiprocessing
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial

import pytest
from scheduler.lives import decided, limited, make_scheduler

from hivecore.errors import CorruptStateError
from hivecore.scheduler import Job, Scheduler, Start, Wait, read_log, recover, replay
from hivecore.scheduler.log import files

forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
posix = pytest.mark.skipif(sys.platform == "win32", reason="flock, fork and limits of POSIX")


lab = partial(limited, quota="lab")


def started(scheduler, name, now=0.0, gpus=1):
    return [action.job for action in decided(scheduler, Job(name, "lab", gpus), now=now)]


def jobs_of(path):
    again = replay(path)
    return {name: again.state(name) for name in again}


# --- one writer


@posix
def test_a_second_writer_of_one_log_is_refused_and_changes_nothing(path, tmp_path):
    first = lab(log=path)
    started(first, "a")
    written = path.read_bytes()
    for second in (
        lambda: recover(path),
        lambda: recover(path, first.to_bytes()),
        lambda: recover(os.path.relpath(path)),
    ):
        with pytest.raises(BlockingIOError, match="another scheduler"):
            second()
        assert path.read_bytes() == written
    for second in (lambda: lab(log=path), lambda: lab().write_log(path)):
        with pytest.raises(FileExistsError):
            second()
        assert path.read_bytes() == written
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(BlockingIOError):
        recover(tmp_path / "link")
    assert started(first, "b") == ["b"]
    first.close()
    again = recover(path)
    assert list(again) == ["a", "b"]
    with pytest.raises(BlockingIOError):
        recover(path)


@posix
def test_only_one_of_two_schedulers_begins_a_log(path, monkeypatch):
    take, other = files._take, []

    def late(descriptor):
        monkeypatch.setattr(files, "_take", take)
        other.append(lab(log=path))  # between open and lock
        take(descriptor)

    monkeypatch.setattr(files, "_take", late)
    with pytest.raises(BlockingIOError):
        lab(log=path)
    assert started(other[0], "a") == ["a"]
    other[0].close()
    assert jobs_of(path) == {"a": "running"}
    path.unlink()

    def later(descriptor):
        monkeypatch.setattr(files, "_take", take)
        lab(log=path).close()
        take(descriptor)

    monkeypatch.setattr(files, "_take", later)
    with pytest.raises(FileExistsError):
        lab(log=path)
    assert jobs_of(path) == {}


@posix
def test_reading_a_log_leaves_its_lock(path):
    scheduler = lab(log=path)
    started(scheduler, "a")
    assert jobs_of(path) == {"a": "running"}
    assert len(list(read_log(path))) == 3
    with pytest.raises(BlockingIOError):
        recover(path)


@posix
def test_a_recovery_that_fails_leaves_no_lock(path):
    with lab_log(path) as scheduler:
        started(scheduler, "a")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"submit"', b'"finish"'))
    for _ in range(2):
        with pytest.raises(CorruptStateError, match="line 2"):
            recover(path)
    path.write_bytes(whole)
    assert list(recover(path)) == ["a"]


class lab_log:
    """A scheduler with a log, closed at the end."""

    def __init__(self, path):
        self.scheduler = lab(log=path)

    def __enter__(self):
        return self.scheduler

    def __exit__(self, *_):
        self.scheduler.close()


@posix
def test_only_one_of_many_threads_recovers_a_log(path):
    with lab_log(path) as scheduler:
        started(scheduler, "a")
    got, refused = [], []
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        try:
            got.append(recover(path))
        except BlockingIOError as error:
            refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)


@posix
def test_a_lock_is_taken_on_the_file_that_has_the_name(path, tmp_path, monkeypatch):
    with lab_log(path) as scheduler:
        started(scheduler, "old")
    with lab_log(tmp_path / "other") as scheduler:
        started(scheduler, "new")
    take = files._take

    def late(descriptor):
        monkeypatch.setattr(files, "_take", take)
        os.replace(tmp_path / "other", path)  # between open and lock
        take(descriptor)

    monkeypatch.setattr(files, "_take", late)
    scheduler = recover(path)
    assert list(scheduler) == ["new"]
    with pytest.raises(BlockingIOError):
        recover(path)


@posix
def test_only_a_regular_file_may_be_a_log(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, "/dev/null"):
        with pytest.raises(FileExistsError, match="regular file"):
            lab(log=path)
        with pytest.raises(FileExistsError, match="regular file"):
            recover(path)
    with pytest.raises(OSError):
        lab(log=tmp_path)
    with pytest.raises(FileNotFoundError):
        recover(tmp_path / "none")


def in_child(work):
    """Run a function in a forked process; return its exit status."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@posix
@forks
def test_a_forked_process_neither_writes_nor_keeps_the_log(path):
    scheduler = lab(log=path)
    started(scheduler, "a")
    scheduler.submit(Job("b", "lab", 1), 0.0)  # a line that is not written yet

    def child():
        try:
            scheduler.decide(1.0)
        except OSError:
            scheduler.close()
            return 0
        return 1

    assert in_child(child) == 0
    (reader, writer), (awake, wakes) = os.pipe(), os.pipe()
    sleeping = os.fork()
    if sleeping == 0:
        os.close(writer)
        os.write(wakes, b"x")
        os.read(reader, 1)  # outlives the parent's close
        os._exit(0)
    os.close(reader)
    os.read(awake, 1)
    assert [action.job for action in scheduler.decide(1.0)] == ["b"]
    scheduler.close()
    recover(path).close()
    os.close(writer)
    os.waitpid(sleeping, 0)
    assert jobs_of(path) == {"a": "running", "b": "running"}


@posix
@forks
def test_a_fork_writes_no_pending_line_into_the_file_of_a_caller(path):
    with path.open("wb") as file:
        scheduler = lab(log=file)
        scheduler.submit(Job("a", "lab", 1), 0.0)

        def child():
            scheduler.close()
            return 0

        assert in_child(child) == 0
        scheduler.decide(0.0)
    assert jobs_of(path) == {"a": "running"}


@posix
@forks
def test_workers_that_are_forked_do_not_keep_the_log(path):
    with lab_log(path) as scheduler, multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
        started(scheduler, "a")
        scheduler.close()
        again = recover(path)
        assert started(again, "b") == ["b"]
        again.close()
    assert list(jobs_of(path)) == ["a", "b"]


# --- full disks


class Full:
    """A disk that takes some bytes, a few at a time, and then refuses."""

    def __init__(self, monkeypatch, room, most=40):
        self.room, self.most, self.write = room, most, os.write
        monkeypatch.setattr(files.os, "write", self)

    def __call__(self, descriptor, data):
        part = data[: min(self.room, self.most)]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(part)
        return self.write(descriptor, part)


@pytest.mark.parametrize("room", [0, 1, 39, 40, 100, 300, 450])
def test_decisions_that_the_log_does_not_take_are_returned_by_the_next_call(
    path, monkeypatch, room
):
    scheduler = lab(log=path)
    assert started(scheduler, "first") == ["first"]
    lines = path.read_bytes()
    disk = Full(monkeypatch, room)
    scheduler.submit(Job("a", "lab", 2), 1.0)
    scheduler.submit(Job("b", "lab", 8), 1.0)
    with pytest.raises(OSError, match="No space"):
        scheduler.decide(1.0)
    assert path.read_bytes() == lines  # no partial line is left
    assert scheduler.actions() == scheduler.actions(since=0)
    assert [action.job for action in scheduler.actions()] == ["first"]
    state = scheduler.to_bytes()
    with pytest.raises(OSError, match="No space"):
        scheduler.decide(5.0)
    assert scheduler.to_bytes() == state  # the time has not advanced either
    scheduler.finish("first", 2.0)
    disk.room = 10**6
    said = scheduler.decide(2.0)
    assert [(type(action), action.job) for action in said] == [(Start, "a"), (Wait, "b")]
    assert scheduler.decide(2.0) == []
    assert scheduler.actions(since=1) == said
    scheduler.close()
    assert jobs_of(path) == {"a": "running", "b": "pending"}
    again = recover(path)
    assert again.actions(since=1) == said
    assert again.last_action == 3


def test_decisions_that_were_not_returned_are_saved_and_copied(path, monkeypatch):
    scheduler = lab(log=path)
    disk = Full(monkeypatch, 0)
    scheduler.submit(Job("a", "lab", 2), 1.0)
    with pytest.raises(OSError, match="No space"):
        scheduler.decide(1.0)
    state = scheduler.to_bytes()
    for branch in (scheduler.copy(), Scheduler.from_bytes(state)):
        assert [action.job for action in branch.decide(1.0)] == ["a"]
        assert branch.decide(1.0) == []
    disk.room = 10**6
    assert [action.job for action in scheduler.decide(1.0)] == ["a"]
    assert started(scheduler, "b", 2.0) == ["b"]
    scheduler.close()
    again = recover(path, state)
    assert [action.job for action in again.actions()] == ["a", "b"]
    assert again.decide(2.0) == []
    again.close()
    whole = recover(path)
    assert whole.to_bytes() == again.to_bytes()
    assert whole.actions() == again.actions()


def test_a_log_that_cannot_begin_is_none_and_can_begin_later(path, monkeypatch):
    scheduler = lab()
    started(scheduler, "a")
    disk = Full(monkeypatch, 100)
    with pytest.raises(OSError, match="No space"):
        scheduler.write_log(path)
    disk.room = 10**6
    assert scheduler.logged == -1
    assert started(scheduler, "b") == ["b"]
    assert scheduler.actions(since=1)[0].job == "b"
    scheduler.write_log(path)
    assert scheduler.last_action == 0
    assert started(scheduler, "c") == ["c"]
    assert [action.job for action in scheduler.actions()] == ["c"]
    scheduler.close()
    assert list(jobs_of(path)) == ["a", "b", "c"]


LIMITED = """
import resource, sys
from hivecore.scheduler import Job, Scheduler
path = sys.argv[1]
scheduler = Scheduler(log=path)
scheduler.submit(Job("a", "x", 1), 0.0)
scheduler.decide(0.0)
import os
size = os.stat(path).st_size
kind = resource.RLIMIT_FSIZE
for more in (0, 1, 10, 60):
    resource.setrlimit(kind, (size + more, resource.RLIM_INFINITY))
    scheduler.submit(Job(f"more{more}", "x", 1), 0.0)
    try:
        scheduler.decide(0.0)
    except OSError as error:
        assert error.errno == 27, error
    else:
        raise SystemExit("it was written")
    assert os.stat(path).st_size == size
resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(*[one.job for one in scheduler.decide(0.0)])
"""


@posix
def test_a_file_of_limited_size_ends_with_a_whole_line(path):
    command = [sys.executable, "-c", LIMITED, str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["a", "more0", "more1", "more10", "more60"][1:]
    assert len(jobs_of(path)) == 5


# --- the caller's own file


class Refusing(io.BytesIO):
    """Takes some bytes, the last of them as part of a call, and raises."""

    room = None

    def write(self, data):
        if self.room is None:
            return super().write(data)
        part = bytes(data)[: self.room]
        self.room -= len(part)
        super().write(part)
        if len(part) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(part)


class Silent:
    """A file with nothing but `write`, which takes all or nothing."""

    def __init__(self):
        self.text, self.is_full = b"", False

    def write(self, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.text += data


def test_an_error_of_a_write_has_the_name_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scheduler = lab(log="decisions.log")
    started(scheduler, "first")
    Full(monkeypatch, 40)
    with pytest.raises(OSError, match="No space") as error:
        scheduler.snapshot()
    assert error.value.filename == os.path.realpath("decisions.log.part")
    scheduler.submit(Job("a", "lab", 2), 1.0)
    with pytest.raises(OSError, match=r"No space left on device: 'decisions\.log'"):
        scheduler.decide(1.0)


@pytest.mark.parametrize("room", [0, 1, 50, 150, 300])
def test_a_file_of_the_caller_that_refuses_is_not_damaged(tmp_path, room):
    file = Refusing()
    file.write(b"the caller's own\n")
    begin = file.tell()
    scheduler = lab(log=file)
    assert started(scheduler, "first") == ["first"]
    whole = file.getvalue()
    file.room = room
    scheduler.submit(Job("a", "lab", 2), 1.0)
    scheduler.submit(Job("b", "lab", 8), 1.0)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            scheduler.decide(1.0)
        assert file.getvalue().startswith(whole)
        path = tmp_path / "log"
        path.write_bytes(file.getvalue()[begin:])
        assert "first" in jobs_of(path)
    file.room = None
    assert [action.job for action in scheduler.decide(1.0)] == ["a", "b"]
    scheduler.close()
    assert not file.closed
    path.write_bytes(file.getvalue()[begin:])
    assert jobs_of(path) == {"first": "running", "a": "running", "b": "pending"}


def test_a_file_that_can_only_write_is_not_damaged(path):
    file = Silent()
    scheduler = lab(log=file)
    file.is_full = True
    scheduler.submit(Job("a", "lab", 2), 1.0)
    with pytest.raises(OSError, match="No space"):
        scheduler.decide(1.0)
    file.is_full = False
    assert [action.job for action in scheduler.decide(1.0)] == ["a"]
    path.write_bytes(file.text)
    assert jobs_of(path) == {"a": "running"}


class Unsaying(io.RawIOBase):
    """Takes some bytes and raises, without saying how many."""

    def __init__(self):
        self.text, self.room = b"", None

    def writable(self):
        return True

    def write(self, data):
        part = bytes(data) if self.room is None else bytes(data)[: self.room]
        self.text += part
        if self.room is not None:
            self.room -= len(part)
            if len(part) < len(data):
                raise OSError(errno.ENOSPC, "No space left on device")
        return len(part)


ROOMS = [(0,), (1,), (7,), (9, 0, 9), (3, 1, 20), (150,), (400, 5), (90, 90)]


@pytest.mark.parametrize("rooms", ROOMS)
def test_a_line_that_a_failed_write_has_torn_is_written_again(path, rooms):
    file = Unsaying()
    scheduler = lab(log=file)
    started(scheduler, "first")
    scheduler.submit(Job("a", "lab", 2), 1.0)
    scheduler.submit(Job("b", "lab", 8), 1.0)
    for room in rooms:
        file.room = room
        with pytest.raises(OSError, match="No space"):
            scheduler.decide(1.0)
        path.write_bytes(file.text)
        assert "first" in jobs_of(path)
    file.room = None
    assert [action.job for action in scheduler.decide(1.0)] == ["a", "b"]
    started(scheduler, "c", 2.0)
    scheduler.close()
    path.write_bytes(file.text)
    assert jobs_of(path) == {"first": "running", "a": "running", "b": "pending", "c": "running"}
    again = recover(path)
    assert again.to_bytes() == scheduler.to_bytes()
    assert started(again, "d", 3.0) == ["d"]
    again.close()
    assert "d" in jobs_of(path)


@pytest.mark.parametrize("buffering", [0, 16, 8192])
@pytest.mark.parametrize("mode", ["wb", "ab", "r+b"])
def test_a_file_of_the_caller_keeps_what_is_before_and_behind(path, tmp_path, mode, buffering):
    before, behind = b"before\n", b"x" * 100_000
    path.write_bytes(b"" if mode == "wb" else before + (behind if mode == "r+b" else b""))
    with path.open(mode, buffering=buffering) as file:
        if mode == "r+b":
            file.seek(len(before))
        scheduler = lab(log=file)
        started(scheduler, "a")
        seen = path.read_bytes()  # the operating system has it
        end = file.tell()
        scheduler.close()
        assert not file.closed
        if mode == "r+b":
            assert file.tell() == end < len(behind)
    assert path.read_bytes() == seen
    if mode == "r+b":
        assert seen[:7] == before and seen[end:] == b"x" * (len(seen) - end)
        assert len(seen) == len(before) + len(behind)
    (tmp_path / "copy").write_bytes(seen.removeprefix(before).rstrip(b"x"))
    assert jobs_of(tmp_path / "copy") == {"a": "running"}


class ShortWrites(io.RawIOBase):
    """A raw file that takes a few bytes at a time, and sometimes none."""

    def __init__(self, nothing=False):
        self.text, self.nothing = b"", nothing

    def writable(self):
        return True

    def write(self, data):
        if self.nothing:
            return None
        self.text += bytes(data[:7])
        return min(7, len(data))


def test_a_raw_file_that_takes_a_part_gets_the_rest(path):
    file = ShortWrites()
    scheduler = lab(log=file)
    started(scheduler, "a")
    file.nothing = True
    scheduler.submit(Job("b", "lab", 1), 0.0)
    with pytest.raises(BlockingIOError):
        scheduler.decide(0.0)
    file.nothing = False
    assert [action.job for action in scheduler.decide(0.0)] == ["b"]
    path.write_bytes(file.text)
    assert jobs_of(path) == {"a": "running", "b": "running"}


@posix
def test_a_pipe_may_be_a_log(tmp_path):
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        started(lab(log=file), "a")
    with os.fdopen(reader, "rb") as file:
        (tmp_path / "log").write_bytes(file.read())
    assert jobs_of(tmp_path / "log") == {"a": "running"}


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("buffering", [0, 8192])
def test_a_full_device_of_the_caller_is_an_error_of_the_constructor(buffering):
    with open("/dev/full", "wb", buffering=buffering) as file:
        with pytest.raises(OSError, match="No space"):
            lab(log=file)
        with suppress(OSError):
            file.close()


@pytest.mark.parametrize("log", [1, object(), [b"x"]])
def test_what_is_neither_a_path_nor_a_file_is_refused(log):
    with pytest.raises(TypeError, match="log must be a path or a binary file, not "):
        lab(log=log)


# --- torn beginnings


def begin(path):
    """The first line of a log, as it was written."""
    lab(log=path).close()
    return path.read_bytes()


def test_a_log_with_a_torn_beginning_begins_again(path):
    line = begin(path)
    cuts = [0, 1, 5, 22, 23, 40, 100, len(line) // 2, len(line) - 2, len(line) - 1]
    torn = [line[:cut] for cut in cuts]
    torn += [b"\n", b"\r\n", b"\n\n\n", b"\0", b"\0" * 5000, b"\0\n", line[:100] + b"\0" * 4000]
    torn += [line[:60] + b"\n"]
    for text in torn:
        path.write_bytes(text)
        with pytest.raises(CorruptStateError, match="line 1: "):
            recover(path)
        with lab_log(path) as scheduler:
            assert started(scheduler, "a") == ["a"]
        assert path.read_bytes().startswith(line)
        assert jobs_of(path) == {"a": "running"}


def test_only_a_torn_beginning_is_overwritten(path):
    line = begin(path)
    damaged = line.replace(b'"state":"', b'"state":"x', 1)
    other = [
        line,
        damaged,
        line + line,
        b"mine",
        b"mine\n",
        b"\nmine\n",
        b" \n",
        b"{}\n",
        b'{"n":0,"event":"end"',
        b'{"n":0,"event":"begin"}\n',
        line[:50] + b"\n" + b"more",
        b"\n" + line,
        b"\0" * 10 + b"x",
        b"\0" * 2**21 + b"x",
        b"\x7fELF\0\0\0",
        b"version: 1\n",
    ]
    for text in other:
        path.write_bytes(text)
        with pytest.raises(FileExistsError, match="not overwritten"):
            lab(log=path)
        assert path.read_bytes() == text
        if text != line:
            with pytest.raises(CorruptStateError):
                recover(path)
            assert path.read_bytes() == text


# --- delivered actions


def test_actions_are_read_again_by_their_numbers(path):
    scheduler = lab(log=path)
    said = []
    for number in range(6):
        scheduler.submit(Job(f"j{number}", "lab", 3), float(number))
        said += scheduler.decide(float(number))
    assert scheduler.actions() == said
    assert scheduler.last_action == len(said)
    for since in range(len(said) + 1):
        assert scheduler.actions(since=since) == said[since:]
    with pytest.raises(ValueError, match=f"since={len(said) + 1}"):
        scheduler.actions(since=len(said) + 1)
    for wrong, error in ((-1, ValueError), (2**70, ValueError), (1.5, TypeError), ("1", TypeError)):
        with pytest.raises(error, match="since"):
            scheduler.actions(since=wrong)
    assert scheduler.copy().last_action == 0
    scheduler.close()
    assert replay(path).actions() == said
    again = recover(path)
    assert again.actions(since=2) == said[2:]
    again.touch()
    assert again.actions(since=2) == said[2:]
    (more,) = decided(again, Job("more", "lab", 1), now=9.0)
    again.close()
    whole = replay(path)
    assert whole.actions(since=len(said)) == [more]
    assert whole.actions() == [*said, more]


def test_the_oldest_actions_are_forgotten():
    scheduler = make_scheduler(())
    said = decided(scheduler, *(Job(f"j{number}", "a", 1) for number in range(10_010)))
    assert scheduler.actions(since=10) == said[10:]
    with pytest.raises(LookupError, match="since=9"):
        scheduler.actions(since=9)


def test_a_file_of_text_is_refused_by_its_argument():
    with pytest.raises(TypeError, match="log must be a path or a binary file, not StringIO"):
        lab(log=io.StringIO())
