"""Groups of candidates that share GPUs: Muri's rounds of matchings, the best
groups, or neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hivecore.interleaving import GroupingCache
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.grouping import group_candidates
from hivecore.sim.preemptive.interleaving import Stages

__all__ = [
    "Bucket",
    "Grouping",
    "Rounds",
    "best_groups",
    "group_neighbours",
    "matched_groups",
]

_Group = list[int]


class Rounds(Protocol):
    """Groups jobs that shall share GPUs by matching pairs, then groups, again and again."""

    def __call__(
        self,
        stages: Sequence[Stages],
        gpus: Sequence[int],
        capacity: int,
        *,
        max_group: int,
        order: str,
        interference: Sequence[float],
    ) -> list[list[int]]:
        """Return groups of positions in `stages`; `order` is that of a group's jobs."""
        ...


@dataclass(frozen=True, slots=True)
class Bucket:
    """Candidates that need equally many GPUs.

    :param gpus: of each.
    :param candidates: jobs in order of priority.
    :param optional: how many of the least urgent may be left out.
    """

    gpus: int
    candidates: list[int]
    optional: int = 0


#: (buckets, GPUs of the cluster) -> groups, bucket after bucket.
Grouping = Callable[[Sequence[Bucket], int], list[_Group]]


def matched_groups(
    stages: Sequence[Stages],
    largest: int,
    worst: bool,
    interference: Sequence[float],
    rounds: Rounds | None,
) -> Grouping:
    """Return the grouping by matchings, as in the Muri authors' simulator.

    :param stages: per job, seconds of each resource in an iteration.
    :param largest: the most jobs in a group.
    :param worst: weigh groups in their worst order instead of the best.
    :param interference: slowdown of groups of 1 to 4 jobs.
    :param rounds: forms the groups; None for the native kernel.
    """
    rows = np.array(stages, dtype=np.float64)

    def native(jobs: list[int], gpus: list[int], capacity: int) -> list[_Group]:
        candidates = Candidates.of(
            rows[jobs],
            gpus,
            max_group=largest,
            model="artifact",
            order="worst" if worst else "best",
            interference=interference,
        )
        grouping = group_candidates(candidates, capacity, method="muri", least_waste_first=False)
        return grouping.groups

    def group(buckets: Sequence[Bucket], capacity: int) -> list[_Group]:
        jobs = [job for bucket in buckets for job in bucket.candidates]
        gpus = [bucket.gpus for bucket in buckets for _ in bucket.candidates]
        if not jobs:
            return []
        if rounds is None:
            groups = native(jobs, gpus, capacity)
        else:
            groups = rounds(
                [stages[job] for job in jobs],
                gpus,
                capacity,
                max_group=largest,
                order="worst" if worst else "best",
                interference=interference,
            )
        return [[jobs[place] for place in places] for places in groups]

    return group


def best_groups(
    stages: Sequence[Stages], solo: Sequence[float], largest: int, interference: Sequence[float]
) -> Grouping:
    """Return the grouping with the most progress, in GPUs times progress of single jobs.

    :param stages: per job.
    :param solo: per job, seconds of an iteration alone on its GPUs.
    :param largest: the most jobs in a group.
    :param interference: factors for 1 to 4 jobs.
    """
    rows, alone = np.array(stages, dtype=np.float64), np.array(solo, dtype=np.float64)
    cache = GroupingCache()

    def group(buckets: Sequence[Bucket], capacity: int) -> list[_Group]:
        jobs = [job for bucket in buckets for job in bucket.candidates]
        if not jobs:
            return []
        optional = [
            place >= len(bucket.candidates) - bucket.optional
            for bucket in buckets
            for place in range(len(bucket.candidates))
        ]
        candidates = Candidates.of(
            rows[jobs],
            [bucket.gpus for bucket in buckets for _ in bucket.candidates],
            max_group=largest,
            model="artifact",
            interference=interference,
            solo=alone[jobs],
        )
        grouping = group_candidates(
            candidates,
            capacity,
            method="exact",
            weight="gain",
            optional=np.array(optional),
            cache=cache,
        )
        return [[jobs[place] for place in places] for places in grouping.groups]

    return group


def group_neighbours(largest: int, buckets: Sequence[Bucket], capacity: int) -> list[_Group]:
    """Return groups of successive jobs in order of priority, without a matching.

    :param largest: the most jobs in a group.
    :param buckets: the candidates.
    :param capacity: GPUs of the cluster. Once they suffice, jobs stay alone, before their group.

    >>> group_neighbours(3, [Bucket(8, [5, 6, 7, 8])], 16)
    [[5, 6, 7], [8]]
    """
    demand = sum(bucket.gpus * len(bucket.candidates) for bucket in buckets)
    groups: list[_Group] = []
    for bucket in buckets:
        for first in range(0, len(bucket.candidates), largest):
            base, *others = bucket.candidates[first : first + largest]
            group = [base]
            for job in others:
                if demand > capacity:
                    group.append(job)
                    demand -= bucket.gpus
                else:
                    groups.append([job])
            groups.append(group)
    return groups
