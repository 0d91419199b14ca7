"""The process behind `hivecore serve`: a service and what runs beside it, put together."""

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from msgspec import Struct

from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.client.lease import Lease
from hivecore.interop.kubernetes.client.link import ClusterLink
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.posting import PostingBinder
from hivecore.interop.kubernetes.serving.server import HttpServer, Listening, Service

__all__ = ["Binding", "LeaseLost", "lease_of", "serve"]

_SWITCH = 0.0005  # seconds: a thread that computes lets requests in


class LeaseLost(Exception):
    """Another process leads by now; this one must not decide any more."""


class Binding(Struct, frozen=True):
    """What binds the pods.

    :param api: makes the connection to the cluster's API server; ``None``: there is none.
    :param binder: binds pods where there is no such connection.
    :param others_bind: whether the client that calls the bind verb binds the pod.
    """

    api: Callable[[], Awaitable[ApiServer]] | None = None
    binder: PostingBinder | None = None
    others_bind: bool = False

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[ApiServer | None, dict[str, Any]]]:
        """The connection to the API server, and the arguments of a service that bind pods."""
        if self.api is not None:
            api = await self.api()
            try:
                yield api, {"binder": api.bind, "find_pod": api.find_pod}
            finally:
                await api.close()
            return
        try:
            yield None, {"binder": self.binder}
        finally:
            if self.binder is not None:
                await self.binder.close()


async def serve(
    service: Service,
    listening: Listening,
    link: ClusterLink | None = None,
    lease: Lease | None = None,
    beside: Iterable[Coroutine[Any, Any, None]] = (),
) -> None:
    """Serve until it is cancelled, or until something fails that runs beside.

    :param link: follows a cluster; requests are answered when its objects are known.
    :param lease: of the leader, where there are several replicas.
    :param beside: what else runs.
    :raises OSError: the address cannot be listened on.
    :raises LeaseLost: another process leads.
    """
    sys.setswitchinterval(_SWITCH)
    try:
        async with HttpServer(service, listening) as server, asyncio.TaskGroup() as group:
            for work in beside:
                group.create_task(work)
            if lease is not None:
                # It may stand by for days: its probes show that it lives.
                service.not_ready = "another replica leads"
                await server.listen()
                await lease.acquire()
                group.create_task(_hold(lease))
            if link is not None:
                service.not_ready = "nodes and pods have not been listed yet"
                group.create_task(link.run())
                await link.listed()
                service.not_ready = ""
                LOG.info("ready")
            # What there is now stays: no collection of garbage has to look at it again.
            gc.collect()
            gc.freeze()
            if lease is None:
                await server.listen()
            await asyncio.Event().wait()
    except BaseExceptionGroup as failures:
        error: BaseException = failures
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, LeaseLost):
            lease = None
        raise error from None
    finally:
        if lease is not None:
            await lease.release()


async def _hold(lease: Lease) -> None:
    LOG.info("this replica leads")
    await lease.hold()
    raise LeaseLost("the lease is lost: another replica leads")


def lease_of(api: ApiServer | None, name: tuple[str, str] | None) -> Lease | None:
    """The lease of this namespace and name for this process; ``None``: it needs none."""
    if api is None or name is None:
        return None
    identity = f"{socket.gethostname()}_{uuid4().hex[:8]}"
    return Lease(api, *name, identity, LOG.warning)
