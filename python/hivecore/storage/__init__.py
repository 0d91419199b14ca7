"""Storage: cache and remote IO divided among jobs, a limiter, nodes near cached data."""

from hivecore._storage import RemoteIOLimiter, greedy_cache
from hivecore.storage.allocation import (
    JobShare,
    StorageAllocation,
    allocate_storage,
    ration_remote_io,
    reclaim_order,
)
from hivecore.storage.jobs import StorageJobs
from hivecore.storage.performance import (
    cache_efficiency,
    cache_for_rate,
    remote_io_demand,
    throughput,
)
from hivecore.storage.placement import Bandwidths, Placement, epoch_cost, place_near_data
from hivecore.storage.shares import FillingStage, StorageCertificate

__all__ = [
    "Bandwidths",
    "FillingStage",
    "JobShare",
    "Placement",
    "RemoteIOLimiter",
    "StorageAllocation",
    "StorageCertificate",
    "StorageJobs",
    "allocate_storage",
    "cache_efficiency",
    "cache_for_rate",
    "epoch_cost",
    "greedy_cache",
    "place_near_data",
    "ration_remote_io",
    "reclaim_order",
    "remote_io_demand",
    "throughput",
]
