"""Which idle GPUs future pods can use, and the terms of `Scheduler.defragment`."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from hivecore._arguments import LONGEST, as_int, as_tuple
from hivecore._record import Record, between, positive, within

if TYPE_CHECKING:
    from hivecore.scheduler.actions import PlacedPod
    from hivecore.scheduler.ledger.live import Live
    from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Defragmentation", "Fragments", "idle_and_usable", "used_nodes"]

_MOST_GPUS = 2**20


def _sizes(value: object, name: str) -> tuple[int, ...]:
    return tuple([as_int(size, name, 1, _MOST_GPUS) for size in as_tuple(value, name)])


class Fragments(Record, frozen=True):
    """The goal that few idle GPUs are fragments. A fragment is idle, but future pods cannot use it,
    as too few GPUs are idle on its node.

    :param sizes: GPUs per pod, for a sample of future pods; a frequent size appears several times.
        Empty: all pods need whole nodes.
    :raises ValueError: a size is not positive.
    :raises TypeError: an argument is of a wrong type.

    A GPU that is shared is not idle. Source: FGD (USENIX ATC'23, section 3), for pods with whole
    GPUs.

    >>> from hivecore.scheduler import Fragments
    >>> idle, empty = {"n1": 4, "n2": 8}, {"n2"}
    >>> Fragments().usable(idle, empty), Fragments([2, 8]).usable(idle, empty)
    (8.0, 10.0)
    """

    sizes: Annotated[tuple[int, ...], _sizes] = ()

    if TYPE_CHECKING:

        def __init__(self, sizes: Iterable[int] = ()) -> None: ...

    def __post_init__(self) -> None:
        self._check()

    def usable(self, idle: Mapping[str, int], empty: Iterable[str]) -> float:
        """The number of idle GPUs that pods can use, averaged over the sample.

        :param idle: GPUs by node.
        :param empty: nodes without pods.
        """
        if not self.sizes:
            return float(sum(idle.get(node, 0) for node in empty))
        of_use = (gpus for gpus in idle.values() for size in self.sizes if gpus >= size)
        return sum(of_use) / len(self.sizes)


class Defragmentation(Record, frozen=True, kw_only=True):
    """The arguments of `Scheduler.defragment`."""

    goal: Fragments
    seconds: Annotated[float, positive(LONGEST)]
    restart_cost: Annotated[float, between(0.0, LONGEST)] = 60.0
    saves: bool = True
    most_moves: Annotated[int, within(1, 2**31)] = 8
    most_gpu_seconds: Annotated[float | None, between(0.0, LONGEST)] = None

    def __post_init__(self) -> None:
        self._check()


def used_nodes(jobs: "Mapping[str, Live]", without: Collection[str] = ()) -> set[str]:
    """Nodes on which jobs, except those in ``without``, have pods or reserved places."""
    lives = (live for name, live in jobs.items() if name not in without)
    return {pod.node for live in lives for unit in live.all_units for pod in unit.placed}


def idle_and_usable(
    goal: Fragments,
    stages: "Stages",
    jobs: "Mapping[str, Live]",
    gone: Collection[str],
    placed: "Iterable[PlacedPod]",
) -> tuple[int, float]:
    """Idle GPUs of healthy nodes, and how many are usable, once jobs have left or moved."""
    bad = frozenset(stages.unhealthy())
    idle = {node: n for node, n in stages.idle_gpus().items() if node not in bad}
    empty: set[str] = set()
    if not goal.sizes:
        empty = idle.keys() - used_nodes(jobs, gone) - {pod.node for pod in placed}
    return sum(idle.values()), goal.usable(idle, empty)
