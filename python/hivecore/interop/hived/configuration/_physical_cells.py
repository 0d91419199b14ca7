"""`physicalCells`: top-level cells, of which as much is spelled out as the administrator cares for.

All top-level cells of one type form a chain, numbered in the order of the list. Only what is
spelled out is looked at: the rest follows from the types (`addresses`). A cell that spells out its
children spells out all of them; an empty entry stands for all defaults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hivecore.interop.hived.configuration._cell_types import Line
from hivecore.interop.hived.configuration._keys import HOMES, OF_CELL
from hivecore.interop.hived.configuration.addresses import ChainAddresses
from hivecore.interop.kubernetes.messages import is_blank, show
from hivecore.interop.kubernetes.problems import Place, Problems

_MOST_LEAVES = 2**31
_MOST_NODES = 2**21
_MOST_SPELLED = 2**21
_MOST_NUMBERED = 2**22
_LARGEST_INDEX = 2**31 - 1


@dataclass(slots=True)
class PhysicalChain:
    """The cells of one chain, with what is said of single ones."""

    line: Line
    node_level: int
    roots: list[int] = field(default_factory=list)
    """Places of the top-level cells in the list."""
    tops: list[tuple[Mapping[Any, Any], Place]] = field(default_factory=list)
    parts: list[dict[int, str]] = field(default_factory=list)
    """Per level: cell -> its own part of the address."""
    nodes: list[str] = field(default_factory=list)
    devices: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Node -> indices of its leaves where they are not 0, 1, ..."""

    def cells(self, above: int, level: int) -> int:
        """How many cells of a level are in one of a level above."""
        return prod(self.line.fanouts[level:above])

    @property
    def devices_per_node(self) -> int:
        """How many leaves a node has."""
        return self.cells(self.node_level, 0)

    @property
    def leaves(self) -> int:
        """How many leaves the chain has."""
        return len(self.roots) * self.cells(len(self.line.fanouts), 0)

    def addresses(self) -> ChainAddresses:
        """The addresses of all cells."""
        return ChainAddresses(self.line.fanouts, self.node_level, self.roots, self.parts)


@dataclass(frozen=True, slots=True)
class Pin:
    """A cell that has a pinned id."""

    chain: str
    level: int
    index: int
    place: Place


def read_physical_cells(
    value: Any, place: Place, lines: Mapping[str, Line | None], problems: Problems
) -> tuple[dict[str, PhysicalChain], dict[str, Pin]]:
    """The chains in the order of their first cells, and the pinned cells by id.

    After a mistake they may be incomplete.
    """
    chains: dict[str, PhysicalChain] = {}
    for position, entry in enumerate(problems.items(value, place)):
        at = place, position
        fields = problems.mapping(entry, at)
        name = _top_type(fields, at, lines, problems)
        line = lines.get(name) if name is not None else None
        if name is None or line is None or line.node_level is None:
            _check_keys(fields, at, problems)
            continue
        chain = chains.get(name)
        if chain is None:
            chain = chains[name] = PhysicalChain(line, line.node_level)
            chain.parts = [{} for _ in line.levels]
        chain.roots.append(position)
        chain.tops.append((fields, at))
    pins: dict[str, Pin] = {}
    if _is_small_enough(chains, place, problems):
        spelled = 0
        for name, chain in chains.items():
            spelled = _Reader(name, chain, place, pins, spelled, problems).read()
        _check_devices(chains, problems)
    return chains, pins


def _check_keys(fields: Mapping[Any, Any], at: Place, problems: Problems) -> None:
    """Name the unknown keys of a cell that is not read, and of those in it."""
    stack = [(fields, at)]
    while stack:
        fields, at = stack.pop()
        problems.known(fields, OF_CELL, at, HOMES)
        children, below = fields.get("cellChildren"), (at, "cellChildren")
        if isinstance(children, list):
            cells = [(child, (below, i)) for i, child in enumerate(children)]
            stack += [cell for cell in reversed(cells) if isinstance(cell[0], Mapping)]


def _top_type(
    fields: Mapping[Any, Any], at: Place, lines: Mapping[str, Line | None], problems: Problems
) -> str | None:
    if fields.get("cellType") is None:
        problems.add((at, "cellType"), "is missing")
        return None
    name = problems.name(fields["cellType"], (at, "cellType"))
    if name is None:
        return None
    if name not in lines:
        problems.add((at, "cellType"), f"{show(name)} is not among the cell types")
        return None
    line = lines[name]
    if line is not None and line.node_level is None:
        problems.add(
            (at, "cellType"),
            f"{show(name)} is below the node level: neither it nor a type in it has isNodeLevel",
        )
        return None
    return name


def _is_small_enough(chains: Mapping[str, PhysicalChain], place: Place, problems: Problems) -> bool:
    nodes = 0
    fits = True
    for name, chain in chains.items():
        top = len(chain.line.fanouts)
        leaves = chain.leaves
        nodes += len(chain.roots) * chain.cells(top, chain.node_level)
        if leaves > _MOST_LEAVES:
            fits = False
            problems.add(
                place, f"the cells of type {show(name)} have {show(leaves)} leaves, at most 2**31"
            )
    if nodes > _MOST_NODES:
        problems.add(place, f"there are {show(nodes)} nodes, at most {_MOST_NODES:,}")
        return False
    return fits


class _Reader:
    """Walks the cells of a chain that are spelled out."""

    def __init__(
        self,
        name: str,
        chain: PhysicalChain,
        place: Place,
        pins: dict[str, Pin],
        spelled: int,
        problems: Problems,
    ) -> None:
        self.name = name
        self.chain = chain
        self.place = place
        self.pins = pins
        self.spelled = spelled
        self.problems = problems
        self.levels = chain.line.levels
        self.fanouts = chain.line.fanouts
        self.node_level = chain.node_level
        self.addresses = chain.addresses()
        self.leaf_parts: dict[int, int] = {}

    def read(self) -> int:
        """Read the chain; returns how many cells of all chains so far are spelled out."""
        chain = self.chain
        top = len(self.fanouts)
        for index, (fields, at) in enumerate(chain.tops):
            self._cell(fields, top, index, at, True)
        if self.node_level < top:
            self._check_siblings(top, 0, self.place, chain.roots, chain.roots)
        chain.nodes = self.addresses.own_parts(self.node_level)
        self._number_devices()
        return self.spelled

    def _cell(
        self, fields: Mapping[Any, Any], level: int, index: int, at: Place, is_top: bool
    ) -> None:
        problems = self.problems
        problems.known(fields, OF_CELL, at, HOMES)
        part = fields.get("cellAddress")
        if not is_blank(part):
            self._address(part, level, index, (at, "cellAddress"))
        for key in ("pinnedCellId", "reservationId"):
            if fields.get(key) is not None:
                self._pin(fields[key], level, index, (at, key))
        if not is_top and fields.get("cellType") is not None:
            name = problems.text(fields["cellType"], (at, "cellType"))
            if name and name != self.levels[level]:
                problems.add(
                    (at, "cellType"),
                    f"{show(name)}: the cells in a {show(self.levels[level + 1])} "
                    f"are of type {show(self.levels[level])}",
                )
        children = fields.get("cellChildren")
        if not is_blank(children):
            self._children(children, level, index, (at, "cellChildren"))

    def _address(self, value: Any, level: int, index: int, at: Place) -> None:
        part = self.problems.text(value, at)
        if not part:
            return
        if "/" in part:
            self.problems.add(at, f"{show(part)}: a slash separates levels, it cannot be in one")
            return
        if level == 0:
            number = int(part) if part.isdecimal() and len(part) <= 20 else -1
            if not 0 <= number <= _LARGEST_INDEX:
                self.problems.add(
                    at, f"the address of a device is its index, 0 to 2**31 - 1, not {show(part)}"
                )
                return
            self.leaf_parts[index] = number
        self.chain.parts[level][index] = part

    def _pin(self, value: Any, level: int, index: int, at: Place) -> None:
        pin = self.problems.text(value, at)
        if not pin:
            return
        if pin in self.pins:
            other = self.problems.path(self.pins[pin].place)
            self.problems.add(at, f"{show(pin)} is the id of {other} already")
        else:
            self.pins[pin] = Pin(self.name, level, index, at)

    def _children(self, value: Any, level: int, index: int, at: Place) -> None:
        children = self.problems.items(value, at)
        if not children:
            return
        if level == 0:
            self.problems.add(at, f"{show(self.levels[0])} is a device and has no cells in it")
            return
        fanout = self.fanouts[level - 1]
        if len(children) != fanout:
            self.problems.add(
                at,
                f"{len(children)} cells are listed, a {show(self.levels[level])} has {fanout} of "
                f"type {show(self.levels[level - 1])}: list all of them, or none",
            )
        self.spelled += len(children)
        if self.spelled > _MOST_SPELLED:
            if self.spelled - len(children) <= _MOST_SPELLED:
                self.problems.add(at, f"more than {_MOST_SPELLED:,} cells are spelled out so far")
            return
        first = index * fanout
        for child, entry in enumerate(children[:fanout]):
            place = at, child
            if not is_blank(entry):
                fields = self.problems.mapping(entry, place)
                self._cell(fields, level - 1, first + child, place, False)
        if len(children) == fanout and level - 1 not in (0, self.node_level):
            start = self.addresses.number(level - 1, first)
            numbers = range(start, start + fanout)
            self._check_siblings(level - 1, first, at, range(fanout), numbers)

    def _check_siblings(
        self, level: int, first: int, at: Place, positions: Sequence[int], numbers: Sequence[int]
    ) -> None:
        """Cells of one parent have different addresses; of nodes and devices see below."""
        parts = self.chain.parts[level]
        said = [parts.get(first + i) for i in range(len(positions))]
        if not any(said):
            return
        own = [part or str(number) for part, number in zip(said, numbers, strict=True)]
        if len(set(own)) == len(own):
            return
        taken: dict[str, Place] = {}
        for part, position in zip(own, positions, strict=True):
            other = taken.setdefault(part, (at, position))
            if other != (at, position):
                self.problems.add(
                    (at, position),
                    f"{show(part)} is the address of {self.problems.path(other)} already",
                )

    def _number_devices(self) -> None:
        chain = self.chain
        per_node = chain.devices_per_node
        if not self.leaf_parts:
            return
        if chain.leaves > _MOST_NUMBERED:
            self.problems.add(
                self.place,
                f"some of the {chain.leaves:,} devices of chain {show(self.name)} have indices of "
                f"their own, which is possible for up to {_MOST_NUMBERED:,}",
            )
            return
        rows: dict[int, list[int]] = {}
        for leaf, number in self.leaf_parts.items():
            node, rank = divmod(leaf, per_node)
            if node not in rows:
                rows[node] = list(range(per_node))
            rows[node][rank] = number
        plain = list(range(per_node))
        chain.devices = {node: tuple(row) for node, row in rows.items() if row != plain}


def _check_devices(chains: Mapping[str, PhysicalChain], problems: Problems) -> None:
    """No device is in two cells.

    One machine may have nodes in several chains, and several in one, if they have different
    devices: devices of different types are counted apart. Where two chains number their nodes by
    default and the configuration gives no names, equal numbers mean nothing.
    """
    by_type: dict[str, list[PhysicalChain]] = {}
    for chain in chains.values():
        by_type.setdefault(chain.line.levels[0], []).append(chain)
        for node, row in chain.devices.items():
            if len(set(row)) < len(row):
                twice = next(number for i, number in enumerate(row) if number in row[:i])
                problems.add(
                    _node_place(chain, node),
                    f"device {twice} of node {show(chain.nodes[node])} is in two cells",
                )
    for group in by_type.values():
        names = [name for chain in group for name in chain.nodes]
        if len(set(names)) < len(names):
            _check_shared_nodes(group, problems)


def _check_shared_nodes(group: Sequence[PhysicalChain], problems: Problems) -> None:
    places: dict[str, list[tuple[PhysicalChain, int]]] = {}
    for chain in group:
        for node, name in enumerate(chain.nodes):
            places.setdefault(name, []).append((chain, node))
    for name, shared in places.items():
        named = any(node in chain.parts[chain.node_level] for chain, node in shared)
        if len(shared) == 1 or not named:
            continue
        taken: dict[int, Place] = {}
        # The devices 0, 1, ... of a node are not written out: there may be very many.
        plain, plain_place = 0, None
        for chain, node in shared:
            place = _node_place(chain, node)
            row = chain.devices.get(node)
            if row is None:
                numbers = taken if not plain else (0,)
                known = min((i for i in numbers if i < chain.devices_per_node), default=None)
            else:
                known = min((i for i in row if i < plain or i in taken), default=None)
            if known is not None:
                other = problems.path(plain_place if known < plain else taken[known])
                problems.add(place, f"device {known} of node {show(name)} is in {other} already")
            elif row is None:
                plain, plain_place = chain.devices_per_node, place
            else:
                taken.update(dict.fromkeys(row, place))


def _node_place(chain: PhysicalChain, node: int) -> Place:
    """The entry that describes a node, or the one that contains it."""
    fanouts = chain.line.fanouts
    root, rank = divmod(node, chain.cells(len(fanouts), chain.node_level))
    fields, place = chain.tops[root]
    for level in range(len(fanouts) - 1, chain.node_level - 1, -1):
        child, rank = divmod(rank, chain.cells(level, chain.node_level))
        children = fields.get("cellChildren")
        if not isinstance(children, (list, tuple)) or child >= len(children):
            return place
        place = (place, "cellChildren"), child
        if not isinstance(children[child], Mapping):
            return place
        fields = children[child]
    return place
