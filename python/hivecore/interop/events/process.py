"""Where the scheduler of `hivecore serve --scheduler` comes from, and its log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Scheduler, recover
from hivecore.scheduler.log.files import is_new_log

__all__ = ["opened", "read_scheduler"]


def read_scheduler(path: Path) -> Scheduler:
    """The scheduler of a file: one that says what a cluster is, or what `Scheduler.to_bytes` gave.

    :raises OSError: the file cannot be read.
    :raises ValueError: it is damaged, or says what cannot be.
    """
    data = path.read_bytes()
    if not data.startswith(b"HVSC"):
        return SchedulerSpec.read(path).scheduler()
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
