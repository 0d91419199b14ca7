"""An extender behind HTTP: methods, sizes and JSON; what is asked is answered there.

Requests are read by one thread and answered by others, one after the other. Nothing is kept of a
request beyond the size limit. Up to twice the limit it is read to its end before it is refused, as
a client that is still writing may not read the answer; a larger one is cut off.
"""

import json
import socket
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Extender", "application", "serve"]


class Extender(Protocol):
    """What answers requests, without HTTP."""

    def method(self, path: str, /) -> str | None:
        """The HTTP method, "POST" or "GET"; None: there is no such path."""

    def handle(self, path: str, body: Any = None, /) -> tuple[int, Any]:
        """The status, and plain data for JSON; ``/healthz`` is answered at once."""


def application(extender: Extender, max_body: int) -> "Starlette":
    """The ASGI application for an extender; needs Starlette.

    :param max_body: size in bytes of the largest request that is read; a larger one gets 413.

    Every answer is JSON. Besides what ``extender.handle`` answers: 405 for a wrong method, 413.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

    async def answer(request: "Request") -> "Response":
        path = request.scope["path"]
        method = extender.method(path)
        if method is not None and request.method not in _allowed(method):
            message = f"{request.method} is not possible here, but {' and '.join(_allowed(method))}"
            return _response(405, _text({"Error": message}), Allow=", ".join(_allowed(method)))
        if path == "/healthz":
            return _response(200, _text(extender.handle(path)[1]))
        try:
            body = await _read(request, max_body) if method == "POST" else b""
        except ClientDisconnect:
            return _response(400, b"{}")
        if body is None:
            message = f"the request has more than {max_body} bytes"
            return _response(413, _text({"Error": message}), Connection="close")
        return await run_in_threadpool(_answer, extender, path, body)

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
    return Starlette(routes=[Route("/{path:path}", answer, methods=methods)])


def serve(extender: Extender, host: str, port: int, max_body: int) -> None:
    """Serve until the process is told to end (SIGINT, SIGTERM); needs Starlette and uvicorn.

    :param extender: what answers.
    :param host: address to listen on.
    :param port: 0: any free one. What it is gets printed.
    :param max_body: as for `application`.
    :raises OSError: the address cannot be listened on.
    """
    import uvicorn

    with _listener(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        print(f"hivecore listens on http://{shown}:{listener.getsockname()[1]}", flush=True)
        app = application(extender, max_body)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send what they are given at once.

    An answer is written in two parts, head and body. Where the system may wait for more to send
    (Nagle's algorithm) the second one waits for the client's delayed acknowledgement of the first,
    40 ms on every request but a connection's first. asyncio sets TCP_NODELAY only on connections
    whose protocol it can see is TCP, and `socket.create_server` leaves the number of it at 0.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    plain = socket.create_server((host, port), family=family, backlog=2048)
    return socket.socket(family, plain.type, socket.IPPROTO_TCP, fileno=plain.detach())


def _allowed(method: str) -> tuple[str, ...]:
    return ("GET", "HEAD") if method == "GET" else (method,)


async def _read(request: "Request", max_body: int) -> bytes | None:
    """The body; None: it is too large."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > 2 * max_body:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= max_body:
            parts.append(part)
            continue
        parts.clear()
        if size > 2 * max_body:
            break
    return None if size > max_body else b"".join(parts)


def _answer(extender: Extender, path: str, body: bytes) -> "Response":
    status, found = extender.handle(path, body)
    return _response(status, _text(found))


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _response(status: int, content: bytes, **headers: str) -> "Response":
    from starlette.responses import Response

    return Response(content, status, headers, media_type="application/json")
