"""What would be idle at most if every job that may have to leave left, counted by node.

If the nodes together then lack room for the pods of a job, no eviction helps, and none is tried
(`hivecore.scheduler.stages._counting`). It is counted once for all jobs that wait. A job that
starts later takes what was idle, and may have to leave itself: the sum stays an upper bound until
a job gives something back.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.transitions import LENT
from hivecore.scheduler.search.room import needs_by_role
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Kind

__all__ = ["Relief"]

_Ints = npt.NDArray[np.int64]


class _Standing(NamedTuple):
    """What decides for which jobs a running job may have to leave."""

    is_evictable: bool
    is_weak: bool
    tenant: str
    quota: str
    priority: int

    def may_leave_for(self, job: Job, reclaims: bool, lending: frozenset[str]) -> bool:
        """Whether it may have to leave for a guaranteed job."""
        if not self.is_evictable or self.is_weak:
            return self.is_evictable
        if reclaims and self.quota != job.quota:
            return self.quota in lending
        return self.priority < job.priority and (reclaims or self.tenant == job.tenant)


class Relief:
    """What running jobs would leave.

    :param running: the jobs that run now.
    """

    def __init__(self, stages: Stages, running: Iterable[Live]) -> None:
        self._stages, self._reclaims = stages, stages.reclaims
        dimensions = self._dimensions = stages.dimensions()
        nodes = dict.fromkeys(node for one in dimensions for node in one.idle)
        numbers = self._numbers = {node: i for i, node in enumerate(nodes)}
        standings: dict[_Standing, int] = {}
        known: dict[tuple[int, bool, bool], int] = {}
        roles: dict[int, dict[str, int]] = {}
        needs: list[tuple[int, ...]] = []
        pods: list[PlacedPod] = []
        owners: list[int] = []
        places: list[int] = []
        of_role: list[int] = []
        shares = stages.by_stages
        for live in running if dimensions else ():
            if shares and not stages.holds(live.job.name):
                continue
            alike = live.units[0].kind.number, live.state == LENT, not live.for_job
            number = known.get(alike)
            if number is None:
                job = live.job
                is_evictable = job.preemptible and not live.for_job
                mine = _Standing(is_evictable, live.is_weak, job.tenant, job.quota, job.priority)
                number = known[alike] = standings.setdefault(mine, len(standings))
            for unit in live.units if live.lent is None else live.placed:
                by_name = roles.get(unit.kind.number)
                if by_name is None:
                    more = needs_by_role(dimensions, unit.kind)
                    by_name = {name: len(needs) + i for i, name in enumerate(more)}
                    roles[unit.kind.number] = by_name
                    needs += more.values()
                for pod in unit.placed:
                    node = numbers.get(pod.node)
                    if node is not None:
                        owners.append(number)
                        places.append(node)
                        of_role.append(by_name[pod.role])
                        pods.append(pod)
        self._standings = [*standings]
        self._owners, self._nodes = np.array(owners, np.int64), np.array(places, np.int64)
        by_role = np.array(needs, dtype=np.int64).reshape(len(needs), len(dimensions)).T
        #: of each dimension: what is idle by node, and what each pod gives back
        self._counts: list[tuple[_Ints, _Ints]] = []
        for one, column in zip(dimensions, by_role[:, np.array(of_role, np.int64)], strict=True):
            idle = np.array([one.idle.get(node, 0) for node in nodes], dtype=np.int64)
            held = column.copy()
            if one.held is not None:
                for i in np.flatnonzero(column == 0).tolist():
                    held[i] = one.held(pods[i])
            self._counts.append((idle, held))

    def is_too_little(self, kind: Kind) -> bool:
        """Whether a unit of a guaranteed kind could not start even if every job left that may have
        to leave for it.
        """
        job = kind.job
        lending = self._stages.lending()
        may_leave = [one.may_leave_for(job, self._reclaims, lending) for one in self._standings]
        leaving = np.array(may_leave, dtype=bool)[self._owners]
        nodes = self._nodes[leaving]
        allowed = [self._numbers[node] for node in job.where.nodes if node in self._numbers]
        for dimension, (idle, held) in zip(self._dimensions, self._counts, strict=True):
            most = idle.copy()
            np.add.at(most, nodes, held[leaving])
            if job.where.nodes:
                most = most[sorted({*allowed})]
            sizes = [dimension.need(role) for role, count in kind.sizes for _ in range(count)]
            for size in {*sizes} - {0}:
                if int((most // size).sum()) < sum(other >= size for other in sizes):
                    return True
        return False
