"""Connections that send little, read little, or are too many: others are answered all the same."""

import json
import socket
import ssl
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial

import httpx
import pytest
from interop.servers import PLAIN, Command, served
from scheduler.lives import COMPOSITIONS, make_scheduler

from hivecore.interop.events.service import SchedulerService
from hivecore.interop.kubernetes.serving import _connections
from hivecore.interop.kubernetes.serving._connections import most_connections
from hivecore.scheduler import Job, Scheduler

trustme = pytest.importorskip("trustme")
get = partial(httpx.get, verify=PLAIN, timeout=20)
posix = pytest.mark.skipif(sys.platform == "win32", reason="has no limit of open files")
PROBES = ("/healthz", "/livez", "/readyz")
HEAD = b"POST /v1/events HTTP/1.1\r\nHost: x\r\n"
KINDS = {
    "nothing": b"",
    "half a request line": b"POST /v1",
    "half a head": HEAD + b"A: b\r\n",
    "half a body": HEAD + b"Content-Length: 200\r\n\r\n{",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{",
    "a probe, and nothing more": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a probe, and half a head": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /",
    "a long wait": b"GET /v1/actions?after=0&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n",
}


def address(url):
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


def opened(stack, url, text):
    result = stack.enter_context(socket.create_connection(address(url), timeout=20))
    result.sendall(text)
    return result


def is_ended(connection):
    """Whether the server ends a connection before it says anything, or after what it says."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from hivecore.cli import main
main(["serve", "--log-level", "error", *sys.argv[1:]])
"""


class Limited(Command):
    """The command in a process that may open 128 files."""

    program = ("-c", LIMITED)


@posix
@pytest.mark.parametrize("kind", KINDS)
def test_200_connections_of_a_process_with_128_files_keep_no_probe_out(tmp_path, kind):
    state = tmp_path / "state"
    state.write_bytes(make_scheduler(COMPOSITIONS["all with cells"]).to_bytes())
    options = ("--scheduler", state, "--log", tmp_path / "log")
    with Limited(*options) as server, ExitStack() as stack:
        url = server.url
        for _ in range(200):
            opened(stack, url, KINDS[kind])
        for path in PROBES * 5:
            assert get(url + path).json() == {"status": "ok"}
        roles = [{"name": "w", "gpus": 1}]
        event = {"event": "submit", "job": {"name": "train", "tenant": "a", "roles": roles}}
        assert httpx.post(f"{url}/v1/events", json=event, timeout=20).json()["last"] == 1
        for _ in range(100):
            opened(stack, url, KINDS[kind])
        assert get(f"{url}/v1/status").json()["jobs"]["running"] == 1


@posix
def test_answers_that_are_not_read_keep_no_probe_out(tmp_path):
    scheduler = Scheduler()
    for number in range(4000):
        scheduler.submit(Job(f"{number:0900}", "a", 1), 0.0)
    scheduler.decide(0.0)
    state = tmp_path / "state"
    state.write_bytes(scheduler.to_bytes())
    with Limited("--scheduler", state) as server, ExitStack() as stack:
        url = server.url
        for _ in range(200):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(address(url))
            connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
        for path in PROBES * 5:
            assert get(url + path).json() == {"status": "ok"}


def connect_again_and_again(url, text, stop):
    """Keep 50 connections that have sent this, whatever the server does."""
    connections = []
    while not stop.wait(0.02):
        while len(connections) < 50:
            product = socket.create_connection(address(url), timeout=20)
            connections.append(product)
            with suppress(OSError):
                product.sendall(text)
            product.setblocking(False)
        for connection in list(connections):
            try:
                is_closed = not connection.recv(1)
            except OSError as error:
                is_closed = not isinstance(error, BlockingIOError)
            if is_closed:
                connection.close()
                connections.remove(connection)
    for connection in connections:
        connection.close()


@posix
def test_clients_that_connect_again_and_again_keep_no_probe_out(tmp_path):
    state = tmp_path / "state"
    state.write_bytes(Scheduler().to_bytes())
    stop = threading.Event()
    kinds = ("nothing", "half a head", "half a body", "a long wait")
    with Limited("--scheduler", state) as server:
        url = server.url
        threads = [
            threading.Thread(target=connect_again_and_again, args=(url, KINDS[kind], stop))
            for kind in kinds
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                answers = []
                for _ in range(3):  # as kubelet does before it gives a container up
                    with suppress(httpx.TransportError):
                        answers.append(get(f"{url}/healthz").status_code)
                        break
                assert answers == [200]
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_of_all_connections_the_one_that_is_missed_least_gives_way(monkeypatch):
    monkeypatch.setattr(_connections, "_MOMENT", 0.0)
    scheduler = Scheduler()
    with (
        served(lambda: SchedulerService(scheduler), 1000, connections=4) as url,
        ExitStack() as stack,
    ):
        order = ("a long wait", "half a body", "a probe, and nothing more", "half a head")
        connections = []
        for kind in order:
            connections.append(opened(stack, url, KINDS[kind]))
            if kind == "a probe, and nothing more":
                assert connections[-1].recv(4096).startswith(b"HTTP/1.1 200 ")
        # A round trip of one of them: the server has seen what the others have sent before.
        connections[2].sendall(KINDS["a probe, and nothing more"])
        assert connections[2].recv(4096).startswith(b"HTTP/1.1 200 ")
        for ended in (3, 2, 1, 0):
            client = stack.enter_context(httpx.Client(timeout=20, verify=PLAIN))
            client.get(f"{url}/healthz")
            if ended == 3:
                assert is_ended(connections[3])
        assert is_ended(connections[2])
        # Connections that were probed and are idle now give way to new ones before these do.
        for connection in connections[:2]:
            connection.settimeout(0.2)
            assert not is_ended(connection)


@pytest.mark.parametrize("kind", ["nothing", "half a head", "a probe, and half a head"])
def test_a_head_has_its_time(kind):
    with (
        served(lambda: SchedulerService(Scheduler()), 1000, head_seconds=0.3) as url,
        ExitStack() as stack,
    ):
        connections = [opened(stack, url, KINDS[kind]) for _ in range(5)]
        if kind == "a probe, and half a head":
            for connection in connections:
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
                connection.sendall(b" HTTP")
        assert all(map(is_ended, connections))
        assert get(f"{url}/healthz").status_code == 200


@posix
def test_tls_handshakes_have_their_time_and_are_counted():
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = {"tls": context, "head_seconds": 1.0, "connections": 4}
    with (
        served(lambda: SchedulerService(Scheduler()), 1000, **options) as url,
        ExitStack() as stack,
    ):
        half = [opened(stack, url, b"\x16\x03\x01\x02") for _ in range(20)]
        for path in PROBES:
            assert httpx.get(url + path, verify=trusting, timeout=20).json() == {"status": "ok"}
        assert all(map(is_ended, half))
        assert httpx.get(f"{url}/healthz", verify=trusting, timeout=20).status_code == 200


def test_a_head_that_comes_byte_by_byte_has_no_more_time():
    with (
        served(lambda: SchedulerService(Scheduler()), 1000, head_seconds=0.5) as url,
        ExitStack() as stack,
    ):
        connection = opened(stack, url, b"GET / HTTP/1.1\r\nA: ")
        stop = threading.Event()

        def drip():
            try:
                while not stop.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert is_ended(connection)
        finally:
            stop.set()
            thread.join()


def test_a_client_that_does_not_read_is_given_up():
    scheduler = Scheduler()
    for number in range(4000):
        scheduler.submit(Job(f"{number:0900}", "a", 1), 0.0)
    path = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        served(lambda: SchedulerService(scheduler), 1000, body_seconds=0.5) as url,
        ExitStack() as stack,
    ):
        whole = len(get(f"{url}/v1/jobs").content)
        slow = []
        for _ in range(3):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect(address(url))
            connection.sendall(path)
            slow.append(connection)
        ended = threading.Event()
        while not ended.wait(0.1):  # until the server has closed its ends
            with socket.socket() as probe:
                probe.connect(address(url))
            if all(is_reset(connection) for connection in slow):
                ended.set()
        assert whole > 3_000_000


def is_reset(connection):
    """Whether the other end is gone, with all that is still to be read."""
    try:
        connection.sendall(b" ")
    except OSError:
        return True
    return False


RAW = [
    (HEAD + b"\r\n", 400),
    (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (HEAD + b"Content-Length: abc\r\n\r\n", 400),
    (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    (HEAD + b"Content-Length: 99999999999999\r\n\r\n", 413),
    (HEAD + b"Content-Length: 1001\r\n\r\n", 413),
    (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n[]", 400),
    (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n[]", 400),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n", 400),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n[]\r\n0\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]xx0\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: gzip\r\n\r\n[]", 400),
    (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n[]", 400),
    (HEAD + b"Expect: nonsense\r\nContent-Length: 2\r\n\r\n[]", 417),
    (b"nonsense\r\n\r\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\n\r\n", 400),
    (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    (b"GET http://[::1/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 9000 + b"\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
    (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
    (b"\0\0\0\0\r\n\r\n", 400),
    (b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    (b"DELETE /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", 405),
]


def test_whatever_is_sent_the_answer_is_json(caplog):
    scheduler = Scheduler()
    with served(lambda: SchedulerService(scheduler), 1000, head_seconds=1.0) as url:
        for text, status in RAW:
            with ExitStack() as stack:
                connection = opened(stack, url, text)
                answer = b""
                while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                    part = connection.recv(65536)
                    assert part, (text, answer)
                    answer += part
            head, _, body = answer.partition(b"\r\n\r\n")
            assert int(head.split()[1]) == status, text
            assert b"\r\nContent-Type: application/json" in head, text
            assert list(json.loads(body)) == ["Error"], text
            assert len(body) < 500
        assert get(f"{url}/healthz").status_code == 200
    assert len(scheduler) == 0
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_half_of_the_open_files_are_for_connections(monkeypatch):
    resource = pytest.importorskip("resource")
    for soft, most in (
        (128, 64),
        (1024, 512),
        (1, 1),
        (10**6, 4096),
        (resource.RLIM_INFINITY, 4096),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert most_connections() == most


def test_a_connection_that_cannot_be_accepted_makes_room(monkeypatch):
    """As if another part of the process had taken the last file."""
    refuse = []
    drop = _connections.Connections._drop_one

    def dropped(self):
        refuse.clear()
        drop(self)

    monkeypatch.setattr(_connections.Connections, "_drop_one", dropped)
    accept = socket.socket.accept

    def refused(self):
        result = accept(self)
        if refuse:
            result[0].close()
            raise OSError(24, "Too many open files")
        return result

    monkeypatch.setattr(socket.socket, "accept", refused)
    with served(lambda: SchedulerService(Scheduler()), 1000) as url, ExitStack() as stack:
        idle = opened(stack, url, KINDS["half a head"])
        assert get(f"{url}/healthz").status_code == 200
        refuse.append(True)
        with pytest.raises(httpx.TransportError):
            get(f"{url}/healthz")
        assert is_ended(idle)
        assert get(f"{url}/healthz").status_code == 200
