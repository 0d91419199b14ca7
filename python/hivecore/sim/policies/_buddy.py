"""Jobs on a buddy allocator: the private and the quota policy place them alike."""

from hivecore.cells import BuddyAllocator
from hivecore.errors import NoFreeCellError
from hivecore.sim.workload import GPUS_PER_NODE, NODE

__all__ = ["Indices", "free_gpus", "place", "take_back"]

Indices = tuple[int, ...]


def place(allocator: BuddyAllocator, level: int, cells: int) -> Indices | None:
    """Return the index of the cell, or of all the nodes, or None if they are not all free."""
    if cells == 1:
        try:
            return (allocator.allocate(level),)
        except NoFreeCellError:
            return None
    if allocator.free_counts()[-1] < cells:
        return None
    return tuple(allocator.allocate_many([NODE] * cells).tolist())


def take_back(allocator: BuddyAllocator, level: int, placement: Indices) -> None:
    """Release what `place` returned."""
    if len(placement) == 1:
        allocator.release(level, placement[0])
    else:
        allocator.release_many([NODE] * len(placement), placement)


def free_gpus(allocator: BuddyAllocator) -> tuple[int, int]:
    """Return how many GPUs are free, and how many of these are not in wholly free nodes."""
    counts = allocator.free_counts().tolist()
    free = sum(count << level for level, count in enumerate(counts))
    return free, free - counts[-1] * GPUS_PER_NODE
