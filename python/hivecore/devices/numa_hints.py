"""On which sets of NUMA nodes of a machine a request could be served."""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

from hivecore._arguments import as_int, as_tuple
from hivecore._record import Record, within
from hivecore.devices._numbers import Masks
from hivecore.devices.device import TYPES
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.node_devices import NodeDevices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

__all__ = ["MOST_NUMA_NODES", "NumaHint", "numa_hints", "visible_masks"]

#: All sets of them are tried.
MOST_NUMA_NODES = 12
_BEST_DEVICES = 500  # more than any score of processors, so that devices decide


def _numbers(value: Any, name: str) -> tuple[int, ...]:
    nodes = {as_int(node, name, 0, 2**31 - 1) for node in as_tuple(value, name)}
    if not nodes:
        raise ValueError(f"{name} must not be empty: a hint names a NUMA node")
    return tuple(sorted(nodes))


class NumaHint(Record, frozen=True):
    """A set of NUMA nodes on which a request could be served.

    :param nodes: their numbers, kept ascending; 0 to 2**31 - 1, at least one.
    :param preferred: no smaller set would do.
    :param score: of sets that are as good otherwise the one with the highest score is taken, 0 to
        2**31 - 1. `DeviceCluster.numa_hints` gives 500 to those that have all devices that the
        request would get if it could choose among all NUMA nodes, and 0 to others.
    :raises ValueError: something is out of range.
    :raises TypeError: an argument is of a wrong type.
    """

    nodes: Annotated[tuple[int, ...], _numbers]
    preferred: bool
    score: Annotated[int, within(0, 2**31 - 1)] = 0

    if TYPE_CHECKING:

        def __init__(self, nodes: Iterable[int], preferred: bool, score: int = 0) -> None: ...

    def __post_init__(self) -> None:
        self._check()


def numa_hints(
    core: Any, request: DeviceRequest, query: Any, policy: int, node: int, inventory: NodeDevices
) -> tuple[NumaHint, ...] | None:
    """The sets that would do, small ones first; none if not even all NUMA nodes would; `None` if it
    does not matter: nothing that is needed says its NUMA node.
    """
    places = {
        (device.type, device.minor): device.numa
        for device in inventory.devices
        if device.numa is not None
    }
    numbers = sorted(set(places.values()))
    matters = any(request.need(type) for type, _ in places)
    if matters and len(numbers) > MOST_NUMA_NODES:
        raise ValueError(f"node: has {len(numbers)} NUMA nodes, hints are for {MOST_NUMA_NODES}")

    def examine(chosen: "Collection[int]", plan: bool) -> tuple[int, int, Any]:
        feasible: tuple[int, int, Any] = core.examine(
            query, policy, node, visible_masks(inventory, chosen), (), plan
        )
        return feasible

    code, _, best = examine(numbers, True)
    if code != 0:
        return ()
    if not matters:
        return None
    best_devices = {places.get((TYPES[charge[0]], charge[1])) for charge in best.charges} - {None}
    feasible = [chosen for chosen in _subsets(numbers) if examine(chosen, False)[0] == 0]
    return tuple(
        NumaHint(
            chosen,
            len(chosen) == len(feasible[0]),
            _BEST_DEVICES if best_devices.issubset(chosen) else 0,
        )
        for chosen in feasible
    )


def _subsets(numbers: list[int]) -> "Iterator[tuple[int, ...]]":
    for size in range(1, len(numbers) + 1):
        yield from combinations(numbers, size)


def visible_masks(inventory: NodeDevices, numa: "Collection[int]") -> Masks:
    """The devices of each type on these NUMA nodes; one whose NUMA node is not known is on all."""
    masks = []
    for type in TYPES:
        mask = 0
        for i, device in enumerate(inventory.of_type(type)):
            if device.numa is None or device.numa in numa:
                mask |= 1 << i
        masks.append(mask)
    return tuple(masks)
