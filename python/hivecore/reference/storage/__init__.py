"""Twins of `hivecore.storage`, in plain Python."""

from hivecore.reference.storage.allocation import (
    cache_for_rate,
    greedy_cache,
    remote_io_demand,
    solve_storage,
    throughput,
)
from hivecore.reference.storage.limiter import RemoteIOLimiter

__all__ = [
    "RemoteIOLimiter",
    "cache_for_rate",
    "greedy_cache",
    "remote_io_demand",
    "solve_storage",
    "throughput",
]
