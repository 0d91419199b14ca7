"""A job that the scheduler knows, with its state."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Self

from hivecore._trial import UndoLog
from hivecore.decisions import Refusal
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.kinds import Kinds
from hivecore.scheduler.stages.units import Kind, Pod, Unit

__all__ = ["Live"]

_RUNS = ("running", "lent")
#: The attributes that change.
_FIELDS = (
    *("attained", "for_job", "has_stopped", "held", "held_since", "is_ending", "is_reclaimed"),
    *("lent", "since", "state", "reported", "units", "victims"),
)
_values = attrgetter(*_FIELDS)


class Live:
    """A job, its state and its units."""

    __slots__ = ("extra_of", "extras", "job", "number", *_FIELDS)

    def __init__(self, job: Job, units: list[Unit]) -> None:
        self.job = job
        #: for an extra pod, its job; "": it is a job
        self.extra_of = ""
        #: its extra pods by name, see `hivecore.scheduler.ledger.extras`
        self.extras: dict[str, Live] = {}
        #: its position in the order of submission
        self.number = 0
        #: "pending", "lent", "reserved" or "running"
        self.state = "pending"
        #: when it started
        self.since = 0.0
        #: seconds that it ran before that
        self.attained = 0.0
        #: the job starts with the first unit; the others join while it runs
        self.units = units
        #: the unit that may run on idle cells while the first unit waits
        self.lent: Unit | None = None
        #: the last reason to wait that was reported
        self.reported: Refusal | None = None
        #: its victims, while it is reserved, or some of its failed pods are
        self.victims: tuple[str, ...] = ()
        #: a copy of the unit of these failed pods, placed where they will start; the unit itself is
        #: in no queue
        self.held: Unit | None = None
        #: since when these pods wait for victims
        self.held_since = 0.0
        #: while it is a victim: the job that it stops for, and whether it has stopped
        self.for_job = ""
        self.has_stopped = False
        #: whether it ends when it has stopped
        self.is_ending = False
        #: whether another quota reclaims its resources
        self.is_reclaimed = False

    @property
    def runs(self) -> bool:
        """Whether it runs, on idle cells or others."""
        return self.state in _RUNS

    @property
    def all_units(self) -> Iterator[Unit]:
        """The units, with the one for idle cells."""
        yield from self.units
        if self.lent is not None:
            yield self.lent

    @property
    def placed(self) -> list[Unit]:
        """The units that have resources."""
        units = self.units if self.lent is None else [*self.units, self.lent]
        return [unit for unit in units if unit.placed]

    @property
    def all_placed(self) -> list[Unit]:
        """The units that have resources, with extra pods."""
        return [*self.placed, *[unit for live in self.extras.values() for unit in live.placed]]

    @property
    def lost(self) -> list[Unit]:
        """The units of failed pods, which wait to be placed near the others."""
        return [unit for unit in self.units[1:] if unit.is_lost]

    @property
    def ranks_lost(self) -> Unit | None:
        """The unit of its failed pods without the spares; None if there is none."""
        unit = self.units[1] if len(self.units) > 1 else None  # it is before all others
        return unit if unit and unit.is_lost and not self.job.is_spare(*unit.pods[0]) else None

    @property
    def reserved(self) -> Unit | None:
        """The unit for which its victims stop; ``None``: there are none."""
        if self.held is not None:
            return self.held
        return self.units[0] if self.state == "reserved" else None

    @property
    def unit_of_held(self) -> Unit:
        """The unit of the failed pods that wait for victims."""
        assert self.held is not None
        return next(unit for unit in self.units if unit.name == self.held.name)

    @property
    def is_weak(self) -> bool:
        """Whether it runs without a guarantee."""
        return self.state == "lent" or not self.job.guaranteed

    @classmethod
    def submitted(cls, job: Job, kind: Kind) -> Self:
        """A new job."""
        return cls(job, [Unit(job.name, job.name, kind, kind.first_pods)])

    def copy(self) -> Self:
        """A copy for a branch."""
        copy: Self = object.__new__(type(self))
        copy.job, copy.number, copy.extra_of, copy.extras = self.job, self.number, self.extra_of, {}
        copy.restore(_values(self))
        copy.units = [unit.copy() for unit in self.units]
        copy.lent = self.lent and self.lent.copy()
        copy.held = self.held and self.held.copy()
        return copy

    def note(self, log: UndoLog) -> None:
        """Let a log restore the job, without its units."""
        if log.is_on:
            log.add((self.restore, _values(self)))

    def restore(self, values: tuple[Any, ...]) -> None:
        """Undo changes."""
        for name, value in zip(_FIELDS, values, strict=True):
            setattr(self, name, value)

    def pause(self, now: float) -> None:
        """Add the run time until now; the job starts again or waits."""
        self.attained += now - self.since
        self.since = now

    def may_be_lent(self, kinds: Kinds) -> Unit:
        """Make the unit that may run on idle cells."""
        first = self.units[0]
        name = f"{self.job.name}/lent"
        self.lent = Unit(name, self.job.name, kinds.lent(first.kind), first.pods)
        return self.lent

    def joining(self, kinds: Kinds) -> list[Unit]:
        """Make units for the pods that join the job while it runs."""
        name, where = self.job.name, self.job.where
        # similar pods of other jobs may use other domains or nodes
        is_confined = bool(where.must or where.within)
        joining = [
            Unit(
                f"{name}/{role.name}/{index}",
                name,
                kinds.joining(self.job, role, is_alone=is_confined or role.per_node is not None),
                (Pod(role.name, index),),
            )
            for role in self.job.roles
            for index in role.joining_numbers
        ]
        self.units = [*self.units, *joining]
        return joining

    def lose(self, kinds: Kinds) -> list[Unit]:
        """Make units for failed pods: one for each spare, and one for all others."""
        job, first = self.job, self.units[0]
        placed = {(pod.role, pod.index) for pod in first.placed}
        gone = [pod for pod in first.pods if pod not in placed]
        spares = [pod for pod in gone if job.is_spare(*pod)]
        others = tuple(pod for pod in gone if pod not in spares)
        by_name = {f"{job.name}/lost": others} if others else {}
        by_name |= {f"{job.name}/lost/{pod.role}/{pod.number}": (pod,) for pod in spares}
        lost = [Unit(name, job.name, kinds.part(job, pods), pods) for name, pods in by_name.items()]
        for unit in lost:
            unit.has_quota = True
        self.units = [first, *lost, *self.units[1:]]
        return lost

    def unit_of(self, pod: str) -> Unit | None:
        """The unit of a running pod, "role/index"; None if there is none."""
        for unit in self.placed:
            if any(f"{placed.role}/{placed.index}" == pod for placed in unit.placed):
                return unit
        return None
