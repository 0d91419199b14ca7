"""The saved state of a `HivedScheduler`: configuration, cluster and who sits where, as JSON."""

import base64
import json
from typing import Any, NamedTuple

from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore.cells import CellCluster, PodPlacement
from hivecore.errors import CorruptStateError
from hivecore.gangs import Gang, Role
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
    gangs: dict[str, Gang]


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
                gang.declared,
                [[role.name, role.slots, role.pods] for role in gang.roles.values()],
                None if gang.preempting is None else list(gang.preempting),
            ]
            for gang in state.gangs.values()
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
        gangs = [_gang(*gang) for gang in plain["gangs"]]
        return SavedState(
            plain["config"],
            plain["chains"],
            plain["initially_healthy"],
            plain["reported"],
            CellCluster.from_bytes(base64.b64decode(plain["cluster"])),
            {gang.name: gang for gang in gangs},
        )


def _gang(fields: Any, roles: Any, preempting: Any) -> Gang:
    request = PodRequest._make([*fields[:-1], tuple((number, pods) for number, pods in fields[-1])])
    gang = Gang(
        request.gang,
        request,
        request.as_group(),
        [Role(number, [_slot(*slot) for slot in slots]) for number, slots, _ in roles],
    )
    for number, _, pods in roles:
        role = gang.roles[number]
        if len(pods) != len(role.slots):
            raise CorruptStateError(f"data: group {gang.name!r} has more pods than slots")
        for slot, pod in enumerate(pods):
            if pod is not None:
                gang.fill(role, slot, str(pod))
    if preempting is not None:
        gang.preempting = {str(pod): None for pod in preempting}
    return gang


def _slot(chain: str, node: str, leaves: Any, preassigned: Any, _: Any) -> PodPlacement:
    return PodPlacement(chain, node, tuple(leaves), tuple(preassigned), ())
