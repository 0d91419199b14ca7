"""The actions that a scheduler asks its caller to carry out."""

from operator import attrgetter
from typing import Annotated, Any, ClassVar

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
    "Shrink",
    "Start",
    "Stop",
    "TakeOver",
    "Wait",
]

_Minor = Annotated[int, within(0, 2**31)]
_Minors = tuple[tuple[str, tuple[_Minor, ...]], ...]
_Offsets = tuple[Annotated[int, within(0, 8)], ...]


def _check_offsets(action: "Start | Move") -> None:
    others = action.shares_with
    if len(action.offsets) != len(others) + bool(others):
        raise ValueError("offsets: must have one value for the job and for each in shares_with")


class _Placed(Record, frozen=True, eq=False):
    """An action that carries decisions. These do not count when actions are compared."""

    #: the fields that count
    _value: ClassVar[Any]
    #: fields that are written to logs, but neither count nor are shown
    _unshown: ClassVar[frozenset[str]] = frozenset()

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        value = self._value
        return bool(value(self) == value(other))

    def __hash__(self) -> int:
        return hash(self._value(self))

    def __repr__(self) -> str:
        hidden = self._hidden | self._unshown
        names = [name for name in self.__struct_fields__ if name not in hidden]
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__name__}({shown})"


class PlacedPod(_Placed, frozen=True):
    """Where one pod of a job runs.

    :param role: its role.
    :param index: its number among the pods of the role, from 0.
    :param node: its node; "": no stage places pods.
    :param minors: the numbers of its devices on the node, by type, as far as a stage chooses them.
    :param claims: the ``status.allocation`` of each of its claims, by template. Do not change them.
        They do not count when pods are compared.
    """

    _hidden = frozenset(("decision",))
    _unshown = frozenset(("claims",))
    _value = attrgetter("role", "index", "node", "minors")

    role: Name
    index: Annotated[int, within(0, 2**31)]
    node: str
    minors: _Minors = ()
    decision: DeviceDecision | None = None
    """The decision on its devices; ``None``: no stage allocates them, or it comes from a file."""
    claims: tuple[tuple[str, Any], ...] = ()

    @property
    def gpus(self) -> tuple[int, ...]:
        """Its GPUs, by number on the node."""
        return dict(self.minors).get("gpu", ())

    @property
    def devices(self) -> tuple[DeviceAllocation, ...]:
        """Its devices with amounts; empty without a ``decision``."""
        return () if self.decision is None else self.decision.placement


class Start(_Placed, frozen=True):
    """Start pods of a job. A job whose pods start at different times gets several of these.

    :param job: its name.
    :param pods: the pods to start, by role and index.
    :param shares_with: running jobs that share its GPUs.
    :param offsets: if it shares GPUs: 0 for the job itself, then how many slots each job of
        ``shares_with`` is behind it; see `hivecore.interleaving.interleave`.
    :param decisions: the committed decisions by stage.
    :param lent: it runs on idle cells, as its tenant's cells are in use. Jobs of the tenants that
        own these cells may preempt it.
    """

    _hidden = frozenset(("decisions",))
    _value = attrgetter("job", "pods", "shares_with", "offsets", "lent")

    job: Name
    pods: tuple[PlacedPod, ...]
    shares_with: Names = ()
    offsets: _Offsets = ()
    decisions: tuple[tuple[str, Any], ...] = ()
    lent: bool = False

    def _check(self) -> None:
        Record._check(self)
        _check_offsets(self)


class Promote(_Placed, frozen=True):
    """A job on idle cells gets cells of its own tenant.

    :param job: its name.
    :param pods: where its pods run from now on: often the same places; otherwise the pods move.
    :param decisions: see `Start`.
    """

    _hidden = frozenset(("decisions",))
    _value = attrgetter("job", "pods")

    job: Name
    pods: tuple[PlacedPod, ...]
    decisions: tuple[tuple[str, Any], ...] = ()


class Move(Record, frozen=True):
    """Stop a running job and start it elsewhere. It does not return to its queue.

    :param job: its name.
    :param pods: the new places of its running and its failed pods.
    :param before: the present places of its running pods.
    :param shares_with: jobs that share its new GPUs.
    :param offsets: see `Start`.

    All moves of a round, or of a step of a plan, happen together. A job may be preempted in the
    round in which it moves, if another job starts where it was or victims take time to stop.
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
    """Stop a job; it returns to its queue.

    :param job: the job to stop, with all of its pods.
    :param for_job: the job that gets its resources.
    :param why: "opportunistic": it ran without a guarantee. "reclaim": its quota uses more than it
        is entitled to. "priority": the other job is more important. "order": the other job comes
        first in the order given to `Scheduler.reorder`.
    """

    job: Name
    for_job: Name
    why: str


class Shrink(Record, frozen=True):
    """Stop some pods of a job, which runs on without them.

    :param job: its name.
    :param pods: pods above `Role.min_pods`.
    :param for_job: the job that gets their resources.
    :param why: see `Preempt`.

    Call `Scheduler.stopped` for each of these pods, unless victims stop at once.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    for_job: Name
    why: str


class Stop(Record, frozen=True):
    """Stop pods of a job, as their node is removed or drained. They return to their queue.

    :param job: its name.
    :param pods: all of its running pods, on any node. If the others can run on, see
        `Job.on_failure`, only its pods on that node.
    :param node: the node that is removed or drained.

    Their resources are free already; do not call `Scheduler.stopped` for them.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    node: Name


class TakeOver(Record, frozen=True):
    """Running pods of a job take the numbers of its failed pods, without moving. They are spares,
    or pods above `Role.min_pods` of an elastic role.

    :param job: its name.
    :param pods: the running pods with their new numbers.
    :param before: the same pods with their old numbers.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    before: tuple[PlacedPod, ...]


class Wait(Record, frozen=True):
    """A job, or failed pods of a running job, must wait. Sent again if the reason changes.

    :param refusal: the refusal of the first stage that refuses.
    """

    job: Name
    refusal: Refusal

    @property
    def reason(self) -> str:
        """The reason, in a line."""
        return self.refusal.reason


class Reject(Record, frozen=True):
    """A job could not even run on the empty, healthy cluster. The scheduler forgets it.

    :param reason: the reason, in a line.
    """

    job: Name
    reason: str


class SetCache(Record, frozen=True):
    """Set how much of a dataset is cached.

    :param dataset: its name.
    :param size: the new amount in bytes, rounded down.
    """

    dataset: Name
    size: int


class SetRemoteIO(Record, frozen=True):
    """Set the rate at which a job reads the part of its dataset that is not cached.

    The rate of a job that starts, or starts again elsewhere after a `Move`, is 0 until it is set.

    :param job: its name.
    :param rate_mbps: MB/s.
    """

    job: Name
    rate_mbps: float


#: What a decision asks the caller to do, or says of a job.
Action = (
    Start
    | Promote
    | Move
    | TakeOver
    | Preempt
    | Shrink
    | Stop
    | Wait
    | Reject
    | SetCache
    | SetRemoteIO
)
