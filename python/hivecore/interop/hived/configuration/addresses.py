"""Addresses of cells, computed when asked: nothing is stored but what a configuration spells out.

A cell's address is its parent's, a slash and its own part. The own part is what the configuration
says, or a default number: a top-level cell's place in ``physicalCells``; then child i of a cell
with the number d is d * fanout + i, where counting starts again inside each node. So at and above
the node level, the number of cell i of a level is the place of its top-level cell times the cells
that one has of this level, plus its rank among those; below, its rank within its node.

In a virtual cluster ``VC/<k>`` is the k-th cell that it owns, and the own part below is the rank
among the cells of its level in that one. (HiveD: ``inferPhysicalCellSpec``, ``buildChildCell``.)
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["ChainAddresses", "Preassigned", "TenantAddresses"]


@dataclass(slots=True)
class ChainAddresses:
    """Addresses of the cells of one chain; levels count from 0, the leaf.

    >>> chain = ChainAddresses(fanouts=(4, 2), node_level=1, places=[0, 3], parts=({}, {}, {}))
    >>> chain.address(0, 13)
    '3/7/1'
    >>> chain.find(("3", "7", "1"))
    (0, 13)
    """

    fanouts: tuple[int, ...]
    node_level: int
    places: Sequence[int]
    """Place of each top-level cell in ``physicalCells``."""
    parts: Sequence[Mapping[int, str]]
    """Per level: cell -> the own part that the configuration spells out."""
    _tops: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def own_part(self, level: int, index: int) -> str:
        """The last part of a cell's address."""
        part = self.parts[level].get(index)
        return str(self.number(level, index)) if part is None else part

    def number(self, level: int, index: int) -> int:
        """The number that a cell has by default; O(levels)."""
        if level < self.node_level:
            return index % self._per_cell(self.node_level, level)
        per_top = self._per_cell(len(self.fanouts), level)
        return self.places[index // per_top] * per_top + index % per_top

    def _per_cell(self, above: int, level: int) -> int:
        cells = 1
        for fanout in self.fanouts[level:above]:
            cells *= fanout
        return cells

    def address(self, level: int, index: int) -> str:
        """The address of a cell; O(levels)."""
        parts = []
        while level < len(self.fanouts):
            parts.append(self.own_part(level, index))
            index //= self.fanouts[level]
            level += 1
        parts.append(self.own_part(level, index))
        return "/".join(reversed(parts))

    def addresses(self, level: int) -> list[str]:
        """The addresses of all cells of a level, left to right; O(cells)."""
        texts = self.own_parts(len(self.fanouts))
        for below in range(len(self.fanouts) - 1, level - 1, -1):
            fanout, parts = self.fanouts[below], self.own_parts(below)
            texts = [
                f"{parent}/{part}"
                for i, parent in enumerate(texts)
                for part in parts[i * fanout : (i + 1) * fanout]
            ]
        return texts

    def own_parts(self, level: int) -> list[str]:
        """The last parts of the addresses of a level, left to right; O(cells)."""
        per_top = self._per_cell(len(self.fanouts), level)
        if level < self.node_level:
            per_node = self._per_cell(self.node_level, level)
            parts = [str(number) for number in range(per_node)]
            parts *= per_top // per_node * len(self.places)
        else:
            parts = [
                str(number)
                for place in self.places
                for number in range(place * per_top, (place + 1) * per_top)
            ]
        for index, part in self.parts[level].items():
            parts[index] = part
        return parts

    def find(self, parts: Sequence[str]) -> tuple[int, int] | None:
        """The level and index of the cell with these parts of an address; None: there is none.

        Of several with one address the first. O(levels * fanout); the first call O(roots).
        """
        top = len(self.fanouts)
        if not 1 <= len(parts) <= top + 1:
            return None
        if not self._tops:
            for index in range(len(self.places)):
                self._tops.setdefault(self.own_part(top, index), index)
        if parts[0] not in self._tops:
            return None
        index = self._tops[parts[0]]
        level = top
        for part in parts[1:]:
            level -= 1
            first = index * self.fanouts[level]
            # The number first: a level of very many cells is spelled out by hardly anybody.
            number = self.number(level, first)
            guess = int(part) - number if part.isdecimal() and len(part) <= 20 else -1
            if 0 <= guess < self.fanouts[level] and self.own_part(level, first + guess) == part:
                index = first + guess
                continue
            children = range(first, first + self.fanouts[level])
            for child in children if self.parts[level] else ():
                if self.parts[level].get(child) == part:
                    index = child
                    break
            else:
                return None
        return level, index


@dataclass(frozen=True, slots=True)
class Preassigned:
    """Owned cells of one kind which follow each other in a virtual cluster's list."""

    chain: str
    level: int
    pin: str | None
    """The id of the pinned cell; None: any cell of this level will do."""
    first: int
    """The rank of the first of them among the cells of its kind."""
    count: int


@dataclass(slots=True)
class TenantAddresses:
    """Addresses of the virtual cells of one virtual cluster.

    >>> runs = [Preassigned("rack", 1, None, 0, 3), Preassigned("rack", 2, None, 0, 1)]
    >>> tenant = TenantAddresses("A", {"rack": (4, 2)}, runs)
    >>> tenant.address("rack", 2, None, 0, 5)
    'A/3/1/5'
    >>> tenant.find("A/3/1/5")
    ('rack', 2, None, 0, 5)
    """

    name: str
    fanouts: Mapping[str, tuple[int, ...]]
    runs: Sequence[Preassigned]
    _starts: list[int] = field(default_factory=list)
    _kinds: dict[tuple[str, int, str | None], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start = 0
        for number, run in enumerate(self.runs):
            self._starts.append(start)
            self._kinds.setdefault((run.chain, run.level, run.pin), []).append(number)
            start += run.count

    def owned(self, chain: str, level: int, pin: str | None) -> int:
        """How many cells of one kind are owned."""
        runs = (self.runs[number] for number in self._kinds.get((chain, level, pin), ()))
        return sum(run.count for run in runs)

    def address(self, chain: str, root_level: int, pin: str | None, level: int, index: int) -> str:
        """The address of cell `index` of `level`, counted over the owned cells of its kind.

        O(levels + log(entries of the virtual cluster)).
        """
        cells = 1
        for fanout in self.fanouts[chain][level:root_level]:
            cells *= fanout
        root, rank = divmod(index, cells)
        kind = self._kinds[chain, root_level, pin]
        run = kind[bisect_right(kind, root, key=lambda number: self.runs[number].first) - 1]
        place = self._starts[run] + root - self.runs[run].first
        parts = []
        while level < root_level:
            parts.append(str(rank))
            rank //= self.fanouts[chain][level]
            level += 1
        return "/".join([self.name, str(place), *reversed(parts)])

    def find(self, address: str) -> tuple[str, int, str | None, int, int] | None:
        """Chain, owned level, pin, level and index of the cell at an address; None: none is."""
        if not address.startswith(f"{self.name}/"):
            return None
        parts = address[len(self.name) + 1 :].split("/")
        if not all(part.isdecimal() and len(part) <= 20 for part in parts):
            return None
        place = int(parts[0])
        number = bisect_right(self._starts, place) - 1
        if number < 0 or place >= self._starts[number] + self.runs[number].count:
            return None
        run = self.runs[number]
        fanouts = self.fanouts[run.chain]
        level, cells, rank = run.level, 1, 0
        for part in parts[1:]:
            level -= 1
            if level < 0 or not rank * fanouts[level] <= int(part) < (rank + 1) * fanouts[level]:
                return None
            rank = int(part)
            cells *= fanouts[level]
        root = run.first + place - self._starts[number]
        cell = run.chain, run.level, run.pin, level, root * cells + rank
        return cell if self.address(*cell) == address else None
