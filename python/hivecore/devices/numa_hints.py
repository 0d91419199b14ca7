"""On which sets of NUMA nodes of a machine a request could be served."""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from hivecore.devices._numbers import Masks
from hivecore.devices.device import TYPES
from hivecore.devices.node_devices import NodeDevices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["NumaHint", "numa_hints", "visible_masks"]

_MOST_NUMA_NODES = 12  # all sets of them are tried


@dataclass(frozen=True, slots=True)
class NumaHint:
    """A set of NUMA nodes on which a request could be served.

    :param nodes: their numbers, ascending.
    :param preferred: no smaller set would do.
    :param score: 500 if all GPUs of the machine are on these NUMA nodes, else 0.
    """

    nodes: tuple[int, ...]
    preferred: bool
    score: int


def numa_hints(
    core: Any, query: Any, policy: int, node: int, inventory: NodeDevices
) -> tuple[NumaHint, ...]:
    """The sets that would do, small ones first; none if not even all NUMA nodes would."""
    numbers = sorted({one.numa for one in inventory.devices if one.numa is not None})
    if len(numbers) > _MOST_NUMA_NODES:
        raise ValueError(f"node: has {len(numbers)} NUMA nodes, hints are for {_MOST_NUMA_NODES}")

    def would_do(chosen: "Collection[int]") -> bool:
        masks = visible_masks(inventory, chosen)
        return bool(core.examine(query, policy, node, masks, (), False)[0] == 0)

    if not numbers or not would_do(numbers):
        return ()
    found = [chosen for chosen in _subsets(numbers) if would_do(chosen)]
    gpus = visible_masks(inventory, numbers)[0]
    return tuple(
        NumaHint(
            chosen,
            len(chosen) == len(found[0]),
            500 if visible_masks(inventory, chosen)[0] == gpus else 0,
        )
        for chosen in found
    )


def _subsets(numbers: list[int]) -> "Iterator[tuple[int, ...]]":
    for size in range(1, len(numbers) + 1):
        yield from combinations(numbers, size)


def visible_masks(inventory: NodeDevices, numa: "Collection[int]") -> Masks:
    """The devices of each type on these NUMA nodes; one that knows its switch or socket but not its
    NUMA node is on all of them.
    """
    masks = []
    for type in TYPES:
        mask = 0
        for i, device in enumerate(inventory.of_type(type)):
            placed = device.pcie is not None or device.socket is not None
            if device.numa in numa or (device.numa is None and placed):
                mask |= 1 << i
        masks.append(mask)
    return tuple(masks)
