"""Selections of a node's devices, smaller ones first, to find an answer that touches the fewest.

What is counted are *parts*: blocks of devices with common counters of which none is in use, or the
values of an attribute. A search that may use the devices of some parts alone is exact, so the first
size of which a selection has an answer is the least. Blocks that are equal but for names are one
kind: of each kind the first so many are tried.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hivecore.dra._node_class import FREE, USED, Key

__all__ = ["BLOCKS", "Parts", "blocks_of", "parts_by_value"]

#: What is counted if it is no attribute.
BLOCKS = "blocks"


class Parts(NamedTuple):
    """The parts of a node.

    :param of_devices: the parts of each device.
    :param kinds: the parts, those together that are equal.
    :param needs_all: whether all parts of a device have to be selected for it, or one.
    """

    of_devices: tuple[frozenset[Any], ...]
    kinds: tuple[tuple[Any, ...], ...]
    needs_all: bool

    def touched(self, positions: Iterable[int]) -> int:
        """How many parts are enough for these devices, at most."""
        own = [of for of in map(self.of_devices.__getitem__, positions) if of]
        if self.needs_all:
            return len(frozenset[Any]().union(*own))
        return len({min(of, key=repr) for of in own})

    def selections(self, size: int) -> Iterator[frozenset[Any]]:
        """Those of so many parts."""
        return self._chosen(size, 0, frozenset())

    def _chosen(self, size: int, at: int, chosen: frozenset[Any]) -> Iterator[frozenset[Any]]:
        if at == len(self.kinds):
            if not size:
                yield chosen
            return
        for count in range(min(size, len(self.kinds[at])), -1, -1):
            yield from self._chosen(size - count, at + 1, chosen.union(self.kinds[at][:count]))

    def restricted(self, key: Key, selection: frozenset[Any]) -> Key:
        """The node, as if all devices beyond a selection were in use, which consume nothing."""
        devices = [
            of if self._is_in(own, selection) else (of[0], USED, *of[2:])
            for of, own in zip(key.devices, self.of_devices, strict=True)
        ]
        return key._replace(devices=tuple(devices))

    def _is_in(self, own: frozenset[Any], selection: frozenset[Any]) -> bool:
        return own <= selection if self.needs_all or not own else bool(own & selection)


def blocks_of(key: Key) -> Parts:
    """The counter sets whose devices are all free."""
    users: dict[int, list[int]] = defaultdict(list)
    for position, (_, _, charges, _) in enumerate(key.devices):
        for counter_set, _, _ in charges:
            users[counter_set].append(position)
    fresh = {number for number, of in users.items() if all(key.devices[i][1] == FREE for i in of)}
    kinds: dict[Any, list[int]] = defaultdict(list)
    for number in sorted(fresh):
        kinds[_block(key, number, users[number])].append(number)
    own = [frozenset(use[0] for use in charges) & fresh for _, _, charges, _ in key.devices]
    return Parts(tuple(own), tuple(map(tuple, kinds.values())), True)


def _block(key: Key, number: int, users: list[int]) -> Any:
    """What equal blocks have in common: all but the numbers of the set and of its counters."""
    devices = [key.devices[position] for position in users]
    if any(len(charges) > 1 for _, _, charges, _ in devices):
        return number
    counters = sorted({counter for _, _, (use,), _ in devices for counter, _ in use[2]})
    place = {counter: i for i, counter in enumerate(counters)}
    of_devices = [
        (profile, room, use[1], tuple((place[counter], amount) for counter, amount in use[2]))
        for profile, _, (use,), room in devices
    ]
    return tuple(of_devices), tuple(key.left[counter] for counter in counters), key.common[number]


def parts_by_value(values: Mapping[int, frozenset[Any]], devices: int) -> Parts:
    """The values of an attribute.

    :param values: of each device that may be given; without the attribute: none.
    """
    lacking = frozenset([("", None)])
    own = [values[i] or lacking if i in values else frozenset[Any]() for i in range(devices)]
    every = dict.fromkeys(value for of in own for value in sorted(of, key=repr))
    return Parts(tuple(own), tuple((value,) for value in every), False)
