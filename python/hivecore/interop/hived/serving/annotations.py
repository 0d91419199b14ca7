"""What HiveD's pods carry in their annotations, read and written.

The scheduling spec is YAML, of which HiveD decodes each field as the type that it has: a tenant
may be called ``007``, and ``leafCellNumber: "8"`` is a number. The bind info is written as JSON,
which is YAML too, and read as either.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hivecore._arguments import as_object
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.kubernetes.pods import RequestError
from hivecore.interop.kubernetes.problems import ConfigError, Problems

__all__ = ["BIND_INFO", "ISOLATION", "SPEC", "bind_annotations", "read_bind_info", "read_spec"]

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
"""The annotation with what a pod asks for."""
BIND_INFO = "hivedscheduler.microsoft.com/pod-bind-info"
"""The annotation with where a pod and its group are bound."""
ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
"""The annotation with the device indices of a pod, for its containers' environment."""

_NUMBERS = {
    *("priority", "leafCellNumber", "gpuNumber", "podNumber"),
    *("leafCellIsolation", "gpuIsolation", "physicalLeafCellIndices", "physicalGpuIndices"),
}
_FLAGS = {"gangReleaseEnable", "lazyPreemptionEnable", "ignoreK8sSuggestedNodes"}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLAG = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_read_texts = json.JSONDecoder(
    object_pairs_hook=as_object, parse_int=str, parse_float=str, parse_constant=str
).decode
_DEEP = 12
_SHORT = 4096
_WRITTEN_OUT = 10_000


def read_spec(text: str) -> Mapping[str, Any]:
    """The mapping in a scheduling spec; not to be changed.

    :raises RequestError: it has none.

    >>> read_spec("{virtualCluster: 007, leafCellNumber: 8, lazyPreemptionEnable: yes}")
    {'virtualCluster': '007', 'leafCellNumber': 8, 'lazyPreemptionEnable': True}
    """
    return _read_again(text) if len(text) <= _SHORT else _read(text, SPEC)


def read_bind_info(text: str) -> Mapping[str, Any]:
    """The mapping in a bind info.

    :raises RequestError: it has none.

    >>> read_bind_info("{node: n1, gpuIsolation: [4]}")
    {'node': 'n1', 'gpuIsolation': [4]}
    """
    try:
        fields = json.loads(text, object_pairs_hook=as_object)
    except (ValueError, RecursionError):
        return _read(text, BIND_INFO)
    return _mapping(fields, BIND_INFO)


@lru_cache(maxsize=1024)
def _read_again(text: str) -> Mapping[str, Any]:
    """Every pod of a group says the same, again and again while it waits."""
    return _read(text, SPEC)


def _read(text: str, annotation: str) -> Mapping[str, Any]:
    if text[:1] == "{" and text.isascii() and text.isprintable() and "\\" not in text:
        # JSON of this kind reads as YAML does, and is read faster.
        with suppress(ValueError, RecursionError):
            return _mapping(_typed(_read_texts(text), "", 0), annotation)
    problems = Problems()
    fields = read_yaml(text, problems, _WRITTEN_OUT)
    try:
        problems.raise_if_any()
    except ConfigError as error:
        raise RequestError(f"annotation {annotation}: {error}") from None
    return _mapping(_typed(fields, "", 0), annotation)


def _mapping(value: Any, annotation: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(f"annotation {annotation} must be a mapping")
    return value


def _typed(value: Any, field: str, depth: int) -> Any:
    """Texts as numbers and flags where the field is one; what is no such text stays one."""
    if isinstance(value, bool):
        value = "true" if value else "false"  # as it is written
    if isinstance(value, str):
        if field in _NUMBERS and _INTEGER.fullmatch(value):
            return int(value)
        return _FLAG.get(value.lower(), value) if field in _FLAGS else value
    if depth < _DEEP and isinstance(value, list):
        return [_typed(entry, field, depth + 1) for entry in value]
    if depth < _DEEP and isinstance(value, dict):
        return {key: _typed(entry, key, depth + 1) for key, entry in value.items()}
    return value


def bind_annotations(info: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of a pod that is bound: its bind info and its devices.

    :param info: what ``HivedScheduler.bind_info`` answers.

    >>> record = {"node": "n", "leafCellIsolation": [4, 5], "cellChain": "rack"}
    >>> bind_annotations(record)[ISOLATION]
    '4,5'
    """
    return {
        ISOLATION: ",".join(map(str, info["leafCellIsolation"])),
        BIND_INFO: json.dumps(info, separators=(",", ":")),
    }
