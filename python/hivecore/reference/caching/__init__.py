"""Twins of `hivecore.caching`, in plain Python."""

# --- storage ---
# --- uniform ---
# --- policies ---
# --- replicas ---
from hivecore.reference.caching.limiter import RemoteIOLimiter
from hivecore.reference.caching.replica_cache import ReplicaAwareCache
from hivecore.reference.caching.replica_directory import ReplicaDirectory
from hivecore.reference.caching.storage import (
    cache_for_rate,
    remote_io_demand,
    solve_storage,
    throughput,
)

__all__ = [
    "RemoteIOLimiter",
    "ReplicaAwareCache",
    "ReplicaDirectory",
    "cache_for_rate",
    "remote_io_demand",
    "solve_storage",
    "throughput",
]
