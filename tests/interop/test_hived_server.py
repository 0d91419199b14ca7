import http.server
import json
import queue
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import nullcontext

import httpx
import pytest
from interop.hived_cluster import DOMAIN
from interop.hived_cluster import filter_request as ask
from interop.servers import served

from hivecore import cli
from hivecore.interop.hived import Extender, HivedScheduler
from hivecore.interop.hived.serving.service import HivedService

CONFIG = """
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 2}
  physicalCells:
  - cellType: RACK
    cellChildren: [{cellAddress: n1}, {cellAddress: n2}]
virtualClusters:
  A:
    virtualCells: [{cellType: RACK.NODE, cellNumber: 1}]
  B: {}
"""
LIMIT = 20_000


def post(client, path, body, status=200):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def get(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("hived") / "hived.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def client(config_file):
    """A client of a server that runs in another thread."""
    scheduler = HivedScheduler(config_file)
    with (
        served(lambda: HivedService(Extender(scheduler)), LIMIT) as url,
        httpx.Client(base_url=url, timeout=20) as found,
    ):
        yield found


def test_a_pod_is_filtered_bound_inspected_and_deleted(client):
    assert post(client, "/v1/extender/filter", ask("p"))["NodeNames"] == ["n1"]
    bind = {"PodName": "p", "PodNamespace": "x", "PodUID": "u-p", "Node": "n1"}
    answer = post(client, "/v1/extender/bind", bind)
    assert (
        answer["Binding"]["metadata"]["annotations"][f"{DOMAIN}/pod-leaf-cell-isolation"]
        == "0,1,2,3"
    )
    group = get(client, "/v1/inspect/affinitygroups/x/p")
    assert group == get(client, "/v1/inspect/affinitygroups/x%2Fp")
    assert group["status"]["physicalPlacement"] == {"n1": [0, 1, 2, 3]}
    status = get(client, "/v1/inspect/clusterstatus")
    assert get(client, "/v1/inspect/clusterstatus/physicalcluster") == status["physicalCluster"]
    virtual = get(client, "/v1/inspect/clusterstatus/virtualclusters/")
    assert virtual == status["virtualClusters"]
    assert get(client, "/v1/inspect/clusterstatus/virtualclusters/A") == virtual["A"]
    deleted = {"type": "DELETED", "object": {"kind": "Pod", **ask("p")["Pod"]}}
    assert post(client, "/v1/watch", deleted) == {}
    assert get(client, "/v1/inspect/affinitygroups/") == {"items": []}
    assert get(client, "/v1/inspect/clusterstatus") != status


def test_a_pod_preempts_another_one(client):
    post(client, "/v1/extender/filter", ask("low", priority=-1))
    post(client, "/v1/extender/filter", ask("low2", priority=-1))
    high = ask("high", priority=1)
    assert "n1" in post(client, "/v1/extender/filter", high)["FailedNodes"]
    body = {"Pod": high["Pod"], "NodeNameToMetaVictims": {"n1": {"Pods": []}}}
    answer = post(client, "/v1/extender/preempt", body)
    victims = {"n1": {"Pods": [{"UID": "u-low2"}], "NumPDBViolations": 0}}
    assert answer == {"NodeNameToMetaVictims": victims}
    deleted = {"type": "DELETED", "object": {"kind": "Pod", **ask("low2")["Pod"]}}
    post(client, "/v1/watch", deleted)
    assert post(client, "/v1/extender/preempt", body) == {"NodeNameToMetaVictims": {}}
    assert post(client, "/v1/extender/filter", high)["NodeNames"] == ["n1"]


def test_wrong_methods_paths_and_bodies_are_refused(client):
    for method, path, allowed in (
        ("GET", "/v1/extender/filter", "POST"),
        ("DELETE", "/v1/watch", "POST"),
        ("POST", "/v1/inspect/clusterstatus", "GET, HEAD"),
        ("PUT", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/", "GET, HEAD"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert method in answer.json()["Error"]
    for path in ("/v1", "/v2/extender/filter", "/v1/inspect/affinitygroups/none", "/%ff%00"):
        for method in ("GET", "DELETE") if "none" not in path else ("GET",):
            answer = client.request(method, path)
            assert (answer.status_code, list(answer.json())) == (404, ["Error"])
    for content in (b"", b"{", b"\x00\xff", b"[]", b"NaN", b"[" * 15_000):
        answer = client.post("/v1/watch", content=content)
        assert (answer.status_code, list(answer.json())) == (400, ["Error"])
        answer = client.post("/v1/extender/filter", content=content)
        assert (answer.status_code, answer.json()["NodeNames"]) == (200, None)
        assert answer.json()["Error"]
    assert client.head("/v1/inspect/clusterstatus").status_code == 200
    assert get(client, "/healthz") == {"status": "ok"}


def test_a_request_that_is_too_large_is_refused_however_it_is_sent(client):
    exact = b'{"Pod": 1}'.ljust(LIMIT)
    assert "Pod" in client.post("/v1/extender/filter", content=exact).json()["Error"]
    answer = client.post("/v1/extender/filter", content=exact + b" ")
    assert (answer.status_code, answer.json()) == (
        413,
        {"Error": f"the request has more than {LIMIT} bytes"},
    )

    def chunks():
        for _ in range(LIMIT // 1000 + 1):
            yield b" " * 1000

    assert client.post("/v1/extender/filter", content=chunks()).status_code == 413
    assert get(client, "/healthz") == {"status": "ok"}


def test_requests_at_once_take_turns(client):
    answers = []

    def run(i):
        vc = "A" if i % 2 else "B"
        spec = {"number": 1, "vc": vc, "priority": -(1 - i % 2)}
        body = ask(f"p{i}", **spec)
        answers.append(httpx.post(client.base_url.join("/v1/extender/filter"), json=body))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {200}
    groups = get(client, "/v1/inspect/affinitygroups/")["items"]
    taken = [
        (node, leaf)
        for group in groups
        for node, leaves in group["status"]["physicalPlacement"].items()
        for leaf in leaves
    ]
    assert len(taken) == len(set(taken)) == sum(bool(a.json()["NodeNames"]) for a in answers)


def test_the_command_serves_until_it_is_told_to_end(config_file):
    command = [sys.executable, "-c", "import hivecore.cli as c; raise SystemExit(c.main())"]
    command += [
        "serve",
        str(config_file),
        "--no-bind",
        "--port",
        "0",
        "--max-body",
        "1000",
        "--evictions",
        "least",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            url = re.fullmatch(r"hivecore listens on (http://127\.0\.0\.1:\d+)\n", line)[1]
            with httpx.Client(base_url=url, timeout=20) as client:
                assert get(client, "/healthz") == {"status": "ok"}
                assert post(client, "/v1/extender/filter", ask("p"))["NodeNames"] == ["n1"]
                assert client.post("/v1/extender/filter", content=b" " * 1001).status_code == 413
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) in (0, -signal.SIGTERM)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGINT for one process")
def test_ctrl_c_stops_serving_with_one_line_and_status_130(config_file):
    command = [
        sys.executable,
        "-m",
        "hivecore",
        "serve",
        str(config_file),
        "--no-bind",
        "--port",
        "0",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        url = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=url, timeout=20) as client:
            assert get(client, "/healthz") == {"status": "ok"}
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
        assert process.communicate() == ("", "hivecore: interrupted\n")


def test_an_address_in_use_and_a_bad_configuration_end_the_command(config_file, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        with pytest.raises(SystemExit) as caught:
            cli.main(["serve", str(config_file), "--no-bind", "--port", port])
    assert caught.value.code == 2
    bad = tmp_path / "bad.yaml"
    bad.write_text("physicalCluster: 3")
    assert cli.main(["serve", str(bad), "--no-bind"]) == 1
    assert f"{bad}: physicalCluster: must be a mapping, not '3'" in capsys.readouterr().err
    for option in (["--port", "65536"], ["--port", "x"], ["--max-body", "0"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(["serve", str(config_file), *option])
        assert caught.value.code == 2
        assert "must be an integer from" in capsys.readouterr().err


def started(config_file, *options):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "hivecore", "serve", str(config_file), "--port", "0", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_https_for_whom_the_authority_knows(config_file, tmp_path):
    trustme = pytest.importorskip("trustme")
    authority, stranger = trustme.CA(), trustme.CA()
    files = {}
    for name, part in (
        ("cert", (made := authority.issue_cert("127.0.0.1")).cert_chain_pems[0]),
        ("key", made.private_key_pem),
        ("client-ca", authority.cert_pem),
    ):
        files[name] = tmp_path / name
        part.write_to_path(str(files[name]))
    options = [f"--tls-{name}={path}" for name, path in files.items()]
    with started(config_file, "--no-bind", *options) as process:
        try:
            url = process.stdout.readline().split()[-1]
            assert url.startswith("https://")
            trusting = ssl.create_default_context()
            authority.configure_trust(trusting)
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"{url}/livez", verify=trusting)
            for issuer, knows in ((authority, True), (stranger, False)):
                known = ssl.create_default_context()
                authority.configure_trust(known)
                issuer.issue_cert("kube-scheduler.local").configure_cert(known)
                with nullcontext() if knows else pytest.raises(httpx.HTTPError):
                    answer = httpx.get(f"{url}/readyz", verify=known)
                    assert answer.status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)


def test_bindings_are_posted_to_a_binder(config_file):
    posted = queue.Queue()
    statuses = iter([(200, "{}"), (500, "no room"), (404, "no such pod")])

    class Binder(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            posted.put(json.loads(self.rfile.read(length)))
            status, text = next(statuses)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    binder = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Binder)
    threading.Thread(target=binder.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{binder.server_address[1]}/bind"
    with started(config_file, "--binder", url) as process:
        try:
            with httpx.Client(base_url=process.stdout.readline().split()[-1]) as client:
                assert post(client, "/v1/extender/filter", ask("p"))["NodeNames"] == ["n1"]
                bind = {"PodName": "p", "PodNamespace": "x", "PodUID": "u-p", "Node": "n1"}
                errors = [post(client, "/v1/extender/bind", bind)["Error"] for _ in range(3)]
                assert errors == [
                    "",
                    "binding failed: no room (status 500)",
                    "binding failed: no such pod (status 404)",
                ]
                assert [posted.get()["kind"] for _ in errors] == ["Binding"] * 3
                assert get(client, "/v1/inspect/affinitygroups/") == {"items": []}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
            binder.shutdown()
            binder.server_close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "who binds pods? Say one of --kubeconfig FILE, --in-cluster, --binder URL or"),
        (["--no-bind", "--binder", "http://x"], "not allowed with argument"),
        (["--no-bind", "--lease", "x/y"], "--lease needs --kubeconfig or --in-cluster"),
        (["--no-bind", "--lease", "x"], "must be NAMESPACE/NAME, not 'x'"),
        (["--no-bind", "--tls-cert", "x"], "--tls-cert and --tls-key go together"),
        (["--no-bind", "--tls-client-ca", "x"], "--tls-client-ca needs --tls-cert and --tls-key"),
        (["--binder", "x"], "must be http://... or https://..., not 'x'"),
        (["--kubeconfig", "/none"], "/none: "),
        (["--in-cluster"], "this is no pod of a cluster"),
    ],
)
def test_options_that_make_no_sense_are_refused(config_file, options, says, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", str(config_file), *options])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_validate_prints_what_there_is(config_file, capsys):
    assert cli.main(["validate", str(config_file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "chain  cells  nodes  devices  levels",
        "RACK       1      2        8  RACK > NODE > GPU",
        "",
        "virtual cluster  chain  level  cells  pinned",
        "A                RACK   NODE       1",
        "B                                  0",
    ]


def test_validate_prints_all_mistakes_and_answers_1(tmp_path, capsys):
    path = tmp_path / "hived.yaml"
    path.write_text(
        CONFIG.replace("NODE, cellNumber: 1", "NODE, cellNumber: -1").replace("n2", "n1")
    )
    assert cli.main(["validate", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    children = "physicalCluster.physicalCells[0].cellChildren"
    number = "virtualClusters.A.virtualCells[0].cellNumber"
    assert err.splitlines() == [
        f"{path}: {children}[1]: device 0 of node 'n1' is in {children}[0] already",
        f"{path}: {number}: must be an integer from 0 to 2**31, not '-1'",
        f"{path}: 2 mistakes",
    ]
    with pytest.raises(SystemExit) as caught:
        cli.main(["validate", str(tmp_path / "missing.yaml")])
    assert caught.value.code == 2


def test_missing_libraries_are_named(config_file, monkeypatch, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name != "yaml" else object())
    assert cli.main(["validate", str(config_file)]) == 0
    assert cli.main(["serve", str(config_file)]) == 1
    needs = "hivecore serve needs aiohttp, prometheus_client: pip install 'hivecore[serve]'\n"
    assert capsys.readouterr().err == needs
