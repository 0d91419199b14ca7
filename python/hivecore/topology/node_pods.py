"""Pods of a gang on a node."""

from dataclasses import dataclass

__all__ = ["NodePods"]


@dataclass(frozen=True, slots=True)
class NodePods:
    """So many pods of a gang on a node, and so many of its other role."""

    node: str
    pods: int
    others: int = 0
