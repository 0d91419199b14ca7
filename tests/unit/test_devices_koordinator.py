"""The twin of Koordinator's device allocation: its rules, and its defects with and without them.

Numbers marked "upstream" are those of Koordinator a7a1b76b, pkg/scheduler/plugins/deviceshare, from
allocator_gpu_test, device_resources_test and scoring_test, in our own terms.
"""

import pytest

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)
from hivecore.reference.devices.koordinator import (
    QUIRKS,
    Failure,
    NumaHint,
    Reservation,
    Reservations,
    Restriction,
    allocate,
    allocate_reserved,
    designated,
    designated_hint,
    filter_nodes,
    merge_hints,
    normalised,
    numa_hints,
    score_node,
)
from hivecore.reference.devices.koordinator.choices.default_order import dealt
from hivecore.reference.devices.koordinator.scores import score
from hivecore.reference.devices.node_state import Charge, NodeState

GIB = 1 << 30
COMPUTED = Restriction(preemptible={})  # the view that filters use, although it takes nothing away


def gpu(minor, numa=None, pcie=None, memory=80 * GIB, **more):
    amounts = {"core": 100, "memory": memory, "memory_ratio": 100}
    return Device("gpu", minor, amounts, numa=numa, pcie=pcie, **more)


def nic(minor, numa=None, pcie=None, functions=(), **more):
    groups = [VirtualFunctionGroup(list(functions), {"type": "fast"})] if functions else []
    return Device("rdma", minor, {"share": 100}, numa=numa, pcie=pcie, vf_groups=groups, **more)


def a100(**more):
    """Four switches with two GPUs and a NIC each; two of them in a NUMA node."""
    gpus = [gpu(i, i // 4, str(i // 2)) for i in range(8)]
    nics = [nic(i, (i - 1) // 2, str(i - 1), [f"{i}:2", f"{i}:1", f"{i}:3"]) for i in range(1, 5)]
    return NodeDevices((*gpus, *nics), **more)


def h800(model="H800", policy="honor", **more):
    """Eight switches with a GPU and a NIC each; four of them in a NUMA node."""
    gpus = [gpu(i, i // 4, str(i)) for i in range(8)]
    nics = [nic(i + 1, i // 4, str(i), [f"{i}:1", f"{i}:2"]) for i in range(8)]
    return NodeDevices((*gpus, *nics), partition_policy=policy, model=model, **more)


def node(inventory, **owners):
    state = NodeState(inventory)
    for name, charges in owners.items():
        state.charge(name, tuple(charges))
    return state


def whole(*minors):
    amounts = {"core": 100, "memory_ratio": 100, "memory": 80 * GIB}
    return [Charge("gpu", minor, amounts) for minor in minors]


def half(*minors):
    amounts = {"core": 50, "memory_ratio": 50, "memory": 40 * GIB}
    return [Charge("gpu", minor, amounts) for minor in minors]


def share(minor, amount=1, function=None):
    return Charge("rdma", minor, {"share": amount}, function)


def minors(answer, type_="gpu"):
    assert not isinstance(answer, Failure), answer
    return [charge.minor for charge in answer if charge.type == type_]


def code(answer):
    assert isinstance(answer, Failure), answer
    return answer.code, answer.resolvable


def gpus_with_nics(count, nics=1, **more):
    """Whole GPUs with a virtual function of a NIC near to each switch."""
    wishes = {"vf_selector": {}}
    options = {"joint": ("gpu", "rdma"), "same_pcie": True} | more
    return DeviceRequest("pod", count, nics=nics, nic_percent=1, nic_wishes=wishes, **options)


# --- 1.1 and 1.2: inventory and demands ---------------------------------------------------------


def test_an_unhealthy_device_is_not_given_and_keeps_its_users():
    devices = a100().devices
    ill = [d.replace(healthy=d.minor != 0) if d.type == "gpu" else d for d in devices]
    state = node(NodeDevices(tuple(ill)), user=whole(0))
    assert 0 not in minors(allocate(state, DeviceRequest("pod", 7)))
    assert code(allocate(state, DeviceRequest("pod", 8))) == ("insufficient_gpus", True)
    state.set_inventory(NodeDevices(devices))
    assert code(allocate(state, DeviceRequest("pod", 8))) == ("insufficient_gpus", True)


def test_an_amount_that_a_device_does_not_name_is_no_limit_until_it_is_used():
    state = node(NodeDevices((Device("gpu", 0, {"memory": 8, "memory_ratio": 100}),)))
    request = DeviceRequest("pod", 1, core=60, memory_percent=40)
    answer = allocate(state, request)
    assert minors(answer) == [0]
    state.charge("first", answer)
    assert code(allocate(state, request)) == ("insufficient", True)
    assert minors(allocate(state, DeviceRequest("pod", 1, memory_percent=40))) == [0]


@pytest.mark.parametrize(
    ("inventory", "request_", "expected"),
    [
        (NodeDevices((nic(0),)), DeviceRequest("pod", 1), ("no_devices", False)),
        (
            NodeDevices((nic(0),)),
            DeviceRequest("pod", nics=1, nic_wishes={"vf_selector": {}}),
            ("no_virtual_functions", False),
        ),
        (
            NodeDevices((nic(0, labels={"k": "a"}),)),
            DeviceRequest("pod", nics="all", nic_wishes={"selector": {"k": "b"}}),
            ("no_devices", False),
        ),
        (NodeDevices((nic(0),)), DeviceRequest("pod", nics=2), ("insufficient", True)),
    ],
)
def test_what_a_node_never_can_is_told_from_what_it_cannot_now(inventory, request_, expected):
    assert code(allocate(node(inventory), request_)) == expected


def test_all_devices_of_a_selector_are_taken_or_none():
    nics = (nic(0, labels={"k": "a"}), nic(1), nic(2, labels={"k": "a"}))
    request = DeviceRequest("pod", nics="all", nic_wishes={"selector": {"k": "a"}}, nic_percent=1)
    assert minors(allocate(node(NodeDevices(nics)), request), "rdma") == [0, 2]
    state = node(NodeDevices(nics), user=[share(2, 100)])
    assert code(allocate(state, request)) == ("insufficient", True)


def test_types_that_are_planned_with_gpus_wait_for_the_reservation_of_the_node():
    state = node(a100(secondary_well_planned=True))
    request = gpus_with_nics(2)
    assert minors(allocate(state, request), "rdma") == []
    assert minors(allocate(state, request, Restriction(reserving=True)), "rdma") == [1]
    shared = DeviceRequest("pod", 1, memory_percent=50, nics=1, joint=("gpu", "rdma"))
    assert minors(allocate(state, shared), "rdma") == [1]


def test_what_the_host_gives_is_not_looked_at():
    assert allocate(node(a100()), DeviceRequest("pod", cpu_milli=10**6)) == ()


def test_shared_gpus_need_the_isolation_that_they_name():
    asked = {"isolation_provider": "HAMi-core"}
    shared = DeviceRequest("pod", 1, memory_percent=50, **asked)
    assert code(allocate(node(a100()), shared)) == ("no_isolation", False)
    assert minors(allocate(node(a100(**asked)), shared)) == [0]
    assert minors(allocate(node(a100()), DeviceRequest("pod", 1, **asked))) == [0]


# --- 1.4: the view ------------------------------------------------------------------------------


def test_a_mask_of_numa_nodes_shows_their_devices_and_those_on_none():
    request = DeviceRequest("pod", 2)
    assert minors(allocate(node(a100()), request, Restriction(numa=frozenset({1})))) == [4, 5]
    lost = NodeDevices((gpu(0), gpu(1, None, "x"), gpu(2, 0, "0"), gpu(3, 1, "1")))
    assert minors(allocate(node(lost), request, Restriction(numa=frozenset({1})))) == [1, 3]


def test_devices_of_other_labels_are_not_seen():
    gpus = (gpu(0, labels={"k": "a"}), gpu(1, labels={"k": "b"}))
    request = DeviceRequest("pod", 1, gpu_wishes={"selector": {"k": "b"}})
    assert minors(allocate(node(NodeDevices(gpus)), request)) == [1]


def test_what_victims_use_is_to_be_had():
    state = node(a100(), victim=whole(2, 3), other=whole(0, 1, 4, 5, 6, 7))
    request = DeviceRequest("pod", 2)
    assert code(allocate(state, request, COMPUTED)) == ("insufficient_gpus", True)
    victims = {"gpu": {charge.minor: charge.amounts for charge in state.owners["victim"]}}
    assert minors(allocate(state, request, Restriction(preemptible=victims))) == [2, 3]


def test_required_amounts_are_all_that_is_to_be_had():
    limits = {"gpu": {4: {"core": 50, "memory_ratio": 50}}}
    restriction = Restriction(required=limits)
    small = DeviceRequest("pod", 1, core=50, memory_percent=50)
    assert minors(allocate(node(a100()), small, restriction)) == [4]
    large = DeviceRequest("pod", 1, core=50, memory_percent=60)
    assert code(allocate(node(a100()), large, restriction)) == ("insufficient_gpus", True)


# --- 1.5 and 1.8: joint choice and the default order --------------------------------------------


def on_switches(**switches):
    """NICs by minor on the switches that are named; NICs 0 to 7, the others have no place."""
    places = {i: switch for switch, found in switches.items() for i in found}
    nics = tuple(nic(i, 0, places[i]) if i in places else nic(i) for i in range(8))
    return node(NodeDevices(nics))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], [1, 5, 2, 6, 0, 3, 4, 7]),
        ([6, 5, 0, 1, 2, 3, 4, 7], [6, 1, 5, 2, 0, 3, 4, 7]),
        ([5, 6, 0, 1, 2, 3, 4, 7], [5, 1, 6, 2, 0, 3, 4, 7]),
    ],
)
def test_nics_are_dealt_to_the_switches_in_rounds(order, expected):
    """Upstream, device_resources_test: three orders by score, switches of NICs 1, 2 and 5, 6."""
    state = on_switches(a=(1, 2), b=(5, 6))
    assert dealt(state, "rdma", order, {"a", "b"}) == expected


def test_there_is_a_nic_for_every_switch_of_the_gpus():
    """Upstream, device_allocator_test: 1, 2, 3, 4, 6 and 8 GPUs of a board of four switches."""
    for count, nics in ((1, 1), (2, 1), (3, 2), (4, 2), (6, 3), (8, 4)):
        answer = allocate(node(a100()), gpus_with_nics(count))
        assert minors(answer) == list(range(count))
        assert minors(answer, "rdma") == list(range(1, nics + 1))


def test_the_lowest_free_bus_address_of_the_wanted_group_is_given():
    request = gpus_with_nics(1)
    answer = allocate(node(a100()), request)
    assert [charge.function for charge in answer if charge.type == "rdma"] == ["1:1"]
    state = node(a100(), user=[share(1, 1, "1:1")])
    assert allocate(state, request)[-1].function == "1:2"
    slow = {"vf_selector": {"type": "slow"}}
    refused = DeviceRequest("pod", nics=1, nic_percent=1, nic_wishes=slow)
    assert code(allocate(state, refused)) == ("insufficient", True)


def test_without_the_same_switches_a_nic_from_elsewhere_will_do():
    state = node(a100(), user=[share(1, 100)])
    assert code(allocate(state, gpus_with_nics(2))) == ("joint_violation", True)
    assert minors(allocate(state, gpus_with_nics(2, same_pcie=False)), "rdma") == [2]
    state = node(a100(), user=[share(2, 100), share(3, 100), share(4, 100)])
    assert minors(allocate(state, gpus_with_nics(4, same_pcie=False)), "rdma") == [1]
    assert code(allocate(state, gpus_with_nics(4))) == ("insufficient", True)


def test_gpus_that_are_not_the_primary_type_do_not_heed_its_switches():
    """Defect D8."""
    state = node(a100(), user=[share(1, 100)])
    request = DeviceRequest("pod", 1, nics=1, joint=("rdma", "gpu"))
    answer = allocate(state, request)
    assert (minors(answer), minors(answer, "rdma")) == ([0], [2])


def test_preferred_minors_come_first_in_the_default_order_and_not_in_the_tree():
    """Defect D7: a tree of GPUs does not know of preferences."""
    preferred = Restriction(preferred_minors={"gpu": frozenset({5}), "rdma": frozenset({3})})
    answer = allocate(node(a100()), DeviceRequest("pod", 1, nics=1), preferred)
    assert (minors(answer), minors(answer, "rdma")) == ([0], [3])
    loose = node(NodeDevices(tuple(gpu(i) for i in range(8))))
    assert minors(allocate(loose, DeviceRequest("pod", 1), preferred)) == [5]


def test_nics_are_taken_by_score_then_by_minor():
    state = node(a100(), user=[share(2, 50), share(3, 50)])
    request = DeviceRequest("pod", nics=1, nic_percent=25)
    assert minors(allocate(state, request), "rdma") == [1]
    assert minors(allocate(state, request, strategy="least_allocated"), "rdma") == [1]
    assert minors(allocate(state, request, strategy="most_allocated"), "rdma") == [2]


# --- 1.6: the topology tree ---------------------------------------------------------------------


def test_the_tightest_scope_wins_then_the_one_in_use():
    """Upstream, allocator_gpu_test: with GPU 5 in use one more is 4, and two are 6 and 7."""
    state = node(a100(), user=whole(5))
    for count, expected in ((1, [4]), (2, [6, 7]), (3, [4, 6, 7]), (4, [0, 1, 2, 3])):
        assert minors(allocate(state, DeviceRequest("pod", count))) == expected
    assert minors(allocate(state, gpus_with_nics(2)), "rdma") == [4]


def test_a_scope_can_be_required():
    """Upstream: four GPUs in one NUMA node, with 5 in use, are 0 to 3; with 0, too, none are."""
    numa = DeviceRequest("pod", 4, gpu_wishes={"scope": "numa"})
    assert minors(allocate(node(a100(), user=whole(5)), numa)) == [0, 1, 2, 3]
    state = node(a100(), user=whole(0, 5))
    assert code(allocate(state, numa)) == ("insufficient_scope", True)
    for scope in ("node", "socket"):
        wide = DeviceRequest("pod", 4, gpu_wishes={"scope": scope})
        assert minors(allocate(state, wide)) == [1, 2, 3, 4]


def test_a_required_scope_of_one_device_fails_where_there_is_a_tree():
    request = DeviceRequest("pod", 1, gpu_wishes={"scope": "device"})
    assert code(allocate(node(a100()), request)) == ("insufficient_scope", True)


def test_no_scope_can_be_required_where_the_place_of_a_gpu_is_not_known():
    state = node(NodeDevices((gpu(0, 0, "0"), gpu(1))))
    assert minors(allocate(state, DeviceRequest("pod", 2))) == [0, 1]
    request = DeviceRequest("pod", 2, gpu_wishes={"scope": "node"})
    assert code(allocate(state, request)) == ("no_topology", False)


def test_shares_of_several_gpus_are_taken_in_the_default_order():
    state = node(a100(), user=whole(0) + half(1))
    shares = {"core": 60, "memory_percent": 60}
    assert minors(allocate(state, DeviceRequest("pod", 2, **shares))) == [2, 3]
    confined = DeviceRequest("pod", 2, **shares, gpu_wishes={"scope": "numa"})
    assert code(allocate(state, confined)) == ("many_shared", False)


def test_a_share_goes_to_the_switch_in_use_and_there_to_the_best_score():
    """Upstream, allocator_gpu_test: with 5 in use and half of 7, packing takes the rest of 7."""
    state = node(a100(), user=whole(5), other=half(7))
    request = DeviceRequest("pod", 1, core=50, memory_percent=50)
    assert minors(allocate(state, request, strategy="most_allocated")) == [7]
    assert minors(allocate(state, request, strategy="least_allocated")) == [4]
    assert minors(allocate(state, request)) == [4]


def test_a_switch_in_use_counts_more_than_the_score():
    state = node(a100(), user=half(2) + whole(3))
    request = DeviceRequest("pod", 1, core=50, memory_percent=50)
    for strategy in ("least_allocated", "most_allocated"):
        assert minors(allocate(state, request, strategy=strategy)) == [2]


# --- 1.7: partitions ----------------------------------------------------------------------------


def test_whole_gpus_are_one_partition():
    """Upstream: of an H800 board 1, 2, 4 and 8 GPUs can be had, each with its NIC; 3 and 6 not."""
    for count in (1, 2, 4, 8):
        answer = allocate(node(h800()), gpus_with_nics(count))
        assert minors(answer) == list(range(count))
        assert minors(answer, "rdma") == list(range(1, count + 1))
    for count in (3, 6):
        answer = allocate(node(h800()), DeviceRequest("pod", count))
        assert code(answer) == ("unsupported_count", False)


@pytest.mark.parametrize(
    ("used", "count", "expected"),
    [((2, 3), 2, [0, 1]), ((4,), 2, [6, 7]), ((4,), 1, [5]), ((4,), 4, [0, 1, 2, 3])],
)
def test_that_partition_is_taken_which_leaves_most(used, count, expected):
    """Upstream, allocator_gpu_test; the last is ours."""
    for model in ("H100", "H800", "H20"):
        state = node(h800(model), user=whole(*used))
        assert minors(allocate(state, DeviceRequest("pod", count))) == expected


def test_a_partition_that_is_only_preferred_gives_way_to_the_tree():
    """Upstream: three GPUs of a board with 2 and 3 in use are 4, 5 and 6."""
    state = node(h800(policy="prefer"), user=whole(2, 3))
    assert minors(allocate(state, DeviceRequest("pod", 3))) == [4, 5, 6]
    asked = DeviceRequest("pod", 3, partition="best-effort")
    assert code(allocate(state, asked)) == ("unsupported_count", False)


def test_a_model_without_a_table_has_no_partitions():
    for inventory in (h800("A100"), h800(vendor="amd")):
        answer = allocate(node(inventory), DeviceRequest("pod", 1))
        assert code(answer) == ("no_partition_table", False)
    empty = h800(partitions=PartitionTable(()))
    answer = allocate(node(empty), DeviceRequest("pod", 1))
    assert code(answer) == ("unsupported_count", False)


def test_shares_are_of_no_partition():
    request = DeviceRequest("pod", 1, memory_percent=50)
    assert minors(allocate(node(h800("none")), request)) == [0]


def test_a_partition_with_any_gpu_in_use_or_out_of_sight_is_not_taken():
    state = node(h800(), user=[Charge("gpu", 0, {"core": 1, "memory_ratio": 1})])
    assert minors(allocate(state, DeviceRequest("pod", 2))) == [2, 3]
    confined = Restriction(numa=frozenset({1}))
    answer = allocate(state, DeviceRequest("pod", 8), confined)
    assert code(answer) == ("insufficient_partitions", True)
    assert minors(allocate(state, DeviceRequest("pod", 4), confined)) == [4, 5, 6, 7]


TIERS = PartitionTable(
    (
        Partition((0, 1), 3, 200),
        Partition((2, 3), 1, 400),
        Partition((4, 5), 3),
        Partition((6, 7), 1, 100),
    )
)


def test_smaller_partitions_than_asked_do_not_count_for_what_is_left():
    rows = ((4, 5, 6, 7), (0, 1, 2, 3), (4, 5), (6, 7))
    state = node(h800(partitions=PartitionTable.of_sets(rows)))
    assert minors(allocate(state, DeviceRequest("pod", 4))) == [4, 5, 6, 7]


def test_of_larger_partitions_the_first_tier_counts_for_what_is_left():
    table = (Partition((2,)), Partition((0,)), Partition((0, 1), 3), Partition((2, 3), 1))
    state = node(h800(partitions=PartitionTable(table)))
    kept, repaired = both("lowest_tier_first", state, DeviceRequest("pod", 1))
    assert (minors(kept), minors(repaired)) == ([0], [2])


def test_of_a_bandwidth_that_is_asked_the_partition_has_as_much_or_more():
    def asked(bandwidth):
        return DeviceRequest("pod", 2, partition="best-effort", bandwidth=bandwidth)

    state = node(h800(partitions=TIERS))
    assert minors(allocate(state, asked(150))) == [2, 3]
    assert minors(allocate(state, asked(400))) == [2, 3]
    assert code(allocate(state, asked(401))) == ("insufficient_partitions", True)


def test_a_restricted_pod_waits_for_the_first_tier():
    restricted = DeviceRequest("pod", 2, partition="restricted")
    free = DeviceRequest("pod", 2, partition="best-effort")
    state = node(h800(partitions=TIERS), user=whole(2, 6))
    assert code(allocate(state, restricted)) == ("insufficient_partitions", True)
    assert minors(allocate(state, free)) == [0, 1]


def test_slots_of_a_table_are_looked_up_and_rows_without_a_gpu_are_lost():
    slots = (6, 8, 7, 5, 1, 3, 4, 2)  # the H800 board of Koordinator's own fixtures
    gpus = tuple(gpu(i, 0, str(i), module_id=slots[i]) for i in range(8))
    inventory = NodeDevices(gpus, PartitionTable.of_model("H800"), "honor")
    assert sorted(minors(allocate(node(inventory), DeviceRequest("pod", 2)))) == [4, 5]
    assert sorted(minors(allocate(node(inventory), DeviceRequest("pod", 4)))) == [4, 5, 6, 7]
    fewer = NodeDevices(gpus[1:], PartitionTable.of_model("H800"), "honor")
    state = node(fewer, user=whole(2))
    assert code(allocate(state, DeviceRequest("pod", 8))) == ("unsupported_count", False)
    assert sorted(minors(allocate(state, DeviceRequest("pod", 4)))) == [4, 5, 6, 7]


# --- 1.9 and 1.10: memory and scores ------------------------------------------------------------


def test_memory_is_charged_in_bytes_and_in_percent_both_cut_off():
    """Defect D18: of 100 units 29 are 28 percent."""
    state = node(NodeDevices((gpu(0, memory=100),)))
    assert allocate(state, DeviceRequest("pod", 1, memory=29))[0].amounts["memory_ratio"] == 28
    odd = node(NodeDevices((gpu(0, memory=7),)))
    assert allocate(odd, DeviceRequest("pod", 1, memory_percent=50))[0].amounts["memory"] == 3


@pytest.mark.parametrize(
    ("strategy", "request_", "free", "expected"),
    [
        ("least_allocated", 50, 100, 50),
        ("least_allocated", 50, 0, 0),
        ("least_allocated", 30, 50, 20),
        ("most_allocated", 30, 50, 80),
        ("most_allocated", 80, 50, 100),
    ],
)
def test_a_device_scores_by_what_would_be_free_or_used(strategy, request_, free, expected):
    """Upstream, scoring_test; the last is ours."""
    amounts = {"memory_ratio": request_}, {"memory_ratio": 100}, {"memory_ratio": free}
    assert score(strategy, *amounts) == expected


def test_the_best_node_is_raised_to_100():
    assert normalised([0, 0]) == [0, 0]
    assert normalised([50, 0, 20]) == [100, 0, 40]
    assert normalised([150, 200]) == [75, 100]
    assert normalised([]) == []


def test_nodes_are_filtered_one_by_one():
    states = [node(a100()), node(a100(), user=whole(*range(8))), node(NodeDevices(()))]
    found = filter_nodes(states, DeviceRequest("pod", 1))
    assert [one and (one.code, one.resolvable) for one in found] == [
        None,
        ("insufficient_gpus", True),
        ("no_devices", False),
    ]


# --- the defects, and the same without them -----------------------------------------------------


def both(quirk, *arguments, **options):
    """The answer with all defects, and the one without this defect."""
    assert quirk in QUIRKS
    kept = allocate(*arguments, **options)
    return kept, allocate(*arguments, **options, quirks=QUIRKS - {quirk})


def test_d1_gpus_in_use_all_score_alike():
    tenth = {"core": 10, "memory_ratio": 10, "memory": 8 * GIB}
    state = node(a100(), some=[Charge("gpu", 0, tenth)], more=half(1))
    request = DeviceRequest("pod", 1, core=50, memory_percent=50)
    kept, repaired = both("swapped_device_score", state, request, strategy="most_allocated")
    assert (minors(kept), minors(repaired)) == ([0], [1])


def test_d2_the_worst_partitions_are_taken_first():
    state = node(h800(partitions=TIERS))
    kept, repaired = both("lowest_tier_first", state, DeviceRequest("pod", 2))
    assert (minors(kept), minors(repaired)) == ([2, 3], [0, 1])
    restricted = DeviceRequest("pod", 2, partition="restricted")
    state = node(h800(partitions=TIERS), user=whole(2, 6))
    kept, repaired = both("lowest_tier_first", state, restricted)
    assert (code(kept)[0], minors(repaired)) == ("insufficient_partitions", [0, 1])


def test_d3_a_switch_in_use_is_not_kept_off():
    wishes = {"exclusive": "pcie"}
    request = DeviceRequest("pod", 1, gpu_wishes=wishes)
    kept, repaired = both("exclusivity_ignored", node(a100(), user=whole(5)), request)
    assert (minors(kept), minors(repaired)) == ([4], [6])
    state = node(a100(), user=whole(0, 2, 4, 6))
    kept, repaired = both("exclusivity_ignored", state, request, COMPUTED)
    assert (minors(kept), code(repaired)) == ([1], ("insufficient_gpus", True))
    nics = DeviceRequest("pod", nics=4, nic_wishes=wishes)
    kept, repaired = both("exclusivity_ignored", state, nics)
    assert kept == repaired  # GPUs in use do not touch a switch for NICs


def test_d4_and_d5_the_score_of_a_node_sees_one_device_and_half_of_its_memory():
    """Upstream, scoring_test: half of one of two idle GPUs of 16 GiB leaves 87, and not 75."""
    two = node(NodeDevices((gpu(0, memory=16 * GIB), gpu(1, memory=16 * GIB))))
    request = DeviceRequest("pod", 1, core=50, memory_percent=50)
    assert score_node(two, request, "least_allocated") == 87
    without = QUIRKS - {"bytes_not_scored"}
    assert score_node(two, request, "least_allocated", quirks=without) == 75
    bytes_asked = DeviceRequest("pod", 1, memory=8 * GIB)
    assert score_node(two, bytes_asked, "least_allocated", quirks=without) == 75

    state, all_of_it = node(a100()), DeviceRequest("pod", 8)
    scores = {
        off: score_node(state, all_of_it, "least_allocated", quirks=QUIRKS - set(off))
        for off in ((), ("one_instance_scored",), ("one_instance_scored", "bytes_not_scored"))
    }
    assert list(scores.values()) == [93, 50, 0]


def test_types_of_a_node_score_together():
    request = DeviceRequest("pod", 1, nics=1, nic_percent=20)
    alone = DeviceRequest("pod", 1)
    nics = DeviceRequest("pod", nics=1, nic_percent=20)
    both_scores = [score_node(node(a100()), one, "least_allocated") for one in (alone, nics)]
    assert score_node(node(a100()), request, "least_allocated") == sum(both_scores) == 93 + 95


def test_d9_another_choice_of_gpus_is_never_tried():
    state = node(a100(), user=[share(1, 100), share(2, 100)])
    kept, repaired = both("greedy_joint", state, gpus_with_nics(2))
    assert code(kept) == ("joint_violation", True)
    assert (minors(repaired), minors(repaired, "rdma")) == ([4, 5], [3])


def test_d9_devices_that_are_dealt_and_do_not_fit_do_not_hide_others():
    gpus = (gpu(0, 0, "a"), gpu(1, 0, "b"))
    nics = (nic(0, 0, "a"), nic(1, 0, "a"), nic(2, 0, "a"), nic(3, 0, "b"), nic(4, 0, "b"))
    state = node(NodeDevices((*gpus, *nics)), user=[share(0, 100), share(1, 100)])
    request = DeviceRequest("pod", 2, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    kept, repaired = both("greedy_joint", state, request)
    assert code(kept) == ("joint_violation", True)
    assert minors(repaired, "rdma") == [2, 3]


def test_d9_partitions_are_tried_one_after_another_and_no_others():
    state = node(h800(), user=[share(1, 100), share(2, 100), share(4, 100)])
    kept, repaired = both("greedy_joint", state, gpus_with_nics(2))
    assert (code(kept)[0], minors(repaired)) == ("joint_violation", [4, 5])
    used = [share(minor, 100) for minor in (1, 3, 5, 7)]
    kept, repaired = both("greedy_joint", node(h800(), user=used), gpus_with_nics(2))
    assert kept == repaired
    assert code(repaired) == ("joint_violation", True)


# --- 1.13 and 1.14: hints, reservations, designated devices -------------------------------------


def test_every_set_of_numa_nodes_that_serves_the_request_is_a_hint():
    hints = numa_hints(node(a100()), DeviceRequest("pod", 4))
    assert hints == (((0,), True, 500), ((1,), True, 0), ((0, 1), False, 500))
    assert numa_hints(node(a100()), DeviceRequest("pod", 8)) == (((0, 1), True, 500),)
    assert code(numa_hints(node(a100()), DeviceRequest("pod", 9))) == ("insufficient_numa", False)


BOTH, LEFT, RIGHT = (0, 1), (0,), (1,)


def hints_of(*numas, preferred=1, score=0):
    """Hints of one resource, of which those of so many NUMA nodes are preferred."""
    return [NumaHint(one, len(one) == preferred, score) for one in numas]


def test_a_pod_goes_where_all_of_its_resources_prefer():
    gpus, cores = hints_of(LEFT, RIGHT, BOTH), hints_of(RIGHT, BOTH)
    for policy in ("best-effort", "restricted", "single-numa-node"):
        assert merge_hints(BOTH, [gpus, cores], policy) == (RIGHT, True)
        assert merge_hints(BOTH, [gpus, None], policy) == (LEFT, True)


def test_of_equally_narrow_places_a_later_one_with_a_higher_score_wins():
    gpus = [*hints_of(LEFT), *hints_of(RIGHT, score=500)]
    assert merge_hints(BOTH, [gpus, hints_of(LEFT, RIGHT)], "restricted") == (RIGHT, True)
    assert merge_hints(BOTH, [gpus[::-1]], "restricted") == (LEFT, True)


def test_policies_differ_where_resources_do_not_agree():
    apart = [hints_of(LEFT), hints_of(RIGHT)]
    assert merge_hints(BOTH, apart, "best-effort") == (BOTH, True)
    assert merge_hints(BOTH, apart, "restricted") == (BOTH, False)
    assert merge_hints(BOTH, apart, "single-numa-node") == (None, False)
    wide = [hints_of(BOTH, preferred=2)]
    assert merge_hints(BOTH, wide, "restricted") == (BOTH, True)
    assert merge_hints(BOTH, wide, "single-numa-node") == (None, False)
    # Narrower than what one of them asks is of no use to it.
    uneven = [hints_of(LEFT), hints_of(BOTH, preferred=2)]
    assert merge_hints(BOTH, uneven, "best-effort") == (BOTH, True)
    assert merge_hints(BOTH, uneven, "restricted") == (LEFT, False)


def test_a_resource_without_a_way_is_refused_unless_the_policy_is_best_effort():
    none = [hints_of(LEFT), []]
    assert merge_hints(BOTH, none, "best-effort") == (BOTH, True)
    assert merge_hints(BOTH, none, "restricted") == (BOTH, False)
    assert merge_hints(BOTH, none, "single-numa-node") == (None, False)


def test_pods_of_one_numa_node_and_of_several_keep_apart_where_asked():
    hints = [hints_of(LEFT, RIGHT)]
    assert merge_hints(BOTH, hints, "restricted", {0: "shared"}) == (RIGHT, True)
    assert merge_hints(BOTH, hints, "restricted", {0: "single"}) == (LEFT, True)
    assert merge_hints(BOTH, hints, "restricted", {0: "shared", 1: "shared"}) == (LEFT, False)
    wide = [hints_of(BOTH, preferred=2)]
    assert merge_hints(BOTH, wide, "restricted", {1: "single"}) == (BOTH, False)


def test_designated_devices_have_one_hint():
    assert designated_hint(node(a100()), whole(0, 6)) == ((0, 1), True, 500)
    assert code(designated_hint(node(NodeDevices((gpu(0),))), whole(0))) == ("no_numa", True)


def test_designated_devices_are_given_as_they_are_or_not_at_all():
    state = node(a100(), user=[share(3, 1, "3:1")])
    charges = (*whole(4), share(3, 1, "3:3"))
    request = gpus_with_nics(1)
    assert allocate(state, request, designated(state, charges)) == charges
    taken = (*whole(4), share(3, 1, "3:1"))
    assert code(allocate(state, request, designated(state, taken))) == ("insufficient", True)
    state.charge("other", tuple(whole(4)))
    refused = allocate(state, request, designated(state, charges))
    assert code(refused) == ("insufficient_gpus", True)
    assert code(designated(state, whole(9))) == ("unhealthy", False)


def reserved(policy, *users, **options):
    return Reservations((Reservation("held", users, policy),), **options)


def test_who_a_reservation_is_for_gets_what_it_holds():
    state = node(a100(), held=whole(6, 7), others=whole(0, 1, 2, 3, 4, 5))
    request = DeviceRequest("pod", 2)
    assert code(allocate(state, request, COMPUTED)) == ("insufficient_gpus", True)
    for policy in ("default", "aligned", "restricted"):
        assert minors(allocate_reserved(state, request, reserved(policy))) == [6, 7]


def test_a_restricted_reservation_gives_no_more_than_it_has_left():
    user = [share(3, 60)]
    state = node(a100(), held=[share(3, 100)], user=user)
    request = DeviceRequest("pod", nics=1, nic_percent=50)
    free = allocate_reserved(state, request, reserved("aligned", "user"))
    assert minors(free, "rdma") == [1]
    kept = allocate_reserved(state, request, reserved("restricted", "user", must=True))
    assert code(kept) == ("no_reservation", True)
    small = DeviceRequest("pod", nics=1, nic_percent=40)
    found = allocate_reserved(state, small, reserved("restricted", "user", must=True))
    assert minors(found, "rdma") == [3]


def test_a_type_of_which_a_restricted_reservation_has_nothing_left_is_not_restricted():
    state = node(a100(), held=[*whole(4), share(3, 100)], user=whole(4))
    inside = reserved("restricted", "user", must=True)
    assert minors(allocate_reserved(state, DeviceRequest("pod", 1), inside)) == [5]
    nics = DeviceRequest("pod", nics=2)
    assert code(allocate_reserved(state, nics, inside)) == ("no_reservation", True)


def test_what_victims_have_of_a_reservation_is_to_be_had_from_it():
    state = node(a100(), held=whole(4), user=whole(4), rest=whole(0, 1, 2, 3, 5, 6, 7))
    victims = {"gpu": {4: whole(4)[0].amounts}}
    request = DeviceRequest("pod", 1)
    for policy in ("default", "restricted"):
        kept = reserved(policy, "user")
        answer = allocate_reserved(state, request, kept)
        assert code(answer) == ("insufficient_gpus", True)
        freed = kept._replace(matched=(kept.matched[0]._replace(victims=victims),))
        assert minors(allocate_reserved(state, request, freed)) == [4]


def test_a_reservation_prefers_its_own_devices_where_there_is_no_tree():
    state = node(a100(), held=[share(3, 100)])
    request = DeviceRequest("pod", nics=1)
    assert minors(allocate_reserved(state, request, reserved("default")), "rdma") == [3]
    away = Reservations(others=(Reservation("held"),))
    assert minors(allocate_reserved(state, request, away), "rdma") == [1]


def test_a_request_that_no_reservation_serves_spills_into_all_of_them():
    """Defect D13."""
    state = node(a100(), held=whole(0), also=whole(1), rest=whole(*range(2, 8)))
    both_ = Reservations((Reservation("held"), Reservation("also")))
    request = DeviceRequest("pod", 2)
    assert minors(allocate_reserved(state, request, both_)) == [0, 1]
    answer = allocate_reserved(state, request, both_._replace(must=True))
    assert code(answer) == ("no_reservation", True)


def test_a_reservation_that_takes_devices_over_takes_all_of_an_owner():
    state = node(NodeDevices(tuple(nic(i) for i in range(4))), held=[share(2, 100), share(3, 100)])
    taking = reserved("restricted", must=True, taking_over=True)
    both_ = allocate_reserved(state, DeviceRequest("pod", nics=2), taking)
    assert minors(both_, "rdma") == [2, 3]
    one = DeviceRequest("pod", nics=1)
    assert code(allocate_reserved(state, one, taking)) == ("no_reservation", True)
    # Where it need not take over, upstream keeps what it has found last.
    loose = taking._replace(must=False)
    assert minors(allocate_reserved(state, one, loose), "rdma") == [2]


def test_a_reservation_that_takes_devices_over_may_have_more_of_them():
    state = node(NodeDevices((nic(0), nic(1))), held=[share(1, 30)])
    taking = reserved("restricted", must=True, taking_over=True)
    request = DeviceRequest("pod", nics=1)
    assert minors(allocate_reserved(state, request, taking), "rdma") == [1]
    capped = allocate_reserved(state, request, taking._replace(taking_over=False))
    assert code(capped) == ("no_reservation", True)


def test_what_reservations_hold_leaks_from_one_hint_to_the_next():
    """GPU 4 is held, and used; that NUMA node 0 is full makes it free for node 1."""
    state = node(a100(), held=whole(4), user=whole(4), rest=whole(0, 1, 2, 3, 5, 6, 7))
    request, inside = DeviceRequest("pod", 1), reserved("default", "user")
    assert numa_hints(state, request, inside) == (((1,), True, 500), ((0, 1), False, 500))
    repaired = numa_hints(state, request, inside, QUIRKS - {"leaking_hints"})
    assert code(repaired) == ("insufficient_gpus", True)


def test_a_need_of_npus_is_served_by_their_own_amounts():
    npu = {"npu_core": 20, "npu_cpu": 7, "npu_dvpp": 100, "memory": 64 * GIB, "memory_ratio": 100}
    state = node(NodeDevices((Device("gpu", 0, npu), Device("gpu", 1, npu))))
    need = DeviceNeed("gpu", 1, {"npu_core": 12, "npu_cpu": 1, "memory": 16 * GIB})
    request = DeviceRequest("pod", needs=[need])
    for expected in (0, 1):
        answer = allocate(state, request)
        assert minors(answer) == [expected]
        assert answer[0].amounts["memory_ratio"] == 25
        state.charge(f"pod {expected}", answer)
    assert code(allocate(state, request)) == ("insufficient", True)
