"""A matching: its pairs, its weight, and its proof."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hivecore.errors import CertificateError
from hivecore.matching.certificate import Certificate, verify_certificate
from hivecore.matching.graph import Dense, Graph, Int64
from hivecore.matching.read import from_edges

__all__ = ["Matching", "gap_of", "total_weight"]


@dataclass(frozen=True, eq=False)
class Matching:
    """A matching, and the proof of how much better another one can be; all arrays are read-only.

    >>> import numpy as np
    >>> from hivecore.matching import max_weight_matching
    >>> matching = max_weight_matching(np.array([[0, 5, 9], [5, 0, 8], [9, 8, 0]]))
    >>> matching.pairs.tolist(), matching.weight, matching.mate.tolist()
    ([[0, 2]], 9, [2, -1, 0])
    >>> matching.verify()
    True
    """

    mate: Int64
    """int64[n], the other vertex of the pair; -1: not matched."""
    pairs: Int64
    """int64[cardinality, 2], the smaller vertex first, ascending."""
    weight: int | float
    """The sum of the weights of the pairs: an int if weights are integers, else a float."""
    exact: bool
    """Whether it is proved to be the best for the given weights; if not, floats were rounded, or a
    time limit ended the search."""
    gap_bound: float
    """By how much the best matching may be better; 0.0 if ``exact``. Infinite if a time limit ended
    a search for matchings with the most edges."""
    certificate: Certificate | None
    """The duals that prove it; None without a certificate."""
    _graph: Graph | None = field(repr=False)

    if not TYPE_CHECKING:  # which sees all fields

        def __getattr__(self, name: str) -> Any:
            """The certificate and its graph, which are made when they are first read."""
            if name not in ("certificate", "_graph") or "_later" not in self.__dict__:
                raise AttributeError(f"'Matching' object has no attribute {name!r}")
            later = self.__dict__["_later"]
            certificates = (None, None) if later is None else _certified(*later)
            self.__dict__.setdefault("certificate", certificates[0])
            self.__dict__.setdefault("_graph", certificates[1])
            return self.__dict__[name]

    @property
    def cardinality(self) -> int:
        """The number of pairs."""
        return len(self.pairs)

    def verify(self) -> Literal[True]:
        """Prove, without the kernel, that no matching is better by more than ``gap_bound``.

        All fields are compared with what follows from the graph and the certificate, with NumPy and
        integers only. The graph is read as it is now: if its array has changed, the check fails.

        :raises CertificateError: a check fails, or there is no certificate; the message says which.

        O(m), for a dense array O(n^2) with a bounded amount of memory beside it.
        """
        if self.certificate is None or self._graph is None:
            raise CertificateError("certificate is None: without it nothing can be proved")
        n, mate = self._graph.n, self.mate
        if mate.shape != (n,) or mate.dtype != np.int64:
            raise CertificateError(f"mate must be int64[{n}]")
        matched = np.flatnonzero(mate != -1)
        for v in matched[(mate[matched] < 0) | (mate[matched] >= n)][:1]:
            raise CertificateError(f"mate[{v}]={mate[v]}: vertices run from 0 to {n - 1}")
        for v in matched[(mate[mate[matched]] != matched) | (mate[matched] == matched)][:1]:
            raise CertificateError(f"mate[{v}]={mate[v]}, but mate[{mate[v]}]={mate[mate[v]]}")
        u = np.flatnonzero(mate > np.arange(n))
        if not np.array_equal(self.pairs, np.stack((u, mate[u]), axis=1)):
            raise CertificateError("pairs and mate differ")
        try:
            weights = self._graph.weights_of(u, mate[u])
        except KeyError as error:
            raise CertificateError(f"pair {error.args[0]} is not an edge") from None
        proof = self.certificate
        excess, rounded = verify_certificate(self._graph, mate, proof, self.exact)
        weight = total_weight(weights)
        if type(self.weight) is not type(weight) or self.weight != weight:
            raise CertificateError(f"weight={self.weight}, but the pairs weigh {weight}")
        gap = gap_of(excess, n if rounded else 0, proof)
        if self.gap_bound != gap:
            raise CertificateError(f"gap_bound={self.gap_bound}, but the certificate gives {gap}")
        if self.exact != (gap == 0.0):
            raise CertificateError(f"exact={self.exact}, but gap_bound={gap}")
        return True


def _certified(graph: Any, proof: bytes, sense: int, most_edges: bool) -> tuple[Certificate, Graph]:
    """The certificate in the numbers of the kernel, and the graph."""
    read = from_edges(graph, sense < 0) if isinstance(graph, tuple) else Dense(graph)
    exponent, offset, *_ = numbers = np.frombuffer(proof, dtype=np.int64)
    sets = len(numbers) // 2 - 1 - read.n  # exponent, offset, two per vertex, two per blossom
    ends = [read.n, 2 * read.n, 2 * read.n + sets]
    duals, innermost, parents, blossom_duals = np.split(numbers[2:], ends)
    return Certificate(
        duals, innermost, parents, blossom_duals, int(exponent), int(offset), sense, most_edges
    ), read


def total_weight(weights: npt.NDArray[Any]) -> int | float:
    """The sum: of integers without overflow, of floats rounded once."""
    if weights.dtype.kind in "iu":
        total: int = sum(weights.tolist())
        return total
    addends = weights.tolist()
    try:
        return math.fsum(addends)
    except OverflowError:
        scaled = math.fsum(weight * 2.0**-64 for weight in addends)
    try:
        return math.ldexp(scaled, 64)
    except OverflowError:
        return math.copysign(math.inf, scaled)


def gap_of(excess: int, rounded: int, certificate: Certificate) -> float:
    """By how much the best matching may be better, rounded up.

    :param excess: of the certificate's bound over twice the matching's integer weight.
    :param rounded: how many vertices have edges whose weights were rounded: that can cost half a
        step of the grid on each of half as many edges, of either matching.
    """
    if excess == rounded == 0:
        return 0.0
    if excess and certificate.most_edges:
        return math.inf
    gap = Fraction(excess + rounded, 2) * Fraction(2) ** certificate.exponent
    try:
        nearest = float(gap)
    except OverflowError:
        return math.inf
    return nearest if nearest >= gap else math.nextafter(nearest, math.inf)
