"""Kernel == twin, access by access; and what must hold of every policy on every trace."""

import copy
import pickle
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples

from hivecore.caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    expected_hit_ratio,
    simulate,
)
from hivecore.reference.caching import ClairvoyantCache as ClairvoyantTwin
from hivecore.reference.caching import EpochShuffle as ShuffleTwin
from hivecore.reference.caching import PolicyCache as PolicyTwin
from hivecore.reference.caching import simulate as simulate_twin

POLICIES = ["uniform", "lru", "fifo", "random", "lfu", "clock", "sieve", "s3fifo"]
DTYPES = [np.int64, np.int32, np.uint32, np.uint8, np.int16, np.uint64]


@st.composite
def shapes(draw, most_items=40):
    """Items, capacity, sizes (none, or with zeros and with items that never fit), seed."""
    items = draw(st.integers(1, most_items))
    sizes = None
    capacity = draw(st.integers(1, items + 2))
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(0, 9), min_size=items, max_size=items))
        capacity = draw(st.integers(1, 3 * items + 9))
    return items, capacity, sizes, draw(st.integers(0, 2**63 - 1))


@st.composite
def traces(draw, most_items=40, most_accesses=300):
    """A shape, and a trace with favourites, scans and repetitions."""
    items, capacity, sizes, seed = draw(shapes(most_items))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(0, most_accesses))
    kind = draw(st.sampled_from(["uniform", "zipf", "scan", "epochs"]))
    if kind == "scan":
        trace = np.arange(n) % items
    elif kind == "epochs":
        trace = np.concatenate([rng.permutation(items) for _ in range(n // items + 1)])[:n]
    elif kind == "zipf":
        trace = np.minimum(rng.zipf(1.3, n) - 1, items - 1)
    else:
        trace = rng.integers(0, items, n)
    return trace, items, capacity, sizes, seed


class CacheMachine(RuleBasedStateMachine):
    """One cache and its twin: batches, single accesses, copies, saved states."""

    @initialize(policy=st.sampled_from(POLICIES), shape=shapes(20))
    def build(self, policy, shape):
        self.kernel = PolicyCache(policy, *shape)
        self.twin = PolicyTwin(policy, *shape)

    @rule(data=st.data(), dtype=st.sampled_from(DTYPES))
    def batch(self, data, dtype):
        ids = data.draw(st.lists(st.integers(0, self.twin.items - 1), max_size=60))
        out = np.ones(len(ids), dtype=bool)
        hits = [self.twin.access(item) for item in ids]
        assert self.kernel.access(np.array(ids, dtype=dtype), out=out) == sum(hits)
        assert out.tolist() == hits

    @rule(data=st.data())
    def single(self, data):
        item = data.draw(st.integers(0, self.twin.items - 1))
        assert (item in self.kernel) == (item in self.twin)
        assert self.kernel.access(item) is self.twin.access(item)

    @rule(way=st.sampled_from(["copy", "pickle", "bytes"]))
    def go_on_with_another(self, way):
        old, saved = self.kernel, self.kernel.to_bytes()
        if way == "copy":
            self.kernel = copy.deepcopy(old)
        elif way == "pickle":
            self.kernel = pickle.loads(pickle.dumps(old))
        else:
            self.kernel = PolicyCache.from_bytes(saved)
        assert self.kernel.to_bytes() == saved
        old.access(np.arange(old.items))
        assert self.kernel.to_bytes() == saved

    @invariant()
    def same(self):
        self.kernel.check()
        assert self.kernel.cached().tolist() == self.twin.cached()
        assert len(self.kernel) == len(self.twin)
        assert self.kernel.used == self.twin.used <= self.kernel.capacity


CacheMachine.TestCase.settings = examples(150, stateful_step_count=25)
TestCache = CacheMachine.TestCase


@given(case=traces(), policy=st.sampled_from([*POLICIES, "min"]), dtype=st.sampled_from(DTYPES))
@examples(600)
def test_the_kernel_hits_where_the_twin_hits(case, policy, dtype):
    trace, _, capacity, sizes, seed = case
    out = np.empty(len(trace), dtype=bool)
    hits = simulate(policy, trace.astype(dtype), capacity, sizes, seed, out)
    assert out.tolist() == simulate_twin(policy, trace.tolist(), capacity, sizes, seed)
    assert hits == out.sum()
    assert simulate(policy, trace.astype(dtype), capacity, sizes, seed) == hits


@given(
    case=traces(),
    policy=st.sampled_from([*POLICIES, "min"]),
    dtype=st.sampled_from([np.int64, np.uint64, np.int32, object, str, list]),
    data=st.data(),
)
@examples(300)
def test_other_ids_change_no_access(case, policy, dtype, data):
    trace, items, capacity, _, seed = case
    dense, other = np.empty(len(trace), dtype=bool), np.empty(len(trace), dtype=bool)
    simulate(policy, trace, capacity, None, seed, dense)
    kinds = {np.int64: st.integers(-(2**63), 2**63 - 1), np.uint64: st.integers(0, 2**64 - 1)}
    kinds |= {np.int32: st.integers(-(2**31), 2**31 - 1), object: st.integers()}
    # NumPy's own strings have no zeros at their ends.
    texts = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=5)
    names = st.lists(kinds.get(dtype, texts), min_size=items, max_size=items, unique=True)
    name = data.draw(names)
    named = [name[item] for item in trace]
    ids = named if dtype is list else np.array(named, dtype=dtype)
    simulate(policy, ids, capacity, None, seed, other)
    assert other.tolist() == dense.tolist() == simulate_twin(policy, named, capacity, None, seed)


@given(
    seed=st.integers(0, 2**32), ids=st.integers(1, 5000), kind=st.sampled_from([np.int64, np.str_])
)
@examples(40)
def test_a_cache_of_everything_hits_whatever_has_come_before(seed, ids, kind):
    """However often the table of ids has grown."""
    rng = np.random.default_rng(seed)
    trace = rng.choice(rng.integers(-(2**63), 2**63 - 1, ids), 3 * ids).astype(kind)
    out, is_first = np.empty(len(trace), dtype=bool), np.zeros(len(trace), dtype=bool)
    is_first[np.unique(trace, return_index=True)[1]] = True
    simulate("uniform", trace, len(trace), out=out)
    assert (out == ~is_first).all()


@given(case=traces(), policy=st.sampled_from(POLICIES), cuts=st.lists(st.integers(0, 300)))
@examples(100)
def test_results_do_not_depend_on_the_size_of_batches(case, policy, cuts):
    trace, items, capacity, sizes, seed = case
    cache = PolicyCache(policy, items, capacity, sizes, seed)
    parts = np.split(trace, sorted(min(cut, len(trace)) for cut in cuts))
    whole = PolicyCache(policy, items, capacity, sizes, seed)
    assert sum(cache.access(part) for part in parts) == whole.access(trace)
    assert cache.to_bytes() == whole.to_bytes()


@given(case=traces())
@examples(100)
def test_equal_sizes_are_the_same_as_none(case):
    trace, items, capacity, _, seed = case
    for policy in [*POLICIES, "min"]:
        out, sized = np.empty(len(trace), dtype=bool), np.empty(len(trace), dtype=bool)
        simulate(policy, trace, capacity, None, seed, out)
        simulate(policy, trace, capacity, np.ones(items, dtype=np.int64), seed, sized)
        assert out.tolist() == sized.tolist(), policy


@given(case=traces())
@examples(100)
def test_no_policy_hits_more_often_than_min(case):
    trace, _, capacity, _, seed = case
    best = simulate("min", trace, capacity)
    assert all(simulate(policy, trace, capacity, None, seed) <= best for policy in POLICIES)


def most_hits(trace, capacity):
    """By trying every content after every access, with bypass."""
    best = {frozenset(): 0}
    for item in trace:
        following = {}
        for content, hits in best.items():
            hits += item in content
            choices = content | {item}
            kept = [frozenset(c) for c in combinations(choices, min(capacity, len(choices)))]
            for after in {*kept, content}:
                following[after] = max(following.get(after, 0), hits)
        best = following
    return max(best.values())


@given(trace=st.lists(st.integers(0, 4), max_size=14), capacity=st.integers(1, 4))
@examples(100)
def test_min_is_the_best_of_all_sequences_of_contents(trace, capacity):
    assert simulate("min", trace, capacity) == most_hits(trace, capacity)


@given(
    items=st.integers(1, 60), share=st.floats(0, 1), epochs=st.integers(1, 6), seed=st.integers(0)
)
@examples(100)
def test_one_job_never_hits_more_than_the_capacity_per_epoch(items, share, epochs, seed):
    capacity = max(1, round(share * items))
    shuffle = EpochShuffle(seed % 2**63, items)
    trace = np.concatenate([shuffle.order(epoch) for epoch in range(epochs)])
    for policy in [*POLICIES, "min"]:
        out = np.empty(len(trace), dtype=bool)
        simulate(policy, trace, capacity, out=out)
        per_epoch = out.reshape(epochs, items).sum(axis=1)
        assert per_epoch[0] == 0
        assert (per_epoch <= capacity).all(), policy
        if policy in ("uniform", "min"):
            assert (per_epoch[1:] == min(capacity, items)).all(), policy


@given(
    items=st.integers(1, 60), share=st.floats(0, 0.5), epochs=st.integers(1, 6), seed=st.integers(0)
)
@examples(100)
def test_clock_is_lru_access_by_access_when_twice_the_cache_fits(items, share, epochs, seed):
    capacity = max(1, int(share * items))
    assume(2 * capacity <= items)
    shuffle = EpochShuffle(seed % 2**63, items)
    trace = np.concatenate([shuffle.order(epoch) for epoch in range(epochs)])
    lru, clock = np.empty(len(trace), dtype=bool), np.empty(len(trace), dtype=bool)
    simulate("lru", trace, capacity, out=lru)
    simulate("clock", trace, capacity, out=clock)
    assert lru.tolist() == clock.tolist()


@given(items=st.integers(2, 50), data=st.data())
def test_in_order_scans_defeat_lru_and_fifo_but_not_uniform(items, data):
    capacity = data.draw(st.integers(1, items - 1))
    trace = np.tile(np.arange(items), 4)
    for policy in ("lru", "fifo", "clock", "sieve", "lfu"):
        assert simulate(policy, trace, capacity) == 0
        assert expected_hit_ratio(policy, capacity, items, "scan") == 0
    assert simulate("uniform", trace, capacity) == 3 * capacity


# --- shuffles ------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**63 - 1),
    items=st.one_of(st.integers(1, 130), st.integers(1, 3000)),
    epoch=st.integers(0, 2**53),
)
@examples(100)
def test_a_shuffle_is_the_twins_and_can_be_inverted(seed, items, epoch):
    shuffle, twin = EpochShuffle(seed, items), ShuffleTwin(seed, items)
    order = shuffle.order(epoch)
    positions = np.arange(items)
    assert np.array_equal(np.sort(order), positions)
    assert np.array_equal(shuffle.item(epoch, positions), order)
    assert np.array_equal(shuffle.position(epoch, order), positions)
    for position in {0, items // 2, items - 1}:
        item = twin.item(epoch, position)
        assert shuffle.item(epoch, position) == item == order[position]
        assert shuffle.position(epoch, item) == twin.position(epoch, item) == position


@given(seed=st.integers(0, 2**63 - 1), items=st.integers(2**16, 2**31 - 1), data=st.data())
@examples(100)
def test_large_shuffles_are_the_twins_and_can_be_inverted(seed, items, data):
    epoch = data.draw(st.integers(0, 100))
    positions = data.draw(st.lists(st.integers(0, items - 1), min_size=1, max_size=5))
    shuffle, twin = EpochShuffle(seed, items), ShuffleTwin(seed, items)
    item = shuffle.item(epoch, positions)
    assert item.tolist() == [twin.item(epoch, position) for position in positions]
    assert shuffle.position(epoch, item).tolist() == positions


def chi_square(counts, expected):
    """How many standard deviations the counts are off; even ones are within some few."""
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("items", [2, 3, 4])
def test_all_orders_of_few_items_come_up_equally_often(items):
    shuffle = EpochShuffle(17, items)
    epochs = 24_000
    orders = np.stack([shuffle.order(epoch) for epoch in range(epochs)]).astype(np.int64)
    _, counts = np.unique(orders @ items ** np.arange(items), return_counts=True)
    assert len(counts) == [1, 1, 2, 6, 24][items]
    assert abs(chi_square(counts, epochs / len(counts))) < 4


@pytest.mark.parametrize("items", [10, 64, 65, 66, 72, 73, 101])
def test_positions_pairs_and_consecutive_epochs_are_uniform(items):
    shuffle = EpochShuffle(3, items)
    epochs = 30_000
    orders = np.stack([shuffle.order(epoch) for epoch in range(epochs)]).astype(np.int64)
    width = int(np.ceil(np.sqrt(items)))
    for position in (0, 1, width, items - 1):
        counts = np.bincount(orders[:, position], minlength=items)
        assert abs(chi_square(counts, epochs / items)) < 5
    for first, second in ((0, 1), (0, width), (1, items - 1), (items // 2, items // 2 + 1)):
        pairs = np.bincount(orders[:, first] * items + orders[:, second], minlength=items**2)
        pairs = pairs.reshape(items, items)[~np.eye(items, dtype=bool)]
        assert abs(chi_square(pairs, epochs / len(pairs))) < 5
    successive = np.bincount(orders[:-1, 2] * items + orders[1:, 2], minlength=items**2)
    assert abs(chi_square(successive, (epochs - 1) / items**2)) < 5


def test_neighbours_epochs_and_seeds_of_a_large_shuffle_are_unrelated():
    n = 100_000
    orders = [EpochShuffle(seed, n).order(epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    place = np.arange(n)
    for order in orders:
        # Standard deviations of correlations are 1 / sqrt(n); of fixed points, 1.
        assert abs(np.corrcoef(place, order)[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 5 / np.sqrt(n)
        assert (order == place).sum() < 8
    for entry, other in combinations(orders, 2):
        assert abs(np.corrcoef(entry, other)[0, 1]) < 5 / np.sqrt(n)
        assert (entry == other).sum() < 8


# --- the clairvoyant cache -----------------------------------------------------------------------


class ClairvoyantMachine(RuleBasedStateMachine):
    """Jobs come, go, and change their rates; the twin recomputes every next use."""

    @initialize(
        capacity=st.integers(1, 30), datasets=st.lists(st.integers(1, 25), min_size=1, max_size=3)
    )
    def build(self, capacity, datasets):
        self.kernel = ClairvoyantCache(capacity, datasets)
        self.twin = ClairvoyantTwin(capacity, datasets)
        self.left = {}
        self.names = 0

    def both(self, call):
        call(self.kernel)
        call(self.twin)

    @precondition(lambda self: len(self.left) < 4)
    @rule(
        data=st.data(),
        seed=st.integers(0, 2**63 - 1),
        rate=st.sampled_from([0.5, 1.0, 1.7, 3.0]),
        start=st.sampled_from([-2.0, 0.0, 0.0, 7.3]),
        first_epoch=st.integers(0, 3),
        epochs=st.one_of(st.none(), st.integers(1, 3)),
    )
    def attach(self, data, seed, rate, start, first_epoch, epochs):
        dataset = data.draw(st.integers(0, len(self.twin.datasets) - 1))
        self.names += 1
        name = -self.names
        self.both(lambda c: c.attach(name, dataset, seed, rate, start, first_epoch, epochs))
        self.left[name] = float("inf") if epochs is None else epochs * self.twin.datasets[dataset]

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def access(self, data):
        name = data.draw(st.sampled_from(sorted(self.left)))
        count = data.draw(st.integers(0, int(min(30, self.left[name]))))
        out = np.empty(count, dtype=bool)
        hits = self.twin.access(name, count)
        assert self.kernel.access(name, count, out) == sum(hits)
        assert out.tolist() == hits
        self.left[name] -= count

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def detach(self, data):
        name = data.draw(st.sampled_from(sorted(self.left)))
        self.both(lambda c: c.detach(name))
        del self.left[name]

    @precondition(lambda self: self.left)
    @rule(
        data=st.data(), rate=st.sampled_from([0.3, 1.0, 2.5]), now=st.sampled_from([None, 0.0, 9.5])
    )
    def set_rate(self, data, rate, now):
        name = data.draw(st.sampled_from(sorted(self.left)))
        self.both(lambda c: c.set_rate(name, rate, now))

    @rule(way=st.sampled_from(["copy", "pickle"]))
    def go_on_with_another(self, way):
        old, saved = self.kernel, self.kernel.to_bytes()
        self.kernel = copy.copy(old) if way == "copy" else pickle.loads(pickle.dumps(old))
        assert self.kernel.to_bytes() == saved
        for name in old.jobs:
            old.detach(name)
        assert self.kernel.to_bytes() == saved

    @invariant()
    def same(self):
        self.kernel.check()
        assert self.kernel.jobs == self.twin.jobs
        assert len(self.kernel) == len(self.twin) <= self.kernel.capacity
        for dataset, items in enumerate(self.twin.datasets):
            for item in range(items):
                assert self.kernel.is_cached(dataset, item) == self.twin.is_cached(dataset, item)
        for name in self.left:
            assert self.kernel.time(name) == self.twin.time(name)
            assert self.kernel.uses(name) == self.twin.uses(name)


ClairvoyantMachine.TestCase.settings = examples(120, stateful_step_count=20)
TestClairvoyant = ClairvoyantMachine.TestCase


@given(
    data=st.data(), items=st.integers(1, 40), jobs=st.integers(1, 4), capacity=st.integers(1, 40)
)
@examples(40)
def test_next_uses_are_those_of_the_schedule(data, items, jobs, capacity):
    cache, twin = ClairvoyantCache(capacity, [items]), ClairvoyantTwin(capacity, [items])
    for job in range(jobs):
        rate = data.draw(st.sampled_from([0.7, 1.0, 2.0]))
        for entry in (cache, twin):
            entry.attach(job, 0, job, rate, 0.1 * job, epochs=3)
    for job in range(jobs):
        count = data.draw(st.integers(0, 3 * items))
        cache.access(job, count)
        twin.access(job, count)
    for item in range(items):
        assert cache.next_use(0, item) == twin.next_use(0, item)


@given(
    seeds=st.lists(st.integers(0, 1000), min_size=1, max_size=5, unique=True),
    items=st.integers(1, 50),
    capacity=st.integers(1, 60),
    rates=st.lists(st.sampled_from([1.0, 0.5, 0.8, 3.0]), min_size=5, max_size=5),
)
@examples(100)
def test_the_clairvoyant_cache_is_min_on_the_merged_schedule(seeds, items, capacity, rates):
    epochs = 4
    cache = ClairvoyantCache(capacity, [items])
    schedule = []
    for job, (seed, rate) in enumerate(zip(seeds, rates, strict=False)):
        start = 0.013 * job  # no two uses at the same time
        cache.attach(job, 0, seed, rate, start, epochs=epochs)
        shuffle = EpochShuffle(seed, items)
        order = np.concatenate([shuffle.order(epoch) for epoch in range(epochs)])
        schedule += [(start + u / rate, job, item) for u, item in enumerate(order.tolist())]
    schedule.sort()
    hits = [bool(cache.access(job)) for _, job, _ in schedule]
    expected = np.empty(len(schedule), dtype=bool)
    simulate("min", [item for *_, item in schedule], capacity, out=expected)
    assert hits == expected.tolist()


# --- closed forms --------------------------------------------------------------------------------


def lru_exactly(d, c):
    """The finite form of the steady-state hit ratio as a fraction, term by term."""
    total = Fraction(0)
    for a in range(d):
        for b in range(d):
            least = max(0, a + b - (d - 1), a + b - c + 1)
            ways = sum(comb(a, x) * comb(d - 1 - a, b - x) for x in range(least, min(a, b) + 1))
            total += Fraction(ways, comb(d - 1, b))
    return total / d**2


@given(d=st.integers(1, 22), data=st.data())
@examples(100)
def test_the_exact_lru_ratio_is_the_sum_of_hypergeometric_tails(d, data):
    c = data.draw(st.integers(1, d))
    exact = float(lru_exactly(d, c))
    assert expected_hit_ratio("lru", c, d, exact=True) == pytest.approx(exact, abs=1e-9)
    assert expected_hit_ratio("clock", c, d, exact=True) == pytest.approx(exact, abs=1e-9)


@given(k=st.floats(0, 1.5), policy=st.sampled_from([*POLICIES, "min"]))
def test_no_closed_form_exceeds_the_bound(k, policy):
    for pattern in ("shuffle", "scan", "replacement"):
        try:
            ratio = expected_hit_ratio(policy, k, 1, pattern)
        except ValueError:
            continue
        assert 0 <= ratio <= min(1, k) + 1e-12
