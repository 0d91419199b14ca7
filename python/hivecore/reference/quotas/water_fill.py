"""Divides a parent's amount among its children (section 2 of the specification)."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Claim", "Round", "shares", "water_fill"]


class Claim(NamedTuple):
    """A child's request in a dimension; claims are ordered by the children's names."""

    request: int
    minimum: int
    """What it gets in any case if it requests that much."""
    weight: int
    lent: bool = True
    """Whether siblings may use the unrequested part of its minimum."""


class Round(NamedTuple):
    """A pass over the children that still want more."""

    amount: int
    weight: int
    """The sum of their weights."""
    shares: dict[int, int]


def shares(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide the amount in proportion to the weights, in whole units.

    Parts are rounded down; remaining units go to the largest remainders (ties: the first).
    """
    total = sum(weights)
    parts = [divmod(weight * amount, total) for weight in weights]
    given = [whole for whole, _ in parts]
    left = amount - sum(given)
    for child in sorted(range(len(parts)), key=lambda child: (-parts[child][1], child))[:left]:
        given[child] += 1
    return given


def water_fill(amount: int, claims: Sequence[Claim]) -> tuple[list[int], list[Round]]:
    """Return what each child may use, and the rounds that lead to it."""
    runtimes = []
    hungry = []
    for child, claim in enumerate(claims):
        if claim.request > claim.minimum:
            runtimes.append(claim.minimum)
            hungry.append(child)
        else:
            runtimes.append(claim.request if claim.lent else claim.minimum)
    rounds = []
    left = amount - sum(runtimes)
    while left > 0 and any(claims[child].weight for child in hungry):
        given = dict(
            zip(hungry, shares(left, [claims[child].weight for child in hungry]), strict=True)
        )
        rounds.append(Round(left, sum(claims[child].weight for child in hungry), given))
        left = 0
        for child, share in given.items():
            runtimes[child] += share
            left += max(runtimes[child] - claims[child].request, 0)
            runtimes[child] = min(runtimes[child], claims[child].request)
        hungry = [child for child in hungry if runtimes[child] < claims[child].request]
    return runtimes, rounds
