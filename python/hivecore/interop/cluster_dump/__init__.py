"""Reads kubectl's dump of a cluster with Kueue, Volcano, KAI-Scheduler or Koordinator."""

from hivecore.interop.cluster_dump.cluster_dump import ClusterDump

__all__ = ["ClusterDump"]
