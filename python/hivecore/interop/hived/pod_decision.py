"""What the scheduler answers for one pod."""

from typing import Any

from msgspec import Struct

from hivecore.decisions import Outcome

__all__ = ["PodDecision"]


class PodDecision(Struct, frozen=True):
    """What a scheduler answers for one pod.

    >>> from hivecore.interop.hived import HivedScheduler
    >>> scheduler = HivedScheduler({
    ...     "physicalCluster": {
    ...         "cellTypes": {"V100-NODE": {"childCellType": "V100", "childCellNumber": 4,
    ...                                     "isNodeLevel": True}},
    ...         "physicalCells": [{"cellType": "V100-NODE", "cellAddress": "node-0"}],
    ...     },
    ...     "virtualClusters": {
    ...         "A": {"virtualCells": [{"cellType": "V100-NODE", "cellNumber": 1}]},
    ...     },
    ... })
    >>> decision = scheduler.schedule("default/p", {"virtualCluster": "A", "leafCellNumber": 2})
    >>> decision.outcome, decision.node, decision.leaf_cells, decision.chain
    ('bind', 'node-0', [0, 1], 'V100-NODE')
    >>> decision.group
    [{'leaf_cell_number': 2, 'pods': [{'node': 'node-0', 'leaf_cells': [0, 1]}]}]
    """

    outcome: Outcome
    """"bind", "preempt" (the victims have to go first) or "wait"."""
    node: str | None = None
    """The pod's node; when preempting, the planned one; None when it waits."""
    leaf_cells: list[int] = []
    """Indices of the pod's leaf cells in its node, in the order of the cells."""
    chain: str | None = None
    """The chain of the pod's cells."""
    reason: str = ""
    """Why the pod waits or what it waits for; empty when it can be bound."""
    _placement: tuple[tuple[Any, tuple[Any, ...]], ...] = ()
    _victims: tuple[tuple[str, str], ...] = ()
    hopeless: bool = False
    """Whether it waits for ever: not even the empty, healthy cluster would serve its group."""

    @property
    def group(self) -> list[dict[str, Any]]:
        """The placement of the whole group: per pod size, in the order of the spec, every pod."""
        return [
            {
                "leaf_cell_number": number,
                "pods": [
                    {"node": slot.node, "leaf_cells": list(slot.leaf_indices)} for slot in slots
                ],
            }
            for number, slots in self._placement
        ]

    @property
    def victims(self) -> list[str]:
        """The pods that have to go, over all nodes, sorted: always whole groups."""
        return sorted(pod for _, pod in self._victims)

    @property
    def victims_by_node(self) -> dict[str, list[str]]:
        """The same pods by their nodes, both sorted."""
        by_node: dict[str, list[str]] = {}
        for node, pod in sorted(self._victims):
            by_node.setdefault(node, []).append(pod)
        return by_node

    def __repr__(self) -> str:
        shown = ("outcome", "node", "leaf_cells", "chain", "reason", "hopeless")
        return f"PodDecision({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
