"""The best order of the jobs of a group, the duration of a round, and its efficiency."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore import _interleaving
from hivecore._arguments import as_choice
from hivecore._record import Record
from hivecore.interleaving.durations import (
    MODELS,
    ORDERS,
    Float64,
    KernelModel,
    Model,
    Order,
    as_durations,
    as_groups,
    slots_of,
)

__all__ = ["Interleaving", "efficiencies", "interleave", "interleave_as"]


class Interleaving(Record, frozen=True):
    """The order in which the jobs of a group use the resources.

    >>> interleave([[2.0, 1.0], [3.0, 1.0]])
    Interleaving(offsets=(0, 1), iteration_time=5.0, efficiency=0.7)
    """

    offsets: tuple[int, ...]
    """How many slots each job is behind the first one."""
    iteration_time: float
    """The duration of a round, in which every job does one iteration, in the unit of durations."""
    efficiency: float
    """The part of the time that the resources are busy, from 0 to 1."""


def interleave(durations: Any, *, model: Model = "barrier", order: Order = "best") -> Interleaving:
    """The best order of the jobs of one group.

    :param durations: (p, k) stage durations in any unit, 0 to 1e300: how long an iteration of each
        of p jobs keeps each of k resources busy, in the cyclic order of use.
    :param model: "barrier": k = 2 to 8 and p <= k; in each of k slots all jobs wait for the longest
        stage. "data2": three columns (storage and CPU, GPU, network) and p <= 4; a data stage takes
        two of four slots, and the time is that of the steady state.
    :param order: "worst": the worst order, for comparison.
    :raises ValueError: a shape or a duration is not allowed, a job has no stage, or a name is
        unknown.
    :raises TypeError: durations are no numbers.

    All (k-1)! / (k-p)! orders are tried, except those that cannot be the best. Of orders whose
    times differ by less than 1e-12, relatively, the one with the lexicographically smallest offsets
    is taken. Source: Muri (SIGCOMM'22), equations 1 to 4.

    >>> four = [[4, 3, 2, 1], [1, 4, 3, 2], [2, 1, 4, 3], [3, 2, 1, 4]]
    >>> interleave(four)
    Interleaving(offsets=(0, 3, 2, 1), iteration_time=10.0, efficiency=1.0)
    >>> interleave(four, order="worst").iteration_time
    15.0
    """
    as_choice(model, "model", MODELS)
    return interleave_as(durations, model, order)


def interleave_as(durations: Any, model: KernelModel, order: Order) -> Interleaving:
    """`interleave` for any model of the kernel."""
    rows = as_durations(durations, model)
    as_choice(order, "order", ORDERS)
    slots = slots_of(rows, model)
    if not 1 <= len(rows) <= slots:
        raise ValueError(f"durations has {len(rows)} rows: allowed are 1 to {slots} jobs")
    members = np.arange(len(rows), dtype=np.int32)
    time, efficiency, offsets = _interleaving.rounds(
        rows, np.array([0, len(rows)]), members, model, order == "best"
    )
    return Interleaving(tuple(offsets.tolist()), float(time[0]), float(efficiency[0]))


def efficiencies(
    durations: Any,
    groups: Sequence[Sequence[int]] | npt.NDArray[np.integer[Any]] | None = None,
    *,
    model: Model = "barrier",
    order: Order = "best",
) -> Float64:
    """The efficiencies of groups of jobs in their best order.

    :param durations: (n, k) stage durations of n jobs, as in `interleave`.
    :param groups: lists of 1 to k different rows, or an integer array with a group in each row; by
        default all pairs.
    :param model, order: as in `interleave`.
    :returns: float64[len(groups)], or float64[n, n] for all pairs: symmetric, each job alone on the
        diagonal.
    :raises ValueError, TypeError: as `interleave` does, or a group is empty or too large, or names
        an unknown job or a job twice.

    Cost: O(n^2 k^2) for pairs; at worst O((k-1)! / (k-p)!) for a group of p jobs.

    >>> efficiencies([[2, 1], [1, 2], [3, 0]]).tolist()
    [[0.5, 1.0, 0.6], [1.0, 0.5, 0.75], [0.6, 0.75, 0.5]]
    >>> efficiencies([[2, 1], [1, 2], [3, 0]], groups=[[0, 1], [2]]).tolist()
    [1.0, 0.5]
    """
    as_choice(model, "model", MODELS)
    rows = as_durations(durations, model)
    best = as_choice(order, "order", ORDERS) == "best"
    if groups is None:
        return _interleaving.pairs(rows, model, best)
    starts, members = as_groups(groups, len(rows), slots_of(rows, model))
    return _interleaving.rounds(rows, starts, members, model, best)[1]
