"""The owners of devices: their names to the kernel's numbers, and reservations with their users.

A reservation is an owner that holds devices for others. What its users have of them is theirs: the
reservation is charged for the rest alone, and gets it back when they go. So at any time the charges
of all owners are what is in use.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from hivecore._trial import UndoLog

__all__ = ["Charges", "Held", "Owners", "entry", "left_of"]

_Entry = TypeVar("_Entry")

#: As the kernel tells them: a (type, minor, amounts, function or -1, exclusive, template or -1) for
#: each device.
Charges = list[tuple[int, int, tuple[int, ...], int, int, int]]


class Held(NamedTuple):
    """What a reservation holds, its users' part included."""

    charges: Charges
    restricted: bool
    users: tuple[str, ...] = ()

    @property
    def types(self) -> set[int]:
        """Of its devices."""
        return {type for type, *_ in self.charges}


#: What is known of owners and reservations.
_BY_NAME = ("numbers", "priorities", "reservations", "through", "waiting")


class Owners:
    """The owners of one cluster."""

    def __init__(self, core: Any, undo: UndoLog) -> None:
        self.core = core
        self.undo = undo
        self.numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.priorities: dict[str, int] = {}
        self.reservations: dict[str, Held] = {}
        self.through: dict[str, str] = {}  # a user -> its reservation, which may be yet to come
        #: A reservation that is yet to come -> its users, in the order in which they came.
        self.waiting: dict[str, tuple[str, ...]] = {}

    def number(self, name: str, argument: str = "name") -> int:
        """The number of an owner, which must be there."""
        known = self.numbers
        owner = known.get(name) if type(name) is str else entry(known, name, argument)
        if owner is None:
            raise KeyError(f"{argument}={name!r}: has no devices")
        return owner

    def priority(self, name: str) -> int:
        """Of an owner."""
        return self.priorities.get(name, 0)

    def node(self, name: str) -> int:
        """The number of the node that an owner is on."""
        return int(self.core.node_of(self.number(name)))

    def on(self, node: int) -> tuple[str, ...]:
        """Names of the owners on a node, sorted."""
        return tuple(sorted(self.names[owner] for owner in self.core.owners(node)))

    def is_user(self, name: str) -> bool:
        """Whether an owner uses a reservation that is there."""
        return self.through.get(name) in self.reservations

    def reservation_of(self, name: str) -> str:
        """The one that an owner uses or, as its records say, is to use once it is there; "": none,
        or another owner has its name.
        """
        user = self.through.get(name, "")
        return "" if user in self.numbers and user not in self.reservations else user

    def charges(self, name: str) -> Charges:
        """What an owner is charged; of a reservation, what its users have left of it."""
        charges: Charges = self.core.charges_of(self.number(name))
        return charges

    def book(self, name: str, owner: int, priority: int) -> None:
        """A new owner, which is charged already."""
        if self.undo.is_on:
            self.undo.add((self._forget, name, owner))
        self.numbers[name] = owner
        self.names[owner] = name
        if priority:
            self.priorities[name] = priority

    def _forget(self, name: str, owner: int) -> None:
        del self.numbers[name], self.names[owner]
        self.priorities.pop(name, None)

    def reserve(self, name: str, held: Held) -> None:
        """An owner is a reservation from now on, without users of an earlier one of its name."""
        if self.undo.is_on:
            self._keep(name)
            self.undo.keep(self.through, *held.users)
        for user in (*self.waiting.get(name, ()), *held.users):
            self._leave(user)
        self.through.update(dict.fromkeys(held.users, name))
        self.reservations[name] = held

    def hold(self, name: str, held: Held) -> None:
        """A reservation holds something else, or has other users, from now on."""
        if self.undo.is_on:
            self._keep(name)
        self.reservations[name] = held

    def enter(self, name: str, reservation: str) -> None:
        """An owner uses a reservation from now on, which is to be settled if it is there."""
        if self.undo.is_on:
            self._keep(name, reservation)
        self.through[name] = reservation
        held = self.reservations.get(reservation)
        if held is not None:
            self.reservations[reservation] = held._replace(users=(*held.users, name))
        else:
            self.waiting[reservation] = (*self.waiting.get(reservation, ()), name)

    def _leave(self, name: str) -> str:
        """An owner uses no reservation from now on; the one that it has used, which is to be
        settled; "": none that is there.
        """
        reservation = self.through.get(name, "")
        if not reservation:
            return ""
        if self.undo.is_on:
            self._keep(name, reservation)
        del self.through[name]
        held = self.reservations.get(reservation)
        if held is not None:
            users = tuple([user for user in held.users if user != name])
            self.reservations[reservation] = held._replace(users=users)
            return reservation
        left = tuple([user for user in self.waiting.get(reservation, ()) if user != name])
        if left:
            self.waiting[reservation] = left
        else:
            self.waiting.pop(reservation, None)
        return ""

    def release(self, name: str) -> None:
        """The end of an owner, which must be there; users of a reservation stay."""
        owner = self.number(name)
        if self.undo.is_on:
            self.undo.add((self.book, name, owner, self.priority(name)))
        self._forget(name, owner)
        self.core.refund(owner)
        if name in self.reservations:
            held = self.reservations[name]
            if self.undo.is_on:
                self.undo.keep(self.reservations, name)
                self.undo.keep(self.through, *held.users)
            del self.reservations[name]
            for user in held.users:
                del self.through[user]
        reservation = self._leave(name) if self.through else ""
        if reservation:
            self.settle(reservation)

    def release_all(self, names: dict[str, None]) -> None:
        """The end of these owners, or of none if one is not there."""
        if not (self.through or self.reservations):
            self.core.refund_named(names, self)
            return
        for name in names:
            self.number(name)
        for name in names:
            self.release(name)

    def rename(self, name: str, new: str) -> None:
        """An owner that is no reservation has a name that is free."""
        owner = self.numbers[name]
        if self.undo.is_on:
            self._keep(name, new)
            self.undo.keep(self.names, owner)
        del self.numbers[name]
        self.numbers[new], self.names[owner] = owner, new
        if name in self.priorities:
            self.priorities[new] = self.priorities.pop(name)
        reservation = self.through.get(name, "")
        if reservation:
            self._leave(name)
            self.enter(new, reservation)

    def _keep(self, *names: str) -> None:
        """Log what is known of owners and reservations, before that changes."""
        for known in _BY_NAME:
            self.undo.keep(getattr(self, known), *names)

    def settle(self, reservation: str) -> None:
        """A reservation is charged for what its users have left of it."""
        held = self.reservations[reservation]
        left = left_of(held.charges, [self.charges(user) for user in held.users])
        self.core.recharge(self.numbers[reservation], left)

    def copy(self, core: Any, undo: UndoLog) -> "Owners":
        """An independent equal, of a copy of the kernel."""
        other = Owners(core, undo)
        for known in (*_BY_NAME, "names"):
            setattr(other, known, getattr(self, known).copy())
        return other


def entry(of: Mapping[str, _Entry], name: str, argument: str) -> _Entry | None:
    """That of an owner; a TypeError that names the argument if no owner can have such a name."""
    try:
        return of.get(name)
    except TypeError:
        kind = type(name).__name__
        raise TypeError(f"{argument} must be a string, not {kind}") from None


def left_of(held: Charges, users: Iterable[Charges]) -> Charges:
    """What is left of held devices: their amounts less the users', and virtual functions that no
    user has; of a device that users have used up, nothing but that it is exclusive.
    """
    taken: dict[tuple[int, int], list[int]] = {}
    functions = set()
    for charges in users:
        for type, minor, amounts, function, *_ in charges:
            sums = taken.setdefault((type, minor), [0] * len(amounts))
            taken[type, minor] = [sum + amount for sum, amount in zip(sums, amounts, strict=True)]
            functions.add(function)
    left: Charges = []
    for type, minor, amounts, function, exclusive, template in held:
        used = taken.get((type, minor))
        if used is not None:
            amounts = tuple(max(has - user, 0) for has, user in zip(amounts, used, strict=True))
        function = -1 if function in functions else function
        if used is None or any(amounts) or function >= 0 or exclusive:
            left.append((type, minor, amounts, function, exclusive, template))
    return left
