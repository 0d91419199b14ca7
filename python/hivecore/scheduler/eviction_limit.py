"""Limits how soon and how often the jobs of a quota may be evicted."""

from typing import TYPE_CHECKING, Annotated

from hivecore._arguments import LONGEST
from hivecore._record import Record, between, within

__all__ = ["EvictionLimit"]


class EvictionLimit(Record, frozen=True):
    """Limits how soon and how often jobs of a quota may be evicted for other jobs.

    :param quota: the quota with the jobs that it protects, see `Job.quota`, not those of quotas
        below; "": each quota without a limit of its own.
    :param min_run_time: a job must have run for so many seconds before it may be evicted, up to
        2**40. Pods above `Role.min_pods` of an elastic role are not protected.
    :param per_hour: the most evictions in any 3,600 seconds, 0 to 2**20. Each `Preempt` and each
        `Shrink` counts, unless its reason is "order". ``None``: no limit.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    Limits hold against all waiting jobs, so even a guaranteed job may have to wait until
    ``min_run_time`` or the budget allows evictions. The scheduler evicts unprotected jobs instead,
    if these are enough. `Scheduler.explain` names the protected jobs. `Scheduler.reorder`,
    `Scheduler.drain` and the removal of nodes ignore limits.

    >>> from hivecore.scheduler import EvictionLimit
    >>> EvictionLimit("vision", min_run_time=600, per_hour=4).per_hour
    4
    """

    quota: str = ""
    min_run_time: Annotated[float, between(0.0, LONGEST)] = 0.0
    per_hour: Annotated[int | None, within(0, 2**20)] = None

    if TYPE_CHECKING:

        def __init__(
            self,
            quota: str = "",
            *,
            min_run_time: float = 0.0,
            per_hour: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
