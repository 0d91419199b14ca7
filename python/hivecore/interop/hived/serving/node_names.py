"""The node names at the end of a filter request, which are most of it.

kube-scheduler writes ``{"Pod":...,"Nodes":null,"NodeNames":[...]}``, all names in an order that
changes from call to call. Mostly it matters whether one node is among them, and that can be seen in
the text. What is before it is read as an object of its own, so that the end cannot be part of
something else.
"""

from contextlib import suppress
from typing import Any

import msgspec

from hivecore.cells import NodeSet
from hivecore.interop.kubernetes.calls import BadCall, parsed
from hivecore.interop.kubernetes.json_text import read_body, write_json

__all__ = ["NamesAtEnd", "split_names"]

_KEY = b',"NodeNames":["'
_END = b'"]}'
_SHORT = 2048


class NamesAtEnd:
    """Names as they stand in the text of a request.

    :param text: ``,"NodeNames":["n1","n2"]}``, without a backslash.

    >>> from hivecore.interop.hived.serving.node_names import NamesAtEnd
    >>> names = NamesAtEnd(b',"NodeNames":["n1","n22"]}')
    >>> "n1" in names, "n2" in names, len(names.node_set())
    (True, False, 2)
    """

    __slots__ = ("_nodes", "_text", "length")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.length = len(text)
        self._nodes: NodeSet | None = None

    def __contains__(self, name: object) -> bool:
        if self._nodes is not None or not isinstance(name, str) or "," in name:
            return name in self.node_set()
        return write_json(name) in self._text

    def node_set(self) -> NodeSet:
        """The names as a set; raises `BadCall` where they are none."""
        if self._nodes is None:
            try:
                self._nodes = NodeSet.of_json(self._text[len(_KEY) - 2 : -1])
            except msgspec.ValidationError as error:
                raise BadCall(400, f"NodeNames: {error}") from None
            except ValueError as error:
                raise BadCall(400, f"the body is no JSON: {error}") from None
        return self._nodes

    def is_end_of(self, body: bytes) -> bool:
        """Whether a request ends with the same names."""
        return body.endswith(self._text)


def split_names(body: Any, last: NamesAtEnd | None) -> tuple[Any, NamesAtEnd | None]:
    """What a request says, but for node names that are returned beside it.

    :param last: those of the request before, which may have been read already.
    :raises BadCall: it is no JSON.

    >>> from hivecore.interop.hived.serving.node_names import split_names
    >>> split_names(b'{"Pod":{},"NodeNames":["n1"]}', None)
    ({'Pod': {}, 'NodeNames': ['n1']}, None)
    """
    if isinstance(body, bytes) and len(body) >= _SHORT:
        names = last
        if names is None or not names.is_end_of(body):
            names = _names_at_end(body)
        else:
            names.node_set()  # they come again, and may do so often
        if names is not None:
            with suppress(ValueError):  # it is part of something else
                fields = read_body(body[: len(body) - names.length] + b"}")
                if "NodeNames" not in fields:
                    return fields, names
    return parsed(body), None


def _names_at_end(body: bytes) -> NamesAtEnd | None:
    """The names at the end of a request; None: something else is there."""
    start = body.find(_KEY)
    if start < 0 or not body.endswith(_END):
        return None
    text = body[start:]
    # Without an escaped quotation mark a name in quotation marks is a name of the list.
    return None if b"\\" in text or text.index(b"]") != len(text) - 2 else NamesAtEnd(text)
