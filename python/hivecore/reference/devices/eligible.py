"""Which devices can serve a need, and what each would give.

A percentage of memory is converted to bytes of the device once, rounded down. So shares that sum to
100 percent always fit on a card, and no card is promised more bytes than it has, however its owners
mix bytes and percentages. A share of zero bytes still occupies the card.
"""

from collections.abc import Collection, Iterable
from typing import Any

from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["View", "charge_of", "columns", "left_after", "primary"]


def columns(device: Any) -> dict[str, int]:
    """Return what the device has; memory is in bytes if it has bytes, otherwise in percent."""
    amounts = dict(device.amounts)
    if "memory" in amounts:
        amounts.pop("memory_ratio", None)
    return amounts


def charge_of(need: Any, device: Any) -> dict[str, int]:
    """Return what a device would be charged for the need."""
    amounts = dict(need.amounts)
    total = columns(device).get("memory")
    if "memory_ratio" in amounts and total is not None:
        amounts["memory"] = amounts.pop("memory_ratio") * total // 100
    return {name: amount for name, amount in amounts.items() if amount}


def primary(device: Any) -> str:
    """Return the amount by which devices of a type are compared."""
    have = columns(device)
    host = device.type == "host"
    order = ["cpu", "memory"] if host else ["memory", "memory_ratio", "share"]
    return next((name for name in order if name in have), "core")


class View:
    """A node as a request sees it.

    :param numa: the NUMA nodes to use; None for all.
    :param without: owners to ignore.
    :param reserved: what a used reservation holds, or the designated devices.
    :param confined: types of which only reserved devices may be used.
    :param any_function: whether a confined device without a named virtual function allows any.
    """

    def __init__(
        self,
        node: NodeState,
        numa: Collection[int] | None = None,
        without: Collection[str] = (),
        reserved: Iterable[Charge] = (),
        confined: Collection[str] = (),
        any_function: bool = False,
    ) -> None:
        self.node = node.copy()
        for name in without:
            self.node.refund(name)
        self.numa = numa
        self.reserved = {(charge.type, charge.minor): charge for charge in reserved}
        self.confined = confined
        self.any_function = any_function

    def healthy(self, type: str) -> list[Any]:
        """Return the type's healthy devices by minor; for a confined type, the reserved ones."""
        devices = self.node.devices.get(type, {})
        return [
            devices[minor]
            for minor in sorted(devices)
            if devices[minor].healthy
            and (type not in self.confined or (type, minor) in self.reserved)
        ]

    def is_reserved(self, device: Any) -> bool:
        """Whether it is a reserved device."""
        return (device.type, device.minor) in self.reserved

    def free(self, device: Any) -> dict[str, int]:
        """Return what is left of each amount; for a confined type, at most what is reserved."""
        free = self.node.free(device.type, device.minor)
        if device.type in self.confined:
            reserved = self.reserved[device.type, device.minor].amounts
            free = {name: min(free[name], reserved.get(name, 0)) for name in free}
        return free

    def is_visible(self, device: Any) -> bool:
        """Whether the device is on an allowed NUMA node, or its NUMA node is unknown."""
        return self.numa is None or device.numa is None or device.numa in self.numa

    def in_use(self, device: Any) -> bool:
        """Whether any owner has a part of it."""
        return bool(self.node.charges_on(device.type, device.minor))

    def functions(self, device: Any, selector: Any) -> list[str]:
        """Return sorted bus addresses of its free virtual functions in groups with these labels."""
        taken = (
            self.node.used_functions(device.type, minor) for minor in self.node.minors(device.type)
        )
        used = set().union(*taken)  # by address, even if it was on another device then
        return sorted(
            function.bus_id
            for group in device.vf_groups
            if selects(selector, group.labels)
            for function in group.functions
            if function.bus_id not in used and self._may_give(device, function.bus_id)
        )

    def _may_give(self, device: Any, function: str) -> bool:
        if device.type not in self.confined:
            return True
        named = self.reserved[device.type, device.minor].function
        return named == function or (named is None and self.any_function)

    def function_for(self, device: Any, selector: Any) -> str:
        """Return the function for a need: a reserved one, else the lowest address."""
        free = self.functions(device, selector)
        own = [charge.function for charge in self.reserved.values()]
        return next((function for function in free if function in own), free[0])

    def matches(self, device: Any, need: Any) -> bool:
        """Whether the device could serve the need on an empty node."""
        return (
            self.is_visible(device)
            and self.has_labels(device, need)
            and self.is_large_enough(device, need)
        )

    def has_labels(self, device: Any, need: Any) -> bool:
        """Whether its labels match the need."""
        return selects(need.selector, device.labels)

    def is_large_enough(self, device: Any, need: Any) -> bool:
        """Whether it is large enough for the need."""
        have = columns(device)
        wanted = charge_of(need, device)
        return all(name in have and amount <= have[name] for name, amount in wanted.items())

    def has_functions(self, device: Any, need: Any) -> bool:
        """Whether it has such virtual functions, free or not."""
        if need.vf_selector is None:
            return True
        return any(
            group.functions and selects(need.vf_selector, group.labels)
            for group in device.vf_groups
        )

    def slots(self, device: Any, need: Any, amounts: dict[str, int]) -> int:
        """Return how often such an amount serves the need, at most as often as needed."""
        wanted = charge_of(need, device)
        slots = [amounts[name] // amount for name, amount in wanted.items()]
        return min([int(need.count), *slots])

    def suffice(self, devices: list[Any], need: Any) -> bool:
        """Whether these devices suffice for the need if they are idle."""
        if not need.repeat:
            return len(devices) >= int(need.count)
        return sum(self.slots(device, need, columns(device)) for device in devices) >= int(
            need.count
        )

    def times(self, devices: list[Any], need: Any) -> dict[int, int]:
        """Return minor -> how often the device is used: once, or with repetition as often as
        possible.

        Reserved devices come first, then by minor.
        """
        if not need.repeat:
            return {device.minor: 1 for device in devices}
        times, missing = {}, need.count
        for device in sorted(devices, key=lambda entry: (not self.is_reserved(entry), entry.minor)):
            number = self.slots(device, need, self.free(device))
            given = {name: number * amount for name, amount in charge_of(need, device).items()}
            if given == columns(device) and self.in_use(device):
                number -= 1  # a whole device must be idle
            number = min(number, missing)
            missing -= number
            if number:
                times[device.minor] = number
        return times if not missing else {}

    def is_closed(self, device: Any) -> bool:
        """Whether an exclusive owner blocks it."""
        for other in self.node.devices[device.type].values():
            for charge in self.node.charges_on(device.type, other.minor):
                if charge.exclusive and other.minor == device.minor:
                    return True
                near = other.pcie is not None and other.pcie == device.pcie
                if charge.exclusive == "pcie" and near:
                    return True
        return False

    def is_alone(self, device: Any, exclusive: str | None) -> bool:
        """Whether no owner is where the need wants exclusive use."""
        if exclusive is None:
            return True
        near = [device]
        if exclusive == "pcie" and device.pcie is not None:
            devices = self.node.devices[device.type].values()
            near += [other for other in devices if other.pcie == device.pcie]
        return not any(self.in_use(other) for other in near)

    def fits(self, device: Any, need: Any) -> bool:
        """Whether the device can serve the need now."""
        free = self.free(device)
        wanted = charge_of(need, device)
        return (
            self.matches(device, need)
            and all(free[name] >= amount for name, amount in wanted.items())
            and not (wanted == columns(device) and self.in_use(device))
            and self.has_functions(device, need)
            and (need.vf_selector is None or bool(self.functions(device, need.vf_selector)))
            and not self.is_closed(device)
            and self.is_alone(device, need.exclusive)
        )

    def eligible(self, need: Any) -> list[Any]:
        """Return the devices that can serve the need now, by minor."""
        return [device for device in self.healthy(need.type) if self.fits(device, need)]


def left_after(view: View, device: Any, need: Any) -> int:
    """Return how much of its primary amount would remain free after serving the need."""
    name = primary(device)
    free = view.free(device)
    return free.get(name, 0) - charge_of(need, device).get(name, 0)
