"""Jobs in a queue, their positions, and the capacity that they wait for."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from hivecore._arguments import as_int, as_tuple
from hivecore._record import Name, Record, amounts, force_setattr, within

__all__ = ["Capacity", "Departure", "QueuedJob", "Standing"]

_MOST_SIZE = 2**31 - 1
_MOST_TIME = 2**61
_MOST_AMOUNT = 2**63 - 1
_MOST_KIND = 2**61


class _Queued(Record, frozen=True):
    name: Name
    tenant: Name
    size: Annotated[int, within(1, _MOST_SIZE)]
    priority: Annotated[int, within(-(2**31), 2**31 - 1)] = 0
    run_time: Annotated[int, within(1, _MOST_TIME)] | None = None
    kind: Annotated[int, within(0, _MOST_KIND)] = 0
    attained: Annotated[int, within(0, _MOST_TIME)] = 0


class QueuedJob(_Queued, frozen=True, kw_only=True):
    """A job that waits to start.

    :param name: unique in all queues.
    :param tenant: its tenant.
    :param size: how much it takes, such as GPUs: 1 to 2**31 - 1.
    :param priority: the higher, the sooner: -2**31 to 2**31 - 1.
    :param run_time: an upper estimate in the caller's unit of time, 1 to 2**61; ``None``: unknown.
    :param kind: 1 to 2**61; jobs of the same tenant, priority and kind are interchangeable: if one
        of them is refused, the others are not tried. 0: no kind.
    :param attained: how long it has run already, in the caller's unit of time, 0 to 2**61.
    :param resources: what it requests by resource, 0 to 2**63 - 1 each, for quotas.
    :param namespace: the namespace of its quota; "": the tenant's name.
    :raises ValueError: a value is not allowed.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.queues import QueuedJob
    >>> QueuedJob("train", "team-a", 8, resources={"gpu": 8}).resources
    (('gpu', 8),)
    """

    _follows: ClassVar[dict[str, str]] = {"namespace": "tenant"}

    resources: Annotated[tuple[tuple[str, int], ...], amounts(0, _MOST_AMOUNT)] = ()
    namespace: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            tenant: str,
            size: int,
            priority: int = 0,
            run_time: int | None = None,
            kind: int = 0,
            attained: int = 0,
            *,
            resources: Mapping[str, int] | Iterable[tuple[str, int]] = (),
            namespace: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if not self.namespace:
            force_setattr(self, "namespace", self.tenant)


def _ends(value: Any, name: str) -> tuple[tuple[int, int], ...]:
    pairs = [as_tuple(pair, name) for pair in as_tuple(value, name)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{name} must be pairs of an end and a size")
    ends = [
        (as_int(end, "end", 0, 2 * _MOST_TIME), as_int(size, "size", 1, _MOST_SIZE))
        for end, size in pairs
    ]
    return tuple(sorted(ends))


class Capacity(Record, frozen=True):
    """The capacity that is free now, and when running jobs release more.

    :param free: in the unit of `QueuedJob.size`, 0 to 2**62.
    :param running: pairs of the time by which a running job ends, and its size. A time that has
        passed counts as now.

    >>> from hivecore.queues import Capacity
    >>> Capacity(2, [(10, 4), (5, 2)]).running
    ((5, 2), (10, 4))
    """

    free: Annotated[int, within(0, 2**62)]
    running: Annotated[tuple[tuple[int, int], ...], _ends] = ()

    if TYPE_CHECKING:

        def __init__(self, free: int, running: Iterable[tuple[int, int]] = ()) -> None: ...

    def __post_init__(self) -> None:
        self._check()


class Departure(NamedTuple):
    """A job that has left its queue.

    :param job: the job.
    :param arrived: its time of arrival.
    :param number: its number in the order of arrival.
    :param charge: what its tenant was charged; `TenantQueues.requeue` reverses it.
    :param weight: the weight of the tenant at that time.
    """

    job: QueuedJob
    arrived: int
    number: int
    charge: int
    weight: int


class Standing(Record, frozen=True):
    """The position of a job in its queue.

    :param position: the number of jobs of its tenant in front of it.
    :param ahead: the job directly in front; "": none.
    :param reason: why it does not leave now; "": it can leave at its tenant's turn.
    """

    position: int
    ahead: str
    reason: str
