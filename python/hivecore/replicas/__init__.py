"""Replicas: which worker holds which block, and caches that evict what others hold first."""

from hivecore._replicas import ReplicaAwareCache, ReplicaDirectory

__all__ = ["ReplicaAwareCache", "ReplicaDirectory"]
