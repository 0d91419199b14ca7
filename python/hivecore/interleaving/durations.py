"""Arguments of this subject: stage durations, groups of jobs, and names of models."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_tuple

__all__ = [
    "MAX_DURATION",
    "MODELS",
    "ORDERS",
    "Float64",
    "Groups",
    "Int32",
    "Int64",
    "KernelModel",
    "Model",
    "Order",
    "as_durations",
    "as_groups",
    "as_numbers",
    "flat",
    "slots_of",
]

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Model = Literal["barrier", "data2"]
Order = Literal["best", "worst"]

KernelModel = Literal["barrier", "data2", "artifact"]
"""The kernel also has the recurrence of the simulator of Muri's authors, to repeat their figures.
It ends before the steady state, so times may be too short."""

MODELS: tuple[str, ...] = ("barrier", "data2")
"""The models that a caller may name."""
ORDERS: tuple[str, ...] = ("best", "worst")
"""Which order of a group is taken."""
MAX_DURATION = 1e300
"""The longest stage, so that no sum overflows."""

_MAX_SLOTS = 8
_MAX_JOBS = 2**24
_FOUR_SLOTS, _COLUMNS = 4, 3


class Groups(NamedTuple):
    """Group g is ``members[starts[g]:starts[g + 1]]``."""

    starts: Int64
    members: Int32

    def lists(self) -> list[list[int]]:
        """Each group as a list."""
        jobs, ends = self.members.tolist(), self.starts.tolist()
        return [jobs[first:end] for first, end in pairwise(ends)]


def as_numbers(values: Any, name: str) -> Float64:
    """The numbers as float64, or a TypeError or ValueError that names the argument."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"{name} must hold integers or floats, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def as_durations(values: Any, model: str, name: str = "durations") -> Float64:
    """The stage durations (jobs, columns), or a TypeError or ValueError that names the argument."""
    rows = as_numbers(values, name)
    if rows.shape == (0,):  # of no jobs: the number of columns is unknown
        rows = rows.reshape(0, _COLUMNS)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have a row per job and a column per resource")
    jobs, columns = rows.shape
    if model != "barrier" and columns != _COLUMNS:
        raise ValueError(f"{name} has {columns} columns: model {model!r} needs data, GPU, network")
    if not 2 <= columns <= _MAX_SLOTS:
        raise ValueError(f"{name} has {columns} columns: allowed are 2 to {_MAX_SLOTS}")
    if jobs > _MAX_JOBS:
        raise ValueError(f"{name} has {jobs} rows: allowed are at most {_MAX_JOBS}")
    fine = (rows >= 0) & (rows <= MAX_DURATION)
    if not fine.all():
        job, column = divmod(int(fine.argmin()), columns)
        raise ValueError(
            f"{name}[{job}, {column}]={rows[job, column]}: allowed are 0 to {MAX_DURATION:g}"
        )
    idle = ~rows.any(axis=1)
    if idle.any():
        raise ValueError(f"{name}[{int(idle.argmax())}] is all zero: every job needs a stage")
    return rows


def slots_of(rows: Float64, model: str) -> int:
    """The most jobs of a group, each in a slot of its own."""
    return rows.shape[1] if model == "barrier" else _FOUR_SLOTS


def as_groups(groups: Any, jobs: int, slots: int, name: str = "groups") -> Groups:
    """The groups, or a TypeError or ValueError that names the argument."""
    lists: Any
    is_table = isinstance(groups, np.ndarray) and groups.ndim == 2
    if is_table:
        lists = np.asarray(groups)  # a row of a matrix would be a matrix
    else:
        lists = [as_tuple(group, f"{name}[{g}]") for g, group in enumerate(as_tuple(groups, name))]
    sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    wrong = (sizes < 1) | (sizes > slots)
    if wrong.any():
        g = int(wrong.argmax())
        raise ValueError(f"{name}[{g}] has {sizes[g]} jobs: allowed are 1 to {slots}")
    members = np.asarray(lists if is_table else [*chain.from_iterable(lists)]).reshape(-1)
    if members.dtype.kind not in "iu" and members.size:
        raise TypeError(f"{name} must hold integers, not {members.dtype}")
    outside = (members < 0) | (members >= jobs)
    if outside.any():
        place = int(outside.argmax())
        g = int(sizes.cumsum().searchsorted(place, side="right"))
        raise ValueError(f"{name}[{g}] has job {members[place]}: allowed are 0 to {jobs - 1}")
    starts = np.concatenate([[0], sizes.cumsum()])
    for size in range(2, slots + 1):
        numbers = np.flatnonzero(sizes == size)
        sorted_jobs = np.sort(members[starts[numbers, None] + np.arange(size)], axis=1)
        again = (np.diff(sorted_jobs, axis=1) == 0).any(axis=1)
        if again.any():
            raise ValueError(f"{name}[{numbers[again.argmax()]}] names a job twice")
    return Groups(starts, members.astype(np.int32))


def flat(groups: Sequence[Sequence[int]]) -> Groups:
    """The groups as arrays."""
    starts = np.zeros(len(groups) + 1, dtype=np.int64)
    np.cumsum([len(group) for group in groups], out=starts[1:])
    return Groups(starts, np.array([job for group in groups for job in group], dtype=np.int32))
