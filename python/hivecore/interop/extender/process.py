"""The process behind `hivecore serve --scheduler`: its scheduler, its log, its service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.extender.claim_writer import ClaimWriter
from hivecore.interop.extender.link import PodLink
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.process import Binding, serve
from hivecore.interop.kubernetes.serving.server import Listening
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Scheduler, recover
from hivecore.scheduler.log.files import is_new_log

__all__ = ["opened", "read_scheduler", "serve_scheduler"]

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
        writer = None if api is None else ClaimWriter(api)
        service = PodService(
            scheduler, actions, others_bind=given.others_bind, writer=writer, **binds, **limits
        )
        link = None if api is None else PodLink(service, api)
        await serve(service, listening, link, beside=[service.run()])


def read_scheduler(path: Path) -> Scheduler:
    """The scheduler of a file: one that says what a cluster is, or what `Scheduler.to_bytes` gave.

    :raises OSError: the file cannot be read.
    :raises ValueError: it is damaged, or says what cannot be.
    """
    data = path.read_bytes()
    if not data.startswith(b"HVSC"):
        spec = SchedulerSpec.read(path)
        for remark in spec.remarks:
            LOG.warning(remark)
        return spec.scheduler()
    try:
        return Scheduler.from_bytes(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@contextmanager
def opened(path: Path, log: Path | None) -> Iterator[tuple[Scheduler, RecentActions]]:
    """The scheduler, and the actions that it has decided; its log is closed at the end.

    :param path: see `read_scheduler`.
    :param log: of its decisions. If the file has a whole line already, the scheduler is as its log
        says, and goes on writing there. ``None``: it writes no log.
    :raises OSError: a file cannot be read or written, or another scheduler writes this log.
    :raises ValueError: a file is damaged.
    """
    if log is None:
        yield read_scheduler(path), RecentActions()
        return
    if is_new_log(log):
        scheduler, actions = read_scheduler(path), RecentActions(log=log)
        scheduler.write_log(log)
    else:
        try:
            scheduler = recover(log)
            actions = RecentActions.of_log(log)
        except ValueError as error:
            raise ValueError(f"{log}: {error}") from None
        LOG.info(
            "the scheduler is as its log says; its file is not read",
            extra={"fields": {"log": str(log)}},
        )
    try:
        yield scheduler, actions
        scheduler.sync()
    finally:
        scheduler.close()
