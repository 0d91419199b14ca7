"""The group scheduler's data: forests of cells, pools of virtual cells, groups and plans.

Levels count from 0, the leaf; cells of a level count from left to right. A forest's leaves are
numbered after those of earlier forests, so that a leaf's number identifies its chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

__all__ = [
    "Forest",
    "Group",
    "PhysicalCell",
    "Plan",
    "Pool",
    "Reason",
    "VirtualCell",
    "VirtualLeaf",
]

Reason = Literal["", "capacity", "fragmented", "mapping", "policy"]  # to wait

VirtualLeaf = tuple[int, int]  # (pool, leaf of the pool)


class PhysicalCell(NamedTuple):
    """A cell of a chain."""

    chain: int
    level: int
    number: int


class VirtualCell(NamedTuple):
    """A cell of a pool."""

    pool: int
    level: int
    number: int


@dataclass(frozen=True)
class Forest:
    """The shape of a chain."""

    chain: int
    fanouts: tuple[int, ...]
    roots: int
    node_level: int
    first_leaf: int

    @property
    def top(self) -> int:
        """The level of the roots."""
        return len(self.fanouts)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of leaves of a cell, by level."""
        widths = [1]
        for fanout in self.fanouts:
            widths.append(widths[-1] * fanout)
        return tuple(widths)

    @property
    def end_leaf(self) -> int:
        """The number after the last leaf."""
        return self.first_leaf + self.roots * self.widths[-1]

    def cells(self, level: int) -> range:
        """The cells of a level."""
        return range(self.roots * self.widths[-1] // self.widths[level])

    def leaves(self, level: int, cell: int) -> range:
        """The leaves of a cell."""
        first = self.first_leaf + cell * self.widths[level]
        return range(first, first + self.widths[level])

    def above(self, leaf: int, level: int) -> int:
        """Return the cell of a level around a leaf."""
        return (leaf - self.first_leaf) // self.widths[level]

    def inside(self, level: int, cell: int, below: int) -> range:
        """Return the cells of level ``below`` inside a cell."""
        many = self.many(level, below)
        return range(cell * many, (cell + 1) * many)

    def many(self, level: int, below: int) -> int:
        """Return how many cells of level ``below`` are in a cell of ``level``."""
        return self.widths[level] // self.widths[below]


@dataclass(frozen=True)
class Pool:
    """``count`` virtual trees with roots of one level; with ``pin``, a tree that is
    always bound.
    """

    vc: int
    chain: int
    level: int
    count: int
    pin: int | None = None


@dataclass(frozen=True)
class Group:
    """A gang with its virtual leaves; None if it is opportunistic or downgraded.

    A downgraded group keeps the pools where it belongs, per pod and leaf, if they are known.
    """

    vc: int
    priority: int
    lazy: bool
    preempting: bool
    pods: Sequence[Sequence[int]]
    virtual: Sequence[Sequence[VirtualLeaf]] | None
    sequence: int = -1
    pools: Sequence[Sequence[int]] | None = None

    def downgraded(self) -> "Group":
        """Return the group without its guarantee."""
        assert self.virtual is not None
        pools = [[pool for pool, _ in pod] for pod in self.virtual]
        return replace(self, virtual=None, pools=pools)

    @property
    def leaves(self) -> list[int]:
        """All leaves, pod by pod."""
        return [leaf for pod in self.pods for leaf in pod]

    @property
    def pairs(self) -> list[tuple[int, VirtualLeaf]]:
        """All leaves with their virtual leaves."""
        if self.virtual is None:
            return []
        pods = zip(self.pods, self.virtual, strict=True)
        return [pair for pod, held in pods for pair in zip(pod, held, strict=True)]


@dataclass(frozen=True)
class Plan:
    """The answer of `GroupScheduler.schedule`; only the outcome is set if it is to wait."""

    outcome: Literal["bind", "preempt", "wait"]
    reason: Reason
    vc: int
    priority: int
    pods: list[list[int]] = field(default_factory=list)
    virtual: list[list[VirtualLeaf]] | None = None
    victims: list[int] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)
    downgrades: list[int] = field(default_factory=list)
    stamps: tuple[int, ...] = ()
    """Numbers of downgrades, then of cancels so far, as handles are reused."""
    is_fixed: bool = False
    """Whether no other answer is as good, see `hivecore.reference.cells.planning`."""

    @property
    def is_harmless(self) -> bool:
        """Whether it takes nothing from other groups."""
        return not (self.victims or self.cancels or self.downgrades)
