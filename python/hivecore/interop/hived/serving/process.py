"""The process behind `hivecore serve` for HiveD's configurations."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from hivecore.interop.hived.configuration.config import HivedConfig
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.extender import Extender
from hivecore.interop.hived.serving.link import HivedLink
from hivecore.interop.hived.serving.service import HivedService
from hivecore.interop.kubernetes.client.evictor import EVICT_AFTER
from hivecore.interop.kubernetes.problems import ConfigError
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.process import Binding, lease_of, serve
from hivecore.interop.kubernetes.serving.server import Listening

__all__ = ["serve_hived"]

_LOOK_AFTER = 2.0  # seconds between looks at the configuration file


async def serve_hived(
    path: Path,
    scheduler: HivedScheduler,
    listening: Listening,
    binding: Binding,
    *,
    lease: tuple[str, str] | None = None,
    foreign: str | None = None,
    advertise: bool = True,
    evict_after: float = EVICT_AFTER,
) -> None:
    """Serve until it is cancelled.

    :param path: of the configuration, which is taken up again when it changes.
    :param lease: namespace and name of the lease of the leader; ``None``: there is one process.
    :param foreign: see `Extender`.
    :param advertise, evict_after: see `HivedLink`.
    :raises OSError: the address cannot be listened on.
    :raises LeaseLost: another process leads.
    """
    async with binding.connected() as (api, binds):
        service = HivedService(Extender(scheduler, foreign=foreign), **binds)
        link = None if api is None else HivedLink(service, api, advertise, evict_after)
        moved = (lambda: None) if link is None else link.advertise_again
        beside = [_follow(path, service, moved)]
        await serve(service, listening, link, lease_of(api, lease), beside)


async def _follow(path: Path, service: HivedService, moved: Callable[[], object]) -> None:
    """Take each change of the file up and call `moved`; every bound pod goes on running."""
    scheduler = service.extender.scheduler
    text = await asyncio.to_thread(_text, path)
    while True:
        await asyncio.sleep(_LOOK_AFTER)
        now = await asyncio.to_thread(_text, path)
        if now in (text, ""):
            continue
        text = now
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
