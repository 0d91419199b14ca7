"""What a scheduler tells its caller to do, and in which order."""

from dataclasses import dataclass, field
from typing import Any

from hivecore.decisions import Refusal
from hivecore.devices import DeviceAllocation, DeviceDecision

__all__ = [
    "Action",
    "Move",
    "PlacedPod",
    "Preempt",
    "Promote",
    "Reject",
    "SetCache",
    "SetRemoteIO",
    "Start",
    "Stop",
    "Wait",
]


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Where one pod of a job goes.

    :param role: its role.
    :param index: its number among the pods of the role, from 0.
    :param node: its node; "": no stage places pods.
    :param minors: by type the numbers of the devices that it gets on its node, as far as a stage
        chooses them.
    """

    role: str
    index: int
    node: str
    minors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    decision: DeviceDecision | None = field(default=None, compare=False, repr=False)
    """What gives it its devices; ``None``: nobody hands them out, or it was read from a file."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that it gets, by number on the node."""
        return dict(self.minors).get("gpu", ())

    @property
    def devices(self) -> tuple[DeviceAllocation, ...]:
        """How much it gets of which devices, as far as ``decision`` says it."""
        return () if self.decision is None else self.decision.placement


@dataclass(frozen=True, slots=True)
class Start:
    """Start these pods of a job; more than once for jobs that start with fewer than all.

    :param job: its name.
    :param pods: those to start, by role and index.
    :param shares_with: the running jobs whose GPUs it shares, which are those of its pods.
    :param offsets: if it shares: of the job and then of the others, by how many stages each is
        behind the job, see `hivecore.interleaving.interleave`.
    :param decisions: by stage what was committed for it, for whoever wants to check.
    :param lent: whether it runs on idle cells for now, because those of its tenant are in use:
        whoever is promised them can have it preempted.
    """

    job: str
    pods: tuple[PlacedPod, ...]
    shares_with: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    decisions: tuple[tuple[str, Any], ...] = field(default=(), compare=False, repr=False)
    lent: bool = False


@dataclass(frozen=True, slots=True)
class Promote:
    """A job that runs on idle cells has those of its tenant from now on.

    :param job: its name.
    :param pods: where its pods are to be: often where they are, else they have to move.
    :param decisions: as of `Start`.
    """

    job: str
    pods: tuple[PlacedPod, ...]
    decisions: tuple[tuple[str, Any], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Move:
    """Stop a running job, and start it again elsewhere; it is in no queue between.

    :param job: its name.
    :param pods: where all of its pods that run go.
    :param before: where they are.
    :param shares_with: the jobs whose GPUs it shares then.
    :param offsets: as of `Start`.

    All moves of one round, or of one step of a plan, happen together.
    """

    job: str
    pods: tuple[PlacedPod, ...]
    before: tuple[PlacedPod, ...]
    shares_with: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a job; it waits in its queue again.

    :param job: who has to leave, as a whole.
    :param for_job: who gets what it has.
    :param why: "opportunistic": it used what was idle. "reclaim": its quota is over what it is
        entitled to. "priority": the other one is more important. "order": it stands behind the
        other one in the order that `Scheduler.reorder` was given.
    """

    job: str
    for_job: str
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop these pods of a job, whose node is gone; they wait in their queue again.

    :param job: its name.
    :param pods: all that ran of it, or those that had joined it and were on that node; on other
        nodes they may still run.
    :param node: the one that is gone.

    What they had is free already, and no `Scheduler.stopped` is asked for.
    """

    job: str
    pods: tuple[PlacedPod, ...]
    node: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A job has to wait, and why; told again when the reason has changed.

    :param refusal: of the first stage that refuses; its reason is a line for people.
    """

    job: str
    refusal: Refusal

    @property
    def reason(self) -> str:
        """Why, in a line."""
        return self.refusal.reason


@dataclass(frozen=True, slots=True)
class Reject:
    """A job could not run even if the cluster were empty and healthy; it is not kept.

    :param reason: why, in a line.
    """

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetCache:
    """Keep so much of a dataset in the cache.

    :param dataset: its name.
    :param size: bytes, rounded down.
    """

    dataset: str
    size: int


@dataclass(frozen=True, slots=True)
class SetRemoteIO:
    """Let a job read so fast from where its dataset is, beside what is cached.

    :param job: its name.
    :param rate_mbps: MB/s.
    """

    job: str
    rate_mbps: float


Action = Start | Promote | Move | Preempt | Stop | Wait | Reject | SetCache | SetRemoteIO
