"""What the scheduler has to do with pods of gangs."""

from typing import Literal, NamedTuple

from hivecore._record import Record

__all__ = ["Action", "BindInfo", "GangStatus", "PodState", "PodStatus"]

#: Where a pod is in its life: see `PodStatus`.
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


class Action(NamedTuple):
    """What to do with some pods now.

    :param kind: "try": look for a place for the pod, then tell `Coscheduler` with ``assume_pod`` or
        ``fail_pod``. "hold": do nothing with it for now. "release": bind these. "reject": take
        their places back; they are pending again.
    :param pods: which, in the order in which they were created.
    :param group: the group of gangs they belong to: its gangs' names, joined by commas.
    :param reason: why, in a line.
    :param until: when a place that is held ends by itself; ``None``: no place is held.
    """

    kind: Literal["try", "hold", "release", "reject"]
    pods: tuple[str, ...]
    group: str
    reason: str
    until: int | None = None


class PodStatus(Record, frozen=True):
    """Where a pod is in its life.

    :param gang: its gang.
    :param role: its role in the gang; "": none.
    :param state: "pending": it was not tried yet, or gave its place back. "trying": the scheduler
        looks for a place. "held-up": it found none. "waiting": it holds a place until its gang may
        start. "released": it is being bound. "bound", "running", "succeeded", "failed": as said.
    :param reason: why it is not tried or not released, in a line; "": nothing is in its way.
    :param until: when it loses the place that it holds, or is tried again; ``None``: neither.
    :param holds: what it holds, as the caller said.
    :param lacks: what it lacks, as the caller said.
    """

    gang: str
    role: str
    state: PodState
    reason: str
    until: int | None
    holds: tuple[str, ...]
    lacks: tuple[str, ...]


class GangStatus(Record, frozen=True):
    """How a gang stands.

    :param group: the gangs that it starts with, sorted, itself included.
    :param defined: whether its definition is known.
    :param pods: its pods that have not ended.
    :param waiting: those that hold a place and are not bound.
    :param bound: those that are bound, running ones included.
    :param running: those that run.
    :param succeeded: its pods that have ended well.
    :param failed: its pods that have failed.
    :param satisfied: whether those that count are as many as its minimum.
    :param once_satisfied: whether a pod of its group was bound since the group last had none.
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
    """What is written on the pods of a group when they are bound.

    :param group: the names of the group's gangs, sorted and joined by commas.
    :param members: how many pods held a place when the group was released for the first time.
    """

    group: str
    members: int
