"""Devices that are held for certain pods (section 1.14).

A reservation holds devices like an owner, and the pods that were let in are charged for the same
devices once more. So what the pods use is always to be had, and what is left of a reservation is to
be had by those whom it is for:

- policies "default" and "aligned" mean the same: the reservation's minors come first, the rest of
  the node may be used as well;
- "restricted": only the reservation's minors, and no more of them than it has left.

The first reservation that serves the request is taken. If none does, and the request need not be in
one, it is served as if all of them were free for it, so it spills into what others hold (D13).
"""

from collections.abc import Iterable
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from hivecore.reference.devices.koordinator.allocator import allocate, score_node
from hivecore.reference.devices.koordinator.amounts import Amounts, is_nothing, less, minus, plus
from hivecore.reference.devices.koordinator.node_view import WHOLE, ByType, Restriction
from hivecore.reference.devices.koordinator.outcome import QUIRKS, Failure
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = [
    "NONE",
    "Reservation",
    "Reservations",
    "allocate_reserved",
    "in_reservation",
    "opened",
    "outside",
    "score_reserved",
]


class Reservation(NamedTuple):
    """Devices that an owner holds for others."""

    owner: str
    users: tuple[str, ...] = ()
    """The owners that were let in."""
    policy: str = "default"
    victims: ByType = MappingProxyType({})
    """What users that would go have of it."""


class Reservations(NamedTuple):
    """Those of a node, as a request sees them."""

    matched: tuple[Reservation, ...] = ()
    """For this request, in the order in which they are tried."""
    others: tuple[Reservation, ...] = ()
    victims: ByType = MappingProxyType({})
    """What owners that would go have outside of reservations."""
    tried: frozenset[str] | None = None
    """Owners of the matched ones that are tried; `None`: all."""
    must: bool = False
    """Whether the request has to be in one of them."""
    ignored: bool = False
    """Whether the request takes the node as if there were none."""
    taking_over: bool = False
    """Whether the request itself is a reservation, and the matched ones are owners whose devices it
    may take over: all of an owner's devices, and others beside them."""


NONE = Reservations()

_Sum = dict[str, dict[int, Amounts]]


class _Held(NamedTuple):
    reservation: Reservation
    allocatable: _Sum
    allocated: _Sum
    remained: _Sum


def allocate_reserved(
    state: NodeState,
    request: Any,
    reservations: Reservations,
    restriction: Restriction = WHOLE,
    strategy: str | None = None,
    quirks: frozenset[str] = QUIRKS,
) -> tuple[Charge, ...] | Failure:
    """What the request would be charged on a node with reservations.

    `restriction` says only of which NUMA nodes, and whether it is to be reserved; the rest of it
    follows from the reservations.
    """
    answer = in_reservation(state, request, reservations, restriction, strategy, quirks)
    if answer is not None:
        return answer
    free = outside(state, opened(state, reservations))
    return allocate(state, request, restriction._replace(preemptible=free), strategy, quirks)


def in_reservation(
    state: NodeState,
    request: Any,
    reservations: Reservations,
    restriction: Restriction,
    strategy: str | None,
    quirks: frozenset[str],
) -> tuple[Charge, ...] | Failure | None:
    """The answer that the reservations give; `None`: none, and the request may do without."""
    matched = _held(state, reservations.matched)
    if not matched:
        return None
    basic = _sum([outside(state, reservations), *(one.allocated for one in matched)])
    if reservations.ignored:
        left = [_sum([one.reservation.victims, one.remained]) for one in matched]
        asked = restriction._replace(preemptible=_sum([basic, *left]))
        return allocate(state, request, asked, strategy, quirks)
    answer: tuple[Charge, ...] | Failure | None = None
    for held in matched:
        if reservations.tried is None or held.reservation.owner in reservations.tried:
            minors = {type: frozenset(found) for type, found in held.allocatable.items()}
            asked = restriction._replace(
                preemptible=_sum([basic, held.remained, held.reservation.victims]),
                preferred_minors=minors,
            )
            confined = held.reservation.policy == "restricted"
            if confined:
                own = None if reservations.taking_over else _left_of(held)
                asked = asked._replace(required_minors=minors, required=own)
            answer = allocate(state, request, asked, strategy, quirks)
            if not isinstance(answer, Failure) and (
                not (confined and reservations.taking_over) or _includes(answer, held.allocatable)
            ):
                return answer
    if reservations.must:
        return Failure("no_reservation", True, "no reservation of the pod has enough left")
    # What takes over too little as the last is the answer all the same, upstream.
    return None if isinstance(answer, Failure) else answer


def score_reserved(
    state: NodeState,
    request: Any,
    reservations: Reservations,
    strategy: str,
    owner: str | None = None,
    restriction: Restriction = WHOLE,
    quirks: frozenset[str] = QUIRKS,
) -> int | Failure:
    """The score of the node, or of the part of it that a matched reservation gives the request.

    :param owner: of the reservation; `None`, or one that holds nothing: of the node.
    """
    matched = _held(state, reservations.matched)
    free = outside(state, opened(state, reservations))
    required = None
    for held in matched:
        if held.reservation.owner == owner:
            own = [held.remained, held.reservation.victims]
            users = (one.allocated for one in matched)
            free = _sum([outside(state, reservations), *users, *own])
            required = _left_of(held) if held.reservation.policy == "restricted" else None
    asked = restriction._replace(preemptible=free, required=required)
    return score_node(state, request, strategy, asked, quirks)


def _includes(charges: Iterable[Charge], devices: ByType) -> bool:
    found = {(charge.type, charge.minor) for charge in charges}
    return all((type, minor) in found for type, minors in devices.items() for minor in minors)


def outside(state: NodeState, reservations: Reservations) -> ByType:
    """What is used and yet to be had by anybody, beside the reservations for the request."""
    return _sum([*(_taken(one) for one in _held(state, reservations.others)), reservations.victims])


def opened(state: NodeState, reservations: Reservations) -> Reservations:
    """The same, with all that the reservations for the request hold to be had by anybody."""
    held = (one.allocatable for one in _held(state, reservations.matched))
    return reservations._replace(victims=_sum([reservations.victims, *held]))


def _held(state: NodeState, reservations: Iterable[Reservation]) -> list[_Held]:
    """What the reservations hold and what is left of it; who holds nothing is left out."""
    found = []
    for one in reservations:
        allocatable = _of_owner(state, one.owner)
        allocated: _Sum = {}
        for user in one.users:
            inside = {
                type: {m: amounts for m, amounts in minors.items() if m in allocatable[type]}
                for type, minors in _of_owner(state, user).items()
                if type in allocatable
            }
            allocated = _sum([allocated, inside])
        remained = {
            type: {
                minor: left
                for minor, amounts in minors.items()
                if (used := allocated.get(type, {}).get(minor)) is None
                or not is_nothing(minus(amounts, used))
                for left in [amounts if used is None else minus(amounts, used)]
            }
            for type, minors in allocatable.items()
        }
        if allocatable:
            remained = {type: minors for type, minors in remained.items() if minors}
            found.append(_Held(one, allocatable, allocated, remained))
    return found


def _of_owner(state: NodeState, owner: str) -> _Sum:
    found: _Sum = {}
    for charge in state.owners.get(owner, ()):
        found.setdefault(charge.type, {})[charge.minor] = charge.amounts
    return found


def _taken(held: _Held) -> _Sum:
    """What users have of a reservation."""
    return {
        type: {
            minor: less(amounts, held.remained.get(type, {}).get(minor, {}))
            for minor, amounts in minors.items()
        }
        for type, minors in held.allocatable.items()
    }


def _left_of(held: _Held) -> _Sum:
    """All that is to be had from a restricted reservation; of none of its minors: nothing."""
    own = {
        type: {
            minor: amounts
            for minor, amounts in minors.items()
            if minor in held.allocatable.get(type, {})
        }
        for type, minors in _sum([held.remained, held.reservation.victims]).items()
    }
    left = {type: minors for type, minors in own.items() if type in held.allocatable}
    if left:
        return left
    return {type: {minor: {} for minor in minors} for type, minors in held.allocatable.items()}


def _sum(many: Iterable[ByType]) -> _Sum:
    def add(left: _Sum, right: ByType) -> _Sum:
        found = {type: dict(minors) for type, minors in left.items()}
        for type, minors in right.items():
            mine = found.setdefault(type, {})
            for minor, amounts in minors.items():
                mine[minor] = plus(mine.get(minor, {}), amounts)
        return found

    start: _Sum = {}
    return reduce(add, many, start)
