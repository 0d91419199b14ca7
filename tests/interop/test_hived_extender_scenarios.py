"""A kube-scheduler's view: pods of a small cluster through filter, preempt and bind."""

import json

import pytest
from interop.hived_cluster import FLAT, Hived, config, nodes

from hivecore.interop.hived import Extender

DOMAIN = "hivedscheduler.microsoft.com"
NODES = ["n0", "n1"]


class Kubernetes:
    """Asks the extender as kube-scheduler would."""

    def __init__(self, tenants):
        self.hived = Hived(config(FLAT, nodes(*NODES), tenants))
        self.extender = Extender(self.hived.scheduler)

    @staticmethod
    def pod(name, leaves, priority=0):
        group = name.partition("-")[0]
        spec = Hived.spec(group, "A", leaves, priority, members=[(2, leaves)])
        resources = {"limits": {f"{DOMAIN}/pod-scheduling-enable": 1}}
        return {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "annotations": {f"{DOMAIN}/pod-scheduling-spec": json.dumps(spec)},
            },
            "spec": {"containers": [{"name": "main", "resources": resources}]},
        }

    def call(self, path, body=None):
        status, answer = self.extender.handle(path, body)
        assert status == 200, answer
        return json.loads(json.dumps(answer))

    def filter(self, pod, names=NODES):
        return self.call("/v1/extender/filter", {"Pod": pod, "NodeNames": list(names)})

    def preempt(self, pod):
        asked = {"Pod": pod, "NodeNameToMetaVictims": {name: {"Pods": []} for name in NODES}}
        found = self.call("/v1/extender/preempt", asked)["NodeNameToMetaVictims"] or {}
        return {name: {pod["UID"] for pod in victims["Pods"]} for name, victims in found.items()}


@pytest.fixture
def kubernetes():
    return Kubernetes({"A": {"NODE": 2}})


def test_the_filter_answers_with_the_one_node_and_insists_on_it(kubernetes):
    first = kubernetes.filter(kubernetes.pod("g-0", 4))
    assert not first.get("Error")
    (name,) = first["NodeNames"]
    assert kubernetes.filter(kubernetes.pod("g-0", 4))["NodeNames"] == [name]
    (other,) = kubernetes.filter(kubernetes.pod("g-1", 4))["NodeNames"]
    assert {name, other} == set(NODES)


def test_keys_are_understood_in_any_case(kubernetes):
    body = {"pod": kubernetes.pod("g-0", 4), "nodenames": NODES}
    assert len(kubernetes.call("/v1/extender/filter", body)["NodeNames"]) == 1


def test_a_waiting_pod_gets_no_node_and_a_reason(kubernetes):
    kubernetes.filter(kubernetes.pod("g-0", 4))
    answer = kubernetes.filter(kubernetes.pod("h-0", 4))
    assert not answer["NodeNames"]
    assert any(answer.get("FailedNodes", {}).values()) or answer.get("Error")


def test_a_preemptor_is_told_the_victims_of_one_node_at_a_time_until_none_is_left(kubernetes):
    for name in ("low-0", "low-1"):
        kubernetes.filter(kubernetes.pod(name, 4))
    high = kubernetes.pod("high-0", 4, priority=5)
    assert not kubernetes.filter(high)["NodeNames"]
    left = {"uid-low-0", "uid-low-1"}
    while left:
        ((_, victims),) = kubernetes.preempt(high).items()
        assert victims
        assert victims <= left
        for uid in victims:
            kubernetes.hived.scheduler.delete(uid)
        left -= victims
    assert not any(kubernetes.preempt(high).values())
    assert len(kubernetes.filter(high)["NodeNames"]) == 1


def test_a_bad_request_is_the_callers_error_and_changes_nothing(kubernetes):
    before = kubernetes.call("/v1/inspect/clusterstatus")
    for path, body in [
        ("/v1/extender/filter", {"Pod": kubernetes.pod("g-0", 0), "NodeNames": NODES}),
        ("/v1/extender/filter", {"NodeNames": NODES}),
        ("/v1/extender/filter", []),
        ("/v1/extender/bind", {"PodName": "nobody", "PodNamespace": "default", "Node": "n0"}),
        ("/v1/nowhere", {}),
        ("/v1/inspect/affinitygroups/nobody", None),
        ("/v1/inspect/clusterstatus/virtualclusters/nobody", None),
    ]:
        status, answer = kubernetes.extender.handle(path, body)
        assert 400 <= status < 500 or answer.get("Error"), path
    assert kubernetes.call("/v1/inspect/clusterstatus") == before


def test_the_inspect_paths_show_groups_and_cells(kubernetes):
    kubernetes.filter(kubernetes.pod("g-0", 2))
    (group,) = kubernetes.call("/v1/inspect/affinitygroups/")["items"]
    assert group["metadata"]["name"] == "g"
    assert group["status"]["state"] == "Allocated"
    assert kubernetes.call("/v1/inspect/affinitygroups/g") == group
    status = kubernetes.call("/v1/inspect/clusterstatus")
    root = "/v1/inspect/clusterstatus"
    assert kubernetes.call(f"{root}/physicalcluster") == status["physicalCluster"]
    assert kubernetes.call(f"{root}/virtualclusters/") == status["virtualClusters"]
    assert kubernetes.call(f"{root}/virtualclusters/A") == status["virtualClusters"]["A"]
