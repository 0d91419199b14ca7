"""Devices that are held for others, and the requests for them."""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np

from hivecore._arguments import as_choice, as_text, as_tuple
from hivecore._record import Record
from hivecore.devices._nodes import Nodes
from hivecore.devices._owners import Held, Owners, entry
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.feasibility import CODES

__all__ = [
    "DeviceReservation",
    "Reserved",
    "Wish",
    "add_reserved",
    "best_through",
    "described",
    "is_within",
    "plan_after",
]

#: When reservations are used: before anything else, and nothing else, or when nothing else serves.
Reserved = Literal["first", "only", "last"]
_WHEN = get_args(Reserved)


class DeviceReservation(Record, frozen=True):
    """What a reservation of a `DeviceCluster` holds, and its users.

    :param name: of the owner that holds it.
    :param node: the node that it is on.
    :param restricted: its users get its devices alone, and no more of them than it has left.
        Otherwise they may have others of the node beside them.
    :param held: all that it holds, its users' part included.
    :param left: what its users have left of it.
    :param users: the owners that use it, sorted by name.
    """

    name: str
    node: str
    restricted: bool
    held: tuple[DeviceAllocation, ...]
    left: tuple[DeviceAllocation, ...]
    users: tuple[str, ...]


class Wish(NamedTuple):
    """Which reservations a request may use, and when."""

    names: tuple[str, ...]
    when: Reserved

    @classmethod
    def of(cls, reservations: Iterable[str], reserved: Reserved) -> Self:
        """The checked arguments of a question."""
        when = as_choice(reserved, "reserved", _WHEN)
        names = as_tuple(reservations, "reservations")
        names = tuple([as_text(name, "reservations") for name in names])
        return cls(names, when)  # type: ignore[arg-type]

    def check(self, owners: Owners) -> None:
        """The reservations that are named exist."""
        for name in self.names:
            if name not in owners.reservations:
                raise KeyError(f"reservations: {name!r} is none")


class _Through(NamedTuple):
    """What would be had through a reservation."""

    plan: Any
    name: str
    node: int
    preferred: int
    """How many needs are in their preferred scopes."""
    score: int
    of_all: bool
    """Whether all devices of the node could be chosen."""

    @property
    def worth(self) -> tuple[int, int]:
        """More is better."""
        return self.preferred, self.score


def _found_through(
    owners: Owners,
    query: Any,
    policy: int,
    nodes: Container[int] | None,
    names: Iterable[str],
    draw: tuple[int, int],
) -> Iterable[_Through]:
    """What each of these reservations would give, of those on these nodes; ``None``: on any."""
    for name in names:
        held, owner = owners.reservations[name], owners.numbers[name]
        if nodes is not None and owners.core.node_of(owner) not in nodes:
            continue
        answer = owners.core.through(query, policy, owner, _confined(held), *draw)
        _, plan, preferred, score = answer
        if plan is not None:
            yield _Through(plan, name, plan.node, preferred, score, not held.restricted)


def _confined(held: Held) -> int:
    """The types, as bits, of which it gives its own devices alone."""
    return sum(1 << type for type in held.types) if held.restricted else 0


def best_through(
    owners: Owners,
    query: Any,
    policy: int,
    nodes: Iterable[int] | None,
    names: Iterable[str],
    draw: tuple[int, int],
) -> _Through | None:
    """The best way to serve a request through one of these reservations: that with most needs in
    their preferred scopes, then the best score of the node or, of a restricted one, of what it has
    left, then the first that was named. ``None``: none serves it.
    """
    best = None
    allowed = None if nodes is None else frozenset(nodes)
    for through in _found_through(owners, query, policy, allowed, names, draw):
        if best is None or through.worth > best.worth:
            best = through
    return best


def add_reserved(
    owners: Owners,
    query: Any,
    policy: int,
    numbers: Iterable[int],
    wish: Wish,
    codes: Any,
    resolvable: Any,
    scores: Any,
) -> None:
    """Writes into the answers of nodes what some reservations would give."""
    nodes = {owners.node(name) for name in wish.names}
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        if number in nodes:
            rows.setdefault(number, []).append(row)
    if wish.when == "only":
        codes[:] = CODES.index("reservation")
        scores[:] = 0
        # Users may leave, where the node could serve it at all.
        is_there = np.zeros(len(resolvable), dtype=bool)
        is_there[[row for found_scores in rows.values() for row in found_scores]] = True
        resolvable &= is_there
    best: dict[int, _Through] = {}
    for through in _found_through(owners, query, policy, rows, wish.names, (0, 0)):
        known = best.get(through.node)
        if known is None or through.worth > known.worth:
            best[through.node] = through
    served = [(row, through.score) for node, through in best.items() for row in rows[node]]
    at, found_scores = np.array(served, dtype=np.int64).reshape(-1, 2).T
    if wish.when == "last":
        other = codes[at] != 0
        at, found_scores = at[other], found_scores[other]
    codes[at] = 0
    resolvable[at] = True
    scores[at] = found_scores


def plan_after(
    owners: Owners,
    request: DeviceRequest,
    query: Any,
    policy: int,
    owner: str,
    draw: tuple[int, int],
) -> tuple[int, Any]:
    """All devices of an owner and others of its node, as the request needs them: 0 and the plan of
    the kernel, or the code of the refusal and ``None``.
    """
    user = owners.number(owner, "owner")
    if owner in owners.reservations or owners.reservation_of(owner):
        raise ValueError(f"owner={owner!r}: is a reservation, or uses one")
    code, plan, _, _ = owners.core.through(query, policy, user, 0, *draw)
    theirs = {charge[:2] for charge in owners.charges(owner)}
    if plan is not None and not theirs <= _devices_of(plan):
        # A partition, or what is near to other types, may have come before what the owner has.
        code = CODES.index("successor")
        plan = owners.core.through(query, policy, user, _as_many(request, theirs), *draw)[1]
    return (0, plan) if plan is not None and theirs <= _devices_of(plan) else (code, None)


def _devices_of(plan: Any) -> set[tuple[int, int]]:
    return {charge[:2] for charge in plan.charges}


def _as_many(request: DeviceRequest, devices: Iterable[tuple[int, int]]) -> int:
    """The types, as bits, of which a request is for as many devices as these are."""
    counts = Counter(type for type, _ in devices)
    needs = {TYPES.index(need.type): need for need in request.needs if not need.every}
    return sum(1 << type for type, need in needs.items() if need.count == counts[type])


def described(nodes: Nodes, owners: Owners, name: str) -> DeviceReservation:
    """What `DeviceCluster.reservation` returns."""
    held = entry(owners.reservations, name, "name")
    if held is None:
        raise KeyError(f"name={name!r}: is no reservation")
    number = owners.node(name)
    return DeviceReservation(
        name,
        nodes.names[number] or "",
        held.restricted,
        nodes.named(number, held.charges),
        nodes.named(number, owners.charges(name)),
        tuple(sorted(held.users)),
    )


def is_within(charges: Iterable[Any], left: Iterable[Any], types: set[int]) -> bool:
    """Whether charges of these types are no more than is left of a reservation."""
    rest = {(type, minor): (amounts, function) for type, minor, amounts, function, *_ in left}
    for type, minor, amounts, function, *_ in charges:
        if type not in types:
            continue
        have, its_function = rest.get((type, minor), ((0,) * len(amounts), -1))
        too_much = any(wanted > has for wanted, has in zip(amounts, have, strict=True))
        if (type, minor) not in rest or too_much or function not in (-1, its_function):
            return False
    return True
