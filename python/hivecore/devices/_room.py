"""How much room the devices of a node have for a need, in plain words of the inventory."""

from collections.abc import Iterable

from hivecore.devices.device import Device, share_of_memory
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed
from hivecore.devices.label_expression import is_selected
from hivecore.devices.node_devices import NodeDevices

__all__ = ["has_function", "times_free"]


def times_free(
    device: Device,
    inventory: NodeDevices,
    held: Iterable[DeviceAllocation],
    need: DeviceNeed,
) -> int:
    """How often a device gives what is needed: at most once, unless the need repeats."""
    held = [allocation for allocation in held if allocation.type == device.type]
    here = [allocation for allocation in held if allocation.minor == device.minor]
    if _is_kept_apart(device, inventory, held, need) or not has_function(device, here, need):
        return 0
    has = dict(device.amounts)
    wanted = dict(need.amounts)
    if "memory" in has:
        has.pop("memory_ratio", None)
        percent = wanted.pop("memory_ratio", None)
        if percent is not None:
            wanted["memory"] = share_of_memory(percent, has["memory"])
    if here and wanted == has:
        return 0  # a share that comes to nothing is on the device all the same
    times = [
        (has.get(name, 0) - sum(dict(allocation.amounts).get(name, 0) for allocation in here))
        // amount
        for name, amount in wanted.items()
        if amount
    ]
    return max(0, min(times if need.repeat else [1, *times]))


def _is_kept_apart(
    device: Device, inventory: NodeDevices, held: list[DeviceAllocation], need: DeviceNeed
) -> bool:
    """Whether it, or what is used on its switch, is for one owner alone."""
    beside = {
        other.minor
        for other in inventory.of_type(device.type)
        if other.pcie is not None and other.pcie == device.pcie
    }
    return any(
        need.exclusive or allocation.exclusive
        if allocation.minor == device.minor
        else allocation.minor in beside and "pcie" in (need.exclusive, allocation.exclusive)
        for allocation in held
    )


def has_function(device: Device, here: Iterable[DeviceAllocation], need: DeviceNeed) -> bool:
    """Whether it has a free virtual function of the wanted labels, if any is wanted."""
    if need.vf_selector is None:
        return True
    taken = {allocation.function.bus_id for allocation in here if allocation.function is not None}
    return any(
        function.bus_id not in taken
        for group in device.vf_groups
        if is_selected(need.vf_selector, group.labels)
        for function in group.functions
    )
