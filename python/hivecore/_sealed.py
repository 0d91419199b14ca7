"""The envelope of every saved state: magic, version, length, payload, checksum.

    offset  0   4 bytes   magic, which kernel wrote it
            4   u16       version of the payload's layout
            6   u64       length n of the payload
           14   n bytes   payload
       14 + n   u32       CRC-32 of all that stands before

All integers are little-endian.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from hivecore.errors import CorruptStateError, HivecoreError

_HEAD = struct.Struct("<4sHQ")
_TAIL = struct.Struct("<I")


def seal(magic: bytes, version: int, payload: bytes) -> bytes:
    """Wrap a payload into its envelope."""
    body = _HEAD.pack(magic, version, len(payload)) + payload
    return body + _TAIL.pack(zlib.crc32(body))


def unseal(magic: bytes, version: int, data: object) -> bytes:
    """Take the payload out of its envelope, or raise `CorruptStateError` with the reason."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, not {type(data).__name__}")
    data = bytes(data)
    if len(data) < _HEAD.size + _TAIL.size:
        raise CorruptStateError(f"data: {len(data)} bytes are too few for a saved state")
    found_magic, found_version, length = _HEAD.unpack_from(data)
    if found_magic != magic:
        raise CorruptStateError(f"data: starts with {found_magic!r}, expected {magic!r}")
    if len(data) != _HEAD.size + length + _TAIL.size:
        raise CorruptStateError(
            f"data: {len(data)} bytes, but the header announces {_HEAD.size + length + _TAIL.size}"
        )
    if zlib.crc32(data[: -_TAIL.size]) != _TAIL.unpack_from(data, len(data) - _TAIL.size)[0]:
        raise CorruptStateError("data: the checksum does not match")
    if found_version != version:
        raise CorruptStateError(
            f"data: layout version {found_version}, this release reads version {version}"
        )
    return data[_HEAD.size : -_TAIL.size]


@contextmanager
def corrupt_if_it_fails() -> Iterator[None]:
    """Turn the errors that a damaged payload causes into a `CorruptStateError`."""
    try:
        yield
    except CorruptStateError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        HivecoreError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CorruptStateError(f"data: {error}") from error
