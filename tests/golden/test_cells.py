"""Worked examples: HiveD's Algorithm 1 and safety formula, and defects of its Go reference.

D1 and D9 are the names under which the defects of microsoft/hivedscheduler @ 66f26ac are known
here: found by running it, not to be repeated.
"""

import pytest
from cells.affinity_groups import start

from hivecore.cells import AffinityGroup, BuddyAllocator, CellCluster, Chain, ClusterSpec
from hivecore.errors import InfeasibleAssignmentError, NoFreeCellError

RACKS = Chain(levels=["gpu", "switch", "socket", "node", "rack"], fanouts=[2, 2, 2, 16], roots=4)
ROWS = Chain(levels=["node", "rack", "row"], fanouts=[2, 2], roots=2)


def test_the_chain_of_the_papers_micro_benchmark_has_65536_gpus():
    allocator = BuddyAllocator([2, 2, 2, 16], roots=512)
    assert allocator.levels == 5
    assert allocator.allocate_many([1] * 65_537)[-2:].tolist() == [65_535, -1]


def test_algorithm_1_splits_down_and_merges_up():
    allocator = BuddyAllocator([2, 2, 2], roots=1)  # one node: 2 sockets, 4 switches, 8 GPUs
    assert allocator.allocate(1) == 0
    assert allocator.free_counts().tolist() == [1, 1, 1, 0]
    assert allocator.allocate(2) == 1  # the buddy switch, not a part of the other socket
    assert allocator.free_counts().tolist() == [1, 0, 1, 0]
    with pytest.raises(NoFreeCellError, match="level=4"):
        allocator.allocate(4)
    allocator.release(1, 0)
    assert allocator.free_counts().tolist() == [0, 1, 1, 0]
    allocator.release(2, 1)
    assert allocator.free_counts().tolist() == [0, 0, 0, 1]


def served(cluster, name, tenant, *members, **options):
    """The leaves of each pod of a group that binds now."""
    return [pod.leaves for pod in start(cluster, name, tenant, members, **options).placement]


def test_a_split_lowers_s_by_one_on_the_levels_it_passes_and_nowhere_else():
    owned = {"A": {"V100": {"node": 30, "gpu": 2}}, "B": {"V100": {"rack": 1}}}
    cluster = CellCluster(ClusterSpec({"V100": RACKS}, owned))
    start = {"gpu": 142, "switch": 72, "socket": 36, "node": 18, "rack": 3}
    assert cluster.surplus("V100") == start

    served(cluster, "node", "A", (1, 8))  # splits a rack
    assert cluster.surplus("V100") == start | {"rack": 2}
    served(cluster, "gpus", "A", (2, 1))  # A's GPU cells, the smallest that serve
    assert cluster.unused_cells()["A"] == {"V100": {"node": 29, "gpu": 0}}
    assert cluster.surplus("V100") == start | {"rack": 2, "node": 17, "socket": 35, "switch": 71}

    cluster.release("node")
    cluster.release("gpus")
    assert cluster.surplus("V100") == start


def test_a_sum_of_free_cells_that_seems_to_do_is_not_enough():
    # Totals left (2 tops, 4 below) and owed (2, 1): 2 <= 2 and 1 <= 4, but S(below) = -1.
    with pytest.raises(InfeasibleAssignmentError, match="level 'node': 1 cell too few"):
        CellCluster(
            ClusterSpec(
                {"c": Chain(["node", "rack"], [2], 2)}, {"A": {"c": {"rack": 2, "node": 1}}}
            )
        )


@pytest.mark.parametrize(("racks", "nodes", "feasible"), [(3, 16, True), (3, 17, False)])
def test_an_exact_fit_is_feasible_and_one_more_is_not(racks, nodes, feasible):
    spec = ClusterSpec(
        {"V100": RACKS}, {"A": {"V100": {"rack": racks}}, "B": {"V100": {"node": nodes}}}
    )
    if feasible:
        cluster = CellCluster(spec)
        served(cluster, "nodes", "B", (16, 8))
        for rack in range(3):
            served(cluster, f"rack {rack}", "A", (16, 8), within="rack")
    else:
        with pytest.raises(InfeasibleAssignmentError, match="level 'node': 1 cell too few"):
            CellCluster(spec)


def test_two_small_jobs_share_one_owned_cell_and_keep_its_topology():
    cluster = CellCluster(
        ClusterSpec({"V100": RACKS}, {"A": {"V100": {"socket": 1}}, "B": {"V100": {"socket": 1}}})
    )
    assert served(cluster, "first", "A", (1, 2)) == [(0, 1)]
    assert served(cluster, "other", "B", (1, 1)) == [(4,)]
    assert served(cluster, "second", "A", (1, 2)) == [(2, 3)]
    assert cluster.schedule(AffinityGroup("more", "A", [(1, 1)])).outcome == "wait"


def mark_bad(cluster, leaf):
    cluster.set_health(f"c/{leaf}", False, leaf_index=0)


def test_d1_a_split_around_a_bad_node_leaves_cells_that_are_owed_alone():
    owned = {"A": {"c": {"node": 2}}, "B": {"c": {"rack": 3}}}
    cluster = CellCluster(ClusterSpec({"c": ROWS}, owned))
    ((first,),) = served(cluster, "first", "A", (1, 1))
    served(cluster, "rack", "B", (2, 1), within="rack")
    mark_bad(cluster, first + 1)
    # Row 1 is free and S(row) = 1, but its racks are owed to B: S(rack) = 0 forbids the split.
    assert cluster.surplus("c") == {"node": 0, "rack": 0, "row": 1}
    waits = cluster.schedule(AffinityGroup("second", "A", [(1, 1)]))
    assert [refusal.code for refusal in waits.refusals] == ["mapping"]
    for name in ("second rack", "third rack"):
        served(cluster, name, "B", (2, 1), within="rack")
    cluster.check()


def test_d1_where_nothing_is_owed_the_split_goes_around_the_bad_node():
    owned = {"A": {"c": {"node": 2}}, "B": {"c": {"rack": 2}}}
    cluster = CellCluster(ClusterSpec({"c": ROWS}, owned))
    ((first,),) = served(cluster, "first", "A", (1, 1))
    served(cluster, "rack", "B", (2, 1), within="rack")
    mark_bad(cluster, first + 1)
    assert cluster.surplus("c") == {"node": 2, "rack": 1, "row": 1}
    assert served(cluster, "second", "A", (1, 1)) == [(4,)]
    assert served(cluster, "second rack", "B", (2, 1), within="rack") == [(6,), (7,)]
    cluster.check()


def test_d9_a_chain_without_owners_of_cells_is_no_problem():
    cluster = CellCluster(ClusterSpec({"used": ROWS, "unused": RACKS}, {"A": {"used": {"row": 1}}}))
    for node in range(64):
        cluster.set_health(f"unused/{node}", False)
    assert cluster.surplus("unused")["gpu"] == 512
    waits = cluster.schedule(AffinityGroup("there", "A", [(1, 1)], leaf_type="gpu"))
    assert [refusal.code for refusal in waits.refusals] == ["no cells"]
    assert served(cluster, "here", "A", (4, 1), within="row") == [(0,), (1,), (2,), (3,)]
