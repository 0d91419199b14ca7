"""A question, its answer, and the numbers that prove it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hivecore.storage._numbers import Bool, Float64, Int64
from hivecore.storage.jobs import StorageJobs

__all__ = ["FillingStage", "Problem", "Shares", "StorageCertificate"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The question, checked."""

    jobs: StorageJobs
    dataset: Int64
    size: Float64
    current: Float64 | None
    last_use: Float64 | None
    cache: float
    bandwidth: float
    gpu_capacity: float
    eps: float
    dataset_names: tuple[Hashable, ...] | None


class FillingStage(NamedTuple):
    """A stage of max-min filling: all jobs not frozen yet rise to ``level``, then some freeze."""

    level: float
    """Each job rises to its full rate, or to ``level * weight * reference``; infinite in a last
    stage that only full rates limit. For "finish_time" the level is the inverse of the ratio of
    finish times.
    """
    binding: Literal["remote_io", "gpus", "rate"]
    """The limit. "remote_io": even the best cache for these rates leaves a demand of the whole
    bandwidth; jobs whose dataset is not fully cached freeze. "gpus": all GPU time is used; jobs
    with GPUs freeze. "rate": all jobs are at their full rates.
    """


@dataclass(frozen=True, slots=True, eq=False)
class StorageCertificate:
    """The numbers from which `StorageAllocation.verify` proves an allocation."""

    cache_multiplier: float
    """MB/s per GB: datasets with a greater efficiency are fully cached, those with a smaller one
    not at all; 0 if capacity is left. As the dual of the capacity, it is the MB/s that another GB
    saves. (Cached bytes count as 1 + eps times as efficient.)
    """
    io_level: float
    """The number that proves the io_mode. "priority": the first job, in policy order, that got less
    than its demand, or -1. "throughput": MB/s of rate that another MB/s of remote IO gives, 0 if
    all demand is met. "maxmin_io": the most remote IO of a job, in MB/s; infinite if all demand is
    met. "maxmin_rate": no job that needs remote IO exceeds ``level * weight * reference``; infinite
    likewise. "proportional": the fraction of its demand that each job has.
    """
    order: Int64
    """The running jobs in policy order."""
    method: str
    """How the cache was chosen. "greedy": by efficiency. "whole", "largest": whole datasets by
    efficiency, the latter with the largest total rate first. "exact": by search. "shortest": as
    needed by the jobs, the shortest first. "given": by the caller.
    """
    stages: tuple[FillingStage, ...] = ()
    """The stages of "max_min" and "finish_time"."""
    stage: Int64 | None = None
    """int64[n], the stage in which each job froze; -1 for a job without rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The numbers of a `StorageAllocation`, in the order of jobs and datasets."""

    cache_gb: Float64
    """float64[datasets], GB to cache of each dataset."""
    remote_io_mbps: Float64
    """float64[jobs], MB/s of remote reads granted to each."""
    rates_mbps: Float64
    """float64[jobs], MB/s that each job reaches (T)."""
    demand_mbps: Float64
    """float64[jobs], MB/s of remote reads with which the job would never stall, with this cache."""
    running: Bool
    """bool[jobs]; with a ``gpu_capacity``, "fifo" and "sjf" leave some jobs waiting."""
    reference_mbps: Float64 | None
    """float64[jobs], MB/s with equal shares, if fairness needed it."""
    bound_mbps: float
    """An upper bound of every allocation's total rate, in MB/s; infinite unless ``objective`` is
    "throughput".
    """
    objective: str
    io_mode: str
    certificate: StorageCertificate
