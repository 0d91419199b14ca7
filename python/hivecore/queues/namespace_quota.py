"""A plug-in that keeps jobs within the resource quota of their namespace."""

from collections.abc import Mapping
from threading import RLock
from typing import Any, Self

from hivecore._arguments import as_instance, as_int, as_name, as_text
from hivecore._quantities import as_amounts
from hivecore._stateful import PlainState, counted, shown
from hivecore._turns import in_turn
from hivecore.errors import InvariantError
from hivecore.queues.queued_job import QueuedJob

__all__ = ["NamespaceQuota"]

_LATEST = 2**61
_MOST = 2**63 - 1


class NamespaceQuota(PlainState):
    """A plug-in for `TenantQueues`: jobs wait for the resource quota of their namespace.

    :param keep: how long a job that left its queue is assumed to use its resources, until they
        appear in what is used; in the caller's unit of time, 1 to 2**60.
    :raises ValueError: ``keep`` is out of range.
    :raises TypeError: ``keep`` is not an integer.

    A job passes if it requests no more than hard - used - assumed of each limited resource, without
    what is assumed of the job itself; hard and used are those of ``set_quota``. It also waits while
    a resource is used above its limit. Resources and namespaces without a limit are not restricted.
    Amounts are integers, in a unit that the caller chooses for each resource: 500m of a CPU is 500
    where CPUs are counted in thousandths.

    Cost: O(resources) per call. Calls of several threads take turns.

    Source: KubeDL's quota plug-in. It counts assumed resources per tenant but checks them per
    namespace, and rounds up the request of a pod before it multiplies.

    >>> from hivecore.queues import NamespaceQuota, QueuedJob
    >>> quota = NamespaceQuota()
    >>> quota.set_quota("team-a", {"gpu": 4})
    >>> job = QueuedJob("one", "team-a", 3, resources={"gpu": 3})
    >>> quota.filter(job)
    ''
    >>> quota.pre_dequeue(job)
    >>> quota.filter(QueuedJob("two", "team-a", 2, resources={"gpu": 2}))
    "quota of 'team-a': asks for 2 of 'gpu', and 1 is left"
    """

    __slots__ = ("_assumed", "_keep", "_lock", "_now", "_quotas", "_sums")
    _SAVED_AS = b"HVNQ", 1

    def __init__(self, keep: int = 60) -> None:
        self._keep = as_int(keep, "keep", 1, 2**60)
        self._now = 0
        #: namespace -> resource -> hard and used
        self._quotas: dict[str, dict[str, tuple[int, int]]] = {}
        #: job -> until when, namespace, resources; in the order in which they end
        self._assumed: dict[str, tuple[int, str, tuple[tuple[str, int], ...]]] = {}
        self._sums: dict[tuple[str, str], int] = {}
        self._lock = RLock()

    @in_turn
    def __repr__(self) -> str:
        return shown(self, counted(len(self._quotas), "namespace"))

    @in_turn
    def set_quota(
        self, namespace: str, hard: Mapping[str, int], used: Mapping[str, int] | None = None
    ) -> None:
        """Set the limits of a namespace and what is used; empty limits remove them."""
        name = as_name(namespace, "namespace")
        limits = as_amounts(hard, "hard", 0, _MOST)
        taken = dict(as_amounts(() if used is None else used, "used", 0, _MOST))
        if limits:
            self._quotas[name] = {key: (most, taken.get(key, 0)) for key, most in limits}
        else:
            self._quotas.pop(name, None)

    @in_turn
    def advance(self, now: int) -> None:
        """Set the time, which never goes back; jobs assumed for ``keep`` or longer are dropped."""
        self._now = moment = as_int(now, "now", self._now, _LATEST)
        while self._assumed:
            name, (until, _, _) = next(iter(self._assumed.items()))
            if until > moment:
                break
            self.forget(name)

    @in_turn
    def filter(self, job: QueuedJob) -> str:
        """The reason why a job waits; "": it passes."""
        as_instance(job, "job", QueuedJob)
        quota = self._quotas.get(job.namespace)
        if quota is None:
            return ""
        what = f"quota of {job.namespace!r}:"
        for key, (hard, used) in quota.items():
            if used > hard:
                return f"{what} {used} of {key!r} are used, and {hard} allowed"
        # What was assumed of it before is replaced when it leaves.
        _, namespace, assumed = self._assumed.get(job.name, (0, "", ()))
        own = dict(assumed) if namespace == job.namespace else {}
        for key, amount in job.resources:
            if key in quota:
                hard, used = quota[key]
                taken = used + self._sums.get((job.namespace, key), 0) - own.get(key, 0)
                left = max(0, hard - taken)  # a job that runs may be counted in both
                if amount > left:
                    verb = "is" if left == 1 else "are"
                    return f"{what} asks for {amount} of {key!r}, and {left} {verb} left"
        return ""

    @in_turn
    def pre_dequeue(self, job: QueuedJob) -> None:
        """Assume that a job uses its request, until ``forget`` or the end of ``keep``."""
        as_instance(job, "job", QueuedJob)
        self.forget(job.name)
        self._assume(job.name, self._now + self._keep, job.namespace, job.resources)

    @in_turn
    def forget(self, name: str) -> None:
        """Assume no longer that a job uses its request, see ``pre_dequeue``.

        Call it once the job is counted in what is used, has ended or could not start. An unknown
        job is no error.
        """
        entry = self._assumed.pop(as_text(name, "name"), None)
        if entry is not None:
            for key, amount in entry[2]:
                rest = self._sums[entry[1], key] - amount
                if rest:
                    self._sums[entry[1], key] = rest
                else:
                    del self._sums[entry[1], key]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The jobs that are assumed to use their requests."""
        with self._lock:
            return tuple(self._assumed)

    def _assume(
        self, name: str, until: int, namespace: str, resources: tuple[tuple[str, int], ...]
    ) -> None:
        requested = tuple([pair for pair in resources if pair[1]])
        self._assumed[name] = until, namespace, requested
        for key, amount in requested:
            self._sums[namespace, key] = self._sums.get((namespace, key), 0) + amount

    @in_turn
    def check(self) -> None:
        """Audit every invariant; raises `InvariantError`. O(jobs assumed)."""
        sums: dict[tuple[str, str], int] = {}
        before = 0
        for name, (until, namespace, resources) in self._assumed.items():
            if not before <= until <= self._now + self._keep:
                raise InvariantError(f"job {name!r} is out of order")
            before = until
            for key, amount in resources:
                sums[namespace, key] = sums.get((namespace, key), 0) + amount
        if sums != self._sums:
            raise InvariantError("what is assumed is not the sum over the jobs")

    def _plain(self) -> dict[str, Any]:
        quotas = {
            name: [
                {key: hard for key, (hard, _) in sorted(quota.items())},
                {key: used for key, (_, used) in sorted(quota.items())},
            ]
            for name, quota in sorted(self._quotas.items())
        }
        assumed = [(name, *fields) for name, fields in self._assumed.items()]
        return {"keep": self._keep, "now": self._now, "quotas": quotas, "assumed": assumed}

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        quota = cls(state["keep"])
        quota._now = as_int(state["now"], "now", 0, _LATEST)
        for name, (hard, used) in state["quotas"].items():
            quota.set_quota(name, hard, used)
        for name, until, namespace, resources in state["assumed"]:
            if name in quota._assumed:
                raise ValueError(f"job {name!r} is there twice")
            requested = as_amounts(dict(resources), "resources", 0, _MOST)
            when = as_int(until, "until", 0, 2 * _LATEST)
            quota._assume(as_name(name, "name"), when, as_name(namespace, "namespace"), requested)
        return quota
