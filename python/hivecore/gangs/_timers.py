"""When something is due: a heap of times in which what was called off stays until it is met.

Invariant: whatever has a ``time`` of 0 or more is in the heap with it. An entry whose time is not
its thing's any more is stale; the heap is built anew when more than half of it may be.
"""

from heapq import heapify, heappop, heappush
from typing import Protocol

__all__ = ["Timed", "Timers"]


class Timed(Protocol):
    """What can be due; ``time`` is -1 while it is not to be."""

    time: int


class Timers:
    """The things that are due at some time."""

    __slots__ = ("_heap", "_pushed", "live")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._pushed = 0
        self.live = 0

    def set(self, thing: Timed, time: int) -> None:
        """Let it be due then, and at no other time."""
        self.live += thing.time < 0
        thing.time = time
        self._pushed += 1
        heappush(self._heap, (time, self._pushed, thing))

    def clear(self, thing: Timed) -> None:
        """Call it off."""
        if thing.time >= 0:
            thing.time = -1
            self.live -= 1
            if len(self._heap) > 2 * self.live + 64:
                self._heap = [entry for entry in self._heap if entry[2].time == entry[0]]
                heapify(self._heap)

    def next(self) -> int | None:
        """When something is due next."""
        heap = self._heap
        while heap and heap[0][2].time != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[Timed]:
        """What is due by now, each thing once, the earliest first; it stays in the heap's care
        until its time is cleared or set anew.
        """
        found: dict[int, Timed] = {}
        while (time := self.next()) is not None and time <= now:
            _, _, thing = heappop(self._heap)
            found[id(thing)] = thing
        return list(found.values())
