"""The records of devices: what they keep, in which form, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceNeed,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
    Partition,
    PartitionTable,
    Task,
    TaskMix,
    VirtualFunction,
    VirtualFunctionGroup,
)

WHOLE = {"core": 100, "memory": 80 << 30, "memory_ratio": 100}
HUGE = 2**63
NAN = float("nan")


def gpu(minor=0, **fields):
    return Device("gpu", minor, WHOLE, **fields)


def nic(minor=0, functions=(), **fields):
    groups = [VirtualFunctionGroup(functions)] if functions else []
    return Device("rdma", minor, {"share": 100}, vf_groups=groups, **fields)


RECORDS = [
    LabelExpression("ring", "NotIn", ["b", "a"]),
    DeviceNeed("rdma", 1, {"share": 50}, selector=[("a", "b"), LabelExpression("c", "Exists")]),
    VirtualFunction("0000:01:00.2", 3),
    VirtualFunctionGroup(["a", "b"], {"ring": "1"}),
    gpu(1, numa=0, pcie="2", labels={"b": "1", "a": "2"}),
    nic(0, ["a"]),
    NodeDevices((gpu(), nic()), PartitionTable.of_model("H100"), model="H100"),
    Partition((3, 1), 2, 10, "NVLink"),
    PartitionTable.of_model("A100"),
    DeviceNeed("rdma", 2, {"share": 50}, selector={"a": "b"}, vf_selector={}),
    DeviceRequest("x", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True, models=["b", "a"]),
    DeviceAllocation("rdma", 1, {"share": 7}, VirtualFunction("a"), "pcie"),
    Task(5, False, 1, 1000, ("b", "a")),
    TaskMix.of([DeviceRequest("x", gpus=1)]),
]
every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda item: type(item).__name__)


# --- values


@every_record
def test_a_record_is_a_value(record):
    for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert other == record
        assert hash(other) == hash(record)
        assert repr(other) == repr(record)
    assert record != "something else"


@every_record
def test_a_record_does_not_change(record):
    names = getattr(record, "__struct_fields__", type(record).__slots__)
    name = next(name for name in names if not name.startswith("_"))
    with pytest.raises(AttributeError):
        setattr(record, name, None)


def test_a_request_stays_equal_when_a_cluster_remembers_it():
    request, same = (DeviceRequest("x", gpus=1) for _ in range(2))
    DeviceCluster({"n": NodeDevices.uniform(gpus=1)}).schedule(request)
    assert (request, hash(request)) == (same, hash(same))
    assert pickle.loads(pickle.dumps(request)) == same


def test_mappings_are_kept_in_one_order_and_zeros_are_left_out():
    item = Device("gpu", 0, {"memory": 5, "core": 100, "npu_cpu": 0}, labels={"b": "1", "a": "2"})
    assert item.amounts == (("core", 100), ("memory", 5))
    assert item.labels == (("a", "2"), ("b", "1"))
    assert item == Device("gpu", 0, item.amounts, labels=item.labels)
    assert hash(item) == hash(Device("gpu", 0, (("memory", 5), ("core", 100)), labels=item.labels))


def test_numbers_and_strings_of_other_kinds_become_plain():
    class Word(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    item = Device(
        "gpu", np.int64(3), {"core": np.uint8(100)}, numa=np.int8(1), healthy=np.bool_(False)
    )
    assert (type(item.minor), type(item.amounts[0][1]), type(item.numa)) == (int, int, int)
    assert item.healthy is False
    assert type(Device("gpu", 0, {}, pcie=Word("a")).pcie) is str
    assert type(DeviceRequest(Word("a")).name) is str


def test_a_replaced_field_is_checked_and_the_rest_stays():
    item = gpu(3, numa=1, pcie="2", labels={"a": "b"}, module_id=4)
    other = item.replace(healthy=False)
    assert (other.healthy, other.replace(healthy=True)) == (False, item)
    with pytest.raises(ValueError, match="minor"):
        item.replace(minor=-1)
    with pytest.raises(TypeError, match="colour"):
        item.replace(colour="red")


def test_devices_are_kept_by_type_and_minor():
    host = Device("host", 0, {"cpu": 1})
    inventory = NodeDevices([host, nic(1), gpu(2), nic(0), gpu(0)])
    assert [(device.type, device.minor) for device in inventory.devices] == [
        ("gpu", 0),
        ("gpu", 2),
        ("rdma", 0),
        ("rdma", 1),
        ("host", 0),
    ]
    assert inventory == NodeDevices((gpu(0), gpu(2), nic(0), nic(1), host))
    assert [device.minor for device in inventory.of_type("gpu")] == [0, 2]
    assert inventory.of_type("fpga") == ()


def test_health_changes_only_where_it_is_meant():
    inventory = NodeDevices((gpu(0), gpu(1), nic(0)), model="H100")
    other = inventory.with_health([gpu(1)], False)
    assert [device.healthy for device in other.devices] == [True, False, True]
    assert other.with_health([gpu(1)], True) == inventory


# --- requests


def amounts_of(**arguments):
    return [
        (need.type, need.count, dict(need.amounts))
        for need in DeviceRequest("x", **arguments).needs
    ]


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        ({}, []),
        ({"gpus": 3}, [("gpu", 3, {"core": 100, "memory_ratio": 100})]),
        ({"gpus": 1, "memory": 5}, [("gpu", 1, {"memory": 5})]),
        ({"gpus": 2, "memory_percent": 30}, [("gpu", 2, {"memory_ratio": 30})]),
        (
            {"gpus": 1, "core": 20, "memory_percent": 30},
            [("gpu", 1, {"core": 20, "memory_ratio": 30})],
        ),
        ({"gpus": 1, "core": 0, "memory": 1}, [("gpu", 1, {"memory": 1})]),
        ({"nics": 2, "nic_percent": 10}, [("rdma", 2, {"share": 10})]),
        ({"nics": "all"}, [("rdma", 1, {"share": 100})]),
        (
            {"fpgas": 1, "cpu_milli": 5},
            [("fpga", 1, {"share": 100}), ("host", 1, {"cpu": 5})],
        ),
        ({"host_memory": 7}, [("host", 1, {"memory": 7})]),
    ],
)
def test_a_request_says_per_device_what_it_needs(arguments, needs):
    assert amounts_of(**arguments) == needs


def test_needs_are_kept_in_the_order_of_the_types():
    needs = [DeviceNeed("host", 1, {"cpu": 1}), DeviceNeed("fpga", 1, {"share": 1})]
    request = DeviceRequest("x", gpus=1, nics=1, needs=needs)
    assert [need.type for need in request.needs] == ["gpu", "rdma", "fpga", "host"]
    assert request.need("fpga") == needs[1]
    assert DeviceRequest("x", nics=1).need("gpu") is None


@pytest.mark.parametrize(
    ("arguments", "shared"),
    [
        ({}, False),
        ({"memory_percent": 100}, False),
        ({"memory_percent": 100, "core": 10}, False),
        ({"memory_percent": 99, "core": 100}, True),
        ({"memory": 80 << 30, "core": 100}, True),
    ],
)
def test_gpus_are_shared_if_less_than_all_memory_or_bytes_are_asked_for(arguments, shared):
    assert DeviceRequest("x", gpus=1, **arguments).need("gpu").shared is shared


@pytest.mark.parametrize(
    ("arguments", "joint", "same"),
    [
        ({"gpus": 1, "nics": 1}, ("gpu", "rdma"), True),
        ({"gpus": 1, "nics": 1, "fpgas": 1}, ("gpu", "rdma"), True),
        ({"gpus": 1}, ("gpu",), False),
        ({"gpus": 1, "nics": "all"}, ("gpu",), False),
    ],
)
def test_types_without_a_choice_leave_the_joint_ones(arguments, joint, same):
    request = DeviceRequest("x", **arguments, joint=("gpu", "rdma"), same_pcie=True)
    assert (request.joint, request.same_pcie) == (joint, same)


def test_a_bandwidth_asks_for_a_partition():
    assert DeviceRequest("x", gpus=2, bandwidth=5).partition == "best-effort"
    assert DeviceRequest("x", gpus=2, bandwidth=5, partition="restricted").partition == "restricted"
    assert DeviceRequest("x", gpus=2).partition is None


def test_requests_of_equal_content_differ_in_owner_and_priority_alone():
    request = DeviceRequest("x", gpus=2, models=["b", "a", "b"], priority=3)
    assert request.models == ("a", "b")
    assert request.content == request.replace(name="y", priority=0).content
    assert request.content != request.replace(models=("a",)).content
    assert request.replace(name="y").priority == 3


# --- what is refused


def refused(error, match, make, *arguments, **options):
    return pytest.param(error, match, lambda: make(*arguments, **options))


MANY = tuple(gpu(i) for i in range(257))
INVALID = [
    # shares of which a card gives several
    refused(ValueError, "only for GPUs", DeviceNeed, "rdma", 1, {"share": 1}, repeat=True),
    refused(ValueError, "only for GPUs", DeviceNeed, "gpu", 1, {"memory_ratio": 9}, repeat=True),
    refused(
        ValueError, "with scope", DeviceNeed, "gpu", 2, {"memory": 9}, repeat=True, scope="pcie"
    ),
    refused(ValueError, "with every", DeviceNeed, "gpu", 1, {"memory": 9}, repeat=True, every=True),
    refused(TypeError, "repeat", DeviceNeed, "gpu", 1, {"memory": 9}, repeat=1),
    refused(
        ValueError,
        "not of GPUs with repeat",
        DeviceRequest,
        "x",
        2,
        memory=9,
        nics=1,
        joint=("gpu", "rdma"),
        gpu_wishes={"repeat": True},
    ),
    # label expressions
    refused(ValueError, "operator must be one of In, NotIn", LabelExpression, "a", "Gt", ["1"]),
    refused(ValueError, "operator must be one of In, NotIn", LabelExpression, "a", "in", ["1"]),
    refused(ValueError, "values: operator 'In' needs one value", LabelExpression, "a", "In"),
    refused(ValueError, "operator 'NotIn' needs one value", LabelExpression, "a", "NotIn", []),
    refused(ValueError, "operator 'Exists' takes none", LabelExpression, "a", "Exists", ["1"]),
    refused(ValueError, "'DoesNotExist' takes none", LabelExpression, "a", "DoesNotExist", [""]),
    refused(ValueError, "key", LabelExpression, "", "Exists"),
    refused(TypeError, "values", LabelExpression, "a", "In", "xy"),
    refused(TypeError, "values", LabelExpression, "a", "In", [1]),
    refused(TypeError, "key", LabelExpression, 1, "Exists"),
    refused(TypeError, "selector", DeviceNeed, "gpu", 1, {"core": 1}, selector=[3]),
    refused(TypeError, "selector", DeviceNeed, "gpu", 1, {"core": 1}, selector=["ab"]),
    # amounts
    refused(ValueError, r"amounts\['core'\]", Device, "gpu", 0, {"core": -1}),
    refused(ValueError, r"amounts\['memory'\]", Device, "gpu", 0, {"memory": HUGE}),
    refused(ValueError, r"amounts\['memory'\]", Device, "gpu", 0, {"memory": 2**48 + 1}),
    refused(TypeError, r"amounts\['core'\]", Device, "gpu", 0, {"core": NAN}),
    refused(TypeError, r"amounts\['core'\]", Device, "gpu", 0, {"core": "100"}),
    refused(ValueError, "amounts.*share.*core", Device, "gpu", 0, {"share": 100}),
    refused(ValueError, "amounts", Device, "rdma", 0, {"core": 100}),
    refused(ValueError, "amounts.*twice", Device, "gpu", 0, (("core", 1), ("core", 2))),
    refused(ValueError, "amounts", Device, "gpu", 0, (("core",),)),
    refused(TypeError, "amounts", Device, "gpu", 0, {3: 1}),
    refused(TypeError, "amounts", Device, "gpu", 0, None),
    refused(TypeError, "amounts", Device, "gpu", 0, [("core", 1)]),
    # devices
    refused(ValueError, "type", Device, "tpu", 0, {}),
    refused(TypeError, "type", Device, 3, 0, {}),
    refused(ValueError, "minor", Device, "gpu", -1, {}),
    refused(ValueError, "minor", Device, "gpu", 2**31, {}),
    refused(ValueError, "minor.*huge", Device, "gpu", 10**100, {}),
    refused(TypeError, "minor", Device, "gpu", 1.0, {}),
    refused(TypeError, "healthy", gpu, healthy=1),
    refused(ValueError, "numa", gpu, numa=-1),
    refused(ValueError, "socket", gpu, socket=HUGE),
    refused(TypeError, "module_id", gpu, module_id="1"),
    refused(TypeError, "pcie", gpu, pcie=1),
    refused(TypeError, "bus_id", gpu, bus_id=None),
    refused(TypeError, "uuid", gpu, uuid=b"a"),
    refused(TypeError, "labels", gpu, labels={1: "a"}),
    refused(TypeError, r"labels\['a'\]", gpu, labels={"a": 1}),
    refused(TypeError, "vf_groups", gpu, vf_groups="ab"),
    refused(TypeError, "vf_groups", gpu, vf_groups=["a"]),
    refused(TypeError, "functions", VirtualFunctionGroup, "ab"),
    refused(TypeError, "bus_id", VirtualFunctionGroup, [3]),
    refused(ValueError, "minor", VirtualFunction, "a", HUGE),
    # inventories
    refused(TypeError, "devices", NodeDevices, 3),
    refused(TypeError, "devices.*str", NodeDevices, ["gpu"]),
    refused(ValueError, "devices.*minor of type 'gpu' 1", NodeDevices, (gpu(1), gpu(1))),
    refused(ValueError, "devices.*257 of type 'gpu'.*256", NodeDevices, MANY),
    refused(
        ValueError,
        "devices.*2 of type 'host'.*1",
        NodeDevices,
        (Device("host", 0, {}), Device("host", 1, {})),
    ),
    refused(
        ValueError, "devices.*module_id 4", NodeDevices, (gpu(0, module_id=4), gpu(1, module_id=4))
    ),
    refused(ValueError, "devices.*virtual function 'a'", NodeDevices, (nic(0, ["a", "a"]),)),
    refused(ValueError, "virtual function 'a'", NodeDevices, (nic(0, ["a"]), nic(1, ["a"]))),
    refused(
        ValueError,
        "devices: pcie 'p' is in numa 0 and 1",
        NodeDevices,
        (gpu(0, pcie="p", numa=0), nic(0, pcie="p", numa=1)),
    ),
    refused(
        ValueError,
        "devices: pcie 'p' is in numa 0 and None",
        NodeDevices,
        (gpu(0, pcie="p", numa=0), gpu(1, pcie="p")),
    ),
    refused(
        ValueError,
        "devices: pcie 'p' is in socket 0 and 1",
        NodeDevices,
        (gpu(0, pcie="p", socket=0), gpu(1, pcie="p", socket=1)),
    ),
    refused(
        ValueError,
        "devices: numa 0 is in socket 0 and 1",
        NodeDevices,
        (gpu(0, numa=0, socket=0), gpu(1, numa=0, socket=1)),
    ),
    refused(TypeError, "partitions", NodeDevices, (), ((0, 1),)),
    refused(ValueError, "partition_policy", NodeDevices, (), None, "always"),
    refused(TypeError, "secondary_well_planned", NodeDevices, (), None, "honor", 1),
    refused(TypeError, "vendor", NodeDevices, (), vendor=None),
    refused(TypeError, "model", NodeDevices, (), model=3),
    refused(TypeError, "isolation_provider", NodeDevices, (), isolation_provider=()),
    refused(ValueError, "gpus", NodeDevices.uniform, 257),
    refused(TypeError, "nics", NodeDevices.uniform, nics="4"),
    refused(ValueError, "switches=3.*sockets=2", NodeDevices.uniform, sockets=2, switches=3),
    refused(ValueError, "sockets", NodeDevices.uniform, sockets=0),
    refused(ValueError, "functions", NodeDevices.uniform, functions=-1),
    refused(ValueError, "memory", NodeDevices.uniform, 1, gpu_memory=HUGE),
    # partitions
    refused(ValueError, "members", Partition, ()),
    refused(ValueError, "members", Partition, (1, 1)),
    refused(ValueError, "members", Partition, (-1,)),
    refused(TypeError, "members", Partition, "01"),
    refused(ValueError, "score", Partition, (0,), -1),
    refused(ValueError, "bandwidth", Partition, (0,), 1, -5),
    refused(TypeError, "link", Partition, (0,), 1, None, 5),
    refused(TypeError, "partitions", PartitionTable, ((0, 1),)),
    refused(ValueError, "partitions.*twice", PartitionTable.of_sets, [(0, 1), (1, 0)]),
    refused(ValueError, "numbers", PartitionTable.of_sets, [(0, 1)], "slot"),
    refused(KeyError, "model='V100'", PartitionTable.of_model, "V100"),
    refused(KeyError, "model='A100'", PartitionTable.of_model, "A100", "minor"),
    refused(TypeError, "model", PartitionTable.of_model, None),
    # needs
    refused(ValueError, "type", DeviceNeed, "tpu", 1, {"core": 1}),
    refused(ValueError, "count", DeviceNeed, "gpu", 0, {"core": 1}),
    refused(ValueError, "count", DeviceNeed, "gpu", 257, {"core": 1}),
    refused(ValueError, "amounts", DeviceNeed, "gpu"),
    refused(ValueError, "amounts", DeviceNeed, "gpu", 1, {"core": 0}),
    refused(ValueError, "amounts", DeviceNeed, "gpu", 1, {"memory": 1, "memory_ratio": 1}),
    refused(ValueError, r"amounts\['memory_ratio'\]", DeviceNeed, "gpu", 1, {"memory_ratio": 101}),
    refused(ValueError, "count=2", DeviceNeed, "gpu", 2, {"core": 1}, every=True),
    refused(TypeError, "every", DeviceNeed, "gpu", 1, {"core": 1}, every="yes"),
    refused(TypeError, "selector", DeviceNeed, "gpu", 1, {"core": 1}, selector="a=b"),
    refused(TypeError, "vf_selector", DeviceNeed, "rdma", 1, {"share": 1}, vf_selector=True),
    refused(ValueError, "exclusive", DeviceNeed, "gpu", 1, {"core": 1}, exclusive="numa"),
    refused(ValueError, "scope", DeviceNeed, "gpu", 1, {"core": 1}, scope="rack"),
    refused(
        ValueError, "preferred_scope", DeviceNeed, "gpu", 1, {"core": 1}, preferred_scope="rack"
    ),
    # requests
    refused(ValueError, "name", DeviceRequest, ""),
    refused(TypeError, "name", DeviceRequest, None),
    refused(ValueError, "gpus", DeviceRequest, "x", 257),
    refused(ValueError, "gpus", DeviceRequest, "x", -1),
    refused(TypeError, "gpus", DeviceRequest, "x", 0.5),
    refused(ValueError, "gpus=0", DeviceRequest, "x", core=50),
    refused(ValueError, "core", DeviceRequest, "x", 1, core=50),
    refused(ValueError, "core", DeviceRequest, "x", 1, core=101, memory=1),
    refused(ValueError, "memory", DeviceRequest, "x", 1, memory=HUGE),
    refused(TypeError, "^memory must", DeviceRequest, "x", 1, memory=NAN),
    refused(ValueError, "memory", DeviceRequest, "x", 1, memory=1, memory_percent=1),
    refused(ValueError, "amounts", DeviceRequest, "x", 1, memory=0),
    refused(ValueError, "memory_percent", DeviceRequest, "x", 1, memory_percent=101),
    refused(ValueError, "memory_percent", DeviceRequest, "x", 1, memory_percent=0),
    refused(ValueError, "nics", DeviceRequest, "x", nics="some"),
    refused(ValueError, "nics", DeviceRequest, "x", nics=-1),
    refused(TypeError, "fpgas", DeviceRequest, "x", fpgas=1.5),
    refused(ValueError, "nic_percent", DeviceRequest, "x", nics=1, nic_percent=0),
    refused(TypeError, "fpga_percent", DeviceRequest, "x", fpgas=1, fpga_percent=NAN),
    refused(ValueError, "cpu_milli", DeviceRequest, "x", cpu_milli=-1),
    refused(TypeError, "cpu_milli", DeviceRequest, "x", cpu_milli="1"),
    refused(ValueError, "host_memory", DeviceRequest, "x", host_memory=HUGE),
    refused(TypeError, "gpu_wishes", DeviceRequest, "x", 1, gpu_wishes=3),
    refused(ValueError, "gpu_wishes", DeviceRequest, "x", 1, gpu_wishes={"colour": "red"}),
    refused(ValueError, "nic_wishes", DeviceRequest, "x", nics=1, nic_wishes={"count": 2}),
    refused(ValueError, "scope", DeviceRequest, "x", 1, gpu_wishes={"scope": "rack"}),
    refused(TypeError, "needs", DeviceRequest, "x", needs=["gpu"]),
    refused(
        ValueError, "needs.*twice", DeviceRequest, "x", 1, needs=[DeviceNeed("gpu", 1, {"core": 1})]
    ),
    refused(
        ValueError, "needs.*one host", DeviceRequest, "x", needs=[DeviceNeed("host", 2, {"cpu": 1})]
    ),
    refused(ValueError, "joint", DeviceRequest, "x", 1, joint=("gpu", "host")),
    refused(ValueError, "joint.*twice", DeviceRequest, "x", 1, joint=("gpu", "gpu")),
    refused(TypeError, "joint", DeviceRequest, "x", 1, joint="gpu"),
    refused(ValueError, "same_pcie.*joint", DeviceRequest, "x", 1, nics=1, same_pcie=True),
    refused(TypeError, "same_pcie", DeviceRequest, "x", 1, same_pcie="yes"),
    refused(ValueError, "partition", DeviceRequest, "x", 1, partition="honor"),
    refused(ValueError, "partition", DeviceRequest, "x", nics=1, partition="restricted"),
    refused(ValueError, "partition", DeviceRequest, "x", 1, memory=1, partition="restricted"),
    refused(ValueError, "bandwidth", DeviceRequest, "x", 1, bandwidth=-1),
    refused(TypeError, "isolation_provider", DeviceRequest, "x", isolation_provider=None),
    refused(TypeError, "models", DeviceRequest, "x", 1, models="H100"),
    refused(ValueError, "models", DeviceRequest, "x", 1, models=[""]),
    refused(ValueError, "priority", DeviceRequest, "x", priority=2**31),
    refused(TypeError, "'gpus'", DeviceRequest("x", 1).replace, gpus=2),
    refused(ValueError, "name", DeviceRequest("x", 1).replace, name=""),
    # allocations
    refused(ValueError, "type", DeviceAllocation, "tpu", 0, {}),
    refused(ValueError, "minor", DeviceAllocation, "gpu", HUGE, {}),
    refused(ValueError, r"amounts\['core'\]", DeviceAllocation, "gpu", 0, {"core": HUGE}),
    refused(ValueError, "amounts", DeviceAllocation, "gpu", 0, {"share": 1}),
    refused(TypeError, "function", DeviceAllocation, "rdma", 0, {}, "a"),
    refused(ValueError, "exclusive", DeviceAllocation, "rdma", 0, {}, None, "node"),
    # mixes
    refused(ValueError, "share", Task, -1, False, 1, 0, ()),
    refused(ValueError, "share", Task, 101, True, 1, 0, ()),
    refused(TypeError, "share", Task, "5", False, 1, 0, ()),
    refused(TypeError, "is_percent", Task, 5, 2, 1, 0, ()),
    refused(ValueError, "gpus", Task, 5, False, 257, 0, ()),
    refused(ValueError, "cpu_milli", Task, 5, False, 1, -1, ()),
    refused(TypeError, "models", Task, 5, False, 1, 0, "H100"),
    refused(TypeError, "weights", TaskMix, 3),
    refused(TypeError, "weights", TaskMix, {"a": 1}),
    refused(ValueError, "weights", TaskMix, {Task(5, False, 1, 0, ()): 0}),
    refused(ValueError, "weights", TaskMix, {Task(5, False, 1, 0, ()): 2**31}),
    refused(TypeError, "requests", TaskMix.of, ["x"]),
    refused(TypeError, "requests", TaskMix.of, 3),
]


@pytest.mark.parametrize(("error", "match", "make"), INVALID)
def test_what_is_out_of_range_is_refused_by_name(error, match, make):
    with pytest.raises(error, match=match) as raised:
        make()
    assert raised.type is error


def test_256_devices_of_a_type_are_not_too_many():
    assert len(NodeDevices(MANY[:256]).of_type("gpu")) == 256


def test_unknown_places_say_nothing_of_each_other():
    devices = (gpu(0), gpu(1, numa=0), nic(0, socket=1), nic(1, pcie="p"), nic(2, numa=0))
    assert NodeDevices(devices).devices == devices


# --- uniform machines


def test_a_uniform_machine_spreads_its_devices_evenly():
    node = NodeDevices.uniform(gpus=8, nics=4, functions=2, sockets=2, switches=4, model="H100")
    assert [(device.pcie, device.numa, device.socket) for device in node.of_type("gpu")] == [
        (str(i // 2), i // 4, i // 4) for i in range(8)
    ]
    assert [(device.pcie, device.numa, device.socket) for device in node.of_type("rdma")] == [
        (str(i), i // 2, i // 2) for i in range(4)
    ]
    names = [vf.bus_id for device in node.of_type("rdma") for vf in device.vf_groups[0].functions]
    assert names == sorted(set(names))
    assert len(names) == 8
    assert dict(node.devices[0].amounts) == WHOLE
    assert node.model == "H100"


def test_a_uniform_machine_may_have_nothing_and_has_a_switch_for_every_socket():
    assert NodeDevices.uniform() == NodeDevices(())
    node = NodeDevices.uniform(gpus=4, sockets=2)
    assert [device.pcie for device in node.devices] == ["0", "0", "1", "1"]


# --- shares in bytes


def test_percents_of_memory_become_bytes_rounded_down_where_there_are_bytes():
    inventory = NodeDevices(
        (Device("gpu", 0, {"memory": 1001}), Device("gpu", 1, {"memory_ratio": 100}), nic(0))
    )
    given = (
        DeviceAllocation("gpu", 0, {"core": 5, "memory_ratio": 29}),
        DeviceAllocation("gpu", 1, {"memory_ratio": 29}),
        DeviceAllocation("gpu", 7, {"memory_ratio": 29}),
        DeviceAllocation("rdma", 0, {"share": 3}, VirtualFunction("a"), "device"),
    )
    in_bytes = inventory.in_bytes(given)
    assert in_bytes[0] == DeviceAllocation("gpu", 0, {"core": 5, "memory": 290})
    assert in_bytes[1:] == given[1:]
    assert inventory.in_bytes(in_bytes) == in_bytes


# --- partitions


def test_members_are_kept_in_ascending_order():
    assert Partition((3, 1, 2)).members == (1, 2, 3)
    assert PartitionTable.of_sets([(1, 0)]) == PartitionTable.of_sets([(0, 1)]).of_sets([[1, 0]])


def test_a_table_in_module_ids_follows_the_wiring_of_the_node():
    table = PartitionTable.of_sets([(1, 3), (2, 4), (1, 9)], "module")
    devices = tuple(gpu(i, module_id=module) for i, module in enumerate((3, 4, 1, 2)))
    rows = NodeDevices(devices, table).partition_rows()
    assert [row.members for row in rows] == [(0, 2), (1, 3)]  # nothing is in slot 9


def test_a_table_of_the_node_replaces_that_of_its_model():
    node = NodeDevices((gpu(0), gpu(1)), PartitionTable.of_sets([(0, 1)]), model="H100")
    assert [row.members for row in node.partition_rows()] == [(0, 1)]
    assert [row.members for row in NodeDevices(node.devices, model="H100").partition_rows()] == [
        (0, 1),
        (0,),
        (1,),
    ]


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"model": "H100"}, True),
        ({"model": "H20", "vendor": "nvidia"}, True),
        ({"model": "H100", "vendor": "amd"}, False),
        ({"model": "A100"}, False),
        ({"model": "h100"}, False),
        ({}, False),
    ],
)
def test_a_model_brings_its_table_if_it_is_of_a_known_board(fields, known):
    assert bool(NodeDevices((gpu(0), gpu(1)), **fields).partition_rows()) is known


# --- label selectors

RULES = {
    "ring in (a, b)": (LabelExpression("ring", "In", ["b", "a"]), {"a", "b"}),
    "ring in (c)": (LabelExpression("ring", "In", ["c"]), set()),
    "ring notin (a)": (LabelExpression("ring", "NotIn", ["a"]), {"b", None}),
    "ring notin (a, b)": (LabelExpression("ring", "NotIn", ["a", "b"]), {None}),
    "ring": (LabelExpression("ring", "Exists"), {"a", "b"}),
    "!ring": (LabelExpression("ring", "DoesNotExist"), {None}),
    "nowhere": (LabelExpression("nowhere", "Exists"), set()),
    "!nowhere": (LabelExpression("nowhere", "DoesNotExist"), {"a", "b", None}),
    "nowhere notin (a)": (LabelExpression("nowhere", "NotIn", ["a"]), {"a", "b", None}),
}


def labels_of(ring):
    return {"kind": "fast"} | ({} if ring is None else {"ring": ring})


@pytest.mark.parametrize("text", RULES)
def test_devices_and_functions_match_expressions_as_in_kubernetes(text):
    rule, matching = RULES[text]
    assert str(rule) == text
    for ring in ("a", "b", None):
        labels = labels_of(ring)
        group = VirtualFunctionGroup(["vf"], labels)
        node = NodeDevices([Device("rdma", 0, {"share": 100}, labels=labels, vf_groups=[group])])
        for wish in ({"selector": [rule]}, {"vf_selector": [rule]}):
            need = DeviceNeed("rdma", 1, {"share": 1}, **wish)
            decision = DeviceCluster({"n": node}).schedule(DeviceRequest("pod", needs=[need]))
            assert (decision.outcome == "bind") == (ring in matching)
            if decision.outcome == "bind":
                decision.verify(node)


@pytest.mark.parametrize("selector", [(), {}, []])
def test_a_selector_without_rules_matches_everything(selector):
    node = NodeDevices([nic(0)])
    need = DeviceNeed("rdma", 1, {"share": 1}, selector=selector)
    assert need.selector == ()
    assert DeviceCluster({"n": node}).fits(DeviceRequest("pod", needs=[need]))


def test_all_rules_of_a_selector_must_hold():
    rules = [
        LabelExpression("ring", "Exists"),
        ("kind", "fast"),
        LabelExpression("old", "NotIn", ["y"]),
    ]
    need = DeviceNeed("rdma", 1, {"share": 1}, selector=rules)
    assert need.selector == (("kind", "fast"), rules[2], rules[0])
    assert need == DeviceNeed("rdma", 1, {"share": 1}, selector=tuple(reversed(rules)))
    for labels, fits in (
        ({"ring": "a", "kind": "fast"}, True),
        ({"ring": "a", "kind": "fast", "old": "n"}, True),
        ({"ring": "a", "kind": "fast", "old": "y"}, False),
        ({"ring": "a", "kind": "slow"}, False),
        ({"kind": "fast"}, False),
    ):
        node = NodeDevices([Device("rdma", 0, {"share": 100}, labels=labels)])
        assert DeviceCluster({"n": node}).fits(DeviceRequest("pod", needs=[need])) == fits
