"""What comes back: the pairs, their weight, and the proof."""

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hivecore.errors import CertificateError
from hivecore.matching.certificate import Certificate, verify_certificate
from hivecore.matching.graph import Graph, Int64

__all__ = ["Matching", "rounding_gap", "total_weight"]


@dataclass(frozen=True, eq=False)
class Matching:
    """A matching and the proof that none is better; all arrays are read-only.

    >>> import numpy as np
    >>> from hivecore.matching import max_weight_matching
    >>> found = max_weight_matching(np.array([[0, 5, 9], [5, 0, 8], [9, 8, 0]]))
    >>> found.pairs.tolist(), found.weight, found.mate.tolist()
    ([[0, 2]], 9, [2, -1, 0])
    >>> found.verify()
    True
    """

    mate: Int64
    """int64[n], the other vertex of the pair; -1: free."""
    pairs: Int64
    """int64[cardinality, 2], the smaller vertex first, ascending."""
    weight: int | float
    """The sum of the pairs' weights as given: an int if those are integers, else a float."""
    exact: bool
    """Whether the weights were used as they are; else floats were rounded to a grid."""
    gap_bound: float
    """By how much the best matching may be better; 0.0 if ``exact``."""
    certificate: Certificate
    """The duals that prove it."""
    _graph: Graph = field(repr=False)

    @property
    def cardinality(self) -> int:
        """The number of pairs."""
        return len(self.pairs)

    def verify(self) -> Literal[True]:
        """Prove from scratch that no matching is better, and that all fields fit together.

        Uses NumPy and integers only, never the kernel. The graph is seen as it is now: an array
        that has been written to since is found out.

        :raises CertificateError: something fails; it says what.

        O(m), for a dense array O(n^2) with a bounded amount of memory beside it.
        """
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
        verify_certificate(self._graph, mate, self.certificate, self.exact)
        weight = total_weight(weights)
        if type(self.weight) is not type(weight) or self.weight != weight:
            raise CertificateError(f"weight={self.weight}, but the pairs weigh {weight}")
        gap = 0.0 if self.exact else rounding_gap(n, self.certificate.exponent)
        if self.gap_bound != gap:
            raise CertificateError(f"gap_bound={self.gap_bound}, but the grid gives {gap}")
        return True


def total_weight(weights: npt.NDArray[Any]) -> int | float:
    """The sum: of integers without overflow, of floats rounded once."""
    if weights.dtype.kind in "iu":
        total: int = sum(weights.tolist())
        return total
    addends = weights.tolist()
    with contextlib.suppress(OverflowError):
        return math.fsum(addends)
    scaled = math.fsum(weight * 2.0**-64 for weight in addends)
    try:
        return math.ldexp(scaled, 64)
    except OverflowError:
        return math.copysign(math.inf, scaled)


def rounding_gap(n: int, exponent: int) -> float:
    """What rounding to a grid can cost: half a step on each of n/2 edges, of either matching."""
    return math.ldexp(n / 2, exponent)
