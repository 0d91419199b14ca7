"""`hivecore serve --scheduler` for kube-scheduler: a process of its own, a file of a cluster."""

import json
import sys
import time
from contextlib import contextmanager

import pytest
from interop.extender.pods_and_kubelets import (
    HIVED,
    Cluster,
    hived_gang,
    koordinator_pod,
)
from interop.kubernetes.cluster_roles import DEPLOY, allowed_by
from interop.kubernetes.fake_api_server import FakeApiServer
from interop.kubernetes.fake_kube_scheduler import LEAF_CELL, FakeKubeScheduler, bound
from interop.servers import Command, until

from hivecore.scheduler import replay

NODES = ("n0", "n1", "n2", "n3")
FILE = """
cluster:
  models: {v100: {gpus: 4}}
  nodes: {"n[0-3]": v100}
  cells:
    V100: {levels: [gpu, node, rack], fanouts: [4, 2], nodes: "n[0-3]"}
tenants:
  a: {cells: {V100: {rack: 1}}}
  b: {cells: {V100: {node: 1}}}
devices:
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends processes by signals")


class Server(Command):
    """The command with the scheduler of a file, and its log."""

    def __init__(self, folder, *options, text=FILE):
        file, self.log = folder / "cluster.yaml", folder / "log"
        file.write_text(text)
        super().__init__("--scheduler", file, "--log", self.log, *options)

    def jobs(self):
        return self.get("/v1/jobs").json()["jobs"]


def test_gangs_are_served_from_a_file_and_survive_the_end_of_the_process(tmp_path):
    with Server(tmp_path, "--no-bind") as server:
        cluster = Cluster(server.post, NODES)
        cluster.run(*hived_gang("spare", 3, priority=-1), koordinator_pod("k", "b", 2))
        assert len(cluster.bound()) == 4
        train = hived_gang("train", 2)
        cluster.run(train[0])
        assert cluster.reasons["train-0"] == "1 of the 2 pods that 'train' needs are there"
        cluster.run(train[1], grace=True)
        expected = {"pods:spare": "running", "pods:x/k": "running", "pods:train": "reserved"}
        assert server.jobs() == expected
        assert replay(server.log).state("pods:train") == "reserved"
        server.end()

        server.start().listening()
        assert server.jobs() == expected
        assert cluster.listed() == (200, {})
        cluster.pump()
        assert set(cluster.bound()) == {"train-0", "train-1", "k"}
        explained = server.get("/v1/explain/pods:train").json()
        assert explained["state"] == "running"
        for name in ("train-0", "train-1", "k"):
            cluster.end(name)
        assert server.jobs() == {}


def test_events_and_pods_are_of_one_scheduler(tmp_path):
    with Server(tmp_path, "--no-bind") as server:
        roles = [{"name": "w", "pods": 2, "gpus": 4}]
        job = {"name": "own", "tenant": "a", "roles": roles}
        assert server.post("/v1/events", {"event": "submit", "job": job})[0] == 200
        cluster = Cluster(server.post, NODES)
        cluster.run(*hived_gang("train", 2))
        assert cluster.bound() == {}
        assert server.jobs() == {"own": "running", "pods:train": "pending"}
        assert server.post("/v1/events", {"event": "finish", "job": "own"})[0] == 200
        cluster.pump()
        assert set(cluster.bound()) == {"train-0", "train-1"}
        text = server.get("/metrics").text
        for line in (
            'hivecore_pods{state="bound"} 2.0',
            'hivecore_gpus_in_use{tenant="a"} 8.0',
            'hivecore_decisions_total{outcome="bound",verb="bind"} 2.0',
            'hivecore_decisions_total{outcome="start",verb="decide"} 2.0',
            'hivecore_requests_total{path="/v1/extender/filter",status="200"}',
            "hivecore_decide_seconds_count",
            'hivecore_refusals_total{stage="cells"}',
        ):
            assert line in text


# --- with an API server


@contextmanager
def served(folder, has_pod_groups=True, refuse=None, text=FILE, options=()):
    """An API server with nodes, a kube-scheduler, and a server that follows them."""
    with FakeApiServer(has_pod_groups=has_pod_groups) as api:
        api.refuse = refuse
        for node in NODES:
            api.add_node(node, **{LEAF_CELL: "4"})
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        with (
            Server(folder, "--kubeconfig", kubeconfig, *options, text=text) as server,
            FakeKubeScheduler(api, lambda: server.url) as scheduler,
        ):
            yield api, server, scheduler


def add(api, pods, priority=0):
    for pod in pods:
        spec = pod["metadata"]["annotations"][f"{HIVED}/pod-scheduling-spec"]
        request = {"requests": {LEAF_CELL: str(json.loads(spec)["leafCellNumber"])}}
        api.add_pod(
            pod["metadata"]["name"],
            pod["metadata"]["annotations"],
            spec={"containers": [{"name": "c", "resources": request}]},
            priority=priority,
        )


def test_a_cluster_is_followed_and_its_pods_are_bound_and_touched(tmp_path):
    with served(tmp_path) as (api, server, scheduler):
        first, second = hived_gang("bert", 2)
        add(api, [first])
        until(lambda: "of the 2 pods" in str(scheduler.failures.get("bert-0")))
        add(api, [second])
        until(lambda: set(bound(api)) == {"bert-0", "bert-1"})
        add(api, hived_gang("next", 2))
        until(lambda: scheduler.failures.get("next-1"))
        api.delete_pod("bert-0")
        api.set_phase("bert-1", "Succeeded")
        until(lambda: {"next-0", "next-1"} <= set(bound(api)))
        server.end()
        server.start().listening()
        assert server.jobs() == {"pods:next": "running"}
        api.delete_pod("next-0")
        api.delete_pod("next-1")
        until(lambda: server.jobs() == {})


def touches(server):
    """How often pods were touched."""
    lines = [
        line for line in server.get("/metrics").text.splitlines() if 'event="touched_pod"' in line
    ]
    return sum(float(line.split()[-1]) for line in lines)


def test_pods_that_are_bound_at_the_first_question_are_not_touched(tmp_path):
    with served(tmp_path) as (api, server, _):
        add(api, hived_gang("first", 1, gpus=1))
        until(lambda: "first-0" in bound(api))
        time.sleep(1.2)  # then it is known that kube-scheduler reaches the service
        before = touches(server)
        for i in range(7):
            add(api, hived_gang(f"next{i}", 1, gpus=1))
        until(lambda: len(bound(api)) == 8)
        time.sleep(0.3)  # a touch would be due
        assert touches(server) == before


def test_a_new_log_while_pods_run_takes_them_up_and_names_those_that_contradict(tmp_path):
    with served(tmp_path) as (api, server, _):
        add(api, hived_gang("bert", 2))
        until(lambda: set(bound(api)) == {"bert-0", "bert-1"})
        server.end()
        for path in tmp_path.glob("log*"):
            path.unlink()
        server.start().listening()
        assert server.jobs() == {"pods:bert": "running"}
        add(api, hived_gang("next", 2))
        until(lambda: server.jobs().get("pods:next") == "pending")
        assert set(bound(api)) == {"bert-0", "bert-1"}
        server.end()
        (twin,) = hived_gang("twin", 1, vc="b")
        twin["metadata"]["annotations"] |= {f"{HIVED}/pod-leaf-cell-isolation": "0"}
        pod = api.add_pod("twin-0", twin["metadata"]["annotations"], spec={"nodeName": "n0"})
        server.log.unlink()
        server.start()
        assert server.process.wait(20) == 2
        assert "the pods 'x/bert-0' and 'x/twin-0' both have gpu 0 of 'n0'" in server.said()
        assert pod["spec"]["nodeName"] == "n0"


def test_gangs_grow_with_their_pods_and_count_a_launcher_that_is_bound_past_us(tmp_path):
    with served(tmp_path) as (api, server, _):
        for i in range(4):
            api._put("pods", koordinator_pod(f"g{i}", "a", 2, "g", 2))
        until(lambda: len(bound(api)) == 4)
        launcher = koordinator_pod("launcher", "b", 0, "m", 4)
        launcher["spec"]["nodeName"] = "cpu-node"
        api._put("pods", launcher)
        for i in range(3):
            api._put("pods", koordinator_pod(f"m{i}", "b", 1, "m", 4))
        until(lambda: len(bound(api)) == 8)
        assert server.jobs() == {"pods:x/g": "running", "pods:x/m": "running"}


IN_GROUPS = {
    "podgroups": ("labels", {"pod-group.scheduling.sigs.k8s.io": "g"}),
    "x-podgroups": ("labels", {"scheduling.x-k8s.io/pod-group": "g"}),
    "k8s-podgroups": ("spec", {"schedulingGroup": {"podGroupName": "g"}}),
    "k8s-workloads": ("spec", {"workloadRef": {"name": "g", "podGroup": "workers"}}),
}


def add_to_group(api, kind, *names):
    """Pods of a gang of the tenant `b`, which has one node."""
    place, says = IN_GROUPS[kind]
    for name in names:
        pod = koordinator_pod(name, "b", 2)
        (pod["metadata"]["labels"] if place == "labels" else pod["spec"]).update(says)
        api._put("pods", pod)


@pytest.mark.parametrize("kind", IN_GROUPS)
def test_groups_of_all_apis_are_followed(tmp_path, kind):
    with served(tmp_path) as (api, server, scheduler):
        add_to_group(api, kind, "p0", "p1")
        until(lambda: "is not known" in str(scheduler.failures.get("p0")))
        api.add_pod_group("g", 2, kind=kind)
        until(lambda: {"p0", "p1"} <= set(bound(api)))
        (job,) = server.jobs()
        assert job == ("pods:x/g/workers" if kind == "k8s-workloads" else "pods:x/g")


@pytest.mark.parametrize("minimum", [None, "2"])
def test_a_gang_is_known_by_the_labels_of_its_controller(tmp_path, minimum):
    group = "leaderworkerset.sigs.k8s.io"
    labels = {f"{group}/name": "llm", f"{group}/group-index": "0"}
    notes = {f"{group}/size": "2"}
    if minimum is not None:  # a JobSet does not say it on its pods
        labels = {"jobset.sigs.k8s.io/jobset-name": "llm"}
        labels |= {"jobset.sigs.k8s.io/replicatedjob-name": "node"}
        notes = {"gang.scheduling.koordinator.sh/min-available": minimum}
    with served(tmp_path) as (api, server, scheduler):
        for i in range(2):
            pod = koordinator_pod(f"p{i}", "b", 2, **labels)
            pod["metadata"]["annotations"] = dict(notes)
            api._put("pods", pod)
            until(lambda i=i: i or "1 of the 2 pods" in str(scheduler.failures.get("p0")))
        until(lambda: set(bound(api)) == {"p0", "p1"})
        kind = "leaderworkerset:llm-0" if minimum is None else "jobset:llm"
        assert server.jobs() == {f"pods:x/{kind}": "running"}
        place = api.pod("p0")["metadata"]["annotations"]["hivecore.io/place"]
        assert place == ("pod/0" if minimum is None else "node/0")
        server.end()
        server.start().listening()
        assert server.jobs() == {f"pods:x/{kind}": "running"}


@pytest.mark.parametrize("are_there", [True, False])
def test_pod_groups_that_cannot_be_listed_do_not_keep_others_waiting(tmp_path, are_there):
    def refuse(request):
        return 403 if are_there and "scheduling.x-k8s.io" in request.path else 0

    with served(tmp_path, are_there, refuse) as (api, server, scheduler):
        add(api, hived_gang("bert", 2))
        until(lambda: set(bound(api)) == {"bert-0", "bert-1"})
        add_to_group(api, "x-podgroups" if are_there else "podgroups", "x0")
        until(lambda: "is not known" in str(scheduler.failures.get("x0")))
        assert server.jobs() == {"pods:bert": "running"}


# --- why gangs wait


def status_of(api, kind):
    return api.objects[kind]["x", "g"].get("status")


def conditions_of(api):
    return status_of(api, "k8s-podgroups")["conditions"]


def of_room(api):
    """The events that do not tell that a pod is missing."""
    return [event for event in api.all("events") if "of the 2 pods" not in event["message"]]


@pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here")
@pytest.mark.parametrize("kind", IN_GROUPS)
def test_why_a_gang_waits_is_a_condition_and_one_event(tmp_path, kind):
    with served(tmp_path, refuse=allowed_by()) as (api, _, _):
        api.statuses |= {"x-podgroups", "k8s-podgroups"}
        api._put("pods", koordinator_pod("first", "b", 4))
        until(lambda: "first" in bound(api))
        api.add_pod_group("g", 2, kind=kind)
        add_to_group(api, kind, "g0", "g1")
        until(lambda: of_room(api) and (status_of(api, kind) or kind == "k8s-workloads"))
        (event,) = of_room(api)
        assert (event["reason"], event["type"]) == ("GangWaits", "Normal")
        pod = api.pod("g0")["metadata"]
        assert event["involvedObject"]["name"] == "g0"
        assert event["involvedObject"]["uid"] == pod["uid"]
        if kind == "k8s-podgroups":
            (condition,) = conditions_of(api)
            assert condition["type"] == "PodGroupScheduled"
            assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
            until(lambda: conditions_of(api)[0]["message"] == event["message"])
        elif kind != "k8s-workloads":
            assert status_of(api, kind) == {"phase": "Pending"}
        api.delete_pod("first")
        until(lambda: {"g0", "g1"} <= set(bound(api)))
        if kind == "k8s-podgroups":
            until(lambda: conditions_of(api)[0]["status"] == "True")
        elif kind != "k8s-workloads":
            until(lambda: status_of(api, kind) == {"phase": "Scheduled"})
        assert len(of_room(api)) == 1


def test_what_may_not_be_written_keeps_no_pod_waiting_and_is_said_once(tmp_path):
    def refuse(request):
        return 403 if "events" in request.path or request.path.endswith("/g/status") else 0

    with served(tmp_path, refuse=refuse) as (api, server, _):
        api._put("pods", koordinator_pod("first", "b", 4))
        until(lambda: "first" in bound(api))
        api.add_pod_group("g", 2, kind="k8s-podgroups")
        add_to_group(api, "k8s-podgroups", "g0", "g1")
        for name in ("h0", "h1"):
            api._put("pods", koordinator_pod(name, "b", 2, "h", 3))
        until(lambda: sum(path.endswith("/events") for _, path in api.requests) == 2)
        api.delete_pod("first")
        until(lambda: {"g0", "g1"} <= set(bound(api)))
        assert server.said().count("events: why gangs wait is not written") == 1


# --- device claims


def allocated(api):
    """The devices of each claim."""
    outcome = {}
    for claim in api.all("resourceclaims"):
        given = (claim.get("status") or {}).get("allocation")
        if given is not None:
            results = given["devices"]["results"]
            outcome[claim["metadata"]["name"]] = [result["device"] for result in results]
    return outcome


@pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here")
@pytest.mark.parametrize("is_late", [False, True])
def test_device_claims_are_followed_written_and_recovered(tmp_path, is_late):
    refuse = allowed_by()
    with served(tmp_path, refuse=refuse, text="claims:\n") as (api, server, _scheduler):
        api.doubled, api.late = is_late, 0.02 * is_late
        api.add_class("gpu")
        for node in NODES[:2]:
            api.add_slice(node, ["d0", "d1"])
        templates = {"pair": {"gpu": 2}}

        def holds(what):
            def tried():
                api.control_claims(templates)
                return what()

            until(tried)

        for name in ("p", "q", "r"):
            claims = [{"name": "gpus", "resourceClaimTemplateName": "pair"}]
            api.add_pod(name, spec={"resourceClaims": claims})
        holds(lambda: len(bound(api)) == 2)
        assert list(allocated(api).values()) == [["d0", "d1"], ["d0", "d1"]]
        server.end()
        first, second = bound(api)
        api.delete_pod(first)
        api.control_claims()
        server.start().listening()
        holds(lambda: set(bound(api)) == {"p", "q", "r"} - {first})
        assert len(allocated(api)) == 2
        with api.away():
            pass
        api.set_phase(second, "Succeeded")
        api.compact()
        api.add_pod("s", spec={"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]})
        api.add_claim("c", {"gpu": 1})
        holds(lambda: "s" in bound(api))
        assert allocated(api)["c"] == ["d0"]
        jobs = {f"pods:x/{name}" for name in bound(api) if name != second}
        until(lambda: set(server.jobs()) == jobs)
        assert replay(server.log).claims is not None


@pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here")
def test_victims_with_claims_are_evicted_also_after_a_restart(tmp_path):
    refuse, options = allowed_by(), ("--evict-after", "0.5")
    with served(tmp_path, refuse=refuse, text="claims:\n", options=options) as (api, server, _):
        api.add_class("gpu")
        api.add_slice("n0", ["d0"])
        for name, priority in (("low", 0), ("high", 9000)):
            api.add_claim(name, {"gpu": 1})
            claims = [{"name": "gpus", "resourceClaimName": name}]
            api.add_pod(name, spec={"resourceClaims": claims}, priority=priority)
            until(lambda name=name: f"pods:x/{name}" in server.jobs())
            until(lambda: "low" in bound(api))
        assert server.jobs() == {"pods:x/low": "running", "pods:x/high": "reserved"}
        server.end()
        server.start().listening()
        until(lambda: api.evicted == ["low"])
        api.control_claims()
        until(lambda: "high" in bound(api))
        until(lambda: any(event["reason"] == "Evicted" for event in api.all("events")))
