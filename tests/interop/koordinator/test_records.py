"""Device records and what is held of them, out of Koordinator's objects and back into them."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from interop.koordinator.objects import ALLOCATED, HINT, PARTITIONS, gpu, pod, record
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.interop.koordinator import (
    read_allocation,
    read_bound_pod,
    read_designated,
    read_device_record,
    read_pod,
    write_allocation,
    write_device_record,
    write_node_labels,
)

GI = 1 << 30
CORE, MEMORY, RATIO = (f"koordinator.sh/gpu-{end}" for end in ("core", "memory", "memory-ratio"))
LABEL = "node.koordinator.sh/"
NIC = {
    "type": "rdma",
    "minor": 1,
    "id": "0000:09:00.0",
    "health": True,
    "labels": {"type": "fabric"},
    "resources": {"koordinator.sh/rdma": 100},
    "topology": {"socketID": 0, "nodeID": 1, "pcieID": "pci4", "busID": "0000:09:00.0"},
    "vfGroups": [
        {"labels": {"speed": "fast"}, "vfs": [{"minor": 2, "busID": "0000:09:00.2"}]},
        {"vfs": [{"busID": "0000:09:00.3"}]},
    ],
}
OF_PAIRS = {"2": [{"minors": [0, 1]}, {"minors": [2, 3]}]}


def table(rows):
    return {PARTITIONS: json.dumps(rows)}


def test_a_record_of_a_node_agent_is_read_as_it_is():
    # The example of docs/proposals/koordlet/20250425-heterogeneous-GPU-device-reporting.md:
    # two T4 on one switch, the second with a fault; scores of partitions are strings there.
    partitions = {
        "1": [
            {
                "minors": [0],
                "gpuLinkType": "NVLink",
                "ringBusBandwidth": "400Gi",
                "allocationScore": "1",
            }
        ]
    }
    place = {"nodeID": 0, "pcieID": "pci0000:3a", "socketID": -1}
    t4 = {"resources": {CORE: "100", MEMORY: "15Gi", RATIO: "100"}}
    inventory = read_device_record(
        record(
            gpu(0, **t4, topology={**place, "busID": "0000:3b:00.0"}),
            gpu(1, **t4, topology={**place, "busID": "0000:3b:01.0"}, health=False),
            annotations=table(partitions),
            labels={
                f"{LABEL}gpu-partition-policy": "Honor",
                f"{LABEL}gpu-model": "Tesla-T4",
                f"{LABEL}gpu-vendor": "nvidia",
            },
        )
    )
    assert [device.healthy for device in inventory.devices] == [True, False]
    assert [dict(device.amounts) for device in inventory.devices] == [
        {"core": 100, "memory": 15 * GI, "memory_ratio": 100}
    ] * 2
    assert {(device.socket, device.numa, device.pcie) for device in inventory.devices} == {
        (None, 0, "pci0000:3a")
    }
    assert inventory.partitions == PartitionTable((Partition((0,), 1, 400 * GI, "NVLink"),))
    assert (inventory.vendor, inventory.model, inventory.partition_policy) == (
        "nvidia",
        "Tesla-T4",
        "honor",
    )


def test_a_nic_has_its_labels_place_and_virtual_functions():
    (nic,) = read_device_record(record(NIC)).devices
    assert nic == Device(
        "rdma",
        1,
        {"share": 100},
        socket=0,
        numa=1,
        pcie="pci4",
        bus_id="0000:09:00.0",
        uuid="0000:09:00.0",
        labels={"type": "fabric"},
        vf_groups=[
            VirtualFunctionGroup([VirtualFunction("0000:09:00.2", 2)], {"speed": "fast"}),
            VirtualFunctionGroup(["0000:09:00.3"]),
        ],
    )


def test_a_device_that_does_not_say_its_health_is_unhealthy():
    (entry,) = read_device_record(record({"type": "fpga", "minor": 0})).devices
    assert entry == Device("fpga", 0, {}, healthy=False)


def test_labels_of_the_node_come_before_those_of_the_record():
    labels = {f"{LABEL}gpu-model": "A100", f"{LABEL}gpu-vendor": "nvidia"}
    planned = {f"{LABEL}secondary-device-well-planned": "true"}
    node = {
        "metadata": {
            "labels": {
                f"{LABEL}gpu-model": "A800",
                "koordinator.sh/gpu-isolation-provider": "HAMi-core",
            }
        }
    }
    inventory = read_device_record(record(labels=labels | planned), node)
    assert (inventory.vendor, inventory.model) == ("nvidia", "A800")
    assert inventory.isolation_provider == "HAMi-core"
    assert inventory.secondary_well_planned


def test_the_policy_belongs_to_the_table():
    labels = {f"{LABEL}gpu-model": "H100", f"{LABEL}gpu-partition-policy": "Honor"}
    gpus, node = [gpu(minor) for minor in range(8)], {"metadata": {"labels": labels}}
    # The table of the model goes by the label of the node ...
    inventory = read_device_record(record(*gpus), node)
    assert (inventory.partitions, inventory.partition_policy) == (None, "honor")
    assert len(inventory.partition_rows()) == 15
    # ... and that of the record by its own: preferred as long as it says nothing.
    inventory = read_device_record(record(*gpus, annotations=table(OF_PAIRS)), node)
    assert [row.members for row in inventory.partition_rows()] == [(0, 1), (2, 3)]
    assert inventory.partition_policy == "prefer"
    inventory = read_device_record(record(*gpus, annotations=table({})), node)
    assert inventory.partition_rows() == ()


def test_slots_say_which_minors_are_in_a_partition():
    # Koordinator's own fixture of an H800 board has minors 0 to 7 in these slots.
    slots = [6, 8, 7, 5, 1, 3, 4, 2]
    gpus = [gpu(minor, moduleID=slot) for minor, slot in enumerate(slots)]
    inventory = read_device_record(record(*gpus, labels={f"{LABEL}gpu-model": "H800"}))
    pairs = {row.members for row in inventory.partition_rows() if len(row.members) == 2}
    assert pairs == {(0, 1), (2, 3), (4, 5), (6, 7)}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"resources": {MEMORY: "80GB"}}, ValueError, f"devices[0].resources['{MEMORY}']: '80GB'"),
        ({"resources": {MEMORY: -1}}, ValueError, f"devices[0].resources['{MEMORY}']=-1: allowed"),
        ({"resources": {CORE: 2**63}}, ValueError, f"devices[0].resources['{CORE}']="),
        ({"resources": {CORE: float("nan")}}, ValueError, "nan is no quantity"),
        ({"resources": []}, TypeError, "devices[0].resources must be a mapping, not a list"),
        ({"minor": None}, ValueError, "devices[0].minor: is missing"),
        ({"minor": -1}, ValueError, "devices[0].minor=-1: allowed are 0"),
        ({"minor": "0"}, TypeError, "devices[0].minor must be an integer, not '0'"),
        ({"type": None}, ValueError, "devices[0].type: is missing"),
        ({"health": "yes"}, TypeError, "devices[0].health must be true or false"),
        ({"minor": 1}, ValueError, "devices: devices: two have the minor of type 'gpu' 1"),
        ({"moduleID": True}, TypeError, "devices[0].moduleID must be an integer, not True"),
        ({"topology": {"nodeID": 0.5}}, TypeError, "devices[0].topology.nodeID must be an integer"),
        (
            {"topology": {"nodeID": 1, "pcieID": "pci0"}},
            ValueError,
            "devices: devices: pcie 'pci0' is in numa 1 and 0",
        ),
        (
            {"vfGroups": [{"vfs": [{}]}]},
            ValueError,
            "devices[0].vfGroups[0].vfs[0].busID: is missing",
        ),
        ({"labels": {"a": 1}}, TypeError, "devices[0].labels.a must be a string, not 1"),
    ],
)
def test_a_mistake_in_a_record_is_named_by_its_path(change, error, says):
    with pytest.raises(error) as caught:
        read_device_record(record(gpu(0) | change, gpu(1)))
    assert str(caught.value).startswith("spec.devices")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"2": [{"minors": [0]}]}, "['2'][0].minors: are 1, but stand under '2'"),
        ({"1": [{"minors": [0]}, {"minors": [0]}]}, "a set of GPUs is there twice"),
        ({"2": [{"minors": [0, 0]}]}, "['2'][0]: members=[0, 0]: must be distinct"),
        ({"1": [{"minors": [0], "allocationScore": "best"}]}, "allocationScore: 'best' is no int"),
        ({"1": [{"minors": [0], "ringBusBandwidth": "x"}]}, "ringBusBandwidth: 'x' is no quantity"),
        (None, "holds no table"),
    ],
)
def test_a_mistake_in_a_table_is_named_by_its_path(rows, says):
    with pytest.raises(ValueError, match=r"^metadata\.annotations\['scheduling") as caught:
        read_device_record(record(gpu(0), annotations=table(rows)))
    assert says in str(caught.value)


# --- records written


def test_an_unchanged_record_is_written_as_it_was():
    labels = {f"{LABEL}gpu-model": "H800", "other": "label"}
    before = record(gpu(0), NIC, {"type": "tpu", "strange": 1}, annotations={}, labels=labels)
    before["status"] = {"allocations": []}
    assert write_device_record(read_device_record(before), before) == before


def test_a_change_of_health_leaves_the_rest_of_the_record():
    before = record(gpu(0, conditions=[{"type": "Healthy"}], strange=1), {"type": "tpu"}, gpu(1))
    saved = copy.deepcopy(before)
    inventory = read_device_record(before)
    sick = inventory.devices[0].replace(healthy=False)
    product = write_device_record(inventory.replace(devices=(sick, inventory.devices[1])), before)
    assert before == saved
    saved["spec"]["devices"][0]["health"] = False
    assert product == saved


def test_devices_that_are_gone_leave_and_new_ones_come_last():
    before = record(gpu(0), {"type": "tpu"}, gpu(1))
    inventory = read_device_record(record(gpu(1), gpu(2)))
    devices = write_device_record(inventory, before)["spec"]["devices"]
    assert [(device["type"], device.get("minor")) for device in devices] == [
        *(("tpu", None), ("gpu", 1), ("gpu", 2))
    ]


def test_a_node_whose_known_board_shall_have_no_table_says_so():
    before = record(*(gpu(i) for i in range(8)), labels={f"{LABEL}gpu-model": "H100"})
    inventory = read_device_record(before).replace(partitions=PartitionTable(()))
    product = write_device_record(inventory, before)
    assert product["metadata"]["annotations"] == {PARTITIONS: "{}"}
    assert read_device_record(product) == inventory
    assert write_device_record(read_device_record(before), product)["metadata"]["annotations"] == {}


def test_rows_of_slots_are_written_as_minors_if_all_their_gpus_are_there():
    devices = (
        Device("gpu", 4, {}, module_id=1),
        Device("gpu", 2, {}, module_id=3),
        Device("gpu", 0, {}),
        Device("rdma", 7, {}, module_id=5),
    )
    table_of_slots = PartitionTable.of_sets([(1, 3), (1, 5), (3,), (2,)], "module")
    record = write_device_record(NodeDevices(devices, table_of_slots), {})
    rows = json.loads(record["metadata"]["annotations"][PARTITIONS])
    assert {number: [row["minors"] for row in outcome] for number, outcome in rows.items()} == {
        "2": [[2, 4]],
        "1": [[2]],
    }


def test_the_host_is_in_no_record():
    inventory = NodeDevices([Device("host", 0, {"cpu": 1000})])
    with pytest.raises(ValueError, match="'host' is none of Koordinator's"):
        write_device_record(inventory, {})


names = st.text("abc-", max_size=4)
labels = st.dictionaries(names, names, max_size=2)


@st.composite
def inventories(draw):
    """What a record and the node's labels can say."""
    devices = []
    for type_ in draw(st.sets(st.sampled_from(["gpu", "rdma", "fpga"]))):
        allowed = ["core", "memory", "memory_ratio", "npu_core"] if type_ == "gpu" else ["share"]
        for minor in draw(st.sets(st.integers(0, 20), max_size=4)):
            numa = draw(st.none() | st.integers(0, 3))
            groups = [
                VirtualFunctionGroup(
                    [
                        VirtualFunction(f"{type_}{minor}.{group}.{i}", draw(st.integers(0, 9)))
                        for i in range(draw(st.integers(0, 2)))
                    ],
                    draw(labels),
                )
                for group in range(draw(st.integers(0, 2)))
            ]
            devices.append(
                Device(
                    type_,
                    minor,
                    draw(st.dictionaries(st.sampled_from(allowed), st.integers(0, 2**48))),
                    healthy=draw(st.booleans()),
                    socket=None if numa is None else numa // 2,
                    numa=numa,
                    pcie=draw(st.none() | st.just(f"p{numa}")),
                    bus_id=draw(names),
                    uuid=draw(names),
                    module_id=draw(st.none() | st.just(minor + 1)) if type_ == "gpu" else None,
                    labels=draw(labels),
                    vf_groups=groups,
                )
            )
    rows = [
        Partition(
            tuple(members),
            draw(st.integers(0, 10)),
            draw(st.none() | st.integers(0, 2**40)),
            draw(names),
        )
        for members in draw(st.sets(st.frozensets(st.integers(0, 7), min_size=1), max_size=4))
    ]
    rows.sort(key=lambda row: len(row.members))
    return NodeDevices(
        tuple(devices),
        PartitionTable(tuple(rows)) if rows or draw(st.booleans()) else None,
        draw(st.sampled_from(["honor", "prefer"])),
        draw(st.booleans()),
        draw(st.sampled_from(["", "nvidia", "huawei"])),
        draw(st.sampled_from(["", "H100", "A100"])),
        draw(names),
    )


@given(inventories(), inventories())
@examples(100)
def test_a_written_record_reads_as_the_inventory_whatever_it_said_before(inventory, other):
    node = {"metadata": {"labels": write_node_labels(inventory)}}
    record = write_device_record(inventory, {"metadata": {"name": "n"}})
    assert read_device_record(json.loads(json.dumps(record)), node) == inventory
    changed = write_device_record(other, record)
    expected = other.replace(isolation_provider="")
    assert read_device_record(changed) == expected
    assert write_device_record(expected, changed) == changed


# --- allocations


def test_an_allocation_has_bytes_and_the_percents_are_made_of_them():
    node = read_device_record(record(gpu(0), gpu(1), NIC))
    held = (
        DeviceAllocation("gpu", 1, {"core": 30, "memory": 80 * GI * 29 // 100}),
        DeviceAllocation("rdma", 1, {"share": 1}, VirtualFunction("0000:09:00.2", 2)),
    )
    text = write_allocation(held, node)
    assert json.loads(text) == {
        "gpu": [
            {
                "minor": 1,
                "id": "GPU-1",
                "resources": {CORE: "30", MEMORY: str(80 * GI * 29 // 100), RATIO: "29"},
            }
        ],
        "rdma": [
            {
                "minor": 1,
                "id": "0000:09:00.0",
                "resources": {"koordinator.sh/rdma": "1"},
                "extension": {"vfs": [{"minor": 2, "busID": "0000:09:00.2"}]},
            }
        ],
    }
    assert read_allocation(text) == held
    assert read_allocation(json.loads(text)) == held


@pytest.mark.parametrize("total", [80 * GI, 85198045184, 16276, 100, 7])
def test_percents_that_became_bytes_are_themselves_again(total):
    node = NodeDevices((Device("gpu", 0, {"memory": total}),))
    for percent in range(1, 101):
        held = percent * total // 100
        if not held:
            continue
        text = write_allocation([DeviceAllocation("gpu", 0, {"memory": held})], node)
        [entry] = json.loads(text)["gpu"]
        result = int(entry["resources"]["koordinator.sh/gpu-memory-ratio"])
        assert result <= percent
        assert result * total // 100 == held
        assert total < 100 or result == percent


@pytest.mark.parametrize("percent", [1, 28, 29, 57, 58, 99, 100])
def test_percents_become_bytes_and_the_same_percents_again(percent):
    # Koordinator truncates the percents as well, and 29 come back as 28.
    node = read_device_record(record(gpu(0, resources={MEMORY: 16_945_512_448})))
    text = write_allocation([DeviceAllocation("gpu", 0, {"memory_ratio": percent})], node)
    assert json.loads(text)["gpu"][0]["resources"][RATIO] == str(percent)
    ((_, memory),) = read_allocation(text)[0].amounts
    assert memory * 100 <= percent * 16_945_512_448 < (memory + 1) * 100
    bytes_alone = [DeviceAllocation("gpu", 0, {"memory": memory - 1})]
    (again,) = json.loads(write_allocation(bytes_alone, node))["gpu"]
    assert int(again["resources"][RATIO]) == percent


def test_percents_of_more_than_there_is_are_a_hundred():
    node = read_device_record(record(gpu(0)))
    (entry,) = json.loads(
        write_allocation([DeviceAllocation("gpu", 0, {"memory": 81 * GI})], node)
    )["gpu"]
    assert entry["resources"] == {MEMORY: "81Gi", RATIO: "100"}


def test_a_card_of_unknown_memory_has_no_percents():
    node = read_device_record(record(gpu(0, resources={CORE: 100})))
    held = DeviceAllocation("gpu", 0, {"memory": GI})
    (entry,) = json.loads(write_allocation([held], node))["gpu"]
    assert entry["resources"] == {MEMORY: "1Gi"}


def test_whether_a_pod_has_its_nic_alone_is_read_from_its_hints():
    held = {ALLOCATED: '{"rdma": [{"minor": 1}], "gpu": [{"minor": 0}]}'}
    hints = {HINT: '{"rdma": {"exclusivePolicy": "PCIeLevel"}}'}
    devices = read_designated(pod({}, held | hints))
    assert [(entry.type, entry.exclusive) for entry in devices] == [("gpu", None), ("rdma", "pcie")]
    assert [entry.exclusive for entry in read_designated(pod({}, held))] == [None, None]


def test_of_percents_beside_bytes_the_bytes_are_read():
    both = {ALLOCATED: json.dumps({"gpu": [{"resources": {MEMORY: "1Gi", RATIO: 7}}]})}
    bound = pod({}, both, nodeName="n1")
    assert read_designated(bound)[0].amounts == (("memory", GI),)
    assert read_bound_pod(bound).allocations == read_designated(bound)


def test_the_example_of_koordinator_is_read():
    # apis/extension/device_share.go
    whole = {CORE: 100, RATIO: 100, MEMORY: "16Gi"}
    text = {
        "gpu": [{"minor": 0, "resources": whole}, {"minor": 1, "resources": whole}],
        "rdma": [
            {"minor": 0, "id": "0000:09:00.0", "resources": {"koordinator.sh/rdma": 100}},
            {"minor": 1, "id": "0000:10:00.0", "resources": {"koordinator.sh/rdma": 100}},
        ],
    }
    assert read_allocation(json.dumps(text)) == (
        DeviceAllocation("gpu", 0, {"core": 100, "memory": 16 * GI}),
        DeviceAllocation("gpu", 1, {"core": 100, "memory": 16 * GI}),
        DeviceAllocation("rdma", 0, {"share": 100}),
        DeviceAllocation("rdma", 1, {"share": 100}),
    )


@st.composite
def holdings(draw):
    node = draw(inventories())
    held = []
    for device in node.devices:
        amounts = draw(
            st.fixed_dictionaries({"core": st.integers(1, 100), "memory": st.integers(1, 2**48)})
            if device.type == "gpu"
            else st.fixed_dictionaries({"share": st.integers(1, 100)})
        )
        functions = [function for group in device.vf_groups for function in group.functions]
        chosen = draw(st.none() | st.sampled_from(functions)) if functions else None
        held.append(DeviceAllocation(device.type, device.minor, amounts, chosen))
    return node, tuple(entry for entry in held if draw(st.booleans()))


@given(holdings())
@examples(100)
def test_a_written_allocation_reads_as_the_same(case):
    node, held = case
    devices = read_allocation(write_allocation(held, node))
    assert devices == tuple(entry for entry in held if entry.type != "host")
    assert write_allocation(devices, node) == write_allocation(held, node)


def test_what_the_node_does_not_have_is_not_written():
    node = read_device_record(record(gpu(0)))
    twice = [DeviceAllocation("gpu", 0, {"core": 1})] * 2
    for held, says in (
        ([DeviceAllocation("gpu", 1, {})], "the node has no gpu 1"),
        (twice, "gpu 0 is there twice"),
    ):
        with pytest.raises(ValueError, match=says):
            write_allocation(held, node)
    host = [DeviceAllocation("host", 0, {"cpu": 1})]
    assert write_allocation(host, node) == "{}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "is no JSON"),
        ('{"gpu": [{"minor": 0}, {"minor": 0}]}', ".gpu[1]: gpu 0 stands there twice"),
        ('{"gpu": [{"minor": -1}]}', ".gpu[0].minor=-1"),
        ('{"rdma": [{"extension": {"vfs": [{"busID": "a"}, {"busID": "b"}]}}]}', "at most"),
        ('{"rdma": [{"resources": {"koordinator.sh/rdma": "1.5"}}]}', "is no whole number"),
    ],
)
def test_a_mistake_in_an_allocation_is_named_by_its_path(text, says):
    with pytest.raises(ValueError, match=f"^{ALLOCATED}") as caught:
        read_allocation(text)
    assert says in str(caught.value)


def test_a_pod_counts_while_it_is_bound_and_runs():
    given_gpu = {ALLOCATED: '{"gpu": [{"minor": 3, "resources": {"koordinator.sh/gpu-core": 5}}]}'}
    bound = pod({}, given_gpu, nodeName="n1")
    expected = (DeviceAllocation("gpu", 3, {"core": 5}),)
    assert read_bound_pod(bound) == ("default/p", "n1", expected)
    assert read_designated(pod({}, given_gpu)) == expected
    bound["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_bound_pod(bound) is not None
    for phase in ("Succeeded", "Failed"):
        assert read_bound_pod({**bound, "status": {"phase": phase}}) is None
    assert read_bound_pod(pod({}, given_gpu)) is None
    assert read_bound_pod(pod({}, nodeName="n1")) is None


# --- hostile records

RICH = record(gpu(0, moduleID=1), gpu(1), NIC, annotations=table(OF_PAIRS), labels={"a": "b"})
HELD = {
    "gpu": [{"minor": 0, "resources": {CORE: 100, MEMORY: "16Gi", RATIO: 100}}],
    "rdma": [
        {"minor": 1, "id": "x", "resources": {}, "extension": {"vfs": [{"minor": 1, "busID": "y"}]}}
    ],
}


@given(broken(RICH))
@examples(800)
def test_a_hostile_record_is_refused_clearly_or_read_and_written(document):
    try:
        inventory = read_device_record(document)
        record = write_device_record(inventory, document)
    except (TypeError, ValueError) as error:
        assert type(error) in (TypeError, ValueError)
        assert 0 < len(str(error)) < 1000
    else:
        assert read_device_record(record) == inventory


@given(broken(OF_PAIRS))
@examples(200)
def test_a_hostile_table_is_refused_clearly_or_read(rows):
    try:
        annotations = table(rows)
    except TypeError:
        return
    with refused_clearly():
        read_device_record(record(annotations=annotations))


@given(broken(HELD))
@examples(400)
def test_a_hostile_allocation_is_refused_clearly_or_read(document):
    try:
        read_allocation(document)
    except (TypeError, ValueError) as error:
        assert type(error) in (TypeError, ValueError)
        assert ALLOCATED in str(error)


def koordinators(minor, core, memory, ratio, **extension):
    """An entry of the annotation as Koordinator's scheduler writes it."""
    resources = {CORE: str(core), MEMORY: str(memory), RATIO: str(ratio)}
    return {"minor": minor, "resources": resources, "id": f"GPU-{minor}", **extension}


def designated_to(limits, held, *, annotations=None, cards=2, memory=85198045184):
    """What a pod gets if its annotation says what Koordinator has given it."""
    resources = {CORE: "100", MEMORY: str(memory), RATIO: "100"}
    node = read_device_record(record(*(gpu(i, resources=resources) for i in range(cards)), NIC))
    cluster = DeviceCluster({"n": node})
    each = pod(limits, {ALLOCATED: json.dumps(held), **(annotations or {})})
    decision = cluster.allocate(read_pod(each), "n", designated=read_designated(each))
    assert decision.outcome == "bind", decision.reason
    decision.verify(node)
    return decision.placement


@pytest.mark.parametrize(("memory", "step"), [(85198045184, 1), (24564 << 20, 7), (81559 << 20, 9)])
def test_what_koordinator_wrote_for_percents_is_designated_for_the_same_pod(memory, step):
    for percent in range(1, 101, step):
        held = {"gpu": [koordinators(1, percent, percent * memory // 100, percent)]}
        for limits in ({CORE: percent, RATIO: percent}, {RATIO: percent}):
            (entry,) = designated_to(limits, held, memory=memory)
            assert dict(entry.amounts)["memory"] == percent * memory // 100


def test_what_koordinator_wrote_for_bytes_is_designated_for_the_same_pod():
    for part in range(1, 101):
        memory = 85198045184 * part // 100 - part % 7
        ratio = int(memory / 85198045184 * 100)  # cut off
        held = {"gpu": [koordinators(0, 30, memory, ratio)]}
        (entry,) = designated_to({CORE: 30, MEMORY: memory}, held)
        assert dict(entry.amounts) == {"core": 30, "memory": memory}


def test_several_gpus_and_a_virtual_function_that_koordinator_wrote_are_designated():
    memory = 85198045184
    function = {"extension": {"vfs": [{"busID": "0000:09:00.3"}]}}
    nic = {"minor": 1, "resources": {"koordinator.sh/rdma": "1"}, **function}
    held = {"gpu": [koordinators(i, 100, memory, 100) for i in (0, 2, 3)], "rdma": [nic]}
    hint = {HINT: json.dumps({"rdma": {"vfSelector": {}}})}
    limits = {"nvidia.com/gpu": 3, "koordinator.sh/rdma": 1}
    result = designated_to(limits, held, annotations=hint, cards=4)
    assert [(entry.type, entry.minor) for entry in result] == [
        ("gpu", 0),
        ("gpu", 2),
        ("gpu", 3),
        ("rdma", 1),
    ]
    assert result[-1].function.bus_id == "0000:09:00.3"
    shares = {"gpu": [koordinators(i, 25, memory // 4, 25) for i in (1, 3)]}
    limits = {"koordinator.sh/gpu.shared": 2, CORE: 50, RATIO: 50}
    assert [entry.minor for entry in designated_to(limits, shares, cards=4)] == [1, 3]
