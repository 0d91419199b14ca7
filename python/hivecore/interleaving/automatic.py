"""Method "auto": optimal groups if there are few kinds of groups, else good ones."""

import math
from collections import Counter

import numpy as np

from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import Groups
from hivecore.interleaving.exact import GroupingCache, group_exactly
from hivecore.interleaving.in_rounds import NO_SEARCH, group_in_rounds

__all__ = ["SHORT_SEARCH", "count_kinds", "group_automatically"]

SHORT_SEARCH = 2**20
"""How many orders of jobs a local search may try: some hundredths of a second."""

# Kinds of groups, of all jobs: 16 different rows of four resources, some hundredths of a second.
_MAX_KINDS = 5000
# Programs after which a proof is not tried further: some hundredths of a second.
_NODES = 200
# Limits of dividing GPUs among buckets: numbers of GPUs times jobs, and times buckets.
_MAX_STEPS = 2**26
_MAX_PLACES = 2**20
# Rounding of values.
_TOLERANCE = 1e-9

_Found = tuple[list[list[int]], float | None, float]


def group_automatically(
    jobs: Candidates,
    gain: bool,
    capacity: int,
    start: Groups,
    cache: GroupingCache | None,
) -> _Found:
    """The groups, their value if it is known, and an upper bound of the value.

    Arguments are the checked ones of `group_jobs`. The method depends on counts alone.
    """
    grown = len(start.members) > 0
    if not grown and capacity >= int(jobs.gpus.sum()):
        return _in_rounds(jobs, gain, capacity, start, NO_SEARCH)
    # Without a capacity "exact" makes as few groups as it can, even by merges without a gain.
    if grown or (gain and not capacity) or not _is_small(jobs, capacity):
        return _in_rounds(jobs, gain, capacity, start, SHORT_SEARCH)
    try:
        groups, value, bound = group_exactly(jobs, None, gain, capacity, _NODES, cache)
    except ValueError:  # values too small or too large for its arithmetic
        return _in_rounds(jobs, gain, capacity, start, SHORT_SEARCH)
    if gain and _merges_at_a_loss(jobs, groups):
        return _in_rounds(jobs, gain, capacity, start, SHORT_SEARCH)
    if bound > value:
        other, *_ = _in_rounds(jobs, gain, capacity, start, SHORT_SEARCH)
        if jobs.gpus_of(other).sum() <= max(capacity, jobs.gpus_of(groups).sum()):
            other_value = float(jobs.values(other, gain, *jobs.rounds(other)).sum())
            if other_value > value:
                return other, other_value, bound
    return groups, value, bound


def _in_rounds(jobs: Candidates, gain: bool, capacity: int, start: Groups, effort: int) -> _Found:
    groups = group_in_rounds(jobs, capacity, gain, effort, start)
    return groups, None, math.inf


def _is_small(jobs: Candidates, capacity: int) -> bool:
    """Whether the exact program has few columns, and few ways to divide GPUs among buckets."""
    sizes = np.unique(jobs.gpus)
    demand = int(jobs.gpus.sum())
    fewest = -(-demand // len(jobs.factors))
    steps = min(max(capacity, fewest), demand) // int(np.gcd.reduce(sizes))
    # The last bucket gets the rest.
    if steps * len(sizes) > _MAX_PLACES or steps * len(jobs) * (len(sizes) > 1) > _MAX_STEPS:
        return False
    return count_kinds(jobs, _MAX_KINDS) <= _MAX_KINDS


def count_kinds(jobs: Candidates, enough: int) -> int:
    """How many kinds of groups there may be, ignoring memory; may stop above ``enough``.

    With ``max_slowdown`` priorities matter, so that each job is a type of its own.
    """
    # Bit patterns: integers of 59 bits are no floats.
    columns = [jobs.gpus, jobs.solo.view(np.int64), jobs.memory]
    columns.extend(jobs.durations.view(np.int64).T)
    if math.isfinite(jobs.max_slowdown):
        columns.append(np.arange(len(jobs)))
    rows = np.ascontiguousarray(np.column_stack(columns))
    types = Counter(rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist())
    largest = len(jobs.factors)
    # Of each bucket, multisets by their number of jobs.
    multisets: dict[bytes, list[int]] = {}
    kinds = 0
    for row, count in types.items():
        ways = multisets.setdefault(row[: rows.itemsize], [1] + [0] * largest)
        before = sum(ways)
        ways[:] = [sum(ways[max(0, p - count) : p + 1]) for p in range(largest + 1)]
        kinds += sum(ways) - before
        if kinds > enough:
            break
    return kinds


def _merges_at_a_loss(jobs: Candidates, groups: list[list[int]]) -> bool:
    """Whether a group would progress faster as two groups in turns: "gain" does not merge these."""
    alike = {
        (*jobs.durations[group].ravel().tolist(), *jobs.solo[group].tolist()): group
        for group in groups
    }
    parts, wholes = [], []
    for group in alike.values():
        for mask in range(1, 2 ** (len(group) - 1)):
            second = [job for place, job in enumerate(group) if mask >> place & 1]
            parts += [[job for job in group if job not in second], second]
            wholes.append(group)
    if not wholes:
        return False
    together = jobs.progress(wholes, jobs.rounds(wholes)[0])
    in_turns = jobs.progress(parts, jobs.rounds(parts)[0]).reshape(-1, 2).mean(axis=1)
    return bool((together < in_turns * (1 - _TOLERANCE)).any())
