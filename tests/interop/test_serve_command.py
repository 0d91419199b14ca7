"""`hivecore serve` and `hivecore validate` as their users call them."""

import http.server
import json
import queue
import signal
import socket
import ssl
import sys
import threading
from contextlib import nullcontext

import httpx
import pytest
from interop.hived.clusters import DOMAIN, binding
from interop.hived.clusters import filter_request as ask
from interop.servers import Command
from scheduler.lives import COMPOSITIONS, make_scheduler

from hivecore import cli
from hivecore.interop.extender.process import read_scheduler
from hivecore.interop.kubernetes.serving.server import tls_context

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
CLUSTER = "cluster: {models: {m: {gpus: 8}}, nodes: {'n[1-2]': m}}\ndevices:\n"
TOKEN = "0123456789abcdef-secret"
FILTER = "/v1/extender/filter"
posix = pytest.mark.skipif(sys.platform == "win32", reason="has no signals for one process")


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("hived") / "hived.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def state_file(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(make_scheduler(COMPOSITIONS["all with cells"]).to_bytes())
    return path


@posix
def test_a_pod_is_filtered_bound_and_inspected_until_the_command_ends(config_file):
    options = ("--no-bind", "--max-body", 1000, "--evictions", "least")
    with Command(config_file, *options) as server:
        status, answer = server.post(FILTER, ask("p"))
        assert (status, answer["NodeNames"]) == (200, ["n1"])
        _, answer = server.post("/v1/extender/bind", binding("p", "n1"))
        annotations = answer["Binding"]["metadata"]["annotations"]
        assert annotations[f"{DOMAIN}/pod-leaf-cell-isolation"] == "0,1,2,3"
        group = server.get("/v1/inspect/affinitygroups/x/p").json()
        assert group == server.get("/v1/inspect/affinitygroups/x%2Fp").json()
        status = server.get("/v1/inspect/clusterstatus").json()
        parts = {"physicalcluster": "physicalCluster", "virtualclusters/": "virtualClusters"}
        for path, key in parts.items():
            part = server.get(f"/v1/inspect/clusterstatus/{path}").json()
            assert part == status[key]
        entry = server.get("/v1/inspect/clusterstatus/virtualclusters/A").json()
        assert entry == status["virtualClusters"]["A"]
        assert server.get("/v1/inspect/affinitygroups/none").status_code == 404
        assert server.client.post(FILTER, content=b" " * 1001).status_code == 413
        assert server.end(signal.SIGTERM) == 0


@posix
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("options", [("--gpushare", "GiB", "--no-bind"), ("--scheduler", "FILE")])
def test_ctrl_c_stops_serving_with_one_line_and_status_130(options, state_file):
    options = [state_file if option == "FILE" else option for option in options]
    with Command(*options) as server:
        assert server.get("/livez").json() == {"status": "ok"}
        assert server.end(signal.SIGINT) == 130
        assert server.said() == "hivecore: interrupted\n"


@posix
def test_clients_that_wait_for_actions_are_answered_at_the_end(state_file, tmp_path):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with Command("--scheduler", state_file, "--token-file", token) as server:
        assert server.get("/v1/status").status_code == 401
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        roles = [{"name": "w", "gpus": 1}]
        event = {"event": "submit", "job": {"name": "train", "tenant": "a", "roles": roles}}
        assert server.post("/v1/events", event)[0] == 200
        heard = queue.Queue()
        thread = threading.Thread(
            target=lambda: heard.put(server.get("/v1/actions?after=1&wait=60").json())
        )
        thread.start()
        while 'path="/v1/events"' not in server.get("/metrics").text:
            pass
        assert server.end(signal.SIGTERM) == 0
        thread.join()
        assert heard.get(timeout=20) == {"actions": [], "last": 1}


@posix
def test_https_for_clients_that_the_authority_knows(config_file, tmp_path):
    trustme = pytest.importorskip("trustme")
    authority, stranger = trustme.CA(), trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    parts = {"cert": own.cert_chain_pems[0], "key": own.private_key_pem}
    options = []
    for name, part in {**parts, "client-ca": authority.cert_pem}.items():
        part.write_to_path(str(tmp_path / name))
        options += [f"--tls-{name}", tmp_path / name]
    with Command(config_file, "--no-bind", *options) as server:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{server.url}/livez", verify=trusting)
        for issuer, knows in ((authority, True), (stranger, False)):
            known = ssl.create_default_context()
            authority.configure_trust(known)
            issuer.issue_cert("kube-scheduler.local").configure_cert(known)
            with nullcontext() if knows else pytest.raises(httpx.HTTPError):
                assert httpx.get(f"{server.url}/readyz", verify=known).status_code == 200


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(tmp_path):
    trustme = pytest.importorskip("trustme")
    from cryptography.hazmat.primitives import serialization as forms

    own = trustme.CA().issue_cert("127.0.0.1")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    key = forms.load_pem_private_key(own.private_key_pem.bytes(), None).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"secret")
    )
    (tmp_path / "key").write_bytes(key)
    with pytest.raises(OSError, match="the key has a passphrase"):
        tls_context(tmp_path / "cert", tmp_path / "key", None)


def test_bindings_are_posted_to_a_binder(config_file):
    posted = queue.Queue()
    statuses = iter([(200, "{}"), (500, "no room"), (404, "no such pod")])

    class Binder(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
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
    with Command(config_file, "--binder", url) as server:
        assert server.post(FILTER, ask("p"))[1]["NodeNames"] == ["n1"]
        bind = "/v1/extender/bind", binding("p", "n1")
        errors = [server.post(*bind)[1]["Error"] for _ in range(3)]
        assert errors == [
            "",
            "binding failed: no room (status 500)",
            "binding failed: no such pod (status 404)",
        ]
        assert [posted.get()["kind"] for _ in errors] == ["Binding"] * 3
        assert server.get("/v1/inspect/affinitygroups/").json() == {"items": []}
    binder.shutdown()
    binder.server_close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "one of the arguments CONFIG --gpushare --scheduler is required"),
        ("HIVED", "binding of pods: give one of --kubeconfig FILE, --in-cluster, --binder URL or"),
        ("HIVED --no-bind --binder http://x", "not allowed with argument"),
        ("HIVED --no-bind --lease x/y", "--lease needs --kubeconfig or --in-cluster"),
        ("HIVED --no-bind --lease x", "must be NAMESPACE/NAME, not 'x'"),
        ("HIVED --no-bind --tls-cert x", "--tls-cert and --tls-key go together"),
        ("HIVED --no-bind --tls-client-ca x", "--tls-client-ca needs --tls-cert and --tls-key"),
        ("HIVED --binder x", "must be http://... or https://..., not 'x'"),
        ("HIVED --kubeconfig /none", "/none: "),
        ("HIVED --in-cluster", "this is no pod of a cluster"),
        ("HIVED --port 65536", "must be an integer from 0 to 65535"),
        ("HIVED --port x", "must be an integer from"),
        ("HIVED --max-body 0", "must be an integer from 1"),
        ("HIVED --no-bind --log x", "--log needs --scheduler"),
        ("HIVED --no-bind --max-step 9", "--max-step needs --scheduler"),
        ("HIVED --no-bind --scheduler-name x", "--scheduler-name needs --scheduler"),
        ("HIVED --no-bind --fsync never", "--fsync needs --scheduler"),
        ("HIVED --gpushare MiB", "not allowed with argument"),
        ("--gpushare KiB", "invalid choice: 'KiB'"),
        ("--gpushare MiB --evictions least", "--evictions has no meaning for gpushare"),
        ("--gpushare MiB", "binding of pods: give one of --kubeconfig FILE, --in-cluster"),
        ("--gpushare MiB --kubeconfig /none", "/none: "),
        ("--gpushare MiB --no-bind --lease x/y", "--lease needs --kubeconfig or --in-cluster"),
        ("--scheduler x --fsync never", "--fsync needs --log"),
        ("--scheduler x --snapshot-every 9", "--snapshot-every needs --log"),
        ("--scheduler x --snapshot-every -1", "must be an integer from 0"),
        ("--scheduler x --fsync now", "invalid choice: 'now'"),
        ("--scheduler x --header-seconds 0", "must be seconds, more than 0"),
        ("--scheduler x --max-step 0", "must be seconds, more than 0"),
        ("--scheduler x --max-step nan", "must be seconds, more than 0"),
        ("--scheduler x --foreign a", "--foreign has no meaning for --scheduler"),
        ("--scheduler x --lease a/b", "--lease has no meaning for --scheduler"),
        ("--scheduler x --evict-after 5", "--evict-after needs --kubeconfig or --in-cluster"),
        ("--scheduler x --in-cluster --evict-after x", "must be seconds, more than 0"),
        ("HIVED --no-bind --evict-after 5", "--evict-after needs --kubeconfig or --in-cluster"),
        ("--gpushare MiB --in-cluster --evict-after 5", "has no meaning for gpushare"),
        ("--scheduler x --gpushare MiB", "not allowed with argument"),
        ("--scheduler /none/such", "/none/such"),
        (f"--scheduler {__file__}", "test_serve_command.py:1: is no YAML"),
        ("--scheduler x --token-file /none/token", "/none/token"),
        # The YAML of a whole cluster needs no option.
        ("CLUSTER --foreign a", "--foreign has no meaning for --scheduler"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says, config_file, tmp_path, refused):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    options = options.replace("HIVED", str(config_file)).replace("CLUSTER", str(cluster))
    assert says in refused("serve", *options.split())


@pytest.mark.parametrize("text", ["", "short", "0123456789abcdef with blanks", "\xe9" * 20])
def test_a_token_that_is_none_is_refused(text, state_file, tmp_path, refused):
    token = tmp_path / "token"
    token.write_text(text, "latin-1")
    assert "a token " in refused("serve", "--scheduler", state_file, "--token-file", token)


def test_an_address_in_use_ends_the_command(config_file, refused):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert "ddress" in refused("serve", config_file, "--no-bind", "--port", port)


def test_a_bad_configuration_ends_the_command(tmp_path, capsys):
    bad = tmp_path / "bad.yaml"
    bad.write_text("physicalCluster: 3")
    assert cli.main(["serve", str(bad), "--no-bind"]) == 1
    assert f"{bad}: physicalCluster: must be a mapping, not '3'" in capsys.readouterr().err


def test_a_scheduler_is_read_from_the_file_of_a_cluster_or_a_saved_state(tmp_path):
    cluster, state = tmp_path / "cluster.yaml", tmp_path / "state"
    cluster.write_text(CLUSTER)
    scheduler = read_scheduler(cluster)
    assert scheduler.devices.nodes == ("n1", "n2")
    state.write_bytes(scheduler.to_bytes())
    assert read_scheduler(state).to_bytes() == scheduler.to_bytes()
    state.write_bytes(scheduler.to_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{state}: "):
        read_scheduler(state)


def test_missing_libraries_are_named(config_file, monkeypatch, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name != "yaml" else object())
    assert cli.main(["validate", str(config_file)]) == 0
    assert cli.main(["serve", str(config_file)]) == 1
    needs = "hivecore serve needs aiohttp, prometheus_client: pip install 'hivecore[serve]'\n"
    assert capsys.readouterr().err == needs


# --- validate


def test_validate_prints_the_cells_and_their_owners(config_file, output):
    assert output("validate", config_file).splitlines() == [
        "chain  cells  nodes  devices  levels",
        "RACK       1      2        8  RACK > NODE > GPU",
        "",
        "virtual cluster  chain  level  cells  pinned",
        "A                RACK   NODE       1",
        "B                                  0",
    ]


def test_validate_prints_all_mistakes_and_answers_1(tmp_path, capsys, refused):
    path = tmp_path / "hived.yaml"
    wrong = CONFIG.replace("NODE, cellNumber: 1", "NODE, cellNumber: -1").replace("n2", "n1")
    path.write_text(wrong)
    assert cli.main(["validate", str(path)]) == 1
    out, err = capsys.readouterr()
    children = "physicalCluster.physicalCells[0].cellChildren"
    number = "virtualClusters.A.virtualCells[0].cellNumber"
    assert (out, err.splitlines()) == (
        "",
        [
            f"{path}: {children}[1]: device 0 of node 'n1' is in {children}[0] already",
            f"{path}: {number}: must be an integer from 0 to 2**31, not '-1'",
            f"{path}: 2 mistakes",
        ],
    )
    refused("validate", tmp_path / "missing.yaml")
