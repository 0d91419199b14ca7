"""Device claims in the service of pods: what is written, what is booked, and what comes between."""

import copy
import json
import random
import threading
import time
from datetime import datetime

import pytest
from interop.extender.claims_and_controllers import dra
from interop.kubernetes.fake_api_server import PROTECTION
from profiles import seeds

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.extender.service import PodService
from hivecore.scheduler import Scheduler
from hivecore.topology import NetworkTopology

CLAIM = "/apis/resource.k8s.io/v1/namespaces/x/resourceclaims/c"
BINDING = "/api/v1/namespaces/x/pods/p/binding"
OWN = "/pods:x/p/pod/0/gpus"


def allocation(node, *devices):
    """What another scheduler writes."""
    results = [
        {"request": "gpu", "driver": "gpu.x", "pool": node, "device": device} for device in devices
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def allocate(cluster, name, given, pods=()):
    """Another scheduler writes this allocation, and for which pods it is."""
    claim = copy.deepcopy(cluster.api.claim(name))
    claim["metadata"]["finalizers"] = [PROTECTION]
    uids = [(pod, cluster.api.pod(pod)["metadata"]["uid"]) for pod in pods]
    reserved = [{"resource": "pods", "name": pod, "uid": uid} for pod, uid in uids]
    claim["status"] = {"allocation": given, "reservedFor": reserved}
    cluster.api._put("resourceclaims", claim)


def add_allocated(cluster, node, *devices):
    """A claim that another scheduler has allocated."""
    cluster.api.add_claim("c", {"gpu": len(devices)})
    allocate(cluster, "c", allocation(node, *devices))


def failing(cluster, at, status=500, times=1, before=None):
    """Let requests fail: those of this method and the end of their path, so many times."""
    left = [times]

    def refuse(request):
        if (request.method, request.path) == at and left[0]:
            left[0] -= 1
            if before is not None:
                before()
            return status
        return 0

    cluster.api.refuse = refuse


def network():
    network = NetworkTopology(["rack"], {n: {"rack": "r"} for n in ("n0", "n1")})
    for node in ("n0", "n1"):
        network.set_free(node, {"gpu": 2})
    return network


# --- one pod


def test_a_pod_is_bound_when_its_claim_says_so(cluster):
    cluster.add_claimed("p", devices=2)
    cluster.settle(1)
    assert cluster.node_of("p") == "n0"
    claim, uid = cluster.api.claim("c"), cluster.api.pod("p")["metadata"]["uid"]
    assert claim["metadata"]["finalizers"] == [PROTECTION]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    assert cluster.devices("c") == ["n0/d0", "n0/d1"]
    writes = [request for request in cluster.api.requests if request[0] in ("PUT", "POST")]
    assert writes == [("PUT", CLAIM), ("PUT", f"{CLAIM}/status"), ("POST", BINDING)]
    assert cluster.booked() == {"n0/d0": [OWN], "n0/d1": [OWN]}


def test_a_pod_waits_for_the_claim_of_its_template_and_is_touched_then(cluster):
    cluster.add_pod("p", gpus="new-gpu")
    cluster.refuses("p")
    assert cluster.reasons["p"] == "the claim 'gpus' has not been made from its template yet"
    cluster.settle(1, only_touched=True)
    assert cluster.node_of("p") == "n0"
    (built,) = cluster.api.pod("p")["status"]["resourceClaimStatuses"]
    assert cluster.devices(built["resourceClaimName"]) == ["n0/d0"]


def test_a_template_without_a_claim_asks_for_nothing(cluster):
    cluster.add_pod("p", gpus="new-gpu")
    pod = copy.deepcopy(cluster.api.pod("p"))
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpus"}]
    cluster.api._put("pods", pod)
    cluster.hear()
    assert cluster.try_pod("p")
    assert cluster.booked() == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda claim: None, "the claim 'x/c' does not exist, or is not known yet"),
        (
            lambda claim: claim["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
            "the claim 'x/c' is being deleted",
        ),
        (
            lambda claim: claim["spec"]["devices"]["requests"][0].pop("exactly"),
            "exactly: one of exactly, firstAvailable must be set",
        ),
        (
            lambda claim: claim["spec"]["devices"]["requests"][0]["exactly"].update(
                deviceClassName="tpu"
            ),
            "no device class 'tpu'",
        ),
        (
            lambda claim: claim["spec"]["devices"]["requests"][0]["exactly"].update(
                selectors=[{"cel": {"expression": "device.model == 'a'"}}]
            ),
            "undefined field 'model' of the device",
        ),
    ],
)
def test_a_pod_says_what_is_wrong_with_its_claim(cluster, change, says):
    claim = copy.deepcopy(cluster.api.add_claim("c", {"gpu": 1}))
    if change(claim) is None and "exist" in says:
        cluster.api.delete("resourceclaims", "c", "x")
    else:
        cluster.api._put("resourceclaims", claim)
    cluster.add_pod("p", gpus="c")
    cluster.settle(2)
    assert cluster.node_of("p") is None
    assert says in cluster.reasons["p"]


def test_the_claim_that_was_made_for_another_pod_is_not_used(cluster):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "other", "controller": True}
    cluster.api.add_claim("c", {"gpu": 1}, ownerReferences=[owner])
    cluster.add_pod("p", gpus="new-gpu")
    pod = copy.deepcopy(cluster.api.pod("p"))
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": "c"}]
    cluster.api._put("pods", pod)
    cluster.refuses("p")
    assert cluster.reasons["p"] == "the claim 'x/c' was made for another pod"


def test_pods_that_come_later_wait_for_slices_and_classes(clusters):
    cluster = clusters(devices=1)
    cluster.add_pod("p", gpus="new-pair")
    cluster.settle(2)
    assert "no node can serve gpus" in cluster.reasons["p"]
    cluster.api.add_slice("n1", ["d0", "d1"])
    cluster.settle(2)
    assert cluster.node_of("p") == "n1"


def test_a_rule_taints_devices(cluster):
    rule = {"taint": {"key": "k", "effect": "NoSchedule"}, "deviceSelector": {"pool": "n0"}}
    cluster.api._put("devicetaintrules", {"metadata": {"name": "r"}, "spec": rule})
    for name in ("p", "q"):
        cluster.add_pod(name, gpus="new-pair")
    cluster.settle(2)
    assert cluster.node_of("p") == "n1"
    assert cluster.node_of("q") is None
    cluster.api.delete("devicetaintrules", "r")
    cluster.settle(2)
    assert cluster.node_of("q") == "n0"


def test_objects_that_a_list_leaves_out_are_gone(cluster):
    cluster.api.delete("resourceslices", "n0-gpu.x")
    cluster.api.delete("nodes", "n0")
    cluster.restart()
    assert cluster.scheduler.claims.nodes == ("n1",)


def test_a_pod_waits_while_the_node_of_its_claim_is_not_offered(cluster):
    add_allocated(cluster, "n1", "d0")
    cluster.add_pod("p", gpus="c")
    cluster.hear()
    answer = cluster.filter(cluster.api.pod("p"), ["n0"])
    assert answer["FailedNodes"] == {"n0": "the devices of its claims cannot be used there"}
    cluster.settle(1)
    assert cluster.node_of("p") == "n1"


# --- several pods with one claim


def test_pods_that_share_a_claim_start_one_after_the_other_on_its_node(cluster):
    cluster.add_claimed("p", "q")
    cluster.refuses("q")
    assert cluster.reasons["q"] == "the claim 'x/c' gets its devices with the pod 'x/p' first"
    cluster.settle(2)
    assert cluster.node_of("p") == cluster.node_of("q") == "n0"
    assert len(cluster.api.claim("c")["status"]["reservedFor"]) == 2
    assert cluster.booked() == {"n0/d0": [OWN]}
    cluster.api.delete_pod("p")
    cluster.settle(1)
    assert cluster.booked() == {"n0/d0": [cluster.api.claim("c")["metadata"]["uid"] + "#0"]}
    cluster.api.delete_pod("q")
    cluster.settle(1)
    assert cluster.booked() == {}


def test_another_pod_allocates_if_the_first_one_is_gone(cluster):
    cluster.add_claimed("p", "q")
    cluster.hear()
    cluster.api.delete_pod("p")
    cluster.settle(2)
    assert cluster.node_of("q") == "n0"


def test_a_claim_has_at_most_256_pods(cluster):
    add_allocated(cluster, "n1", "d0")
    claim = cluster.api.claim("c")
    consumers = [{"resource": "pods", "name": f"o{i}", "uid": f"o{i}"} for i in range(256)]
    claim["status"]["reservedFor"] = consumers
    cluster.api._put("resourceclaims", claim)
    cluster.add_pod("p", gpus="c")
    cluster.refuses("p")
    assert cluster.reasons["p"] == "the claim 'x/c' has 256 pods already"


@pytest.mark.parametrize("part", ["devices", "topology"])
def test_other_parts_choose_nodes_where_claims_can_be_used(clusters, part):
    parts = {
        "devices": lambda: DeviceCluster({n: NodeDevices.uniform(gpus=2) for n in ("n0", "n1")}),
        "topology": network,
    }
    cluster = clusters(scheduler=Scheduler(claims=dra(), **{part: parts[part]()}))
    add_allocated(cluster, "n1", "d1")
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    cluster.add_pod("given", containers=[container], gpus="c")
    cluster.add_pod("both", containers=[container], gpus="c", more="new-gpu")
    cluster.add_pod("new", containers=[container], gpus="new-pair")
    cluster.settle(2)
    assert [cluster.node_of(name) for name in ("given", "both", "new")] == ["n1", "n1", "n0"]


# --- gangs


def test_a_pod_in_the_place_of_another_waits_until_its_devices_are_off_the_claim(cluster):
    cluster.add_gang("g", 2, gpus="new-gpu")
    cluster.settle(2)
    cluster.api.delete_pod("g-1")
    labels = cluster.api.pod("g-0")["metadata"]["labels"]
    cluster.add_pod("g-2", labels, gpus="new-gpu")
    cluster.api._expand(copy.deepcopy(cluster.api.pod("g-2")), cluster.templates)
    cluster.refuses("g-2")
    assert "still belongs to the claim 'x/g-1-gpus" in cluster.reasons["g-2"]
    cluster.settle(2)
    assert cluster.node_of("g-2") == "n0"


def test_a_pod_of_a_running_gang_uses_the_claim_that_was_made_again(cluster):
    cluster.add_gang("g", 2, gpus="new-gpu")
    cluster.api.control_claims(cluster.templates)
    cluster.hear()
    cluster.filter(cluster.api.pod("g-1"))
    assert cluster.try_pod("g-0")
    pod = copy.deepcopy(cluster.api.pod("g-1"))
    (status,) = pod["status"]["resourceClaimStatuses"]
    cluster.api.delete("resourceclaims", status["resourceClaimName"], "x")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "g-1", "uid": pod["metadata"]["uid"]}
    cluster.api.add_claim("again", {"gpu": 1}, ownerReferences=[{**owner, "controller": True}])
    status["resourceClaimName"] = "again"
    cluster.api._put("pods", pod)
    cluster.hear()
    cluster.add_pod("q", gpus="again")
    cluster.hear()
    assert not cluster.try_pod("q")  # the job of g-1 allocates it
    assert cluster.try_pod("g-1")
    cluster.settle(2)
    assert cluster.node_of("q") == cluster.node_of("g-1")
    assert len(cluster.devices("again")) == 1


def test_a_claim_of_no_devices_is_reserved(cluster):
    cluster.api.add_claim("c", {})
    cluster.add_pod("p", gpus="c")
    cluster.settle(2)
    assert cluster.node_of("p") is not None


def test_what_kube_scheduler_has_not_heard_of_a_pod_takes_no_claim_away(cluster):
    cluster.add_gang("g", 2, gpus="new-gpu")
    older = copy.deepcopy(cluster.api.pod("g-1"))  # before its claim was made
    cluster.api.control_claims(cluster.templates)
    cluster.hear()
    cluster.filter(cluster.api.pod("g-0"))
    (node,) = cluster.filter(older)["NodeNames"]
    answer = cluster._answer("/v1/extender/bind", cluster.bind_body(older, node))
    assert answer[1]["Error"] == ""
    assert cluster.try_pod("g-0")


def test_pods_of_a_gang_that_share_a_claim_without_devices_say_so(cluster):
    cluster.api.add_claim("c", {"gpu": 1})
    cluster.add_gang("g", 2, gpus="c")
    cluster.settle(2)
    assert cluster.node_of("g-0") is None
    assert "pods of one gang, as 'x/g-1' is, cannot share it" in cluster.reasons["g-0"]
    allocate(cluster, "c", allocation("n1", "d1"))
    cluster.settle(2)
    assert cluster.node_of("g-0") == cluster.node_of("g-1") == "n1"


# --- writes that fail


@pytest.mark.parametrize(
    "at", [("GET", CLAIM), ("PUT", CLAIM), ("PUT", f"{CLAIM}/status"), ("POST", BINDING)]
)
@pytest.mark.parametrize("with_log", [None, True, False])
def test_after_a_write_that_failed_the_same_devices_are_written(cluster, at, with_log):
    cluster.add_claimed("p", devices=2)
    failing(cluster, at)
    cluster.refuses("p")
    assert cluster.reasons["p"].startswith("binding failed: made up")
    cluster.check()
    if with_log is not None:
        cluster.restart(with_log)
    cluster.settle(3)
    assert cluster.node_of("p") == "n0"
    assert cluster.devices("c") == ["n0/d0", "n0/d1"]


def test_a_conflict_is_tried_again_once(cluster):
    cluster.add_claimed("p")
    failing(cluster, ("PUT", f"{CLAIM}/status"), 409)
    cluster.hear()
    assert cluster.try_pod("p")
    cluster.api.add_claim("d", {"gpu": 1})
    cluster.add_pod("q", gpus="d")
    failing(cluster, ("PUT", f"{CLAIM[:-1]}d/status"), 409, times=2)
    cluster.refuses("q")
    assert cluster.try_pod("q")


def test_a_claim_that_another_writer_has_allocated_stays_as_it_is(cluster):
    cluster.add_claimed("p")
    given = allocation("n1", "d1")
    failing(cluster, ("PUT", CLAIM), 409, before=lambda: allocate(cluster, "c", given))
    cluster.refuses("p")
    assert cluster.reasons["p"] == "binding failed: the claim 'x/c' has got other devices"
    cluster.check()
    assert cluster.booked() == {"n1/d1": [cluster.api.claim("c")["metadata"]["uid"] + "#0"]}
    cluster.settle(2)
    assert cluster.node_of("p") == "n1"


def test_devices_that_another_claim_has_got_are_given_up(cluster):
    cluster.api.add_claim("other", {"gpu": 1})
    cluster.add_claimed("p")
    cluster.hear()
    assert cluster.booked() == {"n0/d0": [OWN]}
    allocate(cluster, "other", allocation("n0", "d0"))
    cluster.refuses("p")
    assert "gpu.x/n0/d0 still belongs to the claim 'x/other'" in cluster.reasons["p"]
    cluster.check()
    cluster.settle(2)
    assert cluster.devices("c") == ["n0/d1"]


def test_devices_that_a_claim_has_before_its_pod_is_known_are_taken_off_it(cluster):
    """The watches of claims and of pods do not wait for each other."""
    cluster.add_claimed("p")
    allocate(cluster, "c", allocation("n1", "d1"), ["p"])
    for kind, item in ("ResourceClaim", cluster.api.claim("c")), ("Pod", cluster.api.pod("p")):
        event = {"type": "ADDED", "object": {**item, "kind": kind}}
        cluster.run(cluster.service.apply(event))
    cluster.seen = cluster.api.version
    cluster.settle(3)
    assert cluster.node_of("p") is not None


def test_devices_of_a_pod_that_must_go_elsewhere_are_taken_off_its_claim(cluster):
    cluster.add_claimed("p")
    failing(cluster, ("POST", BINDING))
    cluster.refuses("p")
    assert cluster.devices("c") == ["n0/d0"]
    cluster.api.delete("nodes", "n0")
    cluster.restart(with_log=False)
    assert cluster.booked() == {"n0/d0": [cluster.api.claim("c")["metadata"]["uid"] + "#0"]}
    cluster.settle(3)
    assert cluster.node_of("p") == "n1"


def test_admin_access_to_devices_on_another_node_is_taken_off_the_claim(clusters):
    """Only such devices: nothing is booked for the claim."""
    cluster = clusters(devices=1)
    claim = copy.deepcopy(cluster.api.add_claim("c", {"gpu": 1}))
    claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    cluster.api._put("resourceclaims", claim)
    cluster.add_pod("p", a="c", b="new-gpu")
    cluster.api.control_claims(cluster.templates)
    failing(cluster, ("POST", BINDING))
    cluster.refuses("p")
    assert cluster.devices("c") == ["n0/d0"]
    cluster.api.delete("nodes", "n0")
    cluster.api.delete("resourceslices", "n0-gpu.x")
    cluster.restart(with_log=False)
    cluster.settle(4)
    assert cluster.node_of("p") == "n1"
    assert cluster.devices("c") == ["n1/d0"]
    cluster.api.delete_pod("p")
    cluster.settle(1)


def test_a_claim_whose_devices_are_used_is_not_cleared(cluster):
    cluster.add_claimed("p")
    cluster.settle(1)
    jobs = cluster.service.extender.jobs
    jobs.claims.stale["x/c"] = None
    assert not jobs.is_stale("x/c")
    cluster.run(cluster.link.clear_claims())
    assert cluster.devices("c") == ["n0/d0"]


# --- writes that have not ended


@pytest.fixture
def full(clusters):
    """One device; the pod p is about to get it, and its status write is not answered yet."""
    cluster = clusters(nodes=("n0",), devices=1)
    gate = threading.Event()
    cluster.api.gate = "PUT", f"{CLAIM}/status", gate
    cluster.add_claimed("p")
    cluster.api.add_claim("d", {"gpu": 1})
    cluster.hear()
    yield cluster, cluster.begin("p"), gate
    gate.set()


def get_no_answer(full):
    """The write of p's claim times out, and arrives later."""
    cluster, end, gate = full
    failing(cluster, ("PUT", f"{CLAIM}/status"), 504)
    cluster.api.later = True
    gate.set()
    end()
    return cluster


def test_the_device_of_a_deleted_pod_stays_booked_until_its_claim_is_written(full):
    cluster, end, gate = full
    cluster.api.delete_pod("p")
    cluster.add_pod("q", gpus="d")
    cluster.hear()
    assert cluster.booked() == {"n0/d0": [cluster.api.claim("c")["metadata"]["uid"] + "#0"]}
    assert not cluster.try_pod("q")
    gate.set()
    end()
    cluster.check()
    assert cluster.devices("c") == ["n0/d0"]
    assert not cluster.try_pod("q")
    cluster.settle(2)
    assert cluster.node_of("q") == "n0"
    assert cluster.devices("d") == ["n0/d0"]


def test_the_device_of_a_write_that_is_refused_is_free_at_once(full):
    cluster, end, gate = full
    failing(cluster, ("PUT", f"{CLAIM}/status"), 422)
    cluster.api.delete_pod("p")
    cluster.add_pod("q", gpus="d")
    cluster.hear()
    gate.set()
    end()
    cluster.hear()
    assert cluster.try_pod("q")
    assert cluster.devices("c") == []


@pytest.mark.parametrize("is_late", [False, True])
def test_the_device_of_a_write_that_is_not_answered_is_free_when_it_cannot_arrive(
    full, is_late, monkeypatch
):
    cluster, end, gate = full
    failing(cluster, ("PUT", f"{CLAIM}/status"), 504)
    cluster.api.later = True
    cluster.api.delete_pod("p")
    cluster.add_pod("q", gpus="d")
    cluster.hear()
    gate.set()
    end()
    assert not cluster.try_pod("q")
    if is_late:
        cluster.api.deliver()
        assert cluster.devices("c") == ["n0/d0"]
    cluster.run(cluster.link.end_doubts())
    assert cluster.try_pod("q") != is_late
    cluster.api.deliver()
    cluster.check()
    cluster.settle(2)
    assert cluster.node_of("q") == "n0"


def test_no_pod_is_bound_with_a_device_that_a_write_on_its_way_names(full):
    cluster, end, gate = full
    cancel = {"event": "cancel", "job": "pods:x/p"}  # of a client that knows nothing of writes
    status, _ = cluster.run(cluster.service.answer("/v1/events", json.dumps(cancel).encode(), {}))
    assert status == 200
    cluster.add_pod("q", gpus="d")
    cluster.refuses("q")
    gate.set()
    end()
    cluster.check()


@pytest.mark.parametrize("status", [0, 422, 504])
def test_the_result_of_a_binding_is_noted_though_its_request_was_cancelled(full, status):
    cluster, _, gate = full
    if status:
        failing(cluster, ("PUT", f"{CLAIM}/status"), status)
    cluster.cancel()
    gate.set()
    uid = cluster.api.claim("c")["metadata"]["uid"]
    cluster.run(cluster.until(lambda: not cluster.service._bindings))
    cluster.hear()
    assert (cluster.node_of("p") == "n0") == (status == 0)
    assert cluster.jobs.claims.in_doubt == (["x/c"] if status == 504 else [])
    assert (uid in cluster.jobs.claims._sent.claims()) == (status == 504)
    cluster.settle(2)
    assert cluster.node_of("p") == "n0"


def test_devices_of_a_write_that_another_process_has_sent_are_not_given_away(full):
    """The process dies while its write is under way, and its pod is deleted."""
    cluster = get_no_answer(full)
    cluster.api.delete_pod("p")
    cluster.restart(with_log=False)
    cluster.add_pod("q", gpus="d")
    cluster.refuses("q")
    assert "may still get devices" in cluster.reasons["q"]
    cluster.run(cluster.link.end_doubts())
    assert cluster.try_pod("q")
    cluster.api.deliver()
    cluster.check()
    assert (cluster.devices("c"), cluster.devices("d")) == ([], ["n0/d0"])


def test_a_claim_with_another_write_in_doubt_is_written_once(full):
    """The pod is tried again before the write of its first try has arrived."""
    cluster = get_no_answer(full)
    cluster.hear()
    assert cluster.try_pod("p")
    cluster.api.deliver()
    cluster.run(cluster.link.end_doubts())
    assert cluster.devices("c") == ["n0/d0"]
    assert cluster.jobs.claims.in_doubt == []


# --- shares


def test_shares_of_a_device_have_ids_of_their_claims(clusters):
    cluster = clusters(devices=0)
    capacity = {"memory": {"value": "80Gi", "requestPolicy": {"default": "40Gi"}}}
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": capacity}
    cluster.api.add_slice("n0", [device])
    for name in ("p", "q", "r"):
        cluster.add_pod(name, gpus="new-gpu")
    cluster.settle(2)
    assert [cluster.node_of(name) for name in ("p", "q", "r")] == ["n0", "n0", None]
    shares = {
        entry["status"]["allocation"]["devices"]["results"][0]["shareID"]
        for entry in cluster.api.all("resourceclaims")
        if entry.get("status")
    }
    assert len(shares) == 2
    cluster.restart()
    for name in ("p", "q", "r"):
        cluster.api.delete_pod(name)
    cluster.settle(2)
    assert cluster.booked() == {}


# --- partitions


def partition(name, amount):
    counters = {"slices": {"value": str(amount)}}
    return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": counters}]}


def add_counters(cluster, pool, **values):
    counts = [
        {"name": name, "counters": {"slices": {"value": value}}} for name, value in values.items()
    ]
    spec = {"driver": "gpu.x", "pool": pool, "nodeName": "n0", "sharedCounters": counts}
    cluster.api._put("resourceslices", {"metadata": {"name": "n0-counters"}, "spec": spec})


def test_a_counter_that_is_used_up_keeps_only_its_own_devices(clusters):
    """The driver has less of it than before; the devices in use stay."""
    cluster = clusters(nodes=("n0",), devices=0)
    halves = [partition("a", 2), partition("b", 2)]
    halves[1]["consumesCounters"][0]["counterSet"] = "other"
    for generation, total in ((1, "2"), (2, "1")):
        pool = {"name": "n0", "generation": generation, "resourceSliceCount": 2}
        cluster.api.add_slice("n0", halves, pool=pool)
        add_counters(cluster, pool, gpu=total, other="2")
        cluster.hear()
        if generation == 1:
            cluster.add_claimed("first")
            cluster.settle(2)
    assert cluster.devices("c") == ["n0/a"]
    cluster.add_pod("p", gpus="new-gpu")
    cluster.settle(2)
    assert cluster.node_of("p") == "n0"


def test_partitions_that_overlap_are_not_given_to_two_claims(clusters):
    """The victim shares its claim with a pod that stays; so it frees nothing."""
    cluster = clusters(nodes=("n0",), devices=0)
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 2}
    halves = [partition("half0", 1), partition("half1", 1)]
    cluster.api.add_slice("n0", [partition("whole", 2), *halves], pool=pool)
    add_counters(cluster, pool, gpu="2")
    cluster.add_claimed("first")
    cluster.settle(2)
    assert cluster.devices("c") == ["n0/whole"]
    cluster.add_pod("pair", priority=9000, gpus="new-pair")
    cluster.api.control_claims(cluster.templates)
    cluster.refuses("pair")
    cluster.add_pod("second", gpus="c")
    cluster.hear()
    assert cluster.try_pod("second")
    cluster.evict()
    cluster.settle(3)
    assert cluster.api.pod("first") is None
    assert cluster.node_of("pair") is None
    assert cluster.devices("c") == ["n0/whole"]
    cluster.api.delete_pod("second")
    cluster.settle(3)
    assert cluster.node_of("pair") == "n0"


# --- restarts


def test_claims_of_a_file_are_booked_as_the_cluster_has_them(cluster):
    claim = cluster.api.add_claim("c", {"gpu": 1})
    part = dra()
    status = {"allocation": allocation("n0", "d1")}
    part.update({"kind": "ResourceClaim", **claim, "status": status})
    cluster.start(Scheduler(claims=part))
    assert cluster.booked() == {}
    allocate(cluster, "c", allocation("n0", "d0"))
    cluster.hear()
    assert cluster.booked() == {"n0/d0": [claim["metadata"]["uid"] + "#0"]}


def relisted(cluster, name, given):
    """Another scheduler gives a claim other devices, between two lists of all claims."""
    allocate(cluster, name, given)
    page = {**cluster.api._list("resourceclaims", {}), "kind": "ResourceClaimList"}
    cluster.run(cluster.service.apply(page))
    cluster.seen = cluster.api.version


def test_devices_that_another_scheduler_exchanges_unseen_are_free(clusters):
    cluster = clusters(nodes=("n0",), devices=2)
    add_allocated(cluster, "n0", "d0")
    cluster.add_pod("p", gpus="new-gpu")
    cluster.api.control_claims(cluster.templates)
    cluster.hear()
    assert cluster.booked()["n0/d1"] == [OWN]
    relisted(cluster, "c", allocation("n0", "d1"))  # its job has to go elsewhere
    assert cluster.booked() == {"n0/d1": [OWN]}
    cluster.api.delete("resourceclaims", "c", "x")
    cluster.hear()
    assert cluster.booked() == {"n0/d1": [OWN]}


def test_a_pod_starts_on_devices_that_another_scheduler_exchanges_unseen(cluster):
    add_allocated(cluster, "n0", "d0")
    cluster.api.add_slice("n1", ["d0"])
    cluster.add_pod("p", gpus="new-pair")
    cluster.settle(2)
    assert cluster.node_of("p") is None
    relisted(cluster, "c", allocation("n1", "d0"))
    cluster.settle(1, only_touched=True)
    assert cluster.node_of("p") == "n0"


def test_what_others_had_before_a_restart_stays_booked_until_claims_are_listed(cluster):
    add_allocated(cluster, "n0", "d0", "d1")
    cluster.hear()
    before = cluster.booked()
    messages = []
    tell = PodService._tell
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PodService, "_tell", lambda *of: messages.extend(of[1]) or tell(*of))
        cluster.restart()
    assert cluster.booked() == before
    assert not any("release" in dict(event.arguments) for event in messages)


# --- which job allocates


def test_a_scheduler_without_claims_leaves_them_to_kube_scheduler(clusters):
    cluster = clusters(scheduler=Scheduler())
    assert cluster.scheduler.claims is None
    cluster.add_claimed("p")
    cluster.hear()
    assert cluster.filter(cluster.api.pod("p"))["NodeNames"] == ["n0", "n1"]


def test_pods_with_claims_are_refused_where_this_process_does_not_write_them(cluster):
    cluster.jobs.claims.is_written = False
    cluster.add_claimed("p")
    assert not cluster.try_pod("p")
    assert "device claims need a server that writes them itself" in cluster.reasons["p"]


# --- devices that must become ready


def attached(clusters):
    """A pod waits until the device of its claim is attached; each node has such a device."""
    cluster = clusters(devices=0)
    for node in cluster.nodes:
        cluster.api.add_slice(node, [attachable()], driver="net.y")
    cluster.add_claimed("p")
    cluster.settle(2)
    assert cluster.devices("c") == ["n0/d0"]
    assert cluster.node_of("p") is None
    assert "'net.y/n0/d0' does not report 'Attached' yet" in cluster.reasons["p"]
    return cluster


def attachable(name="d0", **more):
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    return {"name": name, **conditions, **more}


def of_two(clusters):
    """One node with two devices that have to be attached."""
    cluster = clusters(nodes=("n0",), devices=0)
    cluster.api.add_slice("n0", [attachable("d0"), attachable("d1")], driver="net.y")
    return cluster


def report(cluster, claim="c", **conditions):
    """The driver reports conditions of a claim's devices that have to be attached."""
    claim = copy.deepcopy(cluster.api.claim(claim))
    said = [{"type": name, "status": status} for name, status in conditions.items()]
    devices = [
        {**{key: result[key] for key in ("driver", "pool", "device")}, "conditions": said}
        for result in claim["status"]["allocation"]["devices"]["results"]
        if "bindingConditions" in result
    ]
    if devices:
        claim["status"]["devices"] = devices
        cluster.api._put("resourceclaims", claim)


def test_a_pod_is_bound_once_its_devices_are_ready(clusters):
    cluster = attached(clusters)
    report(cluster, Attached="False")
    cluster.settle(2)
    assert cluster.node_of("p") is None
    report(cluster, Attached="True", Broken="Unknown")
    cluster.settle(1)
    assert cluster.node_of("p") == "n0"
    cluster.add_pod("q", gpus="c")  # shares what is ready
    cluster.settle(1)
    assert cluster.node_of("q") == "n0"


def test_a_process_that_starts_again_waits_for_the_same_devices(clusters):
    cluster = attached(clusters)
    cluster.restart()
    cluster.settle(2)
    assert cluster.node_of("p") is None
    report(cluster, Attached="True")
    cluster.settle(1)
    assert cluster.node_of("p") == "n0"


def test_a_device_that_fails_is_exchanged(clusters):
    cluster = attached(clusters)
    report(cluster, Broken="True")
    taint = {"key": "broken", "effect": "NoSchedule"}
    cluster.api.add_slice("n0", [attachable(taints=[taint])], driver="net.y")
    cluster.settle(4)
    assert cluster.devices("c") == ["n1/d0"]
    assert "devices" not in cluster.api.claim("c")["status"]
    report(cluster, Attached="True")
    cluster.settle(1)
    assert cluster.node_of("p") == "n1"


def test_devices_that_do_not_become_ready_in_time_are_given_up(clusters, monkeypatch):
    cluster = attached(clusters)
    now, writes = time.time(), len(cluster.api.requests)
    monkeypatch.setattr(time, "time", lambda: now + 595)
    cluster.settle(1)
    assert all(method != "PUT" for method, _ in cluster.api.requests[writes:])
    monkeypatch.setattr(time, "time", lambda: now + 605)
    cluster.refuses("p")
    assert cluster.reasons["p"].startswith("binding failed: the claim 'x/c' needs other devices")
    assert cluster.devices("c") == []
    cluster.settle(2)
    before = now + 605 - 1
    given = cluster.api.claim("c")["status"]["allocation"]["allocationTimestamp"]
    assert datetime.fromisoformat(given).timestamp() >= before


def test_pods_that_wait_for_one_broken_device_get_another_one(clusters):
    cluster = attached(clusters)
    cluster.add_pod("q", gpus="c")
    cluster.settle(2)
    assert len(cluster.api.claim("c")["status"]["reservedFor"]) == 2
    report(cluster, Broken="True")
    cluster.api.delete("resourceslices", "n0-net.y", "")
    cluster.settle(6)
    assert cluster.devices("c") == ["n1/d0"]
    report(cluster, Attached="True")
    cluster.settle(2)
    assert [cluster.node_of(pod) for pod in ("p", "q")] == ["n1", "n1"]


def test_a_pod_that_waits_for_its_devices_gives_way(clusters):
    cluster = of_two(clusters)
    cluster.add_pod("p", gpus="new-pair")
    cluster.settle(2)
    (claim,) = [of["metadata"]["name"] for of in cluster.api.all("resourceclaims")]
    assert cluster.devices(claim) == ["n0/d0", "n0/d1"]
    cluster.add_pod("q", priority=9000, gpus="new-gpu")
    cluster.api.control_claims(cluster.templates)
    cluster.refuses("q")
    cluster.check()
    cluster.try_pod("q")
    assert len(cluster.check()[1]) == 2  # also what is still in the claim of p
    cluster.settle(4)
    (other,) = [
        of["metadata"]["name"]
        for of in cluster.api.all("resourceclaims")
        if of["metadata"]["name"] != claim
    ]
    report(cluster, other, Attached="True")
    cluster.settle(2)
    assert cluster.node_of("q") == "n0"
    assert cluster.node_of("p") is None


def test_a_pod_does_not_evict_a_pod_whose_claim_it_shares(clusters):
    """The claim would lose its devices, and both pods would start again, without end."""
    cluster = of_two(clusters)
    cluster.add_claimed("first")
    cluster.settle(2)
    assert cluster.devices("c") == ["n0/d0"]
    cluster.add_pod("second", priority=9000, a="new-pair", b="c")
    for _ in range(3):
        cluster.settle(2)
        assert cluster.devices("c") == ["n0/d0"]
    report(cluster, Attached="True")
    cluster.settle(2)
    assert cluster.node_of("first") == "n0"
    assert "request gpu wants 2" in cluster.reasons["second"]
    cluster.api.delete_pod("first")  # the other pod uses the claim now, and still lacks devices
    cluster.settle(3)
    assert cluster.node_of("second") is None
    cluster.check()


def test_a_claim_that_other_pods_use_keeps_its_devices(clusters):
    cluster = attached(clusters)
    report(cluster, Attached="True")
    cluster.settle(1)
    report(cluster, Attached="True", Broken="True")
    cluster.add_pod("q", gpus="c")
    cluster.settle(3)
    assert cluster.node_of("q") is None
    assert "'net.y/n0/d0' reports 'Broken'" in cluster.reasons["q"]
    assert cluster.devices("c") == ["n0/d0"]


# --- random histories


class History:
    """Pods with claims come and end, nodes fail, writes fail, processes start again."""

    def __init__(self, cluster, rng):
        self.cluster, self.rng, self.number = cluster, rng, 0
        for i in range(3):
            cluster.api.add_claim(f"shared{i}", {"gpu": 1})
        if rng.random() < 0.5:
            items = cluster.api.all("resourceslices")
            (devices,) = (of["spec"]["devices"] for of in items if of["spec"]["nodeName"] == "n2")
            cluster.api.add_slice("n2", [attachable(**device) for device in devices])
            cluster.hear()

    def drive(self, *conditions):
        """The driver reports a condition of a claim's devices, of these."""
        for claim in self.cluster.api.all("resourceclaims"):
            name, status = claim["metadata"]["name"], claim.get("status") or {}
            if status.get("allocation") and not status.get("devices"):
                report(self.cluster, name, **self.rng.choice(conditions))

    def check(self, has_heard):
        """Also that pods were bound once their devices were ready."""
        cluster = self.cluster
        cluster.check(has_heard)
        claims = {claim["metadata"]["name"]: claim for claim in cluster.api.all("resourceclaims")}
        bound = {
            of["metadata"]["uid"] for of in cluster.api.all("pods") if "nodeName" in of["spec"]
        }
        for claim in claims.values():
            status = claim.get("status") or {}
            results = (status.get("allocation") or {}).get("devices", {}).get("results", ())
            if any("bindingConditions" in result for result in results):
                is_used = bound.intersection(of["uid"] for of in status.get("reservedFor", ()))
                attached = [of["conditions"][0] for of in status.get("devices", ())]
                assert not is_used or attached[0]["type"] == "Attached"

    def fail(self, request):
        is_write = request.method in ("PUT", "POST") or "/resourceclaims/" in request.path
        hits = is_write and self.rng.random() < 0.15
        return self.rng.choice([409, 500, 503]) if hits else 0

    def come(self):
        rng, self.number = self.rng, self.number + 1
        shared = [f"shared{i}" for i in range(3)]
        priority = rng.choice([0, 0, 9000])
        if rng.random() < 0.2:
            self.cluster.add_gang(f"g{self.number}", 2, priority, a="new-gpu")
            return
        own = {"a": rng.choice(["new-gpu", "new-pair", *shared])}
        own |= {"b": rng.choice(shared)} if rng.random() < 0.3 else {}
        self.cluster.add_pod(f"p{self.number}", priority=priority, **own)

    def end(self):
        pods = self.cluster.api.all("pods")
        pod = self.rng.choice(pods)["metadata"]["name"] if pods else ""
        if pod and self.rng.random() < 0.5:
            self.cluster.api.delete_pod(pod)
        elif pod and self.cluster.node_of(pod):
            self.cluster.api.set_phase(pod, "Succeeded")

    def allocate(self):
        """Another scheduler allocates a claim that it finds free, and is heard at once."""
        cluster, rng = self.cluster, self.rng
        used = cluster.check()[0]
        node = rng.choice(cluster.nodes)
        name = f"shared{rng.randrange(3)}"
        free = f"{node}/d0" not in used and f"{node}/d0" not in cluster.booked()
        if free and not cluster.devices(name):
            allocate(cluster, name, allocation(node, "d0"))
            cluster.hear()

    def step(self):
        cluster, rng = self.cluster, self.rng
        match rng.choice("cccceetttkkrnnxald"):
            case "c":
                self.come()
            case "e":
                self.end()
            case "t":
                pods = [pod["metadata"]["name"] for pod in cluster.api.all("pods")]
                for pod in rng.sample(pods, min(len(pods), 3)):
                    if cluster.api.pod(pod) and not cluster.node_of(pod):
                        cluster.try_pod(pod)
            case "k":
                cluster.api.control_claims(cluster.templates)
            case "r" if rng.random() < 0.3:
                cluster.restart(rng.random() < 0.6)
            case "n":
                cluster.api.set_ready(rng.choice(cluster.nodes), rng.random() < 0.7)
            case "x":
                cluster.clear()
            case "l":
                cluster.api.deliver()
            case "a":
                self.allocate()
            case "d":
                self.drive({"Attached": "True"}, {"Attached": "True"}, {"Broken": "True"})
        self.check(has_heard=rng.random() < 0.6)


@pytest.mark.parametrize("seed", [*seeds(4), 52, 76, 60085, 62117, 62128, 65208, 400001])
def test_no_device_is_given_twice_whatever_happens(clusters, seed):
    rng = random.Random(seed)
    cluster = clusters(nodes=("n0", "n1", "n2"), devices=rng.choice([1, 2, 3]))
    history = History(cluster, rng)
    cluster.api.refuse = history.fail
    cluster.api.later = True
    for _ in range(80):
        history.step()
    cluster.api.refuse = None
    cluster.api.deliver()
    for node in cluster.nodes:
        cluster.api.set_ready(node, True)
    for _ in range(4):
        cluster.settle(4, only_touched=True)
        history.drive({"Attached": "True"})
    cluster.settle(4, only_touched=True)
    history.check(has_heard=True)
    bound = bound_pods(cluster)
    cluster.settle(4)
    assert bound_pods(cluster) == bound  # no pod had to be touched that was not
    assert_no_pod_waits_without_need(cluster)
    for pod in cluster.api.all("pods"):
        cluster.api.delete_pod(pod["metadata"]["name"])
    for i in range(3):
        cluster.api.delete("resourceclaims", f"shared{i}", "x")
    cluster.settle(3)
    assert cluster.check() == ({}, {})


def bound_pods(cluster):
    return [pod["metadata"]["name"] for pod in cluster.api.all("pods") if "nodeName" in pod["spec"]]


def assert_no_pod_waits_without_need(cluster):
    """No pod alone, with new claims only, waits while a node has its devices free.

    A gang keeps the devices of pods that have ended for those that may come in their places.
    """
    holders, booked = cluster.check()
    kept = [device for device, (owner,) in booked.items() if owner.startswith("/pods:x/g")]
    free = dict.fromkeys(cluster.nodes, 0)
    for result in cluster.api.all("resourceslices"):
        node = result["spec"]["nodeName"]
        devices = {f"{node}/{device['name']}" for device in result["spec"]["devices"]}
        free[node] += len(devices - holders.keys() - set(kept))
    for pod in cluster.api.all("pods"):
        names = [entry.get("resourceClaimTemplateName") for entry in pod["spec"]["resourceClaims"]]
        if not pod["metadata"]["labels"] and all(names) and not pod["spec"].get("nodeName"):
            wanted = sum(cluster.templates[name]["gpu"] for name in names)
            assert wanted > max(free.values()), (pod["metadata"]["name"], cluster.reasons)
