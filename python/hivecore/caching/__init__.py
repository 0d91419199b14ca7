"""Caching: uniform caches, cache and remote IO as resources, reference policies, replicas."""

# --- storage ---

# --- uniform ---

# --- policies ---

# --- replicas ---
from hivecore._caching import RemoteIOLimiter, ReplicaAwareCache, ReplicaDirectory
from hivecore.caching.peers import PeerCacheModel, peer_cache_model
from hivecore.caching.placement import (
    Bandwidths,
    CopyAdvice,
    Placement,
    copy_replicas,
    epoch_cost,
    place_near_data,
    wait_for_locality,
)

__all__: list[str] = [
    "Bandwidths",
    "CopyAdvice",
    "PeerCacheModel",
    "Placement",
    "RemoteIOLimiter",
    "ReplicaAwareCache",
    "ReplicaDirectory",
    "copy_replicas",
    "epoch_cost",
    "peer_cache_model",
    "place_near_data",
    "wait_for_locality",
]
