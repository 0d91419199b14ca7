"""One application behind HTTP: methods, sizes, parameters, the token, slow and broken clients."""

import socket
import time

import httpx
import pytest
from interop.servers import PLAIN, at_once, served

from hivecore.interop.extender.service import PodService
from hivecore.interop.gpushare.service import GpushareService
from hivecore.interop.hived.serving.service import HivedService
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.serving.metrics import Metrics
from hivecore.interop.kubernetes.serving.routes import COMMON, Route, Routes
from hivecore.interop.kubernetes.serving.server import Service

LIMIT = 20_000
TOKEN = "0123456789abcdef-secret"
PROBES = ("/healthz", "/livez", "/readyz")


class Notes(Service):
    """Keeps the bodies that were posted."""

    def __init__(self):
        self.kept, self.metrics = [], Metrics(self.routes.posted)

    def add(self, call):
        if call.body == b"fail":
            raise RuntimeError("secret")
        self.kept.append(call.body)
        return {"kept": len(self.kept)}

    async def note(self, call):
        if not call.name.isdecimal():
            raise BadCall(404, f"no note {call.name!r}")
        return call.query.get("form", "text").encode()

    routes = Routes(
        [
            *COMMON,
            Route("POST", "/notes", add),
            Route("GET", "/notes/{number}", note, has_parameters=True),
        ]
    )


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def client(notes):
    with (
        served(lambda: notes, LIMIT, body_seconds=0.5) as url,
        httpx.Client(base_url=url, timeout=20) as result,
    ):
        yield result


def test_wrong_methods_paths_and_parameters_are_refused_in_json(client):
    for method, path, allowed in (
        ("GET", "/notes", "POST"),
        ("DELETE", "/notes", "POST"),
        ("POST", "/notes/1", "GET, HEAD"),
        ("PUT", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/", "GET, HEAD"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert method in answer.json()["Error"]
    for method, path, status in (
        ("GET", "/notes/", 404),
        ("DELETE", "/none", 404),
        ("GET", "/notes/a%0Ab", 404),
        ("GET", "/%ff%00", 404),
        ("GET", "/healthz?x", 400),
        ("POST", "/notes?x=1", 400),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, list(answer.json())) == (status, ["Error"]), path
        assert answer.headers["content-type"] == "application/json"
    assert client.get("/notes/1?form=short").content == b"short"
    assert client.head("/notes/1").status_code == 200
    assert client.get("/").json() == {"paths": ["/", "/healthz", "/notes", "/notes/{number}"]}


@pytest.mark.parametrize(
    ("service", "methods"),
    [
        (PodService, {"/v1/events": "POST", "/v1/what-if": "POST", "/v1/actions": "GET"}),
        (PodService, {"/v1/explain/a": "GET", "/v1/explain/": None, "/v1/watch": "POST"}),
        (PodService, {"/v1/jobs": "GET", "/v1/jobs/a": "GET", "/v1/jobs/": None, "/v1": None}),
        (HivedService, {"/v1/extender/filter": "POST", "/v1/inspect/clusterstatus": "GET"}),
        (HivedService, {"/v1/inspect/affinitygroups/x/p": "GET", "/v1/watch/": None}),
        (GpushareService, {"/gpushare-scheduler/bind": "POST", "/gpushare-scheduler/x": None}),
        (GpushareService, {"/gpushare-scheduler/inspect/n": "GET", "/healthz": "GET"}),
    ],
)
def test_the_methods_of_the_routes(service, methods):
    assert {path: service.routes.method(path) for path in methods} == methods


@pytest.mark.parametrize("service", [PodService, HivedService, GpushareService])
def test_the_list_of_routes_names_paths_that_are_routes(service):
    assert all(service.routes.method(path) for path in service.routes.paths if "{" not in path)


def test_a_client_without_the_token_reads_and_changes_nothing(notes):
    with served(lambda: notes, token=TOKEN) as url, httpx.Client(base_url=url) as client:
        bad = ["", "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]
        for header in (None, *bad, "Bearer \xff"):
            headers = {} if header is None else {"Authorization": header.encode("latin-1")}
            for path in ("/notes/1", "/metrics", "/none", "/a%0Ab", "/"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.json() == {"Error": "a bearer token is needed"}
                assert answer.headers["www-authenticate"] == "Bearer"
            assert client.post("/notes", content=b"x", headers=headers).status_code == 401
        assert notes.kept == []
        for path in PROBES:
            assert client.get(path).json() == {"status": "ok"}
        for scheme in ("Bearer", "bearer"):
            headers = {"Authorization": f"{scheme} {TOKEN}"}
            assert client.post("/notes", content=b"x", headers=headers).status_code == 200
        assert notes.kept == [b"x", b"x"]


def test_a_body_that_is_too_large_is_refused_however_it_is_sent(client, notes):
    exact = b"x" * LIMIT
    assert client.post("/notes", content=exact).status_code == 200
    for content in (exact + b"x", (b"x" * 1000 for _ in range(LIMIT // 1000 + 1))):
        answer = client.post("/notes", content=content)
        expected = {"Error": f"the request has more than {LIMIT} bytes"}
        assert (answer.status_code, answer.json()) == (413, expected)
    assert notes.kept == [exact]


def raw(client, text):
    """A connection on which this was sent."""
    connection = socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)
    connection.sendall(text)
    return connection


def test_a_body_that_comes_too_slowly_is_given_up_and_others_do_not_wait_for_it(client, notes):
    start = b"POST /notes HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n{"
    slow = [raw(client, start) for _ in range(20)]
    for connection in slow:
        connection.sendall(b'"event":')
    assert client.post("/notes", content=b"x").status_code == 200
    for connection in slow:
        answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body has not come within 0.5 seconds" in answer
        connection.close()
    assert notes.kept == [b"x"]


def test_a_client_that_hangs_up_in_the_middle_of_a_body_has_sent_nothing(client, notes, caplog):
    for cut in (0, 1, 9):
        head = b"POST /notes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        raw(client, head + b"x" * cut).close()
    given_up = 'hivecore_requests_total{path="/notes",status="400"} 3.0'
    while given_up not in client.get("/metrics").text:
        time.sleep(0.01)
    assert notes.kept == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_unforeseen_error_is_500_and_says_nothing_of_its_cause(client):
    answer = client.post("/notes", content=b"fail")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert client.get("/healthz").status_code == 200


def test_a_service_that_is_not_ready_answers_503_and_lives(client, notes):
    notes.not_ready = "another replica leads"
    for path in ("/readyz", "/healthz", "/notes/1"):
        answer = client.get(path)
        expected = {"Error": "not ready: another replica leads"}
        assert (answer.status_code, answer.json()) == (503, expected)
    assert client.get("/livez").json() == {"status": "ok"}


def test_requests_are_counted_by_path_and_status(client):
    client.post("/notes", content=b"x")
    client.get("/none")
    text = client.get("/metrics").text
    assert 'hivecore_requests_total{path="/notes",status="200"} 1.0' in text
    assert 'hivecore_requests_total{path="other",status="404"} 1.0' in text
    assert 'hivecore_request_seconds_count{path="/notes"} 1.0' in text


def test_requests_of_many_threads_are_answered_one_after_the_other(client, notes):
    def work():
        answer = httpx.post(f"{client.base_url}/notes", content=b"x", timeout=20, verify=PLAIN)
        answer.raise_for_status()

    at_once(*[work] * 16)
    assert len(notes.kept) == 16
