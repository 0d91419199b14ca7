"""The readable twins of the kernels in `hivecore.cells`."""

from hivecore.reference.cells.buddy import BuddyAllocator
from hivecore.reference.cells.group_scheduler import GroupScheduler
from hivecore.reference.cells.virtual_clusters import VirtualClusters

__all__ = ["BuddyAllocator", "GroupScheduler", "VirtualClusters"]
