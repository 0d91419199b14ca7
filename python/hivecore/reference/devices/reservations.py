"""Devices that are reserved for other owners (section 1.14 of the specification, defects fixed).

A reservation is an owner. Its users are charged for what they get, and the reservation for what
they leave, so that everything is charged once. When a user leaves, the reservation has more again.

A user of a reservation sees the node as if the reservation were gone, and takes its devices first.
If the reservation is restricted, the user sees no other devices of its types, and no more of them
than the reservation has left.
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
    """A node with owners that hold devices for others."""

    def __init__(self, inventory: Any) -> None:
        super().__init__(inventory)
        self.reservations: dict[str, _Held] = {}

    def reserve(
        self, name: str, charges: tuple[Charge, ...], restricted: bool, users: Iterable[str] = ()
    ) -> None:
        """Charge a new reservation, including what its users have."""
        self.reservations[name] = _Held(charges, restricted, list(users))
        self._settle(name)

    def charge_through(self, reservation: str, name: str, charges: tuple[Charge, ...]) -> None:
        """Charge a new owner that uses a reservation."""
        self.charge(name, charges)
        self.reservations[reservation].users.append(name)
        self._settle(reservation)

    def refund(self, name: str) -> None:
        """Refund a reservation or a user."""
        super().refund(name)
        self.reservations.pop(name, None)
        for reservation, held in self.reservations.items():
            if name in held.users:
                held.users.remove(name)
                self._settle(reservation)

    @property
    def users(self) -> set[str]:
        """Return the users of existing reservations."""
        return {user for held in self.reservations.values() for user in held.users}

    def through(self, name: str) -> View:
        """Return the node as a reservation's users see it."""
        held = self.reservations[name]
        confined = {charge.type for charge in held.charges} if held.restricted else ()
        return View(self, without=[name], reserved=self.owners[name], confined=confined)

    def after(self, request: Any, name: str, policy: str) -> Choice | None:
        """Return the best choice for a reservation of what an owner has, and of more."""
        own = self.owners[name]
        theirs = {(charge.type, charge.minor) for charge in own}
        counts = Counter(type for type, _ in theirs)
        as_many = {
            need.type
            for need in request.needs
            if not need.every and need.count == counts[need.type]
        }
        for confined in ((), as_many):  # only its devices, if others would come before them
            view = View(self, without=[name], reserved=own, confined=confined)
            choice = choose_in(view, request, policy)
            if not isinstance(choice, Choice):
                return None
            if theirs <= {(charge.type, charge.minor) for charge in choice.charges}:
                return choice
        return None

    def _settle(self, name: str) -> None:
        held = self.reservations[name]
        self.owners[name] = left_of(held.charges, [self.owners[user] for user in held.users])


def left_of(held: tuple[Charge, ...], users: Iterable[tuple[Charge, ...]]) -> tuple[Charge, ...]:
    """Return what users leave of held devices.

    A used-up device is left out unless it is exclusive, which keeps others off it or its switch.
    """
    charges = [charge for user in users for charge in user]
    left = []
    for held_charge in held:
        here = [charge for charge in charges if (charge.type, charge.minor) == held_charge[:2]]
        amounts = {
            name: amount - taken
            for name, amount in held_charge.amounts.items()
            if (taken := sum(charge.amounts.get(name, 0) for charge in here)) < amount
        }
        is_given = any(charge.function == held_charge.function for charge in charges)
        function = None if is_given else held_charge.function
        if not here or amounts or function is not None or held_charge.exclusive:
            left.append(held_charge._replace(amounts=amounts, function=function))
    return tuple(left)
