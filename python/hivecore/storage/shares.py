"""What was asked for, what is answered, and the numbers that prove it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hivecore.storage._numbers import Bool, Float64, Int64
from hivecore.storage.jobs import StorageJobs

__all__ = ["FillingStage", "Problem", "Shares", "StorageCertificate"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What was asked for, checked."""

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
    """One stage of max-min filling: all jobs not frozen yet rise to ``level``, then some freeze."""

    level: float
    """Each rises to its full rate, or to ``level * weight * reference``; infinite in a last stage
    in which nothing but the full rates holds them. For "finish_time" the level is the inverse of
    the ratio of finish times."""
    binding: Literal["remote_io", "gpus", "rate"]
    """Why not higher. "remote_io": even the cache that is best for these rates leaves a demand of
    the whole bandwidth; jobs whose dataset is not cached as a whole freeze. "gpus": all GPU time is
    used; jobs with GPUs freeze. "rate": all are at their full rates."""


@dataclass(frozen=True, slots=True, eq=False)
class StorageCertificate:
    """The numbers from which `StorageAllocation.verify` proves an allocation."""

    cache_multiplier: float
    """MB/s per GB: datasets of a greater efficiency are cached as a whole, of a smaller one not at
    all; 0 if capacity is left. It is the dual of the capacity, so also the MB/s that one more GB
    saves. (Bytes that are there already count as 1 + eps times as efficient.)"""
    io_level: float
    """The number of the io_mode. "priority": the first job, in policy order, that got less than its
    demand, or -1. "throughput": MB/s of rate that one more MB/s of remote IO gives, 0 if all demand
    is met. "maxmin_io": no job has more remote IO than this, in MB/s; infinite if all demand is
    met. "maxmin_rate": no job that needs remote IO is at more than ``level * weight * reference``;
    infinite likewise. "proportional": the share of its demand that each job has."""
    order: Int64
    """The running jobs in policy order."""
    method: str
    """How the cache was chosen. "greedy": by efficiency. "whole", "largest": whole datasets by
    efficiency, the latter with the largest possible total rate first. "exact": by search.
    "shortest": as the jobs needed it, the shortest first. "given": by the caller."""
    stages: tuple[FillingStage, ...] = ()
    """The stages of "max_min" and "finish_time"."""
    stage: Int64 | None = None
    """int64[n], the stage in which each job froze; -1 for a job without rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The numbers of a `StorageAllocation`, in the order of jobs and datasets."""

    cache_gb: Float64
    """float64[datasets], GB of each dataset to be cached."""
    remote_io_mbps: Float64
    """float64[jobs], MB/s of remote reads granted to each."""
    rates_mbps: Float64
    """float64[jobs], MB/s at which each job then reads (T)."""
    demand_mbps: Float64
    """float64[jobs], MB/s of remote reads with which the job would never stall, with this cache."""
    running: Bool
    """bool[jobs], which run; with a ``gpu_capacity``, "fifo" and "sjf" leave some waiting."""
    reference_mbps: Float64 | None
    """float64[jobs], MB/s with equal shares, where fairness asked for it."""
    bound_mbps: float
    """No allocation has a greater total of rates, in MB/s; infinite unless ``objective`` is
    "throughput"."""
    objective: str
    io_mode: str
    certificate: StorageCertificate
