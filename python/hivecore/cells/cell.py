"""The handle of an allocation."""

from dataclasses import dataclass, field

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """An allocated cell: what `VirtualClusters` hands out and takes back."""

    id: int
    """Names the allocation; never used again by the same `VirtualClusters`."""
    virtual_cluster: str
    chain: str
    level: str
    index: int
    """The physical cell within its level."""
    opportunistic: bool
    leaves: range
    """The physical leaves of the cell."""
    owned_level: str | None
    """Level of the tenant's own cell that this one is a part of; None: opportunistic."""
    virtual_index: int
    """The virtual cell, counted within its level over the tenant's cells of ``owned_level``."""
    preempted: "tuple[Cell, ...]" = field(compare=False)
    """The opportunistic cells that gave way to this one; they are gone, not to be released.

    Not compared: a restored cell has forgotten them, and is the same allocation."""
