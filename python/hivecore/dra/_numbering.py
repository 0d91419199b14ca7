"""Numbers for what the kernel compares: device profiles, attribute values, amounts."""

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from fractions import Fraction
from math import floor, lcm
from typing import Any

from hivecore.dra.attribute import Attribute
from hivecore.dra.device import Device
from hivecore.dra.pools import PoolDevice

__all__ = ["FinerUnitError", "Numbering", "UnitOverflowError"]

_MOST = 2**62  # an amount in units


class FinerUnitError(Exception):
    """A unit has become smaller to represent an amount, so all amounts have changed."""


class UnitOverflowError(ValueError):
    """No unit represents an amount and also the others of its name."""


class Numbering:
    """The numbers of a cluster.

    The amounts of a counter or capacity are multiples of the largest unit that divides them all,
    also those that have gone, until `recount`.
    Devices have the same profile if they are equal in all that claims have used; ``looked_at`` are
    the attributes that count, ``None`` for all.

    :param reads_lists: whether selectors read devices with lists; if not, it counts that a device
        has one.
    """

    def __init__(self, reads_lists: bool) -> None:
        self._reads_lists = reads_lists
        self.looked_at: frozenset[str] | None = frozenset()
        self.profiles: list[PoolDevice] = []  # a device of each
        self._profile_of: dict[Hashable, int] = {}
        self._names: dict[str, frozenset[str]] = {}  # of attributes, by driver
        self._value_of: dict[Hashable, int] = {}
        self._parts: dict[str, int] = {}  # of one, for each name
        self._largest: dict[str, Fraction] = {}
        self._has_counters = False  # whether profiles distinguish what devices take of counters

    def look_at_counters(self) -> bool:
        """Let profiles distinguish counters, by name; return whether profiles were renumbered."""
        if self._has_counters:
            return False
        self._has_counters = True
        self.profiles.clear()
        self._profile_of.clear()
        return True

    def look_at(self, attributes: frozenset[str] | None) -> Callable[[PoolDevice, int], int] | None:
        """Let profiles distinguish these attributes.

        :returns: (device, old number) -> new number, or ``None`` if numbers stay. It reads only the
            new attributes, except once for each new number.
        """
        if self.looked_at is None or (attributes is not None and attributes <= self.looked_at):
            return None
        before, self._names = self._names, {}
        self.looked_at = None if attributes is None else self.looked_at | attributes
        self.profiles.clear()
        self._profile_of.clear()
        new = {driver: tuple(self._names_of(driver) - names) for driver, names in before.items()}
        known: dict[Hashable, int] = {}

        def refined(device: PoolDevice, number: int) -> int:
            if self.looked_at is None:
                return self.profile(device)
            key = number, *map(device.device.attributes.get, new[device.id.driver])
            if key not in known:
                known[key] = self.profile(device)
            return known[key]

        return refined

    def profile(self, device: PoolDevice) -> int:
        """Return the number of a device's profile."""
        own, driver, names = device.device, device.id.driver, self._names_of(device.id.driver)
        every = self.looked_at is None
        values = sorted(
            [
                (name, of.kind, of.value)
                for name, of in own.attributes.items()
                if every or name in names or self._is_an_obstacle(of)
            ]
        )
        key = (
            driver,
            tuple(values),
            tuple(own.capacity.items()),
            device.taints,
            own.allow_multiple_allocations,
            bool(own.binding_conditions),
            self._counters(own),
        )
        number = self._profile_of.setdefault(key, len(self.profiles))
        if number == len(self.profiles):
            self.profiles.append(device)
        return number

    def _is_an_obstacle(self, attribute: Attribute) -> bool:
        """Whether no selector can be evaluated on a device with this attribute."""
        return not attribute.kind or (attribute.is_list and not self._reads_lists)

    def _counters(self, device: Device) -> Hashable:
        if not self._has_counters:
            return bool(device.consumes_counters)
        uses = [of.counters.items() for of in device.consumes_counters]
        return tuple(sorted((name, of.value) for use in uses for name, of in use))

    def _names_of(self, driver: str) -> frozenset[str]:
        """Return the names that a driver's devices may use for the attributes that count."""
        names = self._names.get(driver)
        if names is None:
            full, domain = self.looked_at or frozenset(), f"{driver}/"
            short = {name.removeprefix(domain) for name in full if name.startswith(domain)}
            names = self._names[driver] = full | short
        return names

    def recount(self, amounts: Iterable[tuple[str, Fraction]]) -> None:
        """Forget all profiles and amounts except these, given by name."""
        self.profiles.clear()
        self._profile_of.clear()
        self._parts.clear()
        self._largest.clear()
        for name, amount in amounts:
            with suppress(FinerUnitError):
                self.units(name, amount)

    def value(self, value: tuple[str, Any]) -> int:
        """Return the number of an attribute's value and type."""
        return self._value_of.setdefault(value, len(self._value_of))

    def units(self, name: str, amount: Fraction) -> int:
        """Return an amount as a number of units.

        :raises FinerUnitError: the unit was too large, and has been reduced.
        :raises UnitOverflowError: in a unit that represents all amounts, one exceeds 62 bits.
        """
        parts = self._parts.get(name, 1)
        if parts % amount.denominator == 0 and abs(amount) * parts < _MOST:
            if amount > self._largest.get(name, 0):
                self._largest[name] = amount
            return amount.numerator * (parts // amount.denominator)
        finer = lcm(parts, amount.denominator)
        largest = max(abs(amount), self._largest.get(name, Fraction()))
        if largest * finer >= _MOST:
            beside = f" beside {largest}" if largest > abs(amount) else ""
            what = f"{amount}{beside} exceeds 62 bits in parts of 1/{finer}"
            raise UnitOverflowError(f"{name}: {what}")
        self._parts[name], self._largest[name] = finer, largest
        raise FinerUnitError

    def whole_units(self, name: str, amount: Fraction) -> int:
        """Return the number of units in an amount of any size, rounded down."""
        return min(floor(max(amount, Fraction()) * self._parts.get(name, 1)), _MOST)

    def amount(self, name: str, units: int) -> Fraction:
        """Return the amount of this number of units."""
        return Fraction(units, self._parts.get(name, 1))
