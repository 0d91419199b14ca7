"""The pods of a gang on a node."""

from dataclasses import dataclass

__all__ = ["NodePods"]


@dataclass(frozen=True, slots=True)
class NodePods:
    """The numbers of pods of a gang on a node: ``pods`` of its own, ``others`` of its role."""

    node: str
    pods: int
    others: int = 0
