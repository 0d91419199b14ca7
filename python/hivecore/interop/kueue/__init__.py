"""Kueue's topologies and what its pod sets ask of them: plain data in and out."""

from hivecore.interop.kueue.pod_sets import pod_selectors, read_pod_set, topology_assignment
from hivecore.interop.kueue.topology import HOSTNAME, read_topology

__all__ = ["HOSTNAME", "pod_selectors", "read_pod_set", "read_topology", "topology_assignment"]
