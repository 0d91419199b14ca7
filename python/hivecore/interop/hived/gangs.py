"""The pods of an affinity group and the slots that the group's placement has for them.

The first pod decides for all: its decision places every pod of the group. A slot is one of these
placements. A pod that comes later gets the lowest empty slot of its size; when a pod is deleted,
its slot becomes empty, and the next pod of that size gets the very same cells.

Invariants: a slot never moves while its group lives; ``bound`` counts the filled slots; no slot
below a row's ``lowest`` is empty. A gang is preempting while ``preempting`` is not None (these are
the pods that asked), and has no bound pods then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hivecore.cells import AffinityGroup, PodPlacement
from hivecore.interop.hived.pods import PodRequest

__all__ = ["Gang", "PodDecision", "Row", "Slot"]


class Slot(NamedTuple):
    """Where one pod of a group is placed."""

    chain: str
    node: str
    leaf_cells: tuple[int, ...]
    preassigned: tuple[str, ...]
    """Per leaf cell the type of its preassigned cell; "" where it is opportunistic."""


class Row:
    """The slots of a group's pods of one size."""

    __slots__ = ("leaf_number", "lowest", "pods", "slots")

    def __init__(self, leaf_number: int, slots: tuple[Slot, ...]) -> None:
        self.leaf_number = leaf_number
        self.slots = slots
        self.pods: list[str | None] = [None] * len(slots)
        self.lowest = 0

    def empty(self) -> int | None:
        """The lowest empty slot."""
        pods = self.pods
        while self.lowest < len(pods) and pods[self.lowest] is not None:
            self.lowest += 1
        return self.lowest if self.lowest < len(pods) else None

    def find(self, node: str, first_leaf: int) -> int | None:
        """The slot with this node and first leaf cell."""
        for i, slot in enumerate(self.slots):
            if slot.node == node and slot.leaf_cells[0] == first_leaf:
                return i
        return None


class Gang:
    """An affinity group with its slots and pods."""

    __slots__ = ("bound", "group", "name", "preempting", "request", "rows")

    def __init__(self, request: PodRequest, group: AffinityGroup, rows: dict[int, Row]) -> None:
        self.name = request.group
        self.request = request
        self.group = group
        self.rows = rows
        self.bound = 0
        self.preempting: dict[str, None] | None = None

    @classmethod
    def place(
        cls, request: PodRequest, group: AffinityGroup, placement: Sequence[PodPlacement]
    ) -> "Gang":
        """The gang whose pods are placed so, in the order of the request's members."""
        rows = {}
        start = 0
        for number, pods in request.members:
            rows[number] = Row(
                number,
                tuple([Slot(*place[:4]) for place in placement[start : start + pods]]),
            )
            start += pods
        return cls(request, group, rows)

    def placement(self) -> tuple[tuple[int, tuple[Slot, ...]], ...]:
        """The slots of each size."""
        return tuple([(number, row.slots) for number, row in self.rows.items()])

    def fill(self, row: Row, i: int, pod: str) -> None:
        """Put a pod into an empty slot."""
        row.pods[i] = pod
        self.bound += 1

    def clear(self, row: Row, i: int) -> None:
        """Empty a slot."""
        row.pods[i] = None
        row.lowest = min(row.lowest, i)
        self.bound -= 1

    def seats(self) -> Iterator[tuple[Slot, str | None]]:
        """Every slot with its pod, row by row."""
        for row in self.rows.values():
            yield from zip(row.slots, row.pods, strict=True)

    def recorded(self) -> list[PodPlacement]:
        """The placement as it was once decided."""
        return [PodPlacement(*slot, ()) for slot, _ in self.seats()]

    def places(self) -> Iterator[tuple[str, int]]:
        """(node, leaf cell) of all slots."""
        for slot, _ in self.seats():
            for leaf in slot.leaf_cells:
                yield slot.node, leaf

    def pods(self) -> list[str]:
        """Its bound pods, sorted."""
        return sorted(pod for _, pod in self.seats() if pod is not None)

    def copy(self) -> "Gang":
        """An independent gang with the same slots and pods."""
        rows = {}
        for number, row in self.rows.items():
            rows[number] = twin = Row(number, row.slots)
            twin.pods, twin.lowest = list(row.pods), row.lowest
        other = Gang(self.request, self.group, rows)
        other.bound = self.bound
        other.preempting = None if self.preempting is None else dict(self.preempting)
        return other


@dataclass(frozen=True, slots=True)
class PodDecision:
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

    outcome: str
    """"bind", "preempt" (the victims have to go first) or "wait"."""
    node: str | None = None
    """The pod's node; when preempting, the planned one; None when it waits."""
    leaf_cells: list[int] = field(default_factory=list)
    """Indices of the pod's leaf cells in its node, in the order of the cells."""
    chain: str | None = None
    """The chain of the pod's cells."""
    reason: str = ""
    """Why the pod waits or what it waits for; empty when it can be bound."""
    _rows: tuple[tuple[int, tuple[Slot, ...]], ...] = field(default=(), repr=False)
    _victims: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def bind(cls, gang: Gang, row: Row, slot: int) -> "PodDecision":
        """Bind to this slot."""
        chain, node, leaf_cells, _ = row.slots[slot]
        return cls("bind", node, list(leaf_cells), chain, "", gang.placement())

    @property
    def group(self) -> list[dict[str, Any]]:
        """The placement of the whole group: per pod size, in the order of the spec, every pod."""
        return [
            {
                "leaf_cell_number": number,
                "pods": [
                    {"node": slot.node, "leaf_cells": list(slot.leaf_cells)} for slot in slots
                ],
            }
            for number, slots in self._rows
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
