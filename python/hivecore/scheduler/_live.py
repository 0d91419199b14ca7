"""A job that the scheduler knows, and what has become of it."""

from typing import Self

from hivecore.decisions import Refusal
from hivecore.scheduler._kinds import Kinds
from hivecore.scheduler._units import Kind, Pod, Unit
from hivecore.scheduler.job import Job

__all__ = ["Live"]


class Live:
    """What the scheduler knows of a job."""

    __slots__ = (
        "for_job",
        "has_stopped",
        "is_ending",
        "job",
        "since",
        "state",
        "told",
        "units",
        "victims",
    )

    def __init__(self, job: Job, units: list[Unit]) -> None:
        self.job = job
        #: "pending", "reserved" or "running"
        self.state = "pending"
        #: when it started
        self.since = 0.0
        #: the first is what it starts with; the others join while it runs
        self.units = units
        #: the reason to wait that was told last
        self.told: Refusal | None = None
        #: while it is reserved: who has to stop for it
        self.victims: tuple[str, ...] = ()
        #: while it has to stop: for whom, and whether it has
        self.for_job = ""
        self.has_stopped = False
        #: it ends when it has stopped
        self.is_ending = False

    @classmethod
    def submitted(cls, job: Job, kind: Kind) -> Self:
        """A job that has just come."""
        pods = [Pod(role.name, index) for role, count in kind.sizes for index in range(count)]
        return cls(job, [Unit(job.name, job.name, kind, tuple(pods))])

    def copy(self) -> Self:
        """The same for a branch."""
        made: Self = object.__new__(type(self))
        made.job, made.units = self.job, [unit.copy() for unit in self.units]
        made.state, made.since, made.told = self.state, self.since, self.told
        made.victims, made.for_job = self.victims, self.for_job
        made.has_stopped, made.is_ending = self.has_stopped, self.is_ending
        return made

    def joining(self, kinds: Kinds) -> list[Unit]:
        """The pods that are to join it now that it runs, each a unit of its own."""
        name = self.job.name
        made = [
            Unit(
                f"{name}/{role.name}/{index}",
                name,
                kinds.joining(self.job, role),
                (Pod(role.name, index),),
            )
            for role in self.job.roles
            for index in range(role.min_pods, role.pods)
        ]
        self.units += made
        return made

    def unit_of(self, pod: str) -> Unit | None:
        """The unit of a running pod, "role/index"; None: there is none."""
        for unit in self.units:
            if unit.placed and any(f"{role}/{index}" == pod for role, index in unit.pods):
                return unit
        return None
