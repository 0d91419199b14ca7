"""Groups of a changing set of jobs; a group stays unless a change is worth the restarts."""

from collections.abc import Hashable, Iterable
from threading import RLock
from typing import Any, Literal

import numpy as np

from hivecore._arguments import as_float, as_int
from hivecore._quantities import as_units
from hivecore._record import Record
from hivecore._stateful import Branching, counted, shown
from hivecore._turns import in_turn
from hivecore.errors import InvariantError
from hivecore.interleaving.automatic import group_automatically
from hivecore.interleaving.candidates import MAX_MEMORY, Candidates
from hivecore.interleaving.durations import Model, as_durations, flat
from hivecore.interleaving.exact import NODE_LIMIT, GroupingCache, group_exactly
from hivecore.interleaving.grouping import group_jobs
from hivecore.interleaving.in_rounds import FULL_SEARCH, NO_SEARCH, group_in_rounds

__all__ = ["Group", "Grouper"]

_ROUNDING = 1e-9
_MAX_RESTART_COST = 1e9


class Group(Record, frozen=True):
    """Jobs that share GPUs."""

    jobs: tuple[Hashable, ...]
    """The jobs, the most urgent first."""
    gpus: int
    """The number of GPUs that each of its jobs needs, and the group has."""
    iteration_time: float
    """The duration of a round."""
    efficiency: float
    """The part of the time that the resources are busy."""
    kept: bool
    """Whether these jobs were in one group before, perhaps with jobs that have ended."""


class _Job(Record, frozen=True):
    durations: tuple[float, ...]
    gpus: int
    memory: int
    priority: float
    number: int
    """The place in the order of arrival."""


class Grouper(Branching):
    """Groups for a scheduler that calls `groups` after each change of its jobs.

    :param resources: k, the number of stage durations of a job.
    :param capacity: GPUs of the cluster.
    :param restart_cost: what a job loses when its group changes: seconds of a restart over the
        expected seconds until the next change, 0 to 1e9.
    :param max_group, method, weight, model, interference, max_slowdown, gpu_memory: as in
        `group_jobs`, but ``weight`` is no function.
    :raises ValueError, TypeError: as `group_jobs` does, or ``restart_cost`` is wrong.

    May be used by several threads: calls take turns. Cost: two `group_jobs` for a call of `groups`
    after a change, O(running jobs) for `remove`, O(jobs) for `copy` and `check`, O(1) for the
    others. Source: Muri (SIGCOMM'22), section 4.2; keeping groups: Tesserae (arXiv 2508.04953).

    >>> grouper = Grouper(2, capacity=4)
    >>> grouper.add("train", [1.0, 3.0], gpus=4, priority=1.0)
    >>> grouper.add("tune", [3.0, 1.0], gpus=4, priority=2.0)
    >>> [group] = grouper.groups()
    >>> group.jobs, group.iteration_time, group.kept
    (('train', 'tune'), 4.0, False)
    >>> grouper.remove("train")
    >>> [(group.jobs, group.kept) for group in grouper.groups()]
    [(('tune',), True)]
    """

    def __init__(
        self,
        resources: int,
        capacity: int,
        *,
        restart_cost: float = 0.0,
        max_group: int | None = None,
        method: Literal["auto", "muri", "local", "exact"] = "auto",
        weight: Literal["efficiency", "gain"] = "efficiency",
        model: Model = "barrier",
        interference: Any = None,
        max_slowdown: float | None = None,
        gpu_memory: int | str | None = None,
    ) -> None:
        self._resources = as_int(resources, "resources", 2, 8)
        self._capacity = as_int(capacity, "capacity", 1, 2**62)
        if callable(weight):
            raise TypeError("weight must be 'efficiency' or 'gain', not a function")
        self._restart_cost = as_float(restart_cost, "restart_cost")
        if not 0 <= self._restart_cost <= _MAX_RESTART_COST:
            raise ValueError(f"restart_cost={restart_cost}: allowed are 0 to {_MAX_RESTART_COST:g}")
        self._terms: dict[str, Any] = {
            "max_group": max_group,
            "model": model,
            "interference": interference,
            "max_slowdown": max_slowdown,
            "gpu_memory": gpu_memory,
        }
        self._method, self._gain = method, weight == "gain"
        self._cache = GroupingCache()  # of methods "auto" and "exact"
        self._lock = RLock()
        self._jobs: dict[Hashable, _Job] = {}
        self._next = 0
        self._groups: list[Group] | None = []
        self._running: list[tuple[Hashable, ...]] = []
        # A call without jobs, to check the arguments now.
        rows = np.empty((0, self._resources))
        memory = None if gpu_memory is None else np.empty(0, dtype=np.int64)
        empty = group_jobs(
            rows,
            [],
            self._capacity,
            method=method,
            weight=weight,
            memory=memory,
            **self._terms,
        )
        assert not empty.groups
        # A copy: the caller may change an array later.
        self._terms["interference"] = self._candidates([]).factors
        self._largest = len(self._terms["interference"])

    @in_turn
    def __repr__(self) -> str:
        return shown(self, counted(len(self._jobs), "job"), f"capacity={self._capacity}")

    @in_turn
    def __len__(self) -> int:
        return len(self._jobs)

    @in_turn
    def __contains__(self, job: object) -> bool:
        return job in self._jobs

    @in_turn
    def add(
        self,
        job: Hashable,
        durations: Any,
        gpus: int,
        priority: float = 0.0,
        *,
        memory: int | str = 0,
    ) -> None:
        """Add a job.

        :param job: a name that no other job has.
        :param durations: (k,) stage durations.
        :param gpus: at most the capacity.
        :param priority: the lowest is the most urgent; ties: the earlier job.
        :param memory: what it needs on each GPU, also as "10Gi".
        :raises ValueError: the name is taken, or a number is not allowed.
        :raises TypeError: an argument is no number, or the name is not hashable.
        """
        if job in self._jobs:
            raise ValueError(f"job {job!r} was added before")
        memory = as_units(memory, "memory", 0, MAX_MEMORY)
        if memory and self._terms["gpu_memory"] is None:
            raise ValueError("memory is known, but gpu_memory was not given")
        as_int(gpus, "gpus", 1, self._capacity)
        number = _as_priority(priority)
        row = as_durations([durations], self._terms["model"])
        if row.shape[1] != self._resources:
            raise ValueError(f"durations must have {self._resources} entries, one per resource")
        checked = Candidates.of(
            row,
            [gpus],
            memory=None if self._terms["gpu_memory"] is None else [memory],
            **self._terms,
        )
        self._jobs[job] = _Job(
            durations=tuple(checked.durations[0].tolist()),
            gpus=int(checked.gpus[0]),
            memory=int(checked.memory[0]),
            priority=number,
            number=self._next,
        )
        self._next += 1
        self._groups = None

    @in_turn
    def remove(self, job: Hashable) -> None:
        """Remove a job that has ended; the jobs of its group stay together.

        :raises KeyError: the job is unknown.
        """
        ended = {job}  # compares names as the dict does
        running = [
            left
            for group in self._running
            if (left := tuple([other for other in group if other not in ended]))
        ]
        del self._jobs[job]
        self._running = running
        self._groups = None

    @in_turn
    def set_priority(self, job: Hashable, priority: float) -> None:
        """Change the priority of a job.

        :raises KeyError: the job is unknown.
        :raises ValueError, TypeError: ``priority`` is no number.
        """
        self._jobs[job] = self._jobs[job].replace(priority=_as_priority(priority))
        self._groups = None

    @in_turn
    def groups(self) -> list[Group]:
        """The groups that run now, in the order of their most urgent jobs.

        The most urgent jobs are candidates: in order of priority, a job that fits into the free
        GPUs takes them, and it and the next jobs with the same number of GPUs become candidates, as
        many as a group may have. `group_jobs` groups them. Where these groups differ from the
        running ones, the running ones stay if the change gains less GPUs times efficiency (or
        progress, by ``weight``) than the restarts cost, or if it needs more GPUs than there are. In
        order of priority, the groups that fit into the free GPUs run until the next call. GPUs that
        are still free go to the next jobs in the same way, so no job waits beside GPUs that it
        could have.
        """
        if self._groups is None:
            decided = self._decide()
            self._running = [group.jobs for group in decided]
            self._groups = [group.replace(kept=True) for group in decided]
            return decided
        return list(self._groups)

    @in_turn
    def copy(self) -> "Grouper":
        """Return an independent grouper with the same jobs and groups."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    @in_turn
    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_lock"}
        return state | {"_jobs": dict(self._jobs), "_running": list(self._running)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    @in_turn
    def check(self) -> None:
        """Raise `InvariantError` unless groups are of known jobs, each in one, and GPUs suffice."""
        grouped = [job for group in self._running for job in group]
        if len(set(grouped)) < len(grouped) or not set(grouped) <= set(self._jobs):
            raise InvariantError("a job is in two groups, or was removed")
        for group in self._running:
            if len(group) > self._largest or len({self._jobs[job].gpus for job in group}) != 1:
                raise InvariantError(f"{group}: too many jobs for a group, or of different GPUs")
        if sum(self._jobs[group[0]].gpus for group in self._running) > self._capacity:
            raise InvariantError("the groups need more GPUs than there are")

    # --- one decision ----------------------------------------------------------------------------

    def _decide(self) -> list[Group]:
        order = sorted(
            self._jobs, key=lambda name: (self._jobs[name].priority, self._jobs[name].number)
        )
        rank = {name: number for number, name in enumerate(order)}
        groups: list[Group] = []
        free = self._capacity
        while names := self._urgent(order, free):  # the first of them runs, at least
            more = self._decide_on(names, free)
            groups += more
            free -= sum(group.gpus for group in more)
            placed = {job for group in more for job in group.jobs}
            order = [name for name in order if name not in placed]
        return sorted(groups, key=lambda group: rank[group.jobs[0]])

    def _decide_on(self, names: list[Hashable], room: int) -> list[Group]:
        """Groups of these jobs, the most urgent first, which fit into so many GPUs."""
        jobs = self._candidates(names)
        place = {name: number for number, name in enumerate(names)}
        before = [[place[name] for name in group if name in place] for group in self._running]
        before = [group for group in before if group]
        before = self._still_allowed(jobs, before)
        fresh = self._fresh(jobs, room)
        grown = self._in_rounds(jobs, before, NO_SEARCH, room) if before else fresh
        chosen = self._better(jobs, before, grown, fresh, room)
        times, efficiencies = jobs.rounds(chosen)
        known = {frozenset(group) for group in before}
        groups = []
        for number in sorted(range(len(chosen)), key=lambda number: min(chosen[number])):
            gpus = int(jobs.gpus[chosen[number][0]])
            if gpus <= room:
                room -= gpus
                groups.append(
                    Group(
                        jobs=tuple([names[job] for job in sorted(chosen[number])]),
                        gpus=gpus,
                        iteration_time=float(times[number]),
                        efficiency=float(efficiencies[number]),
                        kept=frozenset(chosen[number]) in known,
                    )
                )
        return groups

    def _urgent(self, order: Iterable[Hashable], free: int) -> list[Hashable]:
        """The candidates for so many GPUs, the most urgent first."""
        wanted: dict[int, int] = {}
        candidates = []
        for name in order:
            gpus = self._jobs[name].gpus
            if not wanted.get(gpus) and gpus <= free:
                free -= gpus
                wanted[gpus] = self._largest
            if wanted.get(gpus):
                wanted[gpus] -= 1
                candidates.append(name)
        return candidates

    def _candidates(self, names: Iterable[Hashable]) -> Candidates:
        jobs = [self._jobs[name] for name in names]
        return Candidates.of(
            np.array([job.durations for job in jobs]).reshape(len(jobs), self._resources),
            np.array([job.gpus for job in jobs], dtype=np.int64),
            memory=(
                None
                if self._terms["gpu_memory"] is None
                else np.array([job.memory for job in jobs], dtype=np.int64)
            ),
            **self._terms,
        )

    def _fresh(self, jobs: Candidates, room: int) -> list[list[int]]:
        if self._method == "auto":
            return group_automatically(jobs, self._gain, room, flat([]), self._cache)[0]
        if self._method == "exact":
            return group_exactly(jobs, None, self._gain, room, NODE_LIMIT, self._cache)[0]
        effort = FULL_SEARCH if self._method == "local" else NO_SEARCH
        return self._in_rounds(jobs, [], effort, room)

    def _in_rounds(
        self, jobs: Candidates, start: list[list[int]], effort: int, room: int
    ) -> list[list[int]]:
        return group_in_rounds(jobs, room, self._gain, effort, flat(start))

    def _still_allowed(self, jobs: Candidates, groups: list[list[int]]) -> list[list[int]]:
        """The groups within ``max_slowdown``, by the current priorities."""
        times, _ = jobs.rounds(groups)
        limits = jobs.max_slowdown * jobs.solo[[min(group) for group in groups]]
        return [
            group for group, time, limit in zip(groups, times, limits, strict=True) if time <= limit
        ]

    def _better(
        self,
        jobs: Candidates,
        before: list[list[int]],
        grown: list[list[int]],
        fresh: list[list[int]],
        room: int,
    ) -> list[list[int]]:
        """The better of the running groups (grown by new jobs) and the fresh groups, part by part.

        A part is a set of groups that are connected by jobs in common. Fresh groups are taken where
        they gain more than the restarts cost, unless they need more GPUs than there are: jobs that
        do not run gain nothing.
        """
        known = {frozenset(group) for group in before}
        ran = {job for group in before for job in group}

        def worth(groups: list[list[int]]) -> list[float]:
            """Values minus the cost of restarts."""
            return [
                value - self._restart_cost * int(jobs.gpus[group[0]]) * len(ran.intersection(group))
                if frozenset(group) not in known
                else value
                for group, value in zip(groups, self._values(jobs, groups), strict=True)
            ]

        grown_worth, fresh_worth = worth(grown), worth(fresh)
        chosen: list[list[int]] = []
        parts: list[tuple[int, float, bool, list[int], list[int]]] = []
        for olds, news in _parts(len(jobs), grown, fresh):
            value = sum(grown_worth[number] for number in olds)
            other = sum(fresh_worth[number] for number in news)
            more = int(jobs.gpus[fresh[news[0]][0]]) * (len(olds) - len(news))
            stays = value >= other - _ROUNDING * abs(other)
            parts.append((more, other - value, stays, olds, news))
        slack = room - _gpus(jobs, fresh)
        # Parts that free GPUs first, then by value.
        for more, _, stays, olds, news in sorted(parts, key=lambda part: (part[0] > 0, part[1])):
            if (stays and more <= max(slack, 0)) or more < 0 > slack:
                slack -= more
                chosen += [grown[number] for number in olds]
            else:
                chosen += [fresh[number] for number in news]
        # Keeping all groups may be better: a part that loses may free GPUs that other parts need.
        enough = _gpus(jobs, grown) <= max(room, _gpus(jobs, chosen))
        return grown if enough and sum(grown_worth) > sum(worth(chosen)) else chosen

    def _values(self, jobs: Candidates, groups: list[list[int]]) -> list[float]:
        times, efficiencies = jobs.rounds(groups)
        return jobs.values(groups, self._gain, times, efficiencies).tolist()  # type: ignore[no-any-return]


def _as_priority(priority: Any) -> float:
    number = as_float(priority, "priority")
    if number != number:
        raise ValueError("priority is not a number")
    return number


def _gpus(jobs: Candidates, groups: list[list[int]]) -> int:
    return sum(int(jobs.gpus[group[0]]) for group in groups)


def _parts(
    jobs: int, old: list[list[int]], fresh: list[list[int]]
) -> list[tuple[list[int], list[int]]]:
    """The numbers of the old and the fresh groups of each part, in the order of fresh groups."""
    old_of = [0] * jobs
    fresh_of = [0] * jobs
    for numbers, groups in ((old_of, old), (fresh_of, fresh)):
        for number, group in enumerate(groups):
            for job in group:
                numbers[job] = number
    parts = []
    seen: set[int] = set()
    for first in range(len(fresh)):
        if first in seen:
            continue
        seen.add(first)
        olds, news = dict[int, None](), [first]
        for number in news:
            for job in fresh[number]:
                if old_of[job] not in olds:
                    olds[old_of[job]] = None
                    for other in old[old_of[job]]:
                        if fresh_of[other] not in seen:
                            seen.add(fresh_of[other])
                            news.append(fresh_of[other])
        parts.append((list(olds), news))
    return parts
