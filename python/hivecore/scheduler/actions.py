"""What a scheduler tells its caller to do, and in which order."""

from typing import Annotated, Any

from hivecore._record import Name, Names, Record, within
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

_Minor = Annotated[int, within(0, 2**31)]
_Minors = tuple[tuple[str, tuple[_Minor, ...]], ...]
_Offsets = tuple[Annotated[int, within(0, 8)], ...]


def _check_offsets(action: "Start | Move") -> None:
    others = action.shares_with
    if len(action.offsets) != len(others) + bool(others):
        raise ValueError("offsets: must be one of the job and of each that it shares with")


class _Placed(Record, frozen=True, eq=False):
    """Beside its value it has decisions, for whoever wants to check."""

    def _value(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        same: bool = self._value() == other._value()
        return same

    def __hash__(self) -> int:
        return hash(self._value())

    def __repr__(self) -> str:
        names = [name for name in self.__struct_fields__ if name not in self._hidden]
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__name__}({shown})"


class PlacedPod(_Placed, frozen=True):
    """Where one pod of a job goes.

    :param role: its role.
    :param index: its number among the pods of the role, from 0.
    :param node: its node; "": no stage places pods.
    :param minors: by type the numbers of the devices that it gets on its node, as far as a stage
        chooses them.
    """

    _hidden = frozenset(("decision",))

    role: Name
    index: Annotated[int, within(0, 2**31)]
    node: str
    minors: _Minors = ()
    decision: DeviceDecision | None = None
    """What gives it its devices; ``None``: nobody hands them out, or it was read from a file."""

    def _value(self) -> tuple[Any, ...]:
        return self.role, self.index, self.node, self.minors

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that it gets, by number on the node."""
        return dict(self.minors).get("gpu", ())

    @property
    def devices(self) -> tuple[DeviceAllocation, ...]:
        """How much it gets of which devices, as far as ``decision`` says it."""
        return () if self.decision is None else self.decision.placement


class Start(_Placed, frozen=True):
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

    _hidden = frozenset(("decisions",))

    job: Name
    pods: tuple[PlacedPod, ...]
    shares_with: Names = ()
    offsets: _Offsets = ()
    decisions: tuple[tuple[str, Any], ...] = ()
    lent: bool = False

    def _value(self) -> tuple[Any, ...]:
        return self.job, self.pods, self.shares_with, self.offsets, self.lent

    def _check(self) -> None:
        Record._check(self)
        _check_offsets(self)


class Promote(_Placed, frozen=True):
    """A job that runs on idle cells has those of its tenant from now on.

    :param job: its name.
    :param pods: where its pods are to be: often where they are, else they have to move.
    :param decisions: as of `Start`.
    """

    _hidden = frozenset(("decisions",))

    job: Name
    pods: tuple[PlacedPod, ...]
    decisions: tuple[tuple[str, Any], ...] = ()

    def _value(self) -> tuple[Any, ...]:
        return self.job, self.pods


class Move(Record, frozen=True):
    """Stop a running job, and start it again elsewhere; it is in no queue between.

    :param job: its name.
    :param pods: where all of its pods that run go.
    :param before: where they are.
    :param shares_with: the jobs whose GPUs it shares then.
    :param offsets: as of `Start`.

    All moves of one round, or of one step of a plan, happen together.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    before: tuple[PlacedPod, ...]
    shares_with: Names = ()
    offsets: _Offsets = ()

    def _check(self) -> None:
        Record._check(self)
        _check_offsets(self)


class Preempt(Record, frozen=True):
    """Stop a job; it waits in its queue again.

    :param job: who has to leave, as a whole.
    :param for_job: who gets what it has.
    :param why: "opportunistic": it used what was idle. "reclaim": its quota is over what it is
        entitled to. "priority": the other one is more important. "order": it stands behind the
        other one in the order that `Scheduler.reorder` was given.
    """

    job: Name
    for_job: Name
    why: str


class Stop(Record, frozen=True):
    """Stop these pods of a job, whose node is gone; they wait in their queue again.

    :param job: its name.
    :param pods: all that ran of it, or those that had joined it and were on that node; on other
        nodes they may still run.
    :param node: the one that is gone.

    What they had is free already, and no `Scheduler.stopped` is asked for.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    node: Name


class Wait(Record, frozen=True):
    """A job has to wait, and why; told again when the reason has changed.

    :param refusal: of the first stage that refuses; its reason is a line for people.
    """

    job: Name
    refusal: Refusal

    @property
    def reason(self) -> str:
        """Why, in a line."""
        return self.refusal.reason


class Reject(Record, frozen=True):
    """A job could not run even if the cluster were empty and healthy; it is not kept.

    :param reason: why, in a line.
    """

    job: Name
    reason: str


class SetCache(Record, frozen=True):
    """Keep so much of a dataset in the cache.

    :param dataset: its name.
    :param size: bytes, rounded down.
    """

    dataset: Name
    size: int


class SetRemoteIO(Record, frozen=True):
    """Let a job read so fast from where its dataset is, beside what is cached.

    :param job: its name.
    :param rate_mbps: MB/s.
    """

    job: Name
    rate_mbps: float


Action = Start | Promote | Move | Preempt | Stop | Wait | Reject | SetCache | SetRemoteIO
