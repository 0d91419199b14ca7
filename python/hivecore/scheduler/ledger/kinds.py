"""The kinds of units: units of a kind request the same."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Self

from hivecore._trial import UndoLog
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.stages.units import Kind, Pod

__all__ = ["Kinds", "least_of"]

_MOST = 2**16


class Kinds:
    """The latest kinds, and which of them can never start.

    :param log: undoes changes.
    :param by_stages: whether jobs with different iteration stages have different kinds.
    :param hosts: resources that pods take from the "host" device of their node.
    :param gpu_memory: as for `gpu_amount`.
    """

    def __init__(
        self,
        log: UndoLog,
        by_stages: bool = False,
        hosts: frozenset[str] = frozenset(),
        gpu_memory: int | None = 0,
    ) -> None:
        self._log, self._by_stages = log, by_stages
        self._nodes: Any = {"hosts": hosts, "gpu_memory": gpu_memory}
        self._known: dict[Any, Kind] = {}
        #: by key without the quota, the first known kind
        self._shapes: dict[Any, Kind] = {}
        self._impossible: dict[int, str] = {}
        self._enforced: set[int] = set()
        #: number of kinds so far
        self.numbered = 0
        #: whether all kinds so far have GPUs
        self.all_want_gpus = True
        #: kinds by number, while a state is read
        self._restored: dict[int, Kind] = {}

    def of(self, job: Job) -> Kind:
        """The kind of a job's first unit."""
        if job.after or job.together:
            return self._new(job, least_of(job), is_alone=True)
        return self._find(self.key_of(job), job, None)

    def enforced(self, job: Job) -> Kind | None:
        """The kind of a job if the parts are known to enforce its constraints, else None."""
        if job.after or job.together:
            return None
        kind = self._known.get(self.key_of(job))
        return kind if kind is not None and kind.number in self._enforced else None

    def note_enforced(self, kind: Kind) -> None:
        """Record that the parts enforce the constraints of a kind."""
        if not kind.is_alone:
            if len(self._enforced) >= _MOST:
                self._log.set(self, "_enforced", set())
            self._log.note(self._enforced.discard, kind.number)
            self._enforced.add(kind.number)

    def key_of(self, job: Job) -> tuple[Any, ...]:
        """The key of a job's kind, for jobs that start alone."""
        return (job.roles, *self._terms(job))

    def joining(self, job: Job, role: Role, *, is_alone: bool = False) -> Kind:
        """The kind of a pod that joins a job later; ``is_alone``: of no other unit."""
        if is_alone:
            return self._new(job, [(role, 1)], is_alone=True)
        return self._find((role, *self._terms(job)), job, role)

    def part(self, job: Job, pods: Iterable[Pod]) -> Kind:
        """The kind of some pods of a job."""
        return self._new(job, _sizes_of(job, pods), is_alone=True)

    def lent(self, kind: Kind) -> Kind:
        """The kind of units on idle cells, for the kind of the units that wait."""
        key = ("lent", kind.number)
        lent = self._known.get(key)
        if lent is None:
            lent = self._keep(key, _lent_kind(self._next_number(), kind.job, self._nodes))
        return lent

    def alone(self, kind: Kind) -> Kind:
        """An equal kind for a single unit."""
        alone = self._new(kind.job, list(kind.sizes), is_alone=True, like=kind.like or kind)
        known = self._impossible.get(kind.number)
        if known is not None:
            self._note(alone, known)
        return alone

    def impossible(self, kind: Kind, ask: Callable[..., str]) -> str:
        """Why units of a kind can never start, or "". Cached. See `Stages.impossible`."""
        reason = self._impossible.get(kind.number)
        if reason is None:
            shape = kind.shape
            is_served = shape is not None and self._impossible.get(shape.number) == ""
            reason = ask(kind, only_quotas=is_served)
            self._note(kind, reason)
        return reason

    def _note(self, kind: Kind, reason: str) -> None:
        if len(self._impossible) >= _MOST:
            self._log.set(self, "_impossible", {})
        self._log.keep(self._impossible, kind.number)
        self._impossible[kind.number] = reason

    def forget_impossible(self) -> None:
        """Forget which kinds are impossible, and which are enforced."""
        self._log.set(self, "_impossible", {})
        self._log.set(self, "_enforced", set())

    def restored(
        self, number: int, is_alone: bool, job: Job, role: Role | None, lost: Iterable[Pod] = ()
    ) -> Kind:
        """The kind with this number, while a state is read; of ``lost`` pods, if any."""
        kind = self._restored.get(number)
        if kind is None:
            key = (job.roles if role is None else role, *self._terms(job))
            roles = _sizes_of(job, lost) or (least_of(job) if role is None else [(role, 1)])
            kind = self._noted(Kind(number, job, roles, is_alone, **self._nodes))
            self._restored[number] = kind
            if not is_alone:
                self._known[key] = kind
        return kind

    def restored_lent(self, number: int, kind: Kind) -> Kind:
        """The kind with this number of units on idle cells, while a state is read."""
        lent = self._restored.get(number)
        if lent is None:
            lent = self._restored[number] = _lent_kind(number, kind.job, self._nodes)
            self._known["lent", kind.number] = lent
        return lent

    def end_restoring(self, numbered: int) -> None:
        """End the reading of a state."""
        self.numbered = numbered
        self._restored.clear()

    def _keep(self, key: Any, kind: Kind) -> Kind:
        if len(self._known) >= _MOST:
            # Drop the older half. If a unit of such a kind waits, later units get another kind.
            gone = list(self._known)[: _MOST // 2]
            numbers = {self._known[key].number for key in gone}
            self._log.set(
                self, "_known", {k: v for k, v in self._known.items() if v.number not in numbers}
            )
            known = {n: why for n, why in self._impossible.items() if n not in numbers}
            self._log.set(self, "_impossible", known)
            self._log.set(self, "_shapes", {})
        self._log.keep(self._known, key)
        self._known[key] = kind
        return kind

    def _next_number(self) -> int:
        self._log.set(self, "numbered", self.numbered + 1)
        return self.numbered

    def branch(self, log: UndoLog) -> Self:
        """A copy for a branch."""
        branch = type(self)(log, self._by_stages, **self._nodes)
        branch.numbered, branch.all_want_gpus = self.numbered, self.all_want_gpus
        branch._known, branch._impossible = self._known.copy(), self._impossible.copy()
        branch._enforced, branch._shapes = self._enforced.copy(), self._shapes.copy()
        return branch

    def _terms(self, job: Job) -> tuple[Any, ...]:
        """What stages read of a job besides its roles."""
        data = None if job.data is None else job.data.dataset
        terms = (
            job.quota,  # the first, see `_find`
            job.tenant,
            job.priority,
            job.preemptible,
            job.guaranteed,
            job.where,
            data,
            job.on_failure,
        )
        return (*terms, job.stages) if self._by_stages else terms

    def _find(self, key: Any, job: Job, role: Role | None) -> Kind:
        try:  # `dict.get` is slow without the GIL, see `group_search.find`
            return self._known[key]
        except KeyError:
            pass
        roles = least_of(job) if role is None else [(role, 1)]
        of_shape = key[0], *key[2:]
        shape = self._shapes.get(of_shape)
        kind = self._keep(key, self._new(job, roles, shape=shape))
        if shape is None:
            self._log.keep(self._shapes, of_shape)
            self._shapes[of_shape] = kind
        return kind

    def _new(
        self,
        job: Job,
        roles: list[tuple[Role, int]],
        *,
        is_alone: bool = False,
        like: Kind | None = None,
        shape: Kind | None = None,
    ) -> Kind:
        number = self._next_number()
        kind = Kind(number, job, roles, is_alone, like=like, shape=shape, **self._nodes)
        return self._noted(kind)

    def _noted(self, kind: Kind) -> Kind:
        if self.all_want_gpus and not kind.gpus:
            self._log.set(self, "all_want_gpus", False)
        return kind


def _lent_kind(number: int, job: Job, nodes: Any) -> Kind:
    """A kind that requests idle cells, like an opportunistic job."""
    weak = job.replace(guaranteed=False, where=job.where.replace(pinned_cell=""))
    return Kind(number, weak, least_of(job), is_lent=True, **nodes)


def least_of(job: Job) -> list[tuple[Role, int]]:
    """For each role, with how many pods a job can start."""
    return [(role, role.min_pods + role.spares) for role in job.roles if role.min_pods]


def _sizes_of(job: Job, pods: Iterable[Pod]) -> list[tuple[Role, int]]:
    """For each role, the number of given pods."""
    counts = Counter(pod.role for pod in pods)
    return [(role, counts[role.name]) for role in job.roles if role.name in counts]
