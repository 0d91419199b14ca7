"""Koordinator's objects through a cluster of devices, and what a restart makes of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.koordinator.objects import ALLOCATED, HINT, JOINT, gpu, pod, record
from profiles import examples

from hivecore.devices import DeviceCluster
from hivecore.interop.koordinator import (
    read_bound_pod,
    read_device_record,
    read_pod,
    with_default_shared,
    write_allocation,
    write_device_record,
)

K = "koordinator.sh/"


def nic(minor):
    """A NIC on every second switch, with four virtual functions."""
    bus = f"0000:f{minor}:00"
    return {
        "type": "rdma",
        "minor": minor,
        "id": f"{bus}.0",
        "health": True,
        "resources": {K + "rdma": 100},
        "topology": {"socketID": -1, "nodeID": minor // 2, "pcieID": f"pci{minor}", "busID": bus},
        "vfGroups": [{"vfs": [{"minor": i, "busID": f"{bus}.{i}"} for i in range(1, 5)]}],
    }


NODE = record(*(gpu(i) for i in range(8)), *(nic(i) for i in range(4)))
SAME_PCIE = {JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"})}
FUNCTIONS = {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}
ASKED = [
    ({"nvidia.com/gpu": 1}, {}),
    ({"nvidia.com/gpu": 2, K + "rdma": 1}, SAME_PCIE),
    ({K + "gpu": 30}, {}),
    ({K + "gpu-core": 20, K + "gpu-memory": "7Gi"}, {}),
    ({K + "gpu-memory-ratio": 200}, {}),
    ({K + "gpu.shared": 2, K + "gpu-memory": "33333333333"}, {}),
    ({K + "rdma": 2}, {HINT: json.dumps({"rdma": FUNCTIONS})}),
    ({K + "rdma": 1}, {HINT: json.dumps({"rdma": FUNCTIONS | {"exclusivePolicy": "DeviceLevel"}})}),
    ({K + "rdma": 5}, {HINT: json.dumps({"rdma": {"allocateStrategy": "ApplyForAll"}})}),
    ({K + "rdma": 10}, {HINT: json.dumps({"rdma": {"exclusivePolicy": "PCIeLevel"}})}),
]


def run(cluster, name, limits, annotations):
    """Schedule a pod; the bound one, None if it waits."""
    wanted = with_default_shared(pod(limits, annotations, name=name))
    decision = cluster.schedule(read_pod(wanted))
    if decision.outcome != "bind":
        return None
    cluster.commit(decision)
    text = write_allocation(decision.placement, cluster.inventory(decision.node))
    wanted["metadata"]["annotations"] = {**annotations, ALLOCATED: text}
    wanted["spec"]["nodeName"] = decision.node
    return wanted


@given(st.lists(st.sampled_from(ASKED), max_size=12), st.randoms())
@examples(100)
def test_after_a_restart_every_pod_has_what_it_had(wanted, random):
    nodes = {name: read_device_record(NODE) for name in ("n0", "n1")}
    cluster, bound = DeviceCluster(nodes), {}
    for i, (limits, annotations) in enumerate(wanted):
        product = run(cluster, f"p{i}", limits, annotations)
        if product is not None:
            bound[f"default/p{i}"] = product
    restarted = DeviceCluster(
        {name: read_device_record(write_device_record(nodes[name], NODE)) for name in nodes}
    )
    for entry in random.sample(sorted(bound), len(bound)):
        restarted.recover(*read_bound_pod(bound[entry]))
    restarted.check()
    for name in bound:
        assert restarted.node_of(name) == cluster.node_of(name)
        assert restarted.allocations(name) == cluster.allocations(name)
    # And what comes next goes to the same place.
    for limits, annotations in ASKED:
        request = read_pod(pod(limits, annotations, name="next"))
        before, after = cluster.schedule(request), restarted.schedule(request)
        assert (before.node, before.placement) == (after.node, after.placement)


def test_gpus_and_their_nic_are_on_one_switch():
    cluster = DeviceCluster({"n": read_device_record(NODE)})
    product = run(cluster, "p", *ASKED[1])
    held = json.loads(product["metadata"]["annotations"][ALLOCATED])
    assert [entry["minor"] for entry in held["gpu"]] == [0, 1]
    assert [entry["id"] for entry in held["rdma"]] == ["0000:f0:00.0"]


@pytest.mark.parametrize("minors", [[3], [3, 4]])
def test_a_designated_pod_is_charged_what_its_annotation_says(minors):
    held = {"gpu": [{"minor": i, "resources": {K + "gpu-core": 100}} for i in minors]}
    each = pod({"nvidia.com/gpu": len(minors)}, {ALLOCATED: json.dumps(held)}, nodeName="n")
    cluster = DeviceCluster({"n": read_device_record(NODE)})
    cluster.recover(*read_bound_pod(each))
    assert [held.minor for held in cluster.allocations("default/p")] == minors
