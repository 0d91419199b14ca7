"""Which jobs share GPUs: the call `group_jobs` and its result."""

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

    >>> found = group_jobs([[2, 1], [2, 1], [1, 2]], gpus=[4, 4, 4], capacity=8)
    >>> found.groups, found.gpus, found.iteration_times.tolist(), found.gap
    ([[0, 2], [1]], 8, [3.0, 3.0], 0.0)
    >>> found = group_jobs([[2, 1], [1, 2], [2, 1]], gpus=[4, 8, 16], capacity=24)
    >>> found.excess, found.reason
    (4, '3 of 3 groups: no other has their number of GPUs')
    """

    groups: list[list[int]]
    """The jobs of each group; every job is in one, but for optional ones."""
    gpus: int
    """How many GPUs all groups need together; see `excess`."""
    iteration_times: Float64
    """float64[groups], how long a round of each takes."""
    efficiencies: Float64
    """float64[groups], the share of time that its resources are busy."""
    value: float
    """The sum over groups of GPUs times efficiency, or times progress if ``weight`` is "gain"."""
    bound: float
    """No groups within the capacity have a greater value, but for rounding (1e-10 of the value);
    equal to the value where these are the best, infinite where nothing was proved."""
    excess: int = 0
    """How many GPUs the groups need beyond the capacity: so many have to wait. 0: they fit."""
    reason: str = ""
    """Why no fewer GPUs do, where there is an excess."""

    @property
    def gap(self) -> float:
        """How much better, relatively, other groups may be; 0.0 where these are the best."""
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
    gpu_memory: int | None = None,
    start: Sequence[Sequence[int]] | None = None,
    optional: Any = None,
    node_limit: int = NODE_LIMIT,
    cache: GroupingCache | None = None,
) -> Grouping:
    """Return groups of jobs that share GPUs, each on another resource at a time.

    :param durations: (n, k) stage durations of n jobs, as for `interleave`; n may be 0.
    :param gpus: int[n], GPUs that each job needs. Only jobs that need equally many share them.
    :param capacity: GPUs of the cluster. Jobs are merged only while all groups together need more
        than that ("exact" also merges where the value rises); by default as long as any merge is
        possible. Where the groups need more GPUs when no merge is left, the result says so:
        `Grouping.excess`, `Grouping.reason`. Which of them wait is for the caller to decide.
    :param max_group: jobs in a group at most, 1 to k (4 for the models of three columns), which is
        the default.
    :param method: "muri": rounds of matchings of the greatest weight. In each, a bucket's groups,
        at first single jobs, are matched, and matched groups merge: first those that waste least,
        (1 - efficiency) * GPUs, of equal ones the first bucket and then the matched group whose
        later part comes first. "local": the groups of "muri",
        made better by small steps until none is left: two groups share their jobs out anew, or one
        splits while GPUs are left or two others merge. What rises is the sum over groups of GPUs
        times efficiency, or of GPUs times progress (how many jobs' worth a group makes) if
        ``weight`` is "gain"; it cannot be a function then. "exact": the groups for which that sum
        is the greatest, with a proof; where even the tightest groups need more GPUs than there
        are, among those that need as few as possible (matchings may stop short of that: three pairs
        do not make two groups of three). It is quick for up to about ten different
        rows per number of GPUs, and refuses more than 50,000 kinds of groups.
        "auto": "exact" up to 5,000 kinds of groups in all (about 16 different rows of four stages),
        with a low limit of programs; else "local" with limited effort. So it exceeds the capacity
        by no more than "muri", and the sum is no less unless more of the capacity is kept. Jobs
        that find GPUs enough stay alone; with "gain", groups that would get ahead faster in turns
        are not made, so that they may need more than the capacity; and where ``weight`` is a
        function, it is "muri".
    :param weight: of a merge. "efficiency": that of the merged group. "gain": the progress of the
        merged group, in jobs that run alone, less that of the two groups in turns;
        merges without a gain are not made, gains beyond 8 count as 8. Or a function from a list of
        groups, each a list of rows, to their weights, of which those above 0 count; it is called
        once per bucket and round, and the rounds then run in Python.
    :param model: as for `interleave`.
    :param interference: factors by which rounds of 1, 2, ... jobs take longer than by their stages;
        the first one is 1, the others 1 to 1e6.
    :param priorities: (n,) small numbers are urgent, of equal ones the first row; by default the
        order of the rows. Only ``max_slowdown`` needs them.
    :param max_slowdown: of the most urgent job of each group: no round takes longer than this
        factor times the sum of its stages.
    :param memory, gpu_memory: what each job needs on each of its GPUs, and what a GPU has: the jobs
        of a group fit into it together. Integers in any unit, up to 2^59.
    :param start: groups of rows to begin with, of equal GPUs each, not for "exact". They merge, but
        only "local" and "auto" part them; limits hold for merges, not for them.
    :param optional: bool[n], rows that "exact" may leave without a group.
    :param node_limit: programs that "exact" solves per bucket and number of groups, large ones
        counting as several, before it takes the best groups that were found; ``bound`` then says
        how much better others may be. The default is a second or two.
    :param cache: results of earlier calls of "auto" and "exact".
    :returns: the groups, bucket after bucket in the order of their first rows.
    :raises ValueError: as `interleave`; an argument of another length, a number out of range, or an
        unknown name.
    :raises TypeError: an argument that is not a number, or not an integer where one is needed.

    Equal rows are computed once. Every matching is of maximum weight, efficiencies counted in
    units of 2^-56 and gains of 2^-54; of equally heavy ones always the same is taken. Cost: at
    most max_group rounds, each O(b^3) at the worst for buckets of b groups. Memory is O(b^2) up to
    4,096 groups, and beyond O(b) with barriers unless very many rows are nearly equal; there
    another of equally heavy matchings may be taken. What
    "auto" adds to that is some hundredths of a second at most for up to four jobs in a group.
    Source: Muri (SIGCOMM'22), section 4.2.

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
    """`group_jobs` of jobs that have been checked, whatever their model and times alone.

    :param least_waste_first: for "muri" and "local"; otherwise groups merge bucket after bucket.
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
    """Why these groups do not merge, by how many of them each reason holds for."""
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
