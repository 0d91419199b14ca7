"""When jobs may share GPUs."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from hivecore._arguments import as_int
from hivecore._record import FOLLOWS, Record, between, force_setattr, within

__all__ = ["Sharing"]

_MOST = 1e9


class _Resources(Record, frozen=True):
    resources: Annotated[int, within(2, 8)]
    max_group: Annotated[int, within(2, 8)] = FOLLOWS


class Sharing(_Resources, frozen=True, kw_only=True):
    """When jobs with `Job.stages` may share GPUs.

    :param resources: number of resources, and of stages of an iteration, 2 to 8.
    :param max_group: the most jobs that share GPUs, 2 to ``resources``; ``None``: ``resources``.
    :param any_tenant: whether jobs of different tenants may share. With cells, or with different
        quotas, they never do.
    :param restart_cost: seconds that a job loses when it moves, for `Scheduler.regroup`; 0 to 1e9.
    :param min_gain: how much one more job must raise the progress of its group, where a job alone
        on the GPUs has progress 1.0. 1e-6 to ``resources``.
    :param max_slowdown: how many times longer an iteration may take than alone, at least 1;
        ``None``: no limit.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Sharing
    >>> Sharing(4).max_group
    4
    """

    _follows: ClassVar[dict[str, str]] = {"max_group": "resources"}

    any_tenant: bool = False
    min_gain: Annotated[float, between(1e-6, 8)] = 0.1
    max_slowdown: Annotated[float | None, between(1.0, _MOST)] = None
    restart_cost: Annotated[float, between(0.0, _MOST)] = 60.0

    if TYPE_CHECKING:

        def __init__(
            self,
            resources: int,
            max_group: int | None = None,
            *,
            any_tenant: bool = False,
            min_gain: float = 0.1,
            max_slowdown: float | None = None,
            restart_cost: float = 60.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.max_group is FOLLOWS:
            force_setattr(self, "max_group", self.resources)
        elif self.max_group > self.resources:
            as_int(self.max_group, "max_group", 2, self.resources)
        if self.min_gain > self.resources:
            between(1e-6, self.resources)(self.min_gain, "min_gain")
