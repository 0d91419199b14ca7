"""What may become of a job: one table.

A job changes its state only through `State.turn`, which follows this table: what may change into
what, what waits for it, and whether the job reads its data from then on. A job that has to stop is
"running" or "lent" until it has.
"""

from typing import NamedTuple

__all__ = ["GONE", "LENT", "PENDING", "RESERVED", "RUNNING", "TRANSITIONS"]

PENDING, RESERVED, RUNNING, LENT = "pending", "reserved", "running", "lent"
#: The state of a job that is not known any more.
GONE = ""


class _Transition(NamedTuple):
    sources: tuple[str, ...]
    target: str
    #: what has happened to the job; those that wait for it are tried again
    event: str = ""
    #: whether it reads its data from now on, if it has run before; None: as before
    reads: bool | None = None


TRANSITIONS = {
    #: it gets what it asks for, or shares that of others
    "start": _Transition((PENDING, RESERVED), RUNNING, "started", True),
    #: it runs on idle cells while it waits for those of its tenant
    "lend": _Transition((PENDING,), LENT, "started", True),
    #: it gets those of its tenant
    "promote": _Transition((LENT,), RUNNING, reads=True),
    #: others have to stop for it
    "reserve": _Transition((PENDING,), RESERVED),
    #: it waits for other resources, whether or not those others stop
    "give up": _Transition((RESERVED,), PENDING, "started"),
    #: it waits again
    "stop": _Transition((RUNNING, LENT), PENDING, "stopped", False),
    #: it has ended, or is not wanted any more
    "end": _Transition((PENDING, RESERVED, RUNNING, LENT), GONE, "started", False),
}
