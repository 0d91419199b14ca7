"""The process behind `hivecore serve`: everything that runs side by side, put together."""

import asyncio
import gc
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hivecore.interop.hived.configuration.config import ConfigError, HivedConfig
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.cluster_link import ClusterLink
from hivecore.interop.hived.serving.extender import Extender
from hivecore.interop.hived.serving.service import HivedService
from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.client.lease import Lease
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.posting import PostingBinder
from hivecore.interop.kubernetes.serving.server import HttpServer, Listening

__all__ = ["ClusterOptions", "LeaseLost", "serve_hived"]

_LOOK_AFTER = 2.0  # seconds between looks at the configuration file
_SWITCH = 0.0005  # seconds: whoever draws the cluster in a thread lets requests in


class LeaseLost(Exception):
    """Another process leads by now; this one must not decide any more."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How the process is connected with Kubernetes.

    :param api: makes the connection to its API server; ``None``: there is none.
    :param binder: binds pods where there is no such connection.
    :param lease: namespace and name of the lease of the leader; ``None``: there is one process.
    :param foreign: see `Extender`.
    :param advertise: see `ClusterLink`.
    """

    api: Callable[[], Awaitable[ApiServer]] | None = None
    binder: PostingBinder | None = None
    lease: tuple[str, str] | None = None
    foreign: str | None = None
    advertise: bool = True


async def serve_hived(
    path: Path, scheduler: HivedScheduler, options: ClusterOptions, listening: Listening
) -> None:
    """Serve until it is cancelled.

    :param path: of the configuration, which is taken up again when it changes.
    :raises OSError: the address cannot be listened on.
    :raises LeaseLost: another process leads.
    """
    sys.setswitchinterval(_SWITCH)
    extender = Extender(scheduler, foreign=options.foreign)
    if options.api is None:
        service = HivedService(extender, options.binder)
        try:
            async with HttpServer(service, listening) as server:
                await server.listen()
                await _follow(path, service, lambda: None)
        finally:
            if options.binder is not None:
                await options.binder.close()
        return
    api = await options.api()
    lease = None
    if options.lease is not None:
        lease = Lease(api, *options.lease, _identity(), LOG.warning)
    service = HivedService(extender, api.bind, api.find_pod)
    link = ClusterLink(service, api, options.advertise)
    service.metrics.add_gauges(link.gauges())
    try:
        async with HttpServer(service, listening) as server, asyncio.TaskGroup() as group:
            group.create_task(_follow(path, service, link.advertise_again))
            if lease is not None:
                # It may stand by for days: whoever looks after it is to see that it lives.
                service.not_ready = "another replica leads"
                await server.listen()
                await lease.acquire()
                group.create_task(_hold(lease))
            service.not_ready = "nodes and pods have not been listed yet"
            group.create_task(link.run())
            await link.listed()
            service.not_ready = ""
            if lease is None:
                await server.listen()
            # What there is now stays: no collection of garbage has to look at it again.
            gc.collect()
            gc.freeze()
            LOG.info("ready")
    except ExceptionGroup as group:
        if group.split(LeaseLost)[1] is not None:
            raise
        lease = None
        raise LeaseLost("the lease is lost: another replica leads") from None
    finally:
        if lease is not None:
            await lease.release()
        await api.close()


async def _hold(lease: Lease) -> None:
    LOG.info("this replica leads")
    await lease.hold()
    raise LeaseLost


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid4().hex[:8]}"


async def _follow(
    path: Path,
    service: HivedService,
    moved: Callable[[], object],
) -> None:
    """Take the configuration up again whenever its file changes; every bound pod goes on running.

    :param moved: is called after each change.
    """
    scheduler = service.extender.scheduler
    text = await asyncio.to_thread(_text, path)
    while True:
        await asyncio.sleep(_LOOK_AFTER)
        found = await asyncio.to_thread(_text, path)
        if found in (text, ""):
            continue
        text = found
        try:
            config = await asyncio.to_thread(HivedConfig.read, path)
            change = scheduler.reconfigure(config)
        except (ConfigError, OSError) as error:
            service.metrics.happened("configuration_refused")
            LOG.error("the configuration has mistakes, the last one stays in force: %s", error)
            continue
        service.metrics.happened("configuration_taken_up")
        LOG.info("another configuration is in force: %s", change)
        moved()
        service.extender.informer.gains += 1
        service.look_for_gains()


def _text(path: Path) -> str:
    """What is in the file; "": it cannot be read now."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
