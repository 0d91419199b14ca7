"""The page for people: its files over HTTP, what it is made of, and its script in Node.js."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import httpx
import pytest
from interop.servers import served
from scheduler.lives import COMPOSITIONS, GPUS, NODES, make_scheduler

from hivecore.devices import DeviceNeed, DeviceRequest
from hivecore.dra import DraCluster
from hivecore.dra.mig import mig_claim, mig_objects
from hivecore.interop.events import page
from hivecore.interop.events.overview import plain_overview
from hivecore.interop.events.plain import plain_status
from hivecore.interop.events.service import SchedulerService
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.scheduler import Job, Role, Scheduler

TOKEN = "a token that is hard to guess".replace(" ", "-")
HOSTILE = "<img src=x onerror=alert(1)></script>\"'&amp;"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FOLDER = Path(page.__file__).parent


def busy(composition):
    scheduler = make_scheduler(COMPOSITIONS[composition])
    for i in range(8):
        role = Role("w", 2, gpus=1)
        scheduler.submit(Job(f"{HOSTILE}{i}", "ab"[i % 2], [role], quota="ab"[i % 2]), 0.0)
    scheduler.submit(Job("large", "a", [Role("w", 4, gpus=4)], quota="a"), 0.0)
    if {"cells", "topology", "devices"} & set(COMPOSITIONS[composition]):
        scheduler.set_node(NODES[0], False, 0.0)
    scheduler.decide(0.0)
    return scheduler


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_an_overview_has_all_nodes_and_all_gpus_in_use(composition):
    scheduler = busy(composition)
    shown = plain_overview(scheduler)
    nodes = [node for group in shown["groups"] for node in group["nodes"]]
    known = {"cells", "topology", "devices"} & set(COMPOSITIONS[composition])
    assert [name for name, *_ in nodes] == (list(NODES) if known else [])
    used = Counter()
    for name in scheduler:
        for pod in scheduler.status(name).pods:
            used[pod.node] += scheduler.job(name).roles[0].gpus
    assert [node[2] for node in nodes] == [used[name] for name, *_ in nodes]
    assert [node[1] for node in nodes] == [GPUS] * len(nodes)
    assert {job["job"] for job in shown["waiting"]} == {
        name for name in scheduler if scheduler.state(name) in ("pending", "reserved")
    }
    quotas = [(quota["name"], quota["depth"]) for quota in shown["quotas"]]
    assert quotas == ([("all", 0), ("a", 1), ("b", 1)] if scheduler.quotas is not None else [])
    assert set(shown["owned"]) == (set() if scheduler.cells is None else {"a", "b"})


@pytest.mark.parametrize("part", ["quotas", "sharing"])
def test_gpus_of_a_network_that_several_jobs_share_or_wait_for_count_once(part):
    scheduler = make_scheduler(("topology", part))
    for i in range(len(NODES)):
        scheduler.submit(Job(f"{i}", "a", [Role("w", gpus=GPUS)], stages=(1.0, 0.0, 0.0)), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("late", "b", [Role("w", gpus=GPUS)], stages=(0.0, 1.0, 0.0)), 1.0)
    scheduler.decide(1.0)
    assert scheduler.state("late") == ("reserved" if part == "quotas" else "running")
    nodes = [node for group in plain_overview(scheduler)["groups"] for node in group["nodes"]]
    assert [node[:3] for node in nodes] == [[name, GPUS, GPUS] for name in NODES]
    assert sum(node[3][1:] == ["late"] for node in nodes) == 1


def test_gpus_of_claims_count_once_with_all_their_instances():
    claims = DraCluster()
    for node in NODES[:2]:
        claims.update(*mig_objects(node, "A30-24GB", cards=2))
    for driver, count in (("gpu.example.com", 8), ("nic.example.com", 4)):
        pool = {"name": "n9", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d{i}"} for i in range(count)]
        spec = {"driver": driver, "pool": pool, "nodeName": "n9", "devices": devices}
        claims.update({"kind": "ResourceSlice", "metadata": {"name": driver}, "spec": spec})
    devices = [{"name": f"d{i}", "nodeName": f"n{7 + i}"} for i in range(2)]
    spec = {"driver": "gpu.example.com", "pool": {**pool, "name": "both"}, "devices": devices}
    spec["perDeviceNodeSelection"] = True
    claims.update({"kind": "ResourceSlice", "metadata": {"name": "both"}, "spec": spec})
    for node in ("n7", "n8"):
        claims.update({"kind": "Node", "metadata": {"name": node}})
    scheduler = Scheduler(claims=claims)
    for i in range(3):
        claim = mig_claim("mig", {"1g.6gb": 2})
        scheduler.submit(Job(f"mig{i}", "a", [Role("w", claims=[claim])]), 0.0)
    scheduler.decide(0.0)
    (group,) = plain_overview(scheduler)["groups"]
    shown = {name: (gpus, used, jobs) for name, gpus, used, jobs in group["nodes"]}
    assert shown == {
        NODES[0]: (2, 2, ["mig0", "mig1", "mig2"]),
        NODES[1]: (2, 0, []),
        "n7": (1, 0, []),
        "n8": (1, 0, []),
        "n9": (8, 0, []),
    }


def test_parts_of_gpus_are_numbers_in_quotas():
    scheduler = make_scheduler(("quotas", "devices"))
    need = DeviceNeed("gpu", 1, {"core": 25, "memory_ratio": 25})
    role = Role("w", 3, devices=DeviceRequest("w", needs=[need]))
    scheduler.submit(Job("shares", "a", [role]), 0.0)
    scheduler.decide(0.0)
    quotas = json.loads(write_json(plain_overview(scheduler)))["quotas"]
    amounts = {"max": 16, "min": 8, "used": 0.75, "request": 0.75, "runtime": 0.75}
    assert quotas[1]["amounts"]["gpu"] == amounts


def test_a_browser_is_given_the_page_without_the_token_and_data_only_with_it():
    scheduler = make_scheduler(COMPOSITIONS["all with cells"])
    with (
        served(lambda: SchedulerService(scheduler), token=TOKEN) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        for path, kind in (("/", "html"), ("/page.css", "css"), ("/page.js", "javascript")):
            answer = client.get(path, headers=BROWSER)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == f"text/{kind}; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        assert client.get("/").status_code == 401
        assert client.get("/v1/overview", headers=BROWSER).status_code == 401
        assert client.post("/", headers=BROWSER).status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert "/v1/overview" in client.get("/").json()["paths"]
        shown = client.get("/v1/overview").json()
        assert shown.keys() > client.get("/v1/status").json().keys()
        assert client.get("/v1/overview?now=1").status_code == 400


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere():
    html = (FOLDER / "index.html").read_text("utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?! src=)|//", html)
    script = (FOLDER / "page.js").read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\.style", script
    )
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in (FOLDER / "page.css").read_text("utf-8")


def run_script(status, overview, fragment=""):
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js to run the page's script")
    harness = Path(__file__).with_name("page_in_node.js")
    arguments = [node, harness, FOLDER / "page.js", str(status), json.dumps(overview), fragment]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_what_users_wrote_comes_into_the_page_as_text_alone():
    scheduler = busy("all with cells")
    overview = {**plain_status(scheduler.summary()), **plain_overview(scheduler)}
    for job in overview["waiting"]:
        job["reason"] = job["tenant"] = HOSTILE
    drawn = run_script(200, overview, f"#token={TOKEN}")
    assert drawn["asked"] == [["v1/overview", f"Bearer {TOKEN}"]]
    assert drawn["state"].startswith("as of ")
    assert HOSTILE in drawn["texts"]
    assert not {"img", "script", "a"} & set(drawn["tags"])


def test_drained_nodes_differ_from_lost_ones():
    scheduler = busy("all with cells")
    scheduler.drain(NODES[1], 1.0)
    overview = {**plain_status(scheduler.summary()), **plain_overview(scheduler)}
    assert (overview["unhealthy"], overview["draining"]) == (list(NODES[:2]), [NODES[1]])
    titles = [text for text in run_script(200, overview)["attributes"] if "GPUs in use" in text]
    ends = {title.partition(":")[0]: title.rpartition(", ")[2] for title in titles}
    assert (ends[NODES[0]], ends[NODES[1]]) == ("unhealthy", "drained")
    scheduler.set_node(NODES[1], True, 2.0)
    assert scheduler.summary().draining == ()


@pytest.mark.parametrize(
    ("status", "fragment", "says"),
    [
        (401, "", "needs a token"),
        (401, "#token=wrong", "refuses this token"),
        (503, "", "answers with 503: not ready"),
        (0, "", "cannot be reached"),
    ],
)
def test_the_page_says_why_it_shows_nothing(status, fragment, says):
    assert says in run_script(status, {"Error": "not ready"}, fragment)["state"]
