"""What the mode "koordinator" asks of inventories and requests beside the strict one."""

from collections.abc import Iterable
from typing import Any

from hivecore._arguments import as_choice, as_tuple
from hivecore.devices._numbers import Numbers
from hivecore.devices.device import MOST_DEVICES, TYPES
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.partition_table import Partition, PartitionTable

__all__ = ["QUIRKS", "as_quirks", "named_quirks", "raw_query", "raw_shape"]

#: Koordinator's defects that can be mended, in the order of the kernel's bits.
QUIRKS = (
    "swapped_device_score",
    "lowest_tier_first",
    "exclusivity_ignored",
    "one_instance_scored",
    "bytes_not_scored",
    "greedy_joint",
)


def as_quirks(quirks: Iterable[str] | None) -> int:
    """The kernel's number of these defects; `None`: all."""
    given = QUIRKS if quirks is None else as_tuple(quirks, "quirks")
    kept = {as_choice(quirk, "quirks", QUIRKS) for quirk in given}
    return sum(1 << i for i, quirk in enumerate(QUIRKS) if quirk in kept)


def named_quirks(number: int) -> tuple[str, ...]:
    """The defects of a number."""
    return tuple(quirk for i, quirk in enumerate(QUIRKS) if number >> i & 1)


def raw_shape(numbers: Numbers, inventory: NodeDevices) -> tuple[Any, ...]:
    """The arguments of ``DeviceKernel.add_shape`` for an inventory.

    Switches and NUMA nodes are numbered in the order in which they are visited: by name, by number.
    Who has a place and no switch is on the switch of no name.
    """
    placed = [
        device
        for device in inventory.devices
        if device.type != "host"
        and any(place is not None for place in (device.socket, device.numa, device.pcie))
    ]
    switches = sorted({device.pcie or "" for device in placed})
    numas = sorted({device.numa for device in placed if device.numa is not None})
    places = {
        (device.type, device.minor): (
            -1 if device.numa is None else numas.index(device.numa),
            switches.index(device.pcie or ""),
        )
        for device in placed
    }
    devices = tuple(
        numbers.device(device, -1, *places.get((device.type, device.minor), (-1, -1)))
        for device in inventory.devices
    )
    rows = _rows(inventory)
    gpus = [gpu.minor for gpu in inventory.of_type("gpu")]
    named = {minor for row in rows or () for minor in row.members}
    absent = sorted(named.difference(gpus))
    if len(gpus) + len(absent) > MOST_DEVICES:
        raise ValueError(f"inventory: partitions name more than {MOST_DEVICES} GPUs")
    position = {minor: i for i, minor in enumerate([*gpus, *absent])}
    partitions = tuple(
        (
            sum(1 << position[minor] for minor in row.members),
            row.score,
            -1 if row.bandwidth is None else row.bandwidth,
        )
        for row in rows or ()
    )
    honor = inventory.partition_policy == "honor"
    provider = numbers.provider(inventory.isolation_provider)
    facts = tuple(absent), rows is not None, inventory.secondary_well_planned
    model, sharing = numbers.model(inventory.model), numbers.sharing(inventory)
    return devices, partitions, honor, provider, model, sharing, facts


def _rows(inventory: NodeDevices) -> list[Partition] | None:
    """The partitions in minors, there or not; `None`: there is no table."""
    table = inventory.partitions
    if table is None:
        if inventory.vendor not in ("", "nvidia") or inventory.model not in ("H100", "H800", "H20"):
            return None
        table = PartitionTable.of_model(inventory.model, "minor")
    if table.numbers == "minor":
        return list(table.partitions)
    minors = {gpu.module_id: gpu.minor for gpu in inventory.of_type("gpu")}
    return [
        Partition(tuple(minors[slot] for slot in row.members), row.score, row.bandwidth)
        for row in table.partitions
        if all(slot in minors for slot in row.members)
    ]


def raw_query(numbers: Numbers, request: DeviceRequest) -> Any:
    """The request in numbers, if Koordinator knows such ones."""
    if request.models:
        raise ValueError("request: models are named, which mode 'koordinator' does not look at")
    for need in request.needs:
        what = f"request: {need.type!r} is needed"
        if need.type not in TYPES[:3]:
            raise ValueError(f"{what}, which mode 'koordinator' does not look at")
        if need.scope == "socket":
            raise ValueError(f"{what} on one socket, which mode 'koordinator' does not know")
        if need.repeat:
            raise ValueError(f"{what} repeatedly, which mode 'koordinator' does not know")
        if need.preferred_scope is not None:
            raise ValueError(f"{what} in a preferred scope, which mode 'koordinator' does not know")
    return numbers.query(request, raw=True)
