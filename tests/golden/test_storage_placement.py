"""Worked numbers: placement near data."""

import itertools

import numpy as np
import pytest

from hivecore.storage import place_near_data

HELD, FREE = [0, 50, 0, 50, 0], [4, 4, 4, 4, 4]


def test_a_second_job_goes_to_the_holders():
    """Nodes 1 and 3 hold the dataset."""
    placement = place_near_data(HELD, FREE, 8, 100)
    assert (placement.nodes, placement.gpus) == ((1, 3), (4, 4))
    assert (placement.local_gb, placement.peer_gb, placement.remote_gb) == (50, 50, 0)
    assert placement.cost == 50  # peer reads weigh 1


def test_more_gpus_than_the_holders_have_take_another_node():
    placement = place_near_data(HELD, [0, 4, 0, 4, 4], 12, 100)
    assert (placement.nodes, placement.gpus) == ((1, 3, 4), (4, 4, 4))


def every_placement(cached, free, gpus):
    """(local, nodes) for every node set that the job can run on, with its best split of GPUs."""
    usable = [node for node, space in enumerate(free) if space]
    for count in range(1, len(usable) + 1):
        for nodes in itertools.combinations(usable, count):
            if sum(free[node] for node in nodes) >= gpus >= count:
                rest, local = gpus - count, sum(cached[node] for node in nodes)
                for node in sorted(nodes, key=lambda node: -cached[node]):
                    more = min(free[node] - 1, rest)
                    local += more * cached[node]
                    rest -= more
                yield local / gpus, nodes


def plain_greedy(cached, free, gpus):
    """The usual rule: most cached, then most free, then lowest id, until there are enough GPUs."""
    chosen = []
    for node in sorted(range(len(free)), key=lambda n: (-cached[n], -free[n], n)):
        if gpus > 0 and free[node]:
            chosen.append(node)
            gpus -= free[node]
    return tuple(sorted(chosen))


def test_placement_is_the_lexicographic_optimum_and_the_plain_greedy_nearly():
    rng = np.random.default_rng(11)
    same = total = 0
    for _ in range(600):
        n = int(rng.integers(1, 8))
        cached = (rng.integers(0, int(rng.integers(1, 4)), n) * 10).tolist()
        free = rng.integers(0, int(rng.integers(2, 12)), n).tolist()
        gpus = int(rng.integers(1, 20))
        placement = place_near_data(cached, free, gpus, 60)
        options = list(every_placement(cached, free, gpus))
        assert (placement is None) == (not options)
        if placement is None:
            continue

        def rank(option, free=free, gpus=gpus):
            local, nodes = option
            return -local, len(nodes), sum(free[node] for node in nodes) - gpus, nodes

        best = min(options, key=rank)
        assert placement.nodes == best[1]
        assert placement.local_gb == pytest.approx(best[0])
        assert sum(placement.gpus) == gpus
        assert placement.fragmentation == sum(free[node] for node in best[1]) - gpus
        greedy = plain_greedy(cached, free, gpus)
        reached = next(rank(option) for option in options if option[1] == greedy)
        assert reached[:2] == pytest.approx(rank(best)[:2])  # local bytes and nodes: always
        total += 1
        same += greedy == placement.nodes
    assert 0.6 < same / total < 1


def test_the_plain_greedy_wastes_a_large_hole_on_a_small_job():
    assert plain_greedy([10, 10, 10], [8, 3, 2], 2) == (0,)
    assert place_near_data([10, 10, 10], [8, 3, 2], 2, 30).nodes == (2,)
