"""Names for the leaves of pods, beside the specification."""

import copy
from random import Random

import pytest

from hivecore._cells import PodNames
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec, PodPlacement

CHAINS = ("a", "b")
NODES = (("a0", "a1"), ("b0",))
DEVICES = (None, ((7, 5, 3),))


def make_names(**changes):
    given = {
        "record": PodPlacement,
        "chains": CHAINS,
        "nodes": NODES,
        "devices": DEVICES,
        "levels": ("rack", "node"),
        "offsets": [0, 8, 11],
        "per_node": [4, 3],
    } | changes
    return PodNames(*given.values())


@pytest.mark.parametrize(
    ("leaves", "pools", "expected"),
    [
        ([], None, ("", "", (), (), ())),
        ([5, 6], None, ("a", "a1", (1, 2), ("", ""), (5, 6))),
        ([0, 3], [0, 1], ("a", "a0", (0, 3), ("rack", "node"), (0, 3))),
        ([8, 10], [-1, 1], ("b", "b0", (7, 3), ("", "node"), (0, 2))),
        ([3, 4], None, ("a", "a0", (3, 0), ("", ""), (3, 4))),
        ([7, 9], [0, 0], ("a", "a1", (3, 5), ("rack", "rack"), (7, 1))),
    ],
)
def test_a_pod_has_the_names_of_its_leaves_also_when_it_is_torn(leaves, pools, expected):
    described = make_names().of_pod(leaves, pools)
    assert type(described) is PodPlacement
    assert described == expected


@pytest.mark.parametrize(
    ("leaves", "pools", "error", "message"),
    [
        ([11], None, ValueError, "no leaf 11"),
        ([0, 99], None, ValueError, "no leaf 99"),
        ([-1], None, ValueError, "leaves=-1"),
        ([0], [2], ValueError, "no pool 2"),
        ([0], [-2], ValueError, "pools=-2"),
        ([0], [0, 0], ValueError, "as many as leaves"),
        ([0.5], None, TypeError, "leaves"),
        (None, None, TypeError, "iterable"),
    ],
)
def test_leaves_and_pools_that_do_not_exist_are_refused(leaves, pools, error, message):
    with pytest.raises(error, match=message):
        make_names().of_pod(leaves, pools)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"record": dict}, TypeError, "record"),
        ({"nodes": NODES[:1]}, ValueError, "as many chains"),
        ({"offsets": [0, 8]}, ValueError, "as many chains"),
        ({"offsets": [1, 8, 11]}, ValueError, "as many chains"),
        ({"offsets": [0, 4, 11]}, ValueError, "offsets: chain 0"),
        ({"per_node": [4, 0]}, ValueError, "per_node=0"),
        ({"devices": (None, ((1, 2),))}, ValueError, "devices: chain 1"),
        ({"devices": (None, ())}, ValueError, "devices: chain 1"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        make_names(**changes)


def described(spec, leaves, levels):
    """The description of leaves of one chain, from the specification alone."""
    (name, chain), *_ = spec.chains.items()
    width = chain.leaves // len(chain.nodes)
    rows = chain.leaf_indices
    devices = [
        leaf % width if rows is None else rows[leaf // width][leaf % width] for leaf in leaves
    ]
    return PodPlacement(name, chain.nodes[leaves[0] // width], tuple(devices), levels, leaves)


@pytest.mark.parametrize("indices", [None, [[3, 1, 0, 2]] * 4])
def test_decisions_and_groups_describe_their_pods_as_the_specification_names_them(indices):
    nodes = [f"n{i}" for i in range(4)]
    chain = Chain(["gpu", "node", "rack"], [4, 2], 2, nodes=nodes, leaf_indices=indices)
    spec = ClusterSpec({"c": chain}, {"t": {"c": {"node": 2, "rack": 1}}})
    cluster, rng, seen = CellCluster(spec), Random(1), set()
    for i in range(200):
        sizes = [(rng.randint(1, 2), rng.randint(1, 4))]
        group = AffinityGroup(f"g{i}", "t", sizes, priority=rng.choice([-1, 0, 1]))
        decision = cluster.schedule(group)
        places = decision.places
        assert places == [(pod.node, pod.leaf_indices) for pod in decision.placement]
        if decision.outcome == "bind":
            cluster.commit(decision)
            assert decision.places == copy.copy(decision).places == places
            for placed in (decision.placement, cluster.group(group.name).placement):
                for pod in placed:
                    assert pod == described(spec, pod.leaves, pod.preassigned)
                    seen.update(pod.preassigned)
        for name in cluster.groups():
            if rng.random() < 0.3:
                cluster.release(name)
    assert seen == {"", "node", "rack"}
