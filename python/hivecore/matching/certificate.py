"""The proof that comes with a matching, and its verification: no kernel, no rounding.

Give every vertex a dual and every blossom (an odd set of vertices) a dual, none negative, such that
on each edge the duals of both ends and of the blossoms that hold both make at least twice the
weight. Then no matching weighs more than half of ``sum(duals) + sum(blossom_duals * (size - 1) /
2)``, since a matching meets a vertex at most once and has at most ``(size - 1) / 2`` edges inside a
blossom. A matching of exactly that weight is therefore one of the greatest weight.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.errors import CertificateError
from hivecore.matching.graph import Block, Graph, Int64
from hivecore.matching.integers import LIMIT

__all__ = [
    "Certificate",
    "check_numbers",
    "integer_weight",
    "is_below_floor",
    "sums_from_roots",
    "verify_certificate",
]

_BOUND = 2**60  # no optimal dual exceeds twice the largest weight; sums of three fit into int64


@dataclass(frozen=True, eq=False)
class Certificate:
    """Duals that prove what no matching exceeds, for the integer weights that the kernel was given.

    The integer weight of an edge is ``sense * round(weight / 2**exponent) + offset``, but at least
    ``floor + offset`` (if not ``most_edges``, at least 0). That proves as much: lighter edges are
    only overrated, and the matching has none of them.

    >>> from hivecore.matching import max_weight_matching
    >>> triangle = max_weight_matching((3, [(0, 1), (1, 2), (2, 0)], [6, 6, 6]))
    >>> proof = triangle.certificate
    >>> proof.duals.tolist(), sorted(proof.blossoms[0].tolist()), proof.blossom_duals.tolist()
    ([0, 0, 0], [0, 1, 2], [12])
    >>> proof.bound() == 2 * triangle.weight
    True
    """

    duals: Int64
    """int64[n], in units of half an integer weight; Python ints where int64 is too narrow."""
    innermost: Int64
    """int64[n], the innermost blossom that holds each vertex; -1: none."""
    parents: Int64
    """int64[k], the innermost blossom around each blossom, which comes before it; -1: none."""
    blossom_duals: Int64
    """Of k blossoms, as ``duals``."""
    exponent: int = 0
    """The grid of the weights; 0 for integers."""
    offset: int = 0
    """Added to every weight, so that a matching of more edges is always heavier."""
    sense: int = 1
    """-1: the lightest matching was asked for."""
    most_edges: bool = False
    """Whether only matchings of as many edges as possible compete."""
    floor: int | None = None
    """The integer weight of all lighter edges without the offset, if ``most_edges``; or None."""

    @cached_property
    def blossoms(self) -> tuple[Int64, ...]:
        """The vertices of each blossom, in no particular order.

        O(n + k), as slices of one array; together they are as long as the nesting squared.
        """
        sizes = _sums_from_leaves(self.parents, self.innermost)
        starts: list[int] = []
        filled = [0] * (len(sizes) + 1)  # the last one: outside
        for size, parent in zip(sizes, self.parents.tolist(), strict=True):
            filled[len(starts)] = filled[parent]
            starts.append(filled[parent])
            filled[parent] += size
        vertices = np.empty(filled[-1], dtype=np.int64)
        for v, blossom in enumerate(self.innermost.tolist()):
            if blossom >= 0:
                vertices[filled[blossom]] = v
                filled[blossom] += 1
        vertices.flags.writeable = False
        return tuple(
            vertices[start : start + size] for start, size in zip(starts, sizes, strict=True)
        )

    def bound(self) -> int:
        """Twice an integer weight that no matching exceeds."""
        sizes = _sums_from_leaves(self.parents, self.innermost)
        inside = zip(sizes, self.blossom_duals.tolist(), strict=True)
        bound: int = sum(size // 2 * dual for size, dual in inside) + sum(self.duals.tolist())
        return bound


def verify_certificate(
    graph: Graph, mate: Int64, certificate: Certificate, exact: bool
) -> tuple[int, bool]:
    """By how much its bound exceeds twice the integer weight of the matching; if any is rounded.

    :param exact: whether the claim is that neither is so.
    :raises CertificateError: it proves no bound, or the claim is wrong.

    O(m + n), times the logarithm of the nesting for edges inside.
    """
    check_numbers(graph.n, certificate)
    for v in np.flatnonzero((mate < 0) & (certificate.duals != 0))[:1] if exact else ():
        raise CertificateError(
            f"duals[{v}]={certificate.duals[v]}: must be 0, since the vertex is free"
        )
    forest = _Forest(certificate.innermost, certificate.parents)
    duals, around = certificate.duals, _checked_sums(forest, mate, certificate)
    lightest, rounded = None, False
    for block in graph.blocks():
        weights, rounds = _integer_weights(block, graph.integral, certificate)
        if exact and rounds:
            raise CertificateError(f"2**{certificate.exponent} does not divide every weight")
        rounded = rounded or rounds
        slack = duals[block.u] + duals[block.v] - 2 * weights
        short = np.nonzero((slack < 0) & block.present)
        u, v = (np.broadcast_to(ends, slack.shape)[short] for ends in (block.u, block.v))
        lacking = slack[short] + around[forest.around(u, v)]
        for i in np.flatnonzero(lacking < 0)[:1]:
            raise CertificateError(
                f"edge ({u[i]}, {v[i]}) is not covered: its duals are {-lacking[i]} less than "
                "twice its weight"
            )
        if block.present.any():
            least = int(weights[block.present].min())
            lightest = least if lightest is None else min(lightest, least)

    total, bound = integer_weight(graph, mate, certificate), certificate.bound()
    if exact and bound != 2 * total:
        raise CertificateError(f"the duals sum up to {bound}, twice the matching to {2 * total}")
    edges = int(np.count_nonzero(mate >= 0)) // 2  # NumPy's own integers wrap around
    compared = certificate.most_edges and bound == 2 * total
    if compared and 2 * edges + 1 < graph.n and lightest is not None:
        more = (edges + 1) * lightest  # at least what a matching of one more edge would weigh
        if more <= total:
            raise CertificateError(
                f"offset={certificate.offset} does not show that no matching has more than "
                f"{edges} edges"
            )
    return bound - 2 * total, rounded


def integer_weight(graph: Graph, mate: Int64, certificate: Certificate) -> int:
    """The sum of the integer weights of the matched edges, those below the floor as they are."""
    u = np.flatnonzero(mate > np.arange(graph.n))
    ones = np.ones(len(u), dtype=np.bool_)
    matched = Block(u, mate[u], graph.weights_of(u, mate[u]), ones)
    weights, _ = _integer_weights(matched, graph.integral, certificate)
    total: int = sum(weights.tolist())
    for weight in matched.weights[is_below_floor(matched.weights, certificate)].tolist():
        unit = Fraction(2) ** certificate.exponent
        total += certificate.sense * round(Fraction(weight) / unit) - (_floor_of(certificate) or 0)
    return total


def is_below_floor(weights: npt.NDArray[Any], certificate: Certificate) -> npt.NDArray[np.bool_]:
    """Which weights the floor replaces."""
    floor = _floor_of(certificate)
    if floor is None:
        return np.zeros(weights.shape, dtype=np.bool_)
    least: float = floor  # exactly, for integers
    if certificate.exponent:
        with np.errstate(over="ignore"):
            least = np.ldexp(float(floor), certificate.exponent)
    below: npt.NDArray[np.bool_]
    below = weights < least if certificate.sense > 0 else weights > -least
    return below


def _floor_of(certificate: Certificate) -> int | None:
    return certificate.floor if certificate.most_edges else 0


def check_numbers(n: int, certificate: Certificate) -> None:
    """Raise `CertificateError` for a number out of range, whatever the edges and blossoms."""
    duals, innermost = certificate.duals, certificate.innermost
    parents, blossom_duals = certificate.parents, certificate.blossom_duals
    k = parents.size
    if certificate.sense not in (1, -1):
        raise CertificateError(f"sense={certificate.sense}: must be 1 or -1")
    if not certificate.most_edges and (certificate.sense, certificate.offset) != (1, 0):
        raise CertificateError(f"offset={certificate.offset}: must be 0 if any number of edges may")
    if abs(certificate.exponent) > 1200:
        raise CertificateError(f"exponent={certificate.exponent}: beyond that of any float")
    is_wide = duals.dtype == object
    for name, length in (("duals", n), ("innermost", n), ("parents", k), ("blossom_duals", k)):
        array = getattr(certificate, name)
        is_dual = name.endswith("duals")
        if array.shape != (length,) or array.dtype != (object if is_dual and is_wide else np.int64):
            raise CertificateError(f"{name} must be int64[{length}]")
        if array.dtype == object and not all(type(item) is int for item in array.tolist()):
            raise CertificateError(f"{name} must hold integers")
    if not is_wide and abs(certificate.offset) > 2**61:
        raise CertificateError(f"offset={certificate.offset}: beyond 2**61")
    if certificate.floor is not None and abs(certificate.floor) > LIMIT:
        raise CertificateError(f"floor={certificate.floor}: beyond 2**59")
    for v in np.flatnonzero((duals < 0) | (not is_wide and duals > _BOUND))[:1]:
        raise CertificateError(f"duals[{v}]={duals[v]}: must be from 0 to 2**60")
    for v in np.flatnonzero((innermost < -1) | (innermost >= k))[:1]:
        raise CertificateError(f"innermost[{v}]={innermost[v]}: blossoms run from 0 to {k - 1}")
    for i in np.flatnonzero((parents < -1) | (parents >= np.arange(k)))[:1]:
        raise CertificateError(f"parents[{i}]={parents[i]}: must be a blossom before it, or -1")
    for i in np.flatnonzero(blossom_duals <= 0)[:1]:
        raise CertificateError(f"blossom_duals[{i}]={blossom_duals[i]}: must be positive")


def _checked_sums(forest: "_Forest", mate: Int64, certificate: Certificate) -> Int64:
    """Of the duals of each blossom and those around it, once all blossoms are odd and full."""
    parents, blossom_duals = certificate.parents, certificate.blossom_duals
    u = np.flatnonzero(mate > np.arange(len(mate)))
    sizes = _sums_from_leaves(parents, certificate.innermost)
    matched = _sums_from_leaves(parents, forest.around(u, mate[u]))
    sums = sums_from_roots(parents, blossom_duals)
    for i, (size, inside) in enumerate(zip(sizes, matched, strict=True)):
        if size % 2 == 0 or size < 3:
            raise CertificateError(f"blossom {i} has {size} vertices: not odd, or < 3")
        if inside != size // 2:
            raise CertificateError(f"blossom {i} has {inside} matched edges, too few")
        if sums[i] > _BOUND and blossom_duals.dtype != object:
            raise CertificateError(
                f"blossom_duals[{i}]={blossom_duals[i]}: too large to be optimal"
            )
    return np.array(sums, dtype=blossom_duals.dtype)


def _integer_weights(block: Block, integral: bool, certificate: Certificate) -> tuple[Int64, bool]:
    """The integer weights, 0 where there is no edge; whether any is rounded."""
    weights = np.where(block.present, block.weights, 0)
    if integral and certificate.exponent != 0:
        raise CertificateError(f"exponent={certificate.exponent}: must be 0 for integers")
    if not np.isfinite(weights).all():
        raise CertificateError("a weight is not finite")
    below = is_below_floor(weights, certificate)
    weights = np.where(below, 0, weights)
    if certificate.duals.dtype == object:
        whole = _wide_integers(weights, certificate.exponent)
        rounded = False
    elif integral:
        whole, rounded = weights, False
    else:
        weights = weights.astype(np.float64)
        with np.errstate(over="ignore"):
            whole = np.rint(np.ldexp(weights, -certificate.exponent))
            rounded = not np.array_equal(np.ldexp(whole, certificate.exponent), weights)
    if certificate.duals.dtype != object:
        if not ((whole >= -LIMIT) & (whole <= LIMIT)).all():
            raise CertificateError("a weight is too large for this certificate")
        whole = whole.astype(np.int64)
    counted: Int64 = np.where(below, _floor_of(certificate) or 0, certificate.sense * whole)
    return np.where(block.present, counted + certificate.offset, 0), rounded


def _wide_integers(weights: npt.NDArray[Any], exponent: int) -> npt.NDArray[Any]:
    """The multiples of ``2**exponent`` as Python ints."""
    if weights.dtype.kind in "iu":
        return weights.astype(object)
    fractions, exponents = np.frexp(weights.astype(np.float64))
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    shifts = np.where(mantissas == 0, 0, exponents.astype(np.int64) - (53 + exponent))
    down = np.clip(-shifts, 0, 63)
    if (mantissas & ((np.int64(1) << down) - 1)).any() or (shifts < -63).any():
        raise CertificateError(f"2**{exponent} does not divide every weight")
    whole: npt.NDArray[Any] = (mantissas >> down).astype(object) << np.maximum(shifts, 0).astype(
        object
    )
    return whole


# --- nested sets -------------------------------------------------------------------------------
#
# Blossoms form a forest: per vertex the innermost one, per blossom the one around it, -1 outside of
# all. Parents come before their children, so that sums up and down are one loop, however deep.


def _sums_from_leaves(parents: Int64, at: Int64) -> list[int]:
    """How many of the sets ``at`` each set holds, itself included; -1 is held by none."""
    sums: list[int] = np.bincount(at[at >= 0], minlength=len(parents)).tolist()
    for child, parent in zip(reversed(range(len(sums))), reversed(parents.tolist()), strict=True):
        if parent >= 0:
            sums[parent] += sums[child]
    return sums


def sums_from_roots(parents: Int64, values: Int64) -> list[int]:
    """The sum of the values of each set and all sets around it; 0 for -1, which comes last."""
    sums: list[int] = [0] * (len(parents) + 1)
    for child, (parent, value) in enumerate(zip(parents.tolist(), values.tolist(), strict=True)):
        sums[child] = sums[parent] + value
    return sums


class _Forest:
    """Finds the innermost set around two elements, for many pairs at once."""

    def __init__(self, innermost: Int64, parents: Int64) -> None:
        self._innermost = innermost
        self._depth = np.array(sums_from_roots(parents, np.ones_like(parents)))
        self._above = [np.append(parents, -1)]  # above[j]: 2**j levels up
        while 1 << len(self._above) <= self._depth.max():
            self._above.append(self._above[-1][self._above[-1]])

    def around(self, u: Int64, v: Int64) -> Int64:
        """The innermost set that holds both ``u[i]`` and ``v[i]``; -1: none."""
        a, b = self._innermost[u], self._innermost[v]
        swap = self._depth[a] < self._depth[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        deeper = self._depth[a] - self._depth[b]
        for j, above in enumerate(self._above):
            a = np.where(deeper >> j & 1, above[a], a)
        for above in reversed(self._above):
            apart = above[a] != above[b]
            a, b = np.where(apart, above[a], a), np.where(apart, above[b], b)
        return np.where(a == b, a, self._above[0][a])
