"""Which idle GPUs are of use to the pods to come, and what is asked of moves that make more so."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from hivecore._arguments import as_int, as_tuple
from hivecore._record import Record, between, positive, within

if TYPE_CHECKING:
    from hivecore.scheduler.actions import PlacedPod
    from hivecore.scheduler.ledger.live import Live
    from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Defragmentation", "Fragments", "idle_and_usable", "used_nodes"]

_LATEST = 2.0**40
_MOST_GPUS = 2**20


def _sizes(value: object, name: str) -> tuple[int, ...]:
    return tuple([as_int(one, name, 1, _MOST_GPUS) for one in as_tuple(value, name)])


class Fragments(Record, frozen=True):
    """The goal that few idle GPUs are fragments: of no use to the pods to come, since too few are
    idle on their node.

    :param sizes: the GPUs of each pod of a sample of those to come, so that a frequent size stands
        there more often; none: all come for whole nodes.
    :raises ValueError: a size is not positive.
    :raises TypeError: an argument is of a wrong type.

    GPUs of which some pod has a share are not idle.
    Source: FGD (USENIX ATC'23, section 3), whose measure this is where pods need whole GPUs.

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
        """How many idle GPUs are of use, the mean over the sample.

        :param idle: by node.
        :param empty: the nodes on which no pod is.
        """
        if not self.sizes:
            return float(sum(idle.get(node, 0) for node in empty))
        of_use = (gpus for gpus in idle.values() for size in self.sizes if gpus >= size)
        return sum(of_use) / len(self.sizes)


class Defragmentation(Record, frozen=True, kw_only=True):
    """What `Scheduler.defragment` was told, see there."""

    goal: Fragments
    seconds: Annotated[float, positive(_LATEST)]
    restart_cost: Annotated[float, between(0.0, _LATEST)] = 60.0
    saves: bool = True
    most_moves: Annotated[int, within(1, 2**31)] = 8
    most_gpu_seconds: Annotated[float | None, between(0.0, _LATEST)] = None

    def __post_init__(self) -> None:
        self._check()


def used_nodes(jobs: "Mapping[str, Live]", without: Collection[str] = ()) -> set[str]:
    """The nodes on which jobs have pods, or places are held for them.

    :param without: jobs that do not count.
    """
    lives = (live for name, live in jobs.items() if name not in without)
    return {pod.node for live in lives for unit in live.all_units for pod in unit.placed}


def idle_and_usable(
    goal: Fragments,
    stages: "Stages",
    jobs: "Mapping[str, Live]",
    gone: Collection[str],
    placed: "Iterable[PlacedPod]",
) -> tuple[int, float]:
    """The idle GPUs of healthy nodes, and how many of them are of use.

    :param gone: the jobs that have left in a trial.
    :param placed: the pods that have come in it.
    """
    bad = frozenset(stages.unhealthy())
    idle = {node: n for node, n in stages.idle_gpus().items() if node not in bad}
    empty: set[str] = set()
    if not goal.sizes:
        empty = idle.keys() - used_nodes(jobs, gone) - {pod.node for pod in placed}
    return sum(idle.values()), goal.usable(idle, empty)
