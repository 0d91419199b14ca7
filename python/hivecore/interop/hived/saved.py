"""The saved state of a `HivedScheduler`: its configuration, its cluster and who sits where.

A head of ten bytes, ``HCHV``, the version of the layout as u16 and the CRC-32 of what follows,
little-endian; then JSON.
"""

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hivecore.cells import CellCluster
from hivecore.errors import CorruptStateError, InvariantError
from hivecore.interop.hived.gangs import Gang, Row, Slot
from hivecore.interop.hived.pods import PodRequest

__all__ = ["SavedState", "corrupt_if_it_fails", "decode", "encode"]

_HEAD = struct.Struct("<4sHI")
_MAGIC, _VERSION = b"HCHV", 1


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
                gang.request,
                [[row.leaf_number, row.slots, row.pods] for row in gang.rows.values()],
                None if gang.preempting is None else list(gang.preempting),
            ]
            for gang in state.gangs.values()
        ],
    }
    text = json.dumps(plain, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, _VERSION, zlib.crc32(text)) + text


def decode(data: object) -> SavedState:
    """The state of such bytes; raises `CorruptStateError` where they are not."""
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
    with corrupt_if_it_fails():
        plain = json.loads(text)
        if not isinstance(plain["config"], dict):  # a text would be the path of a file
            raise CorruptStateError("data: the configuration is none")
        for node, healthy in plain["reported"].items():
            if not isinstance(healthy, bool):
                raise CorruptStateError(f"data: the health of node {node!r} is {healthy!r}")
        gangs = [_gang(gang) for gang in plain["gangs"]]
        return SavedState(
            plain["config"],
            plain["chains"],
            plain["initially_healthy"],
            plain["reported"],
            CellCluster.from_bytes(base64.b64decode(plain["cluster"])),
            {gang.name: gang for gang in gangs},
        )


@contextmanager
def corrupt_if_it_fails() -> Iterator[None]:
    """Turn what a damaged state makes fail into a `CorruptStateError`."""
    try:
        yield
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
