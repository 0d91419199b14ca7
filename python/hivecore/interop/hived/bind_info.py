"""HiveD's bind info: where a pod and its group were bound, which is all that a restart needs.

    node: node-0
    leafCellIsolation: [0, 1]
    cellChain: V100-NODE
    affinityGroupBindInfo:
    - podPlacements:
      - physicalNode: node-0
        physicalLeafCellIndices: [0, 1]
        preassignedCellTypes: [V100-NODE, V100-NODE]     # "" for opportunistic leaf cells

Every pod of a group carries the table of the whole group, so that one of them is enough. Records
of old releases say gpuIsolation and physicalGpuIndices.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hivecore._stateful import counted
from hivecore.cells import PodPlacement
from hivecore.interop.hived.placed_groups import PlacedGroup, Seat, Slots
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.kubernetes.pods import RequestError

__all__ = ["BindInfo", "write"]


class BindInfo(NamedTuple):
    """The part of a record that says where this one pod is; the table is read when needed."""

    node: str
    leaf_cells: tuple[int, ...]
    chain: str
    record: Mapping[str, Any]

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "BindInfo":
        """The pod's place in a record; raises `RequestError` naming the field."""
        if not isinstance(record, Mapping):
            raise RequestError(f"bind_info must be a mapping, not {type(record).__name__}")
        isolation = _either(record, "leafCellIsolation", "gpuIsolation")
        return cls(
            _name(record.get("node"), "bind_info: node"),
            _indices(isolation, "bind_info: leafCellIsolation"),
            _name(record.get("cellChain"), "bind_info: cellChain"),
            record,
        )

    def index_in(self, slots: Slots) -> int | None:
        """The slot with this node and first leaf cell."""
        for i, place in enumerate(slots.places):
            if place.node == self.node and place.leaf_indices[0] == self.leaf_cells[0]:
                return i
        return None

    def table(self, request: PodRequest) -> PlacedGroup:
        """The group, all of its slots empty; the table must be that of the request."""
        slots: dict[int, list[PodPlacement]] = {number: [] for number, _ in request.roles}
        place = "bind_info: affinityGroupBindInfo"
        for i, member in enumerate(_list(self.record.get("affinityGroupBindInfo"), place)):
            at = f"{place}[{i}].podPlacements"
            if not isinstance(member, Mapping):
                raise RequestError(f"{place}[{i}] must be a mapping")
            for j, pod in enumerate(_list(member.get("podPlacements"), at)):
                slot = self._slot(pod, f"{at}[{j}]")
                if len(slot.leaf_indices) not in slots:
                    raise RequestError(
                        f"{at}[{j}] has {counted(len(slot.leaf_indices), 'leaf cell')}, the "
                        f"members of the spec have {sorted(slots)}"
                    )
                slots[len(slot.leaf_indices)].append(slot)
        for number, pods in request.roles:
            if len(slots[number]) != pods:
                raise RequestError(
                    f"{place}: {counted(len(slots[number]), 'pod')} with "
                    f"{counted(number, 'leaf cell')}, the spec has {pods}"
                )
        return PlacedGroup(request, request.as_group(), slots)

    def _slot(self, pod: Any, place: str) -> PodPlacement:
        if not isinstance(pod, Mapping):
            raise RequestError(f"{place} must be a mapping")
        node = _name(pod.get("physicalNode"), f"{place}.physicalNode")
        cells = _either(pod, "physicalLeafCellIndices", "physicalGpuIndices")
        leaf_cells = _indices(cells, f"{place}.physicalLeafCellIndices")
        types = pod.get("preassignedCellTypes")
        if types is None:
            types = [""] * len(leaf_cells)
        preassigned = tuple(_list(types, f"{place}.preassignedCellTypes"))
        if len(preassigned) != len(leaf_cells) or not all(isinstance(t, str) for t in preassigned):
            raise RequestError(
                f"{place}.preassignedCellTypes must have one string per leaf cell ({leaf_cells})"
            )
        return PodPlacement(self.chain, node, leaf_cells, preassigned, ())


def write(seat: Seat) -> dict[str, Any]:
    """The record of the pod in this seat."""
    place = seat.place
    return {
        "node": place.node,
        "leafCellIsolation": list(place.leaf_indices),
        "cellChain": place.chain,
        "affinityGroupBindInfo": [
            {
                "podPlacements": [
                    {
                        "physicalNode": other.node,
                        "physicalLeafCellIndices": list(other.leaf_indices),
                        "preassignedCellTypes": list(other.preassigned),
                    }
                    for other in slots.places
                ]
            }
            for slots in seat.group.slots.values()
        ],
    }


def _either(record: Mapping[str, Any], name: str, old_name: str) -> Any:
    value = record.get(name)
    return record.get(old_name) if value is None else value


def _name(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise RequestError(f"{place}={value!r}: must be a non-empty string")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise RequestError(f"{place} must be a list, not {type(value).__name__}")
    return list(value)


def _indices(value: Any, place: str) -> tuple[int, ...]:
    indices = tuple(_list(value, place))
    for index in indices:
        if type(index) is not int or not 0 <= index < 2**31:
            raise RequestError(f"{place}: {index!r} is no index of a leaf cell")
    if not indices or len(set(indices)) != len(indices):
        raise RequestError(f"{place}={list(indices)}: must name different leaf cells, at least one")
    return indices
