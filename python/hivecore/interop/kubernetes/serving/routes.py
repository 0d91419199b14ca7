"""The routes of an HTTP application: which function answers which path, and what it reads.

A path that ends with "/" stands for all that is below it, and is reached without its slash, too;
one that ends with a name in braces needs a name there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from hivecore.interop.kubernetes.calls import BadCall, parsed, read_call
from hivecore.interop.kubernetes.messages import show

__all__ = ["COMMON", "Call", "Route", "Routes", "watch"]


class Call(NamedTuple):
    """A request.

    :param name: what stands below the path of its route.
    :param body: the record of the route, where it has one; else as it was sent.
    """

    path: str
    name: str
    body: Any
    query: Mapping[str, str]


class Route(Struct, frozen=True):
    """One path.

    :param method: "GET" or "POST".
    :param answer: answers for the owner of the routes: ``answer(owner, call)``.
    :param body: the record that is sent.
    :param reply: the record in which kube-scheduler reads an error, with status 200.
    :param has_parameters: whether the URL may have some.
    :param is_slow: whether its answer takes long, and changes nothing.
    :param is_listed: whether "/" names it.
    """

    method: str
    path: str
    answer: Callable[[Any, Call], Any]
    body: type[Struct] | None = None
    reply: type[Struct] | None = None
    has_parameters: bool = False
    is_slow: bool = False
    is_listed: bool = True

    @property
    def verb(self) -> str:
        """The last part of the path, such as "bind", of a route that decides on a pod; else ""."""
        return "" if self.reply is None else self.path.rpartition("/")[2]

    def call(self, path: str, name: str, body: Any, query: Mapping[str, str] | None = None) -> Call:
        """The request that has come for this route.

        :raises BadCall: its body is another one.
        """
        data = body if self.body is None else read_call(body, self.body)
        return Call(path, name, data, query or {})


def watch(owner: Any, call: Call) -> dict[str, Any]:
    """The answer to a watch event or a list of objects, which the owner applies.

    :raises BadCall: a part of it could not be applied.
    """
    mistakes = owner.apply(parsed(call.body))
    if mistakes:
        raise BadCall(400, "\n".join(mistakes))
    return {}


#: The routes that every application has.
COMMON = (
    Route("GET", "/", lambda owner, call: {"paths": owner.routes.paths}),
    Route("GET", "/healthz", lambda owner, call: {"status": "ok"}),
)


class Routes:
    """A table of routes.

    >>> from hivecore.interop.kubernetes.serving.routes import Route, Routes
    >>> routes = Routes([Route("GET", "/v1/jobs/{job}", lambda owner, call: call.name)])
    >>> routes.method("/v1/jobs/train"), routes.method("/v1/jobs/")
    ('GET', None)
    >>> routes.find("/v1/jobs/train")[1]
    'train'
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self.paths = [route.path for route in self.routes if route.is_listed]
        """As "/" lists them."""
        self.posted = [route.path for route in self.routes if route.method == "POST"]
        """The paths where something may change."""
        self._exact: dict[str, Route] = {}
        self._below: list[tuple[str, Route]] = []
        for route in self.routes:
            prefix, _, name = route.path.rpartition("/")
            if not name.startswith("{"):
                self._exact[route.path] = route
            if not prefix or (name and not name.startswith("{")):
                continue
            self._below.append((f"{prefix}/", route))
            if not name:
                self._exact.setdefault(prefix, route)
        self._below.sort(key=lambda entry: -len(entry[0]))

    def find(self, path: str) -> tuple[Route, str]:
        """The route that answers a path, and the end of the path that is not the route's, or "".

        :raises BadCall: no route answers the path.
        """
        route = self._exact.get(path)
        if route is not None:
            return route, ""
        for prefix, route in self._below:
            if path.startswith(prefix) and len(path) > len(prefix):
                return route, path[len(prefix) :]
        raise BadCall(404, f"nothing is at {show(path)}")

    def method(self, path: str) -> str | None:
        """The HTTP method of a path; ``None``: no route has it."""
        try:
            return self.find(path)[0].method
        except BadCall:
            return None
