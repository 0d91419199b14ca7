"""Hints of NUMA nodes against allocations on them, and their merging against Koordinator's.

Koordinator walks through all combinations of hints, and breaks ties by their order. `Combinations`
walks through them, too, but ranks each by itself.
"""

import random
from itertools import combinations, product

import hypothesis.strategies as st
from devices.cases import machine, request
from hypothesis import given
from peers.koordinator_numa import Hint, merge_hints
from profiles import examples

from hivecore.devices import DeviceCluster, NumaHint, NumaMerge, merge_numa_hints

POLICIES = ("best-effort", "restricted", "single-numa-node")
#: The numbers of a machine's NUMA nodes.
MACHINES = ((0,), (3,), (0, 1), (2, 900), (0, 1, 2), (1, 4, 5), (0, 1, 2, 3), (1, 7, 30, 31))


SEEDS = st.integers(0, 2**32 - 1)


def merge(seed):
    """A machine's NUMA nodes, the hints of resources, some of them equal, a policy and kinds."""
    rng = random.Random(seed)
    nodes = rng.choice(MACHINES)
    preferring, scoring = rng.random(), rng.choice((0, 0.3, 1))
    lists = [None]
    for _ in range(rng.randint(1, 3)):
        hints = [
            NumaHint(
                rng.sample(nodes, rng.randint(1, len(nodes))),
                rng.random() < preferring,
                rng.choice((1, 2, 500)) if rng.random() < scoring else 0,
            )
            for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6)))
        ]
        lists += [hints] * 3
    kinds = {node: rng.choice(("single", "shared")) for node in nodes if rng.random() < 0.4}
    hints = rng.choices(lists, k=rng.randint(0, 4))
    return nodes, hints, rng.choice(POLICIES), rng.choice((None, kinds))


def merged(nodes, hints, policy, kinds):
    resources = {f"resource {i}": hint for i, hint in enumerate(hints)}
    return merge_numa_hints(nodes, resources, policy, kinds=kinds)


def merged_by_koordinator(nodes, hints, policy, kinds):
    """Koordinator's answer, which names all NUMA nodes in two ways."""
    given = [
        item if item is None else [Hint(hint.nodes, hint.preferred, hint.score) for hint in item]
        for item in hints
    ]
    result, admitted = merge_hints(nodes, given, policy, kinds)
    return NumaMerge(None if result == nodes else result, admitted)


class Combinations:
    """All combinations in their order, each as (rank, whether each of its hints names the set)."""

    def __init__(self, nodes, hints, policy, kinds):
        self.everywhere = frozenset(nodes)
        self.policy = policy
        self.kinds = kinds
        self.no_way = any(hint is not None and not hint for hint in hints)
        lists = [hint for hint in hints if hint is not None]
        if policy == "single-numa-node":
            lists = [[h for h in item if h.preferred and len(h.nodes) == 1] for item in lists]
        self.found = [self.default()]
        if not self.no_way:
            self.found += filter(None, map(self.ranked, product(*lists)))

    def default(self):
        return (True, len(self.everywhere), 0, sum(1 << n for n in self.everywhere)), True

    def ranked(self, hints):
        sets = [frozenset(hint.nodes) for hint in hints]
        common = self.everywhere.intersection(*sets)
        if not common:
            return None
        agreed = len({common, *sets}) == 1
        preferred = agreed and all(hint.preferred for hint in hints) and self.is_allowed(common)
        score = sum(h.score for h, item in zip(hints, sets, strict=True) if item == common)
        return (not preferred, len(common), -score, sum(1 << n for n in common)), agreed

    def is_allowed(self, nodes):
        wrong = "shared" if len(nodes) == 1 else "single"
        return self.kinds is None or wrong not in {self.kinds.get(node) for node in nodes}

    @property
    def best(self):
        return min(self.found, key=lambda place: (place[0], not place[1]))

    @property
    def answer(self):
        (unpreferred, _, _, bits), agreed = self.best
        nodes = tuple(sorted(node for node in self.everywhere if bits >> node & 1))
        lenient = self.policy == "best-effort"
        if len(nodes) == len(self.everywhere) or (lenient and not agreed):
            nodes = None
        return NumaMerge(nodes, lenient or not unpreferred)

    @property
    def best_wins_in_order(self):
        """Whether it also wins where each later combination does that is as good but for its score,
        and lower, or has a higher score: it comes after all lower ones, and agreed as it is.
        """
        rank, agreed = self.best
        alike = [item for item in self.found if item[0][:2] == rank[:2]]
        lower = [i for i, (other, _) in enumerate(alike) if other[3] < rank[3]]
        after = [its for other, its in alike[lower[-1] + 1 if lower else 0 :] if other == rank]
        return after[:1] == [agreed]


@examples(1500)
@given(SEEDS)
def test_a_merge_is_the_best_of_all_combinations(seed):
    case = merge(seed)
    assert merged(*case) == Combinations(*case).answer


@examples(1500)
@given(SEEDS)
def test_the_order_of_hints_and_resources_does_not_matter(seed):
    nodes, hints, policy, kinds = merge(seed)
    rng = random.Random(seed)
    mixed = [item and rng.sample(item, len(item)) for item in rng.sample(hints, len(hints))]
    result = merged(rng.sample(nodes, len(nodes)), mixed, policy, kinds)
    assert result == merged(nodes, hints, policy, kinds)


@examples(1500)
@given(SEEDS)
def test_koordinator_admits_the_same_pods(seed):
    case = merge(seed)
    assert merged(*case).admitted == merged_by_koordinator(*case).admitted


@examples(1500)
@given(SEEDS)
def test_koordinator_merges_alike_where_the_best_wins_in_its_order(seed):
    case = merge(seed)
    if Combinations(*case).best_wins_in_order:
        assert merged(*case) == merged_by_koordinator(*case)


@examples(1500)
@given(SEEDS)
def test_koordinator_merges_alike_where_nothing_has_a_score_and_small_sets_come_first(seed):
    nodes, hints, policy, kinds = merge(seed)
    plain = [
        hint and sorted((NumaHint(h.nodes, h.preferred) for h in hint), key=lambda h: len(h.nodes))
        for hint in hints
    ]
    case = nodes, plain, policy, kinds
    assert Combinations(*case).best_wins_in_order
    assert merged(*case) == merged_by_koordinator(*case)


@examples(1500)
@given(SEEDS)
def test_koordinator_merges_alike_where_all_prefer_a_set_and_hints_come_in_order(seed):
    nodes, hints, policy, kinds = merge(seed)
    ordered = [
        item and sorted(item, key=lambda hint: (len(hint.nodes), hint.nodes[::-1]))
        for item in hints
    ]
    case = nodes, ordered, policy, kinds
    result = Combinations(*case)
    if not result.best[0][0]:
        assert result.best_wins_in_order
        assert merged(*case) == merged_by_koordinator(*case)


@examples(500)
@given(SEEDS)
def test_a_request_is_served_on_just_the_numa_nodes_that_are_hinted(seed):
    rng = random.Random(seed)
    inventory = machine(rng)
    cluster = DeviceCluster({"n": inventory})
    for i in range(rng.randint(0, 4)):
        cluster.allocate(request(rng, inventory, f"owner{i}"), "n")
    wish = request(rng, inventory)
    hints = cluster.numa_hints(wish, "n")
    best = cluster.copy().allocate(wish, "n")
    assert (best.outcome == "bind") == (hints != ())
    if hints == ():
        return
    numa = {(device.type, device.minor): device.numa for device in inventory.devices}
    used = {numa[allocation.type, allocation.minor] for allocation in best.placement} - {None}
    numbers = sorted(set(numa.values()) - {None})
    sets = [
        combination
        for size in range(len(numbers) + 1)
        for combination in combinations(numbers, size)
    ]
    serving = [
        item for item in sets if cluster.copy().allocate(wish, "n", numa=item).outcome == "bind"
    ]
    if hints is None:
        assert serving == sets
        return
    serving = [item for item in serving if item]
    least = len(serving[0])
    assert hints == tuple(
        NumaHint(item, len(item) == least, 500 * used.issubset(item)) for item in serving
    )


@examples(500)
@given(SEEDS, st.sampled_from(POLICIES))
def test_what_is_merged_from_hints_of_devices_is_allocated(seed, policy):
    rng = random.Random(seed)
    inventory = machine(rng)
    cluster = DeviceCluster({"n": inventory})
    for i in range(rng.randint(0, 4)):
        cluster.allocate(request(rng, inventory, f"owner{i}"), "n")
    wish = request(rng, inventory)
    nodes = range(4)
    other = [NumaHint((node,), True) for node in nodes if rng.random() < 0.5]
    other += [NumaHint(nodes, False)]
    hints = {"devices": cluster.numa_hints(wish, "n"), "processors": other}
    results = merge_numa_hints(nodes, hints, policy)
    if hints["devices"] != () and results.admitted:
        assert cluster.allocate(wish, "n", numa=results.nodes).outcome == "bind"
