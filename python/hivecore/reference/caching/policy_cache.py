"""Cache policies over items 0 to n-1.

A hit may change an item's rank. A miss evicts until the item fits, then admits it; an item larger
than the capacity is bypassed. Policies differ in `touch`, `admit` and `evict`.
"""

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Sequence
from math import inf
from typing import Any

from hivecore.reference.caching._splitmix import SplitMix64

__all__ = ["PolicyCache", "simulate"]


class _Policy:
    """The common part, which by itself is FIFO: a hit does nothing."""

    def __init__(self, capacity: int, sizes: Sequence[int] | None, seed: int) -> None:
        self.capacity = capacity
        self.sizes = sizes
        self.used = 0
        self.queue: OrderedDict[int, int] = OrderedDict()  # item -> bit or count; oldest first
        self.start(seed)

    def size(self, item: int) -> int:
        return 1 if self.sizes is None else self.sizes[item]

    def access(self, item: int) -> bool:
        if item in self.cached():
            self.touch(item)
            return True
        if self.size(item) <= self.capacity:
            self.expect(item)
            while self.used + self.size(item) > self.capacity:
                for victim in self.evict():
                    self.used -= self.size(victim)
            self.admit(item)
            self.used += self.size(item)
        return False

    def start(self, seed: int) -> None:
        """Initialise the policy's own state."""

    def cached(self) -> set[int]:
        return set(self.queue)

    def touch(self, item: int) -> None:
        """Handle a hit."""

    def expect(self, item: int) -> None:
        """Handle a miss, before the item is admitted."""

    def evict(self) -> Sequence[int]:
        """Evict an item, or make progress towards that."""
        return [self.queue.popitem(last=False)[0]]

    def admit(self, item: int) -> None:
        self.queue[item] = 0


class _Lru(_Policy):
    def touch(self, item: int) -> None:
        self.queue.move_to_end(item)


class _Clock(_Policy):
    def touch(self, item: int) -> None:
        self.queue[item] = 1

    def evict(self) -> Sequence[int]:
        item, bit = self.queue.popitem(last=False)
        if not bit:
            return [item]
        self.queue[item] = 0  # at the end, which the hand reaches last
        return []


class _Uniform(_Policy):
    def access(self, item: int) -> bool:
        if item in self.queue:
            return True
        if self.used + self.size(item) <= self.capacity:
            self.admit(item)
            self.used += self.size(item)
        return False


class _Random(_Policy):
    def start(self, seed: int) -> None:
        self.slots: list[int] = []
        self.random = SplitMix64(seed)

    def cached(self) -> set[int]:
        return set(self.slots)

    def evict(self) -> Sequence[int]:
        slot = (self.random.next() >> 32) * len(self.slots) >> 32
        victim, last = self.slots[slot], self.slots.pop()
        if slot < len(self.slots):
            self.slots[slot] = last
        return [victim]

    def admit(self, item: int) -> None:
        self.slots.append(item)


class _Lfu(_Policy):
    def start(self, seed: int) -> None:
        self.now = 0
        self.ranked: list[tuple[int, int, int]] = []  # (uses, time of the last use, item)
        self.rank: dict[int, tuple[int, int, int]] = {}

    def cached(self) -> set[int]:
        return set(self.rank)

    def touch(self, item: int) -> None:
        uses = self.rank[item][0]
        self.ranked.remove(self.rank[item])
        self.set_rank(item, uses + 1)

    def evict(self) -> Sequence[int]:
        item = self.ranked.pop(0)[2]
        del self.rank[item]
        return [item]

    def admit(self, item: int) -> None:
        self.set_rank(item, 1)

    def set_rank(self, item: int, uses: int) -> None:
        self.now += 1
        self.rank[item] = (uses, self.now, item)
        insort(self.ranked, self.rank[item])


class _Sieve(_Policy):
    def start(self, seed: int) -> None:
        self.line: list[int] = []  # oldest first
        self.visited: set[int] = set()
        self.hand = 0  # position in the line

    def cached(self) -> set[int]:
        return set(self.line)

    def touch(self, item: int) -> None:
        self.visited.add(item)

    def evict(self) -> Sequence[int]:
        while self.line[self.hand] in self.visited:
            self.visited.remove(self.line[self.hand])
            self.hand = (self.hand + 1) % len(self.line)
        victim = self.line.pop(self.hand)
        if self.hand == len(self.line):
            self.hand = 0
        return [victim]

    def admit(self, item: int) -> None:
        self.line.append(item)


class _S3Fifo(_Policy):
    def start(self, seed: int) -> None:
        self.small: deque[int] = deque()
        self.main: deque[int] = deque()
        self.ghosts: deque[int] = deque()
        self.hits: dict[int, int] = {}  # of cached items, since they entered their queue
        self.small_share = max(1, self.capacity // 10)
        self.ghost_share = self.capacity * 9 // 10
        self.has_evicted = False
        self.was_ghost = False

    def cached(self) -> set[int]:
        return set(self.hits)

    def total(self, queue: deque[int]) -> int:
        return sum(self.size(item) for item in queue)

    def touch(self, item: int) -> None:
        self.hits[item] = min(3, self.hits[item] + 1)

    def expect(self, item: int) -> None:
        self.was_ghost = item in self.ghosts
        if self.was_ghost:
            self.ghosts.remove(item)

    def evict(self) -> Sequence[int]:
        self.has_evicted = True
        if not self.small or self.total(self.main) > self.capacity - self.small_share:
            item = self.main.popleft()
            while self.hits[item] > 0:
                self.hits[item] -= 1
                self.main.append(item)
                item = self.main.popleft()
            del self.hits[item]
            return [item]
        while self.small:
            item = self.small.popleft()
            if self.hits[item] < 2:
                del self.hits[item]
                self.remember(item)
                return [item]
            self.hits[item] = 0
            self.main.append(item)
        return []

    def remember(self, item: int) -> None:
        if self.size(item) <= self.ghost_share:
            while self.total(self.ghosts) + self.size(item) > self.ghost_share:
                self.ghosts.popleft()
            self.ghosts.append(item)

    def admit(self, item: int) -> None:
        small_is_full = self.total(self.small) >= self.small_share
        to_main = self.was_ghost or (not self.has_evicted and small_is_full)
        (self.main if to_main else self.small).append(item)
        self.hits[item] = 0


_POLICIES: dict[str, type[_Policy]] = {
    "uniform": _Uniform,
    "lru": _Lru,
    "fifo": _Policy,
    "random": _Random,
    "lfu": _Lfu,
    "clock": _Clock,
    "sieve": _Sieve,
    "s3fifo": _S3Fifo,
}


class PolicyCache:
    """The readable twin of `hivecore.caching.PolicyCache`."""

    def __init__(
        self,
        policy: str,
        items: int,
        capacity: int,
        sizes: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        self.policy = policy
        self.items = items
        self.capacity = capacity
        self._state = _POLICIES[policy](capacity, sizes, seed)

    @property
    def used(self) -> int:
        return self._state.used

    def __len__(self) -> int:
        return len(self._state.cached())

    def __contains__(self, item: int) -> bool:
        return item in self._state.cached()

    def cached(self) -> list[int]:
        return sorted(self._state.cached())

    def access(self, item: int) -> bool:
        return self._state.access(item)


def simulate(
    policy: str,
    trace: Sequence[Any],
    capacity: int,
    sizes: Sequence[int] | None = None,
    seed: int = 0,
) -> list[bool]:
    """Return which accesses are hits, as `hivecore.caching.simulate`; ids without sizes may be
    anything.
    """
    if policy == "min":
        return _min(trace, capacity, sizes)
    cache = PolicyCache(policy, 0, capacity, sizes, seed)
    return [cache.access(item) for item in trace]


def _min(trace: Sequence[Any], capacity: int, sizes: Sequence[int] | None) -> list[bool]:
    """Belady (1966), with bypass."""
    next_use: list[float] = [inf] * len(trace)
    seen: dict[Any, int] = {}
    for now in reversed(range(len(trace))):
        next_use[now] = seen.get(trace[now], inf)
        seen[trace[now]] = now

    def size(item: int) -> int:
        return 1 if sizes is None else sizes[item]

    cached: dict[Any, float] = {}  # item -> next use, if there is one
    hits = []
    for now, item in enumerate(trace):
        hits.append(item in cached)
        cached.pop(item, None)
        if next_use[now] == inf:
            continue
        room = capacity - sum(map(size, cached))
        later = [other for other in cached if cached[other] > next_use[now]]
        victims = []
        for other in sorted(later, key=cached.__getitem__, reverse=True):
            if room >= size(item):
                break
            victims.append(other)
            room += size(other)
        if room >= size(item):
            for other in victims:
                del cached[other]
            cached[item] = next_use[now]
    return hits
