"""Devices that are held for others (section 1.14 of the specification, its defects mended).

A reservation is an owner, too. Those who come in through it are charged for what they get, and the
reservation for what they have left of it, so whatever is charged is charged once. When one of them
goes, the reservation has more left again.

Who comes through a reservation sees the node as if the reservation had gone, and takes its devices
first. If it is restricted, he sees no others of the types that it holds, and no more of them than
it has left.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from hivecore.reference.devices.choice import Choice, choose_in
from hivecore.reference.devices.eligible import View
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["ReservedNode", "left_of"]


class _Held(NamedTuple):
    charges: tuple[Charge, ...]
    restricted: bool
    users: list[str]


class ReservedNode(NodeState):
    """One node, some of whose owners hold devices for others."""

    def __init__(self, inventory: Any) -> None:
        super().__init__(inventory)
        self.reservations: dict[str, _Held] = {}

    def reserve(
        self, name: str, charges: tuple[Charge, ...], restricted: bool, users: Iterable[str] = ()
    ) -> None:
        """A new owner holds devices, its users' part included."""
        self.reservations[name] = _Held(charges, restricted, list(users))
        self._settle(name)

    def charge_through(self, reservation: str, name: str, charges: tuple[Charge, ...]) -> None:
        """A new owner who came in through a reservation."""
        self.charge(name, charges)
        self.reservations[reservation].users.append(name)
        self._settle(reservation)

    def refund(self, name: str) -> None:
        """The end of an owner: of a reservation, or of a user."""
        super().refund(name)
        self.reservations.pop(name, None)
        for reservation, held in self.reservations.items():
            if name in held.users:
                held.users.remove(name)
                self._settle(reservation)

    @property
    def users(self) -> set[str]:
        """Those who came in through a reservation that is still there."""
        return {user for held in self.reservations.values() for user in held.users}

    def through(self, name: str) -> View:
        """The node as the users of a reservation see it."""
        held = self.reservations[name]
        confined = {charge.type for charge in held.charges} if held.restricted else ()
        return View(self, without=[name], reserved=self.owners[name], confined=confined)

    def after(self, request: Any, name: str, policy: str) -> Choice | None:
        """The best choice for a reservation of what an owner has, and of more."""
        own = self.owners[name]
        theirs = {(charge.type, charge.minor) for charge in own}
        there = Counter(type for type, _ in theirs)
        as_many = {
            need.type for need in request.needs if not need.every and need.count == there[need.type]
        }
        for confined in ((), as_many):  # its devices alone, if others would come before them
            view = View(self, without=[name], reserved=own, confined=confined)
            found = choose_in(view, request, policy)
            if not isinstance(found, Choice):
                return None
            if theirs <= {(charge.type, charge.minor) for charge in found.charges}:
                return found
        return None

    def _settle(self, name: str) -> None:
        held = self.reservations[name]
        self.owners[name] = left_of(held.charges, [self.owners[user] for user in held.users])


def left_of(held: tuple[Charge, ...], users: Iterable[tuple[Charge, ...]]) -> tuple[Charge, ...]:
    """What users have left of held devices; one that they have used up is left out, unless it is
    exclusive, which keeps others off it, or off its switch.
    """
    charges = [charge for user in users for charge in user]
    left = []
    for one in held:
        here = [charge for charge in charges if (charge.type, charge.minor) == one[:2]]
        amounts = {
            name: amount - taken
            for name, amount in one.amounts.items()
            if (taken := sum(charge.amounts.get(name, 0) for charge in here)) < amount
        }
        is_given = any(charge.function == one.function for charge in charges)
        function = None if is_given else one.function
        if not here or amounts or function is not None or one.exclusive:
            left.append(one._replace(amounts=amounts, function=function))
    return tuple(left)
