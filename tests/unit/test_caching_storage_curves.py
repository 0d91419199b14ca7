"""Cache by measured hit-ratio curves: equal to the straight case, and best on concave ones."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from hivecore.caching import (
    HitRatioCurve,
    StorageJobs,
    allocate_by_curves,
    allocate_storage,
)
from hivecore.errors import CertificateError

CURVES = [HitRatioCurve([10, 20, 40], [0.1, 0.6, 0.8]), HitRatioCurve.uniform(50.0)]


@pytest.mark.parametrize("seed", range(20))
def test_straight_curves_give_what_allocate_storage_gives(seed):
    rng = np.random.default_rng(seed)
    n = 12
    rates, sizes = rng.integers(0, 9, n).astype(float), rng.integers(1, 9, n).astype(float)
    found = allocate_by_curves(rates, map(HitRatioCurve.uniform, sizes), 25.0)
    straight = allocate_storage(StorageJobs(np.arange(n), rates), sizes, 25.0, 1.0)
    assert found.cache.tolist() == straight.cache.tolist()
    assert found.multiplier == straight.certificate.cache_multiplier
    np.testing.assert_allclose(found.demand, straight.demand, atol=1e-12)
    assert found.verify()


@pytest.mark.parametrize("seed", range(10))
def test_no_grid_of_caches_leaves_less_demand_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    curves = [
        HitRatioCurve(np.cumsum(rng.integers(1, 4, 4)), np.sort(rng.random(4))) for _ in range(3)
    ]
    rates, capacity = rng.random(3) * 10, 10
    found = allocate_by_curves(rates, curves, capacity)
    least = math.inf
    for cache in itertools.product(range(capacity + 1), repeat=3):
        if sum(cache) <= capacity:
            hits = [curve.at(float(c)) for curve, c in zip(curves, cache, strict=True)]
            least = min(least, (rates * (1 - np.array(hits))).sum())
    assert found.bound <= least + 1e-9
    concave = allocate_by_curves(rates, [curve.concave() for curve in curves], capacity)
    assert concave.demand.sum() == pytest.approx(concave.bound)
    assert concave.bound == pytest.approx(found.bound)
    assert found.verify() and concave.verify()


def test_the_concave_curve_lies_above_and_touches_at_its_corners():
    rng = np.random.default_rng(0)
    for _ in range(50):
        curve = HitRatioCurve(np.cumsum(rng.random(8) + 0.01), rng.random(8))
        hull = curve.concave()
        assert (hull.at(curve.cache) >= curve.hit_ratio - 1e-12).all()
        assert np.allclose(curve.at(hull.cache), hull.hit_ratio)
        slopes = np.diff(hull.hit_ratio, prepend=0) / np.diff(hull.cache, prepend=0)
        assert (np.diff(slopes) < 1e-12).all() and (slopes >= 0).all()


def test_a_curve_that_never_hits_gets_no_cache():
    found = allocate_by_curves([5.0, 5.0], [HitRatioCurve([1, 2], [0, 0]), CURVES[1]], 30.0)
    assert found.cache.tolist() == [0.0, 30.0]
    assert found.verify()
    assert allocate_by_curves([], [], 1.0).verify()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: HitRatioCurve([], []), ValueError, "at least one point"),
        (lambda: HitRatioCurve([2, 1], [0, 1]), ValueError, r"cache\[1\]=1.0: must be above 2.0"),
        (lambda: HitRatioCurve([0, 1], [0, 1]), ValueError, r"cache\[0\]=0.0"),
        (lambda: HitRatioCurve([1], [1.5]), ValueError, r"hit_ratio\[0\]=1.5: must be from 0 to 1"),
        (lambda: HitRatioCurve([1], [0, 1]), ValueError, r"hit_ratio must have shape \(1,\)"),
        (lambda: HitRatioCurve(["a"], [1]), TypeError, "cache must hold numbers"),
        (lambda: HitRatioCurve.uniform(0.0), ValueError, "dataset=0.0"),
        (lambda: CURVES[0].at(-1.0), ValueError, "cache=-1.0"),
        (lambda: allocate_by_curves([1.0], CURVES, 1.0), ValueError, "curves must be 1"),
        (lambda: allocate_by_curves([1.0], [3], 1.0), TypeError, r"curves\[0\] must be a Hit"),
        (lambda: allocate_by_curves([[1.0]], CURVES, 1.0), ValueError, "one dimension"),
        (lambda: allocate_by_curves([1.0, math.nan], CURVES, 1.0), ValueError, r"rates\[1\]=nan"),
        (lambda: allocate_by_curves([1.0, 1.0], CURVES, -1.0), ValueError, "cache=-1.0"),
        (lambda: allocate_by_curves([1.0, 1.0], 5, 1.0), TypeError, "curves must be a sequence"),
    ],
)
def test_bad_curves_are_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    "change",
    [
        {"cache": np.array([30.0, 20.0])},
        {"cache": np.array([-1.0, 20.0])},
        {"cache": np.array([10.0, 20.0])},
        {"hit_ratio": np.array([0.7, 0.4])},
        {"demand": np.array([40.0, 29.0])},
        {"bound": 71.0},
        {"multiplier": 0.9},
        {"multiplier": -1.0},
    ],
)
def test_a_changed_answer_is_found_out(change):
    found = allocate_by_curves([100.0, 60.0], CURVES, 40.0)
    with pytest.raises(CertificateError):
        replace(found, **change).verify()


def test_a_large_partition_takes_nothing_from_the_small_ones_before_it():
    curves = [HitRatioCurve.uniform(0.3), HitRatioCurve.uniform(1e15)]
    found = allocate_by_curves([1.0, 1.0], curves, 2433.9)
    assert found.cache.tolist() == [0.3, 2433.9 - 0.3]
    assert found.verify()
