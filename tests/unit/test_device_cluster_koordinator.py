"""`DeviceCluster` in mode "koordinator": what it refuses and keeps; a defect with and without."""

import copy

import pytest

from hivecore.devices import (
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    PartitionTable,
)
from hivecore.devices.feasibility import CODES

NODE = NodeDevices.uniform(gpus=8, gpu_memory=1000, nics=4, functions=2, sockets=2, switches=4)


def cluster(nodes=1, **options):
    return DeviceCluster({f"n{i}": NODE for i in range(nodes)}, mode="koordinator", **options)


def minors(decision, type="gpu"):
    return [one.minor for one in decision.placement if one.type == type]


def test_pods_are_spread_unless_a_policy_is_named():
    for policy, expected in ((None, "n1"), ("spread", "n1"), ("bin-pack", "n0")):
        nodes = cluster(2, policy=policy)
        nodes.allocate(DeviceRequest("a", 1), "n0")
        assert nodes.schedule(DeviceRequest("b", 1)).node == expected
    nodes = DeviceCluster({"n0": NODE, "n1": NODE})
    nodes.allocate(DeviceRequest("a", 1), "n0")
    assert nodes.schedule(DeviceRequest("b", 1)).node == "n0"


def test_the_best_node_has_a_score_of_100():
    nodes = cluster(3)
    nodes.allocate(DeviceRequest("a", 4), "n0")
    nodes.allocate(DeviceRequest("b", 8), "n1")
    found = nodes.filter(DeviceRequest("c", 1, nics=1))
    # of memory, in percent and in bytes: 37 and 50 of the node with 4 idle GPUs, 87 and 100 of the
    # idle one; of NICs 75 on both
    assert list(found.scores) == [100 * (43 + 75) // (93 + 75), 0, 100]
    assert CODES[found.codes[1]] == "koordinator: insufficient gpus"
    assert found.resolvable.all()


def test_bytes_and_percents_promise_a_card_twice():
    nodes = DeviceCluster({"n": NodeDevices.uniform(gpus=1, gpu_memory=1000)}, mode="koordinator")
    for i in range(100):
        assert nodes.allocate(DeviceRequest(f"bytes{i}", 1, memory=9), "n").outcome == "bind"
    # each of them has cut off to 0 percent
    assert nodes.allocate(DeviceRequest("percent", 1, memory_percent=100), "n").outcome == "bind"
    nodes.check()


def test_a_defect_can_be_mended():
    asked = {"joint": ("gpu", "rdma"), "same_pcie": True}
    for quirks, expected in ((None, []), ((), [2])):
        nodes = cluster(quirks=quirks)
        nodes.allocate(DeviceRequest("nic", nics=1), "n0")  # NIC 0, beside GPUs 0 and 1
        nodes.allocate(DeviceRequest("gpu", 1), "n0")  # GPU 0: its switch is filled up first
        assert minors(nodes.schedule(DeviceRequest("both", 1, nics=1, **asked))) == expected


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DeviceRequest("a", 1, cpu_milli=1), "'host' is needed"),
        (DeviceRequest("a", 1, gpu_wishes={"scope": "socket"}), "one socket"),
        (DeviceRequest("a", 1, gpu_wishes={"preferred_scope": "pcie"}), "preferred scope"),
    ],
)
def test_what_koordinator_does_not_know_is_refused_wherever_it_is_asked(request_, message):
    nodes = cluster()
    for ask in (nodes.schedule, nodes.filter, nodes.fits, nodes.explain):
        with pytest.raises(ValueError, match=message):
            ask(request_)
    with pytest.raises(ValueError, match=message):
        nodes.allocate(request_, "n0")


def test_what_only_mode_strict_does_is_refused():
    nodes = cluster()
    request = DeviceRequest("a", 1)
    placement = nodes.schedule(request).placement
    with pytest.raises(ValueError, match="designated: mode 'koordinator'"):
        nodes.allocate(request, "n0", designated=placement)
    with pytest.raises(ValueError, match="numa_hints: mode 'koordinator'"):
        nodes.numa_hints(request, "n0")


def test_modes_policies_and_defects_are_checked():
    with pytest.raises(ValueError, match="mode"):
        DeviceCluster(mode="loose")
    with pytest.raises(ValueError, match="quirks: only mode 'koordinator' has any"):
        DeviceCluster(quirks=())
    with pytest.raises(ValueError, match="quirks"):
        cluster(quirks=["greedy"])
    with pytest.raises(TypeError, match="quirks"):
        cluster(quirks=7)
    with pytest.raises(ValueError, match="policy"):
        cluster(policy="fgd")
    with pytest.raises(ValueError, match="policy"):
        cluster().schedule(DeviceRequest("a", 1), policy="fgd")


def test_a_copy_is_of_the_same_mode_with_the_same_defects():
    nodes = cluster(2, quirks=["greedy_joint", "bytes_not_scored"])
    nodes.allocate(DeviceRequest("a", 1, memory=7), "n1")
    for other in (nodes.copy(), copy.deepcopy(nodes), DeviceCluster.from_bytes(nodes.to_bytes())):
        assert other.to_bytes() == nodes.to_bytes()
        assert dict(other.allocations("a")[0].amounts) == {"memory": 7}
        with pytest.raises(ValueError, match="host"):
            other.fits(DeviceRequest("b", cpu_milli=1))


def test_an_inventory_whose_partitions_name_too_many_gpus_is_refused_and_nothing_changes():
    table = PartitionTable.of_sets([(i,) for i in range(300)])
    nodes = cluster()
    before = nodes.to_bytes()
    with pytest.raises(ValueError, match="more than 256 GPUs"):
        nodes.set_inventory("n0", NodeDevices(NODE.devices, table))
    with pytest.raises(ValueError, match="more than 256 GPUs"):
        nodes.add_node("n1", NodeDevices(NODE.devices, table))
    assert nodes.to_bytes() == before
    nodes.add_node("n1", NODE)
    nodes.check()
