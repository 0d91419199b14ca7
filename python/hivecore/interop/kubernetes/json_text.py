"""JSON, by orjson where it is installed."""

import json
from functools import cache
from typing import Any

from hivecore._arguments import as_object

__all__ = ["read_body", "read_json", "write_json"]


@cache
def _orjson() -> Any:
    """The library; None: it is not installed."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson


def read_json(text: str | bytes | bytearray) -> Any:
    """The value; raises ValueError.

    >>> from hivecore.interop.kubernetes.json_text import read_json
    >>> read_json(b'{"a": [1]}')
    {'a': [1]}
    """
    orjson = _orjson()
    if orjson is not None:
        return orjson.loads(text)
    try:
        return json.loads(text)
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
    try:
        json.loads(text, object_pairs_hook=as_object)  # orjson keeps the last, and does not say it
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def write_json(value: Any) -> bytes:
    """The text without spaces.

    >>> from hivecore.interop.kubernetes.json_text import write_json
    >>> write_json({"a": [1]})
    b'{"a":[1]}'
    """
    orjson = _orjson()
    if orjson is not None:
        try:
            text: bytes = orjson.dumps(value)
            return text
        except TypeError:
            pass  # half a character of UTF-16, or an integer of more than 64 bits
    return json.dumps(value, separators=(",", ":")).encode()
