"""Limits on what the devices of several nodes take together.

An answer for a node that takes less of one limit may take more of another. So a node has several
answers of which none is better in everything; the kernel finds them with tighter and tighter
limits.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from hivecore.dra._claim_kind import ClaimKind, Within
from hivecore.dra._node_class import NodeClass
from hivecore.dra._numbering import Numbering

__all__ = ["Limits", "Vector", "is_within"]

Vector: TypeAlias = tuple[int, ...]
_MOST_TRIES = 10_000


class Limits:
    """Limits in units, in a fixed order.

    :param mode: of the answers.
    :param limit: the most steps of a search.
    """

    def __init__(self, within: Within, numbering: Numbering, mode: str, limit: int) -> None:
        self._within, self._numbering, self._mode, self._limit = within, numbering, mode, limit
        units = numbering.whole_units
        self.most: Vector = tuple(units(key[2], amount) for key, amount in within.items())
        self._least: dict[tuple[ClaimKind, NodeClass], list[Vector]] = {}
        self._tries = 0

    def amounts(self, vector: Vector) -> Within:
        """Return the amounts of these numbers of units."""
        pairs = zip(self._within, vector, strict=True)
        return {key: self._numbering.amount(key[2], units) for key, units in pairs}

    def least(self, kind: ClaimKind, node_class: NodeClass) -> list[Vector]:
        """Return what answers for a node take, without those that another answer improves on."""
        key = kind, node_class
        if key not in self._least:
            self._least[key] = _least(lambda most: self._taken(*key, most), self.most)
        return self._least[key]

    def _taken(self, kind: ClaimKind, node_class: NodeClass, most: Vector) -> Vector | None:
        """Return what an answer within limits takes; ``None`` if there is none, or after too many
        tries.
        """
        self._tries += 1
        if self._tries > _MOST_TRIES:
            return None
        answer = kind.answer(node_class, self._mode, self._limit, self.amounts(most))
        if answer.outcome != "allocated":
            return None
        taken, units = kind.taken(node_class, answer), self._numbering.units
        return tuple(units(key[2], taken.get(key, Fraction())) for key in self._within)


def _least(find: Callable[[Vector], Vector | None], most: Vector) -> list[Vector]:
    """Return all minimal vectors of a set.

    :param find: returns a vector of the set within limits, or ``None``.
    :param most: the limits.
    """
    least: list[Vector] = []
    boxes = [most]
    while boxes:
        box = boxes.pop()
        vector = next((known for known in least if is_within(known, box)), None)
        if vector is None:
            vector = find(box)
            if vector is None:
                continue
            for i in range(len(box)):
                vector = _lowered(find, vector, i)
            least.append(vector)
        boxes += [
            (*box[:i], amount - 1, *box[i + 1 :]) for i, amount in enumerate(vector) if amount
        ]
    return least


def _lowered(find: Callable[[Vector], Vector | None], vector: Vector, i: int) -> Vector:
    """Return a vector of the set with the least number at a position, and no number larger."""
    low = 0
    while low < vector[i]:
        middle = (low + vector[i]) // 2
        lower = find((*vector[:i], middle, *vector[i + 1 :]))
        if lower is None:
            low = middle + 1
        else:
            vector = lower
    return vector


def is_within(vector: Vector, limits: Vector) -> bool:
    return all(a <= b for a, b in zip(vector, limits, strict=True))
