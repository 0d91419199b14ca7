"""Victims that kube-scheduler leaves running, which the service evicts by itself."""

import copy
from math import inf

import pytest
from interop.extender.claims_and_controllers import dra

from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Scheduler

BOTH = ["g-0", "g-1"]
OF_CLAIMS = "gpu.deviceclass.resource.k8s.io/devices"
OF_B = {"quota.scheduling.koordinator.sh/name": "b"}
OF_A = dict.fromkeys(OF_B, "a")


@pytest.fixture
def preempted(cluster):
    """A gang that has both nodes, and a more important one that waits for it."""
    cluster.add_gang("g", 2, gpus="new-pair")
    cluster.settle(2)
    assert [cluster.node_of(name) for name in BOTH] == ["n0", "n1"]
    cluster.add_gang("h", 2, priority=9000, gpus="new-pair")
    cluster.api.control_claims(cluster.templates)
    cluster.hear()
    for name in ("h-0", "h-1"):
        cluster.try_pod(name)
    assert "to be preempted: x/g-0" in cluster.reasons["h-1"]
    return cluster


def quotas(resource, total=4):
    amounts = {resource: total}
    half = {resource: total // 2}
    lent = [Quota(name, max=amounts, min=half, parent="all") for name in ("a", "b")]
    return QuotaTree([Quota("all", max=amounts), *lent], total=amounts, limit="runtime")


def evictions(cluster):
    """How often an eviction was requested."""
    return sum(path.endswith("/eviction") for _, path in cluster.api.requests)


def of_victims(cluster):
    return [event for event in cluster.api.all("events") if event["reason"] == "Evicted"]


# --- which pods are evicted, and when


def test_the_victims_of_a_gang_with_claims_are_evicted_and_it_starts(preempted):
    cluster = preempted
    cluster.evict(4.9)
    assert cluster.api.evicted == []
    cluster.evict(0.2)
    assert cluster.api.evicted == BOTH
    cluster.settle(2)
    assert [cluster.node_of(name) for name in ("h-0", "h-1")] == ["n0", "n1"]
    cluster.settle(2)
    assert evictions(cluster) == 2


def test_an_event_of_the_victim_says_for_which_job_it_is_evicted(preempted):
    uid = preempted.api.pod("g-1")["metadata"]["uid"]
    preempted.evict()
    (event,) = [e for e in of_victims(preempted) if e["involvedObject"]["uid"] == uid]
    assert event["message"] == "its job 'pods:x/g' has to stop for 'pods:x/h'"
    assert (event["involvedObject"]["name"], event["type"]) == ("g-1", "Normal")


def test_a_quota_takes_back_what_it_lent_to_pods_of_the_same_priority(cluster):
    cluster.start(Scheduler(claims=dra(), quotas=quotas(OF_CLAIMS)))
    for name in ("g", "f"):
        cluster.add_gang(name, 1, quota="a", gpus="new-pair")
    cluster.settle(2)
    cluster.add_gang("h", 1, quota="b", gpus="new-pair")
    cluster.settle(4)
    assert cluster.node_of("h-0")
    assert len(cluster.api.evicted) == 1


def test_without_claims_victims_of_the_same_priority_are_evicted_as_well(cluster):
    cluster.start(Scheduler(quotas=quotas("gpu")))
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    cluster.add_gang("g", 1, quota="a", containers=[container])
    cluster.settle(2)
    half = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    cluster.add_gang("h", 1, quota="b", containers=[half])
    cluster.settle(3)
    assert cluster.api.evicted == ["g-0"]
    assert cluster.node_of("h-0")


def test_never_leaves_victims_to_others(cluster, preempted):
    cluster.evict_after = inf
    cluster.restart()
    cluster.settle(3)
    assert evictions(cluster) == 0
    assert cluster.node_of("h-0") is None


def test_a_victim_whose_preemptor_is_gone_stays(preempted):
    preempted.evict(1.0)
    preempted.delete("h-0", "h-1")
    preempted.settle(3)
    assert evictions(preempted) == 0
    assert [preempted.node_of(name) for name in BOTH] == ["n0", "n1"]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_victim_that_has_lost_pods_when_its_preemptor_goes_starts_again_as_a_whole(
    preempted, is_same
):
    cluster = preempted
    labels = {name: cluster.api.pod(name)["metadata"]["labels"] for name in BOTH}
    again = [name if is_same else f"{name}-new" for name in BOTH]
    cluster.api.protected = {"g-1"}
    cluster.evict(5.1)
    assert cluster.api.evicted == ["g-0"]
    cluster.delete("h-0", "h-1")
    cluster.add_pod(again[0], labels["g-0"], gpus="new-pair")
    cluster.settle(2)
    assert cluster.node_of(again[0]) is None
    cluster.api.protected = set()
    cluster.evict(60.0)
    assert cluster.api.evicted == BOTH
    assert "has lost pods" in of_victims(cluster)[-1]["message"]
    cluster.add_pod(again[1], labels["g-1"], gpus="new-pair")
    cluster.settle(3)
    assert all(map(cluster.node_of, again))
    assert cluster.api.evicted == BOTH


def test_it_leaves_for_the_next_job_that_can_have_its_place(preempted):
    cluster = preempted
    cluster.delete("h-0", "h-1")
    cluster.settle(1)
    cluster.add_gang("next", 3, priority=9000, gpus="new-pair")
    cluster.settle(3)
    assert evictions(cluster) == 0  # there is no room for three anyhow
    cluster.add_gang("two", 2, priority=9000, gpus="new-pair")
    cluster.settle(4)
    assert cluster.api.evicted == BOTH
    assert cluster.node_of("two-0") and cluster.node_of("two-1")
    assert "for 'pods:x/two'" in of_victims(cluster)[0]["message"]


# --- what comes between


def test_a_restart_between_naming_and_evicting_changes_nothing(preempted):
    preempted.evict(1.0)
    preempted.restart()
    preempted.evict(4.9)
    assert preempted.api.evicted == []
    preempted.evict(0.2)
    assert preempted.api.evicted == BOTH
    preempted.settle(2)
    assert preempted.node_of("h-0") and preempted.node_of("h-1")


def test_after_a_restart_nothing_is_evicted_for_a_job_whose_pods_have_gone(preempted):
    preempted.delete("h-0", "h-1")
    preempted.restart()
    preempted.settle(2)
    assert evictions(preempted) == 0


def test_nothing_is_evicted_before_all_pods_are_listed(preempted):
    preempted.jobs.is_listed = False
    preempted.evict()
    assert evictions(preempted) == 0
    preempted.jobs.is_listed = True


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_victim_that_goes_by_itself_is_not_evicted(preempted, has_ended):
    cluster = preempted
    cluster.evict(1.0)
    if has_ended:
        cluster.api.set_phase("g-0", "Succeeded")
    else:
        pod = copy.deepcopy(cluster.api.pod("g-0"))
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"  # with a long grace period
        cluster.api._put("pods", pod)
    cluster.hear()
    cluster.evict()
    assert cluster.api.evicted == ["g-1"]
    cluster.settle(2)
    assert (cluster.node_of("h-0") is not None) == has_ended
    cluster.api.delete_pod("g-0")
    cluster.settle(2)
    assert cluster.node_of("h-0") and cluster.node_of("h-1")


def test_a_victim_that_is_gone_unheard_is_done(preempted):
    preempted.delete(*BOTH)
    preempted.evict()
    assert evictions(preempted) == 2
    preempted.evict()
    assert evictions(preempted) == 2


def test_another_pod_of_the_same_name_is_not_evicted(preempted):
    cluster, labels = preempted, preempted.api.pod("g-0")["metadata"]["labels"]
    cluster.api.delete_pod("g-0")
    cluster.add_pod("g-0", labels, gpus="new-pair")
    cluster.evict()
    assert cluster.api.evicted == ["g-1"]
    assert cluster.api.pod("g-0") is not None


def test_evicted_pods_are_waited_for_and_evicted_once(preempted):
    cluster = preempted
    cluster.api.grace = True
    cluster.settle(3)
    assert cluster.api.evicted == BOTH
    assert cluster.node_of("h-0") is None
    cluster.delete(*BOTH)
    cluster.settle(2)
    assert cluster.node_of("h-0") and cluster.node_of("h-1")
    assert cluster.api.evicted == BOTH


def test_a_disruption_budget_is_tried_again_and_again_with_a_back_off(preempted):
    cluster = preempted
    cluster.api.protected = {"g-1"}
    cluster.evict(5.1)
    assert cluster.api.evicted == ["g-0"]
    numbers = []
    for _ in range(20):
        cluster.evict(1.0)
        numbers.append(evictions(cluster))
    assert 4 < numbers[-1] < 10
    cluster.hear()
    cluster.api.protected = set()
    cluster.evict(60.0)
    assert cluster.api.evicted == BOTH
    cluster.settle(2)
    assert cluster.node_of("h-0") and cluster.node_of("h-1")


@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_request_that_fails_is_tried_again(preempted, status):
    cluster = preempted
    cluster.api.refuse = lambda request: status * request.path.endswith("/eviction")
    with cluster.api.away() if not status else cluster.api._lock:
        cluster.evict(5.1)
    cluster.api.refuse = None
    assert cluster.api.evicted == []
    cluster.evict()
    assert cluster.api.evicted == BOTH


@pytest.mark.parametrize("is_same", [True, False])
def test_pods_that_come_in_the_place_of_victims_wait(preempted, is_same):
    """A controller makes new pods at once, of the same name or of others."""
    cluster = preempted
    labels = {name: cluster.api.pod(name)["metadata"]["labels"] for name in BOTH}
    cluster.evict()
    for name, own in labels.items():
        cluster.add_pod(name if is_same else f"{name}-new", own, gpus="new-pair")
    cluster.settle(4)
    assert cluster.node_of("h-0") and cluster.node_of("h-1")
    again = [name if is_same else f"{name}-new" for name in BOTH]
    assert [cluster.node_of(name) for name in again] == [None, None]
    for name in ("h-0", "h-1"):
        cluster.api.set_phase(name, "Succeeded")
    cluster.settle(3)
    assert all(map(cluster.node_of, again))
    assert cluster.api.evicted == BOTH


def test_pods_in_the_place_of_victims_of_a_quota_wait(cluster):
    cluster.start(Scheduler(claims=dra(), quotas=quotas(OF_CLAIMS)))
    for name in ("g", "f"):
        cluster.add_pod(name, OF_A, gpus="new-pair")
    cluster.settle(2)
    cluster.add_pod("h", OF_B, gpus="new-pair")
    for number in range(6):
        gone = len(cluster.api.evicted)
        cluster.settle(1)
        for _ in cluster.api.evicted[gone:]:
            cluster.add_pod(f"again{number}", OF_A, gpus="new-pair")
    assert cluster.node_of("h")
    assert len(cluster.api.evicted) == 1


def test_a_claim_that_others_use_as_well_frees_nothing_and_evicts_once(cluster):
    cluster.add_claimed("p", devices=2)
    cluster.settle(1)
    cluster.add_pod("q", gpus="c")
    cluster.add_pod("r", gpus="new-pair")
    cluster.settle(2)
    assert all(map(cluster.node_of, "pqr"))
    cluster.add_gang("h", 2, priority=9000, gpus="new-pair")
    cluster.settle(6)
    assert sorted(cluster.api.evicted) == ["p", "r"]
    assert cluster.node_of("h-0") is None
    cluster.api.delete_pod("q")
    cluster.settle(3)
    assert cluster.node_of("h-0") and cluster.node_of("h-1")
