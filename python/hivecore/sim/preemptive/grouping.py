"""Which candidates share GPUs: Muri's rounds of matchings.

A node is a group of jobs that need equally many GPUs, at first of one job. Each round matches the
nodes of each bucket (equal numbers of GPUs) by the efficiency of the groups that they would be, and
merges matched pairs only while all nodes together need more GPUs than the cluster has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hivecore.matching import max_weight_matching
from hivecore.sim.preemptive.interleaving import IterationTimes, Stages

__all__ = [
    "Bucket",
    "Grouping",
    "Matched",
    "Matcher",
    "Nodes",
    "exact_matching",
    "group_neighbours",
]

_RESOURCES = 4

#: Groups of jobs that need equally many GPUs.
Nodes = list[list[int]]

#: From weights[n][n] (0: no edge) to the partner of each node, -1 for none.
Matcher = Callable[[Sequence[Sequence[float]]], list[int]]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Candidates that need equally many GPUs.

    :param gpus: of each.
    :param candidates: jobs in order of priority.
    """

    gpus: int
    candidates: list[int]


#: From buckets and the GPUs of the cluster to the groups of each bucket, in order.
Grouping = Callable[[Sequence[Bucket], int], list[Nodes]]


def exact_matching(weights: Sequence[Sequence[float]]) -> list[int]:
    """Return the partner of each node by `hivecore.matching`.

    >>> exact_matching([[0, 6, 5], [6, 0, 8], [5, 8, 0]])
    [-1, 2, 1]
    """
    if len(weights) < 2:
        return [-1] * len(weights)
    upper = np.triu(np.array(weights, dtype=np.float64), 1)
    partners: list[int] = max_weight_matching(upper + upper.T).mate.tolist()
    return partners


class Matched:
    """The grouping by matchings.

    :param stages: per job.
    :param times: iteration times of groups of these jobs.
    :param largest: jobs in a group at most.
    :param matcher: finds a matching of the greatest weight.
    """

    def __init__(
        self, stages: Sequence[Stages], times: IterationTimes, largest: int, matcher: Matcher
    ) -> None:
        self._busy = [data + gpu + net for data, gpu, net in stages]
        self._times = times
        self._largest = largest
        self._matcher = matcher
        self._known: dict[tuple[int, ...], float] = {}

    def __call__(self, buckets: Sequence[Bucket], capacity: int) -> list[Nodes]:
        """Return the groups of each bucket, in the order of the last round."""
        nodes = [[[job] for job in bucket.candidates] for bucket in buckets]
        demand = sum(bucket.gpus * len(bucket.candidates) for bucket in buckets)
        for _ in range(self._largest):
            for number, bucket in enumerate(buckets):
                mate = self._matcher(self._weights(nodes[number]))
                nodes[number], merges = _merge(nodes[number], mate, bucket.gpus, demand - capacity)
                demand -= merges * bucket.gpus
            if demand <= capacity:
                break
        return nodes

    def _weights(self, nodes: Nodes) -> list[list[float]]:
        profile = self._times.profile
        kinds = [tuple([profile[job] for job in node]) for node in nodes]
        known, largest = self._known, self._largest
        weights = [[0.0] * len(nodes) for _ in nodes]
        for u, kind in enumerate(kinds):
            row = weights[u]
            for v, other in enumerate(kinds):
                if u != v and len(kind) + len(other) <= largest:
                    both = kind + other
                    weight = known.get(both)
                    if weight is None:
                        weight = known[both] = self._efficiency(nodes[u] + nodes[v])
                    row[v] = weight
        return weights

    def _efficiency(self, group: list[int]) -> float:
        """Return the share of time that the four resources are busy (a data stage counts once)."""
        return sum(self._busy[job] for job in group) / (self._times.of(group) * _RESOURCES)


def _merge(nodes: Nodes, mate: list[int], gpus: int, excess: int) -> tuple[Nodes, int]:
    """Return the nodes after a round, and how many pairs were merged.

    A pair stands where its second node stood, merged or, once no GPU is lacking, side by side.
    """
    merged: Nodes = []
    merges = 0
    for u, node in enumerate(nodes):
        v = mate[u]
        if v == -1:
            merged.append(node)
        elif v < u:
            if excess > merges * gpus:
                merged.append(nodes[v] + node)
                merges += 1
            else:
                merged += [nodes[v], node]
    return merged, merges


def group_neighbours(largest: int, buckets: Sequence[Bucket], capacity: int) -> list[Nodes]:
    """Return groups of jobs that follow each other in order of priority, without a matching.

    :param largest: jobs in a group at most.
    :param buckets: the candidates.
    :param capacity: GPUs of the cluster. Once they suffice, jobs stay alone, before their group.

    >>> group_neighbours(3, [Bucket(8, [5, 6, 7, 8])], 16)
    [[[5, 6, 7], [8]]]
    """
    demand = sum(bucket.gpus * len(bucket.candidates) for bucket in buckets)
    groups: list[Nodes] = []
    for bucket in buckets:
        found: Nodes = []
        for first in range(0, len(bucket.candidates), largest):
            base, *others = bucket.candidates[first : first + largest]
            group = [base]
            for job in others:
                if demand > capacity:
                    group.append(job)
                    demand -= bucket.gpus
                else:
                    found.append([job])
            found.append(group)
        groups.append(found)
    return groups
