"""Sharing, monitors and histories refuse what is wrong, and name the argument."""

import math

import numpy as np
import pytest

from hivecore.quotas import OveruseMonitor, QuotaTree, UsageHistory, water_fill, water_fill_rounds

MOST = 2**62

FILLS = [
    ((-1, [1], [0], [1]), ValueError, "amounts"),
    ((MOST + 1, [1], [0], [1]), ValueError, "amounts"),
    ((2**63, [1], [0], [1]), ValueError, "amounts"),
    ((2**64, [1], [0], [1]), ValueError, "amounts"),
    ((1.5, [1], [0], [1]), TypeError, "amounts must hold integers"),
    ((None, [1], [0], [1]), TypeError, "amounts must hold integers"),
    ((True, [1], [0], [1]), TypeError, "amounts must hold integers, not bool"),
    (([1], [1], [0], [1]), ValueError, "amounts must have 0 dimensions, not 1"),
    ((1, [[1]], [[0]], [[1]]), ValueError, "amounts must have 1 dimensions, not 0"),
    (([1, 1], [[1]], [[0]], [[1]]), ValueError, "amounts must have length 1, not 2"),
    ((1, 1, [0], [1]), ValueError, "requests must have one or two dimensions, not 0"),
    ((1, [[[1]]], [0], [1]), ValueError, "requests must have one or two dimensions, not 3"),
    ((1, [-1], [0], [1]), ValueError, "requests"),
    ((1, [1, 2**63], [0, 0], [1, 1]), ValueError, "requests: allowed are 0 to"),
    ((1, np.array([1, 2**63], dtype=np.uint64), [0, 0], [1, 1]), ValueError, "requests"),
    ((1, [2**64], [0], [1]), ValueError, "requests: allowed are 0 to"),
    ((1, [math.nan], [0], [1]), TypeError, "requests must hold integers, not float64"),
    ((1, ["1"], [0], [1]), TypeError, "requests must hold integers"),
    (([1, 1], [[1], [1, 2]], [[0]], [[1]]), ValueError, "requests must be an array of integers"),
    ((1, [1, 2], [0], [1, 1]), ValueError, r"minimums must have shape \(1, 2\)"),
    ((1, [1], [MOST + 1], [1]), ValueError, "minimums"),
    ((1, [1], [0.0], [1]), TypeError, "minimums must hold integers"),
    ((1, [1], [0], [1, 1]), ValueError, r"weights must have shape \(1, 1\)"),
    ((1, [1], [0], [-1]), ValueError, "weights"),
    ((1, [1], [0], [2**65]), ValueError, "weights"),
    ((1, [1], [0], [1], [1]), TypeError, "lends must hold bools, not int64"),
    ((1, [1], [0], [1], [True, True]), ValueError, "lends must have length 1"),
    ((1, [1], [0], [1], [[True]]), ValueError, "lends must have length 1"),
    ((1, [1], [0], [1], True), ValueError, "lends must have length 1"),
    ((1, [1, 1], [0, 0], [1, 1], [[True], [True, False]]), ValueError, "lends must be an array"),
]


@pytest.mark.parametrize(("arguments", "error", "match"), FILLS)
def test_water_fill_names_what_is_wrong(arguments, error, match):
    with pytest.raises(error, match=match):
        water_fill(*arguments)
    if "dimensions" not in match and np.ndim(arguments[0]) == 0 and arguments[0] is not True:
        with pytest.raises(error, match=match.replace("amounts", "amount").split(" must hold")[0]):
            water_fill_rounds(*arguments)


def test_an_amount_without_children_has_no_shares():
    empty = np.empty((2, 0), dtype=np.int64)
    assert water_fill(5, [], [], []).tolist() == []
    assert water_fill(5, [], [], [], []).tolist() == []
    assert water_fill([5, 6], empty, empty, empty).shape == (2, 0)
    assert water_fill_rounds(5, [], [], []) == ()


# --- what goes by time


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: OveruseMonitor(-1), ValueError, "delay=-1"),
        (lambda: OveruseMonitor(1.5), TypeError, "delay must be an integer"),
        (lambda: OveruseMonitor(math.nan), TypeError, "delay must be an integer"),
        (lambda: OveruseMonitor(MOST + 1), ValueError, "delay="),
        (lambda: OveruseMonitor(1).observe("tree", 0), TypeError, "tree must be a QuotaTree"),
        (lambda: OveruseMonitor(1).observe(QuotaTree(), -1), ValueError, "now=-1"),
        (lambda: OveruseMonitor(1).observe(QuotaTree(), 0.5), TypeError, "now must be an integer"),
        (lambda: UsageHistory(0), ValueError, "half_life=0"),
        (lambda: UsageHistory(2.0), TypeError, "half_life must be an integer"),
        (lambda: UsageHistory(2**40 + 1), ValueError, "half_life="),
        (lambda: UsageHistory(1).record("", 0, 0), ValueError, "name must not be empty"),
        (lambda: UsageHistory(1).record(3, 0, 0), TypeError, "name must be a string"),
        (lambda: UsageHistory(1).record("a", -1, 0), ValueError, "now=-1"),
        (lambda: UsageHistory(1).record("a", 0, -1), ValueError, "used=-1"),
        (lambda: UsageHistory(1).record("a", 0, 2**63), ValueError, "used="),
        (lambda: UsageHistory(1).record("a", math.nan, 0), TypeError, "now must be an integer"),
        (lambda: UsageHistory(1).record("a", 0, 0.5), TypeError, "used must be an integer"),
        (lambda: UsageHistory(1).usage([], 0), TypeError, "name must be a string"),
        (lambda: UsageHistory(1).usage("a", MOST + 1), ValueError, "now="),
        (lambda: UsageHistory(1).weights(3, 0), TypeError, "weights must be a mapping"),
        (lambda: UsageHistory(1).weights({3: 1}, 0), TypeError, "weights must be a string"),
        (lambda: UsageHistory(1).weights({"a": -1}, 0), ValueError, r"weights\['a'\]=-1"),
        (lambda: UsageHistory(1).weights({"a": 0.5}, 0), TypeError, r"weights\['a'\] must be"),
        (lambda: UsageHistory(1).weights({"a": 1}, "0"), TypeError, "now must be an integer"),
        (lambda: UsageHistory(1).weights({"a": 1}, 0, k=1001), ValueError, "k=1001"),
        (lambda: UsageHistory(1).weights({"a": 1}, 0, k=0.5), TypeError, "k must be an integer"),
    ],
)
def test_monitors_and_histories_name_what_is_wrong(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_a_history_that_refuses_stays_as_it_was():
    history = UsageHistory(10)
    history.record("a", 5, 100)
    for wrong in (("a", 6, -1), ("a", -1, 5), ("b", 6, 0.5)):
        with pytest.raises((TypeError, ValueError)):
            history.record(*wrong)
    assert (history.usage("a", 15), history.usage("b", 15)) == (50, 0)
