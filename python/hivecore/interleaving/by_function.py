"""Muri's rounds with a weight function of the caller, one call per bucket and round."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import Float64, as_numbers
from hivecore.matching import max_weight_matching

__all__ = ["WeightFunction", "group_by_function"]

#: From groups of rows to their weights.
WeightFunction = Callable[[list[list[int]]], Sequence[float]]

_Group = list[int]
_Merge = tuple[float, int, int, int]  # waste, bucket, and the places of both groups


def group_by_function(
    jobs: Candidates, weight: WeightFunction, capacity: int, start: list[_Group]
) -> list[_Group]:
    """The groups; arguments are the checked ones of `group_jobs`."""
    begun = {min(group): group for group in start}
    elsewhere = {job for group in start for job in group} - begun.keys()
    buckets: dict[int, list[_Group]] = {}
    for job, gpus in enumerate(jobs.gpus.tolist()):
        if job not in elsewhere:
            buckets.setdefault(gpus, []).append(begun.get(job, [job]))
    excess = sum(gpus * len(groups) for gpus, groups in buckets.items()) - capacity
    for _ in range(len(jobs.factors)):
        if excess <= 0:
            break
        merges = [
            merge
            for gpus, groups in buckets.items()
            for merge in _matched(jobs, weight, gpus, groups)
        ]
        if not merges:
            break
        for _, gpus, u, v in sorted(merges, key=lambda merge: merge[0]):
            if excess > 0:
                groups = buckets[gpus]
                groups[u], groups[v] = [], groups[u] + groups[v]
                excess -= gpus
        for groups in buckets.values():
            groups[:] = [group for group in groups if group]
    return [group for groups in buckets.values() for group in groups]


def _matched(
    jobs: Candidates, weight: WeightFunction, gpus: int, groups: list[_Group]
) -> list[_Merge]:
    """The matched groups of a bucket, in the order of their later parts."""
    largest = len(jobs.factors)
    places = [
        (u, v)
        for u, first in enumerate(groups)
        for v, second in enumerate(groups)
        if u < v and len(first) + len(second) <= largest
    ]
    merged = [groups[u] + groups[v] for u, v in places]
    allowed = _allowed(jobs, merged)
    places = [place for place, fits in zip(places, allowed, strict=True) if fits]
    merged = [group for group, fits in zip(merged, allowed, strict=True) if fits]
    weights = np.zeros((len(groups), len(groups)))
    for (u, v), worth in zip(places, _worth(weight, merged), strict=True):
        weights[u, v] = weights[v, u] = worth
    mate = max_weight_matching(weights).mate.tolist()
    pairs = [(u, v) for v, u in enumerate(mate) if 0 <= u < v]
    efficiencies = _efficiencies(jobs, [groups[u] + groups[v] for u, v in pairs]).tolist()
    return [
        ((1 - efficiency) * gpus, gpus, u, v)
        for (u, v), efficiency in zip(pairs, efficiencies, strict=True)
    ]


def _allowed(jobs: Candidates, groups: list[_Group]) -> list[bool]:
    """Which groups fit into memory and do not slow their most urgent job down too much."""
    memory, rank = jobs.memory.tolist(), jobs.rank.tolist()
    fits = [sum(memory[job] for job in group) <= jobs.gpu_memory for group in groups]
    if math.isinf(jobs.max_slowdown):
        return fits
    urgent = [min(group, key=rank.__getitem__) for group in groups]
    limits = jobs.max_slowdown * jobs.solo[urgent]
    soon = _times(jobs, groups) <= limits
    return [fit and bool(early) for fit, early in zip(fits, soon, strict=True)]


def _times(jobs: Candidates, groups: list[_Group]) -> Float64:
    """Durations of rounds; equal for equal rows in any order, to the last bit."""
    by_row = np.empty(len(jobs), dtype=np.int64)
    by_row[np.lexsort(jobs.durations.T[::-1])] = np.arange(len(jobs))
    return jobs.rounds([sorted(group, key=by_row.__getitem__) for group in groups])[0]


def _efficiencies(jobs: Candidates, groups: list[_Group]) -> Float64:
    return jobs.efficiencies(groups, _times(jobs, groups))


def _worth(weight: WeightFunction, groups: list[_Group]) -> list[float]:
    worth = as_numbers(weight(groups), "weight(groups)")
    if worth.shape != (len(groups),):
        raise ValueError(f"weight(groups) has shape {worth.shape}: there are {len(groups)} groups")
    if not np.isfinite(worth).all():
        raise ValueError("weight(groups) must be finite")
    weights: list[float] = np.maximum(worth, 0.0).tolist()
    return weights
