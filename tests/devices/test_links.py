"""Links between GPUs: kernel against twin, and both against all sets of GPUs."""

import random
from functools import cache
from itertools import combinations

import pytest
from devices.cases import flapped, machine, request
from devices.twin import POLICIES, Pair
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    GpuLinks,
    NodeDevices,
    Partition,
    PartitionTable,
)
from hivecore.devices.proof import check_placement
from hivecore.errors import CertificateError
from hivecore.scheduler import Job, Role, plain_record, record_of_plain

WHOLE = {"core": 100, "memory_ratio": 100}


def some_links(rng, gpus):
    """Links of a random machine: sparse, dense, all equal, or islands."""
    kind, most = rng.choice(("sparse", "dense", "equal", "islands")), rng.choice((1, 2, 4))
    counts = [[0] * gpus for _ in range(gpus)]
    for i, j in combinations(range(gpus), 2):
        count = {
            "sparse": rng.choice((0, 0, 0, rng.randint(1, most))),
            "dense": rng.choice((0, most, rng.randint(1, most))),
            "equal": most,
            "islands": most * (i // 2 == j // 2 if gpus < 6 else i // 4 == j // 4),
        }[kind]
        counts[i][j] = counts[j][i] = count
    return GpuLinks(counts)


def linked_request(rng, inventory, name="new"):
    wish = request(rng, inventory, name)
    need = wish.need("gpu")
    if need is None or need.shared or need.every:
        return wish
    return wish.replace(links=rng.choice((None, "island", "all")), bandwidth=None)


@examples(300)
@given(st.integers(0, 2**32))
def test_every_answer_of_a_node_with_links_is_the_twin_s(seed):
    rng = random.Random(seed)
    node = machine(rng)
    links = some_links(rng, rng.choice((8, 8, len(node.of_type("gpu")))))
    pair = Pair(node.replace(partitions=None, links=links))
    for step in range(rng.randint(1, 10)):
        act = rng.random()
        if act < 0.15 and pair.owners:
            pair.release(rng.choice(sorted(pair.owners)))
        elif act < 0.25:
            pair.set_inventory(flapped(rng, pair.twin.inventory))
        else:
            plan = pair.ask(linked_request(rng, pair.twin.inventory), rng.choice(POLICIES))
            if plan is not None:
                pair.commit(f"owner{step}", plan)
        pair.check()


def total(counts, some):
    return sum(counts[i][j] for i, j in combinations(some, 2))


@cache
def best_sets(counts, size):
    """The links of the best sets of so many GPUs, and these sets."""
    sums = {some: total(counts, some) for some in combinations(range(len(counts)), size)}
    best = max(sums.values(), default=0)
    return best, [some for some in sums if sums[some] == best]


def whole(counts, free, least):
    """How many of the best sets of 2, 4 and 8 GPUs are free, the larger ones first; none smaller
    than the request.
    """
    left = 0
    for size, weight in ((2, 1), (4, 100), (8, 10_000)):
        best, sets = best_sets(counts, size)
        left += weight * best * sum(map(free.issuperset, sets)) if size >= least else 0
    return left


def is_linked(counts, some, wish):
    if wish == "all":
        return all(counts[i][j] for i, j in combinations(some, 2))
    reached, before = {some[0]}, set()
    while reached != before:
        before = reached
        reached = reached | {i for i in some if any(counts[i][j] for j in reached)}
    return wish is None or len(reached) == len(some)


@examples(150)
@given(st.integers(0, 2**32), st.integers(1, 16), st.sampled_from((None, "island", "all")))
def test_of_up_to_16_gpus_that_set_is_taken_that_is_the_best_of_all(seed, gpus, wish):
    rng = random.Random(seed)
    links = some_links(rng, gpus)
    count = rng.randint(1, min(gpus, 2 if rng.random() < 0.5 else 5))
    used = [i for i in range(gpus) if rng.random() < 0.3]
    free = set(range(gpus)) - set(used)
    node = NodeDevices([Device("gpu", minor, WHOLE) for minor in range(gpus)], links=links)
    cluster = DeviceCluster({"n": node})
    held = [DeviceAllocation("gpu", minor, WHOLE) for minor in used]
    cluster.recover("others", "n", held)
    decision = cluster.schedule(DeviceRequest("pod", gpus=count, links=wish))

    able = [
        some
        for some in combinations(sorted(free), count)
        if count == 1 or is_linked(links.counts, some, wish)
    ]
    assert (decision.outcome == "bind") == bool(able)
    if able:
        decision.verify(node, held)
        taken = tuple(allocation.minor for allocation in decision.placement)
        assert total(links.counts, taken) == max(total(links.counts, some) for some in able)
        kept = {some: whole(links.counts, free - set(some), count) for some in able}
        best = [some for some in able if total(links.counts, some) == total(links.counts, taken)]
        assert kept[taken] == max(kept[some] for some in best)


def test_equal_links_of_16_gpus_are_chosen_among_in_no_time():
    links = GpuLinks([[6 * (i != j) for j in range(16)] for i in range(16)])
    node = NodeDevices(NodeDevices.uniform(gpus=16, sockets=2, switches=8).devices, links=links)
    cluster = DeviceCluster({"n": node})
    first, second = (DeviceRequest(name, gpus=8, links="all") for name in "ab")
    assert cluster.allocate(first, "n").minors == (("gpu", tuple(range(8))),)
    assert cluster.allocate(second, "n").minors == (("gpu", tuple(range(8, 16))),)


def test_a_mapping_of_partitions_says_by_its_links_whether_all_are_linked():
    rows = [Partition((0, 1), link="NVLink"), Partition((2, 3), 2)]
    node = NodeDevices(NodeDevices.uniform(gpus=4).devices, PartitionTable(rows))
    cluster = DeviceCluster({"n": node})
    assert cluster.schedule(DeviceRequest("a", gpus=2)).minors == (("gpu", (2, 3)),)
    assert cluster.schedule(DeviceRequest("a", gpus=2, links="all")).minors == (("gpu", (0, 1)),)


BRIDGES = NodeDevices(
    NodeDevices.uniform(gpus=4).devices,
    links=GpuLinks([[0, 12, 0, 0], [12, 0, 0, 0], [0, 0, 0, 12], [0, 0, 12, 0]]),
)


def test_a_request_that_waits_says_how_many_sets_would_do_and_what_to_give_up():
    cluster = DeviceCluster({"n": BRIDGES})
    cluster.recover("a", "n", [DeviceAllocation("gpu", minor, WHOLE) for minor in (0, 2)])
    why = cluster.explain(DeviceRequest("pair", gpus=2, links="all"))
    assert why.shortages[0].detail == "one of 2 partitions of 2 wanted, idle are [1, 3]"
    assert not why.impossible
    why = cluster.explain(DeviceRequest("three", gpus=3, links="island"))
    assert why.impossible
    idle = DeviceCluster({"n": BRIDGES})
    pairs = [DeviceRequest(name, gpus=2, links="all") for name in "abc"]
    assert idle.impossible(pairs[:2]) == ""
    assert idle.impossible(pairs) != ""
    change = idle.explain(DeviceRequest("four", gpus=4, links="all")).changes[0]
    assert (change.relaxed, change.request.links) == (("partition",), None)


def test_a_proof_refuses_gpus_that_are_not_linked():
    decision = DeviceCluster({"n": BRIDGES}).schedule(DeviceRequest("pair", gpus=2))
    linked = decision.request.replace(links="all")
    check_placement(linked, decision.placement, BRIDGES, ())
    square = [[0, 0, 12, 0], [0, 0, 0, 12], [12, 0, 0, 0], [0, 12, 0, 0]]
    crossed = BRIDGES.replace(links=GpuLinks(square))
    with pytest.raises(CertificateError, match=r"the GPUs \[0, 1\] are no partition"):
        check_placement(linked, decision.placement, crossed, ())


def test_states_and_logs_keep_links():
    cluster = DeviceCluster({"n": BRIDGES, "m": NodeDevices.uniform(gpus=4)})
    again = DeviceCluster.from_bytes(cluster.to_bytes())
    assert again.inventory("n").links == BRIDGES.links
    assert again.inventory("m").links is None
    wish = DeviceRequest("pair", gpus=2, links="all")
    assert again.filter(wish).fitting == ("n",)
    job = Job("a", "team", [Role("worker", devices=wish)])
    assert record_of_plain(Job, plain_record(job)).roles[0].devices.links == "all"
    assert record_of_plain(NodeDevices, plain_record(BRIDGES)) == BRIDGES


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: GpuLinks([[0, 1], [2, 0]]), r"counts\[0\]\[1\]=1: must be as counts\[1\]\[0\]=2"),
        (lambda: GpuLinks([[1]]), r"counts\[0\]\[0\]"),
        (lambda: GpuLinks([[0, 1]]), r"counts: rows of \[2\] numbers"),
        (lambda: GpuLinks([[0, -1], [-1, 0]]), r"counts\[0\]\[1\]"),
        (lambda: GpuLinks([[0] * 17] * 17), "counts: rows of .* no square of 16"),
        (lambda: GpuLinks(5), "counts"),
        (lambda: GpuLinks([5]), r"counts\[0\]"),
        (lambda: NodeDevices(NodeDevices.uniform(17).devices, links=GpuLinks([])), "GPUs=17"),
        (lambda: BRIDGES.replace(partitions=PartitionTable([])), "partitions, links"),
        (lambda: BRIDGES.replace(links=[[0]]), "links"),
        (lambda: DeviceRequest("x", 2, links="ring"), "links"),
        (lambda: DeviceRequest("x", 2, memory=1, links="all"), "links: only whole GPUs"),
        (lambda: DeviceRequest("x", nics=1, links="all"), "links: only whole GPUs"),
    ],
)
def test_wrong_links_are_refused_by_name(make, error):
    with pytest.raises((ValueError, TypeError), match=error):
        make()
