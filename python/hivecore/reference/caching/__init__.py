"""Twins of `hivecore.caching`, in plain Python."""

from hivecore.reference.caching.clairvoyant import ClairvoyantCache
from hivecore.reference.caching.fluid import FluidStorage, greedy_cache
from hivecore.reference.caching.limiter import RemoteIOLimiter
from hivecore.reference.caching.policies import PolicyCache, simulate
from hivecore.reference.caching.replica_cache import ReplicaAwareCache
from hivecore.reference.caching.replica_directory import ReplicaDirectory
from hivecore.reference.caching.shuffles import EpochShuffle
from hivecore.reference.caching.storage import (
    cache_for_rate,
    remote_io_demand,
    solve_storage,
    throughput,
)
from hivecore.reference.caching.uniform import UniformCache
from hivecore.reference.caching.uniform_mapping import UniformMapping

__all__ = [
    "ClairvoyantCache",
    "EpochShuffle",
    "FluidStorage",
    "PolicyCache",
    "RemoteIOLimiter",
    "ReplicaAwareCache",
    "ReplicaDirectory",
    "UniformCache",
    "UniformMapping",
    "cache_for_rate",
    "greedy_cache",
    "remote_io_demand",
    "simulate",
    "solve_storage",
    "throughput",
]
