"""Reads and writes the Device record of a node, which Koordinator's agent maintains.

A record holds all devices of a node, including unhealthy ones. Properties of the whole node are
labels of the record or the node; the partitions are an annotation.
"""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_mapping
from hivecore._quantities import write_binary, write_decimal
from hivecore.devices import (
    Device,
    NodeDevices,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.interop.koordinator.names import (
    AMOUNTS,
    GPU_MODEL,
    GPU_PARTITIONS,
    GPU_VENDOR,
    ISOLATION_PROVIDER,
    MEMORY,
    PARTITION_POLICY,
    WELL_PLANNED,
)
from hivecore.interop.koordinator.partitions import read_table, write_table
from hivecore.interop.kubernetes.fields import Field

__all__ = ["read_device_record", "write_device_record", "write_node_labels"]

_MOST_ID = 2**31 - 1
_MOST = 2**48


def read_device_record(
    record: Mapping[str, Any], node: Mapping[str, Any] | None = None
) -> NodeDevices:
    """Return the inventory of a node.

    A partition table on the record is used with the record's policy; a table that `NodeDevices`
    knows for the model is used with the node's policy.

    :param record: the Device object as plain data. Fields without a meaning here, such as devices
        of other types, are ignored.
    :param node: the Node object, for its labels; vendor and model may be on the record.
    :raises ValueError: a value is out of range, two devices of a type have the same minor, or the
        places of devices contradict each other. The message has the path.
    :raises TypeError: a field has a wrong type.

    Source: Koordinator, ``apis/scheduling/v1alpha1/device_types.go``.

    >>> from hivecore.interop.koordinator import read_device_record
    >>> inventory = read_device_record({"spec": {"devices": [{
    ...     "type": "gpu", "minor": 0, "health": True, "id": "GPU-fd97",
    ...     "resources": {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": "80Gi"},
    ...     "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:3a", "busID": "3b:00.0"},
    ... }]}})
    >>> gpu = inventory.devices[0]
    >>> gpu.amounts, gpu.numa, gpu.pcie
    ((('core', 100), ('memory', 85899345920)), 0, 'pci0000:3a')
    """
    document = Field(as_mapping(record, "record"))
    labels = document["metadata"]["labels"]
    on_node = Field({} if node is None else as_mapping(node, "node"))["metadata"]["labels"]
    entries = document["spec"]["devices"]
    devices = [_device(entry) for entry in entries.entries() if _is_known(entry)]
    vendor = on_node[GPU_VENDOR].text() or labels[GPU_VENDOR].text()
    model = on_node[GPU_MODEL].text() or labels[GPU_MODEL].text()
    annotation = document["metadata"]["annotations"][GPU_PARTITIONS]
    if annotation.absent:
        table = None
        policy = (labels if node is None else on_node)[PARTITION_POLICY].text()
    else:
        table = read_table(annotation)
        policy = labels[PARTITION_POLICY].text()
    planned = labels[WELL_PLANNED].text() == "true"
    provider = on_node[ISOLATION_PROVIDER].text()
    with entries.named():
        return NodeDevices(
            tuple(devices),
            table,
            "honor" if policy == "Honor" else "prefer",
            planned,
            vendor,
            model,
            provider,
        )


def _is_known(entry: Field) -> bool:
    return entry["type"].name() in AMOUNTS


def _device(entry: Field) -> Device:
    type_ = entry["type"].text()
    place, module = entry["topology"], entry["moduleID"]
    minor = entry["minor"].integer(0, _MOST_ID)
    resources = entry["resources"]
    amounts = {
        name: resources[resource].quantity(0, _MOST)
        for name, resource in AMOUNTS[type_].items()
        if resource in resources
    }
    fields: dict[str, Any] = {
        "healthy": entry["health"].flag(),
        "socket": _number(place["socketID"]),
        "numa": _number(place["nodeID"]),
        "pcie": place["pcieID"].text() or None,
        "bus_id": place["busID"].text(),
        "uuid": entry["id"].text(),
        "module_id": None if module.value is None else module.integer(0, _MOST_ID),
        "labels": entry["labels"].texts(),
        "vf_groups": tuple(_functions(group) for group in entry["vfGroups"].entries()),
    }
    with entry.named():
        return Device(type_, minor, amounts, **fields)


def _number(field: Field) -> int | None:
    """Return the number of a socket or NUMA node; -1 means unknown."""
    number = -1 if field.value is None else field.integer(-1, _MOST_ID)
    return None if number < 0 else number


def _functions(group: Field) -> VirtualFunctionGroup:
    functions = []
    for entry in group["vfs"].entries():
        minor = entry["minor"]
        number = 0 if minor.value is None else minor.integer(-_MOST_ID, _MOST_ID)
        functions.append(VirtualFunction(entry["busID"].name(), number))
    return VirtualFunctionGroup(tuple(functions), group["labels"].texts())


def write_device_record(inventory: NodeDevices, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a node with a new inventory.

    Fields that agree with the inventory or have no meaning here stay as they are written. Devices
    that the inventory lacks are removed, new ones are added at the end.

    :param inventory: the state to write. ``isolation_provider`` is left out, as it is a label of
        the node; so are the rules for sharing, see `read_gpu_sharing`.
    :param record: the previous record, which is not changed, or ``{"metadata": {"name": NODE}}``.
    :raises ValueError: the record cannot be read, or the inventory has devices of type "host".
    :raises TypeError: a field or an argument has a wrong type.

    >>> from hivecore.devices import Device, NodeDevices
    >>> from hivecore.interop.koordinator import write_device_record
    >>> record = {"metadata": {"name": "n1"}, "spec": {"devices": [
    ...     {"type": "gpu", "minor": 0, "health": True, "conditions": []}]}}
    >>> updated = write_device_record(NodeDevices([Device("gpu", 0, {}, healthy=False)]), record)
    >>> updated["spec"]["devices"]
    [{'type': 'gpu', 'minor': 0, 'health': False, 'conditions': []}]
    """
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be NodeDevices, not {type(inventory).__name__}")
    if inventory.of_type("host"):
        raise ValueError("inventory: a device of type 'host' is none of Koordinator's")
    before = read_device_record(record)
    written = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", **record}
    written["metadata"] = _metadata(inventory, before, Field(record)["metadata"])
    spec = dict(Field(record)["spec"].items())
    devices = _devices(inventory, before, spec.get("devices", Field(None)))
    written["spec"] = {**{key: field.value for key, field in spec.items()}, "devices": devices}
    return written


def _devices(inventory: NodeDevices, before: NodeDevices, entries: Field) -> list[Any]:
    old = {(device.type, device.minor): device for device in before.devices}
    new = {(device.type, device.minor): device for device in inventory.devices}
    written = []
    for entry in entries.entries():
        if not _is_known(entry):
            written.append(entry.value)
            continue
        key = entry["type"].text(), entry["minor"].integer(0, _MOST_ID)
        if key in new:
            written.append(_updated(entry.value, old[key], new.pop(key)))
    return written + [_updated({}, None, device) for device in new.values()]


def _updated(entry: Mapping[str, Any], old: Device | None, device: Device) -> dict[str, Any]:
    """Return the entry with the values that differ replaced."""
    updated = {"type": device.type, "minor": device.minor, **entry, "health": device.healthy}
    for key, attribute, value in (
        ("id", "uuid", device.uuid or None),
        ("moduleID", "module_id", device.module_id),
        ("labels", "labels", dict(device.labels) or None),
    ):
        if old is None or getattr(old, attribute) != getattr(device, attribute):
            _put(updated, key, value)
    if old is None or old.amounts != device.amounts:
        _put(updated, "resources", _resources(entry.get("resources") or {}, device))
    if _place(old) != _place(device):
        _put(updated, "topology", _topology(device))
    if old is None or old.vf_groups != device.vf_groups:
        _put(updated, "vfGroups", [_group(group) for group in device.vf_groups] or None)
    return updated


def _put(entry: dict[str, Any], key: str, value: Any) -> None:
    entry.pop(key, None)
    if value is not None:
        entry[key] = value


def _resources(before: Mapping[str, Any], device: Device) -> dict[str, Any] | None:
    names = AMOUNTS[device.type]
    amounts = {name: value for name, value in before.items() if name not in names.values()}
    for name, amount in device.amounts:
        write = write_binary if names[name] == MEMORY else write_decimal
        amounts[names[name]] = write(amount)
    return amounts or None


def _place(device: Device | None) -> tuple[object, ...]:
    if device is None:
        return None, None, None, ""
    return device.socket, device.numa, device.pcie, device.bus_id


def _topology(device: Device) -> dict[str, Any] | None:
    if _place(device) == _place(None):
        return None
    written: dict[str, Any] = {
        "socketID": -1 if device.socket is None else device.socket,
        "nodeID": -1 if device.numa is None else device.numa,
        "pcieID": device.pcie or "",
    }
    if device.bus_id:
        written["busID"] = device.bus_id
    return written


def _group(group: VirtualFunctionGroup) -> dict[str, Any]:
    vfs = [{"minor": function.minor, "busID": function.bus_id} for function in group.functions]
    return {**({"labels": dict(group.labels)} if group.labels else {}), "vfs": vfs}


def _metadata(inventory: NodeDevices, before: NodeDevices, metadata: Field) -> dict[str, Any]:
    written = {key: field.value for key, field in metadata.items()}
    wanted, current = _labels(inventory), _labels(before)
    labels = {key: value for key, value in wanted.items() if current[key] != value}
    if labels:
        written["labels"] = {**(written.get("labels") or {}), **labels}
    text = _table(inventory)
    if text != _table(before):
        annotations = dict(written.get("annotations") or {})
        annotations.pop(GPU_PARTITIONS, None)
        if text:
            annotations[GPU_PARTITIONS] = text
        written["annotations"] = annotations
    return written


def _table(inventory: NodeDevices) -> str:
    """Return the partition annotation, or "" without an own table."""
    table = inventory.partitions
    return "" if table is None else write_table(table, inventory.devices)


def _labels(inventory: NodeDevices) -> dict[str, str]:
    return {
        GPU_VENDOR: inventory.vendor,
        GPU_MODEL: inventory.model,
        PARTITION_POLICY: "Honor" if inventory.partition_policy == "honor" else "Prefer",
        WELL_PLANNED: "true" if inventory.secondary_well_planned else "false",
    }


def write_node_labels(inventory: NodeDevices) -> dict[str, str]:
    """Return the labels of the node that describe its GPUs, without unknown values.

    >>> from hivecore.devices import NodeDevices
    >>> from hivecore.interop.koordinator import write_node_labels
    >>> write_node_labels(NodeDevices((), model="A100", isolation_provider="HAMi-core"))
    {'node.koordinator.sh/gpu-model': 'A100', 'koordinator.sh/gpu-isolation-provider': 'HAMi-core'}
    """
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be NodeDevices, not {type(inventory).__name__}")
    labels = {
        GPU_VENDOR: inventory.vendor,
        GPU_MODEL: inventory.model,
        ISOLATION_PROVIDER: inventory.isolation_provider,
        PARTITION_POLICY: "Honor" if inventory.partition_policy == "honor" else "",
    }
    return {key: value for key, value in labels.items() if value}
