"""Worked numbers of others: NVIDIA's fabric partitions and the wirings of real boards, the examples
of the gpushare article, and fragmentation by hand after FGD (USENIX ATC'23, section 3).

Fabric tables: HGX H100, H800 and H20 boards in the Fabric Manager's physical module ids, 1 to 8.
Wirings: kubeswift's test fixture of an H100 node (module id -> GPU index), and Koordinator's
(deviceshare) of an H800 node (the module ids of minors 0 to 7).
"""

import pytest

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    PartitionTable,
    Task,
    TaskMix,
)

HOPPER = {
    8: [(1, 2, 3, 4, 5, 6, 7, 8)],
    4: [(1, 2, 3, 4), (5, 6, 7, 8)],
    2: [(1, 3), (2, 4), (5, 7), (6, 8)],
    1: [(1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,)],
}
AMPERE = HOPPER | {2: [(1, 2), (3, 4), (5, 6), (7, 8)]}
KUBESWIFT = {1: 4, 2: 6, 3: 5, 4: 7, 5: 0, 6: 2, 7: 1, 8: 3}
H800 = dict(zip((6, 8, 7, 5, 1, 3, 4, 2), range(8), strict=True))
BY_MINOR = {
    8: [tuple(range(8))],
    4: [(0, 1, 2, 3), (4, 5, 6, 7)],
    2: [(0, 1), (2, 3), (4, 5), (6, 7)],
    1: [(i,) for i in range(8)],
}


def by_size(rows):
    results = {}
    for row in rows:
        results.setdefault(len(row.members), []).append(row.members)
    return {size: sorted(sets) for size, sets in results.items()}


def board(minor_of_module, model="H100"):
    """Eight GPUs with their module ids."""
    amounts = {"core": 100, "memory": 80 << 30, "memory_ratio": 100}
    return NodeDevices(
        tuple(
            Device("gpu", minor, amounts, module_id=module)
            for module, minor in minor_of_module.items()
        ),
        model=model,
        partition_policy="honor",
    )


# --- fabric partitions


@pytest.mark.parametrize("model", ["H100", "H800", "H20"])
def test_the_fabric_of_hopper_boards_has_fifteen_partitions(model):
    table = PartitionTable.of_model(model)
    assert table.numbers == "module"
    assert len(table.partitions) == 15
    assert by_size(table.partitions) == HOPPER
    assert {(row.score, row.link, row.bandwidth) for row in table.partitions} == {
        (1, "NVLink", None)
    }


def test_the_fabric_of_ampere_boards_pairs_neighbours():
    assert by_size(PartitionTable.of_model("A100").partitions) == AMPERE


@pytest.mark.parametrize("model", ["H100", "H800", "H20"])
def test_koordinator_s_own_table_is_in_minors(model):
    table = PartitionTable.of_model(model, "minor")
    assert table.numbers == "minor"
    assert by_size(table.partitions) == BY_MINOR


@pytest.mark.parametrize("wiring", [KUBESWIFT, H800], ids=["kubeswift", "koordinator"])
def test_on_two_real_wirings_the_fabric_s_pairs_are_neighbours_by_minor(wiring):
    assert by_size(board(wiring).partition_rows()) == BY_MINOR
    minors_of_pair = {pair: {wiring[module] for module in pair} for pair in HOPPER[2]}
    assert sorted(map(sorted, minors_of_pair.values())) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_gpus_without_module_ids_follow_the_table_in_minors():
    devices = tuple(device.replace(module_id=None) for device in board(H800).devices)
    assert by_size(NodeDevices(devices, model="H800").partition_rows()) == BY_MINOR
    # One that does not say its slot is enough to fall back.
    item = (devices[0], *board(H800).devices[1:])
    assert by_size(NodeDevices(item, model="H800").partition_rows()) == BY_MINOR


def test_where_minors_are_in_the_order_of_the_slots_the_table_in_minors_would_be_wrong():
    node = board({module: module - 1 for module in range(1, 9)})
    pairs = [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert by_size(node.partition_rows())[2] == pairs
    assert not set(pairs) & set(BY_MINOR[2])
    cluster = DeviceCluster({"n": node})
    given = []
    for name in "abcd":
        decision = cluster.allocate(DeviceRequest(name, gpus=2), "n")
        given.append(tuple(allocation.minor for allocation in decision.placement))
    assert given == pairs


@pytest.mark.parametrize("wiring", [KUBESWIFT, H800], ids=["kubeswift", "koordinator"])
def test_instances_of_four_gpus_are_either_half_of_the_board(wiring):
    """Koordinator's article: GPUs 1 to 4, or 5 to 8."""
    cluster = DeviceCluster({"n": board(wiring)})
    for name, half in (("a", (0, 1, 2, 3)), ("b", (4, 5, 6, 7))):
        decision = cluster.allocate(DeviceRequest(name, gpus=4), "n")
        assert tuple(allocation.minor for allocation in decision.placement) == half
    assert cluster.schedule(DeviceRequest("c", gpus=1)).outcome == "wait"


@pytest.mark.parametrize(
    ("used", "count", "given"),
    [
        # What is left: a pair counts 1, a quad 100, the octet 10,000.
        ((), 1, (0,)),
        ((0,), 1, (1,)),  # its partner: every other pair and quad stays
        ((0,), 2, (2, 3)),  # the quad is broken already
        ((0,), 4, (4, 5, 6, 7)),
        ((0, 4), 2, (2, 3)),
        ((0, 1, 4), 1, (5,)),  # rather than to break the pair 2, 3
        ((0, 1, 4), 2, (2, 3)),
        ((0, 2, 4, 6), 2, None),
        ((3,), 8, None),
    ],
)
def test_of_the_free_partitions_that_is_taken_which_leaves_most(used, count, given):
    cluster = DeviceCluster({"n": board(H800)})
    for minor in used:
        cluster.recover(f"o{minor}", "n", [DeviceAllocation("gpu", minor, {"core": 100})])
    placement = cluster.schedule(DeviceRequest("x", gpus=count)).placement
    assert (tuple(allocation.minor for allocation in placement) or None) == given


# --- gpushare


def cards(*free, size=16276):
    """A node whose cards have so many MiB free, and the owners of the rest."""
    node = NodeDevices(tuple(Device("gpu", i, {"memory": size << 20}) for i in range(len(free))))
    held = [
        DeviceAllocation("gpu", i, {"memory": (size - left) << 20})
        for i, left in enumerate(free)
        if left < size
    ]
    return node, held


def shared_cluster(**nodes):
    cluster = DeviceCluster(policy="best-fit")
    for name, (node, held) in nodes.items():
        cluster.add_node(name, node)
        if held:
            cluster.recover(f"those on {name}", name, held)
    return cluster


def test_gpushare_s_filter_passes_the_node_with_one_card_that_has_enough():
    """Its article: 8138 MiB are asked for; the second node has them, but on two cards."""
    cluster = shared_cluster(n1=cards(0, 4069), n2=cards(4069, 4069), n3=cards(8138, 0))
    request = DeviceRequest("pod", gpus=1, memory=8138 << 20)
    feasibility = cluster.filter(request)
    assert feasibility.nodes == ("n1", "n2", "n3")
    assert list(feasibility.fits) == [False, False, True]
    assert feasibility.counts == (("capacity", 2),)
    decision = cluster.schedule(request)
    assert (decision.node, [allocation.minor for allocation in decision.placement]) == ("n3", [0])


def test_gpushare_s_bind_takes_the_card_that_fits_exactly():
    """Its article: of 12207, 8138, 4069 and 16276 MiB the second card is taken."""
    cluster = shared_cluster(n=cards(12207, 8138, 4069, 16276))
    taken = []
    for name in ("a", "b", "c", "d", "e"):
        decision = cluster.schedule(DeviceRequest(name, gpus=1, memory=8138 << 20))
        taken.append([allocation.minor for allocation in decision.placement])
        if decision.outcome == "bind":
            cluster.commit(decision)
    # Then the card with 12207, and both halves of the idle one.
    assert taken == [[1], [0], [3], [3], []]


# --- fragmentation


@pytest.mark.parametrize(
    ("free", "milli", "count", "expected"),
    [
        ((1000, 1000), 500, 1, 0),  # all of it can be used
        ((400, 1000), 500, 1, 400),  # a card with less than a share
        ((400, 400), 500, 1, 800),  # nothing runs: all that is idle
        ((600, 1000), 600, 2, 0),
        ((500, 1000), 600, 2, 1500),  # one card too few: all that is idle
        ((1000, 0), 1000, 1, 0),
        ((999, 1000), 1000, 1, 999),
        ((300, 700), 0, 0, 1000),  # it needs no GPU: all that is idle
    ],
)
def test_a_task_s_fragments_are_what_it_cannot_use(free, milli, count, expected):
    node, held = cards(*free, size=1000)
    mix = TaskMix({Task(milli << 20, False, count, 0, ()): 1})
    cluster = DeviceCluster({"n": node}, mix=mix)
    cluster.recover("o", "n", held)
    assert cluster.fragmentation() == expected << 20


def test_fragments_are_weighed_by_how_often_a_task_comes():
    node, held = cards(400, 1000, size=1000)
    mix = TaskMix({Task(500 << 20, False, 1, 0, ()): 3, Task(1000 << 20, False, 2, 0, ()): 1})
    cluster = DeviceCluster({"n": node}, mix=mix)
    cluster.recover("o", "n", held)
    assert cluster.fragmentation() == ((3 * 400 + 1400) << 20) / 4


def test_a_task_that_lacks_processors_or_the_model_can_use_nothing():
    node, _ = cards(1000, 1000, size=1000)
    host = Device("host", 0, {"cpu": 1000, "memory": 1})
    tasks = {
        Task(1 << 20, False, 1, 1001, ()): 2000,
        Task(1 << 20, False, 1, 1000, ()): 0,
        Task(1 << 20, False, 1, 0, ("A100",)): 2000,
        Task(1 << 20, False, 1, 0, ("A100", "T4")): 0,
    }
    inventory = NodeDevices((*node.devices, host), model="T4")
    for task, expected in tasks.items():
        cluster = DeviceCluster({"n": inventory}, mix=TaskMix({task: 1}))
        assert cluster.fragmentation() == expected << 20


def test_fgd_puts_a_share_where_it_breaks_no_card_that_comes_whole():
    """A pod of 300 beside one of 700 fills the card; on the idle card it would cost 700."""
    node, held = cards(300, 1000, size=1000)
    other, _ = cards(1000, 1000, size=1000)
    mix = TaskMix({Task(1000 << 20, False, 1, 0, ()): 1})
    cluster = DeviceCluster({"idle": other, "used": node}, policy="fgd", mix=mix)
    cluster.recover("o", "used", held)
    decision = cluster.schedule(DeviceRequest("x", gpus=1, memory=300 << 20))
    assert (decision.node, decision.placement[0].minor) == ("used", 0)
    assert cluster.fragmentation() == 300 << 20
    cluster.commit(decision)
    assert cluster.fragmentation() == 0
