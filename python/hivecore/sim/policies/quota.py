"""Quota: tenants share all nodes, and each may hold as many GPUs as it owns, wherever they are.

The scheme of YARN, Kubernetes and most batch schedulers. Its placement is that of the other
policies (the buddy rule cuts each cell from the smallest free one that serves: the best fit among
cells), and yet it breaks promises. A quota counts GPUs, not nodes: one tenant's small jobs may
still be running on every node when another tenant asks for a node that it owns.
"""

import copy

from hivecore.cells import BuddyAllocator
from hivecore.sim.policies._buddy import Indices, free_gpus, place, take_back
from hivecore.sim.workload import FANOUTS, GPUS_PER_NODE, Workload

__all__ = ["Quota"]


class Quota:
    """One buddy allocator for all tenants, and a count of GPUs for each.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [1, 8])
    >>> policy = Quota(Workload.of(trace, {"x": 1, "y": 1}))
    >>> policy.try_start(0), policy.try_start(1), policy.free_gpus()
    ((0,), (1,), (7, 7))
    """

    shared = True
    allocator = BuddyAllocator

    __copy__ = copy.deepcopy  # a shallow copy would share the allocators

    def __init__(self, work: Workload) -> None:
        self._shared = self.allocator(FANOUTS, sum(work.nodes))
        self._left = [GPUS_PER_NODE * nodes for nodes in work.nodes]
        self._tenant = work.trace.tenant.tolist()
        self._level = work.level.tolist()
        self._cells = work.cells.tolist()
        self._held = work.held.tolist()

    def try_start(self, job: int) -> Indices | None:
        """Return the indices of the job's cells in the cluster, or None."""
        tenant, held = self._tenant[job], self._held[job]
        if held > self._left[tenant]:
            return None
        placement = place(self._shared, self._level[job], self._cells[job])
        if placement is not None:
            self._left[tenant] -= held
        return placement

    def finish(self, job: int, placement: Indices) -> None:
        """Give the job's cells back to the cluster and its GPUs to its tenant's quota."""
        take_back(self._shared, self._level[job], placement)
        self._left[self._tenant[job]] += self._held[job]

    def free_gpus(self) -> tuple[int, int]:
        """Return the free GPUs of the cluster, and those of them not in wholly free nodes."""
        return free_gpus(self._shared)
