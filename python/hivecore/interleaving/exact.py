"""The optimal groups, and a cache of what was computed for them."""

from typing import Any

import numpy as np

from hivecore import _interleaving
from hivecore._stateful import counted, shown
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import Groups

__all__ = ["NODE_LIMIT", "GroupingCache", "group_exactly"]

NODE_LIMIT = 20_000
"""Programs per bucket and number of groups, unless the caller says otherwise."""


class GroupingCache:
    """Results of `group_jobs` with method "auto" or "exact", for later calls.

    Calls with the same settings (model, limits, weight) and jobs of the same profiles get faster,
    as in a scheduler where one job at a time comes or ends. Results do not depend on it. Threads
    may share it; they wait for each other. For each combination of settings it drops results once
    it holds more than about a million times of groups, or more than 20,000 solved buckets. A copy
    is empty.

    >>> from hivecore.interleaving import group_jobs
    >>> cache = GroupingCache()
    >>> for gpus in (1, 2):
    ...     result = group_jobs([[2, 1], [3, 1]], [1, 1], gpus, method="exact", cache=cache)
    ...     print(result.groups, result.value, result.gap)
    [[0, 1]] 0.7 0.0
    [[0], [1]] 1.0 0.0
    """

    def __init__(self) -> None:
        self._groupers: dict[tuple[Any, ...], object] = {}

    def __repr__(self) -> str:
        return shown(self, counted(len(self._groupers), "set") + " of terms")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # a copy begins empty

    def _grouper(self, jobs: Candidates, gain: bool) -> object:
        terms = (
            jobs.durations.shape[1],
            jobs.model,
            jobs.best,
            jobs.factors.tobytes(),
            jobs.gpu_memory,
            jobs.max_slowdown,
            gain,
        )
        if terms not in self._groupers:
            self._groupers[terms] = _interleaving.exact_grouper(
                jobs.durations,
                jobs.model,
                jobs.best,
                jobs.factors,
                jobs.gpu_memory,
                jobs.max_slowdown,
                gain,
            )
        return self._groupers[terms]


def group_exactly(
    jobs: Candidates,
    optional: Any,
    gain: bool,
    capacity: int,
    node_limit: int,
    cache: GroupingCache | None,
) -> tuple[list[list[int]], float, float]:
    """The groups, their value, and an upper bound of the value."""
    if cache is not None and not isinstance(cache, GroupingCache):
        raise TypeError(f"cache must be a GroupingCache, not {type(cache).__name__}")
    may_wait = np.zeros(len(jobs), dtype=np.uint8)
    if optional is not None:
        given = np.asarray(optional)
        if given.dtype != np.bool_:
            raise TypeError(f"optional must hold truth values, not {given.dtype}")
        if given.shape != may_wait.shape:
            raise ValueError(f"optional has shape {given.shape}: there are {len(jobs)} jobs")
        may_wait[:] = given
    starts, members, value, bound = _interleaving.group_exactly(
        (cache or GroupingCache())._grouper(jobs, gain),
        jobs.durations,
        jobs.gpus,
        jobs.solo,
        jobs.rank,
        jobs.memory,
        may_wait,
        capacity,
        node_limit,
    )
    return Groups(starts, members).lists(), value, bound
