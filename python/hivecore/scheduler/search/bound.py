"""What would be idle at most if all left who might have to, counted by node.

A pod of g units needs g idle ones of one node. So if all nodes together have fewer times g than
there are pods of g or more, no eviction helps, and none is tried. It is counted
once for all that wait. Who starts later takes what was idle, and may perhaps leave: the sum is no
less than it was, so the count holds until somebody gives something back.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Kind
from hivecore.scheduler.moves.room import whole_gpus
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Relief"]

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class _Who(NamedTuple):
    """For whom those may have to leave who are alike in this."""

    may: bool
    weak: bool
    tenant: str
    quota: str
    priority: int

    def leaves_for(self, job: Job, by_quota: bool) -> bool:
        """Whether they might for a guaranteed job."""
        if not self.may or self.weak:
            return self.may
        if by_quota and self.quota != job.quota:
            return True
        return self.priority < job.priority and (by_quota or self.tenant == job.tenant)


class _Pods(NamedTuple):
    """The pods of those who run on what is their own."""

    nodes: _Ints
    #: what each has of a network, and GPUs, at most
    slots: _Ints
    gpus: _Ints
    #: the GPUs that it surely has for itself
    whole: _Ints
    #: whose it is
    who: _Ints


class Relief:
    """What those who run would leave.

    :param running: those who run now.
    """

    def __init__(self, stages: Stages, running: Iterable[Live]) -> None:
        self._stages, self._running = stages, running
        self._all_who: dict[_Who, int] = {}

    def _leaving(self, job: Job) -> _Bools:
        """Of each pod, whether it might leave for a guaranteed job."""
        by_quota, pods = self._stages.quotas is not None, self._pods
        found = [who.leaves_for(job, by_quota) for who in self._all_who]
        return np.array(found, dtype=bool)[pods.who]

    def is_too_little(self, kind: Kind) -> bool:
        """Whether a unit of a guaranteed kind could not start even if all left who might have to
        for it.
        """
        job = kind.job
        leaving = self._leaving(job)
        nodes = self._pods.nodes[leaving]
        roles = [role for role, count in kind.sizes for _ in range(count)]
        for idle, given, need in self._counted():
            most = idle + np.bincount(nodes, given[leaving], len(idle)).astype(np.int64)
            if job.where.nodes:
                known = {self._numbers[node] for node in job.where.nodes if node in self._numbers}
                most = most[sorted(known)]
            sizes = [need(role) for role in roles]
            for size in {*sizes} - {0}:
                if int((most // size).sum()) < sum(other >= size for other in sizes):
                    return True
        return False

    def _counted(self) -> Iterator[tuple[_Ints, _Ints, Callable[[Role], int]]]:
        """What is idle by node, what each pod has, and what a pod of a role needs."""
        if self._of_network:
            yield self._idle_slots, self._pods.slots, self._slots
        if self._stages.devices is not None:
            yield self._idle_gpus, self._pods.gpus, whole_gpus

    @cached_property
    def _of_network(self) -> str:
        """What a network counts; "": nothing that is known here."""
        place = self._stages.place
        known = place.known if isinstance(place, TopologyStage) else frozenset[str]()
        return next((name for name in ("slots", "gpu") if name in known), "")

    def _slots(self, role: Role) -> int:
        place = self._stages.place
        assert isinstance(place, TopologyStage)
        return dict(place.amounts(role)).get(self._of_network, 0)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """By name the number of each node."""
        place, devices = self._stages.place, self._stages.devices
        nodes: dict[str, None] = {}
        if isinstance(place, TopologyStage):
            nodes.update(dict.fromkeys(place.part.nodes))
        if devices is not None:
            nodes.update(dict.fromkeys(devices.part.nodes))
        return {node: i for i, node in enumerate(nodes)}

    @cached_property
    def _idle_slots(self) -> _Ints:
        place = self._stages.place
        assert isinstance(place, TopologyStage)
        free = place.part.slots("node", amounts=((self._of_network, 1),))
        found: _Ints = np.array([free.get(node, 0) for node in self._numbers], dtype=np.int64)
        return found

    @cached_property
    def _idle_gpus(self) -> _Ints:
        """All there are but those that somebody has for himself."""
        assert self._stages.devices is not None
        part, pods = self._stages.devices.part, self._pods
        there = np.zeros(len(self._numbers), dtype=np.int64)
        counts: dict[int, int] = {}  # nodes that are alike share an inventory
        for node in part.nodes:
            inventory = part.inventory(node)
            count = counts.get(id(inventory))
            if count is None:
                count = counts[id(inventory)] = len(inventory.of_type("gpu"))
            there[self._numbers[node]] = count
        used = np.bincount(pods.nodes, pods.whole, len(there)).astype(np.int64)
        idle: _Ints = np.maximum(there - used, 0)
        return idle

    @cached_property
    def _pods(self) -> _Pods:
        numbers, all_who, sharing = self._numbers, self._all_who, self._stages.sharing
        rows: list[tuple[int, int, int, int, int]] = []
        known: dict[Kind, dict[str, tuple[int, int]]] = {}
        for live in self._running:
            job = live.job
            if sharing is not None and sharing.members(job.name)[0] != job.name:
                continue
            may = job.preemptible and not live.for_job
            who = _Who(may, live.is_weak, job.tenant, job.quota, job.priority)
            number = all_who.setdefault(who, len(all_who))
            for unit in live.units if live.lent is None else live.all_units:
                sizes = known.get(unit.kind)
                if sizes is None:
                    sizes = known[unit.kind] = {
                        role.name: (self._slots(role) if self._of_network else 0, whole_gpus(role))
                        for role, _ in unit.kind.sizes
                    }
                for pod in unit.placed:
                    node = numbers.get(pod.node)
                    if node is not None:
                        slots, whole = sizes[pod.role]
                        rows.append((node, slots, whole or len(pod.gpus), whole, number))
        return _Pods(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)
