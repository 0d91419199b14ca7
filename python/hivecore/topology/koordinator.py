"""Koordinator's way of placing a gang, for whoever compares: greedy, and only in one layer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hivecore.topology._domains import Domains

__all__ = ["Wanted", "place_greedily"]


class Wanted(NamedTuple):
    """What a gang asks for, level by level of all domains unless said otherwise."""

    pods: int
    widest: int
    multiples: Sequence[int]
    slots: list[int]
    """Of nodes."""
    existing: list[list[int]]
    cost: list[list[int]]
    """Added up, as is what exists."""
    dear_first: bool
    """Of equals the one that costs more comes first, as in Koordinator's job preemption."""


def place_greedily(domains: "Domains", wanted: Wanted) -> tuple[int, list[tuple[int, int]]] | None:
    """The level of the domain that holds all, and (node, pods); ``None``: nowhere.

    From the layer that has to hold all, the deepest one is looked for of which a domain has slots
    enough; of its domains one after the other is filled, the fullest children first, and the first
    one that works is taken. If none does, wider ones are not tried.
    """
    slots = _rounded(domains, wanted)
    deepest = len(domains.levels) - 1
    level = wanted.widest
    candidates = [d for d, count in enumerate(slots[level]) if count >= wanted.pods]
    while level < deepest:
        deeper = [
            child
            for domain in candidates
            for child in domains.children(level, domain)
            if slots[level + 1][child] >= wanted.pods
        ]
        if not deeper:
            break
        level, candidates = level + 1, deeper

    def better(domain: int) -> tuple[object, ...]:
        path = list(enumerate(domains.path(level, domain)))[::-1]
        near = tuple(-wanted.existing[where][one] for where, one in path)
        tight = tuple(slots[where][one] for where, one in path)
        return near, tight, _price(wanted, level, domain), domains.names[level][domain]

    for domain in sorted(candidates, key=better):
        found: list[tuple[int, int]] = []
        if _fill(domains, wanted, slots, level, domain, wanted.pods, found) == wanted.pods:
            return level, found
    return None


def _rounded(domains: "Domains", wanted: Wanted) -> list[list[int]]:
    """Slots of all domains, where each that has a multiple counts whole ones."""
    deepest = len(domains.levels) - 1
    found: list[list[int]] = [[] for _ in domains.levels]
    found[deepest] = [count - count % wanted.multiples[deepest] for count in wanted.slots]
    for level in range(deepest - 1, -1, -1):
        step = wanted.multiples[level]
        sums = [
            sum(found[level + 1][child] for child in domains.children(level, domain))
            for domain in range(len(domains.names[level]))
        ]
        found[level] = [count - count % step for count in sums]
    return found


def _price(wanted: Wanted, level: int, domain: int) -> int:
    cost = wanted.cost[level][domain]
    return -cost if wanted.dear_first else cost


def _fill(
    domains: "Domains",
    wanted: Wanted,
    slots: list[list[int]],
    level: int,
    domain: int,
    pods: int,
    found: list[tuple[int, int]],
) -> int:
    """Place as many of the pods as go into a domain; how many these are."""
    step = wanted.multiples[level]
    most = min(slots[level][domain], pods)
    most -= most % step
    if level == len(domains.levels) - 1:
        if most:
            found.append((domain, most))
        return most

    def better(child: int) -> tuple[object, ...]:
        return (
            -wanted.existing[level + 1][child],
            -slots[level + 1][child],
            _price(wanted, level + 1, child),
            domains.names[level + 1][child],
        )

    placed = 0
    for child in sorted(domains.children(level, domain), key=better):
        if placed == most:
            break
        placed += _fill(domains, wanted, slots, level + 1, child, most - placed, found)
    return placed
