"""The transitions between the states of a job: one table.

A job changes its state only through `State.turn`, which follows this table: from which states a
transition leads to which, the event that wakes other jobs, and whether the job reads its data from
then on. A job that has to stop is "running" or "lent" until its resources are freed.
"""

from typing import NamedTuple

__all__ = ["GONE", "LENT", "PENDING", "RESERVED", "RUNNING", "TRANSITIONS"]

PENDING, RESERVED, RUNNING, LENT = "pending", "reserved", "running", "lent"
#: The state of a job that is not known any more.
GONE = ""


class _Transition(NamedTuple):
    sources: tuple[str, ...]
    target: str
    #: jobs that wait for this event of the job are tried again; "": none
    event: str = ""
    #: whether it reads its data from now on, if it ran before; None: as before
    reads: bool | None = None


TRANSITIONS = {
    #: it gets what it asks for, or joins a job that shares GPUs
    "start": _Transition((PENDING, RESERVED), RUNNING, "started", True),
    #: it runs on idle cells while it waits for those of its tenant
    "lend": _Transition((PENDING,), LENT, "started", True),
    #: it gets cells of its tenant
    "promote": _Transition((LENT,), RUNNING, reads=True),
    #: its victims have to stop before it starts
    "reserve": _Transition((PENDING,), RESERVED),
    #: it waits for other resources, whether or not its victims stop
    "give up": _Transition((RESERVED,), PENDING, "started"),
    #: it was preempted, has failed, or lost a node
    "stop": _Transition((RUNNING, LENT), PENDING, "stopped", False),
    #: it has finished, was cancelled, or is rejected
    "end": _Transition((PENDING, RESERVED, RUNNING, LENT), GONE, "started", False),
}
