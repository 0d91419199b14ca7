"""JSON as clients send it and as it is answered."""

import json
from typing import Any

import msgspec

from hivecore._arguments import as_object

__all__ = ["read_body", "read_json", "write_json"]

# It looks at each key; msgspec keeps the last of equal ones.
_decode = json.JSONDecoder(object_pairs_hook=as_object).decode


def read_json(text: str | bytes | bytearray) -> Any:
    """The value; raises ValueError.

    >>> from hivecore.interop.kubernetes.json_text import read_json
    >>> read_json(b'{"a": [1]}')
    {'a': [1]}
    """
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_body(text: str | bytes | bytearray) -> Any:
    """The value of what a client has sent, where every object has each of its keys once.

    :raises ValueError: it is no JSON, or an object has a key twice: a reader that keeps the last
        of them, as JSON libraries do, might do something else than the client has meant.

    >>> from hivecore.interop.kubernetes.json_text import read_body
    >>> read_body(b'[{"a": 1, "a": 2}]')
    Traceback (most recent call last):
    ValueError: an object has the key 'a' twice
    """
    value = read_json(text)
    if isinstance(text, bytes) and msgspec.json.encode(value) == text:
        return value  # written again it is the same: no key was lost
    try:
        _decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def write_json(value: Any) -> bytes:
    """The text of plain data or records, without spaces.

    >>> from hivecore.interop.kubernetes.json_text import write_json
    >>> write_json({"a": [1]})
    b'{"a":[1]}'
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character of UTF-16
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
