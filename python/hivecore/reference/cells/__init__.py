"""The readable twins of the kernels in `hivecore.cells`."""

from hivecore.reference.cells.buddy import BuddyAllocator
from hivecore.reference.cells.group_scheduler import GroupScheduler

__all__ = ["BuddyAllocator", "GroupScheduler"]
