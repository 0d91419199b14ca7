"""The master's side of replica-aware caching: which worker holds and may evict which block.

The directory knows the holders of every block. Workers that count a block's other copies are
notified of each change:

    worker w adds x        every other holder: +1; w: + number of other holders
    worker w removes x     every other holder: -1; w: - number of other holders

So the deltas sent to a worker for x sum to the number of other holders while it holds x, else to 0.

Leases (hivecore's own): a *keeper* of x is a holder without a lease to evict it. A lease is granted
only while another keeper remains. So workers that evict only under leases never lose a block. Only
a sequenced report (or a join) makes a worker a keeper, so late or repeated requests for leases only
make the directory more careful.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hivecore.errors import FullReportNeededError, InvariantError

__all__ = ["ReplicaDirectory"]

_Ints = npt.NDArray[np.int64]
_Deltas = dict[int, tuple[_Ints, _Ints]]


def _as_array(values: Iterable[int]) -> _Ints:
    return np.array(list(values), dtype=np.int64)


class ReplicaDirectory:
    """The readable twin of `hivecore.replicas.ReplicaDirectory`."""

    def __init__(self, workers: int, blocks: int) -> None:
        self.workers = workers
        self.blocks = blocks
        self._holders: dict[int, set[int]] = {}  # block -> workers; never empty
        self._leases: set[tuple[int, int]] = set()  # (block, worker)
        self._sequence: dict[int, int] = {}  # of known workers

    # Changes

    def grow(self, blocks: int) -> None:
        self.blocks = blocks

    def join(self, worker: int, held: Iterable[int] = (), sequence: int = 0) -> _Deltas:
        wanted = set(held)
        before = set(self.held(worker).tolist())
        deltas = []
        for block in sorted(wanted | before):
            if block not in before:
                deltas += [(w, block, change) for w, change in self._add(worker, block)]
            elif block not in wanted:
                changes = self._remove(worker, block)
                deltas += [(w, block, change) for w, change in changes if w != worker]
            else:
                self._leases.discard((block, worker))
                if others := self.replicas(block) - 1:
                    deltas.append((worker, block, others))
        self._sequence[worker] = sequence
        return self._by_worker(deltas)

    def report(
        self,
        worker: int,
        added: Iterable[int] = (),
        removed: Iterable[int] = (),
        released: Iterable[int] = (),
        sequence: int | None = None,
    ) -> _Deltas:
        self._need_known(worker)
        if sequence is not None:
            last = self._sequence[worker]
            if sequence <= last:
                return {}
            if sequence > last + 1:
                raise FullReportNeededError(f"sequence={sequence}: the last one was {last}")
            self._sequence[worker] = sequence
        deltas = []
        for block in removed:
            deltas += [(w, block, change) for w, change in self._remove(worker, block)]
        for block in added:
            deltas += [(w, block, change) for w, change in self._add(worker, block)]
        for block in released:
            self._leases.discard((block, worker))
        return self._by_worker(deltas)

    def remove_worker(self, worker: int) -> _Deltas:
        deltas = []
        for block in self.held(worker).tolist():
            deltas += [(w, block, c) for w, c in self._remove(worker, block) if w != worker]
        self._sequence.pop(worker, None)
        return self._by_worker(deltas)

    def lease(self, worker: int, blocks: Iterable[int]) -> npt.NDArray[np.bool_]:
        self._need_known(worker)
        granted = []
        for block in blocks:
            holders = self._holders.get(block, set())
            keepers = {w for w in holders if (block, w) not in self._leases}
            if worker in keepers and len(keepers) >= 2:
                self._leases.add((block, worker))
            granted.append((block, worker) in self._leases)
        return np.array(granted, dtype=np.bool_)

    # Queries

    def is_known(self, worker: int) -> bool:
        return worker in self._sequence

    def sequence(self, worker: int) -> int:
        return self._sequence[worker]

    def replicas(self, block: int) -> int:
        return len(self._holders.get(block, ()))

    def holders(self, block: int) -> _Ints:
        return _as_array(sorted(self._holders.get(block, ())))

    def held(self, worker: int) -> _Ints:
        return _as_array(sorted(b for b, holders in self._holders.items() if worker in holders))

    def leases(self, worker: int) -> _Ints:
        return _as_array(sorted(block for block, w in self._leases if w == worker))

    def check(self) -> None:
        for block, holders in self._holders.items():
            if not 0 <= block < self.blocks or not holders or holders - self._sequence.keys():
                raise InvariantError(f"block {block} is held by an unknown worker, or by none")
        for block, worker in self._leases:
            if worker not in self._holders.get(block, ()):
                raise InvariantError(f"worker {worker} has a lease of {block}, which it lacks")

    # Parts

    def _add(self, worker: int, block: int) -> list[tuple[int, int]]:
        """Return (worker, what it must add to its count of this block)."""
        holders = self._holders.setdefault(block, set())
        if worker in holders:
            return []
        others = [(other, 1) for other in sorted(holders)]
        own = [(worker, len(holders))] if holders else []
        holders.add(worker)
        return others + own

    def _remove(self, worker: int, block: int) -> list[tuple[int, int]]:
        holders = self._holders.get(block, set())
        if worker not in holders:
            return []
        holders.remove(worker)
        self._leases.discard((block, worker))
        if not holders:
            del self._holders[block]
            return []
        return [(other, -1) for other in sorted(holders)] + [(worker, -len(holders))]

    @staticmethod
    def _by_worker(deltas: list[tuple[int, int, int]]) -> _Deltas:
        result = {}
        for worker in sorted({worker for worker, _, _ in deltas}):
            own = [(block, change) for w, block, change in deltas if w == worker]
            result[worker] = _as_array(b for b, _ in own), _as_array(c for _, c in own)
        return result

    def _need_known(self, worker: int) -> None:
        if worker not in self._sequence:
            raise FullReportNeededError(f"worker={worker}: not known, it has to join")
