"""Jobs that may share GPUs, as checked arrays for the kernel."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hivecore import _interleaving
from hivecore._arguments import as_choice, as_float, as_int
from hivecore._quantities import as_units
from hivecore.interleaving.durations import (
    MAX_DURATION,
    ORDERS,
    Float64,
    Groups,
    Int32,
    Int64,
    KernelModel,
    Order,
    as_durations,
    as_groups,
    as_numbers,
    flat,
    slots_of,
)

__all__ = ["MAX_MEMORY", "Candidates"]

_MAX_GPUS = 2**31
# Eight of them add up to an int64, and the time of a round of the longest stages to a float.
MAX_MEMORY = 2**59
_MAX_FACTOR = 1e6
_ROUNDED = 1 + 1e-12  # sums differ so much by the order of their terms


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The jobs, and the settings by which they form groups."""

    durations: Float64
    gpus: Int64
    solo: Float64
    rank: Int64
    memory: Int64
    model: KernelModel
    best: bool
    factors: Float64
    """Interference by the number of jobs in a group, from 1 on."""
    gpu_memory: int
    max_slowdown: float

    @classmethod
    def of(
        cls,
        durations: Any,
        gpus: Any,
        *,
        max_group: int | None = None,
        model: KernelModel = "barrier",
        order: Order = "best",
        interference: Any = None,
        solo: Any = None,
        priorities: Any = None,
        max_slowdown: float | None = None,
        memory: Any = None,
        gpu_memory: int | str | None = None,
    ) -> Self:
        """The checked arguments of `group_jobs`, or a TypeError or ValueError that names one.

        :param model: checked already.
        :param order: which order of a group is taken.
        :param solo: (n,) time of an iteration of each job alone; by default the sum of its stages.
        """
        rows = as_durations(durations, model)
        jobs, slots = len(rows), slots_of(rows, model)
        largest = slots if max_group is None else as_int(max_group, "max_group", 1, slots)
        if (memory is None) != (gpu_memory is None):
            raise ValueError("memory and gpu_memory go together")
        room = (
            MAX_MEMORY if gpu_memory is None else as_units(gpu_memory, "gpu_memory", 0, MAX_MEMORY)
        )
        need = _integers(np.zeros(jobs, int) if memory is None else memory, "memory", jobs, 0, room)
        return cls(
            durations=rows,
            gpus=_integers(gpus, "gpus", jobs, 1, _MAX_GPUS),
            solo=rows.cumsum(axis=1)[:, -1].copy() if solo is None else _times(solo, "solo", jobs),
            rank=_rank(priorities, jobs),
            memory=need,
            model=model,
            best=as_choice(order, "order", ORDERS) == "best",
            factors=_factors(interference, largest),
            gpu_memory=room,
            max_slowdown=_slowdown(max_slowdown),
        )

    def __len__(self) -> int:
        return len(self.durations)

    def start_of(self, groups: Any) -> Groups:
        """The checked groups to begin with; an error names what is wrong."""
        start = as_groups([] if groups is None else groups, len(self), len(self.factors), "start")
        jobs, places = np.unique(start.members, return_index=True)
        if len(jobs) < len(start.members):
            again = np.delete(start.members, places)[0]
            raise ValueError(f"start has job {again} in two groups")
        first = np.repeat(start.members[start.starts[:-1]], np.diff(start.starts))
        unlike = self.gpus[start.members] != self.gpus[first]
        if unlike.any():
            g = int(start.starts.searchsorted(unlike.argmax(), side="right")) - 1
            raise ValueError(f"start[{g}] has jobs that need different numbers of GPUs")
        return start

    def rounds(self, groups: list[list[int]]) -> tuple[Float64, Float64]:
        """The time of a round and the efficiency of each group."""
        starts, members = flat(groups)
        times, *_ = _interleaving.rounds(self.durations, starts, members, self.model, self.best)
        sizes = np.diff(starts)
        times = times * self.factors[sizes - 1]
        alone = sizes == 1
        times[alone] = self.solo[members[starts[:-1][alone]]]
        return times, self._shares(starts, members, times)

    def efficiencies(self, groups: list[list[int]], times: Float64) -> Float64:
        """The part of the time that the resources are busy, of each group with these times.

        Rounds by "artifact" may be too short, so that it can exceed 1.
        """
        return self._shares(*flat(groups), times)

    def _shares(self, starts: Int64, members: Int32, times: Float64) -> Float64:
        numbers = np.repeat(np.arange(len(times)), np.diff(starts))
        busy = np.bincount(numbers, self.durations.sum(axis=1)[members])
        with np.errstate(over="ignore"):  # solo times may be anything
            share = busy / (times * slots_of(self.durations, self.model))
        return share if self.model == "artifact" else np.minimum(share, 1.0)

    def progress(self, groups: list[list[int]], times: Float64) -> Float64:
        """The progress of each group, in jobs that run alone, by the times of its rounds."""
        return np.array([self.solo[group].sum() for group in groups], dtype=np.float64) / times

    def values(
        self, groups: list[list[int]], gain: bool, times: Float64, efficiencies: Float64
    ) -> Float64:
        """GPUs times efficiency, or times progress, of each group."""
        return self.gpus_of(groups) * (self.progress(groups, times) if gain else efficiencies)

    def gpus_of(self, groups: list[list[int]]) -> Int64:
        """The GPUs of each group."""
        return self.gpus[[group[0] for group in groups]]


def _one_per_job(values: Any, name: str, jobs: int) -> Float64:
    numbers = as_numbers(values, name)
    if numbers.shape != (jobs,):
        raise ValueError(f"{name} has shape {numbers.shape}: there are {jobs} jobs")
    return numbers


def _integers(values: Any, name: str, jobs: int, low: int, high: int) -> Int64:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    if array.shape != (jobs,):
        raise ValueError(f"{name} has shape {array.shape}: there are {jobs} jobs")
    wrong = (array < low) | (array > high)
    if wrong.any():
        job = int(wrong.argmax())
        raise ValueError(f"{name}[{job}]={array[job]}: allowed are {low} to {high}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _times(values: Any, name: str, jobs: int) -> Float64:
    times = _one_per_job(values, name, jobs)
    wrong = ~((times > 0) & (times <= MAX_DURATION))
    if wrong.any():
        job = int(wrong.argmax())
        raise ValueError(
            f"{name}[{job}]={times[job]}: must be positive and at most {MAX_DURATION:g}"
        )
    return times


def _rank(priorities: Any, jobs: int) -> Int64:
    """The place of each job in the order of priority; ties: the first row."""
    rank = np.arange(jobs)
    if priorities is not None:
        order = _one_per_job(priorities, "priorities", jobs)
        if np.isnan(order).any():
            raise ValueError(f"priorities[{int(np.isnan(order).argmax())}] is not a number")
        rank[np.argsort(order, kind="stable")] = np.arange(jobs)
    return rank


def _factors(interference: Any, largest: int) -> Float64:
    if interference is None:
        return np.ones(largest)
    factors = as_numbers(interference, "interference")
    if factors.ndim != 1 or len(factors) < largest:
        raise ValueError(f"interference must have a factor for each of 1 to {largest} jobs")
    if not ((factors >= 1) & (factors <= _MAX_FACTOR)).all() or factors[0] != 1:
        raise ValueError(f"interference must be 1 for one job, and 1 to {_MAX_FACTOR:g} for more")
    return factors[:largest].copy()


def _slowdown(factor: Any) -> float:
    if factor is None:
        return math.inf
    number = as_float(factor, "max_slowdown")
    if not number >= 1:
        raise ValueError(f"max_slowdown={number}: must be at least 1")
    return number * _ROUNDED
