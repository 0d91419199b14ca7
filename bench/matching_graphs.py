"""Graphs to match, family by family; weights are integers of at most 28 bits.

Sources: the interleaving efficiency and the stage durations are Muri's (Zhao et al., SIGCOMM'22,
and the traces of its artifact, Apache-2.0). The hard cards are H. N. Gabow's worst case (J. ACM 23,
1976) and, like the triangles, in the matching generators of the First DIMACS Challenge (R. B.
Mattingly, N. Ritchey, 1991). Chain, sparse delta and dense delta, where the duals move by many
small steps, are families of J. van Rantwijk (github.com/jorisvr/maximum-weight-matching).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

Int64 = npt.NDArray[np.int64]

SCALE = 2**26

# Milliseconds of data, GPU and network per iteration on eight GPUs: vgg16, vgg19, resnet18,
# shufflenet, bert, gpt2, a2c, dqn.
MURI_MODELS = np.array(
    [
        (82, 75, 66),
        (82, 88, 60),
        (784, 117, 77),
        (769, 57, 10),
        (0.5, 167, 59),
        (0.6, 419, 49),
        (502, 14, 0.4),
        (435, 8, 0.5),
    ]
)


class Graph(NamedTuple):
    """Vertices 0 to n - 1 and weighted edges; a tuple as `max_weight_matching` takes it."""

    n: int
    ends: Int64
    weights: Int64


def as_array(graph: Graph) -> Int64:
    """A complete graph as its symmetric array."""
    array = np.zeros((graph.n, graph.n), dtype=np.int64)
    u, v = graph.ends.T
    array[u, v] = array[v, u] = graph.weights
    return array


def is_complete(graph: Graph) -> bool:
    return len(graph.ends) == graph.n * (graph.n - 1) // 2


def complete(n: int, weights: Int64) -> Graph:
    return Graph(n, np.column_stack(np.triu_indices(n, 1)), weights)


def joined(n: int, *parts: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]) -> Graph:
    """The edges of all parts, each given as its ends and weights, which NumPy may broadcast."""
    rows = [np.column_stack([a.ravel() for a in np.broadcast_arrays(*part)]) for part in parts]
    edges = np.concatenate(rows).astype(np.int64)
    return Graph(n, edges[:, :2], edges[:, 2])


# --- dense


def uniform(n: int) -> Graph:
    return complete(n, np.random.default_rng(n).integers(1, SCALE, n * (n - 1) // 2))


def manhattan(n: int) -> Graph:
    """Far points of a seven-dimensional cube are to be paired."""
    points = np.random.default_rng(n).integers(0, SCALE // 8, (n, 7))
    return complete(n, pdist(points, "cityblock").astype(np.int64))


def ties(n: int) -> Graph:
    """Interleaving efficiencies of jobs of eight types: at most 36 different weights."""
    return interleaving(n, noise=0.0)


def noise(n: int) -> Graph:
    """The same with 2 % noise on each stage of each job: nearly equal weights everywhere."""
    return interleaving(n, noise=0.02)


def interleaving(n: int, noise: float) -> Graph:
    """The part of four resources that two jobs keep busy, in the best order that interleaves them.

    Stages last as in Muri's traces, where storage and CPU are one: half of it is taken for each.
    Job v runs `shift` stages behind job u, and after every stage each waits for the slower of the
    two. A shift of 0, both on one resource at once, is no order. (It would make the graph easy: a
    pair of one type would always come out at one half.)
    """
    rng = np.random.default_rng(n)
    data, gpu, network = MURI_MODELS.T
    models = np.column_stack([data / 2, data / 2, gpu, network])
    stages = models[rng.integers(len(models), size=n)] * (1 + noise * rng.uniform(-1, 1, (n, 4)))
    u, v = np.triu_indices(n, 1)
    period = np.full(len(u), np.inf)
    for shift in (1, 2, 3):
        slots = np.maximum(stages[u], np.roll(stages, shift, axis=1)[v])
        period = np.minimum(period, slots.sum(axis=1))
    busy = stages.sum(axis=1)
    return complete(n, ((busy[u] + busy[v]) / (4 * period) * SCALE).astype(np.int64))


# --- sparse


def random(n: int) -> Graph:
    """Five random edges per vertex."""
    rng = np.random.default_rng(n)
    ends = np.sort(rng.integers(n, size=(5 * n, 2)), axis=1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return Graph(n, ends, rng.integers(1, SCALE, len(ends)))


def nearest(n: int) -> Graph:
    """Each of n points in a square with its ten nearest; short edges are heavy."""
    points = np.random.default_rng(n).random((n, 2))
    _, neighbours = cKDTree(points).query(points, 11)
    ends = np.column_stack([np.repeat(np.arange(n), 10), neighbours[:, 1:].ravel()])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    return Graph(n, ends, ((1 - lengths) * SCALE).astype(np.int64))


def path(n: int) -> Graph:
    i = np.arange(n - 1)
    return joined(n, (i, i + 1, np.random.default_rng(n).integers(1, SCALE, n - 1)))


# --- adversarial


def chain(n: int) -> Graph:
    """A path of weights n, n + 1, ..., n: every other edge looks better, but is one too few."""
    i = np.arange(n - 1)
    return joined(n, (i, i + 1, n + i % 2))


def triangles(n: int) -> Graph:
    """n / 3 triangles in a row, each hung by one corner on the next; all edges weigh 1."""
    i = np.arange(n // 3)
    a, b, c = 3 * i, 3 * i + 1, 3 * i + 2
    corner = (a + i % 3)[:-1]
    return joined(n, (a, b, 1), (b, c, 1), (a, c, 1), (corner, corner + 3, 1))


def hard_cards(n: int) -> Graph:
    """k = n / 6: a clique of 4k vertices, every second one with a leaf; all edges weigh 1."""
    k = n // 6
    u, v = np.triu_indices(4 * k, 1)
    leaf = np.arange(2 * k)
    return joined(n, (u, v, 1), (2 * leaf, 4 * k + leaf, 1))


def sparse_delta(n: int) -> Graph:
    """Two hubs take turns at tightening their edges to the same p = n / 4 - 1 pairs.

    Every turn brings one more pair below a hub into the matching and needs p steps of the duals,
    since the edges of one hub are slack by as many different amounts when those of the other are
    tight. So n edges make for n^2 / 16 steps. n must be 4 modulo 8.
    """
    p = n // 4 - 1
    heavy = 8 * (p + 2) ** 2
    i = np.arange(p)
    parts = [(2 * i, 2 * i + 1, heavy - i)]
    for side in (0, 1):
        hub = 2 * p + 2 * side
        turn = np.arange(side, p, 2)
        low = 2 * p + 4 + 2 * turn
        parts += [
            (2 * i + 1, hub, heavy - p - side * (i + 1)),
            (hub, hub + 1, heavy - (side + 1) * (2 * p + 1)),
            (hub + 1, low, heavy - turn * (2 * p + 4) - 4 * p + 1),
            (low, low + 1, heavy - (turn + 1) * 8 * p - turn * 12),
        ]
    return joined(n, *parts)


def dense_delta(n: int) -> Graph:
    """p = n / 4 hubs that all know the same p pairs: each edge costs a step of the duals.

    The edges of one hub to the pairs are equally slack, those of the next one all differently.
    n must be a multiple of 4.
    """
    p = n // 4
    heavy = 2 * p * (p + 1)
    i, k = np.arange(p), np.arange(p)[:, None]
    hub = 2 * p + 2 * k
    return joined(
        n,
        (2 * i, 2 * i + 1, heavy - i),
        (hub, 2 * i, heavy - (k // 2 + 1) * (p + 1) + np.where(k % 2 == 0, 1, -i)),
        (hub, hub + 1, heavy - (k + 1) * (2 * p + 1)),
    )
