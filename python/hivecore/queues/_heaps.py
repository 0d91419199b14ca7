"""Heaps of which any entry may die in its place.

Whoever is dead stays where it is until it comes to the top, or until the dead are the majority.
The top is alive whenever `tidy` has run. `ordered` reads a heap in order and does not change it: a
walk from the root that keeps a heap of the next candidates, O(log k) for the k-th entry.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["ordered", "tidy"]


def ordered(heap: list[Any]) -> Iterator[Any]:
    """The entries from the lowest, the dead among them."""
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


def tidy(heap: list[Any], alive: int, lives: Callable[[Any], bool]) -> None:
    """Let the dead go that are on top, and all when they are more than the living."""
    while heap and not lives(heap[0]):
        heappop(heap)
    if len(heap) > 2 * alive + 16:
        heap[:] = [entry for entry in heap if lives(entry)]
        heapify(heap)
