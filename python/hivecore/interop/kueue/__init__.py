"""Reads and writes Kueue's topologies, the rules of pod sets, and topology assignments."""

from hivecore.interop.kueue.assignments import (
    AssignmentVersion,
    TopologyAssignment,
    read_assignment,
    topology_assignment,
    write_assignment,
)
from hivecore.interop.kueue.pod_sets import read_pod_set
from hivecore.interop.kueue.topologies import KueueTopology, read_topology

__all__ = [
    "AssignmentVersion",
    "KueueTopology",
    "TopologyAssignment",
    "read_assignment",
    "read_pod_set",
    "read_topology",
    "topology_assignment",
    "write_assignment",
]
