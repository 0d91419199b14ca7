"""Timers of pods and groups: a heap that may contain stale entries.

Invariant: a pod or group with a ``time`` >= 0 is in the heap with it. An entry with another time is
stale; the heap is rebuilt when more than half of it may be stale.
"""

from heapq import heapify, heappop, heappush

from hivecore.gangs._records import GroupBook, PodBook

__all__ = ["Timers"]


class Timers:
    """The pods and groups that are due at some time; ``time`` is -1 for others."""

    __slots__ = ("_heap", "_pushed", "live")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, PodBook | GroupBook]] = []
        self._pushed = 0
        self.live = 0

    def set(self, thing: PodBook | GroupBook, time: int) -> None:
        """Set the only time at which something is due."""
        self.live += thing.time < 0
        thing.time = time
        self._pushed += 1
        heappush(self._heap, (time, self._pushed, thing))

    def clear(self, thing: PodBook | GroupBook) -> None:
        """Cancel a timer."""
        if thing.time >= 0:
            thing.time = -1
            self.live -= 1
            if len(self._heap) > 2 * self.live + 64:
                self._heap = [entry for entry in self._heap if entry[2].time == entry[0]]
                heapify(self._heap)

    def next(self) -> int | None:
        """Return when something is due next."""
        heap = self._heap
        while heap and heap[0][2].time != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[PodBook | GroupBook]:
        """What is due, each once, the earliest first; it stays until cleared or changed."""
        due: dict[int, PodBook | GroupBook] = {}
        while (time := self.next()) is not None and time <= now:
            _, _, thing = heappop(self._heap)
            due[id(thing)] = thing
        return list(due.values())
