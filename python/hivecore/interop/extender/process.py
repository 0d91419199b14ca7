"""The process behind `hivecore serve --scheduler`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.extender.claim_writer import ClaimWriter
from hivecore.interop.extender.link import PodLink
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.evictor import EVICT_AFTER
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
    evict_after: float = EVICT_AFTER,
    **limits: Any,
) -> None:
    """Serve until cancelled, or until a fatal error.

    :param actions: earlier decisions of the scheduler.
    :param binding: how to bind pods; ``None`` answers filter calls only.
    :param evict_after: see `PodLink`.
    :param limits: ``max_step``, ``fsync`` and ``snapshot_every``, see `SchedulerService`.
    :raises OSError: the address cannot be used, or the log cannot be written.
    """
    given = Binding() if binding is None else binding
    limits = {"fsync": "interval", "snapshot_every": _SNAPSHOT_EVERY, **limits}
    async with given.connected() as (api, binds):
        writer = None if api is None else ClaimWriter(api)
        service = PodService(
            scheduler, actions, others_bind=given.others_bind, writer=writer, **binds, **limits
        )
        link = None if api is None else PodLink(service, api, evict_after)
        await serve(service, listening, link, beside=[service.run()])


def read_scheduler(path: Path) -> Scheduler:
    """Return the scheduler in a file: a description of a cluster, or bytes of `Scheduler.to_bytes`.

    :raises OSError: the file cannot be read.
    :raises ValueError: it is damaged or invalid.
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
    """Open the scheduler of a file with its past actions; close its log at the end.

    :param path: see `read_scheduler`.
    :param log: of its decisions. If the file has entries, they give the scheduler's state, and new
        ones are appended. ``None`` writes no log.
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
