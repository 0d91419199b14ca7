"""The connections of an HTTP server: how many are open, and how long each of them may take.

Every open file of the process is limited, so a client that opens connections and sends nothing
could keep all others out. Connections are therefore accepted here, never more than a part of what
the process may open. When that many are open, a new one takes the place of the one that is missed
least: one whose request has not come as a whole, then one without a request, then one that sends
its body, one that does not read its answer, and one that waits for an answer; of equal ones
the oldest. Each of these has a moment before its turn: a probe sends its few bytes at once and is
answered, whatever the others do.
"""

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from aiohttp import web

from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["Connections", "Phase", "most_connections"]

_MOST = 4096
_BACKLOG = 2048
_MOMENT = 1.0  # seconds
_PAUSE = 0.1  # seconds, when no file is left
_LONGEST_MESSAGE = 300


class Phase(IntEnum):
    """What a connection is at; the lower, the sooner it is dropped."""

    HEAD = 0
    IDLE = 1
    BODY = 2
    WRITING = 3
    ANSWERING = 4


class _Peer:
    """An accepted socket, from the TLS handshake on."""

    __slots__ = ("close", "phase", "since", "unsent")

    def __init__(self, now: float) -> None:
        self.phase, self.since = Phase.HEAD, now
        self.close: Callable[[], object] = lambda: None
        self.unsent: Callable[[], int] = lambda: 0


class Connections:
    """Accepts connections for an `aiohttp` server and ends those that take too long.

    :param server: what answers.
    :param tls: ``None``: no TLS.
    :param most: how many connections are open at most.
    :param seconds: how long a connection may be at something; what is not named is not limited.
    """

    def __init__(
        self,
        server: web.Server,
        tls: ssl.SSLContext | None,
        most: int,
        seconds: dict[Phase, float],
    ) -> None:
        self._server, self._tls, self._most, self._seconds = server, tls, most, seconds
        self._loop = asyncio.get_running_loop()
        self._peers: dict[_Peer, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []
        self._bound: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Accept connections from now on; returns the port.

        :raises OSError: the address cannot be listened on.
        """
        self._start(self._watch())
        if sys.platform == "win32":  # its loop cannot wait for a socket without accepting
            self._bound = await self._loop.create_server(
                lambda: _Connection(self, self._new_peer(), self._server),
                host,
                port,
                ssl=self._tls,
                backlog=_BACKLOG,
            )
            return int(self._bound.sockets[0].getsockname()[1])
        bound = await self._loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        self._listeners = [socket.dup() for socket in bound.sockets]
        bound.close()
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._loop.add_reader(listener, self._accept, listener)
        return int(self._listeners[0].getsockname()[1])

    async def close(self) -> None:
        """Accept no more; what is open stays open."""
        if self._bound is not None:
            self._bound.close()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # the client has gone already
        except OSError as error:  # another part of the process has opened the last file
            LOG.warning("a connection could not be accepted: %s", error)
            self._drop_one()
            self._loop.remove_reader(listener)
            self._loop.call_later(_PAUSE, self._accept_again, listener)
            return
        peer = self._new_peer()
        task = self._start(self._connect(accepted, peer))
        peer.close = task.cancel

        def close_if_cancelled(task: asyncio.Task[None]) -> None:
            if task.cancelled():
                accepted.close()
                self.forget(peer)

        task.add_done_callback(close_if_cancelled)

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept, listener)

    def _new_peer(self) -> _Peer:
        if len(self._peers) >= self._most:
            self._drop_one()
        peer = _Peer(self._loop.time())
        self._peers[peer] = None
        return peer

    async def _connect(self, accepted: socket.socket, peer: _Peer) -> None:
        limits: dict[str, Any] = {}
        if self._tls is not None:
            seconds = self._seconds[Phase.HEAD]
            limits = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": seconds}
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _Connection(self, peer, self._server), accepted, ssl=self._tls, **limits
            )
        except (OSError, TimeoutError):
            accepted.close()
            self.forget(peer)

    def _drop_one(self) -> None:
        if self._peers:
            fresh = self._loop.time() - _MOMENT

            def missed(peer: _Peer) -> tuple[bool, int, float]:
                is_fresh = peer.since > fresh
                return is_fresh, 0 if is_fresh else peer.phase, peer.since

            self._drop(min(self._peers, key=missed))

    def _drop(self, peer: _Peer) -> None:
        self.forget(peer)
        peer.close()

    def forget(self, peer: _Peer) -> None:
        """The connection has ended."""
        self._peers.pop(peer, None)

    async def _watch(self) -> None:
        """End connections that take too long."""
        pause = min(1.0, min(self._seconds.values()) / 4)
        while True:
            await asyncio.sleep(pause)
            now = self._loop.time()
            for peer in [
                connection
                for connection in self._peers
                if now > connection.since + self._limit(connection)
            ]:
                self._drop(peer)

    def _limit(self, peer: _Peer) -> float:
        phase = peer.phase
        if phase is Phase.IDLE and peer.unsent():  # the client does not read its answer
            phase = Phase.WRITING
        return self._seconds.get(phase, float("inf"))

    def option(self, phase: Phase) -> float:
        """How long a connection may be at this."""
        return self._seconds[phase]


class _Connection(web.RequestHandler):
    """A connection that says what it is at, and answers mistakes in JSON."""

    __slots__ = ("_connections", "_peer")

    def __init__(self, connections: Connections, peer: _Peer, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # none is what a runner passes
            keepalive_timeout=connections.option(Phase.IDLE),
            lingering_time=connections.option(Phase.HEAD),
        )
        self._connections, self._peer = connections, peer

    def takes_body(self) -> None:
        """The body of a request is waited for."""
        self._enter(Phase.BODY)

    def answers(self) -> None:
        """A request has come, and its answer is computed."""
        self._enter(Phase.ANSWERING)

    def sends(self) -> None:
        """An answer, or the next part of it, is sent."""
        self._enter(Phase.WRITING)

    def _enter(self, phase: Phase) -> None:
        self._peer.phase, self._peer.since = phase, self._loop.time()

    def connection_made(self, transport: Any) -> None:
        self._peer.close, self._peer.unsent = transport.abort, transport.get_write_buffer_size
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.forget(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._peer.phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        super().data_received(data)

    async def finish_response(self, request: Any, resp: Any, *more: Any) -> Any:
        if isinstance(resp, web.HTTPException):  # what aiohttp itself refuses
            resp = _refusal(resp.status, resp.reason)
        self._enter(Phase.WRITING)
        result = await super().finish_response(request, resp, *more)
        self._enter(Phase.IDLE)
        return result

    def log_exception(self, *arguments: Any, exc_info: Any = None, **_: Any) -> None:
        # Such as a body that is not compressed as its head says: no fault of the service.
        LOG.debug("a connection has failed: %s", exc_info or arguments)

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= 500 and not isinstance(exc, ConnectionError):  # the client may have gone
            LOG.error("a request could not be answered", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent already")
        text = " ".join((message or "").split())[:_LONGEST_MESSAGE]
        response = _refusal(status, f"the request is no HTTP: {text}" if status < 500 else "failed")
        response.force_close()
        return response


def _refusal(status: int, message: str) -> web.Response:
    body = write_json({"Error": message})
    return web.Response(status=status, body=body, content_type="application/json")


def most_connections() -> int:
    """How many connections are open at most: half of the files that the process may open."""
    try:
        import resource
    except ImportError:  # Windows
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // 2))
