"""Twins of `hivecore.caching`, in plain Python."""

# --- storage ---

# --- uniform ---

# --- policies ---

# --- replicas ---
from hivecore.reference.caching.limiter import RemoteIOLimiter
from hivecore.reference.caching.replica_cache import ReplicaAwareCache
from hivecore.reference.caching.replica_directory import ReplicaDirectory

__all__: list[str] = [
    "RemoteIOLimiter",
    "ReplicaAwareCache",
    "ReplicaDirectory",
]
