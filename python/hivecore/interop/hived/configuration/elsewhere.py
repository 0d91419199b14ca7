"""Where in a larger document HiveD's configuration is: OpenPAI's files, objects of Kubernetes."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from hivecore.interop.kubernetes.problems import Place, Problems

__all__ = ["configuration_in"]

_MARKS = ("physicalCluster", "virtualClusters")
_DEEPEST = 12
_MOST = 100_000  # parts of a document that are looked at


def configuration_in(document: Any) -> str:
    """A sentence that says where the configuration is; "": it is not in the document.

    :param document: plain data, or a list of documents.

    >>> configuration_in({"kind": "ConfigMap", "data": {"config": "physicalCluster: {}"}})
    'the configuration is the text at data.config'
    """
    places = list(_places(document))
    # An annotation of kubectl has the object again, as it was applied.
    places.sort(key=lambda place: "metadata" in place[0])
    return f"the configuration is {places[0][1]} at {places[0][0]}" if places else ""


def _places(document: Any) -> Iterator[tuple[str, str]]:
    """Where it is, and as what, nearest to the top first."""
    level: list[tuple[Any, Place]] = [(document, None)]
    seen = 0
    for _ in range(_DEEPEST):
        below: list[tuple[Any, Place]] = []
        for value, place in level:
            seen += 1
            if seen > _MOST:
                return
            if isinstance(value, Mapping):
                if place is not None and any(mark in value for mark in _MARKS):
                    yield Problems.path(place), "the mapping"
                below += [(entry, (place, key)) for key, entry in value.items()]
            elif isinstance(value, (list, tuple)):
                below += [(entry, (place, number)) for number, entry in enumerate(value)]
            elif isinstance(value, str):
                if any(f"{mark}:" in value or f'{mark}":' in value for mark in _MARKS):
                    yield Problems.path(place), "the text"
                elif any(f"{mark}:" in _decoded(value) for mark in _MARKS):
                    yield Problems.path(place), "the text (in base64)"
        level = below


def _decoded(text: str) -> str:
    """What a value of a Secret holds; "": it is none."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
