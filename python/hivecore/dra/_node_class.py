"""Nodes in the kernel's form, and classes of nodes that differ only in names.

All nodes of a class have the same answer to a question, which is computed once. When devices are
allocated or released, the node moves to another class, which is also computed once for each class
and change. So a cluster of equal nodes costs little more than a single node.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, NamedTuple

from hivecore import _dra
from hivecore.dra._book import Book
from hivecore.dra._numbering import Numbering
from hivecore.dra.device import CounterConsumption
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.pools import Pool, PoolDevice

__all__ = [
    "ANY_GROUP",
    "FREE",
    "SHARED",
    "USED",
    "Change",
    "Classes",
    "NodeClass",
    "NodeView",
    "number_node",
]

FREE, SHARED, USED = 0, 1, 2
_NO_GROUP = 1
ANY_GROUP = 2**64 - 1


class Change(NamedTuple):
    """A device that is allocated or released, whole or as a share."""

    position: int
    share: tuple[int, ...] | None
    is_given: bool
    use: int  # FREE, SHARED or USED, afterwards


class Key(NamedTuple):
    """All that decides where a claim fits on a node. Devices are (profile, use, charges, room)."""

    devices: tuple[tuple[int, int, tuple[Any, ...], tuple[int, ...]], ...]
    left: tuple[int, ...]
    common: tuple[int, ...]
    flaws: tuple[tuple[str, str], ...]  # of incomplete pools: state, name


class NodeClass:
    """Nodes that differ only in names.

    :param answers: by the question's number.
    """

    def __init__(self, key: Key) -> None:
        self.key = key
        #: how many devices are not in use
        self.free = sum([device[1] == FREE for device in key.devices])
        self.answers: dict[Any, Any] = {}
        self.after: dict[tuple[Change, ...], NodeClass] = {}
        self.nodes: set[str] = set()
        self._by_name: list[str] = []  # a heap, which may hold nodes that have left
        self._kernel: object = None

    @property
    def kernel(self) -> object:
        """The kernel's object."""
        if self._kernel is None:
            self._kernel = _dra.node(self.key.devices, self.key.left, self.key.common)
        return self._kernel

    def add(self, node: str) -> None:
        """Add a node."""
        if node not in self.nodes:
            self.nodes.add(node)
            heappush(self._by_name, node)

    def first(self) -> str:
        """The node with the lowest name."""
        while self._by_name[0] not in self.nodes:
            heappop(self._by_name)
        return self._by_name[0]

    def changed(self, changes: Sequence[Change]) -> Key:
        """Return the key of a node after it allocates or releases these devices."""
        devices, left, common = list(self.key.devices), list(self.key.left), list(self.key.common)
        for position, share, is_given, after in changes:
            profile, use, charges, room = devices[position]
            sign = 1 if is_given else -1
            if share is not None:
                room = tuple(of - sign * taken for of, taken in zip(room, share, strict=True))
            if (use == FREE) != (after == FREE):
                for counter_set, groups, uses in charges:
                    common[counter_set] &= groups  # as they come back, no device has groups
                    for counter, amount in uses:
                        left[counter] -= sign * amount
            devices[position] = profile, after, charges, room
        return Key(tuple(devices), tuple(left), tuple(common), self.key.flaws)


class NodeView:
    """A node: the pools that it may use, its devices in order, and its class."""

    __slots__ = ("devices", "gathered", "node_class", "pools", "positions")

    def __init__(
        self,
        pools: frozenset[tuple[str, str]],
        gathered: tuple[Pool, ...],
        devices: tuple[PoolDevice, ...],
        node_class: NodeClass,
    ) -> None:
        self.gathered, self.devices, self.node_class = gathered, devices, node_class
        self.positions = {device.id: position for position, device in enumerate(devices)}
        self.pools = pools


class Classes:
    """A cluster's node classes, by key."""

    _MOST_EMPTY = 4096

    def __init__(self) -> None:
        self._of: dict[Key, NodeClass] = {}
        self.log: list[NodeClass] = []  # each class when it gets its first node
        self.epoch = 0  # of the log, which restarts when it is long

    def of(self, key: Key) -> NodeClass:
        """Return the class of a key."""
        node_class = self._of.get(key)
        if node_class is None:
            self._make_room()
            node_class = self._of[key] = NodeClass(key)
        return node_class

    def after(self, before: NodeClass, changes: tuple[Change, ...]) -> NodeClass:
        """Return the class to which a node moves with these changes."""
        node_class = before.after.get(changes)
        if node_class is None:
            node_class = before.after[changes] = self.of(before.changed(changes))
        return node_class

    def move(self, node: str, view: NodeView, to: NodeClass) -> None:
        """Move a node to another class."""
        view.node_class.nodes.discard(node)
        view.node_class = to
        self.enter(node, to)

    def enter(self, node: str, to: NodeClass) -> None:
        """Put a node without a class into this class."""
        if not to.nodes:
            if len(self.log) > self._MOST_EMPTY + 4 * len(self._of):
                self.log = list(self)
                self.epoch += 1
            self.log.append(to)
        to.add(node)

    def __iter__(self) -> Iterator[NodeClass]:
        """Iterate over the classes that have nodes."""
        return (node_class for node_class in self._of.values() if node_class.nodes)

    def forget_answers(self) -> None:
        """Drop all answers, as questions have new numbers."""
        for node_class in self._of.values():
            node_class.answers.clear()

    def _make_room(self) -> None:
        """Drop classes without nodes if there are many; they can be recomputed."""
        used = {key: of for key, of in self._of.items() if of.nodes}
        if len(self._of) - len(used) >= max(self._MOST_EMPTY, len(used)):
            self._of = used
            for node_class in used.values():
                node_class.after.clear()


def number_node(
    pools: Iterable[Pool], book: Book, numbering: Numbering, features: KubernetesFeatures
) -> tuple[tuple[PoolDevice, ...], Key]:
    """Return a node's devices in order, and the key of its class."""
    devices: list[PoolDevice] = []
    keys: list[tuple[int, int, tuple[Any, ...], tuple[int, ...]]] = []
    left: list[int] = []
    common: list[int] = []
    flaws = []
    for pool in pools:
        if pool.state != "complete":
            flaws.append((pool.state, f"{pool.driver}/{pool.name}"))
        sets = _CounterSets(pool, numbering, features, left, common)
        for consumptions in book.charges.get((pool.driver, pool.name), {}).values():
            sets.charge(consumptions)
        for device in pool.devices:
            shares = book.shares.get(device.id, {})
            use = USED if "" in shares else SHARED if shares else FREE
            room: tuple[int, ...] = ()
            if device.device.allow_multiple_allocations and features.has("DRAConsumableCapacity"):
                room = tuple(
                    numbering.units(name, capacity.value)
                    - sum(
                        numbering.units(name, share.get(name, Fraction()))
                        for share in shares.values()
                    )
                    for name, capacity in sorted(device.device.capacity.items())
                )
            devices.append(device)
            charges = sets.charges(device.device.consumes_counters)
            keys.append((numbering.profile(device), use, charges, room))
    return tuple(devices), Key(tuple(keys), tuple(left), tuple(common), tuple(flaws))


class _CounterSets:
    """The counter sets of a pool, in the lists of its node."""

    def __init__(
        self,
        pool: Pool,
        numbering: Numbering,
        features: KubernetesFeatures,
        left: list[int],
        common: list[int],
    ) -> None:
        self._numbering, self._left, self._common = numbering, left, common
        self._has_groups = features.has("DRADeviceCompatibilityGroups")
        self._sets: dict[str, int] = {}
        self._counters: dict[tuple[str, str], int] = {}
        self._groups: dict[str, dict[str, int]] = {}  # a bit for each group of a set
        for name, counters in pool.counter_sets.items():
            self._sets[name] = len(common)
            common.append(ANY_GROUP)
            for counter, amount in counters.items():
                self._counters[name, counter] = len(left)
                left.append(numbering.units(counter, amount))
        for device in pool.devices if self._has_groups else ():
            self.charges(device.device.consumes_counters)  # numbers groups in the order of devices

    def charges(self, consumptions: Iterable[CounterConsumption]) -> tuple[Any, ...]:
        """Return what a device takes, in numbers, without sets and counters that the pool lacks."""
        return tuple(
            (
                self._sets[consumption.counter_set],
                self._bits(consumption),
                tuple(
                    (
                        self._counters[consumption.counter_set, name],
                        self._numbering.units(name, of.value),
                    )
                    for name, of in sorted(consumption.counters.items())
                    if (consumption.counter_set, name) in self._counters
                ),
            )
            for consumption in consumptions
            if consumption.counter_set in self._sets
        )

    def charge(self, consumptions: Iterable[CounterConsumption]) -> None:
        """Take what a device in use was charged."""
        for counter_set, groups, uses in self.charges(consumptions):
            self._common[counter_set] &= groups
            for counter, amount in uses:
                self._left[counter] -= amount

    def _bits(self, consumption: CounterConsumption) -> int:
        if not self._has_groups:
            return ANY_GROUP
        bits = 0
        for group in consumption.compatibility_groups:
            of_set = self._groups.setdefault(consumption.counter_set, {})
            number = of_set.setdefault(group, len(of_set) + 1)
            if number > 63:
                raise ValueError(
                    f"counter set {consumption.counter_set!r}: more than 63 groups in its pool"
                )
            bits |= 1 << number
        return bits or _NO_GROUP
