"""A scheduler behind HTTP: many clients, bad ones, tokens, crashes."""

import json
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from interop.servers import served
from profiles import seeds
from scheduler_lives import COMPOSITIONS, NODES, ROLES, TENANTS, make_job, make_scheduler

from hivecore import cli
from hivecore.interop.events.process import opened, read_scheduler
from hivecore.interop.events.rounds import take
from hivecore.interop.events.service import SchedulerService
from hivecore.scheduler import Scheduler, event_of_plain, plain_record, replay

LIMIT = 20_000
TOKEN = "0123456789abcdef-secret"
ALL = COMPOSITIONS["all with cells"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="has no signals for one process")


@contextmanager
def client_of(scheduler, **options):
    with (
        served(lambda: SchedulerService(scheduler), LIMIT, **options) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        yield client


def submit(name, gpus=1):
    roles = [{"name": "w", "gpus": gpus}]
    return {"event": "submit", "job": {"name": name, "tenant": "a", "roles": roles}}


def test_events_go_in_and_actions_come_out():
    with client_of(make_scheduler(ALL)) as client:
        answer = client.post("/v1/events", json=submit("train"))
        assert (answer.status_code, answer.json()["last"]) == (200, 1)
        assert answer.headers["content-type"] == "application/json"
        (started,) = client.get("/v1/actions?after=0&wait=5").json()["actions"]
        assert (started["number"], started["action"], started["job"]) == (1, "start", "train")
        assert client.get("/v1/explain/train").json()["state"] == "running"
        finish = {"event": "finish", "job": "train", "now": 100.0}
        assert client.post("/v1/what-if", json=[finish]).json()["now"] == 100.0
        assert client.get("/v1/status").json()["jobs"]["running"] == 1
        for path in ("/healthz", "/livez", "/readyz"):
            assert client.get(path).json() == {"status": "ok"}
        assert "/v1/explain/{job}" in client.get("/").json()["paths"]
        assert 'hivecore_gpus_in_use{tenant="a"} 1.0' in client.get("/metrics").text


def test_wrong_methods_paths_and_parameters_are_refused():
    with client_of(Scheduler()) as client:
        for method, path, status in (
            ("GET", "/v1/events", 405),
            ("POST", "/v1/actions", 405),
            ("DELETE", "/v1/explain/train", 405),
            ("GET", "/v1", 404),
            ("GET", "/v1/explain/", 404),
            ("GET", "/v1/explain/none", 404),
            ("GET", "/v1/explain/%ff%2f..", 404),
            ("GET", "/v1/explain/a%0Ab", 404),
            ("GET", "/v1/actions?after=1", 400),
            ("GET", "/v1/actions?after=0&after=0", 400),
            ("GET", "/v1/status?x", 400),
        ):
            answer = client.request(method, path)
            assert (answer.status_code, list(answer.json())) == (status, ["Error"]), path


def test_who_does_not_know_the_token_learns_and_changes_nothing():
    scheduler = Scheduler()
    with client_of(scheduler, token=TOKEN) as client:
        for header in (
            None,
            "",
            "Bearer",
            TOKEN,
            f"Basic {TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            "Bearer \xff",
        ):
            headers = {} if header is None else {"Authorization": header.encode("latin-1")}
            for path in ("/v1/status", "/metrics", "/v1/explain/none", "/a%0Ab", "/"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.json() == {"Error": "a bearer token is needed"}
                assert answer.headers["www-authenticate"] == "Bearer"
            assert client.post("/v1/events", json=submit("x"), headers=headers).status_code == 401
        assert len(scheduler) == 0
        for path in ("/healthz", "/livez", "/readyz"):
            assert client.get(path).status_code == 200
        for scheme in ("Bearer", "bearer"):
            headers = {"Authorization": f"{scheme} {TOKEN}"}
            assert client.get("/v1/status", headers=headers).status_code == 200
        assert client.post("/v1/events", json=submit("x"), headers=headers).status_code == 200
        assert "x" in scheduler


def test_64_clients_at_once_take_turns_and_all_hear_the_same():
    scheduler = make_scheduler(ALL)
    with client_of(scheduler) as client:
        url = str(client.base_url)
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
                    found = own.get(f"/v1/actions?after={after}&wait=0.2").json()
                    heard += found["actions"]
                    after = found["last"]
            return heard

        with ThreadPoolExecutor(64) as pool:
            listeners = [pool.submit(listen) for _ in range(8)]
            workers = [pool.submit(work, number) for number in range(56)]
            for one in workers:
                one.result(timeout=120)
            last.set()
            heard = [one.result(timeout=60) for one in listeners]
    assert [one["number"] for one in heard[0]] == list(range(1, len(heard[0]) + 1))
    assert all(one == heard[0] for one in heard)
    started = [one["job"] for one in heard[0] if one["action"] == "start"]
    assert sorted(started) == sorted(f"j{number}" for number in range(56))
    assert len(scheduler) == 0
    scheduler.check()


def raw(client, text):
    """A connection on which this was sent."""
    found = socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)
    found.sendall(text)
    return found


def test_a_body_that_comes_too_slowly_is_given_up_and_nobody_waits_for_it():
    scheduler = Scheduler()
    with client_of(scheduler, body_seconds=0.5) as client:
        start = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n{"
        slow = [raw(client, start) for _ in range(20)]
        for one in slow:
            one.sendall(b'"event":')
        assert client.post("/v1/events", json=submit("x")).status_code == 200
        for one in slow:
            answer = one.recv(4096)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"the body has not come within 0.5 seconds" in answer
            one.close()
        assert list(scheduler) == ["x"]


def test_a_head_that_comes_too_slowly_ends_its_connection():
    with client_of(Scheduler(), head_seconds=0.5) as client:
        with raw(client, b"POST /v1/events HTTP/1.1\r\nHost:") as slow:
            assert slow.recv(4096) == b""
        assert client.get("/v1/status").status_code == 200


def test_who_hangs_up_in_the_middle_of_a_body_has_said_nothing(caplog):
    scheduler = Scheduler()
    body = json.dumps(submit("x")).encode()
    with client_of(scheduler) as client:
        for cut in (0, 1, len(body) - 1):
            head = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            raw(client, head + body[:cut]).close()
        given_up = 'hivecore_requests_total{path="/v1/events",status="400"} 3.0'
        while given_up not in client.get("/metrics").text:
            time.sleep(0.01)
        assert client.get("/v1/status").json()["last"] == 0
        assert len(scheduler) == 0
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_a_huge_body_is_refused_however_it_is_sent():
    scheduler = Scheduler()
    huge = json.dumps([submit(f"j{i}") for i in range(1000)]).encode()
    assert len(huge) > LIMIT
    with client_of(scheduler) as client:
        for path in ("/v1/events", "/v1/what-if"):
            parts = (huge[i : i + 1000] for i in range(0, len(huge), 1000))
            for content in (huge, parts):
                answer = client.post(path, content=content)
                assert answer.status_code == 413
                assert answer.json() == {"Error": f"the request has more than {LIMIT} bytes"}
        assert len(scheduler) == 0
        assert client.post("/v1/events", content=huge[:0] + b"[]").status_code == 200


def test_an_error_that_nobody_has_foreseen_is_500_and_the_service_ends(monkeypatch):
    scheduler = Scheduler()

    def broken(*arguments):
        raise RuntimeError("secret")

    with client_of(scheduler) as client:
        monkeypatch.setattr(Scheduler, "decide", broken)
        answer = client.post("/v1/events", json=submit("x"))
        assert (answer.status_code, "secret" in answer.text) == (500, False)
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200


# --- the command


@pytest.fixture
def state_file(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(make_scheduler(ALL).to_bytes())
    return path


@contextmanager
def started(*options):
    """The command in a process of its own, and a client."""
    command = [sys.executable, "-m", "hivecore", "serve", "--port", "0", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            url = re.fullmatch(r"hivecore listens on (http://127\.0\.0\.1:\d+)\n", line)[1]
            with httpx.Client(base_url=url, timeout=20) as client:
                yield process, client
        finally:
            process.kill()


@posix
def test_the_command_serves_with_a_token_until_it_is_told_to_end(state_file, tmp_path):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with started("--scheduler", state_file, "--token-file", token) as (process, client):
        assert client.get("/v1/status").status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.post("/v1/events", json=submit("train")).status_code == 200
        heard = queue.Queue()

        def listen():
            heard.put(client.get("/v1/actions?after=1&wait=60").json())

        thread = threading.Thread(target=listen)
        thread.start()
        while 'path="/v1/events"' not in client.get("/metrics").text:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        thread.join()
        assert heard.get(timeout=20) == {"actions": [], "last": 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--log", "x", "hived.yaml", "--no-bind"], "--log needs --scheduler"),
        (["--max-step", "9", "hived.yaml", "--no-bind"], "--max-step needs --scheduler"),
        (["--fsync", "never", "hived.yaml", "--no-bind"], "--fsync needs --scheduler"),
        (["--scheduler", "x", "--fsync", "never"], "--fsync needs --log"),
        (["--scheduler", "x", "--snapshot-every", "9"], "--snapshot-every needs --log"),
        (["--scheduler", "x", "--snapshot-every", "-1"], "must be an integer from 0"),
        (["--scheduler", "x", "--fsync", "now"], "invalid choice: 'now'"),
        (["--scheduler", "x", "--header-seconds", "0"], "must be seconds, more than 0"),
        (["--scheduler", "x", "--max-step", "0"], "must be seconds, more than 0"),
        (["--scheduler", "x", "--max-step", "nan"], "must be seconds, more than 0"),
        (["--scheduler", "x", "--foreign", "a"], "--foreign has no meaning for --scheduler"),
        (["--scheduler", "x", "--lease", "a/b"], "--lease has no meaning for --scheduler"),
        (["--scheduler", "x", "--gpushare", "MiB"], "not allowed with argument"),
        (["--scheduler", "/none/such"], "/none/such"),
        (["--scheduler", __file__], "test_events_server.py:1: is no YAML"),
        (["--scheduler", "x", "--token-file", "/none/token"], "/none/token"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", *options])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_the_yaml_of_a_cluster_needs_no_option(tmp_path, capsys):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("cluster: {models: {m: {gpus: 8}}, nodes: {'n[1-2]': m}}\ndevices:\n")
    with pytest.raises(SystemExit):
        cli.main(["serve", str(cluster), "--foreign", "a"])
    assert "--foreign has no meaning for --scheduler" in capsys.readouterr().err


def test_a_scheduler_is_read_from_the_file_of_a_cluster_or_a_saved_state(tmp_path):
    cluster, state = tmp_path / "cluster.yaml", tmp_path / "state"
    cluster.write_text("cluster: {models: {m: {gpus: 8}}, nodes: {'n[1-2]': m}}\ndevices:\n")
    made = read_scheduler(cluster)
    assert made.devices.nodes == ("n1", "n2")
    state.write_bytes(made.to_bytes())
    assert read_scheduler(state).to_bytes() == made.to_bytes()
    state.write_bytes(made.to_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{state}: "):
        read_scheduler(state)


@pytest.mark.parametrize("text", ["", "short", "0123456789abcdef with blanks", "\xe9" * 20])
def test_a_token_that_is_none_is_refused(text, state_file, tmp_path, capsys):
    token = tmp_path / "token"
    token.write_text(text, "latin-1")
    with pytest.raises(SystemExit):
        cli.main(["serve", "--scheduler", str(state_file), "--token-file", str(token)])
    assert "a token " in capsys.readouterr().err


@posix
def test_a_log_is_written_by_one_process_and_a_damaged_one_by_none(state_file, tmp_path, capsys):
    log = tmp_path / "log"
    arguments = ["serve", "--port", "0", "--scheduler", str(state_file), "--log", str(log)]
    with started("--scheduler", state_file, "--log", log) as (_, client):
        assert client.post("/v1/events", json=submit("train")).status_code == 200
        written = log.read_bytes()
        with pytest.raises(SystemExit):
            cli.main(arguments)
        assert f"{log}: another scheduler writes this log" in capsys.readouterr().err
        assert log.read_bytes() == written
    assert replay(log).state("train") == "running"
    log.write_bytes(written.replace(b'"job":"train"', b'"job":"brain"'))
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert f"{log}: line " in capsys.readouterr().err


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
        pytest.warns(UserWarning, match="line 1: its checksum is another; goes on from log.0"),
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
def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(text, state_file, tmp_path, capsys):
    log = tmp_path / "log"
    log.write_bytes(text)
    with pytest.raises(SystemExit):
        cli.main(["serve", "--port", "0", "--scheduler", str(state_file), "--log", str(log)])
    assert f"{log}: line 1: " in capsys.readouterr().err
    assert log.read_bytes() == text


# --- crashes


def history(rng, count):
    """Random events in the fields of a log, each at a later time."""
    found, names = [], []
    for step in range(count):
        now = float(step + 1)
        draw = rng.random()
        if draw < 0.5 or not names:
            name = f"j{step}"
            roles = rng.choice(sorted(set(ROLES) - {"huge"}))
            made = make_job(name, rng.choice(TENANTS), roles, guaranteed=rng.random() < 0.7)
            names.append(name)
            found.append({"event": "submit", "now": now, "job": plain_record(made)})
        elif draw < 0.95:
            event = rng.choice(["finish", "finish", "cancel", "fail", "stopped"])
            found.append({"event": event, "now": now, "job": rng.choice(names[-8:])})
        else:
            node, healthy = rng.choice(NODES), rng.random() < 0.5
            found.append({"event": "set_node", "now": now, "node": node, "healthy": healthy})
    return found


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
    while found := client.get(f"/v1/actions?after={after}").json()["actions"]:
        heard += found
        after = found[-1]["number"]
    return heard


def post_until_it_dies(client, events, done, reached):
    """Post events in order, each until it is known that it was taken; how many were.

    :param reached: is told how many there are so far.
    """
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
@pytest.mark.parametrize("seed", seeds(2))
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
        with started(*arguments) as (process, client):
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
    with started(*options) as (_, client):
        assert client.post("/v1/events", json=submit("train")).status_code == 200
        heard = heard_by(client)
    whole = log.read_bytes()
    *_, decided = whole.splitlines(keepends=True)
    assert b'"action":"start"' in decided
    for torn in (len(decided), 1):
        log.write_bytes(whole[:-torn])
        with started(*options) as (_, client):
            assert heard_by(client) == heard
