"""Cells: who may take which GPUs without breaking a neighbour's guarantee (HiveD, OSDI'20)."""

from hivecore._cells import BuddyAllocator
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.cells.virtual_clusters import Cell, Explanation, VirtualClusters

__all__ = [
    "BuddyAllocator",
    "Cell",
    "Chain",
    "ClusterSpec",
    "Explanation",
    "VirtualClusters",
]
