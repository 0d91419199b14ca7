"""Snapshots of a decision log and its segments, also after crashes."""

import os
import random
import shutil
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from profiles import seeds
from scheduler.lives import COMPOSITIONS, limited, make_scheduler
from scheduler.random_lives import live

from hivecore.errors import CorruptStateError
from hivecore.scheduler import (
    Job,
    diff_log,
    explain_log,
    log_standing,
    plain_record,
    read_log,
    recover,
    replay,
)
from hivecore.scheduler.log import files

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="an open file cannot be replaced there"
)


lab = partial(limited, quota="lab")


def some(scheduler, first, count):
    """Submit and finish jobs."""
    said = []
    for number in range(first, first + count):
        scheduler.submit(Job(f"j{number}", "lab", 3), float(number))
        said += scheduler.decide(float(number))
        if number % 3 == 2 and scheduler.state(f"j{number - 1}") == "running":
            scheduler.finish(f"j{number - 1}", float(number))
    return said


def rotated(folder, parts=3, each=5):
    """A log of several segments; the scheduler and its actions."""
    scheduler = lab(log=folder / "log")
    said = []
    for part in range(parts):
        said += some(scheduler, part * each, each)
        if part < parts - 1:
            scheduler.snapshot()
    said += scheduler.decide(scheduler.now)
    return scheduler, said


def older(folder):
    return sorted(file for file in folder.iterdir() if file.name.startswith("log.0"))


def lives_on_alike(first, other, seed=0):
    """Whether two schedulers decide the same from now on."""
    return live(first, random.Random(seed), 30, 5000) == live(other, random.Random(seed), 30, 5000)


def state_of(scheduler):
    """The state without the number of the last line of the log."""
    return scheduler.copy().to_bytes()


def records(path):
    return [(line.number, line.event, line.now, line.fields) for line in list(read_log(path))[1:]]


@pytest.mark.parametrize("seed", seeds(20))
def test_segments_have_the_lines_of_the_whole_log(seed, tmp_path):
    rng = random.Random(seed)
    parts = COMPOSITIONS[rng.choice(sorted(COMPOSITIONS))]
    immediate = rng.random() < 0.5
    both = []
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
        scheduler = make_scheduler(parts, immediate=immediate, log=tmp_path / name / "log")
        both.append(scheduler)
        said = []
        for part in range(4):
            said += live(scheduler, random.Random(f"{seed} {part}"), 20, 20 * part)
            if name == "cut" and part < 3:
                scheduler.snapshot()
        said += [plain_record(action) for action in scheduler.decide(scheduler.now)]
        scheduler.close()
    whole, cut = (tmp_path / name / "log" for name in ("whole", "cut"))
    assert len(older(tmp_path / "cut")) == 3
    assert records(cut) == records(whole)
    assert state_of(replay(cut)) == state_of(both[0]) == state_of(both[1])
    assert log_standing(cut) == log_standing(whole)
    for file in older(tmp_path / "cut")[:2]:
        file.unlink()
    again = recover(cut)
    assert list(again) == list(both[0])
    assert again.logged == both[0].logged
    assert again.last_action == len(said)
    assert list(map(plain_record, again.actions(since=len(said)))) == []
    assert lives_on_alike(again, both[0].copy(), seed)
    again.decide(again.now)
    again.close()
    replay(cut)


def test_a_restart_reads_the_newest_segment_only(tmp_path, monkeypatch):
    scheduler, said = rotated(tmp_path)
    state = scheduler.to_bytes()
    scheduler.close()
    numbers = [int(file.name.rpartition(".")[2]) for file in older(tmp_path)]
    assert numbers[0] == 0
    for file in older(tmp_path):
        file.write_bytes(b"nothing of a log")
    again = recover(tmp_path / "log")
    assert again.to_bytes() == state
    assert again.log_begin > numbers[1]
    assert again.last_action == len(said)
    newest = again.actions(since=len(said) - 2)
    assert newest == said[-2:]


def test_segments_may_be_removed_the_oldest_first(tmp_path):
    scheduler, said = rotated(tmp_path, parts=4)
    other = lab()
    scheduler.close()
    whole = diff_log(tmp_path / "log", other)
    assert len(whole.jobs) == 20
    for left in (3, 2, 1, 0):
        assert len(older(tmp_path)) == left
        assert state_of(replay(tmp_path / "log")) == state_of(scheduler)
        first = next(read_log(tmp_path / "log"))
        assert (first.event, first.line) == ("begin", 1)
        standing = log_standing(tmp_path / "log")
        assert [job.job for job in standing.jobs] == list(scheduler)
        assert standing.in_use == log_standing(tmp_path / "log").in_use
        assert explain_log(tmp_path / "log", list(scheduler)[-1], at=99.0).state == "pending"
        diff_log(tmp_path / "log", lab())
        if left:
            older(tmp_path)[0].unlink()
    again = recover(tmp_path / "log")
    assert again.last_action == len(said)
    known = next(
        since
        for since in range(len(said))
        if not isinstance(actions_since(again, since), LookupError)
    )
    assert known > 3
    assert again.actions(since=known) == said[known:]


def actions_since(scheduler, since):
    try:
        return scheduler.actions(since=since)
    except LookupError as error:
        return error


def test_actions_of_older_segments_are_read_again(tmp_path):
    scheduler, said = rotated(tmp_path)
    scheduler.close()
    again = recover(tmp_path / "log")
    for since in range(len(said) + 1):
        assert again.actions(since=since) == said[since:]


def test_a_segment_that_is_missing_in_the_middle_is_named(tmp_path):
    scheduler, _ = rotated(tmp_path, parts=4)
    scheduler.close()
    _, second, third = older(tmp_path)
    second.unlink()
    with pytest.raises(CorruptStateError, match=f"{third.name}: line 1: does not follow log.0"):
        replay(tmp_path / "log")
    recover(tmp_path / "log").close()


def test_a_damaged_line_of_an_older_segment_is_named(tmp_path):
    scheduler, _ = rotated(tmp_path)
    scheduler.close()
    first = older(tmp_path)[0]
    text = first.read_bytes()
    first.write_bytes(text.replace(b'"submit"', b'"finish"', 1))
    with pytest.raises(CorruptStateError, match=rf"^{first.name}: line 2: "):
        replay(tmp_path / "log")
    first.write_bytes(text[:-4])
    with pytest.raises(CorruptStateError, match="line 1: does not follow"):
        replay(tmp_path / "log")


def test_a_damaged_snapshot_is_replaced_by_the_one_before(tmp_path):
    scheduler, said = rotated(tmp_path, parts=12, each=4)
    scheduler.close()
    state, newest = scheduler.to_bytes(), tmp_path / "log"
    text = newest.read_bytes()
    line = text.index(b"\n") + 1
    for at in (*range(0, 90, 3), 5, 6, 7, line // 2, line - 30):
        newest.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        with pytest.warns(UserWarning, match=r"line 1: .*; goes on from log\.0"):
            again = recover(newest)
        assert again.to_bytes() == state
        assert again.actions(since=2) == said[2:]
        again.close()
        assert state_of(replay(newest)) == state_of(scheduler)
    # the one before is damaged as well, so the one before that is used
    *_, second, first = older(tmp_path)
    first.write_bytes(first.read_bytes().replace(b'"state":"', b'"state":"!', 1))
    with pytest.warns(UserWarning, match=f"goes on from {second.name}"):
        again = recover(newest)
    assert again.to_bytes() == state
    again.snapshot()
    assert some(again, 100, 2)
    again.close()
    assert recover(newest).to_bytes() == again.to_bytes()
    for file in older(tmp_path):
        file.unlink()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("left", [0, 40])
def test_no_warning_promises_to_continue_a_refused_log(tmp_path, left):
    scheduler, _ = rotated(tmp_path)
    scheduler.close()
    newest = tmp_path / "log"
    newest.write_bytes(newest.read_bytes()[:left])
    with pytest.raises(CorruptStateError, match="line 1: "):
        recover(newest)


def test_a_damaged_snapshot_without_one_before_is_an_error(tmp_path):
    scheduler, _ = rotated(tmp_path, parts=2)
    scheduler.close()
    older(tmp_path)[0].unlink()
    newest = tmp_path / "log"
    newest.write_bytes(newest.read_bytes().replace(b'"state":"', b'"state":"!', 1))
    with pytest.raises(CorruptStateError, match="line 1: "):
        recover(newest)


def test_a_state_is_of_any_segment(tmp_path):
    scheduler = lab(log=tmp_path / "log")
    states = []
    for part in range(3):
        some(scheduler, 5 * part, 3)
        states.append(scheduler.to_bytes())
        some(scheduler, 5 * part + 3, 2)
        scheduler.snapshot()
    some(scheduler, 15, 2)
    states.append(scheduler.to_bytes())
    scheduler.close()
    for state in states:
        again = recover(tmp_path / "log", state)
        assert again.to_bytes() == scheduler.to_bytes()
        assert again.last_action == scheduler.last_action
        again.close()


def test_nothing_new_is_no_reason_for_a_segment(tmp_path):
    scheduler, _ = rotated(tmp_path, parts=2)
    scheduler.snapshot()
    before = sorted(tmp_path.iterdir())
    scheduler.snapshot()
    assert sorted(tmp_path.iterdir()) == before


def test_a_snapshot_needs_a_log_of_its_own(tmp_path):
    with pytest.raises(ValueError, match="snapshot: "):
        lab().snapshot()
    with (tmp_path / "log").open("wb") as file:
        scheduler = lab(log=file)
        some(scheduler, 0, 1)
        with pytest.raises(ValueError, match="log: "):
            scheduler.snapshot()
        scheduler.sync()
    lab().sync()


def test_a_log_of_another_life_is_not_mixed_with_a_new_one(tmp_path):
    scheduler, _ = rotated(tmp_path)
    scheduler.close()
    (tmp_path / "log").unlink()
    with pytest.raises(FileExistsError, match=r"log\.0{12}: is an older segment of a log"):
        lab(log=tmp_path / "log")
    for file in older(tmp_path):
        file.unlink()
    lab(log=tmp_path / "log").close()


# --- files in the way, full disks


@pytest.mark.parametrize("end", [".part", ".000000000000"])
def test_a_file_in_the_way_is_left_as_it_is(path, tmp_path, end):
    scheduler = lab(log=path)
    said = some(scheduler, 0, 3)
    in_the_way = tmp_path / f"log{end}"
    in_the_way.write_text("mine")
    with pytest.raises(FileExistsError):
        scheduler.snapshot()
    assert in_the_way.read_text() == "mine"
    said += some(scheduler, 3, 3)
    in_the_way.unlink()
    scheduler.snapshot()
    said += some(scheduler, 6, 3)
    scheduler.close()
    assert recover(path).actions() == said
    assert state_of(replay(path)) == state_of(scheduler)


CALLS = ("fsync", "open", "ftruncate", "lseek", "fchmod", "write", "link", "replace", "close")


class Steps:
    """System calls in order; a hook runs before or after each."""

    def __init__(self, monkeypatch, before=None, after=None):
        self.count, self.before, self.after = 0, before, after
        for name in CALLS:
            monkeypatch.setattr(files.os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name, call):
        def run(*arguments, **options):
            self.count += 1
            step = self.count
            if self.before is not None:
                self.before(step, name)
            result = call(*arguments, **options)
            if self.after is not None:
                self.after(step, name)
            return result

        return run


def test_a_snapshot_that_fails_at_any_step_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    total = 0
    with monkeypatch.context() as patch:
        scheduler = lab(log=tmp_path / "log")
        some(scheduler, 0, 3)
        steps = Steps(patch)
        scheduler.snapshot()
        total = steps.count
    assert total >= 8
    for failing in range(1, total + 1):
        folder = tmp_path / str(failing)
        folder.mkdir()
        scheduler = lab(log=folder / "log")
        said = some(scheduler, 0, 3)
        failed = []

        def fail(step, name, failing=failing, failed=failed):
            if step == failing and not failed:
                failed.append(name)
                raise OSError(5, f"no {name}")

        with monkeypatch.context() as patch:
            Steps(patch, before=fail)
            with suppress(OSError):
                scheduler.snapshot()
        assert failed
        with pytest.raises(BlockingIOError):
            recover(folder / "log")
        said += some(scheduler, 3, 3)
        scheduler.snapshot()
        said += some(scheduler, 6, 3)
        scheduler.close()
        assert state_of(replay(folder / "log")) == state_of(scheduler)
        again = recover(folder / "log")
        assert again.to_bytes() == scheduler.to_bytes()
        assert again.actions() == said


def copied(folder, to):
    """A folder as a crash leaves it; two names of one file stay so."""
    to.mkdir()
    known = {}
    for file in folder.iterdir():
        inode = file.stat().st_ino
        if inode in known:
            os.link(known[inode], to / file.name)
        else:
            known[inode] = shutil.copy(file, to / file.name)


def test_a_crash_after_any_step_of_a_snapshot_loses_nothing(tmp_path, monkeypatch):
    folder, copies = tmp_path / "life", tmp_path / "crashes"
    folder.mkdir()
    copies.mkdir()
    scheduler = lab(log=folder / "log")
    said, crashes = [], []
    with monkeypatch.context() as patch:
        busy = []

        def crash(step, name):
            if busy:
                return
            busy.append(True)
            crashes.append((f"{step} {name}", len(said), scheduler.last_action))
            copied(folder, copies / f"{step} {name}")
            busy.clear()

        for part in range(3):
            said += some(scheduler, 4 * part, 4)
            with patch.context() as inner:
                Steps(inner, after=lambda step, name, part=part: crash(100 * part + step, name))
                scheduler.snapshot()
        said += some(scheduler, 12, 4)
    assert len(crashes) >= 24
    for name, count, last in crashes:
        path = copies / name / "log"
        again = recover(path)
        assert (again.last_action, last) == (count, count), name
        assert again.actions() == said[:count]
        assert list(replay(path)) == list(again)
        number = 4 * (1 + int(name.split()[0]) // 100)
        assert some(again, number, 2) == said[count : count + len(again.actions(since=count))]
        again.snapshot()
        some(again, number + 2, 2)
        again.close()
        assert state_of(recover(path)) == state_of(replay(path)) == state_of(again)


def test_a_crash_at_any_byte_loses_no_decision_that_was_returned(tmp_path):
    """In the newest segment, and in the next one while it is written."""
    scheduler, said = rotated(tmp_path, parts=2, each=3)
    scheduler.close()
    newest = tmp_path / "log"
    text = newest.read_bytes()
    begin = text.index(b"\n") + 1
    before = scheduler_numbers(tmp_path)
    for cut in range(begin, len(text) + 1):
        newest.write_bytes(text[:cut])
        again = recover(newest)
        whole = text[:cut].count(b"\n") - 1
        assert again.logged == before + whole
        assert again.actions() == said[: again.last_action]
        again.close()
    newest.write_bytes(text)
    part = tmp_path / "log.part"
    for cut in (*range(0, 60), begin // 2, begin - 1, begin):
        part.write_bytes(text[:cut])
        again = recover(newest)
        assert again.to_bytes() == scheduler.to_bytes()
        again.close()
    again = recover(newest)
    again.snapshot()
    assert not part.exists()
    again.close()
    assert recover(newest).to_bytes() == again.to_bytes()


def scheduler_numbers(folder):
    """The number of the first line of the newest segment."""
    return older(folder)[0].read_bytes().count(b"\n") - 1


# --- locks


def test_the_lock_goes_along_with_the_log(path, tmp_path):
    scheduler = lab(log=path)
    stop, taken = threading.Event(), []

    def grab():
        while not stop.is_set():
            with suppress(BlockingIOError):
                taken.append(recover(path))

    threads = [threading.Thread(target=grab) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for part in range(60):
            some(scheduler, part, 1)
            scheduler.snapshot()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert taken == []
    assert len(older(tmp_path)) == 60
    scheduler.close()
    assert recover(path).to_bytes() == scheduler.to_bytes()


def test_reading_a_log_while_it_is_cut_reads_each_line_once(path):
    scheduler = lab(log=path)
    some(scheduler, 0, 1)
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            numbers = [line.number for line in read_log(path)]
            if numbers != list(range(len(numbers))):
                wrong.append(numbers)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for part in range(1, 60):
            some(scheduler, part, 1)
            scheduler.snapshot()
    finally:
        stop.set()
        thread.join()
    assert wrong == []


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "data").mkdir()
    link = tmp_path / "log"
    link.symlink_to(tmp_path / "data" / "decisions")
    scheduler = lab(log=link)
    some(scheduler, 0, 3)
    scheduler.snapshot()
    some(scheduler, 3, 3)
    scheduler.close()
    assert link.is_symlink()
    assert len(list((tmp_path / "data").iterdir())) == 2
    assert state_of(replay(link)) == state_of(recover(link)) == state_of(scheduler)


def test_a_relative_path_is_that_of_the_beginning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scheduler = lab(log=Path("log"))
    some(scheduler, 0, 3)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    scheduler.snapshot()
    assert list((tmp_path / "other").iterdir()) == []
    assert len(older(tmp_path)) == 1


def test_a_segment_has_the_permissions_of_the_log(tmp_path):
    scheduler = lab(log=tmp_path / "log")
    (tmp_path / "log").chmod(0o600)
    some(scheduler, 0, 1)
    scheduler.snapshot()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_decisions_that_were_not_returned_are_in_a_snapshot(path, monkeypatch):
    scheduler = lab(log=path)
    assert len(some(scheduler, 0, 1)) == 1
    scheduler.submit(Job("late", "lab", 1), 5.0)
    write = os.write

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        scheduler.decide(5.0)
    monkeypatch.setattr(files.os, "write", write)
    scheduler.snapshot()  # writes what was refused
    scheduler._log._file.close()  # a crash
    again = recover(path)
    assert [action.job for action in again.decide(5.0)] == ["late"]
    assert again.last_action == 2
    assert [action.job for action in again.actions(since=1)] == ["late"]
    again.close()
    assert replay(path).last_action == 2


def test_sync_reaches_the_file_and_its_folder(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor)), fsync(descriptor))
    )
    scheduler = lab(log=tmp_path / "log")
    some(scheduler, 0, 1)
    assert synced == []
    scheduler.sync()
    scheduler.sync()
    file, folder = os.stat(tmp_path / "log"), os.stat(tmp_path)
    assert [file_stat.st_ino for file_stat in synced] == [folder.st_ino, file.st_ino, file.st_ino]
    synced.clear()
    some(scheduler, 1, 1)
    scheduler.snapshot()
    new = os.stat(tmp_path / "log")
    assert [file_stat.st_ino for file_stat in synced] == [file.st_ino, new.st_ino]
    scheduler.sync()
    assert [file_stat.st_ino for file_stat in synced[2:]] == [folder.st_ino, new.st_ino]
