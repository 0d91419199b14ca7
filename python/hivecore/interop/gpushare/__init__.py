"""gpushare's nodes, pods and annotations as plain data, and its scheduler extender."""

from hivecore.interop.gpushare.agent import ContainerMatch, match_container
from hivecore.interop.gpushare.extender import Extender
from hivecore.interop.gpushare.nodes import read_node, read_unhealthy, with_unhealthy
from hivecore.interop.gpushare.pods import (
    Assignment,
    read_assignment,
    read_bound_pod,
    read_pod,
    timed_out,
    write_assignment,
)
from hivecore.interop.kubernetes.pods import BoundPod

__all__ = [
    "Assignment",
    "BoundPod",
    "ContainerMatch",
    "Extender",
    "match_container",
    "read_assignment",
    "read_bound_pod",
    "read_node",
    "read_pod",
    "read_unhealthy",
    "timed_out",
    "with_unhealthy",
    "write_assignment",
]
