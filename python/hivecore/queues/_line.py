"""The jobs of one tenant in order: a queue for each priority, and a heap of the first of each.

Times never go back, so a job that comes is behind all others of its priority, whatever the ageing:
only one that comes back has to look for its place. A job that leaves from the middle is dead and
stays until it is first, or until the dead are the majority.

Invariants: queues are sorted and not empty; the heap holds the first of each; the first of all is
alive whenever `tidy` has run; ``length`` counts the dead, too.
"""

from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import NamedTuple

from hivecore.queues._ring import is_heap
from hivecore.queues.queued_job import QueuedJob

__all__ = ["Entry", "Line"]


class Entry(NamedTuple):
    """A job in its place; the lower comes first."""

    key: int
    number: int
    stamp: int  # tells a job that came back from its dead self
    arrived: int
    job: QueuedJob


class Line:
    """The jobs of one tenant."""

    __slots__ = ("heads", "length", "queues")

    def __init__(self) -> None:
        self.heads: list[Entry] = []
        self.queues: dict[int, deque[Entry]] = {}
        self.length = 0

    def push(self, entry: Entry) -> None:
        """Put the last one of all that have come into its place."""
        self.length += 1
        queue = self.queues.get(entry.job.priority)
        if queue is None:
            self.queues[entry.job.priority] = deque((entry,))
            heappush(self.heads, entry)
        else:
            queue.append(entry)  # what is there is not looked at: it may be far away in memory

    def insert(self, entry: Entry) -> None:
        """Put one that was here before into its place."""
        queue = self.queues.get(entry.job.priority)
        if queue is None or entry > queue[-1]:
            self.push(entry)
            return
        self.length += 1
        if entry < queue[0]:
            self.heads[self.heads.index(queue[0])] = entry
            heapify(self.heads)
            queue.appendleft(entry)
        else:
            queue.insert(bisect(queue, entry), entry)

    def pop(self) -> None:
        """Take the first one out."""
        self.length -= 1
        priority = self.heads[0].job.priority
        queue = self.queues[priority]
        queue.popleft()
        if queue:
            heapreplace(self.heads, queue[0])
        else:
            heappop(self.heads)
            del self.queues[priority]

    def tidy(self, alive: int, lives: Callable[[Entry], bool]) -> None:
        """Let the dead go that come first, and all when they are more than the living."""
        while self.length > alive and self.heads and not lives(self.heads[0]):
            self.pop()
        if self.length > 2 * alive + 16:
            living = [entry for entry in self if lives(entry)]
            self.heads, self.queues, self.length = [], {}, 0
            for entry in living:
                self.push(entry)

    def __iter__(self) -> Iterator[Entry]:
        """In order, the dead among them; nothing may change meanwhile."""
        if self.heads:
            yield self.heads[0]  # most walks end at once
            entries = merge(*self.queues.values())
            next(entries)
            yield from entries

    def is_sound(self) -> bool:
        """Whether the invariants hold that need no look at other tenants."""
        firsts = [queue[0] for queue in self.queues.values() if queue]
        sizes = sum(len(queue) for queue in self.queues.values())
        return (
            len(firsts) == len(self.queues)
            and sorted(self.heads) == sorted(firsts)
            and is_heap(self.heads)
            and sizes == self.length
            and all(
                entry.job.priority == priority and entry >= before
                for priority, queue in self.queues.items()
                for before, entry in zip([queue[0], *queue], queue, strict=False)
            )
        )
