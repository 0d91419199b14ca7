"""Whose leaves a pod takes where it must take some: those of whom it costs least to lose.

An *occupant* of a cell is a group that runs there and would have to leave. What its going costs
counts the whole group, wherever its other leaves are, so a small group goes before a part of a
large one; who has gone already costs nothing more. For pods that may lie anywhere in one cell a
covering program over its occupants is exact, but that a lazy occupant's price is that of a
downgrade. Where pods are confined further, and in cells of very many leaves and occupants, the
dearest occupants are spared one by one while the pods fit. Leaves are then chosen as ever, without
those of occupants who stay.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from hivecore.reference.cells.cells import Forest
from hivecore.reference.cells.leaf_choice import Budget, Demand, LeafClass, choose_leaves
from hivecore.reference.cells.state import State

__all__ = ["NO_HARM", "Harm", "Occupants", "choose_cheaply"]

Harm = tuple[int, int, int]
"""Guaranteed leaves that are evicted or downgraded, evicted leaves, evicted groups."""
NO_HARM: Harm = (0, 0, 0)
_TOO_MUCH: Harm = (1 << 62, 0, 0)
_MOST_ENTRIES = 1 << 20  # of the covering program


class Occupants:
    """Who is on which leaf, and what it would cost if they left."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.gone: set[int] = set()

    def price(self, handle: int) -> Harm:
        """Of one group; one that is downgraded instead of evicted loses its guarantee only."""
        group = self.state.groups[handle]
        many = len(group.leaves)
        if handle in self.gone:
            return NO_HARM
        if group.virtual is None:
            return 0, many, 1
        return (many, 0, 0) if group.lazy else (many, many, 1)

    def on(self, leaves: Iterable[int]) -> Counter[int]:
        """Those whom it costs something, in the order of their first leaves, with how many."""
        users = (self.state.user[leaf] for leaf in leaves if leaf in self.state.user)
        return Counter(user for user in users if self.price(user) != NO_HARM)

    def leave(self, leaves: Iterable[int]) -> None:
        """All who are on the leaves have gone from now on."""
        self.gone.update(self.on(leaves))

    def cheapest(self, leaves: list[int], count: int) -> tuple[Harm, set[int]]:
        """Occupants whose going leaves so many leaves, and the harm; of equal ones the first.

        ``least[i][more]``: the least harm for ``more`` leaves of the occupants from the i-th on.
        """
        occupants = list(self.on(leaves).items())
        missing = max(0, count - len(leaves) + sum(many for _, many in occupants))
        least = [[NO_HARM] + [_TOO_MUCH] * missing]
        for occupant, many in reversed(occupants):
            later, price = least[0], self.price(occupant)
            going = [_plus(price, later[max(0, more - many)]) for more in range(missing + 1)]
            least.insert(0, [min(pair) for pair in zip(later, going, strict=True)])
        harm, leaving = least[0][missing], set()
        for (occupant, many), now, later in zip(occupants, least, least[1:], strict=False):
            rest = max(0, missing - many)
            if missing and now[missing] == _plus(self.price(occupant), later[rest]):
                leaving.add(occupant)
                missing = rest
        return harm, leaving


def choose_cheaply(
    forest: Forest,
    level: int,
    cell: int,
    demands: list[Demand],
    group_within: int,
    leaf_class: LeafClass,
    occupants: Occupants,
) -> list[list[int]] | None:
    """What `choose_leaves` chooses where none but the cheapest occupants leave."""

    def choose(staying: Collection[int]) -> list[list[int]] | None:
        def left(leaf: int) -> int | None:
            return None if occupants.state.user.get(leaf) in staying else leaf_class(leaf)

        return choose_leaves(forest, level, cell, demands, group_within, left, Budget())

    found = choose(())
    if found is None or not occupants.on(leaf for pod in found for leaf in pod):
        return found
    mine = [leaf for leaf in forest.leaves(level, cell) if leaf_class(leaf) is not None]
    staying = set(occupants.on(mine))
    candidate_level = level if group_within < 0 else min(level, group_within)
    if len(demands) == 1 and demands[0].within >= 0:
        candidate_level = min(candidate_level, demands[0].within)
    confined = any(0 <= demand.within < candidate_level for demand in demands)
    if confined or len(staying) * len(mine) > _MOST_ENTRIES:
        spared: set[int] = set()
        for occupant in sorted(occupants.on(mine), key=occupants.price, reverse=True):
            if choose(spared | {occupant}) is not None:
                spared.add(occupant)
        return choose(spared)
    total = sum(demand.leaves for demand in demands)
    covers = []
    for below in range(candidate_level + 1):  # of equal harm the closest together
        for candidate in forest.inside(level, cell, below):
            inside = [leaf for leaf in mine if forest.above(leaf, below) == candidate]
            if len(inside) >= total:
                covers.append(occupants.cheapest(inside, total))
    _, leaving = min(covers, key=lambda cover: cover[0])
    return choose(staying - leaving)


def _plus(one: Harm, other: Harm) -> Harm:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
