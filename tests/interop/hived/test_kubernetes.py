"""`hivecore serve --kubeconfig` as its users run it, against an API server that fails."""

import json
import select
import signal
import sys
import time
from contextlib import contextmanager

import pytest
from interop.hived.clusters import DOMAIN, config, node
from interop.kubernetes.cluster_roles import DEPLOY, allowed_by
from interop.kubernetes.fake_api_server import FakeApiServer
from interop.kubernetes.fake_kube_scheduler import LEAF_CELL, FakeKubeScheduler, bound
from interop.servers import Command, until

SPEC, INFO = f"{DOMAIN}/pod-scheduling-spec", f"{DOMAIN}/pod-bind-info"
FILTER = "/v1/extender/filter"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="ends processes by signals"),
    pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here"),
]


def configuration(nodes, owned):
    """Nodes of 8 GPUs: n0, n1, ...; tenant -> how many of them it owns."""
    cells = [node(f"n{i}") for i in range(nodes)]
    return config({"NODE": (8, "GPU")}, cells, {vc: {"NODE": n} for vc, n in owned.items()})


class Extender(Command):
    """`hivecore serve` beside an API server that allows what the manifest allows."""

    def __init__(self, api, folder, *options, nodes=4, owned=None):
        self.config = folder / "hived.yaml"
        self.config.write_text(json.dumps(configuration(nodes, owned or {"A": 2, "B": 2})))
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        api.refuse = allowed_by()
        super().__init__(self.config, "--kubeconfig", kubeconfig, *options)
        self.url = "http://127.0.0.1:1"

    def filter(self, pod, nodes=("n0", "n1", "n2", "n3")):
        return self.post(FILTER, {"Pod": pod, "NodeNames": list(nodes)})[1]

    def bind(self, pod, node):
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
        return self.post("/v1/extender/bind", {**body, "Node": node})[1]["Error"]

    def groups(self):
        items = self.get("/v1/inspect/affinitygroups/").json()["items"]
        return {item["metadata"]["name"]: item["status"] for item in items}

    def __enter__(self):
        return self.start()


@contextmanager
def cluster(folder, *options, nodes=4, owned=None, page=500):
    """An API server with nodes, and an extender that is ready."""
    with FakeApiServer(page) as api:
        for i in range(nodes):
            api.add_node(f"n{i}")
        with Extender(api, folder, *options, nodes=nodes, owned=owned) as extender:
            yield api, extender.listening()


def add_pod(api, name, vc="A", number=8, group=None, size=1, hived=0, priority=None, **more):
    """A pod as a user would write it; its class has HiveD's priority unless it is given."""
    spec = {"virtualCluster": vc, "leafCellNumber": number, "priority": hived}
    if group:
        members = [{"podNumber": size, "leafCellNumber": number}]
        spec["affinityGroup"] = {"name": group, "members": members}
    resources = {"requests": {LEAF_CELL: str(number)}}
    containers = [{"name": "c", "resources": resources}]
    annotations = {SPEC: json.dumps(spec)}
    priority = hived if priority is None else priority
    spec = {"containers": containers}
    return api.add_pod(name, annotations, spec=spec, priority=priority, **more)


def gpus_of_bound_pods(api):
    return sorted(
        (pod["spec"]["nodeName"], gpu)
        for pod in api.all("pods")
        if "nodeName" in pod["spec"]
        for gpu in json.loads(pod["metadata"]["annotations"][INFO])["leafCellIsolation"]
    )


def assert_no_gpu_is_given_twice(api):
    gpus = gpus_of_bound_pods(api)
    assert len(set(gpus)) == len(gpus)


def assert_what_is_held_is_bound(api, extender):
    """The extender holds GPUs for the pods that exist, and for no others."""
    assert gpus_of_bound_pods(api) == sorted(
        (node, gpu)
        for status in extender.groups().values()
        for node, gpus in status["physicalPlacement"].items()
        for gpu in gpus
    )


# --- which pods exist


def test_pods_are_bound_and_recovered_by_the_next_process(tmp_path):
    with cluster(tmp_path, page=2) as (api, extender):
        for i in range(3):
            pod = add_pod(api, f"p{i}", number=4)
            node = extender.filter(pod)["NodeNames"][0]
            assert extender.bind(pod, node) == ""
            assert extender.bind(pod, node) == ""  # again: it is bound as it should be
        assert_no_gpu_is_given_twice(api)
        before = extender.groups()
        extender.end()
        extender.start().listening()
        assert extender.groups() == before
        assert extender.filter(add_pod(api, "q", number=8))["NodeNames"] is None
        assert_what_is_held_is_bound(api, extender)


def test_it_listens_when_everything_is_listed_and_not_before(tmp_path):
    with FakeApiServer() as api:
        api.add_node("n0")
        with Extender(api, tmp_path) as extender:
            api.refuse = lambda request: 500 if request.path == "/api/v1/pods" else 0
            until(lambda: len([1 for _, path in api.requests if path == "/api/v1/pods"]) > 2)
            assert not select.select([extender.process.stdout], [], [], 0)[0]
            api.refuse = None
            extender.listening()
            assert extender.get("/readyz").status_code == 200
            # Nodes that were not reported are bad.
            status = extender.get("/v1/inspect/clusterstatus/physicalcluster").json()
            assert [cell["cellHealthiness"] for cell in status] == ["Healthy", "Bad", "Bad", "Bad"]


def test_a_pod_that_is_gone_gets_nothing_and_a_new_one_is_looked_up(tmp_path):
    with cluster(tmp_path) as (api, extender):
        api.late = 0.2  # the watch tells of a pod when it has been asked for long ago
        new = add_pod(api, "new")
        assert extender.filter(new)["NodeNames"] == ["n0"]
        gone = add_pod(api, "gone")
        api.delete_pod("gone")
        answer = extender.filter(gone)
        assert answer["NodeNames"] is None
        assert answer["Error"].startswith("pod 'x/gone' (uid-")
        time.sleep(0.5)
        assert list(extender.groups()) == ["x/new"]
        assert "gone" not in bound(api)


def test_three_hundred_pods_that_are_deleted_at_once_leave_nothing_behind(tmp_path):
    with cluster(tmp_path) as (api, extender), FakeKubeScheduler(api, lambda: extender.url):
        for i in range(300):
            add_pod(api, f"p{i}", "AB"[i % 2], 1)
            if i >= 20:
                api.delete_pod(f"p{i - 20}")
        for i in range(280, 300):
            api.delete_pod(f"p{i}")
        until(lambda: not extender.groups())
        time.sleep(0.1)
        assert not extender.groups()


def test_a_pod_that_the_binder_does_not_find_is_forgotten(tmp_path):
    with cluster(tmp_path) as (api, extender):
        pod = add_pod(api, "p")
        assert extender.filter(pod)["NodeNames"] == ["n0"]
        api.late = 1.0
        api.delete_pod("p")
        assert "binding failed" in extender.bind(pod, "n0")
        assert extender.groups() == {}
        # The next one of this name is another one.
        again = add_pod(api, "p")
        assert "binding failed" in extender.bind(pod, "n0") or extender.bind(pod, "n0")
        assert extender.filter(again)["NodeNames"] == ["n0"]
        assert "binding failed" not in extender.bind(again, "n0")


# --- failures


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_in_a_burst_of_pods_loses_none_and_gives_nothing_twice(tmp_path, number):
    nodes, owned, count = 40, {"A": 20, "B": 20}, 128 if number == signal.SIGKILL else 60
    with (
        cluster(tmp_path, nodes=nodes, owned=owned) as (api, extender),
        FakeKubeScheduler(api, lambda: extender.url),
    ):
        api.binding_seconds = 0.005
        for i in range(count):
            add_pod(api, f"p{i}", "AB"[i % 2], 1)
        for part in (0.2, 0.5):
            until(lambda part=part: len(bound(api)) >= part * count)
            extender.end(number)
            extender.start().listening()
        until(lambda: len(bound(api)) == count, 60)
        assert_no_gpu_is_given_twice(api)
        until(lambda: len(extender.groups()) == count)
        assert_what_is_held_is_bound(api, extender)


def test_an_api_server_that_is_away_is_waited_for(tmp_path):
    with cluster(tmp_path) as (api, extender), FakeKubeScheduler(api, lambda: extender.url):
        add_pod(api, "p")
        until(lambda: bound(api) == {"p": "n0"})
        with api.away():
            api.delete_pod("p")
            api.add_node("n4")
            api.compact()
            time.sleep(1)
            add_pod(api, "q")
            time.sleep(0.5)
            assert extender.get("/livez").status_code == 200
        until(lambda: "q" in bound(api))
        until(lambda: list(extender.groups()) == ["x/q"])
        assert 'path="/api/v1/pods"} 2.0' in extender.get("/metrics").text  # listed again


def test_events_that_come_late_doubled_and_out_of_order_change_nothing(tmp_path):
    with cluster(tmp_path) as (api, extender), FakeKubeScheduler(api, lambda: extender.url):
        api.doubled, api.late = True, 0.01
        for i in range(40):
            add_pod(api, f"p{i}", "AB"[i % 2], 4)
            if i % 10 == 5:
                api.drop_watches()
            if i % 10 == 7:
                api.compact()
            if i >= 4:
                until(lambda i=i: f"p{i - 4}" in bound(api))
                api.set_phase(f"p{i - 4}", "Succeeded") if i % 2 else api.delete_pod(f"p{i - 4}")
        live = {f"x/p{i}" for i in range(36, 40)}
        until(lambda: set(extender.groups()) == live and len(bound(api)) >= 4)
        time.sleep(0.2)
        assert set(extender.groups()) == live


def test_nodes_that_come_and_go_are_seen_and_waiting_pods_are_tried_again(tmp_path):
    with cluster(tmp_path) as (api, extender), FakeKubeScheduler(api, lambda: extender.url):
        api.late = 0.05  # kube-scheduler asks before the extender has heard of it
        for i in range(4):
            api.set_ready(f"n{i}", False)
        time.sleep(0.2)
        add_pod(api, "p")
        add_pod(api, "q", "B")
        time.sleep(0.2)
        assert bound(api) == {}
        api.set_ready("n2", True)
        until(lambda: len(bound(api)) == 1, 3)
        api.delete("nodes", "n2")
        api.set_ready("n1", True)
        until(lambda: set(bound(api).values()) == {"n1", "n2"}, 3)
        assert api.touches


# --- preemption


def test_a_gang_preempts_over_four_nodes_in_the_time_of_one(tmp_path):
    """Four nodes whose victims need a second to stop; one after the other they would need four."""
    with (
        cluster(tmp_path, owned={"A": 4}) as (api, extender),
        FakeKubeScheduler(api, lambda: extender.url, grace=1.0) as scheduler,
    ):
        for i in range(4):
            add_pod(api, f"low{i}", hived=-1)
        until(lambda: len(bound(api)) == 4)
        started = time.monotonic()
        for i in range(4):
            add_pod(api, f"g{i}", group="g", size=4, hived=5)
        until(lambda: {f"g{i}" for i in range(4)} <= set(bound(api)))
        assert time.monotonic() - started < 3
        assert len(scheduler.preempted) == 4
        assert set(bound(api).values()) == {"n0", "n1", "n2", "n3"}
        assert not any("forced" in str(line) for line in extender.logged())
        assert_no_gpu_is_given_twice(api)


def test_victims_of_no_lower_class_are_evicted_with_their_groups(tmp_path):
    options = "--evict-after", "0.5"
    with (
        cluster(tmp_path, *options) as (api, extender),
        FakeKubeScheduler(api, lambda: extender.url) as scheduler,
    ):
        for i in range(4):
            add_pod(api, f"low{i}", group=f"low{i // 2}", size=2, hived=-1, priority=9)
        until(lambda: len(bound(api)) == 4)
        api.protected = {"low0", "low2"}
        add_pod(api, "g", hived=5, priority=9)
        until(lambda: len(api.evicted) == 1)
        assert len(bound(api)) == 3
        api.protected = set()
        until(lambda: "g" in bound(api))
        assert sorted(api.evicted) in (["low0", "low1"], ["low2", "low3"])
        assert scheduler.preempted == []
        events = [event for event in api.all("events") if event["reason"] == "Evicted"]
        assert {event["message"] for event in events} == {"it has to stop for the group 'x/g'"}
        assert_no_gpu_is_given_twice(api)


def test_only_the_leader_evicts_and_the_next_one_goes_on(tmp_path):
    (tmp_path / "second").mkdir()
    lease = "--lease", "hivecore/hivecore"
    with cluster(tmp_path, *lease, "--evict-after", "never", nodes=1, owned={"A": 1}) as (
        api,
        first,
    ):
        with Extender(
            api, tmp_path / "second", *lease, "--evict-after", "0.2", nodes=1, owned={"A": 1}
        ) as second:
            second.listening()
            pod = add_pod(api, "low", hived=-1)
            assert first.bind(pod, first.filter(pod, ["n0"])["NodeNames"][0]) == ""
            pod = add_pod(api, "high")
            assert first.filter(pod, ["n0"])["NodeNames"] is None
            time.sleep(2.0)
            assert api.evicted == []
            first.end(signal.SIGTERM)
            until(lambda: second.get("/readyz").status_code == 200)
            assert second.filter(pod, ["n0"])["NodeNames"] is None
            until(lambda: api.evicted == ["low"])
        first.start()


def test_nodes_advertise_their_leaf_cells(tmp_path):
    with cluster(tmp_path) as (api, extender):
        api.add_node("other")

        def advertised():
            return {
                node["metadata"]["name"]: node["status"]["allocatable"].get(LEAF_CELL)
                for node in api.all("nodes")
            }

        full = {f"n{i}": "8" for i in range(4)} | {"other": None}
        until(lambda: advertised() == full)
        # It follows the configuration.
        extender.config.write_text(json.dumps(configuration(3, {"A": 2, "B": 1})))
        until(lambda: advertised() == full | {"n3": None})
        assert any("another configuration" in line["message"] for line in extender.logged())
        extender.config.write_text("physicalCluster: 3")
        until(lambda: any("mistakes" in line["message"] for line in extender.logged()))
        assert extender.filter(add_pod(api, "p"))["NodeNames"] == ["n0"]


# --- what users see


def test_decisions_and_errors_are_logged_and_counted(tmp_path):
    with cluster(tmp_path) as (api, extender):
        pod = add_pod(api, "logged", number=1)
        extender.bind(pod, extender.filter(pod)["NodeNames"][0])
        wrong = api.add_pod("wrong", {SPEC: "{"})
        assert "annotation" in extender.filter(wrong)["Error"]
        decisions = [line for line in extender.logged() if line.get("verb")]
        assert [(line["verb"], line["outcome"], line["level"]) for line in decisions] == [
            ("filter", "bind", "info"),
            ("bind", "bound", "info"),
            ("filter", "error", "warning"),
        ]
        assert [line.get("pod") for line in decisions] == ["x/logged", "x/logged", None]
        text = extender.get("/metrics").text
    for line in (
        'hivecore_decisions_total{outcome="bound",verb="bind"} ',
        'hivecore_leaf_cells{guaranteed="true",virtual_cluster="A"} ',
        "hivecore_waiting_pods 0.0",
        'hivecore_request_seconds_count{path="/v1/extender/filter"} ',
        'hivecore_watch_silence_seconds{path="/api/v1/pods"} ',
        'hivecore_lists{path="/api/v1/nodes"} ',
    ):
        assert line in text


def test_pods_of_others_are_avoided(tmp_path):
    with cluster(tmp_path) as (api, extender):
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        stranger = {"nodeName": "n0", "containers": [{"name": "c", "resources": resources}]}
        api.add_pod("stranger", spec=stranger)
        add_pod(api, "seen")  # events come in order: the stranger has been seen before it
        until(lambda: extender.get("/metrics").status_code == 200)
        time.sleep(0.2)
        pod = add_pod(api, "p", number=8)
        assert extender.filter(pod)["NodeNames"] == ["n1"]
        extender.bind(pod, "n1")
        api.delete_pod("stranger")
        time.sleep(0.2)
        assert extender.filter(add_pod(api, "q"))["NodeNames"] == ["n0"]


def test_two_replicas_share_a_lease(tmp_path):
    (tmp_path / "second").mkdir()
    with cluster(tmp_path, "--lease", "hivecore/hivecore") as (api, first):
        until(lambda: first.get("/readyz").status_code == 200)
        with Extender(api, tmp_path / "second", "--lease", "hivecore/hivecore") as second:
            second.listening()
            time.sleep(0.3)
            assert second.get("/readyz").status_code == 503
            assert second.get("/livez").status_code == 200
            pod = add_pod(api, "p")
            status, answer = second.post(FILTER, {"Pod": pod, "NodeNames": ["n0"]})
            assert (status, answer["Error"]) == (503, "not ready: another replica leads")
            first.bind(pod, first.filter(pod)["NodeNames"][0])
            first.end(signal.SIGTERM)  # it gives the lease up
            until(lambda: second.get("/readyz").status_code == 200)
            assert list(second.groups()) == ["x/p"]
            # Another process takes the lease: the leader must not decide any more.
            lease = api.objects["leases"]["hivecore", "hivecore"]
            other = {**lease["spec"], "holderIdentity": "other"}
            api._put("leases", {**lease, "spec": other})
            assert second.process.wait(20) != 0
            assert (
                second.said()
                .splitlines()[-1]
                .endswith("error: the lease is lost: another replica leads")
            )
        first.start().listening()


def test_pods_that_were_asked_about_while_no_process_answered_are_touched(tmp_path):
    with FakeApiServer() as api:
        for i in range(4):
            api.add_node(f"n{i}")
        old = add_pod(api, "old")
        api.add_pod("other")
        with Extender(api, tmp_path) as extender:
            extender.listening()
            until(lambda: api.touches)
            new = add_pod(api, "new")  # kube-scheduler does not know the new address yet
            until(lambda: len(api.touches) >= 3)
            assert set(api.touches) == {"old", "new"}
            for pod in (old, new):
                assert extender.filter(pod)["NodeNames"]
            before = len(api.touches)
            time.sleep(2.5)
            assert len(api.touches) == before
