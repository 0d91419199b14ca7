"""An upper bound, node by node, of the room that evictions can make.

If even that room is too small for a job, no search for victims is tried
(`hivecore.scheduler.stages._counting`). A job that starts only moves resources from idle to
evictable, so the bound holds until a job releases something. Then idle resources are counted again,
and changed jobs are read again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.search.room import needs_by_role
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Kind

__all__ = ["Relief"]

_Ints = npt.NDArray[np.int64]


class _Standing(NamedTuple):
    """The fields of a running job that decide for which jobs it may be evicted."""

    is_evictable: bool
    is_weak: bool
    tenant: str
    quota: str
    priority: int

    def may_leave_for(self, job: Job, stages: Stages, lending: frozenset[str]) -> bool:
        """Whether it may be evicted for a guaranteed job."""
        if not self.is_evictable or self.is_weak:
            return self.is_evictable
        is_lower = self.priority < job.priority
        if is_lower and self.tenant == job.tenant and stages.places_by_cells:
            return True  # cells propose victims of any quota
        if stages.reclaims and self.quota != job.quota:
            return self.quota in lending
        return is_lower and (stages.reclaims or self.tenant == job.tenant)


class Relief:
    """How much ``running`` jobs would free. Changes are noted, and read at the next query."""

    def __init__(self, stages: Stages, running: Mapping[str, Live]) -> None:
        self._stages, self._running = stages, running
        #: jobs that started, stopped, changed their pods or became victims since the last query
        self.changed = set(running)
        #: whether resources were released since idle resources were last counted
        self.is_stale = True
        self._numbers: dict[_Standing, int] = {}
        #: number of each job's standing
        self._of_job: dict[str, int] = {}
        #: number of jobs by standing
        self._jobs: list[int] = []
        #: jobs whose pods must be read again
        self._unread: set[str] = set()
        self._dimensions: list[Dimension] = []
        self._forget_pods()

    def _forget_pods(self) -> None:
        #: nodes of each dimension
        self._names: list[list[str]] = [[*dimension.idle] for dimension in self._dimensions]
        self._node_numbers = {
            node: i for i, node in enumerate(dict.fromkeys(chain.from_iterable(self._names)))
        }
        self._places: list[_Ints] = [
            np.array([self._node_numbers[node] for node in nodes], np.int64)
            for nodes in self._names
        ]
        #: idle amount by dimension and node
        self._idle = np.zeros((len(self._dimensions), len(self._node_numbers)), np.int64)
        #: by column, for each pod: standing of its job, node, then what it frees of each dimension
        self._pods = np.zeros((2 + len(self._dimensions), 16), np.int64)
        #: columns of each job's pods
        self._rows: dict[str, list[int]] = {}
        self._unused: list[int] = []
        self._end = 0
        self._unread |= self._running.keys()

    def is_too_little(self, kind: Kind) -> bool:
        """Whether a guaranteed unit could not start even without all jobs that it may evict."""
        job = kind.job
        self._read_jobs()
        lending = self._stages.lending()
        may_leave = [
            jobs > 0 and standing.may_leave_for(job, self._stages, lending)
            for standing, jobs in zip(self._numbers, self._jobs, strict=True)
        ]
        if not any(may_leave):
            return True
        if self.is_stale:
            self._read_pods()
            self.is_stale = False
        owners, nodes, *held = self._pods[:, : self._end]
        leaving = np.array(may_leave, dtype=bool)[owners]
        nodes = nodes[leaving]
        allowed = [
            self._node_numbers[node] for node in job.where.nodes if node in self._node_numbers
        ]
        for dimension, idle, column in zip(self._dimensions, self._idle, held, strict=True):
            most = idle.copy()
            np.add.at(most, nodes, column[leaving])
            if job.where.nodes:
                most = most[sorted({*allowed})]
            sizes = [dimension.need(role) for role, count in kind.sizes for _ in range(count)]
            for size in {*sizes} - {0}:
                pods = sum(other >= size for other in sizes)
                if int(np.minimum(most // size, pods).sum()) < pods:  # no sum exceeds 64 bits
                    return True
        return False

    def _read_jobs(self) -> None:
        for name in self.changed:
            before, live = self._of_job.pop(name, None), self._running.get(name)
            if before is not None:
                self._jobs[before] -= 1
            if live is not None:
                job, may_go = live.job, live.job.preemptible and not live.for_job
                standing = _Standing(may_go, live.is_weak, job.tenant, job.quota, job.priority)
                number = self._numbers.setdefault(standing, len(self._jobs))
                if number == len(self._jobs):
                    self._jobs.append(0)
                self._jobs[number] += 1
                self._of_job[name] = number
        self._unread |= self.changed
        self.changed.clear()

    def _read_pods(self) -> None:
        dimensions = self._dimensions = self._stages.dimensions()
        if self._stages.by_stages or [[*dimension.idle] for dimension in dimensions] != self._names:
            self._forget_pods()
        for of_nodes, dimension, places in zip(self._idle, dimensions, self._places, strict=True):
            of_nodes[places] = np.fromiter(dimension.idle.values(), np.int64, len(places))
        for name in self._unread:
            gone = self._rows.pop(name, [])
            self._pods[2:, gone] = 0
            self._unused += gone
        read = self._unread & self._running.keys()
        pods: list[tuple[int, ...]] = []
        for name in read:
            rows = self._rows[name] = []
            for pod in self._pods_of(self._running[name]):
                if self._unused:
                    rows.append(self._unused.pop())
                else:
                    rows.append(self._end)
                    self._end += 1
                pods.append((self._of_job[name], *pod))
        self._unread.clear()
        if self._end > self._pods.shape[1]:
            more = np.zeros((len(self._pods), self._end), np.int64)
            self._pods = np.concatenate([self._pods, more], axis=1)
        if pods:
            rows = [row for name in read for row in self._rows[name]]
            self._pods[:, rows] = np.array(pods, np.int64).T

    def _pods_of(self, live: Live) -> Iterator[tuple[int, ...]]:
        """Node and freed amounts of each pod of a job that holds resources."""
        dimensions, numbers = self._dimensions, self._node_numbers
        if self._stages.by_stages and not self._stages.holds(live.job.name):
            return
        for unit in live.units if live.lent is None else live.placed:
            needs = needs_by_role(dimensions, unit.kind)
            for pod in unit.placed:
                if pod.node in numbers:
                    yield (
                        numbers[pod.node],
                        *[
                            need or (0 if dimension.held is None else dimension.held(pod))
                            for need, dimension in zip(needs[pod.role], dimensions, strict=True)
                        ],
                    )

    def check(self) -> None:
        """Raise `InvariantError` if the counts differ from a new count."""
        if (self.changed or self._unread) and not self.is_stale:
            return
        if self._known() != Relief(self._stages, self._running)._known():
            raise InvariantError("what running jobs would free is counted wrongly")

    def _known(self) -> tuple[Any, ...]:
        self._read_jobs()
        self._read_pods()
        self.is_stale = False
        standings = [*self._numbers]
        jobs = Counter(standings[number] for number in self._of_job.values())
        pods = Counter[tuple[Any, ...]]()
        names = [*self._node_numbers]
        for name, rows in self._rows.items():
            for row in rows:
                owner, node, *held = self._pods[:, row].tolist()
                pods[name, standings[owner], names[node], *held] += 1
        counted = [sum(column) for column in self._pods[2:].tolist()]
        return jobs, pods, counted, self._names, self._idle.tolist()
