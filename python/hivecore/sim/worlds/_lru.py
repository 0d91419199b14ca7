"""What one LRU cache serves of jobs that shuffle: the share of hits, by characteristic times.

LRU keeps what was read within the last tau seconds, where tau is such that this fills the cache
(Che, 2002). A job that reads its dataset once per epoch, in a new random order each time, reads an
item again after 1 - u + v epochs, u and v uniform in [0, 1]. Let tau be w epochs of the job: then
the next reading comes later with the probability S(w), and the last one was longer ago with Q(w):

    S(w) = 1 - w^2 / 2          Q(w) = 1 - w + w^3 / 6          for w <= 1
    S(w) = (2 - w)^2 / 2        Q(w) = (2 - w)^3 / 6            for w <= 2, and 0 beyond

Q is the integral of S from w on. So a read misses if neither the job itself nor any other job on
its dataset has read the item within tau: S of its own w times Q of the others'. Of a dataset all is
cached but the product of the Q of its jobs.
"""

import numpy as np

from hivecore.sim.worlds._readers import Floats, Indices

__all__ = ["lru_misses"]

_CLOSE = 1e-6  # of the cache
_STEPS = 60
_NEVER = 1e-300


def lru_misses(rates: Floats, dataset: Indices, sizes: Floats, capacity: float) -> Floats:
    """The share of what each job reads that is not in the cache, in the steady state.

    :param rates: float64[jobs], above 0, at which each reads; in any unit of size per time.
    :param dataset: int64[jobs].
    :param sizes: float64[datasets].
    :param capacity: of the cache, in the unit of ``sizes``.
    """
    read = np.bincount(dataset, minlength=len(sizes)) > 0
    if capacity <= 0.0:
        return np.ones(len(rates))
    if float(sizes[read].sum()) <= capacity:
        return np.zeros(len(rates))
    epochs = rates / sizes[dataset]
    # What is cached rises with tau, ever more slowly: Newton's steps stay below.
    tau = capacity / float(rates.sum())
    for _ in range(_STEPS):
        w = np.minimum(tau * epochs, 2.0)
        beyond = 2.0 - w
        again = np.where(w <= 1.0, 1.0 - w * w / 2.0, beyond * beyond / 2.0)
        unread = np.where(w <= 1.0, 1.0 - w + w**3 / 6.0, beyond**3 / 6.0)
        logs = np.log(np.maximum(unread, _NEVER))
        absent = np.bincount(dataset, logs, minlength=len(sizes))
        misses = again * np.exp(absent[dataset] - logs)
        lacking = capacity - float(sizes[read] @ -np.expm1(absent[read]))
        if lacking <= _CLOSE * capacity:
            break
        tau += lacking / float(rates @ misses)
    return misses
