"""A job that the scheduler knows, and what has become of it."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Self

from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.kinds import Kinds
from hivecore.scheduler.lifecycle.units import Kind, Pod, Unit

__all__ = ["Live"]

_RUNS = ("running", "lent")
#: What of a job changes.
_FIELDS = (
    *("attained", "for_job", "has_stopped", "is_ending", "is_reclaimed", "lent"),
    *("since", "state", "told", "units", "victims"),
)
_values = attrgetter(*_FIELDS)


class Live:
    """What the scheduler knows of a job."""

    __slots__ = (
        "attained",
        "for_job",
        "has_stopped",
        "is_ending",
        "is_reclaimed",
        "job",
        "lent",
        "number",
        "since",
        "state",
        "told",
        "units",
        "victims",
    )

    def __init__(self, job: Job, units: list[Unit]) -> None:
        self.job = job
        #: its place among all that have come
        self.number = 0
        #: "pending", "lent", "reserved" or "running"
        self.state = "pending"
        #: when it started
        self.since = 0.0
        #: for how many seconds it had run before that
        self.attained = 0.0
        #: the first is what it starts with; the others join while it runs
        self.units = units
        #: what it may run as on idle cells while the first one waits
        self.lent: Unit | None = None
        #: the reason to wait that was told last
        self.told: Refusal | None = None
        #: while it is reserved: who has to stop for it
        self.victims: tuple[str, ...] = ()
        #: while it has to stop: for whom, and whether it has
        self.for_job = ""
        self.has_stopped = False
        #: it ends when it has stopped
        self.is_ending = False
        #: another quota takes back what it has, when it stops
        self.is_reclaimed = False

    @property
    def runs(self) -> bool:
        """Whether it runs, on whatever cells."""
        return self.state in _RUNS

    @property
    def all_units(self) -> Iterator[Unit]:
        """Also what it may run as on idle cells."""
        yield from self.units
        if self.lent is not None:
            yield self.lent

    @property
    def placed(self) -> list[Unit]:
        """The units that have something."""
        units = self.units if self.lent is None else [*self.units, self.lent]
        return [unit for unit in units if unit.placed]

    @property
    def is_weak(self) -> bool:
        """Whether what it has is nothing that its tenant is promised."""
        return self.state == "lent" or not self.job.guaranteed

    @classmethod
    def submitted(cls, job: Job, kind: Kind) -> Self:
        """A job that has just come."""
        pods = [Pod(role.name, index) for role, count in kind.sizes for index in range(count)]
        return cls(job, [Unit(job.name, job.name, kind, tuple(pods))])

    def copy(self) -> Self:
        """The same for a branch."""
        made: Self = object.__new__(type(self))
        made.job, made.number = self.job, self.number
        made.restore(_values(self))
        made.units = [unit.copy() for unit in self.units]
        made.lent = self.lent and self.lent.copy()
        return made

    def note(self, log: UndoLog) -> None:
        """Let a log restore the job as it is now; its units by themselves."""
        if log.is_on:
            log.add((self.restore, _values(self)))

    def restore(self, values: tuple[Any, ...]) -> None:
        """What the job was."""
        for name, value in zip(_FIELDS, values, strict=True):
            setattr(self, name, value)

    def pause(self, now: float) -> None:
        """It has run until now, and begins anew or waits."""
        self.attained += now - self.since
        self.since = now

    def may_be_lent(self, kinds: Kinds) -> Unit:
        """What it may run as on idle cells, from now on."""
        first = self.units[0]
        name = f"{self.job.name}/lent"
        self.lent = Unit(name, self.job.name, kinds.lent(first.kind), first.pods)
        return self.lent

    def joining(self, kinds: Kinds) -> list[Unit]:
        """The pods that are to join it now that it runs, each a unit of its own."""
        name, where = self.job.name, self.job.where
        # Pods of other jobs that ask for the same may use another domain.
        is_confined = bool(where.must or where.within)
        made = [
            Unit(
                f"{name}/{role.name}/{index}",
                name,
                kinds.joining(self.job, role, is_alone=is_confined),
                (Pod(role.name, index),),
            )
            for role in self.job.roles
            for index in range(role.min_pods, role.pods)
        ]
        self.units = [*self.units, *made]
        return made

    def unit_of(self, pod: str) -> Unit | None:
        """The unit of a running pod, "role/index"; None: there is none."""
        for unit in self.placed:
            if any(f"{role}/{index}" == pod for role, index in unit.pods):
                return unit
        return None
