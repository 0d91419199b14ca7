"""The devices of a node and their owners.

A device is known by type and minor. Amounts are dicts; a missing name means 0 in what is used, and
an amount that the device does not have in its total. An owner is charged once, and refunded exactly
that, whatever happens to the inventory meanwhile.

Invariant: a device's used amounts are the sums of its owners' charges, and each virtual function
has at most one owner.
"""

from typing import Any, NamedTuple

__all__ = ["Charge", "NodeState"]


class Charge(NamedTuple):
    """What an owner has of a device."""

    type: str
    minor: int
    amounts: dict[str, int]
    function: str | None = None
    """Bus address of its virtual function."""
    exclusive: str | None = None
    """"device": no other owner may use it; "pcie": nor any device of the type on its switch."""
    template: str = ""
    """Of a share of a GPU, or ""."""


class NodeState:
    """A node (sections 1.1 and 8.1 of the specification).

    :param inventory: with ``devices``, as in `hivecore.devices.NodeDevices`.
    """

    def __init__(self, inventory: Any) -> None:
        self.owners: dict[str, tuple[Charge, ...]] = {}
        self.set_inventory(inventory)

    def set_inventory(self, inventory: Any) -> None:
        """Replace the devices or their health; owners stay charged."""
        self.inventory = inventory
        self.devices: dict[str, dict[int, Any]] = {}
        for device in inventory.devices:
            self.devices.setdefault(device.type, {})[device.minor] = device

    def total(self, type: str, minor: int) -> dict[str, int]:
        """Return what the device has; empty if it is unhealthy or missing."""
        device = self.devices.get(type, {}).get(minor)
        return dict(device.amounts) if device is not None and device.healthy else {}

    def used(self, type: str, minor: int) -> dict[str, int]:
        """Return what owners have of the device, without zeros."""
        sums: dict[str, int] = {}
        for charge in self.charges_on(type, minor):
            for name, amount in charge.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        return {name: amount for name, amount in sums.items() if amount}

    def free(self, type: str, minor: int) -> dict[str, int]:
        """Return what is left of each of the device's amounts, at least 0."""
        used = self.used(type, minor)
        total = self.total(type, minor)
        return {name: max(amount - used.get(name, 0), 0) for name, amount in total.items()}

    def used_functions(self, type: str, minor: int) -> set[str]:
        """Return the bus addresses of the device's virtual functions in use."""
        charges = self.charges_on(type, minor)
        return {charge.function for charge in charges if charge.function is not None}

    def minors(self, type: str) -> set[int]:
        """Return the minors of the type's devices that exist or have owners."""
        charged = {
            charge.minor
            for charges in self.owners.values()
            for charge in charges
            if charge.type == type
        }
        return charged | set(self.devices.get(type, {}))

    def charges_on(self, type: str, minor: int) -> list[Charge]:
        """Return all charges of a device."""
        return [
            charge
            for charges in self.owners.values()
            for charge in charges
            if (charge.type, charge.minor) == (type, minor)
        ]

    def charge(self, name: str, charges: tuple[Charge, ...]) -> None:
        """Charge an owner; no effect if it is charged already."""
        self.owners.setdefault(name, charges)

    def refund(self, name: str) -> None:
        """Refund an owner; no effect if it is unknown."""
        self.owners.pop(name, None)

    def copy(self) -> "NodeState":
        """Return an independent copy."""
        other = NodeState(self.inventory)
        other.owners = dict(self.owners)
        return other
