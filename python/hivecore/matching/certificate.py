"""The proof that comes with a matching, and its verification: no kernel, no rounding.

Give every vertex a dual and every blossom (an odd set of vertices) a dual, none negative, such that
on each edge the duals of both ends and of the blossoms that hold both make at least twice the
weight. Then no matching weighs more than half of ``sum(duals) + sum(blossom_duals * (size - 1) /
2)``, since a matching meets a vertex at most once and has at most ``(size - 1) / 2`` edges inside a
blossom. A matching of exactly that weight is therefore one of the greatest weight.
"""

from dataclasses import dataclass

import numpy as np

from hivecore.errors import CertificateError
from hivecore.matching.graph import Block, Graph, Int64

__all__ = ["Certificate", "verify_certificate"]

_BOUND = 2**60  # no optimal dual exceeds twice the largest weight; sums of three fit into int64


@dataclass(frozen=True, eq=False)
class Certificate:
    """Duals that prove a matching optimal, for the integer weights that the kernel was given.

    The integer weight of an edge is ``sense * round(weight / 2**exponent) + offset``.

    >>> from hivecore.matching import max_weight_matching
    >>> triangle = max_weight_matching((3, [(0, 1), (1, 2), (2, 0)], [6, 6, 6]))
    >>> proof = triangle.certificate
    >>> proof.duals.tolist(), sorted(proof.blossoms[0].tolist()), proof.blossom_duals.tolist()
    ([0, 0, 0], [0, 1, 2], [12])
    >>> proof.bound() == 2 * triangle.weight
    True
    """

    duals: Int64
    """int64[n], in units of half an integer weight."""
    blossoms: tuple[Int64, ...]
    """The vertices of each blossom, in no order; two blossoms are nested or disjoint."""
    blossom_duals: Int64
    """int64[k], in units of half an integer weight."""
    exponent: int = 0
    """The grid of the weights; 0 for integers."""
    offset: int = 0
    """Added to every weight, so that a matching of more edges is always heavier."""
    sense: int = 1
    """-1: the lightest matching was asked for."""
    most_edges: bool = False
    """Whether only matchings of as many edges as possible compete."""

    def bound(self) -> int:
        """Twice an integer weight that no matching exceeds."""
        inside = zip(self.blossoms, self.blossom_duals.tolist(), strict=True)
        bound: int = sum(len(blossom) // 2 * dual for blossom, dual in inside)
        return bound + sum(map(int, self.duals))


class _Nesting:
    """The blossoms as a forest: which ones hold both ends of an edge, for many edges at once."""

    def __init__(self, n: int, blossoms: tuple[Int64, ...], duals: list[int]) -> None:
        outside = len(blossoms)  # the root of the forest, which has no dual
        self.innermost = np.full(n, outside, dtype=np.int64)
        parent, depth, total = ([outside] * (outside + 1), [0] * (outside + 1), [0] * (outside + 1))
        for i in sorted(range(outside), key=lambda i: -len(blossoms[i])):
            around = self.innermost[blossoms[i]]
            if (around != around[0]).any():
                raise CertificateError(f"blossoms[{i}] and another one cross")
            parent[i] = int(around[0])
            depth[i] = depth[parent[i]] + 1
            total[i] = total[parent[i]] + duals[i]
            if total[i] > _BOUND:
                raise CertificateError(f"blossom_duals[{i}]={duals[i]}: too large to be optimal")
            self.innermost[blossoms[i]] = i
        self.depth = np.array(depth)
        self.total = np.array(total, dtype=np.int64)
        self.above = [np.array(parent)]  # above[j]: 2**j levels up
        while 1 << len(self.above) <= max(depth):
            self.above.append(self.above[-1][self.above[-1]])

    def duals_around(self, u: Int64, v: Int64) -> Int64:
        """The sum of the duals of the blossoms that hold both ``u[i]`` and ``v[i]``."""
        a, b = self.innermost[u], self.innermost[v]
        swap = self.depth[a] < self.depth[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        deeper = self.depth[a] - self.depth[b]
        for j, above in enumerate(self.above):
            a = np.where(deeper >> j & 1, above[a], a)
        for above in reversed(self.above):
            apart = above[a] != above[b]
            a, b = np.where(apart, above[a], a), np.where(apart, above[b], b)
        sums: Int64 = self.total[np.where(a == b, a, self.above[0][a])]
        return sums


def verify_certificate(graph: Graph, mate: Int64, certificate: Certificate, exact: bool) -> None:
    """Raise `CertificateError` unless this proves the matching one of the greatest weight.

    :param exact: whether the claim is that no weight is rounded.

    O(m + n + the sizes of the blossoms), times the logarithm of the nesting for edges inside.
    """
    duals, blossom_duals = _checked_duals(graph.n, mate, certificate)
    nesting = _Nesting(graph.n, certificate.blossoms, blossom_duals.tolist())
    lightest = None
    for block in graph.blocks():
        weights = _integer_weights(block, graph.integral, certificate, exact)
        slack = duals[block.u] + duals[block.v] - 2 * weights
        short = np.nonzero((slack < 0) & block.present)
        u, v = (np.broadcast_to(ends, slack.shape)[short] for ends in (block.u, block.v))
        lacking = slack[short] + nesting.duals_around(u, v)
        for i in np.flatnonzero(lacking < 0)[:1]:
            raise CertificateError(
                f"edge ({u[i]}, {v[i]}) is not covered: its duals are {-lacking[i]} less than "
                "twice its weight"
            )
        if block.present.any():
            least = int(weights[block.present].min())
            lightest = least if lightest is None else min(lightest, least)

    u = np.flatnonzero(mate > np.arange(graph.n))
    one = np.ones(len(u), dtype=np.bool_)
    matched = Block(u, mate[u], graph.weights_of(u, mate[u]), one)
    total = sum(_integer_weights(matched, graph.integral, certificate, exact).tolist())
    bound = certificate.bound()
    if bound != 2 * total:
        raise CertificateError(f"the duals sum up to {bound}, twice the matching to {2 * total}")
    if certificate.most_edges and 2 * len(u) + 1 < graph.n and lightest is not None:
        more = (len(u) + 1) * lightest  # at least what a matching of one more edge would weigh
        if more <= total:
            raise CertificateError(
                f"offset={certificate.offset} does not show that no matching has more than "
                f"{len(u)} edges"
            )


def _checked_duals(n: int, mate: Int64, certificate: Certificate) -> tuple[Int64, Int64]:
    """The duals, once everything that concerns no single edge is as it must be."""
    duals, blossom_duals = certificate.duals, certificate.blossom_duals
    if certificate.sense not in (1, -1):
        raise CertificateError(f"sense={certificate.sense}: must be 1 or -1")
    if not certificate.most_edges and (certificate.sense, certificate.offset) != (1, 0):
        raise CertificateError(f"offset={certificate.offset}: must be 0 if any number of edges may")
    if abs(certificate.offset) > 2**61:
        raise CertificateError(f"offset={certificate.offset}: beyond 2**61")
    if duals.shape != (n,) or duals.dtype != np.int64:
        raise CertificateError(f"duals must be int64[{n}]")
    if blossom_duals.shape != (len(certificate.blossoms),) or blossom_duals.dtype != np.int64:
        raise CertificateError(f"blossom_duals must be int64[{len(certificate.blossoms)}]")
    for v in np.flatnonzero((duals < 0) | (duals > _BOUND))[:1]:
        raise CertificateError(f"duals[{v}]={duals[v]}: must be from 0 to 2**60")
    for v in np.flatnonzero((mate < 0) & (duals != 0))[:1]:
        raise CertificateError(f"duals[{v}]={duals[v]}: must be 0, since the vertex is free")
    for i in np.flatnonzero(blossom_duals <= 0)[:1]:
        raise CertificateError(f"blossom_duals[{i}]={blossom_duals[i]}: must be positive")
    for i, blossom in enumerate(certificate.blossoms):
        if len(blossom) % 2 == 0 or len(blossom) < 3:
            raise CertificateError(f"blossoms[{i}] has {len(blossom)} vertices: not odd, or < 3")
        if blossom.min() < 0 or blossom.max() >= n or len(np.unique(blossom)) < len(blossom):
            raise CertificateError(f"blossoms[{i}] is not a set of vertices 0 to {n - 1}")
        inside = np.count_nonzero(np.isin(mate[blossom], blossom))
        if inside != len(blossom) - 1:
            raise CertificateError(f"blossoms[{i}] has {inside // 2} matched edges, too few")
    return duals, blossom_duals


def _integer_weights(block: Block, integral: bool, certificate: Certificate, exact: bool) -> Int64:
    """The weights as the certificate counts them, 0 where there is no edge."""
    weights = np.where(block.present, block.weights, 0)
    if integral:
        whole, limit = weights, 2**59
        if certificate.exponent != 0:
            raise CertificateError(f"exponent={certificate.exponent}: must be 0 for integers")
    else:
        weights, limit = weights.astype(np.float64), 2**58
        with np.errstate(over="ignore"):
            whole = np.rint(np.ldexp(weights, -certificate.exponent))
            if exact and not np.array_equal(np.ldexp(whole, certificate.exponent), weights):
                raise CertificateError(f"2**{certificate.exponent} does not divide every weight")
    if not ((whole >= -limit) & (whole <= limit)).all():
        raise CertificateError("a weight is not finite, or too large for this certificate")
    counted: Int64 = certificate.sense * whole.astype(np.int64) + certificate.offset
    return np.where(block.present, counted, 0)
