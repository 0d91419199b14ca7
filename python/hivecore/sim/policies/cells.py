"""Cells: tenants share all nodes, and each owns whole node cells, bound to nodes only while in use.

HiveD (OSDI'20): what a tenant can start depends on its own cells alone, as in a private cluster.
"""

from hivecore.cells import AffinityGroup
from hivecore.sim.policies._groups import JobGroups, node_cluster
from hivecore.sim.workload import Workload

__all__ = ["Cells"]


class Cells(JobGroups):
    """Virtual clusters of node cells on one chain.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [8, 8])
    >>> policy = Cells(Workload.of(trace, {"x": 1, "y": 1}))
    >>> policy.try_start(0), policy.try_borrow(1), policy.fits(1)
    (True, True, True)
    """

    shared = False

    def __init__(self, work: Workload) -> None:
        names = work.trace.tenants
        self.cluster = node_cluster(names, work.nodes)
        super().__init__(work, [self.cluster] * len(names), names)
        self._on_idle_cells: dict[int, AffinityGroup] = {}
        self._borrowers: dict[str, int] = {}  # name of the group -> job

    # --- lending

    def fits(self, job: int) -> bool:
        """Whether the tenant's own cells could serve the job now."""
        return self.cluster.schedule(self._groups[job]).outcome != "wait"

    def start(self, job: int) -> list[int]:
        """Start a job that fits; return the borrowers that have lost their cells to it."""
        evicted: list[int] = []
        decision = self.cluster.schedule(self._groups[job])
        while decision.victims:
            for victim in decision.victims:
                self.cluster.release(victim)
                evicted.append(self._borrowers.pop(victim))
            decision = self.cluster.schedule(self._groups[job])
        self.cluster.commit(decision)
        return evicted

    def try_borrow(self, job: int) -> bool:
        """Let the job run on idle cells, which any guaranteed job may take away."""
        group = self._on_idle_cells.get(job)
        if group is None:
            # Its own cells are asked for under its usual name meanwhile.
            group = self._groups[job].replace(name=f"{job} on idle cells", priority=-1)
            self._on_idle_cells[job] = group
        decision = self.cluster.schedule(group)
        if decision.outcome == "wait":
            return False
        self.cluster.commit(decision)
        self._borrowers[group.name] = job
        return True

    def give_back(self, job: int) -> None:
        """Release the idle cells that the job runs on."""
        group = self._on_idle_cells[job]
        self.cluster.release(group.name)
        del self._borrowers[group.name]
