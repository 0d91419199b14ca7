"""Groups of jobs on the same GPUs, and how much a further job would gain in each.

Arrays hold the iteration stages of all groups, one array for each size of groups, so that one call
of the kernel computes the gains for thousands of groups.
"""

from math import isnan, nan
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.interleaving import efficiencies, interleave
from hivecore.scheduler.actions import PlacedPod

__all__ = ["ROUNDING", "Durations", "Group", "Table", "gains", "progress"]

#: Gains that differ by less are equal.
ROUNDING = 1e-9
Durations = tuple[float, ...]
_Floats = npt.NDArray[np.float64]


class Group:
    """Running jobs on the same GPUs."""

    __slots__ = ("alike", "is_leaving", "is_placed", "jobs", "number", "place", "placed")

    def __init__(
        self, number: int, alike: Any, placed: tuple[PlacedPod, ...], is_placed: bool
    ) -> None:
        #: position in the order of starts
        self.number = number
        #: what all jobs of the group have in common
        self.alike = alike
        #: iteration stages by job; the first job holds the GPUs
        self.jobs: dict[str, Durations] = {}
        #: the placed pods, and whether cells or a network placed them
        self.placed, self.is_placed = placed, is_placed
        #: whether the jobs have to stop
        self.is_leaving = False
        #: row in its table; -1: in no table
        self.place = -1

    def copy(self) -> "Group":
        """A copy for a branch, in no table."""
        group = Group(self.number, self.alike, self.placed, self.is_placed)
        group.jobs, group.is_leaving = self.jobs.copy(), self.is_leaving
        return group

    def state(self) -> tuple[Any, ...]:
        """The attributes that may change, for `restore`."""
        return self.jobs.copy(), self.is_leaving, self.is_placed

    def restore(self, jobs: dict[str, Durations], is_leaving: bool, is_placed: bool) -> None:
        """Restore the attributes; the group is then in no table."""
        self.jobs, self.is_leaving, self.is_placed = jobs, is_leaving, is_placed

    def is_on(self, nodes: frozenset[str]) -> bool:
        """Whether a pod is on one of these nodes."""
        return any(pod.node in nodes for pod in self.placed)


class Table:
    """Groups of one size that a job may join."""

    __slots__ = ("_before", "_rows", "groups")

    def __init__(self, size: int, resources: int) -> None:
        self.groups: list[Group] = []
        self._rows: _Floats = np.empty((4, size, resources))
        #: progress of each group; nan: not computed yet
        self._before: _Floats = np.empty(4)

    def add(self, group: Group) -> None:
        """Add a group."""
        at = group.place = len(self.groups)
        if at == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._before = np.concatenate([self._before, np.empty_like(self._before)])
        self._rows[at] = list(group.jobs.values())
        self._before[at] = nan
        self.groups.append(group)

    def remove(self, group: Group) -> None:
        """Remove a group; the last group moves to its row."""
        at, last = group.place, self.groups.pop()
        if last is not group:
            self._rows[at], self._before[at] = self._rows[last.place], self._before[last.place]
            self.groups[at], last.place = last, at
        group.place = -1

    def gains(self, stages: Durations, slowdown: float | None) -> _Floats:
        """The gain of each group if a job joins it."""
        count = len(self.groups)
        for at in np.flatnonzero(np.isnan(self._before[:count])).tolist():
            self._find_progress(at)
        joining = np.broadcast_to(np.array(stages), (count, len(stages)))
        return gains(joining, self._rows[:count], self._before[:count], slowdown)

    def gains_of(self, group: Group, stages: list[Durations], slowdown: float | None) -> _Floats:
        """The gain of one group for each of several jobs."""
        count, at = len(stages), group.place
        self._find_progress(at)
        others = np.broadcast_to(self._rows[at], (count, *self._rows[at].shape))
        return gains(np.array(stages), others, self._before[at], slowdown)

    def _find_progress(self, at: int) -> None:
        if isnan(self._before[at]):
            self._before[at] = progress(list(self.groups[at].jobs.values()))


def progress(rows: list[Durations]) -> float:
    """The progress of a group; a job that runs alone has progress 1."""
    return len(rows[0]) * interleave(rows).efficiency if len(rows) > 1 else 1.0


def gains(joining: _Floats, others: _Floats, before: Any, slowdown: float | None) -> _Floats:
    """How much the progress of each group rises if a job joins it.

    :param joining: (n, k) iteration stages of the job that joins.
    :param others: (n, p, k) iteration stages of the groups' jobs.
    :param before: (n,) progress of the groups.
    :param slowdown: as for `Sharing`; the gain is negative if a job would be slower.
    """
    count, size, resources = others.shape
    members = np.empty((count, size + 1), dtype=np.int64)
    members[:, 0] = np.arange(count)
    members[:, 1:] = count + np.arange(count * size).reshape(count, size)
    rows = np.concatenate([joining, others.reshape(-1, resources)])
    after = resources * efficiencies(rows, members)
    rise: _Floats = after - before
    if slowdown is not None:
        alone = rows.sum(axis=1)[members]
        iteration = alone.sum(axis=1) / after
        rise[iteration > slowdown * alone.min(axis=1) * (1.0 + ROUNDING)] = -1.0
    return rise
