"""The saved state of a `HivedScheduler`: configuration, cluster, groups and pods, as JSON."""

import base64
import json
from typing import Any, NamedTuple

from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore.cells import CellCluster, PodPlacement
from hivecore.errors import CorruptStateError
from hivecore.interop.hived.placed_groups import PlacedGroup
from hivecore.interop.hived.pods import PodRequest

__all__ = ["SavedState", "decode", "encode"]

_MAGIC, _VERSION = b"HCHV", 2


class SavedState(NamedTuple):
    """What a scheduler is made of."""

    document: dict[str, Any]
    """The configuration as `HivedConfig.read` takes it."""
    chains: list[str]
    """The order of the chains."""
    initially_healthy: bool
    reported: dict[str, bool]
    """Node -> its health as last reported."""
    cluster: CellCluster
    groups: dict[str, PlacedGroup]


def encode(state: SavedState) -> bytes:
    """The state as bytes."""
    plain = {
        "config": state.document,
        "chains": state.chains,
        "initially_healthy": state.initially_healthy,
        "reported": state.reported,
        "cluster": base64.b64encode(state.cluster.to_bytes()).decode(),
        "gangs": [
            [
                group.declared,
                [[slots.leaf_number, slots.places, slots.pods] for slots in group.slots.values()],
                None if group.preempting is None else list(group.preempting),
            ]
            for group in state.groups.values()
        ],
    }
    return seal(_MAGIC, _VERSION, json.dumps(plain, separators=(",", ":")).encode())


def decode(data: object) -> SavedState:
    """The state of such bytes; raises `CorruptStateError` where they are not."""
    text = unseal(_MAGIC, _VERSION, data)
    with corrupt_if_it_fails():
        plain = json.loads(text)
        if not isinstance(plain["config"], dict):  # a text would be the path of a file
            raise CorruptStateError("data: the configuration is none")
        for node, healthy in plain["reported"].items():
            if not isinstance(healthy, bool):
                raise CorruptStateError(f"data: the health of node {node!r} is {healthy!r}")
        groups = [_group(*group) for group in plain["gangs"]]
        return SavedState(
            plain["config"],
            plain["chains"],
            plain["initially_healthy"],
            plain["reported"],
            CellCluster.from_bytes(base64.b64decode(plain["cluster"])),
            {group.name: group for group in groups},
        )


def _group(fields: Any, sizes: Any, preempting: Any) -> PlacedGroup:
    request = PodRequest._make([*fields[:-1], tuple((number, pods) for number, pods in fields[-1])])
    places = {number: [_place(*place) for place in placed] for number, placed, _ in sizes}
    group = PlacedGroup(request, request.as_group(), places)
    for number, _, pods in sizes:
        slots = group.slots[number]
        if len(pods) != len(slots.places):
            raise CorruptStateError(f"data: group {group.name!r} has more pods than slots")
        slots.pods = [None if pod is None else str(pod) for pod in pods]
        group.bound += sum(pod is not None for pod in pods)
    if preempting is not None:
        group.preempting = {str(pod): None for pod in preempting}
    return group


def _place(chain: str, node: str, leaves: Any, preassigned: Any, _: Any) -> PodPlacement:
    return PodPlacement(chain, node, tuple(leaves), tuple(preassigned), ())
