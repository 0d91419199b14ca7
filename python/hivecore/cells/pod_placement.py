"""The placement of a pod."""

from typing import Any, NamedTuple

from hivecore._arguments import as_instance, as_int, as_text, as_tuple
from hivecore._stateful import counted
from hivecore.cells.affinity_group import AffinityGroup

__all__ = ["PodPlacement", "as_placement"]


class PodPlacement(NamedTuple):
    """The leaves of one pod: the content of its bind record."""

    chain: str
    node: str
    leaf_indices: tuple[int, ...]
    """Device indices on the node, in the order of ``leaves``."""
    preassigned: tuple[str, ...]
    """For each leaf the level of the tenant's cell around it; "": opportunistic."""
    leaves: tuple[int, ...]
    """The leaves' numbers within the chain, ascending."""


def as_placement(placement: Any, group: AffinityGroup) -> tuple[PodPlacement, ...]:
    """The checked placement of a group, without leaf numbers; an error names what is wrong."""
    pods = as_tuple(placement, "placement")
    if len(pods) != len(group.sizes):
        raise ValueError(
            f"placement has {counted(len(pods), 'pod')}, the group has {len(group.sizes)}"
        )
    checked = []
    seen: dict[tuple[str, str], set[int]] = {}
    for i, (pod, size) in enumerate(zip(pods, group.sizes, strict=True)):
        place = f"placement[{i}]"
        as_instance(pod, f"{place}", PodPlacement)
        chain, node = as_text(pod.chain, f"{place}.chain"), as_text(pod.node, f"{place}.node")
        devices = as_tuple(pod.leaf_indices, f"{place}.leaf_indices")
        preassigned = as_tuple(pod.preassigned, f"{place}.preassigned")
        if len(devices) != size or len(preassigned) != size:
            raise ValueError(f"{place} has not the {size} leaves of the group's pod")
        if {*map(type, devices)} != {int} or min(devices) < 0 or max(devices) >= 2**31:
            devices = tuple(as_int(d, f"{place}.leaf_indices", 0, 2**31 - 1) for d in devices)
        if {*map(type, preassigned)} != {str}:
            preassigned = tuple(as_text(level, f"{place}.preassigned") for level in preassigned)
        taken = seen.setdefault((chain, node), set())
        before = len(taken)
        taken.update(devices)
        if len(taken) < before + size:
            raise ValueError(f"{place}.leaf_indices={devices}: a leaf is named twice")
        checked.append(PodPlacement(chain, node, devices, preassigned, ()))
    return tuple(checked)
