"""Requests in numbers, with the answers that the kernel keeps for each."""

from typing import Any

from hivecore.devices._numbers import Numbers
from hivecore.devices.device_request import DeviceRequest

__all__ = ["Queries"]

_MOST_QUERIES = 1024
_MOST_KEPT = 2**22  # answers, over all queries and nodes


class Queries:
    """The queries of the requests that were asked last."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._known: dict[Any, Any] = {}

    def of(self, request: DeviceRequest, nodes: int) -> Any:
        """The query of a request; requests remember theirs, with the dict that it stands in."""
        known = getattr(request, "_query", None)
        if known is not None and known[0] is self._known:
            return known[1]
        query = self._known.pop(request.content, None)
        if query is None:
            query = self._numbers.query(request)
            most = min(_MOST_QUERIES, max(_MOST_KEPT // (nodes + 1), 32))
            if len(self._known) >= most:
                # A new dict, so that no request remembers what is forgotten here.
                self._known = dict(list(self._known.items())[most // 2 :])
        self._known[request.content] = query  # the latest last
        request.remember((self._known, query))
        return query

    def forget(self) -> None:
        """All of them."""
        self._known = {}
