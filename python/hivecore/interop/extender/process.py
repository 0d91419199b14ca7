"""The process behind `hivecore serve --scheduler`: everything that runs side by side."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from hivecore.interop.events.service import MAX_STEP, Fsync
from hivecore.interop.events.told import ToldActions
from hivecore.interop.extender.link import PodLink
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.posting import PostingBinder
from hivecore.interop.kubernetes.serving.server import HttpServer, Listening
from hivecore.scheduler import Scheduler

__all__ = ["PodOptions", "serve_scheduler"]

_SNAPSHOT_EVERY = 10_000  # lines of the log

_SWITCH = 0.0005  # seconds: whoever explains in a thread lets requests in


@dataclass(frozen=True, slots=True)
class PodOptions:
    """How the process is connected with Kubernetes, and what its service allows.

    :param api: makes the connection to its API server; ``None``: there is none.
    :param binder: binds pods where there is no such connection.
    :param others_bind: whether whoever calls the bind verb binds the pod.
    :param max_step: see `SchedulerService`. So are ``fsync`` and ``snapshot_every``.
    """

    api: Callable[[], Awaitable[ApiServer]] | None = None
    binder: PostingBinder | None = None
    others_bind: bool = False
    max_step: float = MAX_STEP
    fsync: Fsync = "interval"
    snapshot_every: int = _SNAPSHOT_EVERY


async def serve_scheduler(
    scheduler: Scheduler,
    listening: Listening,
    told: ToldActions | None = None,
    options: PodOptions | None = None,
) -> None:
    """Serve until it is cancelled, or something fails that must not.

    :param listening: with the token that clients have to know, if there is one.
    :param told: the actions that the scheduler has told before.
    :param options: ``None``: pods can be asked about, and nobody binds them.
    :raises OSError: the address cannot be listened on, or the log cannot be written.
    """
    sys.setswitchinterval(_SWITCH)
    given = PodOptions() if options is None else options
    limits: Any = {name: getattr(given, name) for name in ("max_step", "fsync", "snapshot_every")}
    if given.api is None:
        service = PodService(
            scheduler, told, binder=given.binder, others_bind=given.others_bind, **limits
        )
        try:
            async with HttpServer(service, listening) as server:
                await _listen(server, service)
        finally:
            if given.binder is not None:
                await given.binder.close()
        return
    api = await given.api()
    service = PodService(scheduler, told, binder=api.bind, find_pod=api.find_pod, **limits)
    link = PodLink(service, api)
    try:
        async with HttpServer(service, listening) as server:
            following = asyncio.ensure_future(link.run())
            try:
                await _either(link.listed(), following)
                LOG.info("ready")
                await _either(_listen(server, service), following)
            finally:
                following.cancel()
    finally:
        await api.close()


async def _listen(server: HttpServer, service: PodService) -> None:
    """Answer until the service fails."""
    # What there is now stays: no collection of garbage has to look at it again.
    gc.collect()
    gc.freeze()
    await server.listen()
    keeping = asyncio.ensure_future(service.keep_log())
    try:
        await service.broken.wait()
    finally:
        keeping.cancel()
        service.end()
    assert service.failure is not None
    raise service.failure


async def _either(work: Awaitable[None], following: asyncio.Future[None]) -> None:
    """Wait for the work; an error of what runs beside it ends both."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, following), return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            await following
        await task
    finally:
        task.cancel()
