"""The jobs of one tenant in order: a queue for each priority and kind, and heaps of their firsts.

Times never go back, so a job that comes is behind all others of its priority, whatever the ageing:
only one that comes back, or has a rank, has to look for its place. A job that leaves from the
middle is dead and stays until it is first, or until the dead are the majority.

The queues of parked kinds have a heap of their own. Parking and waking put firsts into the other
heap and leave what lies in the first one; so does a job that comes back in front. Such litter goes
when it is on top, or when it is the majority.

Invariants: queues are sorted and not empty; the first of each is in its heap, maybe twice; the top
of each heap is the first of a queue, and alive whenever `tidy` has run; ``length`` counts the dead,
too.
"""

from bisect import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import takewhile
from typing import NamedTuple

from hivecore._trial import UndoLog
from hivecore.queues._ring import is_heap
from hivecore.queues.queued_job import QueuedJob

__all__ = ["Entry", "Lane", "Line", "lane_of"]

#: Which queue of a line: a priority, and a kind if there is one.
Lane = int | tuple[int, int]


class Entry(NamedTuple):
    """A job in its place; the lower comes first."""

    key: int
    number: int
    stamp: int  # tells a job that came back from its dead self
    arrived: int
    job: QueuedJob


def lane_of(job: QueuedJob) -> Lane:
    """The queue that a job is in."""
    return (job.priority, job.kind) if job.kind else job.priority


class Line:
    """The jobs of one tenant.

    :param undo: gets the undo of each change while it is on, but for the heaps: the caller restores
        them, see `state`. Then no dead job leaves the middle, because an undo needs it again.
    :param is_spare: whether a job was dead and behind another one before the log was on: it goes
        without an undo, or it would be in the way of each trial.
    """

    __slots__ = (
        *("heads", "length", "litter", "parked", "priorities", "queues", "shut"),
        *("_is_spare", "_undo"),
    )

    def __init__(self, undo: UndoLog, is_spare: Callable[[Entry, Entry], bool]) -> None:
        self._undo, self._is_spare = undo, is_spare
        self.heads: list[Entry] = []
        #: the heap of the parked
        self.shut: list[Entry] = []
        self.queues: dict[Lane, deque[Entry]] = {}
        #: those of which there are queues, by kind
        self.priorities: dict[int, set[int]] = {}
        #: a set of kinds, as a dict: an empty one takes less memory
        self.parked: dict[int, None] = {}
        self.length = 0
        #: whether a heap may hold what is not the first of a queue, or is there twice
        self.litter = False

    def state(self) -> tuple[list[Entry], list[Entry], bool]:
        """The heaps as they are now, for `restore`."""
        return self.heads.copy(), self.shut.copy(), self.litter

    def restore(self, heads: list[Entry], shut: list[Entry], litter: bool) -> None:
        """The heaps that fit the queues again, when all changes since then are undone."""
        self.heads, self.shut, self.litter = heads, shut, litter

    def copy(self, undo: UndoLog, is_spare: Callable[[Entry, Entry], bool]) -> "Line":
        """An equal of its own; the entries are shared."""
        branch = Line(undo, is_spare)
        branch.heads, branch.shut = self.heads.copy(), self.shut.copy()
        branch.queues = {lane: queue.copy() for lane, queue in self.queues.items()}
        branch.priorities = {kind: of.copy() for kind, of in self.priorities.items()}
        branch.parked, branch.length, branch.litter = self.parked.copy(), self.length, self.litter
        return branch

    def push(self, entry: Entry) -> None:
        """Put the last one of all that have come into its place."""
        if self._undo.is_on:
            self._undo.add((self._take_back, entry))
        self.length += 1
        job = entry.job
        kind = job.kind
        lane = (job.priority, kind) if kind else job.priority
        queue = self.queues.get(lane)
        if queue is None:
            self.queues[lane] = deque((entry,))
            heap = self.heads
            if kind:
                self.priorities.setdefault(kind, set()).add(job.priority)
                if kind in self.parked:
                    heap = self.shut
            heappush(heap, entry)
        else:
            queue.append(entry)  # what is there is not looked at: it may be far away in memory

    def insert(self, entry: Entry) -> None:
        """Put one into its place that need not be the last."""
        queue = self.queues.get(lane_of(entry.job))
        if queue is None or entry > queue[-1]:
            self.push(entry)
            return
        if self._undo.is_on:
            self._undo.add((self._take_back, entry))
        self.length += 1
        if entry < queue[0]:
            heap = self.shut if entry.job.kind in self.parked else self.heads
            replaces = heap[0] is queue[0]
            queue.appendleft(entry)
            if replaces:
                heapreplace(heap, entry)
            else:
                heappush(heap, entry)
                self._settle()
        else:
            queue.insert(bisect(queue, entry), entry)

    def pop(self, heap: list[Entry]) -> None:
        """Take the first one of a heap out."""
        self.length -= 1
        job = heap[0].job
        kind = job.kind
        lane = (job.priority, kind) if kind else job.priority
        queue = self.queues[lane]
        first = queue.popleft()
        if self._undo.is_on:
            while queue and self._is_spare(queue[0], first):
                queue.popleft()
                self.length -= 1
            self._undo.add((self._put_back, first))
        if queue:
            heapreplace(heap, queue[0])
        else:
            heappop(heap)
            del self.queues[lane]
            if kind:
                self.priorities[kind].remove(job.priority)
                if not self.priorities[kind]:
                    del self.priorities[kind]
        if self.litter:
            self._settle()

    def tidy(self, alive: int, lives: Callable[[Entry], bool]) -> None:
        """Let the dead go that come first, and all when they are more than the living."""
        for heap in (self.heads, self.shut):
            while self.length > alive and heap and not lives(heap[0]):
                self.pop(heap)
        if self.length > 2 * alive + 16:
            self.bury(lives)

    def bury(self, lives: Callable[[Entry], bool]) -> None:
        """Let all of the dead go; not while an undo may need them."""
        if self._undo.is_on:
            return
        living = [entry for entry in self if lives(entry)]
        self.heads, self.shut, self.length = [], [], 0
        self.queues, self.priorities = {}, {}
        for entry in living:
            self.push(entry)

    def park(self, kind: int) -> None:
        """Offer no job of a kind; `tidy` is to follow. O(log queues) for each priority it has."""
        if kind not in self.parked:
            if self._undo.is_on:
                self._undo.add((self.parked.pop, kind))
            self.parked[kind] = None
            self._move(kind, self.shut)

    def wake(self, kind: int) -> None:
        """Offer a parked kind's jobs again; `tidy` is to follow."""
        if self._undo.is_on:
            self._undo.add((self.parked.setdefault, kind))
        del self.parked[kind]
        self._move(kind, self.heads)

    def offers(self, strict: bool) -> bool:
        """Whether a job is not parked, nor, if it is strict, behind a parked one."""
        heads, shut = self.heads, self.shut
        return bool(heads) and not (strict and shut and shut[0] < heads[0])

    def offered(self, strict: bool, refused: Collection[Lane]) -> Iterator[Entry]:
        """What is offered, in order, dead jobs too; none of refused queues. O(log queues) each."""
        heads, shut = self.heads, self.shut
        if not heads or (strict and shut and shut[0] < heads[0]):
            return
        yield heads[0]  # most walks end at once
        entries = self._walk(refused)
        next(entries)
        if strict and shut:
            end = shut[0]
            entries = takewhile(lambda entry: entry < end, entries)
        yield from entries

    def _walk(self, refused: Collection[Lane]) -> Iterator[Entry]:
        """As `heapq.merge`, but a queue is begun only when its first is next."""
        heads = self.heads
        # Firsts with their places in the heap; from begun queues the next one, with what follows.
        ahead: list[tuple[Entry, int, Iterator[Entry]]] = [(heads[0], 0, iter(()))]
        before = None
        while ahead:
            entry, place, rest = ahead[0]
            if place >= 0:
                if entry is not before and self._leads(entry, False):
                    before = entry
                    rest = iter(self.queues[lane_of(entry.job)])
                    heapreplace(ahead, (next(rest), -1, rest))
                else:
                    heappop(ahead)
                for child in (2 * place + 1, 2 * place + 2):
                    if child < len(heads):
                        heappush(ahead, (heads[child], child, rest))
                continue
            yield entry
            if refused and lane_of(entry.job) in refused:
                heappop(ahead)
            elif len(ahead) == 1 and not entry.job.kind:
                yield from rest
                return
            else:
                for follower in rest:
                    heapreplace(ahead, (follower, -1, rest))
                    break
                else:
                    heappop(ahead)

    def _leads(self, entry: Entry, parked: bool) -> bool:
        """Whether it is the first of a queue, and that one parked or not."""
        job = entry.job
        queue = self.queues.get(lane_of(job))
        return queue is not None and queue[0] is entry and (job.kind in self.parked) == parked

    def _move(self, kind: int, heap: list[Entry]) -> None:
        for priority in self.priorities.get(kind, ()):
            heappush(heap, self.queues[priority, kind][0])
        self._settle()

    def _settle(self) -> None:
        """No litter on top, and no more of it than there are queues."""
        heads, shut, queues = self.heads, self.shut, self.queues
        if len(heads) + len(shut) > 2 * len(queues) + 16:
            firsts = [queue[0] for queue in queues.values()]
            heads[:] = [entry for entry in firsts if entry.job.kind not in self.parked]
            shut[:] = [entry for entry in firsts if entry.job.kind in self.parked]
            heapify(heads)
            heapify(shut)
        while heads and not self._leads(heads[0], False):
            heappop(heads)
        while shut and not self._leads(shut[0], True):
            heappop(shut)
        self.litter = len(heads) + len(shut) > len(queues)

    def _take_back(self, entry: Entry) -> None:
        """Undo a push or an insertion."""
        queue = self.queues[lane_of(entry.job)]
        if len(queue) == 1:
            self.pop([entry])
            return
        self.length -= 1
        if queue[-1] is entry:
            queue.pop()
        else:
            del queue[bisect(queue, entry) - 1]

    def _put_back(self, entry: Entry) -> None:
        """Undo a pop."""
        queue = self.queues.get(lane_of(entry.job))
        if queue is None:
            self.push(entry)
        else:
            self.length += 1
            queue.appendleft(entry)

    def __iter__(self) -> Iterator[Entry]:
        """All in order, the dead and the parked among them; nothing may change meanwhile."""
        return merge(*self.queues.values())

    def is_sound(self) -> bool:
        """Whether the invariants hold that need no look at other tenants."""
        if not all(self.queues.values()):
            return False
        firsts = [queue[0] for queue in self.queues.values()]
        heaps = [
            (heap, {id(first) for first in firsts if (first.job.kind in self.parked) == parked})
            for heap, parked in ((self.heads, False), (self.shut, True))
        ]
        places = len(self.heads) + len(self.shut)
        kinds = [(lane[1], lane[0]) for lane in self.queues if isinstance(lane, tuple)]
        return (
            sum(len(queue) for queue in self.queues.values()) == self.length
            and all(
                lane_of(entry.job) == lane and entry >= before
                for lane, queue in self.queues.items()
                for before, entry in zip([queue[0], *queue], queue, strict=False)
            )
            and sorted(kinds) == sorted((k, p) for k in self.priorities for p in self.priorities[k])
            and all(self.priorities.values())
            and 0 not in self.parked
            and all(is_heap(heap) for heap, _ in heaps)
            and all(first <= set(map(id, heap)) for heap, first in heaps)
            and all(id(heap[0]) in first for heap, first in heaps if heap)
            and len(self.queues) <= places <= 2 * len(self.queues) + 17
            and (self.litter or places == len(self.queues))
        )
