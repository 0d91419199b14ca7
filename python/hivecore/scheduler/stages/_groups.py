"""Groups of jobs on the same GPUs, and what a further job would bring to each.

The stages of the jobs of all groups stand in arrays, one for each number of jobs, so that one call
of the kernel says what a job would bring to thousands of groups.
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
        #: in the order in which they began
        self.number = number
        #: what its jobs have in common
        self.alike = alike
        #: the stages of an iteration, by job; the first job holds what they share
        self.jobs: dict[str, Durations] = {}
        #: where their pods are, and whether cells or a network have placed them
        self.placed, self.is_placed = placed, is_placed
        #: whether they have to stop
        self.is_leaving = False
        #: its row in a table; -1: it is in none
        self.place = -1

    def copy(self) -> "Group":
        """An equal for a branch, in no table."""
        group = Group(self.number, self.alike, self.placed, self.is_placed)
        group.jobs, group.is_leaving = self.jobs.copy(), self.is_leaving
        return group

    def state(self) -> tuple[Any, ...]:
        """The attributes that may change, for `restore`."""
        return self.jobs.copy(), self.is_leaving, self.is_placed

    def restore(self, jobs: dict[str, Durations], is_leaving: bool, is_placed: bool) -> None:
        """Restore the group; it is in no table."""
        self.jobs, self.is_leaving, self.is_placed = jobs, is_leaving, is_placed

    def is_on(self, nodes: frozenset[str]) -> bool:
        """Whether it is on one of these nodes."""
        return any(pod.node in nodes for pod in self.placed)


class Table:
    """Groups of equally many jobs that a further job may join."""

    __slots__ = ("_before", "_rows", "groups")

    def __init__(self, size: int, resources: int) -> None:
        self.groups: list[Group] = []
        self._rows: _Floats = np.empty((4, size, resources))
        #: progress, as far as it is known; else nan
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
        """Remove a group; the last group gets its row."""
        at, last = group.place, self.groups.pop()
        if last is not group:
            self._rows[at], self._before[at] = self._rows[last.place], self._before[last.place]
            self.groups[at], last.place = last, at
        group.place = -1

    def gains(self, stages: Durations, slowdown: float | None) -> _Floats:
        """What a job would bring to each."""
        count = len(self.groups)
        for at in np.flatnonzero(np.isnan(self._before[:count])).tolist():
            self._find_progress(at)
        joining = np.broadcast_to(np.array(stages), (count, len(stages)))
        return gains(joining, self._rows[:count], self._before[:count], slowdown)

    def gains_of(self, group: Group, stages: list[Durations], slowdown: float | None) -> _Floats:
        """What each of several jobs would bring to a group."""
        count, at = len(stages), group.place
        self._find_progress(at)
        others = np.broadcast_to(self._rows[at], (count, *self._rows[at].shape))
        return gains(np.array(stages), others, self._before[at], slowdown)

    def _find_progress(self, at: int) -> None:
        if isnan(self._before[at]):
            self._before[at] = progress(list(self.groups[at].jobs.values()))


def progress(rows: list[Durations]) -> float:
    """That of a group, in jobs that run alone."""
    return len(rows[0]) * interleave(rows).efficiency if len(rows) > 1 else 1.0


def gains(joining: _Floats, others: _Floats, before: Any, slowdown: float | None) -> _Floats:
    """By how much the progress of groups rises when a job joins each.

    :param joining: (n, k) stages of the job that joins.
    :param others: (n, p, k) stages of the jobs of each group.
    :param before: (n,) their progress.
    :param slowdown: as of `Sharing`; where a job would be slower, the gain is below 0.
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
