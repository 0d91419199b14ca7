"""Actions on pods of gangs, and the status of pods and gangs."""

from typing import Literal

from hivecore._record import Record

__all__ = ["Action", "BindInfo", "GangStatus", "PodState", "PodStatus"]

#: The state of a pod, see `PodStatus`.
PodState = Literal[
    "pending",
    "trying",
    "held-up",
    "waiting",
    "released",
    "bound",
    "running",
    "succeeded",
    "failed",
]


class Action(Record, frozen=True):
    """An action on some pods.

    :param kind: "try": look for a place for the pod, then call `Coscheduler.assume_pod` or
        ``fail_pod``. "hold": do nothing with it for now. "release": bind these pods. "reject": take
        back their places; they are pending again.
    :param pods: in the order in which they were created.
    :param group: their group: the names of its gangs, joined by commas.
    :param reason: in one line.
    :param until: when a held place is given up; ``None`` if no place is held.
    """

    kind: Literal["try", "hold", "release", "reject"]
    pods: tuple[str, ...]
    group: str
    reason: str
    until: int | None = None


class PodStatus(Record, frozen=True):
    """The status of a pod.

    :param gang: its gang.
    :param role: its role in the gang, or "".
    :param state: "pending": it has not been tried, or gave its place back. "trying": the scheduler
        looks for a place. "held-up": it found none. "waiting": it holds a place until its gang may
        start. "released": it is being bound. "bound", "running", "succeeded", "failed": as
        reported.
    :param reason: why it is not tried or released, in one line, or "".
    :param until: when it loses its place or is retried, if at all.
    :param holds: the resources that it holds, as the caller named them.
    :param lacks: the resources that it lacks, as the caller named them.
    """

    gang: str
    role: str
    state: PodState
    reason: str
    until: int | None
    holds: tuple[str, ...]
    lacks: tuple[str, ...]


class GangStatus(Record, frozen=True):
    """The status of a gang.

    :param group: the gangs that it starts with, sorted, including itself.
    :param defined: whether its definition is known.
    :param pods: its pods that have not ended.
    :param waiting: its pods that hold a place and are not bound.
    :param bound: its bound pods, including running ones.
    :param running: its running pods.
    :param succeeded: its pods that have succeeded.
    :param failed: its pods that have failed.
    :param satisfied: whether enough pods count for its minimum.
    :param once_satisfied: whether a pod of its group has been bound since the group last had none.
    :param phase: see `gang_phase`.
    """

    group: tuple[str, ...]
    defined: bool
    pods: int
    waiting: int
    bound: int
    running: int
    succeeded: int
    failed: int
    satisfied: bool
    once_satisfied: bool
    phase: str


class BindInfo(Record, frozen=True):
    """The annotations of a group's pods when they are bound.

    :param group: the names of the group's gangs, sorted and joined by commas.
    :param members: the number of pods that held a place at the group's first release.
    """

    group: str
    members: int
