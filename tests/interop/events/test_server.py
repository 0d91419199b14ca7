"""A scheduler behind HTTP: many clients, its log, crashes."""

import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from interop.servers import Command, served
from profiles import seeds
from scheduler.lives import COMPOSITIONS, NODES, ROLES, TENANTS, make_job, make_scheduler

from hivecore.interop.events.rounds import take
from hivecore.interop.events.service import SchedulerService
from hivecore.interop.extender.process import opened
from hivecore.scheduler import event_of_plain, plain_record, replay

ALL = COMPOSITIONS["all with cells"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="has no signals for one process")


def submit(name, gpus=1):
    roles = [{"name": "w", "gpus": gpus}]
    return {"event": "submit", "job": {"name": name, "tenant": "a", "roles": roles}}


def test_64_clients_at_once_take_turns_and_all_hear_the_same():
    scheduler = make_scheduler(ALL)
    with served(lambda: SchedulerService(scheduler)) as url:
        last = threading.Event()

        def work(number):
            name, refused = f"j{number}", 0
            with httpx.Client(base_url=url, timeout=60) as own:
                assert own.post("/v1/events", json=submit(name, 4)).status_code == 200
                while True:
                    answer = own.post("/v1/events", json={"event": "finish", "job": name})
                    if answer.status_code == 200:
                        return refused
                    assert answer.status_code == 409  # it still waits
                    refused += 1
                    assert own.get(f"/v1/explain/{name}").status_code == 200

        def listen():
            heard, after = [], 0
            with httpx.Client(base_url=url, timeout=60) as own:
                while not last.is_set() or after < own.get("/v1/status").json()["last"]:
                    result = own.get(f"/v1/actions?after={after}&wait=0.2").json()
                    heard += result["actions"]
                    after = result["last"]
            return heard

        with ThreadPoolExecutor(64) as pool:
            listeners = [pool.submit(listen) for _ in range(8)]
            workers = [pool.submit(work, number) for number in range(56)]
            for worker in workers:
                worker.result(timeout=120)
            last.set()
            heard = [listener.result(timeout=60) for listener in listeners]
    assert [entry["number"] for entry in heard[0]] == list(range(1, len(heard[0]) + 1))
    assert all(entry == heard[0] for entry in heard)
    started = [entry["job"] for entry in heard[0] if entry["action"] == "start"]
    assert sorted(started) == sorted(f"j{number}" for number in range(56))
    assert len(scheduler) == 0
    scheduler.check()


@pytest.fixture
def state_file(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(make_scheduler(ALL).to_bytes())
    return path


@posix
def test_a_log_is_written_by_one_process_and_a_damaged_one_by_none(state_file, tmp_path, refused):
    log = tmp_path / "log"
    arguments = "serve", "--port", 0, "--scheduler", state_file, "--log", log
    with Command("--scheduler", state_file, "--log", log) as server:
        assert server.post("/v1/events", submit("train"))[0] == 200
        written = log.read_bytes()
        assert f"{log}: another scheduler writes this log" in refused(*arguments)
        assert log.read_bytes() == written
    assert replay(log).state("train") == "running"
    log.write_bytes(written.replace(b'"job":"train"', b'"job":"brain"'))
    assert f"{log}: line " in refused(*arguments)


@pytest.mark.parametrize("keep", [0, 1, 30, 200, -2, -1])
def test_a_log_that_a_crash_has_left_without_a_whole_line_begins_again(keep, state_file, tmp_path):
    log = tmp_path / "log"
    make_scheduler(ALL, log=log).close()
    whole = log.read_bytes()
    log.write_bytes(whole[:keep])
    with opened(state_file, log) as (scheduler, recent):
        assert (len(scheduler), recent.last) == (0, 0)
        take(scheduler, [event_of_plain(submit("train"))], 0.0)
    assert replay(log).state("train") == "running"


@posix
def test_a_snapshot_that_is_damaged_is_replaced_by_the_one_before(state_file, tmp_path):
    log = tmp_path / "log"
    with opened(state_file, log) as (scheduler, _):
        for number in range(4):
            take(scheduler, [event_of_plain(submit(f"j{number}"))], 0.0)
            scheduler.snapshot()
        take(scheduler, [event_of_plain(submit("last"))], 0.0)
    with opened(state_file, log) as (scheduler, recent):
        whole = recent.logged_since(0)
        assert (recent.last, recent.first) == (5, 5)
    log.write_bytes(log.read_bytes().replace(b'"state":"', b'"state":"!', 1))
    with (
        pytest.warns(UserWarning, match="line 1: .*; goes on from log.0"),
        opened(state_file, log) as (scheduler, recent),
    ):
        assert list(scheduler) == ["j0", "j1", "j2", "j3", "last"]
        assert (recent.last, recent.first) == (5, 4)
        assert recent.logged_since(0) == whole
        assert scheduler.actions(since=0)[-1].job == "last"
        scheduler.snapshot()
    with opened(state_file, log) as (scheduler, recent):
        assert recent.last == 5
        assert len(scheduler) == 5


@pytest.mark.parametrize("text", [b"mine", b"mine\n", b"{}\n", b'{"n":0,"event":"begin"}\n'])
def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(text, state_file, tmp_path, refused):
    log = tmp_path / "log"
    log.write_bytes(text)
    arguments = "serve", "--port", 0, "--scheduler", state_file, "--log", log
    assert f"{log}: line 1: " in refused(*arguments)
    assert log.read_bytes() == text


# --- crashes


def history(rng, count):
    """Random events in the fields of a log, each at a later time."""
    result, names = [], []
    for step in range(count):
        now = float(step + 1)
        draw = rng.random()
        if draw < 0.5 or not names:
            name = f"j{step}"
            roles = rng.choice(sorted(set(ROLES) - {"huge"}))
            built = make_job(name, rng.choice(TENANTS), roles, guaranteed=rng.random() < 0.7)
            names.append(name)
            result.append({"event": "submit", "now": now, "job": plain_record(built)})
        elif draw < 0.95:
            event = rng.choice(["finish", "finish", "cancel", "fail", "stopped"])
            result.append({"event": event, "now": now, "job": rng.choice(names[-8:])})
        else:
            node, healthy = rng.choice(NODES), rng.random() < 0.5
            result.append({"event": "set_node", "now": now, "node": node, "healthy": healthy})
    return result


def said_by(scheduler, events):
    """What a scheduler says that nothing happens to."""
    said = []
    for event in events:
        said += take(scheduler, [event_of_plain(event)], 0.0).actions
    return [
        {"number": number, "now": now, **plain_record(action)}
        for number, (now, action) in enumerate(said, 1)
    ]


def heard_by(client):
    heard, after = [], 0
    while result := client.get(f"/v1/actions?after={after}").json()["actions"]:
        heard += result
        after = result[-1]["number"]
    return heard


def post_until_it_dies(client, events, done, reached):
    """Post events one by one, and call `reached` with their number; how many were taken."""
    try:
        while done < len(events):
            # Of one whose answer was lost, the status says whether it was taken.
            if client.get("/v1/status").json()["now"] < events[done]["now"]:
                answer = client.post("/v1/events", json=events[done])
                assert answer.status_code in (200, 404, 409)
            done += 1
            reached(done)
    except httpx.TransportError:
        pass
    return done


@pytest.mark.slow
@posix
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("options", [(), ("--snapshot-every", 40, "--fsync", "always")])
def test_a_server_that_is_killed_goes_on_from_its_log_as_if_nothing_had_happened(
    seed, options, state_file, tmp_path
):
    rng, log = random.Random(seed), tmp_path / "log"
    events = history(rng, 300)
    undisturbed = make_scheduler(ALL)
    expected = said_by(undisturbed, events)
    assert len(expected) > 100
    done = 0
    for crash in (80, 160, None):
        arguments = ("--scheduler", state_file, "--log", log, *options)
        with Command(*arguments) as server:
            client, process = server.client, server.process
            heard = heard_by(client)
            assert heard == expected[: len(heard)]
            delay = rng.uniform(0, 0.01)

            def reached(count, crash=crash, process=process, delay=delay):
                if count == crash:
                    threading.Timer(delay, process.kill).start()

            done = post_until_it_dies(client, events, done, reached)
            assert (done < len(events)) == (crash is not None)
            if crash is None:
                heard = heard_by(client)
                process.kill()
            assert process.wait(timeout=20) == -signal.SIGKILL
    assert heard == expected
    assert list(replay(log)) == list(undisturbed)
    assert any(tmp_path.glob("log.0*")) == bool(options)


@posix
def test_whatever_of_a_round_a_crash_has_torn_the_next_start_decides_it(state_file, tmp_path):
    log = tmp_path / "log"
    options = ("--scheduler", state_file, "--log", log)
    with Command(*options) as server:
        assert server.post("/v1/events", submit("train"))[0] == 200
        heard = heard_by(server.client)
    whole = log.read_bytes()
    *_, decided = whole.splitlines(keepends=True)
    assert b'"action":"start"' in decided
    for torn in (len(decided), 1):
        log.write_bytes(whole[:-torn])
        with Command(*options) as server:
            assert heard_by(server.client) == heard
