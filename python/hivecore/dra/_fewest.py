"""Enumerates selections of a node's devices, small ones first, to touch the fewest parts.

*Parts* are either blocks, unused devices that share counters, or the values of an attribute. A
search that is restricted to some parts is exact, so the smallest size with an answer is the
minimum. Blocks that differ only in names are of one kind, and only the first ones of a kind are
tried.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hivecore.dra._node_class import FREE, USED, Key

__all__ = ["BLOCKS", "Parts", "blocks_of", "parts_by_value"]

#: Counted unless an attribute is.
BLOCKS = "blocks"


class Parts(NamedTuple):
    """The parts of a node.

    :param of_devices: the parts of each device.
    :param kinds: the parts, grouped by equality.
    :param needs_all: whether a device needs all of its parts selected, or any.
    """

    of_devices: tuple[frozenset[Any], ...]
    kinds: tuple[tuple[Any, ...], ...]
    needs_all: bool

    def touched(self, positions: Iterable[int]) -> int:
        """Return an upper bound of the parts that these devices need."""
        own = [of for of in map(self.of_devices.__getitem__, positions) if of]
        if self.needs_all:
            return len(frozenset[Any]().union(*own))
        return len({min(of, key=repr) for of in own})

    def selections(self, size: int) -> Iterator[frozenset[Any]]:
        """Yield the selections of this size."""
        return self._chosen(size, 0, frozenset())

    def _chosen(self, size: int, at: int, chosen: frozenset[Any]) -> Iterator[frozenset[Any]]:
        if at == len(self.kinds):
            if not size:
                yield chosen
            return
        for count in range(min(size, len(self.kinds[at])), -1, -1):
            yield from self._chosen(size - count, at + 1, chosen.union(self.kinds[at][:count]))

    def restricted(self, key: Key, selection: frozenset[Any]) -> Key:
        """Return the node as if all devices outside the selection were in use, at no cost."""
        devices = [
            of if self._is_in(own, selection) else (of[0], USED, *of[2:])
            for of, own in zip(key.devices, self.of_devices, strict=True)
        ]
        return key._replace(devices=tuple(devices))

    def _is_in(self, own: frozenset[Any], selection: frozenset[Any]) -> bool:
        return own <= selection if self.needs_all or not own else bool(own & selection)


def blocks_of(key: Key) -> Parts:
    """Return the counter sets whose devices are all free."""
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
    """Return what equal blocks have in common: all but the numbers of sets and counters."""
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
    """Return the values of an attribute as parts.

    :param values: by available device; empty without the attribute.
    """
    lacking = frozenset([("", None)])
    own = [values[i] or lacking if i in values else frozenset[Any]() for i in range(devices)]
    every = dict.fromkeys(value for of in own for value in sorted(of, key=repr))
    return Parts(tuple(own), tuple((value,) for value in every), False)
