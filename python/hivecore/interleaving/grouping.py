"""`group_jobs`: which jobs share GPUs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hivecore._arguments import as_choice, as_int
from hivecore.interleaving.automatic import group_automatically
from hivecore.interleaving.by_function import WeightFunction, group_by_function
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import MODELS, Float64, Model
from hivecore.interleaving.exact import NODE_LIMIT, GroupingCache, group_exactly
from hivecore.interleaving.in_rounds import FULL_SEARCH, NO_SEARCH, group_in_rounds

__all__ = ["Grouping", "group_candidates", "group_jobs"]

_METHODS = ("auto", "muri", "local", "exact")
_WEIGHTS = ("efficiency", "gain")


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Groups of jobs that share GPUs.

    >>> result = group_jobs([[2, 1], [2, 1], [1, 2]], gpus=[4, 4, 4], capacity=8)
    >>> result.groups, result.gpus, result.iteration_times.tolist(), result.gap
    ([[0, 2], [1]], 8, [3.0, 3.0], 0.0)
    >>> result = group_jobs([[2, 1], [1, 2], [2, 1]], gpus=[4, 8, 16], capacity=24)
    >>> result.excess, result.reason
    (4, '3 of 3 groups: no other has their number of GPUs')
    """

    groups: list[list[int]]
    """The jobs of each group; every job that is not optional is in one."""
    gpus: int
    """The GPUs that all groups need together; see `excess`."""
    iteration_times: Float64
    """float64[groups], the duration of a round."""
    efficiencies: Float64
    """float64[groups], the part of the time that the resources are busy."""
    value: float
    """The sum over groups of GPUs times efficiency, or times progress if ``weight`` is "gain"."""
    bound: float
    """An upper bound of the value of any groups within the capacity, up to rounding (1e-10 of the
    value); equal to ``value`` if these are the best, infinite if nothing was proved."""
    excess: int = 0
    """How many GPUs the groups need beyond the capacity; 0: they fit."""
    reason: str = ""
    """Why fewer GPUs are not enough, if there is an excess."""

    @property
    def gap(self) -> float:
        """By how much, relatively, other groups may be better; 0.0 if these are the best."""
        return max(0.0, self.bound - self.value) / abs(self.value) if self.groups else 0.0


def group_jobs(
    durations: Any,
    gpus: Any,
    capacity: int | None = None,
    *,
    max_group: int | None = None,
    method: Literal["auto", "muri", "local", "exact"] = "auto",
    weight: Literal["efficiency", "gain"] | WeightFunction = "efficiency",
    model: Model = "barrier",
    interference: Any = None,
    priorities: Any = None,
    max_slowdown: float | None = None,
    memory: Any = None,
    gpu_memory: int | str | None = None,
    start: Sequence[Sequence[int]] | None = None,
    optional: Any = None,
    node_limit: int = NODE_LIMIT,
    cache: GroupingCache | None = None,
) -> Grouping:
    """Groups of jobs that share GPUs, each on another resource at a time.

    :param durations: (n, k) stage durations of n jobs, as in `interleave`; n may be 0.
    :param gpus: int[n], the GPUs that each job needs. Only jobs with equal numbers (a *bucket*)
        share.
    :param capacity: GPUs of the cluster. Jobs merge only while all groups together need more
        ("exact" also merges where the value grows); ``None``: as long as a merge is possible. If
        the groups still need more, `Grouping.excess` and `Grouping.reason` say so, and the caller
        decides which of them wait.
    :param max_group: the most jobs in a group, 1 to k (4 for models with three columns); by default
        that maximum.
    :param method: "muri", "local", "exact" or "auto", see below.
    :param weight: the weight of a merge. "efficiency": that of the merged group. "gain": the
        progress of the merged group, in jobs that run alone, minus that of both groups in turns;
        merges without a gain are not made, and gains above 8 count as 8. Or a function from a list
        of groups (lists of rows) to their weights, of which positive ones count: it is called once
        per bucket and round, and the rounds run in Python.
    :param model: as in `interleave`.
    :param interference: factors by which rounds of 1, 2, ... jobs take longer; the first is 1, the
        others 1 to 1e6.
    :param priorities: (n,), the lowest is the most urgent, ties: the first row; by default the
        order of the rows. Only used with ``max_slowdown``.
    :param max_slowdown: no round takes longer than this factor times the stages of the most urgent
        job of the group.
    :param memory, gpu_memory: what each job needs on each of its GPUs, and what a GPU has: the jobs
        of a group fit together. Integers in any unit, up to 2^59, ``gpu_memory`` also as "80Gi".
    :param start: groups of rows to begin with, each of equal GPUs; not for "exact". They merge, but
        only "local" and "auto" split them; limits apply to merges, not to them.
    :param optional: bool[n], rows that "exact" may leave without a group.
    :param node_limit: how many programs "exact" solves per bucket and number of groups (large ones
        count as several) before it returns the best groups so far; ``bound`` then says how much
        better other groups may be. The default takes a second or two.
    :param cache: results of earlier calls of "auto" and "exact".
    :returns: the groups, bucket by bucket in the order of their first rows.
    :raises ValueError: as `interleave` does; an argument of another length, a number out of range,
        or an unknown name.
    :raises TypeError: an argument is no number, or no integer where one is needed.

    "muri": rounds of maximum-weight matchings. In each round the groups of a bucket, at first
    single jobs, are matched, and matched groups merge: first those that waste least, (1 -
    efficiency) * GPUs; ties: the first bucket, then the matched group whose later part comes first.

    "local": the groups of "muri", improved by small steps until no step helps: two groups exchange
    jobs, or one splits while GPUs are left or two others merge. A step raises the sum over groups
    of GPUs times efficiency, or with ``weight="gain"`` of GPUs times progress (the work of a group,
    in jobs that run alone). ``weight`` cannot be a function.

    "exact": the groups with the greatest such sum, with a proof; if even the tightest groups need
    more GPUs than there are, among groups that need the fewest (matchings may need more: three
    pairs do not become two groups of three). Quick for up to about ten different rows per bucket;
    refuses more than 50,000 kinds of groups.

    "auto": "exact" for up to 5,000 kinds of groups in all (about 16 different rows of four stages),
    with a low limit of programs; else "local" with a limit. It exceeds the capacity by no more than
    "muri", and its sum is at least as great unless it uses less of the capacity. If there are
    enough GPUs, jobs stay alone. With "gain" it makes no groups that progress faster in turns, so
    they may need more than the capacity. With a function as ``weight`` it is "muri".

    Equal rows are computed once. Matchings are of maximum weight, with efficiencies in units of
    2^-56 and gains of 2^-54; ties are broken in a fixed way. Cost: at most max_group rounds of
    O(b^3) each for buckets of b groups. Memory: O(b^2) up to 4,096 groups; beyond, O(b) with
    "barrier", where another matching of equal weight may be taken. "auto" adds at most some
    hundredths of a second for up to four jobs in a group. Source: Muri (SIGCOMM'22), section 4.2.

    >>> busy = [[2, 1], [2, 1], [1, 2], [1, 2]]
    >>> group_jobs(busy, gpus=[1, 1, 1, 1]).groups
    [[0, 2], [1, 3]]
    >>> group_jobs(busy, gpus=[1, 1, 1, 1], capacity=3, method="muri").groups
    [[1], [0, 2], [3]]
    """
    as_choice(model, "model", MODELS)
    jobs = Candidates.of(
        durations,
        gpus,
        max_group=max_group,
        model=model,
        interference=interference,
        priorities=priorities,
        max_slowdown=max_slowdown,
        memory=memory,
        gpu_memory=gpu_memory,
    )
    return group_candidates(
        jobs,
        capacity,
        method=method,
        weight=weight,
        start=start,
        optional=optional,
        node_limit=node_limit,
        cache=cache,
    )


def group_candidates(
    jobs: Candidates,
    capacity: int | None,
    *,
    method: str = "auto",
    weight: str | WeightFunction = "efficiency",
    start: Sequence[Sequence[int]] | None = None,
    optional: Any = None,
    node_limit: int = NODE_LIMIT,
    cache: GroupingCache | None = None,
    least_waste_first: bool = True,
) -> Grouping:
    """`group_jobs` of checked jobs, for any model and any times alone.

    :param least_waste_first: for "muri" and "local"; if not, groups merge bucket after bucket.
    """
    as_choice(method, "method", _METHODS)
    if not callable(weight):
        as_choice(weight, "weight", _WEIGHTS)
    elif method not in ("auto", "muri"):
        raise ValueError(f"weight must be one of {', '.join(_WEIGHTS)} for method {method!r}")
    room = 0 if capacity is None else as_int(capacity, "capacity", 1, 2**62)
    begin = jobs.start_of(start)
    nodes = as_int(node_limit, "node_limit", 1, 2**31 - 1)
    if optional is not None and method != "exact":
        raise ValueError("optional is for method 'exact' only")
    if cache is not None and method not in ("auto", "exact"):
        raise ValueError("cache is for methods 'auto' and 'exact' only")
    gain = weight == "gain"
    if method == "exact":
        if start is not None:
            raise ValueError("start is not for method 'exact'")
        return _grouping(jobs, gain, room, *group_exactly(jobs, optional, gain, room, nodes, cache))
    if callable(weight):
        groups = group_by_function(jobs, weight, room, begin.lists())
        return _grouping(jobs, gain, room, groups)
    if method == "auto":
        return _grouping(jobs, gain, room, *group_automatically(jobs, gain, room, begin, cache))
    effort = FULL_SEARCH if method == "local" else NO_SEARCH
    groups = group_in_rounds(jobs, room, gain, effort, begin, least_waste_first=least_waste_first)
    return _grouping(jobs, gain, room, groups)


def _grouping(
    jobs: Candidates,
    gain: bool,
    room: int,
    groups: list[list[int]],
    value: float | None = None,
    bound: float = math.inf,
) -> Grouping:
    times, efficiencies = jobs.rounds(groups)
    if value is None:
        value = float(jobs.values(groups, gain, times, efficiencies).sum())
    needed = int(jobs.gpus_of(groups).sum())
    excess = max(0, needed - room) if room else 0
    reason = _why_no_fewer(jobs, groups) if excess else ""
    return Grouping(groups, needed, times, efficiencies, value, bound, excess, reason)


def _why_no_fewer(jobs: Candidates, groups: list[list[int]]) -> str:
    """Why these groups do not merge: each reason with the number of its groups."""
    largest = len(jobs.factors)
    sizes = jobs.gpus_of(groups).tolist()
    alike = Counter(sizes)
    alone = sum(alike[size] == 1 for size in sizes)
    full = sum(
        alike[size] > 1 and len(group) == largest for size, group in zip(sizes, groups, strict=True)
    )
    parts = (
        (alone, "no other has their number of GPUs"),
        (full, f"max_group={largest} is reached"),
        (len(groups) - alone - full, "no merge was found that is worth it and within the limits"),
    )
    return "; ".join(f"{count} of {len(groups)} groups: {why}" for count, why in parts if count)
