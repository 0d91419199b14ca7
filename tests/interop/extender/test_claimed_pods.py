"""What is read of a pod once, and when it is read again."""

import copy

import pytest
from interop.extender.pods_and_kubelets import koordinator_pod

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.extender import claimed_pods
from hivecore.interop.extender.annotations import JOB, PLACE
from hivecore.interop.extender.claimed_pods import ClaimedPods
from hivecore.interop.extender.requests import read_request
from hivecore.interop.koordinator.names import DEVICE_ALLOCATED
from hivecore.scheduler import Scheduler


@pytest.fixture
def pods():
    return ClaimedPods(Scheduler(devices=DeviceCluster({"n": NodeDevices.uniform(gpus=8)})))


@pytest.fixture
def reads(monkeypatch):
    """The names of the pods that are read."""
    names, read = [], claimed_pods.read_request

    def noting(pod, with_claims):
        names.append(pod["metadata"]["name"])
        return read(pod, with_claims)

    monkeypatch.setattr(claimed_pods, "read_request", noting)
    return names


def test_a_pod_is_read_once_while_it_says_the_same(pods, reads):
    pod = koordinator_pod("p", "a", 2)
    del pod["metadata"]["annotations"]  # it has none, as API servers say it
    again = copy.deepcopy(pod)
    again["metadata"]["resourceVersion"] = "17"
    again["status"] = {"phase": "Pending"}
    assert pods.request_of(pod) == pods.request_of(again)
    assert reads == ["p"]
    again["spec"]["nodeName"] = "n"
    again["metadata"]["annotations"] = {JOB: "pods:p", PLACE: "worker/0", DEVICE_ALLOCATED: "{}"}
    assert pods.request_of(pod) == pods.request_of(again) == read_request(again)
    assert reads == ["p"]
    again["metadata"]["labels"]["app"] = "other"
    pods.request_of(again)
    assert len(reads) == 2
    pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "b"  # the very object
    assert pods.request_of(pod).tenant == "b"


def test_a_pod_that_is_new_with_the_annotations_of_a_bound_one_is_read_by_itself(pods, reads):
    pod = koordinator_pod("p", "a", 2)
    pods.request_of(pod)
    pod["metadata"]["annotations"] = {PLACE: "worker/0"}
    pods.request_of(pod)
    assert reads == ["p", "p"]


def test_a_pod_that_cannot_be_read_is_refused_each_time(pods):
    pod = koordinator_pod("p", "a", "two")
    for _ in range(2):
        with pytest.raises(ValueError, match="two"):
            pods.request_of(pod)


def test_pods_that_were_read_long_ago_are_read_again(pods, reads):
    pods._read.most = 2
    documents = {name: koordinator_pod(name, "a", 1) for name in "abc"}
    for name in "abcca":
        pods.request_of(documents[name])
    assert reads == ["a", "b", "c", "a"]
    assert len(pods._read) == 2
