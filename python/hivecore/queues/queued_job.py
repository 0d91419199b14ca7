"""What waits in a queue, and what a queue says about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hivecore._arguments import as_amounts, as_int, as_name, as_text, as_tuple

__all__ = ["Capacity", "Departure", "QueuedJob", "Standing"]

_MOST_SIZE = 2**31 - 1
_MOST_TIME = 2**61
_MOST_AMOUNT = 2**63 - 1
_MOST_KIND = 2**61


@dataclass(frozen=True, slots=True, init=False)
class QueuedJob:
    """A job that waits to start.

    :param name: the job, once in all queues.
    :param tenant: whose queue it is in.
    :param size: what it takes of what is shared out, such as GPUs: 1 to 2**31 - 1.
    :param priority: the higher, the sooner: -2**31 to 2**31 - 1.
    :param run_time: an upper estimate in the caller's unit of time, 1 to 2**61; ``None``: unknown.
    :param kind: jobs of one tenant, priority and kind are interchangeable for whoever starts them,
        so that where one is refused, the others need not be tried: 1 to 2**61; 0: of no kind.
    :param attained: for how long it has run already, in the caller's unit of time, 0 to 2**61.
    :param resources: what it asks for by resource, 0 to 2**63 - 1 each, for quotas.
    :param namespace: where its quota is; "": the namespace with the tenant's name.
    :raises ValueError: a value is not allowed.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.queues import QueuedJob
    >>> QueuedJob("train", "team-a", 8, resources={"gpu": 8}).resources
    (('gpu', 8),)
    """

    name: str
    tenant: str
    size: int
    priority: int
    run_time: int | None
    kind: int
    attained: int
    resources: tuple[tuple[str, int], ...]
    namespace: str

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
    ) -> None:
        # One is made for each job: what is plain already is not checked by a call.
        if type(name) is not str or not name:
            name = as_name(name, "name")
        if type(tenant) is not str or not tenant:
            tenant = as_name(tenant, "tenant")
        if type(size) is not int or not 1 <= size <= _MOST_SIZE:
            size = as_int(size, "size", 1, _MOST_SIZE)
        if type(priority) is not int or not -(2**31) <= priority <= _MOST_SIZE:
            priority = as_int(priority, "priority", -(2**31), _MOST_SIZE)
        if run_time is not None:
            run_time = as_int(run_time, "run_time", 1, _MOST_TIME)
        if type(kind) is not int or not 0 <= kind <= _MOST_KIND:
            kind = as_int(kind, "kind", 0, _MOST_KIND)
        if type(attained) is not int or not 0 <= attained <= _MOST_TIME:
            attained = as_int(attained, "attained", 0, _MOST_TIME)
        put = object.__setattr__
        put(self, "name", name)
        put(self, "tenant", tenant)
        put(self, "size", size)
        put(self, "priority", priority)
        put(self, "run_time", run_time)
        put(self, "kind", kind)
        put(self, "attained", attained)
        put(self, "resources", as_amounts(resources, "resources", 0, _MOST_AMOUNT))
        put(self, "namespace", as_text(namespace, "namespace") or tenant)


@dataclass(frozen=True, slots=True, init=False)
class Capacity:
    """What is free now, and what will be.

    :param free: in the unit of `QueuedJob.size`, 0 to 2**62.
    :param running: pairs of the time by which a running job ends, and its size. A time that has
        passed counts as now.

    >>> from hivecore.queues import Capacity
    >>> Capacity(2, [(10, 4), (5, 2)]).running
    ((5, 2), (10, 4))
    """

    free: int
    running: tuple[tuple[int, int], ...]

    def __init__(self, free: int, running: Iterable[tuple[int, int]] = ()) -> None:
        pairs = [as_tuple(pair, "running") for pair in as_tuple(running, "running")]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("running must be pairs of an end and a size")
        ends = [
            (as_int(end, "end", 0, 2 * _MOST_TIME), as_int(size, "size", 1, _MOST_SIZE))
            for end, size in pairs
        ]
        object.__setattr__(self, "free", as_int(free, "free", 0, 2**62))
        object.__setattr__(self, "running", tuple(sorted(ends)))


class Departure(NamedTuple):
    """A job that has left its queue.

    :param job: the job.
    :param arrived: when it came.
    :param number: its place among all arrivals.
    :param charge: what its tenant was charged, and at which weight; for `TenantQueues.requeue`.
    :param weight: the tenant's weight then.
    """

    job: QueuedJob
    arrived: int
    number: int
    charge: int
    weight: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a job stands in its queue.

    :param position: how many jobs of its tenant are in front.
    :param ahead: the one just in front; "": none.
    :param reason: why it does not leave now; "": it could leave when its tenant has its turn.
    """

    position: int
    ahead: str
    reason: str
