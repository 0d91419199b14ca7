"""What a scheduler tells its caller to do, and in which order."""

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
        raise ValueError("offsets: must be one of the job and of each that it shares with")


class _Placed(Record, frozen=True, eq=False):
    """An action that carries decisions beside its value; they do not count when it is compared."""

    #: the fields that count
    _value: ClassVar[Any]
    #: the fields that are written, but neither count nor are shown
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
    """The place of one pod of a job.

    :param role: its role.
    :param index: its number among the pods of the role, from 0.
    :param node: its node; "": no stage places pods.
    :param minors: the numbers of the devices that it gets on its node, by type, as far as a stage
        chooses them.
    :param claims: the ``status.allocation`` of each of its claims, by the name of its template; not
        to be changed. Places that differ in nothing else are equal.
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
        """The GPUs that it gets, by number on the node."""
        return dict(self.minors).get("gpu", ())

    @property
    def devices(self) -> tuple[DeviceAllocation, ...]:
        """Its devices with their amounts, as far as ``decision`` has them."""
        return () if self.decision is None else self.decision.placement


class Start(_Placed, frozen=True):
    """Start these pods of a job. A job whose pods do not all start at once has several.

    :param job: its name.
    :param pods: the pods to start, by role and index.
    :param shares_with: the running jobs that share its GPUs.
    :param offsets: if it shares: the number of stages by which the job, and then each of the
        others, is behind the job, see `hivecore.interleaving.interleave`.
    :param decisions: the decision that was committed for it, by stage.
    :param lent: whether it runs on idle cells for now, because the cells of its tenant are in use:
        jobs of the tenants that own these cells may preempt it.
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
    """A job that runs on idle cells gets cells of its own tenant.

    :param job: its name.
    :param pods: the places of its pods from now on: often the old ones, else the pods move.
    :param decisions: as of `Start`.
    """

    _hidden = frozenset(("decisions",))
    _value = attrgetter("job", "pods")

    job: Name
    pods: tuple[PlacedPod, ...]
    decisions: tuple[tuple[str, Any], ...] = ()


class Move(Record, frozen=True):
    """Stop a running job, and start it again elsewhere; it is in no queue between.

    :param job: its name.
    :param pods: the new places of all of its running pods, and of those that have failed.
    :param before: the present places of those that run.
    :param shares_with: the jobs that share its GPUs there.
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

    :param job: the job to stop, all of it.
    :param for_job: the job that gets its resources.
    :param why: "opportunistic": it ran without a guarantee. "reclaim": its quota uses more than it
        is entitled to. "priority": the other job is more important. "order": it comes after the
        other job in the order that `Scheduler.reorder` was given.
    """

    job: Name
    for_job: Name
    why: str


class Shrink(Record, frozen=True):
    """Stop these pods of a job, which runs on without them.

    :param job: its name.
    :param pods: pods above `Role.min_pods`.
    :param for_job: the job that gets their resources.
    :param why: as of `Preempt`.

    `Scheduler.stopped` is to be called for each of them, unless victims stop at once.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    for_job: Name
    why: str


class Stop(Record, frozen=True):
    """Stop these pods of a job, as their node is gone or drained; they wait in their queue again.

    :param job: its name.
    :param pods: all of its running pods, on other nodes too; or, if the others run on, those that
        were on that node: such as had joined it, or see `Job.on_failure`.
    :param node: the node that is gone or is drained.

    Their resources are free already, and `Scheduler.stopped` is not to be called for them.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    node: Name


class TakeOver(Record, frozen=True):
    """Pods of a running job take the numbers of pods that have failed, where they are: spares, or
    pods above `Role.min_pods` of an elastic role.

    :param job: its name.
    :param pods: these pods under their new numbers.
    :param before: the same pods as they were until now.
    """

    job: Name
    pods: tuple[PlacedPod, ...]
    before: tuple[PlacedPod, ...]


class Wait(Record, frozen=True):
    """A job has to wait, or, if it runs, pods of it that have failed. There is another one when the
    reason has changed.

    :param refusal: the refusal of the first stage that refuses.
    """

    job: Name
    refusal: Refusal

    @property
    def reason(self) -> str:
        """The reason, in a line."""
        return self.refusal.reason


class Reject(Record, frozen=True):
    """A job could not run on the empty, healthy cluster either; the scheduler forgets it.

    :param reason: the reason, in a line.
    """

    job: Name
    reason: str


class SetCache(Record, frozen=True):
    """Cache a part of a dataset.

    :param dataset: its name.
    :param size: bytes, rounded down.
    """

    dataset: Name
    size: int


class SetRemoteIO(Record, frozen=True):
    """Set the rate at which a job reads the part of its dataset that is not cached.

    :param job: its name.
    :param rate_mbps: MB/s.
    """

    job: Name
    rate_mbps: float


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
