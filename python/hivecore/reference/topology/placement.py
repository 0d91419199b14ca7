"""Places a gang in a network, exactly (section 7.1 of the specification).

A domain is a part of the network at a level: 0 is the whole network, then come the layers from wide
to narrow, and finally the nodes. The cost of a choice is a list of numbers, compared one after the
other, each a sum over the touched domains. So the best choice of a domain for some pods combines
the best choices of its children. Among equal domains, the one in fuller wider domains wins, so that
an idle part of the network stays idle.

A gang may have a second role, here *others*, with another request. Then a domain gets a pair of
numbers, and so does a node's room.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Domain", "Wish", "build", "place"]

_Cost = tuple[int, ...]
#: (pods, others)
_Pair = tuple[int, int]


class Domain(NamedTuple):
    """A part of the network; a node has no children."""

    level: int
    children: tuple["Domain", ...]
    node: int = -1

    def nodes(self) -> list[int]:
        """Return the nodes below, in order."""
        if not self.children:
            return [self.node]
        return [node for child in self.children for node in child.nodes()]


class Wish(NamedTuple):
    """A gang's request."""

    pods: int
    widest: int = 0
    """The level in which one domain must hold all pods."""
    narrowest: int | None = None
    """The level where the search for a domain starts, towards wider ones; ``None``: the nodes."""
    multiples: Mapping[int, int] = {}
    """level -> each touched domain gets a multiple of so many pods"""
    limits: Mapping[int, int] = {}
    """level -> the most pods of a domain; it also limits all domains inside"""
    existing: Mapping[int, int] = {}
    """node -> pods to be near to"""
    cost: Mapping[int, int] = {}
    """By node."""
    others: int = 0
    """The number of pods with the other request."""
    rooms: Sequence[Collection[_Pair]] | None = None
    """By node, the pairs (pods, others) that fit; ``None`` without others."""


class _Best(NamedTuple):
    """The least cost of some pods, the order among equals, and (node, pods, others)."""

    cost: _Cost
    order: tuple[int, ...]
    pods: tuple[tuple[int, int, int], ...]


def build(labels: Sequence[Sequence[str]]) -> Domain:
    """Build the network of nodes that have a label for each layer, from wide to narrow."""

    def part(level: int, nodes: list[int]) -> Domain:
        if level > len(labels[0]):
            return Domain(level, (), nodes[0])
        groups: dict[object, list[int]] = {}
        for node in nodes:
            name: object = node if level == len(labels[0]) else labels[node][level]
            groups.setdefault(name, []).append(node)
        return Domain(level, tuple(part(level + 1, group) for group in groups.values()))

    return part(0, list(range(len(labels))))


def place(
    network: Domain, slots: Sequence[int], wish: Wish
) -> tuple[int, list[tuple[int, int, int]]] | None:
    """Return the level of the domain that holds all, and (node, pods, others); ``None`` if
    impossible.

    The narrowest level comes first. Then count, each from wide to narrow: touched domains below it,
    existing pods in them (most first), the cost of the nodes, the remaining slots. Existing pods in
    the domain that holds all are followed by those in the domains around it, from narrow to wide;
    likewise its slots (fewest first). Then: most pods in the first domain with a multiple or a
    limit, or most others, then most pods, on the first node. ``slots`` are by node, for pods and
    others together.
    """
    deepest = _depth(network)
    narrowest = deepest if wish.narrowest is None else wish.narrowest
    for level in range(narrowest, wish.widest - 1, -1):
        candidates = []
        for domain, around in _of_level(network, level):
            best = _best(domain, slots, wish, level, deepest).get((wish.pods, wish.others))
            if best is not None:
                cost = _sum(best.cost, _touched(domain, slots, wish, level, deepest))
                cost = _with_those_around(cost, around, slots, wish, deepest - level + 1)
                candidates.append(best._replace(cost=cost))
        if candidates:
            winner = min(candidates, key=lambda candidate: candidate.cost)  # the first of equals
            return level, list(winner.pods)
    return None


def _depth(domain: Domain) -> int:
    while domain.children:
        domain = domain.children[0]
    return domain.level


def _of_level(
    domain: Domain, level: int, around: tuple[Domain, ...] = ()
) -> list[tuple[Domain, tuple[Domain, ...]]]:
    """Return each domain of a level with those around it, from narrow to wide,
    without the network.
    """
    if domain.level == level:
        return [(domain, around)]
    wider = (domain, *around) if domain.level else ()
    return [entry for child in domain.children for entry in _of_level(child, level, wider)]


def _with_those_around(
    cost: _Cost, around: Sequence[Domain], slots: Sequence[int], wish: Wish, width: int
) -> _Cost:
    """Add what domains around the touched ones have to the cost, each at its position."""
    nodes = [domain.nodes() for domain in around]
    near = [-sum(wish.existing.get(node, 0) for node in of) for of in nodes]
    left = [sum(slots[node] for node in of) for of in nodes]
    return (*cost[: 2 * width], *near, *cost[2 * width :], *left)


def _touched(domain: Domain, slots: Sequence[int], wish: Wish, held: int, deepest: int) -> _Cost:
    """Return the cost of touching a domain at or below the level that holds all."""
    nodes = domain.nodes()
    width = deepest - held + 1
    counts, existing, left = [0] * width, [0] * width, [0] * width
    place = domain.level - held
    counts[place] = 1
    existing[place] = -sum(wish.existing.get(node, 0) for node in nodes)
    left[place] = sum(slots[node] for node in nodes)
    cost = wish.cost.get(nodes[0], 0) if not domain.children else 0
    return (*counts, *existing, cost, *left)


def _sum(first: _Cost, other: _Cost) -> _Cost:
    return tuple(a + b for a, b in zip(first, other, strict=True))


def _best(
    domain: Domain, slots: Sequence[int], wish: Wish, held: int, deepest: int
) -> dict[_Pair, _Best]:
    """Return (pods, others) -> the best way to have exactly so many inside.

    The cost of touching the domain itself is not included.
    """
    nothing = (0,) * (3 * (deepest - held + 1) + 1)
    if not domain.children:
        own = {
            (pods, others): _Best(nothing, (-others, -pods), ((domain.node, pods, others),))
            for pods, others in _rooms(domain.node, slots, wish)
        }
        return _allowed(own, domain, wish)
    best = {(0, 0): _Best(nothing, (), ())}
    for child in domain.children:
        touch = _touched(child, slots, wish, held, deepest)
        inside = _best(child, slots, wish, held, deepest)
        has_multiple = _is_bound(child, wish)
        untouched = _untouched(child, wish)
        more = {
            pair: option._replace(order=option.order + untouched) for pair, option in best.items()
        }
        for before, option in best.items():
            for part, other in inside.items():
                pair = before[0] + part[0], before[1] + part[1]
                if pair[0] <= wish.pods and pair[1] <= wish.others:
                    order = (-part[0], *other.order) if has_multiple else other.order
                    both = _Best(
                        _sum(_sum(option.cost, other.cost), touch),
                        option.order + order,
                        option.pods + other.pods,
                    )
                    known = more.get(pair)
                    if known is None or both[:2] < known[:2]:
                        more[pair] = both
        best = more
    del best[0, 0]
    return _allowed(best, domain, wish)


def _rooms(node: int, slots: Sequence[int], wish: Wish) -> list[_Pair]:
    """Return what a node may get, except nothing."""
    rooms = [(pods, 0) for pods in range(slots[node] + 1)]
    return [
        (pods, others)
        for pods, others in (rooms if wish.rooms is None else wish.rooms[node])
        if pods <= wish.pods and others <= wish.others and pods + others > 0
    ]


def _untouched(domain: Domain, wish: Wish) -> tuple[int, ...]:
    """Return the order of a domain without pods."""
    has_multiple = _is_bound(domain, wish)
    below = tuple(zero for child in domain.children for zero in _untouched(child, wish))
    if not domain.children:
        return (0, 0)
    return (0, *below) if has_multiple else below


def _limit(domain: Domain, wish: Wish) -> int:
    """Return the most pods of a domain."""
    inside = [most for level, most in wish.limits.items() if level <= domain.level]
    return min([wish.pods, *inside])


def _is_bound(domain: Domain, wish: Wish) -> bool:
    """Whether a domain above nodes is restricted in its number of pods."""
    has_rule = wish.multiples.get(domain.level, 1) > 1 or _limit(domain, wish) < wish.pods
    return has_rule and bool(domain.children)


def _allowed(options: dict[_Pair, _Best], domain: Domain, wish: Wish) -> dict[_Pair, _Best]:
    """Return the numbers that a domain may get."""
    multiple, most = wish.multiples.get(domain.level, 1), _limit(domain, wish)
    return {
        pair: option
        for pair, option in options.items()
        if pair[0] % multiple == 0 and pair[0] <= most
    }
