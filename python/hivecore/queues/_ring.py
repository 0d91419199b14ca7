"""A heap looked at without a change."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["is_heap", "ordered"]


def ordered(heap: list[Any]) -> Iterator[Any]:
    """The entries from the lowest, found with a heap of candidates; O(log k) for the k-th."""
    if not heap:
        return
    # Most walks end at once: the candidates are made only for the second entry.
    yield heap[0]
    size = len(heap)
    ahead = [(heap[i], i) for i in (1, 2) if i < size]
    heapify(ahead)
    while ahead:
        entry, i = heappop(ahead)
        yield entry
        for child in (2 * i + 1, 2 * i + 2):
            if child < size:
                heappush(ahead, (heap[child], child))


def is_heap(entries: list[Any]) -> bool:
    """Whether no entry is lower than the one above it."""
    return all(entries[(i - 1) // 2] <= entries[i] for i in range(1, len(entries)))
