"""How a parent's amount is shared out among its children (section 2 of the specification)."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Claim", "Round", "shares", "water_fill"]


class Claim(NamedTuple):
    """What a child asks of one dimension; the order of claims is that of the children's names."""

    request: int
    minimum: int
    """What it has in any case while it asks for that much."""
    weight: int
    lent: bool = True
    """Whether others may have what it does not ask for of its minimum."""


class Round(NamedTuple):
    """One pass over those who still want more."""

    amount: int
    weight: int
    """Of all of them together."""
    shares: dict[int, int]


def shares(amount: int, weights: Sequence[int]) -> list[int]:
    """The amount in proportion to the weights, to the unit.

    Each part is rounded down; what is left goes, a unit each, to those with the largest remainders,
    the first of equals.
    """
    total = sum(weights)
    parts = [divmod(weight * amount, total) for weight in weights]
    given = [whole for whole, _ in parts]
    left = amount - sum(given)
    for child in sorted(range(len(parts)), key=lambda child: (-parts[child][1], child))[:left]:
        given[child] += 1
    return given


def water_fill(amount: int, claims: Sequence[Claim]) -> tuple[list[int], list[Round]]:
    """What each child may use, and the rounds in which it was found."""
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
