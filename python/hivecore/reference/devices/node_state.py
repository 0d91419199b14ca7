"""The devices of one node and who holds how much of them.

A device is known by its type and minor. What it has and what is used of it are dicts from the name
of an amount to a number; a name that is missing counts as 0 when it is used, and as something that
the device does not have in its total. Charges belong to owners: an owner is charged once, and its
end takes back exactly what it was charged, whatever has become of the inventory meanwhile.

Invariant: what is used of a device is the sum of its owners' charges, and each of its virtual
functions has one owner at most.
"""

from typing import Any, NamedTuple

__all__ = ["Charge", "NodeState"]


class Charge(NamedTuple):
    """What one owner has of one device."""

    type: str
    minor: int
    amounts: dict[str, int]
    function: str | None = None
    """Bus address of its virtual function."""
    exclusive: str | None = None
    """"device": nobody else may use it; "pcie": nor any device of the type on its switch."""
    template: str = ""
    """Of a share of a GPU; "": it is of none."""


class NodeState:
    """One node (section 1.1 of the specification, 8.1).

    :param inventory: with ``devices``, as `hivecore.devices.NodeDevices` has them.
    """

    def __init__(self, inventory: Any) -> None:
        self.owners: dict[str, tuple[Charge, ...]] = {}
        self.set_inventory(inventory)

    def set_inventory(self, inventory: Any) -> None:
        """Other devices, or other health; owners stay charged."""
        self.inventory = inventory
        self.devices: dict[str, dict[int, Any]] = {}
        for device in inventory.devices:
            self.devices.setdefault(device.type, {})[device.minor] = device

    def total(self, type: str, minor: int) -> dict[str, int]:
        """What the device has; nothing if it is unhealthy or not there."""
        device = self.devices.get(type, {}).get(minor)
        return dict(device.amounts) if device is not None and device.healthy else {}

    def used(self, type: str, minor: int) -> dict[str, int]:
        """What the owners have of the device, by name; names with 0 are left out."""
        sums: dict[str, int] = {}
        for charge in self.charges_on(type, minor):
            for name, amount in charge.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        return {name: amount for name, amount in sums.items() if amount}

    def free(self, type: str, minor: int) -> dict[str, int]:
        """What is left of each amount that the device has, at least 0."""
        used = self.used(type, minor)
        total = self.total(type, minor)
        return {name: max(amount - used.get(name, 0), 0) for name, amount in total.items()}

    def used_functions(self, type: str, minor: int) -> set[str]:
        """Bus addresses of the device's virtual functions that have an owner."""
        charges = self.charges_on(type, minor)
        return {charge.function for charge in charges if charge.function is not None}

    def minors(self, type: str) -> set[int]:
        """Of the devices of the type that are there or have owners."""
        charged = {
            charge.minor
            for charges in self.owners.values()
            for charge in charges
            if charge.type == type
        }
        return charged | set(self.devices.get(type, {}))

    def charges_on(self, type: str, minor: int) -> list[Charge]:
        """All charges of one device."""
        return [
            charge
            for charges in self.owners.values()
            for charge in charges
            if (charge.type, charge.minor) == (type, minor)
        ]

    def charge(self, name: str, charges: tuple[Charge, ...]) -> None:
        """Charge an owner; one that is charged already stays as it is."""
        self.owners.setdefault(name, charges)

    def refund(self, name: str) -> None:
        """The end of an owner; an unknown one changes nothing."""
        self.owners.pop(name, None)

    def copy(self) -> "NodeState":
        """An independent equal."""
        other = NodeState(self.inventory)
        other.owners = dict(self.owners)
        return other
