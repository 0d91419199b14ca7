"""Which pod sits in which slot, which one asks for a preemption, and what was offered to whom.

Invariants: a gang that is not preempting has a bound pod; a pod is bound in at most one slot, asks
for at most one gang, and never both.
"""

from typing import Any, NamedTuple

from hivecore.errors import InvariantError
from hivecore.gangs.gang import Gang, Role

__all__ = ["Offer", "Seat", "Seats"]


class Seat(NamedTuple):
    """Where a bound pod sits."""

    gang: Gang
    role: Role
    slot: int


class Offer(NamedTuple):
    """A decision to bind that was given to a pod and is not allocated yet."""

    gang: Gang
    role: Role
    slot: int
    decision: Any
    """What books the gang; None: it was booked already."""


class Seats:
    """All gangs and pods."""

    def __init__(self, gangs: dict[str, Gang]) -> None:
        self.gangs = gangs
        self.offers: dict[str, Offer] = {}
        self.seats = {
            pod: Seat(gang, role, slot)
            for gang in gangs.values()
            for role in gang.roles.values()
            for slot, pod in enumerate(role.pods)
            if pod is not None
        }
        self.asking = {pod: gang for gang in gangs.values() for pod in gang.preempting or ()}

    def sit(self, pod: str, gang: Gang, role: Role, slot: int) -> None:
        """Bind a pod to an empty slot of an allocated gang."""
        gang.fill(role, slot, pod)
        self.seats[pod] = Seat(gang, role, slot)

    def ask(self, pod: str, gang: Gang) -> None:
        """Note that a pod asks for a preempting gang."""
        assert gang.preempting is not None
        gang.preempting[pod] = None
        self.asking[pod] = gang

    def forget(self, name: str) -> None:
        """Drop a preempting gang that its stage has given up."""
        for pod in self.gangs.pop(name).preempting or ():
            del self.asking[pod]

    def copy(self) -> "Seats":
        """Independent seats without the offers, which are the original's."""
        return Seats({name: gang.copy() for name, gang in self.gangs.items()})

    def check(self) -> None:
        """Raise `InvariantError` where pods and gangs do not agree."""
        for name, gang in self.gangs.items():
            preempting = gang.preempting is not None
            pods = [pod for _, pod in gang.seats() if pod is not None]
            if name != gang.name:
                raise InvariantError(f"gang {gang.name!r} is known as {name!r}")
            if gang.bound != len(pods) or preempting == bool(pods):
                raise InvariantError(f"gang {name!r}: {gang.bound} bound pods of {len(pods)}")
            if preempting and not gang.preempting:
                raise InvariantError(f"gang {name!r}: nobody asks for it")
            for role in gang.roles.values():
                if None in role.pods[: role.lowest]:
                    raise InvariantError(f"gang {name!r}: an empty slot is overlooked")
        anew = Seats(self.gangs)
        if anew.seats != self.seats or anew.asking != self.asking:
            raise InvariantError("the pods are not those of the gangs")
        placed = [pod for gang in self.gangs.values() for _, pod in gang.seats() if pod]
        if len(placed) != len(self.seats) or self.seats.keys() & self.asking.keys():
            raise InvariantError("a pod is in two places")
