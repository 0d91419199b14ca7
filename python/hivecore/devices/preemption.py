"""The owners on a node that have to end for a request: of low priority, and as few as possible.

On each node the search removes owners by rising priority until the request fits; then, the most
important first, it keeps those that the request fits beside. The rest is irreducible: the request
needs the end of each. The most important of them has the lowest possible priority, but they need
not hold the least: the search may name four pods with a GPU each where one with two would do. So on
the nodes with the lowest priority it looks for the set that holds the least, by branch and bound:
an owner that ends is never in the way of the request, so a request that does not fit without the
chosen and all undecided owners never will. The search ends after a fixed number of questions to the
kernel, with the best set so far.
"""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from hivecore.devices._owners import Charges, Owners
from hivecore.devices.device import TYPES

__all__ = ["Leavers", "cheapest_leavers"]

_QUESTIONS = 10_000

#: (priority, what it holds, name) of an owner.
_Owner = tuple[int, int, str]


class Leavers(NamedTuple):
    """Owners on one node whose end would let a request start there."""

    node: int
    held: int
    """In hundredths of devices."""
    names: tuple[str, ...]
    """Those of low priority first."""


def cheapest_leavers(
    owners: Owners,
    query: Any,
    policy: int,
    nodes: Iterable[int],
    allowed: Collection[str] | None = None,
) -> Leavers | None:
    """The owners with the lowest highest priority, then that hold the least, then on the first
    node; ``None``: the request does not fit on any node even if all of them end.

    :param allowed: the only owners that may have to end; ``None``: all.
    """
    node, leavers = _Search(owners, query, policy, allowed).cheapest(nodes)
    if not leavers:
        return None
    return Leavers(node, _cost(leavers), tuple(name for _, _, name in leavers))


class _Search:
    """The search for the cheapest owners to end on one of some nodes."""

    def __init__(
        self, owners: Owners, query: Any, policy: int, allowed: Collection[str] | None
    ) -> None:
        self.owners, self.query, self.policy = owners, query, policy
        self.allowed = allowed
        self.left = _QUESTIONS

    def cheapest(self, nodes: Iterable[int]) -> tuple[int, list[_Owner]]:
        """A node and the owners by rising priority; no owners: no node has room."""
        candidates = []
        for node in nodes:
            owners = self._on(node)
            gone = self._first_to_fit(node, owners)
            if gone:
                candidates.append((gone[-1][0], _cost(gone), node, gone, owners))
        if not candidates:
            return -1, []
        priority, cost, at, best, _ = min(candidates)
        for own_priority, _, node, _, owners in sorted(candidates):
            if own_priority == priority:
                able = [owner for owner in owners if owner[0] <= priority]
                # Of equal costs the first node counts.
                cheaper = self._cheaper(node, able, cost + (node < at))
                if cheaper:
                    best, cost, at = self._needed(node, cheaper), _cost(cheaper), node
        return at, best

    def _on(self, node: int) -> list[_Owner]:
        """The owners that may end; not users of reservations, whose devices would go back there."""
        owners = self.owners
        return sorted(
            (owners.priority(name), _held(owners.charges(name)), name)
            for name in owners.on(node)
            if (self.allowed is None or name in self.allowed) and not owners.is_user(name)
        )

    def _fits_without(self, node: int, gone: list[_Owner]) -> bool:
        numbers = [self.owners.number(name) for _, _, name in gone]
        look = self.owners.core.examine
        return bool(look(self.query, self.policy, node, None, numbers, False)[0] == 0)

    def _first_to_fit(self, node: int, owners: list[_Owner]) -> list[_Owner]:
        for number in range(1, len(owners) + 1):
            if self._fits_without(node, owners[:number]):
                return self._needed(node, owners[:number])
        return []

    def _needed(self, node: int, gone: list[_Owner]) -> list[_Owner]:
        """The owners that have to end even if the others stay, the most important first."""
        left = list(gone)
        for kept in sorted(gone, key=lambda owner: (-owner[0], -owner[1], owner[2])):
            rest = [owner for owner in left if owner != kept]
            if self._fits_without(node, rest):
                left = rest
        return sorted(left)

    def _cheaper(self, node: int, owners: list[_Owner], limit: int) -> list[_Owner]:
        """The owners that have to end and hold the least, if that is below the limit."""
        best: list[_Owner] = []
        large_first = sorted(owners, key=lambda owner: (-owner[1], owner[0], owner[2]))
        # (ended, undecided, whether the last decision was that an owner ends)
        open_: list[tuple[list[_Owner], list[_Owner], bool]] = [([], large_first, False)]
        while open_ and self.left > 0:
            gone, undecided, has_left = open_.pop()
            if _cost(gone) >= limit:
                continue
            self.left -= 1
            if has_left:
                if self._fits_without(node, gone):
                    best, limit = gone, _cost(gone)
                    continue
            elif not self._fits_without(node, gone + undecided):
                continue
            if undecided:
                first, *rest = undecided
                open_.append((gone, rest, False))
                open_.append(([*gone, first], rest, True))
        return best


def _cost(owners: list[_Owner]) -> int:
    return sum(held for _, held, _ in owners)


def _held(charges: Charges) -> int:
    """In hundredths of devices; where a percentage is not known, a device counts as whole, one of
    which nothing is left as none.
    """
    held = 0
    for type, _, amounts, *_ in charges:
        if TYPES[type] != "host":
            held += amounts[0] if amounts[0] or not any(amounts) else 100
    return held
