"""The decision log: replayed to the byte, also after a crash."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from profiles import seeds
from scheduler.lives import (
    COMPOSITIONS,
    decided,
    make_scheduler,
)
from scheduler.random_lives import live

from hivecore.devices import device_ledger
from hivecore.errors import CorruptStateError
from hivecore.quotas import Quota
from hivecore.scheduler import Job, Scheduler, read_log, recover, replay


@pytest.mark.parametrize("seed", seeds(30))
def test_a_replay_decides_the_same_and_ends_in_the_same_state(seed, path):
    rng = random.Random(seed)
    parts = COMPOSITIONS[rng.choice(sorted(COMPOSITIONS))]
    scheduler = make_scheduler(parts, immediate=rng.random() < 0.5, log=path)
    said = live(scheduler, rng, 60)
    scheduler.decide(scheduler.now)
    records = list(read_log(path))
    logged = [action for record in records for action in record.fields.get("actions", [])]
    assert logged[: len(said)] == said
    assert records[-1].number == scheduler.logged == len(records) - 1
    again = replay(path)
    assert list(again) == list(scheduler)
    assert [again.state(name) for name in again] == [scheduler.state(name) for name in scheduler]
    branch = scheduler.copy()
    assert live(again, random.Random(0), 30, 1000) == live(branch, random.Random(0), 30, 1000)


def test_a_log_is_read_up_to_a_time(path):
    scheduler = make_scheduler(("quotas",), log=path)
    for i in range(3):
        decided(scheduler, Job(f"j{i}", "a", 4), now=float(i))
    assert list(replay(path, until=1.0)) == ["j0", "j1"]
    assert list(replay(path, until=0.5)) == ["j0"]
    with pytest.raises(ValueError, match="until=nan"):
        replay(path, until=math.nan)
    assert list(replay(path)) == ["j0", "j1", "j2"]


def written(path):
    scheduler = make_scheduler(("quotas", "cells"), log=path)
    live(scheduler, random.Random(3), 40)
    scheduler.decide(scheduler.now)
    return scheduler


def test_a_torn_last_line_is_dropped_and_any_other_damage_named(path):
    written(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines)[:-5])
    assert [record.number for record in read_log(path)] == list(range(len(lines) - 1))
    path.write_bytes(lines[0][:50])
    with pytest.raises(CorruptStateError, match="line 1: "):
        replay(path)
    path.write_bytes(b"")
    with pytest.raises(CorruptStateError, match="line 1: "):
        replay(path)
    number = next(i for i, line in enumerate(lines) if b'"submit"' in line)
    for damaged, named in (
        (lines[:number] + lines[number + 1 :], number + 1),
        ([*lines[:number], lines[number].replace(b'"j', b'"k'), *lines[number + 1 :]], number + 1),
        ([*lines[:4], lines[3], *lines[4:]], 5),
        ([*lines[:4], b"nonsense\n", *lines[4:]], 5),
        (lines[1:], 1),
    ):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(CorruptStateError, match=rf"line {named}: "):
            replay(path)


def replace(path, old, new):
    """Replace the first such bytes of a log, with right checksums; return the line's number."""
    changed, last, out = None, 0, []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        body = line[: line.rindex(b',"hash"')]
        if changed is None and old in body:
            body, changed = body.replace(old, new), number
        last = zlib.crc32(body, last)
        out.append(body + b',"hash":"%08x"}\n' % last)
    path.write_bytes(b"".join(out))
    return changed


def test_a_line_that_differs_from_the_replay_is_named(path):
    written(path)
    changed = replace(path, b'"action":"start","job":"j', b'"action":"start","job":"x')
    with pytest.raises(CorruptStateError, match=rf"line {changed}: "):
        replay(path)


@pytest.mark.parametrize("with_state", [True, False])
def test_after_a_crash_it_continues_as_if_nothing_had_happened(tmp_path, with_state):
    path, other = tmp_path / "log", tmp_path / "other"
    crashed = make_scheduler(("quotas", "cells", "devices"), log=path)
    whole = make_scheduler(("quotas", "cells", "devices"), log=other)
    for scheduler in (crashed, whole):
        live(scheduler, random.Random(5), 30)
    state = crashed.to_bytes() if with_state else None
    for scheduler in (crashed, whole):
        live(scheduler, random.Random(6), 20, 500)
        scheduler.decide(scheduler.now)
    crashed._log._file.close()
    with path.open("ab") as file:
        file.write(b'{"n":51,"event":"fin')
    again = recover(path, state)
    assert again.logged == whole.logged
    assert live(again, random.Random(7), 40, 900) == live(whole, random.Random(7), 40, 900)
    again.close()
    whole.close()
    mine, theirs = path.read_bytes().splitlines()[1:], other.read_bytes().splitlines()[1:]
    assert [line[: line.rindex(b',"hash"')] for line in mine] == [
        line[: line.rindex(b',"hash"')] for line in theirs
    ]
    replay(path)


def test_a_state_of_another_log_is_refused(path, tmp_path):
    scheduler = make_scheduler(("quotas",), log=tmp_path / "longer")
    for i in range(9):
        scheduler.advance(float(i))
    make_scheduler(("quotas",), log=path).close()
    with pytest.raises(CorruptStateError, match="state: is of event 9, and the log ends with 0"):
        recover(path, scheduler.to_bytes())


def test_a_change_from_outside_is_written_as_a_state(path):
    scheduler = make_scheduler(("quotas",), log=path)
    decided(scheduler, Job("one", "b", 10))
    scheduler.quotas.set_quota(Quota("b", max={"gpu": 15}, min={"gpu": 8}, parent="all"))
    scheduler.touch()
    said = decided(scheduler, Job("two", "b", 5), now=1.0)
    assert [action.job for action in said] == ["two"]
    assert [record.event for record in read_log(path)][3] == "state"
    assert replay(path).state("two") == "running"


def test_a_log_of_devices_of_mode_koordinator_says_what_to_do_instead(tmp_path, monkeypatch):
    def encoded(*arguments):
        return encode(*arguments).replace(b'"quirks":null', b'"quirks":["greedy_joint"]')

    encode = device_ledger.encode
    monkeypatch.setattr(device_ledger, "encode", encoded)
    scheduler = make_scheduler(("devices",), log=tmp_path / "log")
    state = scheduler.to_bytes()
    monkeypatch.undo()
    for load in (lambda: replay(tmp_path / "log"), lambda: Scheduler.from_bytes(state)):
        with pytest.raises(CorruptStateError, match="of mode 'koordinator', which hivecore no lon"):
            load()


def test_a_log_does_not_write_over_another_file(path):
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        Scheduler(log=path)
    assert path.read_text() == "mine"


CRASHING = """
import random, sys
sys.path.insert(0, sys.argv[2])
from scheduler.random_lives import live
from scheduler.lives import make_scheduler
scheduler = make_scheduler(("quotas", "cells", "devices"), log=sys.argv[1])
rng = random.Random(1)
print("ready", flush=True)
step = 0
while True:
    live(scheduler, rng, 50, step)
    step += 50
"""


def test_a_process_that_is_killed_in_the_middle_can_be_recovered(path):
    tests = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(path), str(tests)],
        env=environment,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n"
    while path.stat().st_size < 100_000:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    scheduler = recover(path)
    scheduler.check()
    scheduler.decide(scheduler.now)
    assert scheduler.logged > 100
    replay(path).check()


def test_a_line_with_a_key_twice_is_named(path):
    scheduler = make_scheduler(("quotas",), log=path)
    decided(scheduler, Job("one", "a", 1))
    scheduler.finish("one", 1.0)
    scheduler.close()
    assert replace(path, b'"now":1.0', b'"now":1.0,"now":1.0') == 4
    with pytest.raises(CorruptStateError, match="line 4: an object has the key 'now' twice"):
        recover(path)


def test_each_line_is_json(path):
    written(path)
    assert all(json.loads(line)["hash"] for line in path.read_text().splitlines())


def test_a_log_may_begin_later_and_only_once(path, tmp_path):
    scheduler = Scheduler()
    scheduler.submit(Job("a", "x", 1), 0.0)
    scheduler.write_log(path)
    with pytest.raises(ValueError, match="log: "):
        scheduler.write_log(tmp_path / "other")
    assert [action.job for action in scheduler.decide(0.0)] == ["a"]
    scheduler.close()
    with pytest.raises(FileExistsError):
        scheduler.write_log(path)
    assert replay(path).state("a") == "running"


def test_names_that_json_escapes_are_replayed(path):
    scheduler = Scheduler(log=path)
    names = ['quo"te', "back\\slash", "Gr\u00f6\u00dfe", "tab\there", "a,b", 'x","run_time":1']
    for name in names:
        decided(scheduler, Job(name, "a", 2, run_time=5.0), now=1.0)
    for name in names[::2]:
        scheduler.finish(name, 2.0)
    scheduler.cancel(names[1], 2.0)
    scheduler.close()
    again = replay(path)
    assert list(again) == list(scheduler) == [names[3], names[5]]
    assert [again.job(name) for name in again] == [scheduler.job(name) for name in scheduler]


def test_jobs_that_differ_in_their_estimates_only_are_read_as_they_were(path):
    scheduler = Scheduler(log=path)
    plain = {"tenant": "a", "roles": 2}
    shared = {**plain, "stages": (1.0, 2.0)}
    jobs = [
        Job(f"{name}{number}", run_time=run_time, **of)
        for name, of in (("plain", plain), ("shared", shared))
        for number, run_time in enumerate([None, 60.25, None, 7.0, 60.25])
    ]
    for job in (*jobs, *[job.replace(name=f"{job.name} again") for job in reversed(jobs)]):
        scheduler.submit(job, 1.0)
    scheduler.close()
    again = replay(path)
    assert [again.job(name) for name in again] == [scheduler.job(name) for name in scheduler]
