"""Whole nodes on a tree of switches: as few leaves as by the rule of Slurm's topology/tree."""

from itertools import product

import pytest

from hivecore.topology import NetworkTopology, TopologyRequest

LEAVES, NODES = 4, 4


def leaves_by_best_fit(free, count):
    """Again and again the smallest leaf that holds the rest, or else the largest."""
    left, used = sorted(free), 0
    while count > 0:
        leaf = next((size for size in left if size >= count), left[-1])
        left.remove(leaf)
        count, used = count - leaf, used + 1
    return used


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 9])
def test_no_job_is_under_more_leaves(count):
    names = {f"n{leaf}{i}": {"leaf": f"l{leaf}"} for leaf in range(LEAVES) for i in range(NODES)}
    network = NetworkTopology(["leaf"], names)
    for free in product(range(NODES + 1), repeat=LEAVES):
        if sum(free) >= count:
            network.set_slots([int(i < size) for size in free for i in range(NODES)])
            ranks = network.schedule(TopologyRequest("job", count)).ranks
            used = {network.domain(node)[0] for node in ranks}
            assert len(used) == leaves_by_best_fit(free, count)
