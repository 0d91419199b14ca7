"""What is allocated: devices as wholes, shares of devices, and what they were charged.

A device is charged the counters that it consumed when it came into use: once, however many shares
of it there are, and whatever its driver publishes later (5.1). Admin access is not booked (5.5).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from hivecore._quantities import read_exactly

__all__ = ["Book", "Charge", "charges_of"]


class Charge(NamedTuple):
    """What a device in use takes from a counter set of its pool."""

    counter_set: str
    counters: Mapping[str, Fraction]
    groups: frozenset[str]


class Book:
    """The allocated devices of a cluster: device -> share -> consumed capacity; "": the whole."""

    def __init__(self) -> None:
        self.held: dict[Any, dict[str, dict[str, Fraction]]] = {}
        self.owners: dict[str, dict[Any, dict[str, dict[str, Fraction]]]] = {}
        self.charges: dict[Any, list[Charge]] = {}

    def commit(
        self, owner: str, allocation: Mapping[str, Any], published: Mapping[Any, Any]
    ) -> None:
        """An owner has the devices of a ``status.allocation``, if all are free (else `ValueError`).

        :param published: device by id; those that are not in it are charged nothing.
        """
        if owner in self.owners:
            raise ValueError(f"owner={owner!r}: has devices")
        new: dict[Any, dict[str, dict[str, Fraction]]] = {}
        for result in allocation["devices"].get("results", ()):
            if result.get("adminAccess"):
                continue
            device = result["driver"], result["pool"], result["device"]
            share = result.get("shareID", "")
            others = self.held.get(device, {}) | new.get(device, {})
            if "" in others or share in others or (others and not share):
                raise ValueError(f"{'/'.join(device)} is in use")
            amounts = result.get("consumedCapacity", {}).items()
            consumed = {name: read_exactly(amount, name) for name, amount in amounts}
            new.setdefault(device, {})[share] = consumed
        self.owners[owner] = new
        for device, shares in new.items():
            self.held.setdefault(device, {}).update(shares)
            self.charges.setdefault(device, charges_of(published.get(device)))

    def release(self, owner: str) -> None:
        """The end of an owner (`KeyError`: it has no devices)."""
        for device, shares in self.owners.pop(owner).items():
            for share in shares:
                del self.held[device][share]
            if not self.held[device]:
                del self.held[device], self.charges[device]

    def is_whole(self, device: Any) -> bool:
        """Whether a device is in use as a whole."""
        return "" in self.held.get(device, ())

    def consumed(self, device: Any, capacity: str) -> Fraction:
        """What the shares of a device take of a capacity."""
        shares = self.held.get(device, {}).values()
        return sum((share.get(capacity, Fraction()) for share in shares), Fraction())


def charges_of(device: Any) -> list[Charge]:
    """What a device takes from counter sets while it is in use."""
    return [
        Charge(
            one.counter_set,
            {name: counter.value for name, counter in one.counters.items()},
            frozenset(one.compatibility_groups),
        )
        for one in (device.consumes_counters if device is not None else ())
    ]
