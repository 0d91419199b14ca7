"""An application behind HTTP: methods, sizes, JSON, TLS, the token; its routes answer requests.

Requests are answered one after the other by the thread that reads them: a decision takes less time
than to hand it to another thread. What takes long, such as a picture of the whole cluster, the
service gives to a thread itself.
"""

import asyncio
import hmac
import inspect
import signal
import ssl
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.routes import Routes

if TYPE_CHECKING:
    from aiohttp import web

    from hivecore.interop.kubernetes.serving._connections import Connections
    from hivecore.interop.kubernetes.serving.metrics import Metrics

__all__ = ["HttpServer", "Listening", "Page", "Service", "read_token", "run", "tls_context"]


_AT_ONCE = 2**20  # bytes
_LAST_ANSWERS = 5.0  # seconds for requests that came before the end
_IDLE = 120.0  # seconds until a connection without a request ends; kube-scheduler keeps 90
_PROBES = ("/livez", "/readyz", "/healthz")
_LEAST_TOKEN = 16  # characters
#: A page takes scripts, styles and data from this service alone, and is in no frame of others.
_OF_PAGES = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}


class Page(NamedTuple):
    """A static file for a browser, without any data.

    :param kind: its media type.
    """

    content: bytes
    kind: str


class Service:
    """An application without HTTP: a table of routes, and what is measured of it."""

    routes: Routes
    pages: Mapping[str, Page] = MappingProxyType({})
    """What a browser is given, by path, without the token; at "/" only if it asks for HTML."""
    metrics: "Metrics"
    """Where requests are counted."""
    not_ready = ""
    """Why requests cannot be answered yet; "": they can."""
    learning: tuple[str, ...] = ()
    """The paths that are answered all the same: by them the service learns the cluster."""

    async def answer(
        self, path: str, body: bytes = b"", query: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status, and JSON; of a status from 400 on it is ``{"Error": ...}``."""
        try:
            status, content = await self._answer(path, body, query or {})
        except BadCall as error:
            status, content = error.status, {"Error": str(error)}
        return status, content if isinstance(content, bytes) else write_json(content)

    async def _answer(self, path: str, body: bytes, query: Mapping[str, str]) -> tuple[int, Any]:
        """The status, and JSON or what it is to be written of.

        :raises BadCall: the request makes no sense.
        """
        route, name = self.routes.find(path)
        if query and not route.has_parameters:
            raise BadCall(400, f"{path} has no parameters in its URL")
        content = route.answer(self, route.call(path, name, body, query))
        return 200, await content if inspect.isawaitable(content) else content


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how to listen.

    :param port: 0: any free one, which is printed.
    :param max_body: the most bytes that the body of a request may have.
    :param tls: ``None``: no TLS.
    :param token: clients have to send it, except for probes and pages; "": they need none.
    :param body_seconds: how long the body of a request may take to come, and the client to take the
        answer, or each MiB of a long one.
    :param head_seconds: how long a connection may take, from its beginning or from the first byte
        after an answer, until the head of a request is there.
    :param connections: how many may be open; a further one ends the one that matters least.
        ``None``: half of the files that the process may open, and at most 4096.
    """

    host: str
    port: int
    max_body: int
    tls: ssl.SSLContext | None = None
    token: str = field(default="", repr=False)
    body_seconds: float = 60.0
    head_seconds: float = 5.0
    connections: int | None = None


class HttpServer:
    """Answers over HTTP; leaving its context ends it, after the last requests are answered.

    Every answer is JSON, but for ``/metrics`` and pages. Besides what the service answers:
    ``/livez`` is always 200, ``/readyz`` 503 as long as the service is not ready, and so is
    everything else; 401 without the token, where there is one (``Authorization: Bearer ...``), but
    for pages, ``/livez``, ``/readyz`` and ``/healthz``; 404 for an unknown path, 405 for a wrong
    method, 408 for a body that comes too slowly, 413 for a request that is too large, 400 for one
    that is no HTTP, 500 when the service fails. Connections are limited in number and time, see
    `Listening`.
    """

    def __init__(self, service: Service, listening: Listening) -> None:
        from aiohttp import web

        self._service, self._listening = service, listening
        self._token = listening.token.encode()
        loop, most = asyncio.get_running_loop(), listening.max_body
        request = partial(web.BaseRequest, loop=loop, client_max_size=most)
        self._server = web.Server(self._handle, request_factory=request)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_LAST_ANSWERS)
        self._connections: Connections | None = None

    async def listen(self) -> str:
        """Listen from now on; prints and returns the URL.

        :raises OSError: the address cannot be listened on.
        """
        from hivecore.interop.kubernetes.serving._connections import (
            Connections,
            Phase,
            most_connections,
        )

        given = self._listening
        most = most_connections() if given.connections is None else given.connections
        seconds = {
            Phase.HEAD: given.head_seconds,
            Phase.IDLE: _IDLE,
            Phase.BODY: given.body_seconds + _LAST_ANSWERS,  # it is answered before
            Phase.WRITING: given.body_seconds,
        }
        self._connections = Connections(self._server, given.tls, most, seconds)
        port = await self._connections.listen(given.host, given.port)
        shown = f"[{given.host}]" if ":" in given.host else given.host
        url = f"{'https' if given.tls else 'http'}://{shown}:{port}"
        print(f"hivecore listens on {url}", flush=True)
        return url

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connections is not None:
            await self._connections.close()
        await self._runner.cleanup()

    async def _handle(self, request: "web.BaseRequest") -> "web.StreamResponse":
        started = time.perf_counter()
        path = request.path
        connection: Any = request.protocol
        connection.answers()
        status, content, headers = await self._answer(request, path)
        self._service.metrics.answered(path, status, time.perf_counter() - started)
        connection.sends()
        if len(content) > _AT_ONCE and request.method == "GET":
            return await _in_parts(request, content)
        return _response(status, content, headers)

    async def _answer(
        self, request: "web.BaseRequest", path: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        service = self._service
        page = service.pages.get(path)
        if page is not None and request.method in ("GET", "HEAD") and _wants_page(request):
            return 200, page.content, {**_OF_PAGES, "Content-Type": page.kind}
        if self._token and path not in _PROBES and not self._knows_token(request):
            return _refusal(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})
        own = path in ("/livez", "/readyz", "/metrics")
        method = "GET" if own else service.routes.method(path)
        if method is None:
            return _refusal(404, f"nothing is at {path!r}")
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if request.method not in allowed:
            names = " and ".join(allowed)
            message = f"{request.method} is not possible here, but {names}"
            return _refusal(405, message, {"Allow": ", ".join(allowed)})
        if path == "/metrics":
            text, kind = service.metrics.text()
            return 200, text, {"Content-Type": kind}
        if path == "/livez":
            return 200, write_json({"status": "ok"}), {}
        if service.not_ready and path not in service.learning:
            return _refusal(503, f"not ready: {service.not_ready}")
        if path == "/readyz":
            return 200, write_json({"status": "ok"}), {}
        body = b""
        if method == "POST":
            try:
                body = await self._body(request)
            except BadCall as error:
                return _refusal(error.status, str(error), {"Connection": "close"})
        try:
            return *await service.answer(path, body, request.query), {}
        except Exception:
            LOG.exception("a request could not be answered", extra={"fields": {"path": path}})
            return _refusal(500, "the service has failed; its log says more")

    async def _body(self, request: "web.BaseRequest") -> bytes:
        """The body of a request; raises `BadCall`."""
        from aiohttp import web

        given = self._listening
        too_large = BadCall(413, f"the request has more than {given.max_body} bytes")
        if (request.content_length or 0) > given.max_body:
            raise too_large
        if expected := request.headers.get("Expect"):
            if expected.lower() != "100-continue":
                raise BadCall(417, f"what is expected is not known: {expected[:100]!r}")
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        connection: Any = request.protocol
        connection.takes_body()
        try:
            async with asyncio.timeout(given.body_seconds):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large from None
        except ConnectionResetError:
            raise BadCall(400, "the connection has ended before the body") from None
        except TimeoutError:
            message = f"the body has not come within {given.body_seconds:g} seconds"
            raise BadCall(408, message) from None
        except Exception as error:  # of the many that aiohttp has for chunks and encodings
            raise BadCall(
                400, f"the body cannot be read: {' '.join(str(error).split())[:200]}"
            ) from None
        finally:
            connection.answers()

    def _knows_token(self, request: "web.BaseRequest") -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(given, self._token) and scheme.lower() == "bearer"


def _wants_page(request: "web.BaseRequest") -> bool:
    """Whether it asks for a part of the page, or for HTML at "/", as browsers do."""
    return request.path != "/" or "text/html" in request.headers.get("Accept", "")


def _refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes, Mapping[str, str]]:
    return status, write_json({"Error": message}), headers or {}


async def _in_parts(request: "web.BaseRequest", content: bytes) -> "web.StreamResponse":
    """Send part by part: what a connection cannot take at once would be copied as a whole."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(content)
    await response.prepare(request)
    view = memoryview(content)
    connection: Any = request.protocol
    for start in range(0, len(content), _AT_ONCE):
        connection.sends()
        await response.write(view[start : start + _AT_ONCE])
        await asyncio.sleep(0)  # others have their turn while a connection takes everything
    return response


def _response(status: int, content: bytes, headers: Mapping[str, str]) -> "web.StreamResponse":
    from aiohttp import web

    fields = {"Content-Type": "application/json", **headers}
    return web.Response(body=content, status=status, headers=fields)


def read_token(path: Path) -> str:
    """The token in a file: one line, of which white space around does not count.

    :raises OSError: the file cannot be read.
    :raises ValueError: there is none, or one that is easily guessed or not plain text.
    """
    try:
        token = path.read_text("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: a token is plain ASCII") from None
    if len(token) < _LEAST_TOKEN or not token.isprintable() or " " in token:
        raise ValueError(f"{path}: a token has at least {_LEAST_TOKEN} characters, and no blanks")
    return token


def run(service: Coroutine[Any, Any, None]) -> None:
    """Run until it ends, or a signal ends the process: quietly SIGTERM.

    :raises KeyboardInterrupt: by SIGINT.
    """

    async def supervised() -> None:
        task = asyncio.ensure_future(service)
        signals = []

        def end() -> None:
            signals.append(True)
            task.cancel()

        with suppress(NotImplementedError):  # on Windows the process just ends
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        try:
            await task
        except asyncio.CancelledError:
            if not signals:
                raise

    asyncio.run(supervised())


def tls_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """TLS for a server; with `client_ca` only clients with a certificate of it may ask.

    :raises OSError: a file cannot be read, or holds no certificate or key; or the key has a
        passphrase.
    """

    def passphrase() -> str:
        raise OSError("the key has a passphrase")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key, passphrase)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
