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
    resources = {f"resource {i}": one for i, one in enumerate(hints)}
    return merge_numa_hints(nodes, resources, policy, kinds=kinds)


def merged_by_koordinator(nodes, hints, policy, kinds):
    """Koordinator's answer, which names all NUMA nodes in two ways."""
    given = [
        one if one is None else [Hint(hint.nodes, hint.preferred, hint.score) for hint in one]
        for one in hints
    ]
    found, admitted = merge_hints(nodes, given, policy, kinds)
    return NumaMerge(None if found == nodes else found, admitted)


class Combinations:
    """All combinations in their order, each as (rank, whether each of its hints names the set)."""

    def __init__(self, nodes, hints, policy, kinds):
        self.everywhere = frozenset(nodes)
        self.policy = policy
        self.kinds = kinds
        self.no_way = any(one is not None and not one for one in hints)
        lists = [one for one in hints if one is not None]
        if policy == "single-numa-node":
            lists = [[h for h in one if h.preferred and len(h.nodes) == 1] for one in lists]
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
        score = sum(h.score for h, one in zip(hints, sets, strict=True) if one == common)
        return (not preferred, len(common), -score, sum(1 << n for n in common)), agreed

    def is_allowed(self, nodes):
        wrong = "shared" if len(nodes) == 1 else "single"
        return self.kinds is None or wrong not in {self.kinds.get(node) for node in nodes}

    @property
    def best(self):
        return min(self.found, key=lambda one: (one[0], not one[1]))

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
        alike = [one for one in self.found if one[0][:2] == rank[:2]]
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
    mixed = [one and rng.sample(one, len(one)) for one in rng.sample(hints, len(hints))]
    found = merged(rng.sample(nodes, len(nodes)), mixed, policy, kinds)
    assert found == merged(nodes, hints, policy, kinds)


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
        one and sorted((NumaHint(h.nodes, h.preferred) for h in one), key=lambda h: len(h.nodes))
        for one in hints
    ]
    case = nodes, plain, policy, kinds
    assert Combinations(*case).best_wins_in_order
    assert merged(*case) == merged_by_koordinator(*case)


@examples(1500)
@given(SEEDS)
def test_koordinator_merges_alike_where_all_prefer_a_set_and_hints_come_in_order(seed):
    nodes, hints, policy, kinds = merge(seed)
    ordered = [
        one and sorted(one, key=lambda hint: (len(hint.nodes), hint.nodes[::-1])) for one in hints
    ]
    case = nodes, ordered, policy, kinds
    found = Combinations(*case)
    if not found.best[0][0]:
        assert found.best_wins_in_order
        assert merged(*case) == merged_by_koordinator(*case)


@examples(500)
@given(SEEDS)
def test_a_request_is_served_on_just_the_numa_nodes_that_are_hinted(seed):
    rng = random.Random(seed)
    inventory = machine(rng)
    cluster = DeviceCluster({"n": inventory})
    for i in range(rng.randint(0, 4)):
        cluster.allocate(request(rng, inventory, f"owner{i}"), "n")
    asked = request(rng, inventory)
    hints = cluster.numa_hints(asked, "n")
    best = cluster.copy().allocate(asked, "n")
    assert (best.outcome == "bind") == (hints != ())
    if hints == ():
        return
    numa = {(one.type, one.minor): one.numa for one in inventory.devices}
    used = {numa[one.type, one.minor] for one in best.placement} - {None}
    numbers = sorted(set(numa.values()) - {None})
    sets = [one for size in range(len(numbers) + 1) for one in combinations(numbers, size)]
    serving = [
        one for one in sets if cluster.copy().allocate(asked, "n", numa=one).outcome == "bind"
    ]
    if hints is None:
        assert serving == sets
        return
    serving = [one for one in serving if one]
    least = len(serving[0])
    assert hints == tuple(
        NumaHint(one, len(one) == least, 500 * used.issubset(one)) for one in serving
    )


@examples(500)
@given(SEEDS, st.sampled_from(POLICIES))
def test_what_is_merged_from_hints_of_devices_is_allocated(seed, policy):
    rng = random.Random(seed)
    inventory = machine(rng)
    cluster = DeviceCluster({"n": inventory})
    for i in range(rng.randint(0, 4)):
        cluster.allocate(request(rng, inventory, f"owner{i}"), "n")
    asked = request(rng, inventory)
    nodes = range(4)
    other = [NumaHint((node,), True) for node in nodes if rng.random() < 0.5]
    other += [NumaHint(nodes, False)]
    hints = {"devices": cluster.numa_hints(asked, "n"), "processors": other}
    found = merge_numa_hints(nodes, hints, policy)
    if hints["devices"] != () and found.admitted:
        assert cluster.allocate(asked, "n", numa=found.nodes).outcome == "bind"
