"""How often, and how soon, the jobs of a quota may be evicted."""

from typing import TYPE_CHECKING, Annotated

from hivecore._record import Record, between, within

__all__ = ["EvictionLimit"]


class EvictionLimit(Record, frozen=True):
    """How often, and how soon, the jobs of a quota may be evicted for other jobs.

    :param quota: whose victims it protects, see `Job.quota`; "": those of each quota without a
        limit of its own, each by itself.
    :param min_run_time: seconds for which a job runs before it may be evicted, up to 2**40. Pods
        above `Role.min_pods` of an elastic role are not protected.
    :param per_hour: how many evictions there are at most in any 3,600 seconds, 0 to 2**20; each
        `Preempt` and each `Shrink` counts. ``None``: any number.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    The limits hold against every job that waits, whatever it is guaranteed: a guarantee may wait
    for ``min_run_time`` of one job after the other, and for the budget. A job evicts others that
    the limits do not protect, if these are enough; `Scheduler.explain` names those that it may not
    evict. `Scheduler.reorder`, `Scheduler.drain` and nodes that are removed do not keep to them.

    >>> from hivecore.scheduler import EvictionLimit
    >>> EvictionLimit("vision", min_run_time=600, per_hour=4).per_hour
    4
    """

    quota: str = ""
    min_run_time: Annotated[float, between(0.0, 2.0**40)] = 0.0
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
