"""The node names at the end of a filter request, which are most of it and often the same.

kube-scheduler writes ``{"Pod":...,"Nodes":null,"NodeNames":[...]}``. A body that ends as one of the
last did, from the comma before ``"NodeNames"``, has the same names: what is before it is read as an
object of its own, so that the end cannot be part of something else.
"""

from typing import Any

from hivecore.cells import NodeSet
from hivecore.interop.kubernetes.calls import parsed
from hivecore.interop.kubernetes.json_text import read_json

__all__ = ["RecentNodeNames"]

_KEY = b',"NodeNames":['
_SHORT = 2048
_MOST = 4


class RecentNodeNames:
    """Reads filter requests, and remembers how the last ones ended.

    >>> from hivecore.interop.hived.serving.node_names import RecentNodeNames
    >>> names = RecentNodeNames()
    >>> names.parse(b'{"Pod":{},"NodeNames":["n1"]}')
    ({'Pod': {}, 'NodeNames': ['n1']}, None)
    """

    def __init__(self) -> None:
        self._endings: dict[bytes, NodeSet] = {}

    def parse(self, body: Any) -> tuple[Any, NodeSet | None]:
        """What the body says, but for node names that are returned beside it.

        :raises BadCall: it is no JSON.
        """
        if not isinstance(body, bytes) or len(body) < _SHORT:
            return parsed(body), None
        for ending, nodes in self._endings.items():
            if body.endswith(ending):
                found = _before(body, len(body) - len(ending))
                if found is not None:
                    return found, nodes
        start = body.rfind(_KEY)
        found = _before(body, start) if start > 0 and len(body) - start >= _SHORT else None
        if found is not None:
            new = _node_set(b"{" + body[start + 1 :])
            if new is not None:
                self._endings[body[start:]] = new
                if len(self._endings) > _MOST:
                    del self._endings[next(iter(self._endings))]
                return found, new
        return parsed(body), None


def _before(body: bytes, end: int) -> dict[str, Any] | None:
    """The object that the body would be without its end; None: it would be none."""
    try:
        found: dict[str, Any] = read_json(body[:end] + b"}")
    except ValueError:
        return None
    return found


def _node_set(ending: bytes) -> NodeSet | None:
    try:
        found = read_json(ending)
    except ValueError:
        return None
    names = found.get("NodeNames") if isinstance(found, dict) and len(found) == 1 else None
    if not isinstance(names, list) or not {str}.issuperset(map(type, names)):
        return None
    return NodeSet(names)
