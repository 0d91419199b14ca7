"""Muri (SIGCOMM'22): groups of jobs share GPUs, each on another resource at a time.

At each event the first jobs in order of priority become candidates, up to a full group for each set
of GPUs. Candidates with equal numbers of GPUs are grouped (`grouping`), and the groups are placed,
the largest first. Muri-S orders by remaining service (GPU time alone), Muri-L by attained service.

The exact forms, which are not in the paper, choose the groups with the most total progress, from
more candidates: for each set of GPUs, the first few must be in groups, which respects priorities,
and the next few may be, if they fit better with the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hivecore.sim.preemptive.grouping import (
    Bucket,
    Grouping,
    Rounds,
    best_groups,
    group_neighbours,
    matched_groups,
)
from hivecore.sim.preemptive.interleaving import (
    INTERFERENCE,
    INTERFERENCE_UNMATCHED,
    IterationTimes,
)
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import idle_nodes, place
from hivecore.sim.preemptive.ranked import Ranked

__all__ = ["Muri", "MuriOptions"]

_Group = list[int]


@dataclass(frozen=True, slots=True)
class MuriOptions:
    """How Muri forms groups.

    :param largest: the most jobs in a group, 1 to 4.
    :param autopack: split groups that take longer than their jobs one after another.
    :param worst_order: order a group's jobs in the worst way, to measure what order is worth.
    :param matching: match jobs; otherwise neighbours in order of priority form groups.
    :param candidates: for the exact forms, (must, may): how many candidates for each set of GPUs
        must be in groups (1 to `largest`), and how many may be; (4, 4) is Muri's own choice.
    :param interference: whether jobs that share GPUs slow each other down.
    :param rounds: forms groups instead of the much faster native kernel;
        `hivecore.reference.muri_matching.muri_groups` reproduces published figures.
    :raises ValueError: a number is out of range.
    """

    largest: int = 4
    autopack: bool = True
    worst_order: bool = False
    matching: bool = True
    interference: bool = True
    rounds: Rounds | None = None
    candidates: tuple[int, int] = (3, 8)

    def __post_init__(self) -> None:
        if not 1 <= self.largest <= 4:
            raise ValueError(f"largest must be from 1 to 4, not {self.largest}")
        must, may = self.candidates
        if not 1 <= must <= may:
            raise ValueError(f"candidates must be two rising numbers from 1 on, not {must}, {may}")


class Muri(Ranked):
    """The policy for `Training`.

    :param jobs: the jobs.
    :param nodes: of 8 GPUs each.
    :param by_attained: Muri-L instead of Muri-S.
    :param options: how groups are formed.
    :param exact: form the best groups instead of matched ones.
    """

    same_event = 1e-4

    def __init__(
        self, jobs: Jobs, nodes: int, by_attained: bool, options: MuriOptions, exact: bool = False
    ) -> None:
        self._jobs, self._by_attained = jobs, by_attained
        super().__init__(jobs, idle_nodes(nodes))
        self.pace, self.overhead = list(jobs.solo), list(jobs.restart)
        self._group_of: dict[int, _Group] = {}
        self._must = self._may = options.largest
        self._autopack = options.autopack
        factors = INTERFERENCE if options.matching else INTERFERENCE_UNMATCHED
        factors = factors if options.interference else (1.0,) * 4
        self._best = IterationTimes(jobs.stages, jobs.solo, False, factors)
        self._times = (
            IterationTimes(jobs.stages, jobs.solo, True, factors)
            if options.worst_order
            else self._best
        )
        self._group: Grouping = partial(group_neighbours, options.largest)
        if exact:
            must, self._may = options.candidates
            self._must = min(must, options.largest)
            self._group = best_groups(jobs.stages, jobs.solo, options.largest, factors)
        elif options.matching:
            self._group = matched_groups(
                jobs.stages, options.largest, options.worst_order, factors, options.rounds
            )

    def first_key(self, job: int) -> float:
        """Return the expected service, or 0 attained."""
        return 0.0 if self._by_attained else self._jobs.duration[job] * self._jobs.gpus[job]

    def key(self, job: int, remaining: float, attained: float) -> float:
        """Return the attained service, or the remaining service alone."""
        service = attained if self._by_attained else remaining * self._jobs.solo[job]
        return service * self._jobs.gpus[job]

    def order(self) -> Iterable[Sequence[int]]:
        """Return the groups, those of large jobs first; leaves the list sorted by GPUs."""
        key, order = self._key, self._order
        order.sort(key=key.__getitem__)
        buckets = self._candidates(order)
        groups = self._group(buckets, sum(self.idle))
        if self._autopack:
            groups = self._admit(self._unpack(groups), key)
        self._group_of = {job: group for group in groups for job in group}
        order.sort(key=self._jobs.gpus.__getitem__, reverse=True)
        return self.groups(order)

    def chosen(self, running: set[int]) -> list[int]:
        """See `Policy`; a group runs as a whole."""
        jobs = super().chosen(running)
        for group in self.groups(jobs):
            self._start(group)
        return jobs

    def groups(self, running: Iterable[int]) -> list[Sequence[int]]:
        """See `Policy`."""
        groups = {id(group): group for job in running if (group := self._group_of.get(job))}
        return list(groups.values())

    def _candidates(self, order: list[int]) -> list[Bucket]:
        """Return each bucket's first jobs; buckets are in the order of their first jobs."""
        buckets, must = self._marked(order, self._must)
        may = must if self._may == self._must else self._marked(order, self._may)[1]
        return [
            Bucket(size, jobs[: max(must[size], may[size])], max(0, may[size] - must[size]))
            for size, jobs in buckets.items()
        ]

    def _marked(
        self, order: list[int], for_each: int
    ) -> tuple[dict[int, list[int]], dict[int, int]]:
        """Return each bucket's jobs, and how many of them are for the existing GPUs."""
        gpus = self._jobs.gpus
        buckets: dict[int, list[int]] = {}
        rank: list[int] = []
        for job in order:
            bucket = buckets.setdefault(gpus[job], [])
            rank.append(len(bucket))
            bucket.append(job)
        marked = dict.fromkeys(buckets, 0)
        free = self.idle.copy()
        left = sum(free)
        for job, place_in_bucket in zip(order, rank, strict=True):
            size = gpus[job]
            if place_in_bucket >= marked[size] and size <= left and place(free, size):
                marked[size] = min(place_in_bucket + for_each, len(buckets[size]))
                left -= size
                if not left:
                    break
        return buckets, marked

    def _unpack(self, groups: list[_Group]) -> list[_Group]:
        """Split the groups that take longer than their jobs one after another."""
        solo, kept = self._jobs.solo, []
        for group in groups:
            if self._best.of(group) > sum(solo[job] for job in group):
                kept += [[job] for job in group]
            else:
                kept.append(group)
        return kept

    def _admit(self, groups: list[_Group], key: list[float]) -> list[_Group]:
        """Return the groups that fit, placed in order of their most urgent jobs."""
        free = self.idle.copy()
        urgent_first = sorted(groups, key=lambda group: min(key[job] for job in group))
        return [group for group in urgent_first if place(free, self._jobs.gpus[group[0]])]

    def _start(self, group: Sequence[int]) -> None:
        pace = self._times.of(group)
        overhead = sum(self._jobs.restart[job] for job in group)
        for job in group:
            self.pace[job] = pace
            self.overhead[job] = overhead
