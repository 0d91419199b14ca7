"""Where to begin: the duals of an earlier matching, counted as the weights of a new graph are."""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hivecore.errors import CertificateError
from hivecore.matching.certificate import Certificate, check_numbers
from hivecore.matching.forest import sums_from_roots
from hivecore.matching.graph import Int64
from hivecore.matching.result import Matching

__all__ = ["Start", "as_initial", "start_from"]

_LIMIT = 2**61  # of what is added to or taken from a dual


class Start(NamedTuple):
    """What the kernel is told; any numbers will do."""

    duals: Int64 | None = None
    mate: Int64 | None = None


def as_initial(initial: Any, n: int) -> Matching | None:
    """The argument ``initial`` of a graph of n vertices, checked.

    :raises TypeError: neither None nor a `Matching`.
    :raises ValueError: a matching of more or fewer vertices, or with a defective certificate.
    """
    if initial is None:
        return None
    if not isinstance(initial, Matching):
        raise TypeError(f"initial must be a Matching, not {type(initial).__name__}")
    mate = initial.mate
    if mate.shape != (n,) or mate.dtype != np.int64:
        raise ValueError(f"initial must be a matching of {n} vertices, not {mate.shape}")
    if ((mate < -1) | (mate >= n)).any():
        raise ValueError("initial.mate holds what is no vertex")
    if initial.certificate is not None:
        try:
            check_numbers(n, initial.certificate)
        except CertificateError as error:
            raise ValueError(f"initial.certificate: {error}") from None
    return initial


def start_from(initial: Matching | None, exponent: int, offset: int, sense: int) -> Start:
    """Where to begin if an integer weight is ``sense * round(weight / 2**exponent) + offset``.

    Nowhere in particular without a certificate, or with one of the other sense.
    """
    if initial is None or initial.certificate is None or initial.certificate.sense != sense:
        return Start()
    proof = initial.certificate
    duals = _without_blossoms(proof)
    if duals is not None and duals.dtype == object:
        grid = Fraction(2) ** (proof.exponent - exponent)
        ints = [math.ceil((dual - proof.offset) * grid) + offset for dual in duals.tolist()]
        within = [min(max(0, dual), _LIMIT) for dual in ints]
        return Start(np.array(within, dtype=np.int64), initial.mate)
    if duals is not None:
        duals = _scaled(duals - proof.offset, proof.exponent - exponent)
    return Start() if duals is None else Start(np.clip(duals + offset, 0, _LIMIT), initial.mate)


def _without_blossoms(proof: Certificate) -> Int64 | None:
    """Duals that cover every edge by themselves: half of what is around a vertex goes to it."""
    around = sums_from_roots(proof.parents, proof.blossom_duals)
    if proof.duals.dtype != object and max(around) > _LIMIT:
        return None
    more: Int64 = (np.array(around, dtype=proof.duals.dtype)[proof.innermost] + 1) // 2
    return proof.duals + more


def _scaled(values: Int64, steps: int) -> Int64 | None:
    """``values * 2**steps``, rounded up; None if that is too large."""
    if steps <= 0:
        return -(-values >> min(-steps, 63))
    if steps > 61 or np.abs(values).max(initial=0) > _LIMIT >> steps:
        return None
    return values << steps
