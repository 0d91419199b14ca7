"""Affinity groups that have places, and which pod has which slot of them.

The first pod of a group decides for all: its decision places every pod of the group. A slot is one
of these places. A pod that comes later gets the lowest empty slot of its size; when a pod is
deleted, its slot becomes empty, and the next pod of that size gets the very same leaf cells.

Invariants: a slot never moves while its group lives; ``bound`` counts the filled slots, and no slot
below ``lowest`` is empty. A group with ``preempting`` reserves its cells, and these pods wait for
the victims; any other group has a bound pod. A pod is bound to at most one slot or waits in at most
one group, never both.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from hivecore._stateful import counted
from hivecore.cells import AffinityGroup, CellCluster, GroupDecision, PodPlacement
from hivecore.errors import InvariantError, StaleDecisionError
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.kubernetes.pods import RequestError

__all__ = ["PlacedGroup", "PlacedGroups", "Seat", "Slots"]


class Slots:
    """The places of a group's pods of equal size, and the pod of each."""

    __slots__ = ("leaf_number", "lowest", "places", "pods")

    def __init__(self, leaf_number: int, places: Iterable[PodPlacement]) -> None:
        self.leaf_number = leaf_number
        self.places = tuple(places)
        self.pods: list[str | None] = [None] * len(self.places)
        self.lowest = 0

    def empty(self, nodes: Container[object] | None = None) -> int | None:
        """The lowest empty slot on these nodes; where they have none, the lowest empty one."""
        pods = self.pods
        while self.lowest < len(pods) and pods[self.lowest] is not None:
            self.lowest += 1
        if self.lowest == len(pods):
            return None
        if nodes is not None:
            for i in range(self.lowest, len(pods)):
                if pods[i] is None and self.places[i].node in nodes:
                    return i
        return self.lowest


class PlacedGroup:
    """A group with its slots.

    :param declared: the spec of its first pod.
    :param request: what the cluster is asked for.
    :param places: by leaf cells per pod.
    """

    __slots__ = ("bound", "declared", "preempting", "request", "slots")

    def __init__(
        self,
        declared: PodRequest,
        request: AffinityGroup,
        places: Mapping[int, Iterable[PodPlacement]],
    ) -> None:
        self.declared = declared
        self.request = request
        self.slots = {number: Slots(number, pods) for number, pods in places.items()}
        self.bound = 0
        self.preempting: dict[str, None] | None = None

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.declared.gang

    def placement(self) -> tuple[tuple[int, tuple[PodPlacement, ...]], ...]:
        """The places of each size."""
        return tuple([(number, slots.places) for number, slots in self.slots.items()])

    def taken(self) -> Iterator[tuple[PodPlacement, str | None]]:
        """Every place with its pod."""
        for slots in self.slots.values():
            yield from zip(slots.places, slots.pods, strict=True)

    def pods(self) -> list[str]:
        """Its bound pods, sorted."""
        return sorted(pod for _, pod in self.taken() if pod is not None)

    def leaves(self) -> Iterator[tuple[str, int]]:
        """(node, leaf cell) of all places."""
        for place, _ in self.taken():
            for leaf in place.leaf_indices:
                yield place.node, leaf

    def copy(self) -> "PlacedGroup":
        """An independent group with the same slots and pods."""
        other = PlacedGroup(self.declared, self.request, dict(self.placement()))
        for number, slots in self.slots.items():
            other.slots[number].pods = list(slots.pods)
        other.bound = self.bound
        other.preempting = None if self.preempting is None else dict(self.preempting)
        return other


class Seat(NamedTuple):
    """The slot of a bound pod, or of a pod that may bind."""

    group: PlacedGroup
    slots: Slots
    slot: int
    decision: GroupDecision | None = None
    """What is to be committed before the pod is bound."""

    @property
    def place(self) -> PodPlacement:
        """Where the pod goes."""
        return self.slots.places[self.slot]


class PlacedGroups:
    """All groups of a cluster, the pods that are bound, offered a seat, or wait for victims.

    :param cluster: only this object changes what it holds.
    :param live: the groups that exist, by name.

    Not for several threads at once: the caller takes turns.
    """

    def __init__(self, cluster: CellCluster, live: dict[str, PlacedGroup] | None = None) -> None:
        self.cluster = cluster
        self.live = {} if live is None else live
        self.offers: dict[str, Seat] = {}
        """Decisions to bind that are not allocated yet."""
        self.seats = {
            pod: Seat(group, slots, index)
            for group in self.live.values()
            for slots in group.slots.values()
            for index, pod in enumerate(slots.pods)
            if pod is not None
        }
        self.waiting = {
            pod: group for group in self.live.values() for pod in group.preempting or ()
        }
        self.given_up = 0
        """How often reservations were given up, for another group or for other cells."""

    # --- decisions

    def find(
        self, pod: str, request: PodRequest, nodes: Container[object] | None = None
    ) -> Seat | None:
        """The pod's own seat, or an empty one of its group; ``None``: its group is not allocated.

        :param nodes: those that are preferred.
        :raises RequestError: it is in another group, or its group has no slot for it.
        """
        seat = self.own_seat(pod, request)
        if seat is not None:
            return seat
        group = self.live.get(request.gang)
        if group is None:
            return None
        slots = group.slots.get(request.leaf_number)
        index = None if slots is None else slots.empty(nodes)
        if slots is None or index is None:
            raise RequestError(
                f"spec: affinityGroup: group {group.name!r} was declared with "
                f"{counted(len(slots.pods) if slots else 0, 'pod')} of "
                f"{counted(request.leaf_number, 'leaf cell')}, this is one more"
            )
        return Seat(group, slots, index) if group.preempting is None else None

    def offer(self, pod: str, seat: Seat) -> None:
        """Let `allocate` bind a pod to an empty slot; for a bound pod nothing happens."""
        if pod not in self.seats:
            self.offers[pod] = seat

    def take_up(
        self,
        pod: str,
        request: PodRequest,
        decision: GroupDecision,
        reserve: bool,
        nodes: Container[object] | None = None,
    ) -> Seat | None:
        """The seat that the cluster's decision for the pod's group gives it; ``None``: it waits.

        :param reserve: whether a decision to preempt is reserved at once. Then a reservation of the
            group that no longer holds is given up, even where the group has to wait.
        :param nodes: those that are preferred.
        """
        group = self.live.get(request.gang)
        self.offers.pop(pod, None)
        if decision.outcome == "wait":
            if group is not None and reserve:
                self.cluster.cancel(group.name)
                self.forget(group.name)
                self.given_up += 1
            return None
        planned = _planned(request if group is None else group.declared, decision)
        slots = planned.slots[request.leaf_number]
        seat = Seat(planned, slots, slots.empty(nodes) or 0, decision)
        if group is not None and group.placement() == planned.placement():
            self._wait(pod, group)
        elif reserve and decision.outcome == "preempt":
            self.cluster.reserve(decision)
            pods = () if group is None else tuple(group.preempting or ())
            self._forget_given_up(decision, group)
            planned.preempting = {}
            self.live[planned.name] = planned
            for waiting in (*pods, pod):
                self._wait(waiting, planned)
        if decision.outcome == "bind":
            self.offers[pod] = seat
        return seat

    def _wait(self, pod: str, group: PlacedGroup) -> None:
        assert group.preempting is not None
        group.preempting[pod] = None
        self.waiting[pod] = group

    def _forget_given_up(self, decision: GroupDecision, before: PlacedGroup | None) -> None:
        """Drop the groups whose reservations a decision ends, its own group's included."""
        self.given_up += bool(decision.cancels)
        own = () if before is None else (before.name,)
        for name in {*decision.cancels, *own}:
            self.forget(name)

    # --- what happens to pods

    def allocate(self, pod: str) -> None:
        """Bind a pod as offered; for a bound pod nothing happens.

        :raises RequestError: nothing was offered.
        :raises StaleDecisionError: the offer no longer fits; nothing has changed.
        """
        if pod in self.seats:
            return
        offer = self.offers.get(pod)
        if offer is None:
            raise RequestError(f"pod {pod!r} has no decision to bind: schedule it first")
        group, slots, index, decision = offer
        live = self.live.get(group.name)
        if live is None or live.preempting is not None:
            if decision is None:
                raise StaleDecisionError(f"group {group.name!r} is gone")
            self.cluster.commit(decision)
            self._forget_given_up(decision, live)
            self.live[group.name] = group
        elif live is not group:
            if live.placement() != group.placement():
                raise StaleDecisionError(f"group {group.name!r} is placed elsewhere by now")
            group, slots = live, live.slots[slots.leaf_number]
        if slots.pods[index] is not None:
            raise StaleDecisionError(f"pod {slots.pods[index]!r} has taken this slot")
        self.bind(pod, group, slots, index)

    def bind(self, pod: str, group: PlacedGroup, slots: Slots, index: int) -> None:
        """Bind a pod to an empty slot of a group that the cluster has allocated."""
        self.offers.pop(pod, None)
        self.live[group.name] = group
        slots.pods[index] = pod
        group.bound += 1
        self.seats[pod] = Seat(group, slots, index)

    def delete(self, pod: str) -> None:
        """Forget a pod: a bound one empties its slot, a waiting one waits no longer.

        The last bound pod of a group releases it, the last waiting one cancels its preemption. For
        an unknown pod nothing happens.
        """
        self.offers.pop(pod, None)
        seat = self.seats.pop(pod, None)
        if seat is not None:
            group, slots, index, _ = seat
            slots.pods[index] = None
            slots.lowest = min(slots.lowest, index)
            group.bound -= 1
            if not group.bound:
                self.cluster.release(group.name)
                del self.live[group.name]
            return
        waits_in = self.waiting.pop(pod, None)
        if waits_in is not None and waits_in.preempting is not None:
            del waits_in.preempting[pod]
            if not waits_in.preempting:
                self.cluster.cancel(waits_in.name)
                del self.live[waits_in.name]
                self.given_up += 1

    def forget(self, name: str) -> None:
        """Drop a preempting group that the cluster has given up."""
        for pod in self.live.pop(name).preempting or ():
            del self.waiting[pod]

    def own_seat(self, pod: str, request: PodRequest) -> Seat | None:
        """Where a pod is bound already; ``None``: nowhere.

        :raises RequestError: it is bound, or waits, in another group.
        """
        seat = self.seats.get(pod)
        group = self.waiting.get(pod) if seat is None else seat.group
        if group is not None and group.name != request.gang:
            state = "preempting" if seat is None else "bound"
            raise RequestError(
                f"pod {pod!r} is {state} in group {group.name!r}, not {request.gang!r}"
            )
        return seat

    def bound_pods(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """(node, pod) of every bound pod of these groups."""
        return tuple(
            (place.node, pod)
            for name in names
            for place, pod in self.live[name].taken()
            if pod is not None
        )

    # --- state

    def copy(self) -> "PlacedGroups":
        """An independent branch over a branch of the cluster; offers are left behind."""
        live = {name: group.copy() for name, group in self.live.items()}
        return PlacedGroups(self.cluster.copy(), live)

    def check(self) -> None:
        """Audit that pods, groups and cluster agree; raises `InvariantError`. O(pods)."""
        if set(self.cluster.groups()) != set(self.live):
            raise InvariantError("the placed groups are not those of the cluster")
        for name, group in self.live.items():
            preempting = group.preempting is not None
            pods = group.pods()
            if name != group.name:
                raise InvariantError(f"group {group.name!r} is known as {name!r}")
            if group.bound != len(pods) or preempting == bool(pods):
                raise InvariantError(f"group {name!r}: {group.bound} bound pods of {len(pods)}")
            if preempting and not group.preempting:
                raise InvariantError(f"group {name!r}: no pod waits for its victims")
            if any(None in slots.pods[: slots.lowest] for slots in group.slots.values()):
                raise InvariantError(f"group {name!r}: an empty slot is overlooked")
            status = self.cluster.group(name)
            if status.group != group.request:
                raise InvariantError(f"group {name!r} is another one in the cluster")
            if preempting != (status.state == "Preempting"):
                raise InvariantError(f"group {name!r}: its state is not the cluster's")
            held = {(pod.node, leaf) for pod in status.placement for leaf in pod.leaf_indices}
            if not held <= set(group.leaves()):
                raise InvariantError(f"group {name!r}: its slots are not where the group is")
        again = PlacedGroups(self.cluster, self.live)
        if again.seats != self.seats or again.waiting != self.waiting:
            raise InvariantError("the pods are not those of the groups")
        placed = sum(group.bound for group in self.live.values())
        if placed != len(self.seats) or self.seats.keys() & self.waiting.keys():
            raise InvariantError("a pod is in two places")


def _planned(declared: PodRequest, decision: GroupDecision) -> PlacedGroup:
    """The group with the places of a decision, without the numbers of leaves."""
    placed = iter([PodPlacement(*pod[:4], ()) for pod in decision.placement])
    places = {number: islice(placed, pods) for number, pods in declared.roles}
    return PlacedGroup(declared, decision.request, places)
