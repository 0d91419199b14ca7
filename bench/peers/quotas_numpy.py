"""What one writes in NumPy to share amounts out among children: many parents of as many at once.

Exact as long as products of a weight and an amount are below 2^63.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def water_fill(amounts: Ints, requests: Ints, minimums: Ints, weights: Ints) -> Ints:
    """Runtimes of children that all lend.

    :param amounts: int64[parents].
    :param requests: int64[parents, children]; ``minimums`` and ``weights`` likewise.
    """
    hungry = requests > minimums
    runtimes = np.minimum(requests, minimums)
    left = amounts - runtimes.sum(1)
    while True:
        weight = np.where(hungry, weights, 0)
        total = weight.sum(1)
        rows = np.flatnonzero((left > 0) & (total > 0))
        if rows.size == 0:
            return runtimes
        parts, rests = np.divmod(weight[rows] * left[rows, None], total[rows, None])
        missing = left[rows] - parts.sum(1)
        if rows.size == 1:
            _one_more(parts[0], rests[0], int(missing[0]))
        else:
            order = np.argsort(-rests, axis=1, kind="stable")
            more = np.arange(parts.shape[1]) < missing[:, None]
            np.put_along_axis(parts, order, np.take_along_axis(parts, order, 1) + more, 1)
        given = runtimes[rows] + parts
        wanted = requests[rows]
        left[:] = 0
        left[rows] = np.where(hungry[rows], np.maximum(given - wanted, 0), 0).sum(1)
        runtimes[rows] = np.where(hungry[rows], np.minimum(given, wanted), runtimes[rows])
        hungry &= runtimes < requests


def _one_more(parts: Ints, rests: Ints, missing: int) -> None:
    """A unit for the largest remainders, the first of equals."""
    if missing:
        last = np.partition(rests, rests.size - missing)[rests.size - missing]
        above = rests > last
        parts += above
        parts[np.flatnonzero(rests == last)[: missing - int(above.sum())]] += 1
