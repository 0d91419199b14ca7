"""Large buckets, whose weights are not stored: matchings as heavy as those of a matrix."""

import signal
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from interleaving.jobs_that_share import grouped, jobs_that_share, rounds
from profiles import examples, seeds

from hivecore.interleaving import efficiencies, in_rounds
from hivecore.matching import max_weight_matching


@pytest.fixture
def without_matrix(monkeypatch):
    monkeypatch.setattr(in_rounds, "MOST_IN_MATRIX", 0)


def pairs_of(rows, *, matrix=10**6, **options):
    """Pairs of one round, without a matrix if there are more jobs than this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_rounds, "MOST_IN_MATRIX", matrix)
        return grouped(rows, [1] * len(rows), max_group=2, method="muri", **options)


def weight_of(result, rows, weight="efficiency", solo=None):
    """What the merges of a round weigh together."""
    solo = np.asarray(rows).sum(axis=1) if solo is None else np.asarray(solo)
    merged = [g for g, group in enumerate(result.groups) if len(group) > 1]
    if weight == "efficiency":
        return result.efficiencies[merged].sum()
    gains = [solo[result.groups[g]].sum() / result.iteration_times[g] - 1 for g in merged]
    return np.minimum(gains, 8).sum()


def assert_as_heavy(rows, **options):
    by_matrix = pairs_of(rows, **options)
    without = pairs_of(rows, matrix=0, **options)
    assert sorted(chain.from_iterable(without.groups)) == list(range(len(rows)))
    terms = {name: options[name] for name in ("weight", "solo") if name in options}
    expected = weight_of(by_matrix, rows, **terms)
    assert weight_of(without, rows, **terms) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(jobs_that_share(columns=5, jobs=14, types=6))
@examples(300)
def test_pairs_are_as_heavy_as_by_a_matrix(case):
    rows, _, options = case
    for name in ("max_group", "capacity", "method", "start", "least_waste_first"):
        options.pop(name, None)
    assert_as_heavy(rows, **options)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("weight", ["efficiency", "gain"])
@pytest.mark.parametrize("n", [701, 1300])
def test_pairs_of_many_different_jobs_are_as_heavy(n, weight, seed):
    assert_as_heavy(np.random.default_rng(seed).random((n, 4)), weight=weight)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("profiles", [1, 2, 5, 40])
def test_pairs_of_many_equal_jobs_are_as_heavy(profiles, seed):
    rng = np.random.default_rng(seed)
    for n in (1300, 1501):
        assert_as_heavy(rng.random((profiles, 4))[rng.integers(0, profiles, n)])


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("noise", [0.02, 1e-4, 1e-9])
def test_pairs_of_nearly_equal_jobs_are_as_heavy(noise, seed):
    rng = np.random.default_rng(seed)
    for n, profiles in (900, 8), (1501, 3):
        rows = rng.random((profiles, 4))[rng.integers(0, profiles, n)]
        assert_as_heavy(rows * rng.uniform(1 - noise, 1 + noise, rows.shape))


def test_pairs_of_nearly_equal_jobs_are_as_heavy_in_the_worst_order():
    rng = np.random.default_rng(5)
    rows = rng.random((2, 3))[rng.integers(0, 2, 600)] * rng.uniform(0.99, 1.01, (600, 3))
    assert_as_heavy(rows, order="worst")


def test_memory_limits_nearly_equal_jobs():
    rng = np.random.default_rng(6)
    rows = rng.random((3, 4))[rng.integers(0, 3, 700)] * rng.uniform(0.99, 1.01, (700, 4))
    assert_as_heavy(rows, memory=rng.integers(1, 9, 700), gpu_memory=8)


def test_limits_hold_for_many_jobs():
    rng = np.random.default_rng(0)
    rows, memory = rng.random((700, 4)), rng.integers(1, 9, 700)
    assert_as_heavy(rows, memory=memory, gpu_memory=8)
    assert_as_heavy(rows, memory=np.full(700, 5), gpu_memory=8)  # no pair fits
    assert_as_heavy(rows, max_slowdown=1.2, priorities=rng.random(700))
    assert_as_heavy(rows[:, :3], model="data2")


def test_a_certificate_proves_the_pairs():
    rows = np.random.default_rng(7).random((600, 4))
    weights = efficiencies(rows)
    np.fill_diagonal(weights, np.nan)
    proof = max_weight_matching(weights)
    assert proof.verify()
    assert weight_of(pairs_of(rows, matrix=0), rows) == pytest.approx(proof.weight, rel=1e-12)


@pytest.mark.usefixtures("without_matrix")
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_jobs_need_no_matrix_either(n):
    grouping = grouped(np.ones((n, 2)), [1] * n, method="muri")
    assert sum(map(len, grouping.groups)) == n


@pytest.mark.usefixtures("without_matrix")
def test_later_rounds_match_groups_of_several_jobs():
    rows = np.random.default_rng(3).random((900, 4))
    grouping = grouped(rows, [1] * 900, method="muri")
    assert sorted(map(len, grouping.groups)) == [4] * 225
    times, shares, _ = rounds(rows, grouping.groups)
    assert np.array_equal(grouping.iteration_times, times)
    assert np.array_equal(grouping.efficiencies, shares)
    again = grouped(rows, [1] * 900, method="muri")
    assert grouping.groups == again.groups


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_ctrl_c_ends_the_grouping_of_many_jobs():
    def interrupt(*_):
        raise KeyboardInterrupt

    rows = np.random.default_rng(0).random((20000, 4))
    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            grouped(rows, [1] * len(rows), method="muri")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
