"""The state of a cluster as bytes: JSON, each inventory once."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hivecore._record import fields_of
from hivecore.devices.device import Device, VirtualFunction, VirtualFunctionGroup
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.gpu_links import GpuLinks
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.partition_table import Partition, PartitionTable
from hivecore.devices.share_templates import ShareTemplate, ShareTemplates
from hivecore.devices.task_mix import Task
from hivecore.errors import CorruptStateError

__all__ = ["OwnerRecord", "Settings", "decode", "encode"]


class OwnerRecord(NamedTuple):
    """An owner as it is saved."""

    node: str
    allocations: tuple[DeviceAllocation, ...]
    """Of a reservation all that it holds, its users' part included."""
    priority: int
    reservation: str
    """The one that it uses; "": none."""
    restricted: bool | None
    """Whether it is a reservation for its devices alone; `None`: it is none at all."""


Owners = dict[str, OwnerRecord]
#: Policy, seed, whether the mix is given, what was counted for it and what it is.
Settings = tuple[str, int, bool, tuple[Mapping[Task, int], Mapping[Task, int]]]


def encode(
    settings: Settings,
    names: list[str | None],
    inventories: list[NodeDevices | None],
    owners: Owners,
) -> bytes:
    """The payload of ``DeviceCluster.to_bytes``."""
    numbers: dict[NodeDevices, int] = {}
    nodes: list[list[Any] | None] = []
    for name, inventory in zip(names, inventories, strict=True):
        if name is None or inventory is None:
            nodes.append(None)
        else:
            nodes.append([name, numbers.setdefault(inventory, len(numbers))])
    policy, seed, is_given, (counts, weights) = settings
    state = {
        "policy": policy,
        "seed": seed,
        "mix": [is_given, _mix(counts), _mix(weights)],
        "quirks": None,  # states of mode "koordinator" named some
        "inventories": [_inventory(inventory) for inventory in numbers],
        "nodes": nodes,
        "owners": [
            [name, node, [_allocation(allocation) for allocation in allocations], *rest]
            for name, (node, allocations, *rest) in owners.items()
        ],
    }
    return json.dumps(state, separators=(",", ":"), ensure_ascii=True).encode()


def decode(
    payload: bytes,
) -> tuple[Settings, list[str | None], list[NodeDevices | None], Owners]:
    """What `encode` was given."""
    state = json.loads(payload)
    if state["quirks"] is not None:
        raise CorruptStateError(
            "data: a DeviceCluster of mode 'koordinator', which hivecore no longer has; add its "
            "nodes to a new DeviceCluster, and recover what pods have by their annotations"
        )
    inventories = [_read_inventory(inventory) for inventory in state["inventories"]]
    names: list[str | None] = []
    devices: list[NodeDevices | None] = []
    for node in state["nodes"]:
        names.append(None if node is None else node[0])
        devices.append(None if node is None else inventories[node[1]])
    owners = {
        name: OwnerRecord(
            node, tuple(_read_allocation(allocation) for allocation in allocations), *rest
        )
        for name, node, allocations, *rest in state["owners"]
    }
    is_given, counts, weights = state["mix"]
    counted = _read_mix(counts), _read_mix(weights)
    settings = state["policy"], state["seed"], bool(is_given), counted
    return settings, names, devices, owners


def _mix(weights: Mapping[Task, int]) -> list[Any]:
    return [
        [task.share, task.is_percent, task.gpus, task.cpu_milli, task.models, weight]
        for task, weight in weights.items()
    ]


def _read_mix(value: list[Any]) -> dict[Task, int]:
    return {
        Task(share, is_percent, gpus, cpu, tuple(models)): weight
        for share, is_percent, gpus, cpu, models, weight in value
    }


def _inventory(inventory: NodeDevices) -> list[Any]:
    table, shares = inventory.partitions, inventory.templates
    return [
        [_device(device) for device in inventory.devices],
        None
        if table is None
        else [
            table.numbers,
            [[row.members, row.score, row.bandwidth, row.link] for row in table.partitions],
        ],
        inventory.partition_policy,
        inventory.secondary_well_planned,
        inventory.vendor,
        inventory.model,
        inventory.isolation_provider,
        None
        if shares is None
        else [[[template.name, template.amounts] for template in shares.templates], shares.matched],
        inventory.shareable,
        inventory.links and inventory.links.counts,
    ]


def _read_inventory(value: list[Any]) -> NodeDevices:
    devices, table, policy, planned, vendor, model, provider, shares, shareable, *links = value
    partitions = None
    if table is not None:
        numbers, rows = table
        partitions = PartitionTable(
            tuple(Partition(tuple(members), *others) for members, *others in rows), numbers
        )
    templates = None
    if shares is not None:
        rows, matched = shares
        templates = ShareTemplates(
            tuple(ShareTemplate(name, dict(amounts)) for name, amounts in rows), tuple(matched)
        )
    return NodeDevices(
        tuple(_read_device(device) for device in devices),
        partitions,
        policy,
        planned,
        vendor,
        model,
        provider,
        templates,
        shareable,
        GpuLinks(links[0]) if links and links[0] is not None else None,  # older states had none
    )


def _device(device: Device) -> list[Any]:
    groups = [
        [group.labels, [[function.bus_id, function.minor] for function in group.functions]]
        for group in device.vf_groups
    ]
    fields = [getattr(device, name) for name in fields_of(Device) if name != "vf_groups"]
    return [*fields, groups]


def _read_device(value: list[Any]) -> Device:
    *fields, groups = value
    names = [name for name in fields_of(Device) if name != "vf_groups"]
    given = dict(zip(names, fields, strict=True))
    given["amounts"] = dict(given["amounts"])
    given["labels"] = dict(given["labels"])
    return Device(
        **given,
        vf_groups=tuple(
            VirtualFunctionGroup(
                [VirtualFunction(*function) for function in functions], dict(labels)
            )
            for labels, functions in groups
        ),
    )


def _allocation(allocation: DeviceAllocation) -> list[Any]:
    function = (
        None
        if allocation.function is None
        else [allocation.function.bus_id, allocation.function.minor]
    )
    return [
        allocation.type,
        allocation.minor,
        allocation.amounts,
        function,
        allocation.exclusive,
        allocation.template,
    ]


def _read_allocation(value: list[Any]) -> DeviceAllocation:
    type, minor, amounts, function, exclusive, template = value
    vf = None if function is None else VirtualFunction(*function)
    return DeviceAllocation(type, minor, dict(amounts), vf, exclusive, template)
