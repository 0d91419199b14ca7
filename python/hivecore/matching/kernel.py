"""One call of the kernel: weights become integers there, duals come back as a certificate."""

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore.errors import CertificateError
from hivecore.matching.certificate import (
    Certificate,
    check_numbers,
    integer_weight,
    sums_from_roots,
)
from hivecore.matching.graph import Graph, Int64, Sparse, as_rows
from hivecore.matching.integers import LIMIT, Integers
from hivecore.matching.matching import Matching
from hivecore.matching.read import as_native

__all__ = ["NO_FLOOR", "Answer", "attempt", "check_initial"]

NO_FLOOR = -(2**63)
"""For the kernel: weights count as they are, however small."""

Answer = tuple[Int64, Certificate, int, bool]
"""The partners; the proof; by how much its bound exceeds twice the integer weight, 0 for the best
of the integers; and whether the integers are not exactly the weights."""

_MAX_DUAL = 2**61  # of the duals of an earlier matching, and of what is added to them
_WORDS = (2, 4, 34)  # of 64 bits, that the kernel can count in

_Array = npt.NDArray[Any]

_Start = tuple[Int64 | None, Int64 | None]


def attempt(
    graph: Graph,
    weights: _Array,
    sense: int,
    most_edges: bool,
    threads: int,
    deadline: float,
    initial: Matching | None,
    integers: Integers,
    offset: int,
) -> Answer:
    """The matching of the greatest weight, where weights count ``sense * integer + offset``.

    In int64 if that holds what the heaviest then counts.
    """
    exponent, exact, low, high, floor = integers
    if floor and graph.integral:  # the kernel compares only floats with it
        weights = np.maximum(weights, floor) if sense > 0 else np.minimum(weights, -floor)
    heaviest = max(sense * low, sense * high) + offset
    if heaviest > LIMIT:
        bits = max(heaviest, abs(low), abs(high)).bit_length()
        solution = _solve_wide(graph, exponent, sense, offset, bits, threads, deadline)
    else:
        scale = exponent, sense, offset, heaviest, NO_FLOOR if floor is None else floor
        start: _Start = (None, None)
        if initial is not None:
            start = _start_from(initial, exponent, offset, sense)
        if isinstance(graph, Sparse):
            counts = _matching.scaled(weights, *scale)
            rows = graph.n, graph.offsets, graph.neighbours, counts
            left = deadline - time.monotonic()
            solution = _matching.solve_sparse(*rows, *start, threads, left)
        else:
            solution = _matching.solve_dense(weights, *scale, *start, deadline - time.monotonic())
    mate, duals, innermost, parents, blossom_duals = solution
    proof = Certificate(
        duals,
        innermost,
        parents,
        blossom_duals,
        exponent,
        offset,
        sense,
        most_edges,
        floor if most_edges else None,
    )
    excess = 0
    if deadline < math.inf:
        excess = proof.bound() - 2 * integer_weight(graph, mate, proof)
    return mate, proof, excess, not exact


def _solve_wide(
    graph: Graph,
    exponent: int,
    sense: int,
    offset: int,
    bits: int,
    threads: int,
    deadline: float,
) -> tuple[Int64, _Array, Int64, Int64, _Array]:
    """The same in integers as wide as it takes, of which duals come back as Python ints."""
    rows = as_rows(graph)
    words = next(words for words in _WORDS if bits + 5 <= 64 * words)
    mate, duals, innermost, parents, blossom_duals = _matching.solve_wide(
        rows.n,
        rows.offsets,
        rows.neighbours,
        as_native(rows.weights),
        exponent,
        sense,
        offset=_as_words(offset, words),
        threads=threads,
        time_limit=deadline - time.monotonic(),
    )
    return mate, _as_ints(duals, words), innermost, parents, _as_ints(blossom_duals, words)


def _as_words(value: int, words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(value.to_bytes(8 * words, "little", signed=True), "<u8").astype(np.uint64)


def _as_ints(values: npt.NDArray[np.uint64], words: int) -> npt.NDArray[Any]:
    ints = np.zeros(len(values) // words, dtype=object)
    for i, row in enumerate(values.reshape(-1, words)):
        ints[i] = int.from_bytes(row.astype("<u8").tobytes(), "little")
    return ints


# --- beginning with an earlier matching --------------------------------------------------------


def check_initial(initial: Any, n: int) -> None:
    """Refuse anything but a matching of n vertices with a valid certificate, if it has one."""
    if not isinstance(initial, Matching):
        raise TypeError(f"initial must be a Matching, not {type(initial).__name__}")
    mate = initial.mate
    if mate.shape != (n,) or mate.dtype != np.int64:
        raise ValueError(f"initial must be a matching of {n} vertices, not {mate.shape}")
    for v in np.flatnonzero((mate < -1) | (mate >= n))[:1]:
        raise ValueError(f"initial.mate[{v}]={mate[v]}: must be a vertex from 0 to {n - 1}, or -1")
    if initial.certificate is not None:
        try:
            check_numbers(n, initial.certificate)
        except CertificateError as error:
            raise ValueError(f"initial.certificate: {error}") from None


def _start_from(initial: Matching, exponent: int, offset: int, sense: int) -> _Start:
    """Duals and partners to begin with if an integer weight is ``sense * round(weight /
    2**exponent) + offset``; the kernel takes any numbers.

    None without a certificate, or with one of the other sense.
    """
    proof = initial.certificate
    if proof is None or proof.sense != sense:
        return None, None
    duals = _without_blossoms(proof)
    if duals is not None and duals.dtype == object:
        grid = Fraction(2) ** (proof.exponent - exponent)
        ints = [math.ceil((dual - proof.offset) * grid) + offset for dual in duals.tolist()]
        within = [min(max(0, dual), _MAX_DUAL) for dual in ints]
        return np.array(within, dtype=np.int64), initial.mate
    if duals is not None:
        duals = _scaled(duals - proof.offset, proof.exponent - exponent)
    if duals is None:
        return None, None
    return np.clip(duals + offset, 0, _MAX_DUAL), initial.mate


def _without_blossoms(proof: Certificate) -> Int64 | None:
    """Duals that cover every edge by themselves: half of what is around a vertex goes to it."""
    around = sums_from_roots(proof.parents, proof.blossom_duals)
    if proof.duals.dtype != object and max(around) > _MAX_DUAL:
        return None
    more: Int64 = (np.array(around, dtype=proof.duals.dtype)[proof.innermost] + 1) // 2
    return proof.duals + more


def _scaled(values: Int64, steps: int) -> Int64 | None:
    """``values * 2**steps``, rounded up; None if that is too large."""
    if steps <= 0:
        return -(-values >> min(-steps, 63))
    if steps > 61 or np.abs(values).max(initial=0) > _MAX_DUAL >> steps:
        return None
    return values << steps
