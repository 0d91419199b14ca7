"""Muri's rounds with a caller's own weights: in Python, one call per bucket and round."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import as_numbers
from hivecore.matching import max_weight_matching
from hivecore.reference import interleaving as reference

__all__ = ["WeightFunction", "group_by_function"]

#: From groups of rows to what each is worth.
WeightFunction = Callable[[list[list[int]]], Sequence[float]]


def group_by_function(
    jobs: Candidates,
    weight: WeightFunction,
    capacity: int,
    merge_order: str,
    start: list[list[int]],
) -> list[list[int]]:
    """The groups; arguments are those of `group_jobs`, checked."""
    if not len(jobs):
        return []
    return reference.group_jobs(
        [tuple(row) for row in jobs.durations.tolist()],
        jobs.gpus.tolist(),
        capacity,
        matcher=_partners,
        max_group=len(jobs.factors),
        weight=partial(_worth, weight),
        model=jobs.model,
        order="best" if jobs.best else "worst",
        merge_order=merge_order,
        interference=jobs.factors.tolist(),
        solo=jobs.solo.tolist(),
        priorities=jobs.rank.tolist(),
        max_slowdown=jobs.max_slowdown,
        memory=jobs.memory.tolist(),
        gpu_memory=jobs.gpu_memory,
        start=start,
    )


def _worth(weight: WeightFunction, groups: list[list[int]]) -> list[float]:
    worth = as_numbers(weight(groups), "weight(groups)")
    if worth.shape != (len(groups),):
        raise ValueError(f"weight(groups) has shape {worth.shape}: there are {len(groups)} groups")
    if not np.isfinite(worth).all():
        raise ValueError("weight(groups) must be finite")
    found: list[float] = np.maximum(worth, 0.0).tolist()
    return found


def _partners(weights: Sequence[Sequence[float]]) -> list[int]:
    found: list[int] = max_weight_matching(np.array(weights)).mate.tolist()
    return found
