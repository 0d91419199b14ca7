"""Cells: who may take which GPUs without breaking a neighbour's guarantee (HiveD, OSDI'20)."""

from hivecore._cells import BuddyAllocator
from hivecore.cells.cell import Cell
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.cells.explanation import Explanation
from hivecore.cells.virtual_clusters import VirtualClusters

__all__ = [
    "BuddyAllocator",
    "Cell",
    "Chain",
    "ClusterSpec",
    "Explanation",
    "VirtualClusters",
]
