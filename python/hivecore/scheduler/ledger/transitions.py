"""The states of a job, and the transitions between them.

Only `State.turn` changes the state of a job, as this table says: the states in which a transition
is allowed, the new state, the event that wakes other jobs, and whether the job reads its data from
then on. A victim is "running" or "lent" until its resources are free.
"""

from typing import NamedTuple

__all__ = ["GONE", "LENT", "PENDING", "RESERVED", "RUNNING", "TRANSITIONS"]

PENDING, RESERVED, RUNNING, LENT = "pending", "reserved", "running", "lent"
#: The state of a job that has left the scheduler.
GONE = ""


class _Transition(NamedTuple):
    sources: tuple[str, ...]
    target: str
    #: jobs that wait for this event of the job are tried again; "": none
    event: str = ""
    #: whether it reads its data from now on; None: as before
    reads: bool | None = None


TRANSITIONS = {
    #: it gets what it requests, or joins a job that shares GPUs
    "start": _Transition((PENDING, RESERVED), RUNNING, "started", True),
    #: it runs on idle cells while it waits for its tenant's
    "lend": _Transition((PENDING,), LENT, "started", True),
    #: it gets its tenant's cells
    "promote": _Transition((LENT,), RUNNING, reads=True),
    #: its victims must stop before it starts
    "reserve": _Transition((PENDING,), RESERVED),
    #: it waits again, whether or not its victims stop
    "give up": _Transition((RESERVED,), PENDING, "started"),
    #: it was preempted, failed, or lost a node
    "stop": _Transition((RUNNING, LENT), PENDING, "stopped", False),
    #: it finished, was cancelled or rejected
    "end": _Transition((PENDING, RESERVED, RUNNING, LENT), GONE, "started", False),
}
