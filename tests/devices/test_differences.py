"""Where hivecore decides other than Koordinator, as docs/figures/devices.md says.

Koordinator's side is `bench/peers`, which gives the recorded answers of its compiled code
(tests/golden/test_devices_koordinator.py).
"""

from pathlib import Path

import pytest
from peers.koordinator_devices import Refusal, node_score, place
from peers.koordinator_numa import numa_hints

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
)
from hivecore.reference.devices.node_state import Charge, NodeState

GIB = 1 << 30
SIZE = 80 * GIB
WHOLE = {"core": 100, "memory": SIZE}
JOINT = ("gpu", "rdma")
MACHINE = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)


def gpus(*minors, core=100, memory=SIZE):
    return [DeviceAllocation("gpu", minor, {"core": core, "memory": memory}) for minor in minors]


def nics(*minors):
    return [DeviceAllocation("rdma", minor, {"share": 100}) for minor in minors]


def theirs(inventory, held, request, strategy=None):
    state = NodeState(inventory)
    charges = []
    for allocation in held:
        amounts = dict(allocation.amounts)
        if allocation.type == "gpu":
            amounts["memory_ratio"] = amounts["memory"] * 100 // SIZE
        charges.append(Charge(allocation.type, allocation.minor, amounts))
    state.charge("others", tuple(charges))
    charges = place(state, request, strategy)
    if isinstance(charges, Refusal):
        return None
    return [f"{charge.type} {charge.minor}" for charge in charges]


def ours(inventory, held, request):
    cluster = DeviceCluster({"n": inventory})
    cluster.recover("others", "n", held)
    decision = cluster.schedule(request)
    if decision.outcome == "wait":
        return None
    decision.verify(inventory, held)
    return [f"{allocation.type} {allocation.minor}" for allocation in decision.placement]


def in_numa_nodes_of_two():
    """Two NUMA nodes in each of two sockets, two GPUs in each of these."""
    return NodeDevices(
        tuple(
            Device("gpu", i, WHOLE | {"memory_ratio": 100}, socket=i // 4, numa=i // 2, pcie=f"{i}")
            for i in range(8)
        )
    )


def without_core():
    return NodeDevices((Device("gpu", 0, {"memory": SIZE, "memory_ratio": 100}),))


def with_scores():
    rows = (Partition((0, 1), 3), Partition((2, 3), 1), Partition((4, 5), 3))
    return NodeDevices(MACHINE.devices, PartitionTable(rows), "honor")


SAME = {"joint": JOINT, "same_pcie": True}
#: What the pod wants, as the page says it: the node, what is in use, the request, the choices.
CASES = {
    "2 GPUs and a NIC on their switch": (
        MACHINE,
        [*gpus(2, 6, 7), *nics(0)],
        DeviceRequest("p", gpus=2, nics=1, **SAME),
        None,
        ["gpu 4", "gpu 5", "rdma 2"],
    ),
    "a NIC first, 2 GPUs near to it": (
        MACHINE,
        nics(0, 1, 2),
        DeviceRequest("p", gpus=2, nics=1, joint=("rdma", "gpu")),
        ["gpu 0", "gpu 1", "rdma 3"],
        ["gpu 6", "gpu 7", "rdma 3"],
    ),
    "2 GPUs and a NIC near to them": (
        MACHINE,
        [*gpus(0, 1, 2, 3, 4, 5), *nics(3)],
        DeviceRequest("p", gpus=2, nics=1, joint=JOINT),
        ["gpu 6", "gpu 7", "rdma 0"],
        ["gpu 6", "gpu 7", "rdma 2"],
    ),
    "4 GPUs, on two sockets of two NUMA nodes of 2 GPUs": (
        in_numa_nodes_of_two(),
        gpus(0),
        DeviceRequest("p", gpus=4),
        ["gpu 1", "gpu 2", "gpu 3", "gpu 4"],
        ["gpu 4", "gpu 5", "gpu 6", "gpu 7"],
    ),
    "a partition: 0, 1 and 4, 5 have score 3, 2, 3 has 1": (
        with_scores(),
        [],
        DeviceRequest("p", gpus=2),
        ["gpu 2", "gpu 3"],
        ["gpu 0", "gpu 1"],
    ),
    "a GPU on an idle switch": (
        MACHINE,
        gpus(0, 2, 4, 6),
        DeviceRequest("p", gpus=1, gpu_wishes={"exclusive": "pcie"}),
        ["gpu 1"],
        None,
    ),
    "half of the cores of a GPU that reports none": (
        without_core(),
        [],
        DeviceRequest("p", gpus=1, core=50, memory_percent=50),
        ["gpu 0"],
        None,
    ),
}
PAGE = Path(__file__).parents[2] / "docs" / "figures" / "devices.md"


def words(devices):
    """Devices as the page names them."""
    minors = {
        type: [name[len(type) + 1 :] for name in devices if name.startswith(type)]
        for type in ("gpu", "rdma")
    }
    names = [(names, minors[type]) for type, names in (("gpu", "GPU"), ("rdma", "NIC"))]
    return ", ".join(
        f"{name}{'s' if len(of) > 1 else ''} {', '.join(of)}" for name, of in names if of
    )


@pytest.mark.parametrize("case", CASES)
def test_the_choice_differs_as_documented(case):
    inventory, held, request, koordinator, hivecore = CASES[case]
    assert theirs(inventory, held, request) == koordinator
    assert ours(inventory, held, request) == hivecore


@pytest.mark.skipif(not PAGE.exists(), reason="only the installed package is here")
def test_the_table_of_the_page_has_the_choices_of_both():
    rows = [
        (
            case,
            words([f"{allocation.type} {allocation.minor}" for allocation in held]) or "nothing",
            "waits" if koordinator is None else words(koordinator),
            "waits" if hivecore is None else words(hivecore),
        )
        for case, (_, held, _, koordinator, hivecore) in CASES.items()
    ]
    table = PAGE.read_text("utf-8").partition("| the pod wants |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == [f"| {' | '.join(row)} |" for row in rows]


def test_a_share_goes_to_the_fullest_gpu_in_use():
    held = [*gpus(0, core=10, memory=8 * GIB), *gpus(1, core=50, memory=40 * GIB)]
    request = DeviceRequest("p", gpus=1, core=50, memory_percent=50)
    assert theirs(MACHINE, held, request, "most_allocated") == ["gpu 0"]
    assert ours(MACHINE, held, request) == ["gpu 1"]


def test_the_score_of_a_node_counts_the_whole_request():
    request = DeviceRequest("p", gpus=8)
    assert node_score(NodeState(MACHINE), request, "least_allocated") == 93
    feasibility = DeviceCluster({"n": MACHINE}, policy="spread").filter(request)
    assert feasibility.scores.tolist() == [0]


def test_a_card_that_is_full_of_bytes_takes_no_half():
    inventory = NodeDevices(MACHINE.devices[:1])
    state, cluster = NodeState(inventory), DeviceCluster({"n": inventory})
    for number in range(159):
        small = DeviceRequest(f"small{number}", gpus=1, memory=GIB // 2)
        state.charge(small.name, place(state, small))
        assert cluster.allocate(small, "n").outcome == "bind"
    half = DeviceRequest("half", gpus=1, core=50, memory_percent=50)
    assert not isinstance(place(state, half), Refusal)
    assert not cluster.fits(half)


def test_devices_with_large_minors_are_in_partitions():
    many = tuple(Device("gpu", i, WHOLE) for i in range(128))
    pairs = PartitionTable.of_sets([(2 * i, 2 * i + 1) for i in range(64)])
    inventory = NodeDevices(many, pairs, "honor")
    request = DeviceRequest("p", gpus=2)
    assert ours(inventory, gpus(*range(126)), request) == ["gpu 126", "gpu 127"]
    assert ours(inventory, gpus(*range(127)), request) is None


def test_of_partitions_of_equal_worth_the_lowest_minors_are_taken():
    rows = [(2 * i, 2 * i + 1) for i in reversed(range(16))]
    machine = NodeDevices.uniform(gpus=32, sockets=2, switches=16)
    inventory = NodeDevices(machine.devices, PartitionTable.of_sets(rows), "honor")
    assert ours(inventory, [], DeviceRequest("p", gpus=2)) == ["gpu 0", "gpu 1"]


def test_a_pod_of_the_same_name_is_refused_while_the_first_is_there():
    state, cluster = NodeState(MACHINE), DeviceCluster({"n": MACHINE})
    for minor in (0, 5):
        state.charge("p", (Charge("gpu", minor, WHOLE),))
    assert state.used("gpu", 5) == {}
    cluster.recover("p", "n", gpus(0))
    with pytest.raises(ValueError, match="has other devices already"):
        cluster.recover("p", "n", gpus(5))


def test_a_node_without_devices_takes_none_that_needs_some():
    cluster = DeviceCluster({"n": NodeDevices(())})
    assert cluster.schedule(DeviceRequest("p", gpus=1)).counts == (("no devices", 1),)


@pytest.mark.parametrize("joint", [(), JOINT, ("rdma", "gpu")])
def test_of_several_types_that_are_short_the_hopeless_one_is_named(joint):
    for left, used in (("gpu", gpus(0)), ("rdma", nics(0))):
        inventory = NodeDevices(MACHINE.of_type(left)[:1])
        cluster = DeviceCluster({"n": inventory})
        cluster.recover("others", "n", used)
        feasibility = cluster.filter(DeviceRequest("p", gpus=1, nics=1, joint=joint))
        assert feasibility.reason("n") == "no devices of a type"
        assert not feasibility.resolvable[0]


def test_a_device_that_does_not_say_where_it_is_serves_on_chosen_numa_nodes():
    inventory = NodeDevices((Device("gpu", 0, WHOLE | {"memory_ratio": 100}),))
    request = DeviceRequest("p", gpus=1)
    assert isinstance(place(NodeState(inventory), request, numa={0}), Refusal)
    assert DeviceCluster({"n": inventory}).allocate(request, "n", numa=[0]).outcome == "bind"


def test_numa_nodes_of_a_pod_without_gpus_are_scored_by_its_nics():
    request = DeviceRequest("pod", nics=1)
    upstream = numa_hints(NodeState(MACHINE), request)
    assert [item.score for item in upstream] == [500, 500, 500]
    here = DeviceCluster({"n": MACHINE}).numa_hints(request, "n")
    assert [(item.nodes, item.score) for item in here] == [((0,), 500), ((1,), 0), ((0, 1), 500)]
    gpu = DeviceRequest("pod", 1)
    assert [hint.score for hint in numa_hints(NodeState(MACHINE), gpu)] == [500, 0, 500]
