"""Which idle GPUs are of use to the pods to come, and what is asked of moves that make more so."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from hivecore._arguments import as_int, as_tuple
from hivecore._record import Record, between, positive, within

__all__ = ["Defragmentation", "Fragments"]

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
