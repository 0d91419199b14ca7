"""The saved state of a `HivedScheduler`: its configuration, its cluster and who sits where.

A head of ten bytes, ``HCHV``, the version of the layout as u16 and the CRC-32 of what follows,
little-endian; then JSON.
"""

import base64
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from hivecore.cells import CellCluster
from hivecore.errors import CorruptStateError, InvariantError
from hivecore.interop.hived.gangs import Gang, Row, Slot
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.seating import Seating

if TYPE_CHECKING:
    from hivecore.interop.hived.scheduler import HivedScheduler

__all__ = ["decode", "encode"]

_HEAD = struct.Struct("<4sHI")
_MAGIC, _VERSION = b"HCHV", 1

_Scheduler = TypeVar("_Scheduler", bound="HivedScheduler")


def encode(scheduler: "HivedScheduler") -> bytes:
    """The state as bytes."""
    state = {
        "config": scheduler._config.document,
        "chains": list(scheduler._spec.chains),
        "initially_healthy": scheduler._initially_healthy,
        "reported": scheduler._reported,
        "cluster": base64.b64encode(scheduler._cluster.to_bytes()).decode(),
        "gangs": [
            [
                gang.request,
                [[row.leaf_number, row.slots, row.pods] for row in gang.rows.values()],
                None if gang.preempting is None else list(gang.preempting),
            ]
            for gang in scheduler._seating.gangs.values()
        ],
    }
    text = json.dumps(state, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, _VERSION, zlib.crc32(text)) + text


def decode(kind: type[_Scheduler], data: object) -> _Scheduler:
    """The scheduler of such bytes; raises `CorruptStateError` where they are not."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, not {type(data).__name__}")
    data = bytes(data)
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise CorruptStateError("data: this is no saved state of a HivedScheduler")
    _, version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptStateError(f"data: version {version}, this release reads {_VERSION}")
    text = data[_HEAD.size :]
    if zlib.crc32(text) != checksum:
        raise CorruptStateError("data: the checksum does not match")
    try:
        return _restore(kind, json.loads(text))
    except CorruptStateError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        InvariantError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CorruptStateError(f"data: {error}") from error


def _restore(kind: type[_Scheduler], state: dict[str, Any]) -> _Scheduler:
    scheduler = kind(state["config"], state["chains"], initially_healthy=state["initially_healthy"])
    cluster = CellCluster.from_bytes(base64.b64decode(state["cluster"]))
    if cluster.spec != scheduler._spec or list(cluster.spec.chains) != state["chains"]:
        raise CorruptStateError("data: the cluster is not that of the configuration")
    scheduler._cluster = cluster
    for node, healthy in state["reported"].items():
        if not isinstance(healthy, bool):
            raise CorruptStateError(f"data: the health of node {node!r} is {healthy!r}")
    scheduler._reported = state["reported"]
    scheduler._seating = Seating({gang.name: gang for gang in map(_gang, state["gangs"])})
    scheduler.check()
    return scheduler


def _gang(saved: Any) -> Gang:
    fields, rows, preempting = saved
    members = tuple((number, pods) for number, pods in fields[-1])
    request = PodRequest._make([*fields[:-1], members])
    gang = Gang(
        request,
        request.as_group(),
        {
            number: Row(
                number,
                tuple(
                    Slot(chain, node, tuple(cells), tuple(types))
                    for chain, node, cells, types in slots
                ),
            )
            for number, slots, _ in rows
        },
    )
    for number, _, pods in rows:
        row = gang.rows[number]
        if len(pods) != len(row.slots):
            raise CorruptStateError(f"data: group {gang.name!r} has more pods than slots")
        for slot, pod in enumerate(pods):
            if pod is not None:
                gang.fill(row, slot, str(pod))
    if preempting is not None:
        gang.preempting = {str(pod): None for pod in preempting}
    return gang
