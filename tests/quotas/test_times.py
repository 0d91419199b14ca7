"""What goes by time: usage that fades against decimals of 80 places, over-use by the clock."""

import copy
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, seeds
from quotas.lives import Life

from hivecore.quotas import OveruseMonitor, Quota, QuotaRequest, QuotaTree, UsageHistory
from hivecore.quotas.usage_history import _POWERS

MOST = 2**62
USED = st.one_of(st.integers(0, 100), st.integers(0, MOST))


def half(exponent):
    """2 to the minus this fraction."""
    with localcontext() as context:
        context.prec = 80
        return Decimal(2) ** (Decimal(-exponent.numerator) / Decimal(exponent.denominator))


def stretches(changes, now):
    """(begin, end, used) of what was recorded until a time."""
    latest = {}
    for moment, used in changes:
        if moment <= now:
            latest[moment] = max(used, latest.get(moment, 0))
    known = sorted(latest.items())
    ends = [moment for moment, _ in known[1:]] + [now]
    return [(begin, end, used) for (begin, used), end in zip(known, ends, strict=False)]


def faded(changes, now, half_life):
    """The usage in decimals."""
    with localcontext() as context:
        context.prec = 80
        counted = Decimal(0)
        for begin, end, used in stretches(changes, now):
            left = half(Fraction(now - end, half_life)), half(Fraction(now - begin, half_life))
            counted += used * (left[0] - left[1])
        return counted


def kept_time(changes, now, half_life):
    """A time of which nothing has been forgotten."""
    latest = max((moment for moment, _ in changes), default=0)
    return now if latest <= 62 * half_life else max(now, latest)


def history_of(changes, half_life):
    history = UsageHistory(half_life)
    for change in changes:
        history.record("a", *change)
    return history


def test_the_table_of_powers_is_what_decimals_say():
    with localcontext() as context:
        context.prec = 80
        exact = [int(half(Fraction(j, 1024)) * 2**62) for j in range(1024)]
    assert exact == _POWERS[:1024]  # the rest of a half-life is less than a whole one


@examples(150)
@given(
    st.lists(st.tuples(st.integers(0, 40 * 1024), USED), max_size=8),
    st.integers(0, 60 * 1024),
    st.sampled_from([1, 2, 4, 512, 1024]),
)
def test_at_whole_steps_usage_is_exact_to_the_unit_and_what_62_bits_leave(changes, now, half_life):
    now = kept_time(changes, now, half_life)
    usage = history_of(changes, half_life).usage("a", now)
    parts = stretches(changes, now)
    # Each end of a stretch is rounded down to a unit of 2^-62, and forgotten after 62 halvings.
    bound = 2 + sum(2 * used for _, _, used in parts) // 2**61
    assert abs(usage - faded(changes, now, half_life)) <= bound


@examples(150)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), USED), max_size=8),
    st.integers(0, 2 * 10**6),
    st.integers(1, 10**6),
)
def test_between_steps_usage_is_off_by_less_than_one_in_1400(changes, now, half_life):
    """An age counts as a step of 1/1024 of a half-life."""
    now = kept_time(changes, now, half_life)
    usage = history_of(changes, half_life).usage("a", now)
    parts = stretches(changes, now)
    step = half(Fraction(-1, 1024)) - 1
    assert step < Decimal(1) / 1400
    bound = 2 + sum(2 * used for _, _, used in parts) // 2**61
    for begin, end, used in parts:
        ages = half(Fraction(now - begin, half_life)) + half(Fraction(now - end, half_life))
        bound += used * step * ages
    assert abs(usage - faded(changes, now, half_life)) <= bound


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 5000), USED), max_size=6), st.integers(1, 40), st.data())
def test_the_order_of_records_and_reads_in_between_do_not_matter(changes, half_life, data):
    moments = [0, 70, 2500, 5000, 5001, 9000]
    expected = [history_of(sorted(changes), half_life).usage("a", now) for now in moments]
    history = UsageHistory(half_life)
    for change in data.draw(st.permutations(changes)):
        history.record("a", *change)
        history.usage("a", data.draw(st.integers(0, 9000)))
        history.record("b", *change)
        history.weights({"a": 1, "c": 2}, 50)
    others = history, copy.deepcopy(history), pickle.loads(pickle.dumps(history))
    for other in others:
        assert [other.usage("a", now) for now in moments] == expected
        assert [other.usage("b", now) for now in moments] == expected
    others[1].record("a", 9000, MOST)
    assert [history.usage("a", now) for now in moments] == expected


def test_all_orders_of_changes_far_apart_are_the_same():
    """Those that are forgotten are the same ones."""
    changes = [(0, 7), (10, 5), (700, 9), (700, 3), (1400, 2)]
    moments = [0, 5, 699, 700, 1000, 1400, 2000]
    usage = {
        tuple(history_of(order, 10).usage("a", now) for now in moments)
        for order in permutations(changes)
    }
    assert len(usage) == 1


def test_usage_by_hand():
    """Half of 64 after a half-life; then 3/4 of it, or half of that without use."""
    history = history_of([(0, 64)], 3600)
    assert [history.usage("a", hours * 3600) for hours in range(5)] == [0, 32, 48, 56, 60]
    history.record("a", 3600, 0)
    assert [history.usage("a", hours * 3600) for hours in range(5)] == [0, 32, 16, 8, 4]
    assert history.usage("a", 3600 * 1000) == 0
    assert history_of([(0, MOST)], 1).usage("a", 100) == MOST


@examples(200)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(USED, USED), max_size=4),
    st.integers(0, 1000),
)
def test_weights_are_the_formula_in_fractions_rounded_down_to_millionths(given_, k):
    history = UsageHistory(1)
    for name, (_, used) in given_.items():
        history.record(name, 0, used)
    weights = {name: weight for name, (weight, _) in given_.items()}
    usages = {name: history.usage(name, 100) for name in weights}
    assert usages == {name: used for name, (_, used) in given_.items()}
    result = history.weights(weights, 100, k=k)
    for name, weight in weights.items():
        w = Fraction(weight, sum(weights.values()) or 1)
        u = Fraction(usages[name], sum(usages.values()) or 1)
        exact = max(Fraction(0), w + k * (w - u)) * 10**6
        assert result[name] == exact.numerator // exact.denominator


def test_weights_by_hand_are_those_of_a_tree():
    """2 of 3 parts of the weights, but all of the use: 2/3 + (2/3 - 1), and 1/3 + 1/3."""
    history = UsageHistory(1)
    history.record("a", 0, 8)
    weights = history.weights({"a": 2, "b": 1}, 100)
    assert weights == {"a": 333333, "b": 666666}
    tree = QuotaTree([Quota(name, max={"x": 9}) for name in "ab"], total={"x": 9})
    tree.submit_many([QuotaRequest(f"of {name}", name, {"x": 9}) for name in "ab"])
    tree.set_weights({name: {"x": weight} for name, weight in weights.items()})
    assert [tree.runtime(name)["x"] for name in "ab"] == [3, 6]


# --- over-use by the clock


def over(*names):
    """A tree whose quotas of these names use 2 of 1."""
    tree = QuotaTree([Quota(name, max={"x": 1}) for name in "abc"], total={"x": 3})
    for name in names:
        tree.recover(QuotaRequest(f"{name}1", name, {"x": 1}), 1)
        tree.recover(QuotaRequest(f"{name}2", name, {"x": 1}), 1)
    return tree


def test_the_clock_starts_at_the_last_look_that_found_no_over_use():
    monitor = OveruseMonitor(10)
    seen = [
        monitor.observe(over(*names), now)
        for now, names in [(0, "a"), (8, ""), (9, "a"), (11, "a"), (18, "a"), (19, "a")]
    ]
    assert seen == [{}, {}, {}, {}, {}, {"a": ("a2",)}]


def test_a_copy_of_a_monitor_keeps_the_clocks_of_quotas_that_did_not_use_too_much():
    monitor = OveruseMonitor(10)
    monitor.observe(over(), 4)
    for item in (monitor.copy(), copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert item.observe(over("a"), 14) == {}
        assert item.observe(over("a"), 15) == {"a": ("a2",)}


@pytest.mark.parametrize("names", ["a", ""])
def test_time_does_not_go_back_whether_anybody_is_over_or_not(names):
    monitor = OveruseMonitor(10)
    monitor.observe(over("a"), 3)
    monitor.observe(over(*names), 12)
    other = copy.copy(monitor)
    for item in (monitor, other, copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        for now in (11, 3, 0):
            with pytest.raises(ValueError, match=f"now={now}: allowed are 12 to"):
                item.observe(over("a"), now)
        with pytest.raises(TypeError, match="tree must be a QuotaTree"):
            item.observe(None, 99)
        assert item.observe(over("a"), 14) == ({"a": ("a2",)} if names else {})
        assert item.observe(over("a"), 25) == ({"a": ("a2",)})


def test_a_monitor_says_what_the_rule_says_in_random_lives():
    sent = 0
    for seed in seeds(20):
        rng, life = Random(f"{seed} monitored"), Life()
        life.crowd(rng)
        monitor, since, now, delay = OveruseMonitor(7), {}, 0, 7
        for _ in range(100):
            (life.press if rng.random() < 0.9 else life.set_total)(rng)
            now += rng.randint(0, 3)
            figures = life.twin.figures()
            expected = {}
            for name in life.twin.quotas:
                used, runtime = figures.used[name], figures.runtime[name]
                if all(used[d] <= runtime[d] for d in used):
                    since[name] = now
                elif now - since.setdefault(name, now) > delay:
                    since[name] = now
                    if victims := life.twin.revocable(name):
                        expected[name] = victims
            assert monitor.observe(life.tree, now) == expected
            sent += len(expected)
    assert sent > 0
