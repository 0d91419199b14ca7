"""The nodes of a cluster: their names, numbers and inventories, and the kernel that knows them.

Numbers go to nodes in the order in which they are added; a new node takes the lowest number that
was given back. Nodes of equal inventory, apart from health, share a shape of the kernel.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import setitem
from typing import Any

from hivecore import _devices
from hivecore._arguments import as_int, as_text, as_tuple
from hivecore._trial import UndoLog
from hivecore.devices._numbers import Numbers, healthy_masks
from hivecore.devices._owners import Charges
from hivecore.devices._queries import Queries
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.node_devices import NodeDevices

__all__ = ["Nodes"]

_SPARE_SHAPES = 64  # inventories that are remembered though no node has them
_MOST_INVENTORIES = 1024  # that are known by their identity
_MOST_CHOICES = 256  # of GPUs, of each of them
#: An inventory, the mask of each type, the bit of each GPU, and the masks with choices of GPUs.
_Bits = tuple[NodeDevices, list[int], dict[int, int], dict[tuple[int, ...], Any]]


class Nodes:
    """Names of nodes to numbers, and what each has."""

    def __init__(self) -> None:
        self.core = _devices.DeviceKernel()
        self.numbers = Numbers()
        self.queries = Queries(self.numbers)
        self.undo = UndoLog()
        self.by_name: dict[str, int] = {}
        self.names: list[str | None] = []
        #: by number, what tells a node from a later one of its name; None: there is no node. Plans
        #: of a trial may have numbers beyond those that are left of `names`.
        self.marks: list[object] = []
        self.inventories: list[NodeDevices | None] = []
        #: the numbers of nodes that have a device which is not healthy
        self._bad: dict[int, None] = {}
        #: numbers that are free, as a heap; None: to be looked for
        self._holes: list[int] | None = []
        self._shapes: dict[Any, int] = {}
        self._shape_of_inventory: dict[int, tuple[NodeDevices, int, tuple[int, ...]]] = {}
        self._in_order: tuple[str, ...] | None = None
        #: inventory by identity -> the masks of all devices by type, the bit of each GPU by minor
        self._gpu_bits: dict[int, _Bits] = {}

    @property
    def in_order(self) -> tuple[str, ...]:
        """Their names, by number."""
        if self._in_order is None:
            self._in_order = tuple([name for name in self.names if name is not None])
        return self._in_order

    @property
    def all_numbers(self) -> list[int] | None:
        """The numbers of all nodes, ascending; None: the kernel has no others."""
        return None if len(self.by_name) == self.core.nodes else sorted(self.by_name.values())

    def number(self, name: str) -> int:
        """The number of a node, which must be there."""
        number = self.by_name.get(name if type(name) is str else as_text(name, "node"))
        if number is None:
            raise KeyError(f"node={name!r}: there is no such node")
        return number

    def inventory(self, number: int) -> NodeDevices:
        """What a node has that is there."""
        inventory = self.inventories[number]
        assert inventory is not None
        return inventory

    def unhealthy(self) -> tuple[str, ...]:
        """The names of those that have a device which is not healthy."""
        return tuple([name for number in sorted(self._bad) if (name := self.names[number])])

    def devices(self) -> dict[str, int]:
        """How many devices of each type all nodes have together; types without any are left out."""
        known = {id(each): each for each in self.inventories if each is not None}
        sums: Counter[str] = Counter()
        for identity, nodes in Counter(map(id, self.inventories)).items():
            for device in known[identity].devices if identity in known else ():
                sums[device.type] += nodes
        return {type: sums[type] for type in TYPES if sums[type]}

    def choices_of(self, number: int) -> tuple[NodeDevices, dict[tuple[int, ...], Any]]:
        """What a node has, and the choices of its GPUs that were made."""
        inventory = self.inventories[number]
        known = self._gpu_bits.get(id(inventory))
        if known is None or known[0] is not inventory:
            known = self._bits(number)
        return known[0], known[3]

    def choice(self, number: int, gpus: Iterable[int]) -> Any:
        """The devices of each type on a node, of GPUs these only.

        :raises KeyError: it has no such GPU.
        """
        minors = tuple([as_int(gpu, "gpus", 0, 2**31 - 1) for gpu in as_tuple(gpus, "gpus")])
        _, masks, bits, seen = self._bits(number)
        if minors in seen:
            return seen[minors]
        mask = 0
        for minor in minors:
            if minor not in bits:
                raise KeyError(f"gpus: node {self.names[number]!r} has no GPU {minor}")
            mask |= bits[minor]
        choice = _devices.Choice((mask, *masks[1:]))
        if len(seen) < _MOST_CHOICES:
            seen[minors] = choice
        return choice

    def _bits(self, number: int) -> _Bits:
        inventory = self.inventories[number]
        assert inventory is not None
        known = self._gpu_bits.get(id(inventory))
        if known is None or known[0] is not inventory:
            if len(self._gpu_bits) >= _MOST_INVENTORIES:
                self._gpu_bits.clear()
            masks = [(1 << len(inventory.of_type(type))) - 1 for type in TYPES]
            bits = {gpu.minor: 1 << i for i, gpu in enumerate(inventory.of_type("gpu"))}
            known = self._gpu_bits[id(inventory)] = inventory, masks, bits, {}
        return known

    def named(self, number: int, charges: Charges) -> tuple[DeviceAllocation, ...]:
        """What these charges are on a node."""
        return self.numbers.allocations(charges, self.inventories[number])

    def held(self, number: int) -> list[DeviceAllocation]:
        """What the owners on a node have."""
        charges = map(self.core.charges_of, self.core.owners(number))
        return [
            allocation for some in charges for allocation in self.numbers.allocations(some, None)
        ]

    def query(self, request: DeviceRequest) -> Any:
        """The request in numbers."""
        return self.queries.of(request, len(self.names))

    def add(self, name: str, inventory: NodeDevices) -> int:
        """The number of a node that was not there, and is yet to be equipped."""
        if name in self.by_name:
            raise ValueError(f"node={name!r}: is there already")
        self._known(inventory)  # or it is refused here
        if self._holes is None:
            self.open_holes()
        if self._holes:
            number = heappop(self._holes)
        else:
            number = len(self.names)
            self._append_hole()
        self._keep(number, name)
        self.by_name[name] = number
        self.names[number] = name
        self.marks[number] = object()
        self._in_order = None
        return number

    def remove(self, number: int) -> None:
        """A node that has no owners."""
        self.core.set_node(number, -1, (0,) * len(TYPES))
        name = self.names[number]
        assert name is not None
        self._keep(number, name)
        del self.by_name[name]
        self.names[number] = self.inventories[number] = self._in_order = None
        self.marks[number] = None
        if self._holes is not None:
            heappush(self._holes, number)

    def _keep(self, number: int, name: str) -> None:
        """Log what a number and a name stand for, before that changes."""
        undo = self.undo
        if undo.is_on:
            undo.keep(self.by_name, name)
            for by_number in (self.names, self.marks, self.inventories):
                undo.add((setitem, by_number, number, by_number[number]))
            undo.add((setattr, self, "_in_order", self._in_order))
            undo.add((setattr, self, "_holes", None))

    def leave_out(self) -> None:
        """A number that no node has."""
        self.core.set_node(len(self.names), -1, (0,) * len(TYPES))
        self._append_hole()

    def _append_hole(self) -> None:
        if self.undo.is_on:
            self.undo.add((self.names.pop,))
            self.undo.add((self.inventories.pop,))
        if len(self.marks) == len(self.names):
            self.marks.append(None)
        self.names.append(None)
        self.inventories.append(None)

    def open_holes(self) -> None:
        """From now on new nodes take the numbers that were left out."""
        self._holes = [number for number, name in enumerate(self.names) if name is None]

    def equip(self, number: int, inventory: NodeDevices) -> bool:
        """From now on the node has this; whether no node had so much GPU memory before."""
        _, shape, healthy = self._known(inventory)
        before = self.core.most_memory
        self.core.set_node(number, shape, healthy)
        if self.undo.is_on:
            self.undo.add((setitem, self.inventories, number, self.inventories[number]))
            self.undo.keep(self._bad, number)
        self.inventories[number] = inventory
        self._bad.pop(number, None)
        if sum(map(int.bit_count, healthy)) < len(inventory.devices):
            self._bad[number] = None
        return bool(self.core.most_memory > before)

    def copy(self) -> "Nodes":
        """An independent equal; queries and marks are not copied."""
        other = Nodes()
        other.core = self.core.copy()
        other.numbers = self.numbers.copy()
        other.queries = Queries(other.numbers)
        other.by_name = dict(self.by_name)
        other.names = list(self.names)
        other.marks = list(self.marks)
        other.inventories = list(self.inventories)
        other._bad = dict(self._bad)
        other._holes = None
        other._shapes = dict(self._shapes)
        return other

    def _known(self, inventory: NodeDevices) -> tuple[NodeDevices, int, tuple[int, ...]]:
        known = self._shape_of_inventory.get(id(inventory))
        if known is None or known[0] is not inventory:
            key = self.numbers.shape(inventory)
            shape = self._shapes.get(key)
            if shape is None:
                most = 2 * len(self.by_name) + _SPARE_SHAPES
                if len(self._shapes) > most and not self.undo.is_on:
                    self._forget_shapes()
                shape = self._shapes[key] = self.core.add_shape(*key)
            if len(self._shape_of_inventory) >= _MOST_INVENTORIES:
                self._shape_of_inventory.clear()
            known = inventory, shape, healthy_masks(inventory)
            self._shape_of_inventory[id(inventory)] = known
        return known

    def _forget_shapes(self) -> None:
        """Those that no node has any more."""
        dropped = set(self.core.drop_unused_shapes())
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape not in dropped}
        self._shape_of_inventory.clear()
        self.queries.forget()
