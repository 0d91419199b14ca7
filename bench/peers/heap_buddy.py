"""A fast buddy allocator in pure Python: heaps and sets instead of sorted lists.

A free list is a set, and a heap that may contain stale entries of cells that have left it.
Arguments are not checked.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Self


class HeapBuddy:
    def __init__(self, fanouts: Sequence[int], roots: int) -> None:
        self.fanouts = [*fanouts, 0]
        self.top = len(fanouts)
        self.free: list[set[int]] = [set() for _ in self.fanouts]
        self.free[self.top] = set(range(roots))
        self.heaps = [sorted(cells) for cells in self.free]
        self.allocated: list[set[int]] = [set() for _ in self.fanouts]

    @classmethod
    def in_state_of(
        cls,
        fanouts: Sequence[int],
        roots: int,
        free: Iterable[Iterable[int]],
        allocated: Iterable[Iterable[int]],
    ) -> Self:
        """With these free and allocated cells per level, leaf first."""
        built = cls(fanouts, roots)
        built.free = [set(cells) for cells in free]
        built.heaps = [sorted(cells) for cells in built.free]
        built.allocated = [set(cells) for cells in allocated]
        return built

    def allocate(self, level: int) -> int:
        level -= 1
        source = level
        while not self.free[source]:
            source += 1
            if source > self.top:
                return -1
        free, heap = self.free[source], self.heaps[source]
        index = heapq.heappop(heap)
        while index not in free:
            index = heapq.heappop(heap)
        free.remove(index)
        while source > level:
            source -= 1
            index *= self.fanouts[source]
            for buddy in range(index + 1, index + self.fanouts[source]):
                self.free[source].add(buddy)
                heapq.heappush(self.heaps[source], buddy)
        self.allocated[level].add(index)
        return index

    def release(self, level: int, index: int) -> None:
        level -= 1
        self.allocated[level].remove(index)
        while level < self.top:
            fanout = self.fanouts[level]
            first = index - index % fanout
            free = self.free[level]
            for buddy in range(first, first + fanout):
                if buddy != index and buddy not in free:
                    self._list(level, index)
                    return
            for buddy in range(first, first + fanout):
                free.discard(buddy)
            index //= fanout
            level += 1
        self._list(level, index)

    def _list(self, level: int, index: int) -> None:
        self.free[level].add(index)
        heapq.heappush(self.heaps[level], index)

    def allocate_many(self, levels: Iterable[int]) -> list[int]:
        return [self.allocate(level) for level in levels]
