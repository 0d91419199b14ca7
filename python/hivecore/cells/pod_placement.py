"""Where a pod is."""

from typing import NamedTuple

__all__ = ["PodPlacement"]


class PodPlacement(NamedTuple):
    """Where one pod is: what a bind record has to hold."""

    chain: str
    node: str
    leaf_indices: tuple[int, ...]
    """Device indices on the node, in the order of ``leaves``."""
    preassigned: tuple[str, ...]
    """Per leaf the level of the tenant's own cell that it belongs to; "": opportunistic."""
    leaves: tuple[int, ...]
    """The leaves' numbers within the chain, ascending."""
