"""Private clusters: each tenant alone on the nodes that it owns. The other policies' yardstick."""

import copy

from hivecore.cells import BuddyAllocator
from hivecore.sim.policies._buddy import Indices, free_gpus, place, take_back
from hivecore.sim.workload import FANOUTS, Workload

__all__ = ["Private"]


class Private:
    """One buddy allocator per tenant.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [8, 1])
    >>> policy = Private(Workload.of(trace, {"x": 1}))
    >>> policy.try_start(0), policy.try_start(1)
    ((0,), None)
    """

    shared = False
    allocator = BuddyAllocator

    __copy__ = copy.deepcopy  # a shallow copy would share the allocators

    def __init__(self, work: Workload) -> None:
        owned = [self.allocator(FANOUTS, nodes) for nodes in work.nodes]
        self._of = [owned[tenant] for tenant in work.trace.tenant.tolist()]
        self._owned = owned
        self._level = work.level.tolist()
        self._cells = work.cells.tolist()

    def try_start(self, job: int) -> Indices | None:
        """Return the indices of the job's cells among those of its tenant, or None."""
        return place(self._of[job], self._level[job], self._cells[job])

    def finish(self, job: int, placement: Indices) -> None:
        """Give the job's cells back to its tenant."""
        take_back(self._of[job], self._level[job], placement)

    def free_gpus(self) -> tuple[int, int]:
        """Return the free GPUs of all tenants, and those of them not in wholly free nodes."""
        free, stranded = zip(*map(free_gpus, self._owned), strict=True)
        return sum(free), sum(stranded)
