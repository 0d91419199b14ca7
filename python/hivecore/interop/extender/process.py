"""The process behind `hivecore serve --scheduler`."""

from typing import Any

from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.extender.link import PodLink
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.serving.process import Binding, serve
from hivecore.interop.kubernetes.serving.server import Listening
from hivecore.scheduler import Scheduler

__all__ = ["serve_scheduler"]

_SNAPSHOT_EVERY = 10_000  # lines of the log


async def serve_scheduler(
    scheduler: Scheduler,
    listening: Listening,
    actions: RecentActions | None = None,
    binding: Binding | None = None,
    **limits: Any,
) -> None:
    """Serve until it is cancelled, or something fails that must not.

    :param actions: those that the scheduler has decided before.
    :param binding: ``None``: pods can be filtered, and are not bound.
    :param limits: ``max_step``, ``fsync`` and ``snapshot_every``, see `SchedulerService`.
    :raises OSError: the address cannot be listened on, or the log cannot be written.
    """
    given = Binding() if binding is None else binding
    limits = {"fsync": "interval", "snapshot_every": _SNAPSHOT_EVERY, **limits}
    async with given.connected() as (api, binds):
        service = PodService(scheduler, actions, others_bind=given.others_bind, **binds, **limits)
        link = None if api is None else PodLink(service, api)
        await serve(service, listening, link, beside=[service.run()])
