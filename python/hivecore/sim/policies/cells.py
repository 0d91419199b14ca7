"""Cells: tenants share all nodes, and each owns whole node cells, bound to nodes only while in use.

HiveD (OSDI'20): what a tenant can start depends on its own cells alone, as in a private cluster.
"""

import copy

from hivecore.cells import Cell, Chain, ClusterSpec, VirtualClusters
from hivecore.errors import NoFreeCellError, QuotaExceededError
from hivecore.sim.workload import CHAIN, FANOUTS, GPUS_PER_NODE, LEVELS, Workload

__all__ = ["Cells"]

_GPUS = {level: 1 << row for row, level in enumerate(LEVELS)}  # of a cell


class Cells:
    """Virtual clusters of node cells on one chain.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [1, 8])
    >>> policy = Cells(Workload.of(trace, {"x": 1, "y": 1}))
    >>> [len(policy.try_start(job)) for job in (0, 1)]
    [1, 1]
    """

    shared = False
    allocator = VirtualClusters

    __copy__ = copy.deepcopy  # a shallow copy would share the allocators

    def __init__(self, work: Workload) -> None:
        names = work.trace.tenants
        owned = {
            name: {CHAIN: {LEVELS[-1]: nodes}}
            for name, nodes in zip(names, work.nodes, strict=True)
        }
        self._nodes = sum(work.nodes)
        chain = Chain(levels=LEVELS, fanouts=FANOUTS, roots=self._nodes)
        spec = ClusterSpec(chains={CHAIN: chain}, virtual_clusters=owned)
        self._clusters = self.allocator(spec)
        self._tenant = [names[tenant] for tenant in work.trace.tenant.tolist()]
        self._level = [LEVELS[level - 1] for level in work.level.tolist()]
        self._cells = work.cells.tolist()
        self._free = GPUS_PER_NODE * self._nodes
        self._idle_nodes = self._nodes
        self._used = [0] * self._nodes  # GPUs by node

    def try_start(self, job: int) -> tuple[Cell, ...] | None:
        """Return the job's guaranteed cells, or None."""
        # No free cell, though the tenant's own ones would do, is what HiveD rules out. Here it
        # delays the job like any other reason, so that the comparison with private would show it.
        try:
            placement = self._clusters.allocate_many(
                self._tenant[job], CHAIN, self._level[job], self._cells[job]
            )
        except (QuotaExceededError, NoFreeCellError):
            return None
        for cell in placement:
            if cell.preempted:
                self._enter(cell.preempted, -1)
        self._enter(placement, 1)
        return placement

    def finish(self, job: int, placement: tuple[Cell, ...]) -> None:
        """Give the job's cells back, guaranteed or opportunistic."""
        if len(placement) == 1:
            self._clusters.release(placement[0])
        else:
            self._clusters.release_many(placement)
        self._enter(placement, -1)

    def free_gpus(self) -> tuple[int, int]:
        """Return the free GPUs of the cluster, and those of them not in wholly free nodes.

        Borrowed cells are not free. O(1): to look at all cells for each sample would take seconds
        where gangs are large.
        """
        # Not from the free list: that holds no part of a node that a tenant has bound.
        return self._free, self._free - GPUS_PER_NODE * self._idle_nodes

    def _enter(self, cells: tuple[Cell, ...], sign: int) -> None:
        """Enter cells that are handed out (sign 1) or given back (-1) in the books."""
        used = self._used
        for cell in cells:
            gpus = _GPUS[cell.level]
            node = cell.index * gpus // GPUS_PER_NODE
            gpus *= sign
            self._free -= gpus
            before = used[node]
            used[node] = after = before + gpus
            if not before or not after:
                self._idle_nodes -= sign

    def fits(self, job: int) -> bool:
        """Whether the tenant's own cells could serve the job now."""
        return self._clusters.fits(self._tenant[job], CHAIN, self._level[job], self._cells[job])

    def try_borrow(self, job: int) -> tuple[Cell, ...] | None:
        """Return idle cells for the job, which any guaranteed job may take away, or None."""
        tenant, level, cells = self._tenant[job], self._level[job], self._cells[job]
        if cells > 1 and cells > self._idle_nodes:
            return None  # found out here at once, there by taking all idle nodes and giving them up
        try:
            placement = self._clusters.allocate_opportunistic_many(tenant, CHAIN, level, cells)
        except NoFreeCellError:
            return None
        self._enter(placement, 1)
        return placement
