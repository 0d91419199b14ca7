"""JSON, by orjson where it is installed."""

import json
from functools import cache
from typing import Any

__all__ = ["read_json", "write_json"]


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
