"""Twins of `hivecore.replicas`, in plain Python."""

from hivecore.reference.replicas.cache import ReplicaAwareCache
from hivecore.reference.replicas.directory import ReplicaDirectory

__all__ = ["ReplicaAwareCache", "ReplicaDirectory"]
