"""Reads and writes the annotation in which Koordinator keeps the devices of a pod.

    {"gpu": [{"minor": 0, "id": "GPU-fd97", "resources": {"koordinator.sh/gpu-core": "50",
      "koordinator.sh/gpu-memory": "40Gi", "koordinator.sh/gpu-memory-ratio": "50"}}],
     "rdma": [{"minor": 1, "id": "0000:09:00.0", "resources": {"koordinator.sh/rdma": "1"},
      "extension": {"vfs": [{"minor": 3, "busID": "0000:09:00.3"}]}}]}

A share that follows a template has ``"extension": {"gpuSharedResourceTemplate": "vir02"}``. The
annotation gives GPU memory in bytes and in percent. Bytes count here; the percentage is the
smallest that covers them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_mapping, as_tuple
from hivecore._quantities import write_binary, write_decimal
from hivecore.devices import Device, DeviceAllocation, NodeDevices, VirtualFunction
from hivecore.devices.device import share_of_memory
from hivecore.interop.koordinator.hints import read_hints
from hivecore.interop.koordinator.names import AMOUNTS, DEVICE_ALLOCATED, MEMORY
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import BoundPod, has_ended, node_of, owner_name

__all__ = ["read_allocation", "read_bound_pod", "read_designated", "write_allocation"]

_TEMPLATE = "gpuSharedResourceTemplate"
_MOST_ID = 2**31 - 1
_MOST = 2**48


def read_allocation(annotation: str | Mapping[str, Any]) -> tuple[DeviceAllocation, ...]:
    """Return the devices in an annotation ``scheduling.koordinator.sh/device-allocated``.

    Types of devices that are not known here are left out. If an entry has bytes and a percentage of
    memory, the bytes count.

    :param annotation: its text, or the mapping that the text encodes.
    :returns: sorted by type and minor.
    :raises ValueError: the text is no JSON, a device is listed twice or has several virtual
        functions, or a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.koordinator import read_allocation
    >>> device, = read_allocation('{"gpu": [{"minor": 3, "resources": '
    ...     '{"koordinator.sh/gpu-memory": "1Gi", "koordinator.sh/gpu-memory-ratio": "7"}}]}')
    >>> device.minor, device.amounts
    (3, (('memory', 1073741824),))
    """
    field = Field(annotation, DEVICE_ALLOCATED)
    return _read(field.json() if isinstance(annotation, str) else field)


def _read(types: Field) -> tuple[DeviceAllocation, ...]:
    allocations: dict[tuple[str, int], DeviceAllocation] = {}
    for type_, entries in types.items():
        if type_ not in AMOUNTS:
            continue
        for entry in entries.entries():
            minor = entry["minor"]
            number = 0 if minor.value is None else minor.integer(0, _MOST_ID)
            if (type_, number) in allocations:
                raise entry.error(f"{type_} {number} stands there twice")
            allocations[type_, number] = DeviceAllocation(
                type_,
                number,
                _amounts(type_, entry["resources"]),
                _function(entry),
                template=entry["extension"][_TEMPLATE].text() if type_ == "gpu" else "",
            )
    order = list(AMOUNTS)
    return tuple(
        allocations[key]
        for key in sorted(allocations, key=lambda key: (order.index(key[0]), key[1]))
    )


def _amounts(type_: str, resources: Field) -> dict[str, int]:
    amounts = {
        name: resources[resource].quantity(0, _MOST)
        for name, resource in AMOUNTS[type_].items()
        if resource in resources
    }
    if amounts.get("memory"):
        amounts.pop("memory_ratio", None)
    return amounts


def _function(entry: Field) -> VirtualFunction | None:
    functions = entry["extension"]["vfs"].entries()
    if not functions:
        return None
    if len(functions) > 1:
        raise entry["extension"]["vfs"].error("a device gives one virtual function at most")
    minor = functions[0]["minor"]
    number = 0 if minor.value is None else minor.integer(-_MOST_ID, _MOST_ID)
    return VirtualFunction(functions[0]["busID"].name(), number)


def write_allocation(allocations: Iterable[DeviceAllocation], inventory: NodeDevices) -> str:
    """Return the annotation ``scheduling.koordinator.sh/device-allocated``; `read_allocation` reads
    it.

    GPUs get both bytes and a percentage of memory. If one is missing, it follows from the other and
    the memory of the device: bytes are rounded down, percentages up, so that a percentage survives
    both conversions. The id is the device's uuid, or else its bus address. Devices of type "host"
    are left out, as Kubernetes counts them itself. Exclusive use is in the pod's hints, not here.

    :param allocations: the devices of the pod.
    :param inventory: the devices of its node.
    :raises ValueError: the node has no such device, or a device is listed twice.
    :raises TypeError: an argument has a wrong type.

    >>> from hivecore.devices import Device, DeviceAllocation, NodeDevices
    >>> from hivecore.interop.koordinator import write_allocation
    >>> node = NodeDevices([Device("gpu", 0, {"core": 100, "memory": 3 << 30}, uuid="GPU-fd97")])
    >>> print(write_allocation([DeviceAllocation("gpu", 0, {"memory": 1 << 30})], node))
    {"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"1Gi","koordinator.sh/gpu-memory-ratio":"34"},"id":"GPU-fd97"}]}
    """
    if not isinstance(inventory, NodeDevices):
        raise TypeError(f"inventory must be NodeDevices, not {type(inventory).__name__}")
    devices = {(device.type, device.minor): device for device in inventory.devices}
    entries: dict[str, list[dict[str, Any]]] = {}
    seen = set()
    for allocation in as_tuple(allocations, "allocations"):
        if not isinstance(allocation, DeviceAllocation):
            kind = type(allocation).__name__
            raise TypeError(f"allocations must hold DeviceAllocation, not {kind}")
        if allocation.type not in AMOUNTS:
            continue
        key = allocation.type, allocation.minor
        if key not in devices:
            raise ValueError(f"allocations: the node has no {allocation.type} {allocation.minor}")
        if key in seen:
            raise ValueError(f"allocations: {allocation.type} {allocation.minor} is there twice")
        seen.add(key)
        entries.setdefault(allocation.type, []).append(_written(allocation, devices[key]))
    return json.dumps(dict(sorted(entries.items())), separators=(",", ":"))


def _written(allocation: DeviceAllocation, device: Device) -> dict[str, Any]:
    amounts = dict(allocation.amounts)
    total = dict(device.amounts).get("memory", 0)
    if allocation.type == "gpu" and total:
        if "memory" in amounts and "memory_ratio" not in amounts:
            amounts["memory_ratio"] = min(-(-amounts["memory"] * 100 // total), 100)
        elif "memory_ratio" in amounts and "memory" not in amounts:
            amounts["memory"] = share_of_memory(amounts["memory_ratio"], total)
    resources = {}
    for name, resource in sorted(AMOUNTS[allocation.type].items(), key=lambda pair: pair[1]):
        if name in amounts:
            write = write_binary if resource == MEMORY else write_decimal
            resources[resource] = write(amounts[name])
    entry: dict[str, Any] = {"minor": allocation.minor, "resources": resources}
    if device.uuid or device.bus_id:
        entry["id"] = device.uuid or device.bus_id
    if allocation.function is not None:
        function: dict[str, Any] = {"busID": allocation.function.bus_id}
        if allocation.function.minor:
            function = {"minor": allocation.function.minor, **function}
        entry["extension"] = {"vfs": [function]}
    if allocation.template:
        entry["extension"] = {**entry.get("extension", {}), _TEMPLATE: allocation.template}
    return entry


def read_designated(pod: Mapping[str, Any]) -> tuple[DeviceAllocation, ...] | None:
    """Return the devices that a pod has been given already; ``None`` if it has none.

    Whether it has them exclusively comes from its hints.

    :param pod: the Kubernetes object as plain data.
    :raises ValueError: an annotation cannot be read.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.koordinator import read_designated
    >>> read_designated({"metadata": {"name": "p"}}) is None
    True
    """
    document = Field(as_mapping(pod, "pod"))
    annotation = document["metadata"]["annotations"][DEVICE_ALLOCATED]
    if annotation.absent:
        return None
    exclusive = {type_: hint.exclusive for type_, hint in read_hints(document).items()}
    return tuple(
        allocation.replace(exclusive=exclusive.get(allocation.type))
        for allocation in _read(annotation.json())
    )


def read_bound_pod(pod: Mapping[str, Any]) -> BoundPod | None:
    """Return the devices of a bound pod, to recover them after a restart; ``None`` if there are
    none.

    A pod counts from its binding until it ends, even while it is being deleted.

    :param pod: the Kubernetes object as plain data.
    :raises ValueError: the annotation cannot be read.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.koordinator import read_bound_pod
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...            "scheduling.koordinator.sh/device-allocated": '{"gpu": [{"minor": 3}]}'}},
    ...        "spec": {"nodeName": "n1"}}
    >>> bound = read_bound_pod(pod)
    >>> bound.name, bound.node, bound.allocations[0].minor
    ('default/p', 'n1', 3)
    """
    document = Field(as_mapping(pod, "pod"))
    node = node_of(document)
    if not node or has_ended(document):
        return None
    allocations = read_designated(pod)
    return BoundPod(owner_name(document), node, allocations) if allocations else None
