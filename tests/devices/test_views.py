"""Decisions with some owners thought away, on some NUMA nodes, or on designated devices."""

import pytest

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    NumaHint,
    VirtualFunction,
)

GIB = 1 << 30


def two_sockets():
    return NodeDevices.uniform(8, nics=4, functions=2, sockets=2, switches=4)


def start(cluster, name, gpus, priority=0, node=None, **options):
    request = DeviceRequest(name, gpus=gpus, priority=priority, **options)
    nodes = None if node is None else (node,)
    decision = cluster.schedule(request, nodes=nodes)
    cluster.commit(decision)
    return decision


# --- preemption


def test_the_unimportant_leave_before_those_that_hold_little():
    cluster = DeviceCluster({"n": NodeDevices.uniform(4)})
    start(cluster, "low", 2, priority=-1)
    start(cluster, "high", 1, priority=5)
    start(cluster, "mid", 1, priority=1)
    new = DeviceRequest("new", gpus=1)
    decision = cluster.schedule(new, preemptible=["low", "mid", "high"])
    assert (decision.outcome, decision.node, decision.victims) == ("preempt", "n", ("low",))
    assert decision.placement[0].minor in {0, 1}
    assert decision.reason == "waits for 'low' to leave node 'n'"
    assert decision.refusal is None
    with pytest.raises(ValueError, match="preempt"):
        cluster.commit(decision)
    cluster.release("low")
    cluster.commit(cluster.schedule(new))


def test_no_owner_leaves_without_need():
    cluster = DeviceCluster({"n": NodeDevices.uniform(4)})
    for name in ("a", "b", "c", "d"):
        start(cluster, name, 1)
    decision = cluster.schedule(DeviceRequest("new", gpus=2), preemptible=[*"dcba"])
    assert decision.victims == ("a", "b")
    assert cluster.schedule(DeviceRequest("new", gpus=2), preemptible=["d"]).outcome == "wait"


def test_what_fits_preempts_no_owner_and_an_unknown_owner_is_a_key_error():
    cluster = DeviceCluster({"n": NodeDevices.uniform(4)})
    start(cluster, "a", 1)
    assert cluster.schedule(DeviceRequest("new", gpus=3), preemptible=["a"]).outcome == "bind"
    with pytest.raises(KeyError, match="unknown"):
        cluster.schedule(DeviceRequest("new", gpus=4), preemptible=["unknown"])


def test_victims_are_on_one_of_the_nodes_that_may_be_used():
    cluster = DeviceCluster({"n": NodeDevices.uniform(1), "m": NodeDevices.uniform(1)})
    start(cluster, "a", 1, node="n")
    start(cluster, "b", 1, node="m", priority=3)
    new = DeviceRequest("new", gpus=1)
    assert cluster.schedule(new, preemptible=["a", "b"]).victims == ("a",)
    assert cluster.schedule(new, preemptible=["a", "b"], nodes=["m"]).victims == ("b",)


def test_victims_leave_the_gpus_that_scope_and_nics_ask_for():
    cluster = DeviceCluster({"n": two_sockets()})
    start(cluster, "spread", 1, nics=1)
    for i in range(6):
        start(cluster, f"one{i}", 1)
    new = DeviceRequest("new", gpus=2, gpu_wishes={"scope": "pcie"})
    decision = cluster.schedule(new, preemptible=[f"one{i}" for i in range(6)])
    branch = cluster.copy()
    for name in decision.victims:
        branch.release(name)
    decided = branch.schedule(new)
    assert decided.outcome == "bind"
    assert decision.victims == ("one5",)
    assert decided.placement == decision.placement


# --- NUMA nodes


def test_hints_name_every_set_of_numa_nodes_that_would_do():
    cluster = DeviceCluster({"n": two_sockets()})
    four = DeviceRequest("new", gpus=4)
    assert cluster.numa_hints(four, "n") == (
        NumaHint((0,), True, 500),
        NumaHint((1,), True, 0),
        NumaHint((0, 1), False, 500),
    )
    start(cluster, "a", 1)
    assert [hint.nodes for hint in cluster.numa_hints(four, "n")] == [(1,), (0, 1)]
    five = DeviceRequest("new", gpus=5)
    assert cluster.numa_hints(five, "n") == (NumaHint((0, 1), True, 500),)
    assert cluster.numa_hints(DeviceRequest("new", gpus=8), "n") == ()


def test_what_is_allocated_on_a_numa_node_is_there():
    cluster = DeviceCluster({"n": two_sockets()})
    request = DeviceRequest("new", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    decision = cluster.allocate(request, "n", numa=[1])
    assert {allocation.minor for allocation in decision.placement if allocation.type == "gpu"} == {
        4,
        5,
    }
    refused = cluster.allocate(DeviceRequest("more", gpus=3), "n", numa=[1])
    assert (refused.outcome, refused.counts) == ("wait", (("capacity", 1),))
    assert "more" not in cluster


def test_every_device_on_some_numa_nodes_is_every_one_there():
    cluster = DeviceCluster({"n": two_sockets()})
    decision = cluster.allocate(DeviceRequest("pod", nics="all"), "n", numa=[1])
    assert [allocation.minor for allocation in decision.placement] == [2, 3]
    decision.verify(two_sockets())


def test_a_node_of_too_many_numa_nodes_has_no_hints():
    devices = tuple(Device("gpu", i, {"core": 100, "memory": GIB}, numa=i) for i in range(13))
    cluster = DeviceCluster({"n": NodeDevices(devices)})
    with pytest.raises(ValueError, match="13 NUMA nodes"):
        cluster.numa_hints(DeviceRequest("new", gpus=1), "n")


# --- designated devices


def test_designated_devices_are_given_as_they_are():
    cluster = DeviceCluster({"n": two_sockets()})
    first = cluster.schedule(
        DeviceRequest("a", gpus=1, nics=1, nic_percent=1, nic_wishes={"vf_selector": {}})
    )
    wish = [
        DeviceAllocation(
            allocation.type, allocation.minor + 1, allocation.amounts, allocation.function
        )
        for allocation in first.placement
        if allocation.type == "gpu"
    ] + [allocation for allocation in first.placement if allocation.type == "rdma"]
    request = first.request.replace(name="b")
    decision = cluster.allocate(request, "n", designated=wish)
    assert decision.outcome == "bind"
    assert cluster.allocations("b") == tuple(wish)
    again = cluster.allocate(request.replace(name="c"), "n", designated=wish)
    assert (again.outcome, again.counts) == ("wait", (("designated", 1),))


@pytest.mark.parametrize(("minors", "gpus"), [((0,), 2), ((0, 9), 2), ((0, 2), 2), ((3, 4), 2)])
def test_a_request_that_the_designated_devices_cannot_serve_waits(minors, gpus):
    cluster = DeviceCluster({"n": two_sockets()})
    request = DeviceRequest("new", gpus=gpus, gpu_wishes={"scope": "pcie"})
    before = cluster.to_bytes()
    decision = cluster.allocate(request, "n", designated=whole(*minors))
    assert (decision.outcome, decision.counts) == ("wait", (("designated", 1),))
    assert cluster.to_bytes() == before


def whole(*minors, **amounts):
    amounts = {"core": 100, "memory": 80 * GIB} | amounts
    return [DeviceAllocation("gpu", minor, amounts) for minor in minors]


def allocated(request, designated, inventory=None, **options):
    """What it gets of an idle node; None: it waits."""
    cluster = DeviceCluster({"n": inventory or two_sockets()})
    decision = cluster.allocate(request, "n", designated=designated, **options)
    cluster.check()
    if decision.outcome == "wait":
        return None
    decision.verify(inventory or two_sockets())
    return [
        (allocation.type, allocation.minor, dict(allocation.amounts))
        for allocation in decision.placement
    ]


@pytest.mark.parametrize("memory", [80 * GIB, 85198045184, 24564 << 20, 1001])
def test_every_percent_gets_the_designated_bytes_that_are_cut_off(memory):
    inventory = NodeDevices.uniform(2, gpu_memory=memory)
    for percent in range(1, 101):
        request = DeviceRequest("new", gpus=1, core=percent, memory_percent=percent)
        amounts = {"core": percent, "memory": percent * memory // 100}
        for given in (amounts, {"core": percent, "memory_ratio": percent}):
            designated = [DeviceAllocation("gpu", 1, given)]
            assert allocated(request, designated, inventory) == [("gpu", 1, amounts)]
        less = DeviceAllocation("gpu", 1, amounts | {"memory": amounts["memory"] - 1})
        assert allocated(request, [less], inventory) is None


def test_more_than_is_asked_for_may_be_designated():
    request = DeviceRequest("new", gpus=1, memory_percent=100)
    assert allocated(request, whole(5)) == [("gpu", 5, {"memory": 80 * GIB})]
    half = DeviceRequest("new", gpus=1, core=10, memory=40 * GIB)
    assert allocated(half, whole(5)) == [("gpu", 5, {"core": 10, "memory": 40 * GIB})]
    pair = DeviceRequest("new", gpus=2, gpu_wishes={"scope": "pcie"})
    assert [minor for _, minor, _ in allocated(pair, whole(1, 2, 3))] == [2, 3]
    nic = DeviceAllocation("rdma", 3, {"share": 100})
    assert allocated(pair, [*whole(6, 7), nic])[0][:2] == ("gpu", 6)


def test_what_is_used_of_designated_devices_is_not_free():
    cluster = DeviceCluster({"n": two_sockets()})
    share = DeviceRequest("a", gpus=1, core=60, memory_percent=60)
    assert cluster.allocate(share, "n", designated=whole(2)).outcome == "bind"
    again = cluster.allocate(share.replace(name="b"), "n", designated=whole(2))
    assert again.outcome == "wait"
    small = DeviceRequest("b", gpus=1, core=40, memory_percent=40)
    assert cluster.allocate(small, "n", designated=whole(2)).outcome == "bind"
    assert (
        cluster.allocate(DeviceRequest("c", 1), "n", designated=whole(2, 3)).placement[0].minor == 3
    )
    cluster.set_health("n", False, type="gpu", minor=7)
    assert cluster.allocate(DeviceRequest("d", 1), "n", designated=whole(7)).outcome == "wait"


def test_a_type_that_is_not_designated_is_chosen_freely():
    request = DeviceRequest("new", gpus=1, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    assert [item[:2] for item in allocated(request, whole(5))] == [("gpu", 5), ("rdma", 2)]
    nic = [DeviceAllocation("rdma", 3, {"share": 100})]
    assert [item[:2] for item in allocated(request, nic)] == [("gpu", 6), ("rdma", 3)]
    assert allocated(request, whole(5) + nic) is None  # they are on two switches


def test_a_designated_virtual_function_is_given_or_the_request_waits():
    request = DeviceRequest("a", nics=1, nic_percent=1, nic_wishes={"vf_selector": {}})
    named = [DeviceAllocation("rdma", 2, {"share": 1}, VirtualFunction("002:001"))]
    cluster = DeviceCluster({"n": two_sockets()})
    decision = cluster.allocate(request, "n", designated=named)
    assert decision.placement == tuple(named)
    again = cluster.allocate(request.replace(name="b"), "n", designated=named)
    assert again.outcome == "wait"
    free = [DeviceAllocation("rdma", 2, {"share": 1})]
    other = cluster.allocate(request.replace(name="b"), "n", designated=free)
    assert other.placement[0].function.bus_id == "002:000"
    plain = DeviceRequest("c", nics=1, nic_percent=1)
    assert cluster.allocate(plain, "n", designated=named).placement[0].function is None


def test_designated_devices_are_used_on_the_given_numa_nodes_only():
    request = DeviceRequest("new", gpus=1)
    assert allocated(request, whole(1, 5), numa=[1])[0][1] == 5
    assert allocated(request, whole(1, 5), numa=[0])[0][1] == 1
    assert allocated(request, whole(1, 2), numa=[1]) is None
    assert allocated(request, whole(1, 2), numa=[]) is None
    unplaced = NodeDevices((Device("gpu", 0, {"core": 100, "memory": 80 * GIB}),))
    assert allocated(request, whole(0), unplaced, numa=[1]) is not None


def test_designated_devices_are_checked_as_arguments():
    cluster = DeviceCluster({"n": two_sockets()})
    request = DeviceRequest("new", gpus=1)
    [first] = whole(0)
    with pytest.raises(ValueError, match="twice"):
        cluster.allocate(request, "n", designated=[first, first])
    with pytest.raises(TypeError, match="designated"):
        cluster.allocate(request, "n", designated=[3])
    with pytest.raises(TypeError, match="numa"):
        cluster.allocate(request, "n", designated=[first], numa=["0"])
    with pytest.raises(KeyError, match="nowhere"):
        cluster.allocate(request, "nowhere", designated=[first])
