"""Buddy cell allocation: HiveD (OSDI'20), Algorithm 1.

A chain is a forest of `roots` equal trees. A level-(l+1) cell consists of `fanouts[l-1]` level-l
cells, its *buddies* among each other; level 1 is the leaf. The allocator keeps one free list per
level, in canonical form: a cell is listed if it is free and its parent is not.

    fanouts [2, 2], roots 2           level 3      0               1
                                      level 2    0   1           2   3
                                      level 1   0 1 2 3         4 5 6 7

    allocate(1) takes leaf 0: cell 0 of level 3 is split, then cell 0 of level 2;
    listed are now leaf 1, level-2 cell 1 and level-3 cell 1.
    release(1, 0) puts leaf 0 back; leaf 1 is free, so they merge, and so on up to the root.

Algorithm 1 splits a cell only if no smaller one can serve. So large cells stay whole as long as
possible, and all owned cells can be served at any time if they could at first (Theorem 1; proved in
`hivecore.reference.cells.state`). Where the paper takes any cell of a free list, this takes the
lowest.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError, NoFreeCellError, NotAllocatedError

__all__ = ["BuddyAllocator"]


def _contains(ascending: list[int], index: int) -> bool:
    position = bisect_left(ascending, index)
    return position < len(ascending) and ascending[position] == index


class BuddyAllocator:
    """The readable twin of `hivecore.cells.BuddyAllocator`."""

    def __init__(self, fanouts: Sequence[int], roots: int) -> None:
        self.fanouts = tuple(fanouts)
        self.roots = roots
        self.levels = len(self.fanouts) + 1
        self.sizes = {self.levels: roots}  # level -> number of cells
        for level in range(self.levels - 1, 0, -1):
            self.sizes[level] = self.sizes[level + 1] * self.fanouts[level - 1]
        self.free: dict[int, list[int]] = {level: [] for level in self.sizes}  # ascending
        self.free[self.levels] = list(range(roots))
        self.allocated: dict[int, set[int]] = {level: set() for level in self.sizes}

    # Queries

    def fits(self, level: int) -> bool:
        return any(self.free[above] for above in range(level, self.levels + 1))

    def is_free(self, level: int, index: int) -> bool:
        return self._listed_ancestor(level, index) is not None

    def is_allocated(self, level: int, index: int) -> bool:
        return index in self.allocated[level]

    def free_cells(self, level: int) -> npt.NDArray[np.int64]:
        return np.array(self.free[level], dtype=np.int64)

    def free_counts(self) -> npt.NDArray[np.int64]:
        counts = [len(self.free[level]) for level in range(1, self.levels + 1)]
        return np.array(counts, dtype=np.int64)

    # Changes

    def allocate(self, level: int) -> int:
        """Allocate the lowest free cell of the lowest level that can serve,
        splitting larger cells.
        """
        for source in range(level, self.levels + 1):
            if self.free[source]:
                index = self._descendant(source, self.free[source][0], level)
                self.allocate_at(level, index)
                return index
        raise NoFreeCellError(f"level={level}: no free cell at this level or above")

    def allocate_at(self, level: int, index: int) -> None:
        """Allocate this cell, splitting the free cell around it."""
        source = self._listed_ancestor(level, index)
        if source is None:
            raise NoFreeCellError(f"level={level}, index={index}: the cell is not wholly free")
        self.free[source].remove(self._ancestor(level, index, source))
        for below in range(source - 1, level - 1, -1):
            kept = self._ancestor(level, index, below)
            for buddy in self._buddies(below, kept):
                insort(self.free[below], buddy)
        self.allocated[level].add(index)

    def release(self, level: int, index: int) -> None:
        """Release an allocated cell, and merge buddies that are all free."""
        if index not in self.allocated[level]:
            raise NotAllocatedError(f"level={level}, index={index}: not an allocated cell")
        self.allocated[level].remove(index)
        while level < self.levels:
            buddies = self._buddies(level, index)
            if not all(_contains(self.free[level], buddy) for buddy in buddies):
                break
            for buddy in buddies:
                self.free[level].remove(buddy)
            index //= self.fanouts[level - 1]
            level += 1
        insort(self.free[level], index)

    def allocate_many(self, levels: Iterable[int]) -> npt.NDArray[np.int64]:
        return np.array([self.allocate(n) if self.fits(n) else -1 for n in levels], dtype=np.int64)

    def release_many(self, levels: Sequence[int], indices: Sequence[int]) -> None:
        cells = list(zip(levels, indices, strict=True))
        for position, (level, index) in enumerate(cells):
            if index not in self.allocated[level] or (level, index) in cells[:position]:
                raise NotAllocatedError(f"levels[{position}]={level}, indices[{position}]={index}")
        for level, index in cells:
            self.release(level, index)

    def check(self) -> None:
        """Check the free lists against their definition, and that no leaf is allocated twice."""
        owners = Counter(
            leaf
            for level, cells in self.allocated.items()
            for index in cells
            for leaf in self._leaves(level, index)
        )
        if any(count > 1 for count in owners.values()):
            raise InvariantError("allocated cells overlap")

        def is_free(level: int, index: int) -> bool:
            return owners.keys().isdisjoint(self._leaves(level, index))

        for level, listed in self.free.items():
            free = (index for index in range(self.sizes[level]) if is_free(level, index))
            if level < self.levels:
                fanout = self.fanouts[level - 1]
                free = (index for index in free if not is_free(level + 1, index // fanout))
            if list(free) != listed:
                raise InvariantError(f"free list of level {level} is not canonical")

    # Index arithmetic

    def _ancestor(self, level: int, index: int, above: int) -> int:
        return index * self.sizes[above] // self.sizes[level]

    def _descendant(self, level: int, index: int, below: int) -> int:
        """Return the first cell of level ``below`` inside a cell."""
        return index * self.sizes[below] // self.sizes[level]

    def _leaves(self, level: int, index: int) -> range:
        return range(self._descendant(level, index, 1), self._descendant(level, index + 1, 1))

    def _listed_ancestor(self, level: int, index: int) -> int | None:
        for above in range(level, self.levels + 1):
            if _contains(self.free[above], self._ancestor(level, index, above)):
                return above
        return None

    def _buddies(self, level: int, index: int) -> list[int]:
        fanout = self.fanouts[level - 1]
        first = index - index % fanout
        return [i for i in range(first, first + fanout) if i != index]
