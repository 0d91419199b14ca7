"""The Device record of a node, which its agent writes: read, and brought up to date.

One record holds all devices of a node. An unhealthy one keeps its entry. What holds for the whole
node stands in labels, of the record or of the node, and in the annotation with the partitions.
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
    """The inventory of a node.

    A table of partitions on the record comes with the record's policy; the table that
    `NodeDevices` knows of some models comes with the node's.

    :param record: the object of kind Device as plain data. What has no meaning here, such as
        devices of other types, is not looked at.
    :param node: the object of kind Node, for its labels; vendor and model may be on the record.
    :raises ValueError: something is out of range, two devices of a type have the same minor, or
        their places contradict each other. The message has the path.
    :raises TypeError: something is of a wrong type.

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
        name: resources[there].quantity(0, _MOST)
        for name, there in AMOUNTS[type_].items()
        if there in resources
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
    """The number of a socket or NUMA node; -1: not known."""
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
    """The record of a node, brought up to date.

    What reads as the inventory has it stays as it is written, and so does what has no meaning
    here. Devices that the inventory does not have leave, others are added at the end.

    :param inventory: what the record should say; ``isolation_provider`` is a label of the node, and
        how GPUs may be shared stands elsewhere, see `read_gpu_sharing`.
    :param record: a record of before, or for a new one ``{"metadata": {"name": NODE}}``; it is not
        changed.
    :raises ValueError: the record cannot be read, or the inventory has devices of type "host".
    :raises TypeError: the same, and an argument is of a wrong type.

    >>> from hivecore.devices import Device, NodeDevices
    >>> from hivecore.interop.koordinator import write_device_record
    >>> record = {"metadata": {"name": "n1"}, "spec": {"devices": [
    ...     {"type": "gpu", "minor": 0, "health": True, "conditions": []}]}}
    >>> made = write_device_record(NodeDevices([Device("gpu", 0, {}, healthy=False)]), record)
    >>> made["spec"]["devices"]
    [{'type': 'gpu', 'minor': 0, 'health': False, 'conditions': []}]
    """
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be NodeDevices, not {type(inventory).__name__}")
    if inventory.of_type("host"):
        raise ValueError("inventory: a device of type 'host' is none of Koordinator's")
    before = read_device_record(record)
    made = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", **record}
    made["metadata"] = _metadata(inventory, before, Field(record)["metadata"])
    spec = dict(Field(record)["spec"].items())
    devices = _devices(inventory, before, spec.get("devices", Field(None)))
    made["spec"] = {**{key: field.value for key, field in spec.items()}, "devices": devices}
    return made


def _devices(inventory: NodeDevices, before: NodeDevices, entries: Field) -> list[Any]:
    old = {(one.type, one.minor): one for one in before.devices}
    new = {(one.type, one.minor): one for one in inventory.devices}
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
    """The entry with what differs from what it says now."""
    made = {"type": device.type, "minor": device.minor, **entry, "health": device.healthy}
    for key, attribute, value in (
        ("id", "uuid", device.uuid or None),
        ("moduleID", "module_id", device.module_id),
        ("labels", "labels", dict(device.labels) or None),
    ):
        if old is None or getattr(old, attribute) != getattr(device, attribute):
            _put(made, key, value)
    if old is None or old.amounts != device.amounts:
        _put(made, "resources", _resources(entry.get("resources") or {}, device))
    if _place(old) != _place(device):
        _put(made, "topology", _topology(device))
    if old is None or old.vf_groups != device.vf_groups:
        _put(made, "vfGroups", [_group(group) for group in device.vf_groups] or None)
    return made


def _put(entry: dict[str, Any], key: str, value: Any) -> None:
    entry.pop(key, None)
    if value is not None:
        entry[key] = value


def _resources(before: Mapping[str, Any], device: Device) -> dict[str, Any] | None:
    names = AMOUNTS[device.type]
    made = {name: value for name, value in before.items() if name not in names.values()}
    for name, amount in device.amounts:
        write = write_binary if names[name] == MEMORY else write_decimal
        made[names[name]] = write(amount)
    return made or None


def _place(device: Device | None) -> tuple[object, ...]:
    if device is None:
        return None, None, None, ""
    return device.socket, device.numa, device.pcie, device.bus_id


def _topology(device: Device) -> dict[str, Any] | None:
    if _place(device) == _place(None):
        return None
    made: dict[str, Any] = {
        "socketID": -1 if device.socket is None else device.socket,
        "nodeID": -1 if device.numa is None else device.numa,
        "pcieID": device.pcie or "",
    }
    if device.bus_id:
        made["busID"] = device.bus_id
    return made


def _group(group: VirtualFunctionGroup) -> dict[str, Any]:
    vfs = [{"minor": one.minor, "busID": one.bus_id} for one in group.functions]
    return {**({"labels": dict(group.labels)} if group.labels else {}), "vfs": vfs}


def _metadata(inventory: NodeDevices, before: NodeDevices, metadata: Field) -> dict[str, Any]:
    made = {key: field.value for key, field in metadata.items()}
    wanted, found = _labels(inventory), _labels(before)
    labels = {key: value for key, value in wanted.items() if found[key] != value}
    if labels:
        made["labels"] = {**(made.get("labels") or {}), **labels}
    text = _table(inventory)
    if text != _table(before):
        annotations = dict(made.get("annotations") or {})
        annotations.pop(GPU_PARTITIONS, None)
        if text:
            annotations[GPU_PARTITIONS] = text
        made["annotations"] = annotations
    return made


def _table(inventory: NodeDevices) -> str:
    """The annotation; "": the inventory has no table of its own."""
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
    """The labels of the node itself that tell of its GPUs; what is not known is left out.

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
