"""A cluster of devices by plain examples: what is given, what is refused, what stays as it was."""

import copy
import pickle
import random
import sys

import pytest
from objects.saved_states import sealed_nonsense_is_refused_or_sound

from hivecore._sealed import seal, unseal
from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    Task,
    TaskMix,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.devices.device_cluster import POLICIES
from hivecore.errors import CertificateError, CorruptStateError, StaleDecisionError

GIB = 1 << 30
EIGHT = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
JOINT = {"joint": ("gpu", "rdma")}
NIC_WITH_VF = {"nics": 1, "nic_percent": 1, "nic_wishes": {"vf_selector": {}}}


def one_node(inventory, **options):
    return DeviceCluster({"n": inventory}, **options)


def bound(cluster, name, *arguments, **options):
    """Schedule, commit; the devices by type."""
    decision = cluster.schedule(DeviceRequest(name, *arguments, **options))
    assert decision.outcome == "bind", decision.reason
    cluster.commit(decision)
    cluster.check()
    return minors(decision.placement)


def minors(placement):
    results = {}
    for allocation in placement:
        results.setdefault(allocation.type, []).append(allocation.minor)
    return results


def code(cluster, *arguments, **options):
    """Why it waits; None: it binds."""
    refusal = cluster.schedule(DeviceRequest("asked", *arguments, **options)).refusal
    return refusal and refusal.code


# --- shares of memory


def test_bytes_and_percents_never_promise_more_than_a_card_has():
    rng = random.Random(5)
    cluster = one_node(NodeDevices.uniform(gpus=2, gpu_memory=10**9 + 7))
    for i in range(600):
        share = rng.choice(
            ({"memory": rng.randint(1, 10**7)}, {"memory_percent": rng.choice((1, 1, 2, 29))})
        )
        cluster.allocate(DeviceRequest(f"o{i}", 1, **share), "n")
    used = {0: 0, 1: 0}
    for owner in cluster.owners("n"):
        for allocation in cluster.allocations(owner):
            used[allocation.minor] += dict(allocation.amounts)["memory"]
    assert all(10**9 * 0.9 < amount <= 10**9 + 7 for amount in used.values())


def test_what_a_driver_keeps_of_a_card_is_given_to_no_pod():
    node = NodeDevices.uniform(gpus=1, gpu_memory=100, gpu_reserved=20)
    cluster = one_node(node)
    assert not cluster.fits(DeviceRequest("all", 1, memory=81))
    decision = cluster.schedule(DeviceRequest("half", 1, core=50, memory_percent=50))
    decision.verify(node)
    cluster.commit(decision)
    assert dict(cluster.allocations("half")[0].amounts)["memory"] == 40
    assert not cluster.fits(DeviceRequest("more", 1, memory=41))
    assert cluster.fits(DeviceRequest("rest", 1, memory=40))
    for wrong, error in ((100, ValueError), (-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="gpu_reserved"):
            NodeDevices.uniform(gpus=1, gpu_memory=100, gpu_reserved=wrong)


@pytest.mark.parametrize("percent", [1, 28, 29, 33, 57, 99])
@pytest.mark.parametrize("total", [1, 99, 1001, 80 * GIB])
def test_a_percentage_is_charged_in_bytes_rounded_down_and_given_back_in_full(percent, total):
    cluster = one_node(NodeDevices.uniform(gpus=1, gpu_memory=total))
    before = cluster.to_bytes()
    bound(cluster, "x", 1, memory_percent=percent)
    amounts = dict(cluster.allocations("x")[0].amounts)
    assert amounts == ({"memory": percent * total // 100} if percent * total >= 100 else {})
    left = total - amounts.get("memory", 0)
    assert left == 0 or code(cluster, 1, memory=left) is None
    assert code(cluster, 1, memory=left + 1) in ("capacity", "too small")
    cluster.release("x")
    assert cluster.to_bytes() == before


@pytest.mark.parametrize(
    "total", [16 << 30, 85198045184, 24564 << 20, 40536 << 20, 81559 << 20, 1001, 99, 7, 1]
)
@pytest.mark.parametrize("pods", [1, 3, 5, 7, 10, 33, 100])
def test_so_many_equal_percents_as_add_up_to_a_hundred_fit_on_one_card(pods, total):
    cluster = one_node(NodeDevices.uniform(gpus=1, gpu_memory=total))
    percent = 100 // pods
    for i in range(pods):
        bound(cluster, f"o{i}", 1, memory_percent=percent, core=percent)


def test_a_share_of_no_byte_occupies_the_card():
    cluster = one_node(NodeDevices.uniform(gpus=1, gpu_memory=50))
    assert bound(cluster, "x", 1, memory_percent=1) == {"gpu": [0]}
    assert cluster.allocations("x") == (DeviceAllocation("gpu", 0, {}),)
    assert code(cluster, 1) == "capacity"
    assert code(cluster, 1, memory=50) is None  # bytes alone count
    restored = DeviceCluster.from_bytes(cluster.to_bytes())
    assert code(restored, 1) == "capacity"
    cluster.release("x")
    assert code(cluster, 1) is None


def test_the_host_gives_processors_and_memory():
    host = Device("host", 0, {"cpu": 4000, "memory": 100})
    cluster = one_node(NodeDevices((*NodeDevices.uniform(gpus=1).devices, host)))
    bound(cluster, "x", cpu_milli=3000, host_memory=10)
    assert code(cluster, 1, cpu_milli=1001) == "capacity"
    assert code(cluster, 1, cpu_milli=4001) == "too small"
    assert bound(cluster, "y", 1, cpu_milli=1000, host_memory=90) == {"gpu": [0], "host": [0]}


def test_a_pod_that_needs_nothing_is_bound_and_holds_nothing():
    cluster = one_node(NodeDevices(()))
    assert bound(cluster, "x") == {}
    assert (cluster.node_of("x"), cluster.allocations("x")) == ("n", ())
    assert cluster.remove_node("n") == ("x",)


# --- NICs and their virtual functions


def nics(*groups, share=100):
    return NodeDevices(
        tuple(
            Device("rdma", i, {"share": share}, vf_groups=functions)
            for i, functions in enumerate(groups)
        )
    )


def test_there_is_a_nic_for_every_switch_of_the_gpus_and_never_fewer_than_asked():
    cluster = one_node(EIGHT)
    decision = minors(cluster.schedule(DeviceRequest("x", 8, nics=1, **JOINT)).placement)
    assert decision["rdma"] == [0, 1, 2, 3]
    decision = minors(cluster.schedule(DeviceRequest("x", 2, nics=1, **JOINT)).placement)
    assert decision["rdma"] == [0]
    decision = minors(cluster.schedule(DeviceRequest("x", 2, nics=3, **JOINT)).placement)
    assert len(decision["rdma"]) == 3
    decision = minors(cluster.schedule(DeviceRequest("x", 8, nics=1)).placement)
    assert len(decision["rdma"]) == 1  # nothing joins them


# --- partitions


H100 = NodeDevices.uniform(gpus=8, model="H100")


def test_a_single_gpu_is_taken_where_no_pair_breaks():
    cluster = one_node(H100)
    assert bound(cluster, "a", 1) == {"gpu": [0]}
    assert bound(cluster, "b", 2) == {"gpu": [2, 3]}
    assert bound(cluster, "c", 1) == {"gpu": [1]}
    assert bound(cluster, "d", 4) == {"gpu": [4, 5, 6, 7]}


def test_a_node_that_honors_partitions_gives_one_or_nothing():
    for policy, expected in (("honor", "partition"), ("prefer", None)):
        node = NodeDevices(H100.devices, partition_policy=policy, model="H100")
        cluster = one_node(node)
        assert code(cluster, 3) == expected
        assert bound(cluster, "o", 4) == {"gpu": [0, 1, 2, 3]}
        cluster.recover("x", "n", [DeviceAllocation("gpu", 5, {"core": 1})])
        cluster.recover("y", "n", [DeviceAllocation("gpu", 7, {"core": 1})])
        assert code(cluster, 2) == expected or cluster.schedule(DeviceRequest("z", 2)).node
        assert code(cluster, 1, memory=1) is None  # shares are of no partition


TIERS = NodeDevices(
    NodeDevices.uniform(gpus=4).devices,
    PartitionTable(
        (
            Partition((0, 1), 1, 200 * GIB),
            Partition((2, 3), 5, 100 * GIB),
            Partition((0, 2), 1, None),
        )
    ),
)


def test_a_bandwidth_that_is_asked_for_is_there():
    cluster = one_node(TIERS)
    decision = cluster.schedule(DeviceRequest("x", 2, bandwidth=200 * GIB))
    assert minors(decision.placement) == {"gpu": [0, 1]}
    assert code(cluster, 2, bandwidth=200 * GIB + 1) == "partition"
    assert code(cluster, 2, bandwidth=200 * GIB, partition="restricted") == "partition"
    assert code(cluster, 2, bandwidth=100 * GIB, partition="restricted") is None


# --- selectors, all of a type, isolation, models


def test_nodes_with_a_bad_device_are_listed():
    machine = NodeDevices.uniform(gpus=2, nics=1, sockets=1, switches=1)
    cluster = DeviceCluster(dict.fromkeys(("a", "b", "c"), machine))
    assert cluster.unhealthy_nodes() == ()
    cluster.set_health("c", False, type="gpu", minor=1)
    cluster.set_health("a", False)
    cluster.remove_node("b")
    assert cluster.unhealthy_nodes() == cluster.copy().unhealthy_nodes() == ("a", "c")
    cluster.set_health("a", True)
    assert cluster.unhealthy_nodes() == ("c",)


def test_shared_gpus_need_the_isolation_that_is_asked_for():
    cluster = DeviceCluster(
        {
            "bare": NodeDevices.uniform(gpus=1),
            "hami": NodeDevices(
                NodeDevices.uniform(gpus=1).devices, isolation_provider="HAMi-core"
            ),
        }
    )
    request = DeviceRequest("x", 1, memory=1, isolation_provider="HAMi-core")
    assert cluster.schedule(request).node == "hami"
    assert cluster.filter(request).reason("bare") == "another isolation provider"
    whole = DeviceRequest("x", 1, isolation_provider="HAMi-core")
    assert cluster.schedule(whole).node == "bare"


def test_gpus_are_of_one_of_the_models_that_will_do():
    cluster = DeviceCluster(
        {model or "none": NodeDevices.uniform(gpus=1, model=model) for model in ("", "T4", "H20")}
    )
    assert cluster.schedule(DeviceRequest("x", 1, models=["H20", "A100"])).node == "H20"
    assert cluster.filter(DeviceRequest("x", 1, models=["T4"])).fitting == ("T4",)
    assert cluster.filter(DeviceRequest("x", cpu_milli=0, models=["T4"])).fits.all()


# --- nodes


def test_the_first_node_wins_ties_and_a_new_one_takes_the_place_of_one_that_left():
    node = NodeDevices.uniform(gpus=2)
    cluster = DeviceCluster({"c": node, "a": node, "b": node})
    assert cluster.nodes == ("c", "a", "b")
    assert cluster.schedule(DeviceRequest("x", 1)).node == "c"
    assert cluster.schedule(DeviceRequest("x", 1), nodes=["b", "a"]).node == "a"
    bound(cluster, "x", 1)
    assert cluster.remove_node("c") == ("x",)
    assert "x" not in cluster
    assert cluster.schedule(DeviceRequest("x", 1)).node == "a"
    cluster.add_node("d", node)
    assert cluster.nodes == ("d", "a", "b")
    assert cluster.schedule(DeviceRequest("x", 1)).node == "d"
    cluster.check()


def test_bin_pack_takes_the_fullest_node_and_spread_the_emptiest():
    node = NodeDevices.uniform(gpus=4)
    cluster = DeviceCluster({"a": node, "b": node, "c": node})
    cluster.allocate(DeviceRequest("x", 1), "b")
    cluster.allocate(DeviceRequest("y", 2), "c")
    request = DeviceRequest("z", 1)
    assert cluster.schedule(request).node == "c"
    assert cluster.schedule(request, policy="spread").node == "a"
    scores = cluster.filter(request).scores
    assert list(scores) == [2500, 5000, 7500]
    assert list(cluster.filter(request, policy="spread").scores) == [7500, 5000, 2500]


def test_only_the_nodes_that_are_named_are_looked_at_in_their_order():
    cluster = DeviceCluster({"a": EIGHT, "b": NodeDevices(()), "c": EIGHT})
    request = DeviceRequest("x", 1)
    feasibility = cluster.filter(request, nodes=iter(["c", "b"]))
    assert feasibility.nodes == ("c", "b")
    assert list(feasibility.fits) == [True, False]
    assert feasibility.fitting == ("c",)
    assert feasibility.counts == (("no devices", 1),)
    assert (feasibility.reason("c"), feasibility.reason("b")) == ("", "no devices of a type")
    assert list(feasibility.resolvable) == [True, False]
    assert feasibility.scores[1] == 0
    with pytest.raises(KeyError, match="'a'"):
        feasibility.reason("a")
    assert cluster.filter(request).nodes == ("a", "b", "c")
    cluster.remove_node("a")
    assert cluster.filter(request).nodes == ("b", "c")


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_node_everything_waits(policy):
    cluster = one_node(EIGHT, policy=policy)
    for decision in (
        cluster.schedule(DeviceRequest("x", 1), nodes=()),
        DeviceCluster(policy=policy).schedule(DeviceRequest("x")),
    ):
        assert (decision.outcome, decision.reason) == ("wait", "there are no nodes")
        assert decision.refusal.code == "no devices"
    assert cluster.filter(DeviceRequest("x", 1), nodes=()).fitting == ()


def test_health_flaps_under_owners_that_stay():
    cluster = one_node(EIGHT)
    before = cluster.to_bytes()
    bound(cluster, "x", 2)
    cluster.set_health("n", False, type="gpu")
    assert cluster.owners("n") == ("x",)
    assert code(cluster, 1) == "unhealthy"
    assert code(cluster, nics=4) is None
    cluster.set_health("n", True, type="gpu", minor=0)
    assert code(cluster, 1) == "capacity"
    cluster.set_health("n", True)
    assert bound(cluster, "y", 6) == {"gpu": [2, 3, 4, 5, 6, 7]}
    cluster.set_health("n", False)
    for name in "xy":
        cluster.release(name)
    cluster.set_health("n", True)
    assert cluster.to_bytes() == before


def test_an_inventory_changes_under_owners_that_stay():
    cluster = one_node(NodeDevices.uniform(gpus=2, gpu_memory=100))
    bound(cluster, "x", 1, memory=60)
    cluster.set_inventory("n", NodeDevices(()))
    assert [allocation.minor for allocation in cluster.allocations("x")] == [0]
    assert code(cluster, 1) == "no devices"
    cluster.set_inventory("n", NodeDevices.uniform(gpus=1, gpu_memory=50))
    assert code(cluster, 1, memory=1) == "capacity"  # over-committed: nothing is free
    cluster.set_inventory("n", NodeDevices.uniform(gpus=1, gpu_memory=70))
    assert code(cluster, 1, memory=11) == "capacity"
    assert code(cluster, 1, memory=10) is None  # growth counts at once
    cluster.release("x")
    assert code(cluster, 1, memory=70) is None
    cluster.check()


# --- capacity


@pytest.mark.parametrize("policy", POLICIES)
def test_capacity_is_how_many_equal_pods_a_node_takes(policy):
    mix = TaskMix({Task(30, True, 1, 0, ()): 3}) if policy == "fgd" else None
    node = NodeDevices.uniform(gpus=4, gpu_memory=8 * GIB, nics=2)
    cluster = DeviceCluster(dict.fromkeys("abcd", node), policy=policy, mix=mix)
    cluster.remove_node("b")
    cluster.allocate(DeviceRequest("half", gpus=1, memory_percent=50), "a")
    cluster.set_health("d", False)
    third = DeviceRequest("third", gpus=1, memory_percent=30)
    assert cluster.capacity(third, 100).tolist() == [10, 12, 0]
    assert cluster.capacity(third, 11).tolist() == [10, 11, 0]
    assert cluster.capacity(third, 100, nodes=["c", "a"]).tolist() == [12, 10]
    pair = DeviceRequest("pair", gpus=1, nics=1, **JOINT)
    assert cluster.capacity(pair, 2**31 - 1).tolist() == [2, 2, 0]
    cluster.set_health("c", False, type="rdma", minor=0)
    cluster.set_health("d", True)
    assert cluster.capacity(pair, 3).tolist() == [2, 1, 2]
    assert cluster.capacity(pair, 0).tolist() == [0, 0, 0]
    assert cluster.capacity(third, 100, after=(pair, 2)).tolist() == [4, -1, 6]


def test_capacity_refuses_what_is_no_number_no_node_and_no_request():
    cluster = one_node(EIGHT)
    pod = DeviceRequest("pod", gpus=1)
    with pytest.raises(ValueError, match="most=-1"):
        cluster.capacity(pod, -1)
    with pytest.raises(KeyError, match="there is no such node"):
        cluster.capacity(pod, 1, nodes=["elsewhere"])
    with pytest.raises(TypeError, match="request must be a DeviceRequest"):
        cluster.capacity("pod", 1)
    with pytest.raises(TypeError, match=r"after\[0\] must be a DeviceRequest"):
        cluster.capacity(pod, 1, after=("pod", 1))
    with pytest.raises(ValueError, match=r"after\[1\]=-1"):
        cluster.capacity(pod, 1, after=(pod, -1))
    assert DeviceCluster({}).capacity(pod, 1).tolist() == []


# --- owners


def test_owners_are_known_by_name_and_node():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    cluster.allocate(DeviceRequest("y", 1), "b")
    cluster.allocate(DeviceRequest("x", 1), "b")
    assert cluster.owners("b") == ("x", "y")
    assert cluster.owners("a") == ()
    assert len(cluster) == 2
    assert "x" in cluster
    assert "z" not in cluster
    assert 3 not in cluster
    assert cluster.node_of("x") == "b"
    assert cluster.allocations("y") == (
        DeviceAllocation("gpu", 0, {"core": 100, "memory": 80 * GIB}),
    )
    cluster.release("y")
    assert cluster.owners("b") == ("x",)


def test_percents_are_recovered_as_the_bytes_that_they_were_charged_as():
    cluster = one_node(NodeDevices.uniform(gpus=1, gpu_memory=1001))
    cluster.recover("x", "n", [DeviceAllocation("gpu", 0, {"memory_ratio": 29})])
    assert cluster.allocations("x") == (DeviceAllocation("gpu", 0, {"memory": 290}),)
    cluster.recover("x", "n", [DeviceAllocation("gpu", 0, {"memory": 290})])


def test_percents_become_bytes_when_a_card_comes_back_that_has_them():
    cluster = one_node(NodeDevices(()))
    records = {"x": {"memory_ratio": 29}, "y": {"memory_ratio": 2**48}}
    for minor, (name, amounts) in enumerate(records.items()):
        cluster.recover(name, "n", [DeviceAllocation("gpu", minor, amounts)])
    cluster.set_inventory("n", NodeDevices.uniform(gpus=2, gpu_memory=1001))
    assert dict(cluster.allocations("x")[0].amounts) == {"memory": 290}
    assert dict(cluster.allocations("y")[0].amounts) == {"memory": 2**48}  # as much as can be
    assert code(cluster, 1, memory=712) == "capacity"
    assert code(cluster, 1, memory=711) is None
    before = cluster.to_bytes()
    cluster.recover("x", "n", [DeviceAllocation("gpu", 0, records["x"])])  # as before
    assert DeviceCluster.from_bytes(before).to_bytes() == cluster.to_bytes() == before
    cluster.check()


def test_an_owner_that_is_recovered_elsewhere_or_with_other_devices_is_refused():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    held = [DeviceAllocation("gpu", 0, {"core": 100})]
    cluster.recover("x", "a", held)
    before = cluster.to_bytes()
    for node, other in (
        ("b", held),
        ("a", []),
        ("a", [DeviceAllocation("gpu", 1, {"core": 100})]),
        ("a", [DeviceAllocation("gpu", 0, {"core": 99})]),
        ("a", [DeviceAllocation("gpu", 0, {"core": 100}, exclusive="device")]),
        ("a", [DeviceAllocation("gpu", 0, {"core": 100}, VirtualFunction("v"))]),
    ):
        with pytest.raises(ValueError, match="'x': has other devices"):
            cluster.recover("x", node, other)
    assert cluster.to_bytes() == before


def test_a_virtual_function_is_known_by_its_address_when_its_nic_has_gone():
    cluster = one_node(nics([VirtualFunctionGroup([VirtualFunction("a", 4)])]))
    bound(cluster, "x", **NIC_WITH_VF)
    assert cluster.allocations("x")[0].function == VirtualFunction("a", 4)
    cluster.set_inventory("n", NodeDevices(()))
    assert cluster.allocations("x")[0].function == VirtualFunction("a")
    other = DeviceCluster.from_bytes(cluster.to_bytes())
    other.set_inventory("n", nics([VirtualFunctionGroup(["a"])]))
    assert code(other, **NIC_WITH_VF) == "capacity"


def test_there_may_be_any_number_of_inventories():
    cluster = DeviceCluster()
    for i in range(1100):
        cluster.add_node(f"n{i}", NodeDevices.uniform(gpus=1, gpu_memory=1 + i % 3))
    assert cluster.schedule(DeviceRequest("x", 1, memory=3)).node == "n2"
    cluster.check()


# --- commits


def test_a_decision_says_what_it_is_and_does_not_change():
    cluster = one_node(EIGHT)
    decision = cluster.schedule(DeviceRequest("x", 2))
    assert repr(decision) == "DeviceDecision('bind', 'x', node='n')"
    assert (decision.reason, decision.refusal, decision.victims) == ("", None, ())
    with pytest.raises(AttributeError):
        decision.node = "m"
    decision.verify(EIGHT)
    with pytest.raises(CertificateError, match="too little"):
        decision.verify(EIGHT, decision.placement)


def test_a_decision_is_committed_once():
    cluster = one_node(EIGHT)
    decision = cluster.schedule(DeviceRequest("x", 1))
    cluster.commit(decision)
    with pytest.raises(StaleDecisionError, match="'x' has devices"):
        cluster.commit(decision)
    cluster.release("x")
    cluster.commit(decision)  # it holds again


def test_a_decision_to_wait_and_one_of_another_cluster_cannot_be_committed():
    cluster, other = one_node(EIGHT), one_node(EIGHT)
    with pytest.raises(ValueError, match="'bind', not 'wait'"):
        cluster.commit(cluster.schedule(DeviceRequest("x", 9)))
    decision = cluster.schedule(DeviceRequest("x", 1))
    with pytest.raises(ValueError, match="another cluster"):
        other.commit(decision)
    assert len(other) == 0
    for same in (copy.copy(decision), pickle.loads(pickle.dumps(decision))):
        branch = other.copy()
        branch.commit(same)
        assert branch.allocations("x") == decision.placement


def test_a_decision_by_value_fits_where_its_names_mean_the_same():
    decision = pickle.loads(pickle.dumps(one_node(EIGHT).schedule(DeviceRequest("x", 8))))
    with pytest.raises(StaleDecisionError, match="'n' is not here"):
        DeviceCluster({"m": EIGHT}).commit(decision)
    with pytest.raises(StaleDecisionError, match="'n'"):
        one_node(NodeDevices.uniform(gpus=7)).commit(decision)
    twice_as_large = NodeDevices.uniform(gpus=8, gpu_memory=160 * GIB)
    with pytest.raises(StaleDecisionError, match="too little memory"):
        one_node(twice_as_large).commit(decision)
    cluster = DeviceCluster({"other": EIGHT, "n": EIGHT})
    cluster.commit(decision)
    assert cluster.node_of("x") == "n"


def placed(**fields):
    """Two GPUs on one switch, with other fields."""
    base = {"pcie": "0", "numa": 0, "socket": 0, "labels": {"ring": "a"}}
    amounts = fields.pop("amounts", {"core": 100, "memory": 1000, "memory_ratio": 100})
    return tuple(Device("gpu", i, amounts, **base | fields) for i in (0, 1))


APART = tuple(device.replace(pcie=str(device.minor)) for device in placed())
LARGER = placed(amounts={"core": 100, "memory": 2000, "memory_ratio": 100})


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (
            {"gpus": 1, "gpu_wishes": {"selector": {"ring": "a"}}},
            {},
            {"devices": placed(labels={})},
        ),
        ({"gpus": 1, "models": ["T4"]}, {"model": "T4"}, {"model": "H20"}),
        (
            {"gpus": 1, "memory": 1, "isolation_provider": "HAMi-core"},
            {"isolation_provider": "HAMi-core"},
            {},
        ),
        ({"gpus": 1, "memory_percent": 50}, {}, {"devices": LARGER}),
        ({"gpus": 1}, {}, {"devices": LARGER}),
        ({"gpus": 2, "gpu_wishes": {"scope": "pcie"}}, {}, {"devices": APART}),
        (
            {"gpus": 2},
            {},
            {"partitions": PartitionTable.of_sets([(0,), (1,)]), "partition_policy": "honor"},
        ),
        ({"gpus": 2}, {}, {"devices": placed()[:1]}),
        ({"gpus": 2}, {}, {"devices": placed(healthy=False)}),
        (
            {"needs": [DeviceNeed("gpu", amounts={"core": 1}, every=True)]},
            {"devices": placed()[:1]},
            {},
        ),
    ],
)
def test_a_decision_is_stale_when_its_node_is_no_longer_as_asked(arguments, before, after):
    cluster = one_node(NodeDevices(**{"devices": placed()} | before))
    decision = cluster.schedule(DeviceRequest("x", **arguments))
    assert decision.outcome == "bind"
    loose = pickle.loads(pickle.dumps(decision))
    cluster.set_inventory("n", NodeDevices(**{"devices": placed()} | after))
    state = cluster.to_bytes()
    for first in (decision, loose):
        with pytest.raises(StaleDecisionError, match="'n'"):
            cluster.commit(first)
    assert cluster.to_bytes() == state


def test_a_decision_outlives_changes_of_its_node_that_do_not_concern_it():
    cluster = one_node(EIGHT)
    decision = cluster.schedule(DeviceRequest("x", 2, gpu_wishes={"scope": "pcie"}))
    cluster.set_health("n", False, type="gpu", minor=7)
    cluster.set_inventory("n", NodeDevices.uniform(gpus=8, sockets=2, switches=4, model="T4"))
    cluster.allocate(DeviceRequest("y", 2, gpu_wishes={"exclusive": "pcie"}), "n", policy="spread")
    cluster.release("y")
    cluster.commit(decision)
    cluster.check()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gpus": 1}, {"gpus": 1}),
        ({"gpus": 1, "memory": 50 * GIB}, {"gpus": 1, "memory": 31 * GIB}),
        (NIC_WITH_VF, NIC_WITH_VF),
        ({"gpus": 1, "memory": 1, "gpu_wishes": {"exclusive": "device"}}, {"gpus": 1, "memory": 1}),
        ({"gpus": 1, "memory": 1}, {"gpus": 1, "memory": 1, "gpu_wishes": {"exclusive": "pcie"}}),
        ({"gpus": 1, "memory": 1}, {"gpus": 2, "partition": "best-effort"}),
    ],
)
def test_a_decision_is_stale_when_another_has_overtaken_it(first, second):
    node = NodeDevices.uniform(gpus=2, nics=1, functions=1, model="H100")
    cluster = one_node(node)
    decision = cluster.schedule(DeviceRequest("one", **first))
    other = cluster.schedule(DeviceRequest("other", **second))
    cluster.commit(decision)
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError, match="taken"):
        cluster.commit(other)
    assert cluster.to_bytes() == before


# --- gangs


def test_a_gang_is_decided_one_after_the_other_and_changes_nothing():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    before = cluster.to_bytes()
    gang = [DeviceRequest(f"x{i}", 4) for i in range(5)]
    decisions = cluster.schedule_many(gang)
    assert [decision.node for decision in decisions] == ["a", "a", "b", "b", ""]
    assert decisions[4].refusal.code == "capacity"
    assert cluster.to_bytes() == before
    cluster.commit_many(decisions[:4])
    assert len(cluster) == 4
    cluster.check()


def test_a_gang_is_committed_as_a_whole_or_not_at_all():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    decisions = cluster.schedule_many([DeviceRequest(f"x{i}", 8) for i in range(2)])
    cluster.allocate(DeviceRequest("o", 1), "b")
    before = cluster.to_bytes()
    with pytest.raises(StaleDecisionError):
        cluster.commit_many(decisions)
    with pytest.raises(StaleDecisionError):
        cluster.commit_many([decisions[0], decisions[0]])
    with pytest.raises(TypeError, match="decision"):
        cluster.commit_many([decisions[0], "x1"])
    with pytest.raises(ValueError, match="wait"):
        cluster.commit_many([decisions[0], cluster.schedule(DeviceRequest("y", 9))])
    assert cluster.to_bytes() == before
    cluster.check()


def test_to_allocate_is_to_decide_and_commit_on_one_node():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    assert cluster.allocate(DeviceRequest("x", 8), "b").node == "b"
    assert cluster.node_of("x") == "b"
    assert cluster.allocate(DeviceRequest("y", 1), "b").outcome == "wait"
    assert "y" not in cluster


# --- mixes


def test_fragmentation_is_the_idle_memory_that_the_pods_to_come_cannot_use():
    mix = TaskMix({Task(60, False, 1, 0, ()): 3, Task(0, False, 0, 0, ()): 1})
    node = NodeDevices.uniform(gpus=2, gpu_memory=100)
    cluster = DeviceCluster({"a": node, "b": node}, mix=mix)
    # A quarter of the pods has no use for GPUs: all 400 are useless to it.
    assert cluster.fragmentation() == 400 / 4
    bound(cluster, "x", 1, memory=50)
    # 50 are too few for the others.
    assert cluster.fragmentation(node="a") == (3 * 50 + 150) / 4
    assert cluster.fragmentation(node="b") == 200 / 4
    assert cluster.fragmentation() == 75 + 50


def test_a_cluster_learns_its_mix_while_fgd_is_its_policy():
    node = NodeDevices.uniform(gpus=2, gpu_memory=100)
    for policy, learns in (("fgd", True), ("bin-pack", False)):
        cluster = one_node(node, policy=policy)
        assert cluster.fragmentation() == 0
        bound(cluster, "x", 1, memory=60)
        assert cluster.fragmentation() == (40 if learns else 0)
        cluster.release("x")
        assert cluster.fragmentation() == 0


def test_to_decide_for_a_gang_teaches_nothing():
    cluster = one_node(NodeDevices.uniform(gpus=4, gpu_memory=100), policy="fgd")
    bound(cluster, "x", 1, memory=60)
    before = cluster.to_bytes(), cluster.fragmentation()
    decisions = cluster.schedule_many([DeviceRequest(f"y{i}", 1, memory=90) for i in range(3)])
    assert (cluster.to_bytes(), cluster.fragmentation()) == before
    with pytest.raises(StaleDecisionError):
        cluster.commit_many([*decisions, decisions[0]])
    assert (cluster.to_bytes(), cluster.fragmentation()) == before


def test_a_learned_mix_that_grows_too_heavy_is_halved():
    node = NodeDevices.uniform(gpus=256, gpu_memory=2**48)  # 2**56 together; 2**57 is too much
    cluster = one_node(node, policy="fgd")
    for i in range(40):
        bound(cluster, f"x{i}", 1, memory=2**48 - i)
        assert cluster.fragmentation() >= 0
    assert DeviceCluster.from_bytes(cluster.to_bytes()).fragmentation() == cluster.fragmentation()


def test_questions_and_saving_leave_what_was_learned_as_it_was():
    node = NodeDevices.uniform(gpus=8, gpu_memory=1000)
    wish = [DeviceRequest(f"x{i}", 1, memory=10 + 7 * i) for i in range(60)]
    item = DeviceCluster({"a": node, "b": node}, policy="fgd")
    decisions = []
    for request in wish:
        decisions.append(pickle.loads(pickle.dumps(item.schedule(request))))
        item.commit(decisions[-1])
    silent = DeviceCluster({"a": node, "b": node}, policy="fgd")
    silent.commit_many(decisions)
    curious = DeviceCluster({"a": node, "b": node}, policy="fgd")
    for decision in decisions:
        curious.schedule_many([DeviceRequest(f"y{i}", 1, memory=999) for i in range(5)])
        curious.fragmentation()
        curious.commit(decision)
        curious = DeviceCluster.from_bytes(curious.to_bytes())
    assert item.to_bytes() == silent.to_bytes() == curious.to_bytes()
    assert item.fragmentation() == silent.fragmentation() == curious.fragmentation() > 0


def test_of_ever_new_classes_the_common_ones_are_remembered():
    cluster = one_node(NodeDevices.uniform(gpus=8, gpu_memory=10**6), policy="fgd")
    for i in range(3000):
        for request in (
            DeviceRequest("common", 1, memory=5 * 10**5),
            DeviceRequest("rare", 1, memory=10**5 + i),
        ):
            cluster.commit(cluster.schedule(request, policy="bin-pack"))
            cluster.release(request.name)
    # A card with less free than the common class needs is of no use to at least half of the pods.
    cluster.recover("o", "n", [DeviceAllocation("gpu", 0, {"memory": 6 * 10**5})])
    assert cluster.fragmentation() > 4 * 10**5 * 0.5
    assert len(cluster.to_bytes()) < 1200 * 2 * 50


def test_a_mix_that_is_too_heavy_for_the_memory_of_a_node_is_refused():
    mix = TaskMix({Task(1, False, 1, 0, ()): 2**31 - 1})
    cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=1, gpu_memory=2**40)}, mix=mix)
    with pytest.raises(ValueError, match="mix"):
        cluster.fragmentation()


# --- saved states


def busy_cluster(policy="bin-pack"):
    nodes = {
        "cpu": NodeDevices((Device("host", 0, {"cpu": 64000, "memory": 10**9}),)),
        "left": EIGHT,
        "gpu": NodeDevices.uniform(gpus=4, nics=2, functions=2, switches=2, model="H100"),
        "tiers": TIERS,
        "odd": NodeDevices(placed(module_id=None)[:1], vendor="nvidia", isolation_provider="x"),
        "none": NodeDevices(()),
    }
    cluster = DeviceCluster(nodes, policy=policy, seed=7)
    cluster.remove_node("left")
    cluster.allocate(DeviceRequest("vf", 1, **NIC_WITH_VF, priority=-3, **JOINT), "gpu")
    wishes = {"exclusive": "pcie"}
    cluster.allocate(DeviceRequest("alone", 1, memory=5, gpu_wishes=wishes), "gpu")
    cluster.allocate(DeviceRequest("host", cpu_milli=5), "cpu")
    cluster.recover("gone", "none", [DeviceAllocation("gpu", 3, {"core": 1})], priority=2)
    cluster.allocate(DeviceRequest("\udc00 \N{SNOWMAN}", 2), "tiers")
    cluster.set_health("gpu", False, type="gpu", minor=3)
    assert len(cluster) == 5
    return cluster


@pytest.mark.parametrize("policy", POLICIES)
def test_all_of_a_cluster_is_saved(policy):
    cluster = busy_cluster(policy)
    for other in (
        DeviceCluster.from_bytes(cluster.to_bytes()),
        pickle.loads(pickle.dumps(cluster)),
        cluster.copy(),
        copy.deepcopy(cluster),
    ):
        other.check()
        assert other.to_bytes() == cluster.to_bytes()
        assert other.nodes == cluster.nodes
        assert len(other) == len(cluster)
        for node in cluster.nodes:
            assert other.inventory(node) == cluster.inventory(node)
            assert other.owners(node) == cluster.owners(node)
            for owner in cluster.owners(node):
                assert other.allocations(owner) == cluster.allocations(owner)
        for request in (
            DeviceRequest("a", 1),
            DeviceRequest("b", 1, memory=1),
            DeviceRequest("c", cpu_milli=10),
            DeviceRequest("d", 1, nics=1, **JOINT),
        ):
            decision, same = cluster.schedule(request), other.schedule(request)
            assert (decision.node, decision.placement, decision.reason) == (
                same.node,
                same.placement,
                same.reason,
            )
        other.add_node("new", EIGHT)
        assert other.nodes.index("new") == 1  # the place of the one that left
        other.release("vf")
        assert "vf" in cluster


def test_saved_nonsense_is_refused_or_sound():
    def small():
        cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=1, nics=1, functions=1)})
        cluster.allocate(DeviceRequest("x", 1, **NIC_WITH_VF), "n")
        return cluster

    sealed_nonsense_is_refused_or_sound(small)


def test_a_state_of_mode_koordinator_is_refused_with_what_to_do_instead():
    payload = unseal(b"HCDC", 1, busy_cluster().to_bytes())
    assert payload.count(b'"quirks":null') == 1
    old = payload.replace(b'"quirks":null', b'"quirks":["greedy_joint"]')
    with pytest.raises(CorruptStateError, match="no longer has; add its nodes to a new Device"):
        DeviceCluster.from_bytes(seal(b"HCDC", 1, old))


# --- bad input


HELD = [DeviceAllocation("gpu", 7, {"core": 1})]
BAD = [
    (TypeError, "request", lambda c: c.schedule("x")),
    (TypeError, "request", lambda c: c.fits(None)),
    (TypeError, "request", lambda c: c.filter(DeviceNeed("gpu", 1, {"core": 1}))),
    (TypeError, "request", lambda c: c.allocate("x", "n")),
    (TypeError, "request", lambda c: c.explain(3)),
    (TypeError, "request", lambda c: c.schedule_many(["x"])),
    (TypeError, "requests", lambda c: c.schedule_many(DeviceRequest("x"))),
    (ValueError, "requests.*twice", lambda c: c.schedule_many([DeviceRequest("x", 1)] * 2)),
    (ValueError, "'o' has devices", lambda c: c.schedule(DeviceRequest("o", 1))),
    (
        ValueError,
        "'o' has devices",
        lambda c: c.schedule_many([DeviceRequest("x", 1), DeviceRequest("o", 1)]),
    ),
    (ValueError, "policy", lambda c: c.schedule(DeviceRequest("x"), policy="tight")),
    (TypeError, "policy", lambda c: c.filter(DeviceRequest("x"), policy=3)),
    (KeyError, "node='m'", lambda c: c.schedule(DeviceRequest("x"), nodes=["n", "m"])),
    (KeyError, "node='m'", lambda c: c.filter(DeviceRequest("x"), nodes=["m"])),
    (TypeError, "nodes", lambda c: c.schedule(DeviceRequest("x"), nodes="n")),
    (TypeError, "nodes", lambda c: c.filter(DeviceRequest("x"), nodes=3)),
    (TypeError, "node", lambda c: c.schedule(DeviceRequest("x"), nodes=[3])),
    (KeyError, "node='m'", lambda c: c.allocate(DeviceRequest("x"), "m")),
    (TypeError, "decision", lambda c: c.commit(DeviceRequest("x"))),
    (TypeError, "decisions", lambda c: c.commit_many(None)),
    (KeyError, "'x'", lambda c: c.release("x")),
    (KeyError, "3", lambda c: c.release(3)),
    (KeyError, "'x'", lambda c: c.node_of("x")),
    (KeyError, "'x'", lambda c: c.allocations("x")),
    (KeyError, "node='m'", lambda c: c.owners("m")),
    (TypeError, "node", lambda c: c.owners(None)),
    (KeyError, "node='m'", lambda c: c.inventory("m")),
    (KeyError, "node='m'", lambda c: c.fragmentation(node="m")),
    (ValueError, "node='n'", lambda c: c.add_node("n", EIGHT)),
    (ValueError, "node", lambda c: c.add_node("", EIGHT)),
    (TypeError, "node", lambda c: c.add_node(3, EIGHT)),
    (TypeError, "inventory", lambda c: c.add_node("m", EIGHT.devices)),
    (KeyError, "node='m'", lambda c: c.remove_node("m")),
    (KeyError, "node='m'", lambda c: c.set_inventory("m", EIGHT)),
    (TypeError, "inventory", lambda c: c.set_inventory("n", None)),
    (KeyError, "node='m'", lambda c: c.set_health("m", False)),
    (TypeError, "healthy", lambda c: c.set_health("n", 0)),
    (ValueError, "type", lambda c: c.set_health("n", False, type="tpu")),
    (ValueError, "minor=1", lambda c: c.set_health("n", False, minor=1)),
    (KeyError, "minor=9", lambda c: c.set_health("n", False, type="gpu", minor=9)),
    (KeyError, "type='fpga'", lambda c: c.set_health("n", False, type="fpga")),
    (TypeError, "minor", lambda c: c.set_health("n", False, type="gpu", minor="0")),
    (ValueError, "name", lambda c: c.recover("", "n", HELD)),
    (TypeError, "name", lambda c: c.recover(None, "n", HELD)),
    (KeyError, "node='m'", lambda c: c.recover("x", "m", HELD)),
    (TypeError, "allocations", lambda c: c.recover("x", "n", HELD[0])),
    (TypeError, "allocations", lambda c: c.recover("x", "n", ["gpu"])),
    (ValueError, "allocations.*twice", lambda c: c.recover("x", "n", HELD * 2)),
    (ValueError, "priority", lambda c: c.recover("x", "n", HELD, priority=2**31)),
    (
        ValueError,
        "memory",
        lambda c: c.recover("x", "n", [DeviceAllocation("gpu", 0, {"memory_ratio": 2**48})]),
    ),
    (ValueError, "policy", lambda c: DeviceCluster(policy="")),
    (TypeError, "mix", lambda c: DeviceCluster(mix={})),
    (ValueError, "seed", lambda c: DeviceCluster(seed=2**64)),
    (TypeError, "nodes", lambda c: DeviceCluster([EIGHT])),
    (TypeError, r"nodes\['a'\] must be a NodeDevices", lambda c: DeviceCluster({"a": 1})),
    (TypeError, "nodes must be a string", lambda c: DeviceCluster({1: EIGHT})),
    (ValueError, "node", lambda c: DeviceCluster({"": EIGHT})),
    (TypeError, r"nodes\['n'\]", lambda c: DeviceCluster({"n": None})),
]


@pytest.mark.parametrize(("error", "match", "call"), BAD)
def test_bad_input_is_refused_by_name_and_changes_nothing(error, match, call):
    cluster = one_node(EIGHT)
    cluster.allocate(DeviceRequest("o", 1), "n")
    before = cluster.to_bytes()
    with pytest.raises(error, match=match) as raised:
        call(cluster)
    assert raised.type is error
    assert cluster.to_bytes() == before
    cluster.check()


# --- at the limits


def test_what_was_removed_does_not_count_after_a_restart_either():
    def node(cpu, memory):
        host = Device("host", 0, {"cpu": cpu, "memory": 1})
        return NodeDevices((host, *NodeDevices.uniform(gpus=1, gpu_memory=memory).devices))

    cluster = DeviceCluster(
        {"big": node(10**6, 100), "a": node(4000, 50), "b": node(1000, 100)}, policy="best-fit"
    )
    cluster.remove_node("big")
    request = DeviceRequest("x", 1, memory=10, cpu_milli=10)
    assert (
        cluster.schedule(request).node
        == DeviceCluster.from_bytes(cluster.to_bytes()).schedule(request).node
    )


def test_what_is_over_committed_beyond_an_int64_is_not_free():
    cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=1, gpu_memory=2**40)})
    for i in range(2**15 + 1):
        cluster.recover(f"o{i}", "n", [DeviceAllocation("gpu", 0, {"memory": 2**48})])
    assert not cluster.fits(DeviceRequest("x", 1, memory=1))


def test_a_virtual_function_that_is_on_another_nic_now_stays_its_owner_s():
    group = VirtualFunctionGroup(["v"])
    first, other = (Device("rdma", i, {"share": 100}) for i in range(2))
    cluster = DeviceCluster({"n": NodeDevices((first.replace(vf_groups=(group,)), other))})
    request = DeviceRequest("x", nics=1, nic_percent=1, nic_wishes={"vf_selector": {}})
    cluster.commit(cluster.schedule(request))
    cluster.set_inventory("n", NodeDevices((first, other.replace(vf_groups=(group,)))))
    assert not cluster.fits(request.replace(name="y"))


def test_inventories_that_are_gone_take_no_memory():
    cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=8)})
    before = sys.getsizeof(cluster)
    for i in range(1000):
        cluster.set_inventory("n", NodeDevices.uniform(gpus=8, gpu_memory=10**6 + i))
    assert sys.getsizeof(cluster) < 20 * before


@pytest.mark.parametrize("policy", ["fgd", "packing", "clustering", "dot-product", "best-fit"])
def test_every_policy_takes_a_node_that_has_no_gpus(policy):
    host = Device("host", 0, {"cpu": 1000, "memory": 1000})
    cluster = DeviceCluster({"bare": NodeDevices(()), "host": NodeDevices((host,))}, policy=policy)
    request = DeviceNeed("host", 1, {"cpu": 10, "memory": 10})
    decision = cluster.schedule(DeviceRequest("p", needs=[request]))
    assert (decision.node, cluster.fragmentation()) == ("host", 0)
