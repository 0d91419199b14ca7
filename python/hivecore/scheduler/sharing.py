"""On which terms jobs share GPUs."""

from dataclasses import dataclass
from typing import Any

from hivecore._arguments import as_bool, as_float, as_int

__all__ = ["Sharing"]

_MOST = 1e9


@dataclass(frozen=True, slots=True, init=False)
class Sharing:
    """On which terms jobs with `Job.stages` share GPUs.

    :param resources: k, how many stages an iteration has, 2 to 8; one for each resource.
    :param max_group: how many jobs share GPUs at most, 2 to ``resources``; ``None``: that many.
    :param any_tenant: whether jobs of several tenants may share; where cells place the pods, and
        across quotas, they never do.
    :param restart_cost: seconds that a job loses when it moves, for `Scheduler.regroup`; 0 to 1e9.
    :param min_gain: what one more job has to bring: by how much the progress of all jobs of a group
        together rises, where 1.0 is that of a job alone on the GPUs. 1e-6 to ``resources``.
    :param max_slowdown: how many times longer an iteration of each job of a group may take than
        alone, at least 1; ``None``: any.
    :raises ValueError: a number is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import Sharing
    >>> Sharing(4).max_group
    4
    """

    resources: int
    max_group: int
    any_tenant: bool
    min_gain: float
    max_slowdown: float | None
    restart_cost: float

    def __init__(
        self,
        resources: int,
        max_group: int | None = None,
        *,
        any_tenant: bool = False,
        min_gain: float = 0.1,
        max_slowdown: float | None = None,
        restart_cost: float = 60.0,
    ) -> None:
        put = object.__setattr__
        put(self, "resources", as_int(resources, "resources", 2, 8))
        most = resources if max_group is None else max_group
        put(self, "max_group", as_int(most, "max_group", 2, self.resources))
        put(self, "any_tenant", as_bool(any_tenant, "any_tenant"))
        put(self, "min_gain", _within(min_gain, "min_gain", 1e-6, self.resources))
        slowdown = None
        if max_slowdown is not None:
            slowdown = _within(max_slowdown, "max_slowdown", 1.0, _MOST)
        put(self, "max_slowdown", slowdown)
        put(self, "restart_cost", _within(restart_cost, "restart_cost", 0.0, _MOST))


def _within(value: Any, name: str, least: float, most: float) -> float:
    number = as_float(value, name)
    if not least <= number <= most:
        raise ValueError(f"{name}={number!r}: allowed are {least:g} to {most:g}")
    return number
