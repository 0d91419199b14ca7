"""Worked examples: HiveD's Algorithm 1 and safety formula, and defects of its Go reference.

D1 and D9 are the names under which the defects of microsoft/hivedscheduler @ 66f26ac are known
here: found by running it, not to be repeated.
"""

import pytest

from hivecore.cells import BuddyAllocator, Chain, ClusterSpec, VirtualClusters
from hivecore.errors import (
    InfeasibleAssignmentError,
    NoFreeCellError,
    NoHealthyCellError,
    QuotaExceededError,
)

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


def test_a_split_lowers_s_by_one_on_the_levels_it_passes_and_nowhere_else():
    owned = {"A": {"V100": {"node": 30, "gpu": 2}}, "B": {"V100": {"rack": 1}}}
    clusters = VirtualClusters(ClusterSpec({"V100": RACKS}, owned))
    start = {"gpu": 142, "switch": 72, "socket": 36, "node": 18, "rack": 3}
    assert clusters.surplus("V100") == start

    node = clusters.allocate("A", "V100", "node")  # splits a rack
    assert clusters.surplus("V100") == start | {"rack": 2}
    gpu = clusters.allocate_many("A", "V100", "gpu", 2)  # first A's GPU cells, lowest level
    assert [cell.owned_level for cell in gpu] == ["gpu", "gpu"]
    assert clusters.surplus("V100") == start | {"rack": 2, "node": 17, "socket": 35, "switch": 71}

    clusters.release_many([node, *gpu])
    assert clusters.surplus("V100") == start


def test_a_sum_of_free_cells_that_seems_to_do_is_not_enough():
    # Totals left (2 tops, 4 below) and owed (2, 1): 2 <= 2 and 1 <= 4, but S(below) = -1.
    with pytest.raises(InfeasibleAssignmentError, match="level 'node': 1 cell too few"):
        VirtualClusters(
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
        clusters = VirtualClusters(spec)
        assert len(clusters.allocate_many("B", "V100", "node", 16)) == 16
        assert len(clusters.allocate_many("A", "V100", "rack", 3)) == 3
    else:
        with pytest.raises(InfeasibleAssignmentError, match="level 'node': 1 cell too few"):
            VirtualClusters(spec)


def test_two_small_jobs_share_one_owned_cell_and_keep_its_topology():
    clusters = VirtualClusters(
        ClusterSpec({"V100": RACKS}, {"A": {"V100": {"socket": 1}}, "B": {"V100": {"socket": 1}}})
    )
    first = clusters.allocate("A", "V100", "switch")
    other = clusters.allocate("B", "V100", "gpu")
    second = clusters.allocate("A", "V100", "switch")
    assert (first.leaves, second.leaves) == (range(0, 2), range(2, 4))
    assert other.leaves == range(4, 5)
    with pytest.raises(QuotaExceededError):
        clusters.allocate("A", "V100", "gpu")


def test_binding_avoids_opportunistic_work_as_long_as_it_can():
    clusters = VirtualClusters(ClusterSpec({"V100": RACKS}, {"A": {"V100": {"rack": 4}}}))
    spare = clusters.allocate_opportunistic("A", "V100", "gpu")
    assert spare.leaves == range(511, 512)
    racks = clusters.allocate_many("A", "V100", "rack", 3)
    assert [cell.index for cell in racks] == [0, 1, 2]
    # The last rack is bound around it, node by node, socket by socket.
    for level, index in [("node", 48), ("socket", 98), ("switch", 198), ("gpu", 398)]:
        cell = clusters.allocate("A", "V100", level)
        assert (cell.index, cell.preempted) == (index, ())
    # 16 nodes: one is in use in part, one holds the spare GPU; the 15th free one must take it.
    assert [c.preempted for c in clusters.allocate_many("A", "V100", "node", 14)][:13] == [()] * 13
    assert spare not in clusters.cells()


def test_d1_a_split_around_a_bad_node_leaves_cells_that_are_owed_alone():
    owned = {"A": {"c": {"node": 2}}, "B": {"c": {"rack": 3}}}
    clusters = VirtualClusters(ClusterSpec({"c": ROWS}, owned))
    first = clusters.allocate("A", "c", "node")
    clusters.allocate("B", "c", "rack")
    clusters.set_health("c", ("node", first.index + 1), False)
    # Row 1 is free and S(row) = 1, but its racks are owed to B: S(rack) = 0 forbids the split.
    assert clusters.surplus("c") == {"node": 0, "rack": 0, "row": 1}
    with pytest.raises(NoHealthyCellError):
        clusters.allocate("A", "c", "node")
    assert len(clusters.allocate_many("B", "c", "rack", 2)) == 2
    clusters.check()


def test_d1_where_nothing_is_owed_the_split_goes_around_the_bad_node():
    owned = {"A": {"c": {"node": 2}}, "B": {"c": {"rack": 2}}}
    clusters = VirtualClusters(ClusterSpec({"c": ROWS}, owned))
    first = clusters.allocate("A", "c", "node")
    clusters.allocate("B", "c", "rack")
    clusters.set_health("c", ("node", first.index + 1), False)
    assert clusters.surplus("c") == {"node": 2, "rack": 1, "row": 1}
    assert clusters.allocate("A", "c", "node").index == 4
    assert clusters.allocate("B", "c", "rack").index == 3
    clusters.check()


def test_d9_a_chain_that_nobody_owns_cells_of_is_no_problem():
    clusters = VirtualClusters(
        ClusterSpec({"used": ROWS, "unused": RACKS}, {"A": {"used": {"row": 1}}})
    )
    clusters.set_health("unused", range(512), False)
    assert clusters.surplus("unused")["gpu"] == 512
    with pytest.raises(QuotaExceededError):
        clusters.allocate("A", "unused", "gpu")
    assert clusters.allocate("A", "used", "row").index == 0


def small(fanouts, roots, **owned):
    """A chain of gpu, pair and node; `owned` are the cells of one tenant."""
    levels = ["gpu", "pair", "node"][: len(fanouts) + 1]
    return VirtualClusters(ClusterSpec({"c": Chain(levels, fanouts, roots)}, {"A": {"c": owned}}))


def test_a_split_goes_to_the_child_without_opportunistic_work():
    clusters = small([2], 1, gpu=1)
    spare = clusters.allocate_opportunistic_many("A", "c", "gpu", 2)
    clusters.release(spare[0])
    assert clusters.allocate("A", "c", "gpu").index == spare[0].index == 1


def test_an_owned_cell_is_bound_to_the_healthiest_hardware():
    clusters = small([2], 2, pair=2)
    clusters.set_health("c", ("gpu", 0), False)
    assert clusters.allocate("A", "c", "gpu").index == 2
    clusters.allocate_many("A", "c", "gpu", 2)  # GPU 3, then the good half of pair 0
    with pytest.raises(NoHealthyCellError):
        clusters.allocate("A", "c", "gpu")


def test_inside_an_owned_cell_the_healthiest_part_comes_first():
    clusters = small([2, 2], 1, node=1)
    clusters.set_health("c", ("gpu", 0), False)
    assert clusters.allocate("A", "c", "gpu").index == 2


def test_a_request_is_not_served_by_hardware_that_is_bad_in_part():
    unbound = small([2, 2], 1, node=1)
    unbound.set_health("c", ("gpu", 0), False)
    unbound.set_health("c", ("gpu", 2), False)
    bound = small([2, 2], 1, node=1)
    bound.allocate("A", "c", "pair")
    bound.set_health("c", ("gpu", 2), False)
    for clusters in (unbound, bound):
        with pytest.raises(NoHealthyCellError):
            clusters.allocate("A", "c", "pair")


def test_another_owned_cell_serves_where_the_first_has_bad_hardware_left():
    clusters = small([2], 2, pair=2)
    held = clusters.allocate_many("A", "c", "gpu", 3)
    clusters.release(held[1])
    clusters.set_health("c", ("gpu", held[1].index), False)
    cell = clusters.allocate("A", "c", "gpu")
    assert (cell.index, cell.virtual_index) == (3, 3)


def test_a_gang_that_bad_hardware_refuses_leaves_nothing_bound():
    clusters = small([2], 2, pair=2)
    clusters.set_health("c", ("pair", 0), False)
    before = clusters.to_bytes()
    with pytest.raises(NoHealthyCellError):
        clusters.allocate_many("A", "c", "pair", 2)
    assert clusters.to_bytes() == before
    assert clusters.free_counts("c").tolist() == [0, 2]
    assert clusters.surplus("c") == {"gpu": 0, "pair": 0}


def test_opportunistic_work_goes_where_guaranteed_work_would_go_last():
    beside_a_root = small([2], 2, pair=1)
    beside_a_root.allocate("A", "c", "gpu")  # GPU 1 is idle, but A would use it next
    assert beside_a_root.allocate_opportunistic("A", "c", "gpu").index == 3
    highest = small([2], 3, gpu=1)
    highest.allocate("A", "c", "gpu")  # GPU 1 is listed below the pairs 1 and 2
    assert highest.allocate_opportunistic("A", "c", "gpu").index == 5
    inside = small([2, 2], 1, node=1)
    pair = inside.allocate("A", "c", "pair")
    inside.allocate("A", "c", "gpu")
    inside.release(pair)  # pair 0 is unbound again, pair 1 is in use in part
    assert inside.allocate_opportunistic("A", "c", "gpu").index == 1


def test_owned_cells_far_apart_are_all_tried():
    clusters = small([2], 200, pair=200)
    gpus = clusters.allocate_many("A", "c", "gpu", 400)
    clusters.release_many(gpus[1::2])
    for cell in gpus[1:-1:2]:
        clusters.set_health("c", ("gpu", cell.index), False)
    assert clusters.allocate("A", "c", "gpu").virtual_index == 399
