"""A worker's cache that evicts blocks that are old and exist elsewhere.

    score(block) = alpha * clock of its last access - beta * min(copies elsewhere, max_count)

The block with the least score is evicted; ties: the lower clock. Source: Alluxio's
ReplicaBasedAnnotator (pull request 16357), but recency and counts are separate: a delta never
refreshes a block.

With arbitration, a block is evicted only under a lease of the directory. States of a cached block:

    free       may be proposed
    asked      proposed; the directory has not answered
    leased     the directory granted its eviction
    denied     the directory refused; free again at the next heartbeat
    releasing  used (or pinned) while leased: the next heartbeat returns the lease

A block that was evicted under a lease and returns before the directory was notified still has the
lease: it is *owed*, and releasing after its return. A block whose release is still to be sent is
not proposed, so that a release never overtakes a new request.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError

__all__ = ["ReplicaAwareCache"]

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


def _as_array(values: Iterable[int]) -> _Ints:
    return np.array(list(values), dtype=np.int64)


class ReplicaAwareCache:
    """The readable twin of `hivecore.replicas.ReplicaAwareCache`."""

    def __init__(
        self,
        capacity: int,
        blocks: int,
        *,
        alpha: float = 1e-5,
        beta: float = 1000.0,
        max_count: int = 8,
        arbitrated: bool = False,
    ) -> None:
        self.capacity = capacity
        self.blocks = blocks
        self.alpha = float(alpha)
        self.beta = float(beta)
        self.max_count = max_count
        self.arbitrated = arbitrated
        self.clock = 0
        self.last_evicted = -1
        self._sequence = 0
        self._clocks: dict[int, int] = {}  # of cached blocks, oldest first
        self._states: dict[int, str] = {}  # of cached blocks
        self._counts: dict[int, int] = {}  # of any block; missing means 0
        self._pinned: set[int] = set()
        self._reported: set[int] = set()  # what the directory believes to be cached
        self._owed: set[int] = set()

    # Queries

    def __len__(self) -> int:
        return len(self._clocks)

    def __contains__(self, block: int) -> bool:
        return block in self._clocks

    @property
    def leased(self) -> int:
        return len(self._in_state("leased"))

    def count(self, block: int) -> int:
        return self._counts.get(block, 0)

    def is_pinned(self, block: int) -> bool:
        return block in self._pinned

    def cached(self) -> _Ints:
        return _as_array(sorted(self._clocks))

    def eviction_order(self) -> _Ints:
        return _as_array(self._by_score(b for b in self._clocks if b not in self._pinned))

    def victim(self) -> int:
        allowed = self._in_state("leased" if self.arbitrated else "free") - self._pinned
        return self._by_score(allowed)[0] if allowed else -1

    # Use

    def access(self, block: int, copies: int = 0) -> bool:
        self.clock += 1
        self.last_evicted = -1
        if block in self._clocks:
            del self._clocks[block]  # to become the last of the dict
            self._clocks[block] = self.clock
            if self._states[block] == "leased":
                self._states[block] = "releasing"
            return True
        if len(self) >= self.capacity:
            victim = self.victim()
            if victim < 0 or self._score(self.clock, copies) < self._key(victim)[0]:
                return False
            self._remove(victim)
            self.last_evicted = victim
        self._clocks[block] = self.clock
        self._states[block] = "releasing" if block in self._owed else "free"
        self._owed.discard(block)
        return False

    def access_many(
        self, blocks: Iterable[int], copies: Iterable[int] | None = None
    ) -> tuple[_Bools, _Bools, _Ints]:
        blocks = list(blocks)
        numbers = [0] * len(blocks) if copies is None else list(copies)
        hits, admitted, evicted = [], [], []
        for block, number in zip(blocks, numbers, strict=True):
            hits.append(self.access(block, number))
            admitted.append(not hits[-1] and block in self)
            evicted.append(self.last_evicted)
        return np.array(hits, np.bool_), np.array(admitted, np.bool_), _as_array(evicted)

    def apply(self, blocks: Iterable[int], changes: Iterable[int]) -> None:
        for block, change in zip(blocks, changes, strict=True):
            count = self._counts.get(block, 0) + int(change)
            self._counts[block] = min(max(count, -(2**31)), 2**31 - 1)

    def pin(self, block: int) -> None:
        self._need_cached(block)
        if self._states[block] == "leased":
            self._states[block] = "releasing"
        self._pinned.add(block)

    def unpin(self, block: int) -> None:
        self._need_cached(block)
        self._pinned.discard(block)

    def discard(self, block: int) -> None:
        self._need_cached(block)
        if block in self._pinned or self._states[block] == "asked":
            raise ValueError(f"block={block}: pinned, or proposed and not answered")
        self._remove(block)

    def grow(self, blocks: int) -> None:
        self.blocks = blocks

    # Arbitration

    def propose(self, limit: int = 1) -> _Ints:
        if not self.arbitrated:
            raise ValueError("arbitrated=False: this cache evicts without leases")
        proposed = self._by_score(self._in_state("free") - self._pinned)[:limit]
        for block in proposed:
            self._states[block] = "asked"
        return _as_array(proposed)

    def answer(self, blocks: Iterable[int], granted: Iterable[bool]) -> None:
        if not self.arbitrated:
            raise ValueError("arbitrated=False: this cache evicts without leases")
        for block, yes in zip(blocks, granted, strict=True):
            state = self._states.get(block)
            if state == "asked":
                granted_state = "releasing" if block in self._pinned else "leased"
                self._states[block] = granted_state if yes else "denied"
            elif yes and state in ("free", "denied"):
                self._states[block] = "releasing"

    def heartbeat(self) -> tuple[_Ints, _Ints, _Ints, int]:
        added = self._clocks.keys() - self._reported
        removed = self._reported - self._clocks.keys()
        released = self._in_state("releasing")
        for block in released | self._in_state("denied"):
            self._states[block] = "free"
        self._reported = set(self._clocks)
        self._owed.clear()
        self._sequence += 1
        parts = (_as_array(sorted(part)) for part in (added, removed, released))
        return (*parts, self._sequence)  # type: ignore[return-value]

    def full_report(self) -> tuple[_Ints, int]:
        self._states = dict.fromkeys(self._clocks, "free")
        self._reported = set(self._clocks)
        self._owed.clear()
        self._counts.clear()
        self._sequence += 1
        return self.cached(), self._sequence

    def check(self) -> None:
        clocks = list(self._clocks.values())
        if len(self) > self.capacity or clocks != sorted(set(clocks)):
            raise InvariantError("too many blocks, or clocks that are out of order")
        if clocks and not 1 <= clocks[0] <= clocks[-1] <= self.clock:
            raise InvariantError("a clock of the future, or of before the beginning")
        if self._states.keys() != self._clocks.keys() or not self._pinned <= self._clocks.keys():
            raise InvariantError("a state or pin of a block that is not cached")
        if self._owed & self._clocks.keys() or self._in_state("leased") & self._pinned:
            raise InvariantError("a cached block is owed, or a pinned one leased")
        if not self.arbitrated and (self._owed or set(self._states.values()) - {"free"}):
            raise InvariantError("leases without arbitration")

    # Parts

    def _score(self, clock: int, count: int) -> float:
        return self.alpha * clock - self.beta * min(max(count, 0), self.max_count)

    def _key(self, block: int) -> tuple[float, int]:
        clock = self._clocks[block]
        return self._score(clock, self._counts.get(block, 0)), clock

    def _by_score(self, blocks: Iterable[int]) -> list[int]:
        return sorted(blocks, key=self._key)

    def _in_state(self, state: str) -> set[int]:
        return {block for block, known in self._states.items() if known == state}

    def _remove(self, block: int) -> None:
        del self._clocks[block]
        if self._states.pop(block) in ("leased", "releasing"):
            self._owed.add(block)

    def _need_cached(self, block: int) -> None:
        if block not in self._clocks:
            raise KeyError(f"block={block}: not cached")
