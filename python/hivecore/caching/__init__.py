"""Caching: uniform caches, cache and remote IO as resources, reference policies, replicas."""

from hivecore._caching import (
    ClairvoyantCache,
    EpochShuffle,
    FluidStorage,
    PolicyCache,
    RemoteIOLimiter,
    ReplicaAwareCache,
    ReplicaDirectory,
    UniformCache,
    greedy_cache,
    simulate,
)
from hivecore.caching.hit_ratio_curves import CurveAllocation, HitRatioCurve, allocate_by_curves
from hivecore.caching.hit_ratios import expected_hit_ratio
from hivecore.caching.peers import PeerCacheModel, peer_cache_model
from hivecore.caching.performance import (
    cache_efficiency,
    cache_for_rate,
    remote_io_demand,
    throughput,
)
from hivecore.caching.placement import (
    Bandwidths,
    CopyAdvice,
    Placement,
    copy_replicas,
    epoch_cost,
    place_near_data,
    wait_for_locality,
)
from hivecore.caching.storage import allocate_storage, ration_remote_io, reclaim_order
from hivecore.caching.storage_allocation import JobShare, StorageAllocation
from hivecore.caching.storage_jobs import StorageJobs
from hivecore.caching.storage_shares import FillingStage, StorageCertificate
from hivecore.caching.uniform_mapping import UniformMapping

__all__ = [
    "Bandwidths",
    "ClairvoyantCache",
    "CopyAdvice",
    "CurveAllocation",
    "EpochShuffle",
    "FillingStage",
    "FluidStorage",
    "HitRatioCurve",
    "JobShare",
    "PeerCacheModel",
    "Placement",
    "PolicyCache",
    "RemoteIOLimiter",
    "ReplicaAwareCache",
    "ReplicaDirectory",
    "StorageAllocation",
    "StorageCertificate",
    "StorageJobs",
    "UniformCache",
    "UniformMapping",
    "allocate_by_curves",
    "allocate_storage",
    "cache_efficiency",
    "cache_for_rate",
    "copy_replicas",
    "epoch_cost",
    "expected_hit_ratio",
    "greedy_cache",
    "peer_cache_model",
    "place_near_data",
    "ration_remote_io",
    "reclaim_order",
    "remote_io_demand",
    "simulate",
    "throughput",
    "wait_for_locality",
]
