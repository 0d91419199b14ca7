"""Which pod sits in which slot, which one asks for a preemption, and what was offered to whom.

Invariants: the gangs are exactly the groups of the cluster; a gang that is not preempting has a
bound pod; a pod is bound in at most one slot, asks for at most one gang, and never both.
"""

from typing import NamedTuple

from hivecore.cells import CellCluster, Decision
from hivecore.errors import InvariantError
from hivecore.interop.hived.gangs import Gang, Row

__all__ = ["Offer", "Seat", "Seating"]


class Seat(NamedTuple):
    """Where a bound pod sits."""

    gang: Gang
    row: Row
    slot: int


class Offer(NamedTuple):
    """A decision to bind that was given to a pod and is not allocated yet."""

    gang: Gang
    row: Row
    slot: int
    decision: Decision | None
    """What books the gang; None: it was booked already."""


class Seating:
    """All gangs and pods of a scheduler."""

    def __init__(self, gangs: dict[str, Gang] | None = None) -> None:
        self.gangs = {} if gangs is None else gangs
        self.offers: dict[str, Offer] = {}
        self.seats = {
            pod: Seat(gang, row, slot)
            for gang in self.gangs.values()
            for row in gang.rows.values()
            for slot, pod in enumerate(row.pods)
            if pod is not None
        }
        self.asking = {pod: gang for gang in self.gangs.values() for pod in gang.preempting or ()}

    def sit(self, pod: str, gang: Gang, row: Row, slot: int) -> None:
        """Bind a pod to an empty slot of an allocated gang."""
        gang.fill(row, slot, pod)
        self.seats[pod] = Seat(gang, row, slot)

    def ask(self, pod: str, gang: Gang) -> None:
        """Note that a pod asks for a preempting gang."""
        assert gang.preempting is not None
        gang.preempting[pod] = None
        self.asking[pod] = gang

    def forget(self, name: str) -> None:
        """Drop a preempting gang that the cluster has given up."""
        for pod in self.gangs.pop(name).preempting or ():
            del self.asking[pod]

    def victims(self, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """(node, pod) of every bound pod of these gangs."""
        return tuple(
            (slot.node, pod)
            for name in names
            for slot, pod in self.gangs[name].seats()
            if pod is not None
        )

    def copy(self) -> "Seating":
        """An independent seating without the offers, which are the original's."""
        return Seating({name: gang.copy() for name, gang in self.gangs.items()})

    def check(self, cluster: CellCluster) -> None:
        """Raise `InvariantError` where this and the cluster do not agree."""
        if set(cluster.groups()) != set(self.gangs):
            raise InvariantError("the gangs are not the groups of the cluster")
        for name, gang in self.gangs.items():
            status = cluster.group(name)
            assert status is not None
            preempting = gang.preempting is not None
            if name != gang.name or status.group != gang.group:
                raise InvariantError(f"gang {name!r} is not the group of the cluster")
            if preempting != (status.state == "Preempting"):
                raise InvariantError(f"gang {name!r}: its state is not the group's")
            held = {(pod.node, leaf) for pod in status.placement for leaf in pod.leaf_indices}
            if not held <= set(gang.places()):
                raise InvariantError(f"gang {name!r}: its slots are not where the group is")
            pods = [pod for _, pod in gang.seats() if pod is not None]
            if gang.bound != len(pods) or preempting == bool(pods):
                raise InvariantError(f"gang {name!r}: {gang.bound} bound pods of {len(pods)}")
            if preempting and not gang.preempting:
                raise InvariantError(f"gang {name!r}: nobody asks for it")
            for row in gang.rows.values():
                if None in row.pods[: row.lowest]:
                    raise InvariantError(f"gang {name!r}: an empty slot is overlooked")
        anew = Seating(self.gangs)
        if anew.seats != self.seats or anew.asking != self.asking:
            raise InvariantError("the pods are not those of the gangs")
        placed = [pod for gang in self.gangs.values() for _, pod in gang.seats() if pod]
        if len(placed) != len(self.seats) or self.seats.keys() & self.asking.keys():
            raise InvariantError("a pod is in two places")
