"""The devices that claims hold, whole or in shares, and the counters charged for them.

A device is charged once, when it comes into use, for the counters that it consumes then, however
many shares it has and whatever its driver publishes later; if no slice has published it yet, when
the first one does. Admin access is not booked.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from hivecore.dra.device import CounterConsumption, DeviceId
from hivecore.errors import InvariantError

__all__ = ["Book", "Entry"]


class Entry(NamedTuple):
    """A device, or a share of it, that a claim holds."""

    device: DeviceId
    share: str  # its id; "": the whole device
    consumed: Mapping[str, Fraction]  # by capacity


class Book:
    """The devices in use."""

    def __init__(self) -> None:
        self.owners: dict[str, tuple[Entry, ...]] = {}
        self.shares: dict[DeviceId, dict[str, Mapping[str, Fraction]]] = {}
        self.charges: dict[tuple[str, str], dict[DeviceId, tuple[CounterConsumption, ...]]] = {}
        #: devices in use that are not charged yet, as no slice has published them
        self.unknown: set[DeviceId] = set()

    def copy(self) -> "Book":
        """Return an independent copy."""
        copied = Book()
        copied.owners = self.owners.copy()
        copied.shares = {device: shares.copy() for device, shares in self.shares.items()}
        copied.charges = {pool: devices.copy() for pool, devices in self.charges.items()}
        copied.unknown = self.unknown.copy()
        return copied

    def amounts(self, without: Collection[str]) -> Iterator[tuple[str, Fraction]]:
        """Yield the amounts that claims consume and that devices were charged, with their names.

        :param without: owners; what their claims consume does not count.
        """
        for owner, entries in self.owners.items():
            for entry in () if owner in without else entries:
                yield from entry.consumed.items()
        for devices in self.charges.values():
            for charged in devices.values():
                for use in charged:
                    for name, counter in use.counters.items():
                        yield name, counter.value

    def conflict(self, entries: Iterable[Entry]) -> DeviceId | None:
        """Return one of these devices that is not free; ``None`` if all can be booked together."""
        new: dict[DeviceId, set[str]] = {}
        for device, share, _ in entries:
            added = new.setdefault(device, set())
            if device in self.shares or added:
                beside = self.shares.get(device, {}).keys() | added
                if not share or "" in beside or share in beside:
                    return device
            added.add(share)
        return None

    def add(
        self,
        owner: str,
        entries: Iterable[Entry],
        published: Mapping[DeviceId, tuple[CounterConsumption, ...]],
    ) -> None:
        """Book the entries, which have no `conflict`.

        :param published: the counters that each published device consumes.
        """
        entries = tuple(entries)
        self.owners[owner] = entries
        for device, share, consumed in entries:
            shares = self.shares.setdefault(device, {})
            if not shares:
                charged = published.get(device, ())
                self.charges.setdefault(device[:2], {})[device] = charged
                if device not in published:
                    self.unknown.add(device)
            shares[share] = consumed

    def remove(self, owner: str) -> tuple[Entry, ...]:
        """Remove an owner; return what it held."""
        entries = self.owners.pop(owner)
        for device, share, _ in entries:
            shares = self.shares[device]
            del shares[share]
            if not shares:
                del self.shares[device], self.charges[device[:2]][device]
                self.unknown.discard(device)
                if not self.charges[device[:2]]:
                    del self.charges[device[:2]]
        return entries

    def charge(self, device: DeviceId, charged: tuple[CounterConsumption, ...]) -> None:
        """Charge a device that is published for the first time."""
        self.charges[device[:2]][device] = charged
        self.unknown.remove(device)

    def uncharge(self, device: DeviceId) -> None:
        """Undo `charge`."""
        self.charges[device[:2]][device] = ()
        self.unknown.add(device)

    def check(self, published: Collection[DeviceId]) -> None:
        """Check that the devices in use are those that owners hold, and that they are charged.

        :raises InvariantError: they are not.
        """
        entries: dict[DeviceId, set[str]] = {}
        for owner, held in self.owners.items():
            for device, share, _ in held:
                shares = entries.setdefault(device, set())
                if share in shares or "" in shares or (shares and not share):
                    raise InvariantError(f"{owner} holds {device}, as another claim does")
                shares.add(share)
        if entries != {device: set(of) for device, of in self.shares.items()}:
            raise InvariantError("devices in use are not those that claims hold")
        if self.unknown.intersection(published) or self.unknown - entries.keys():
            raise InvariantError("a device in use is not charged, though it is published")

    def consumed(self, device: DeviceId, capacity: str) -> Fraction:
        """Return how much of a capacity the shares of a device take."""
        shares = self.shares.get(device, {}).values()
        return sum((share.get(capacity, Fraction()) for share in shares), Fraction())
