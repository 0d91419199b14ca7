"""Worked numbers of delayed effectiveness: 100 GB at 114 MB/s, 50 GB of cache, 40 MB/s remote."""

from math import log1p

import pytest

from hivecore._sim import FluidClock
from hivecore.reference.sim import FluidClock as Twin

both = pytest.mark.parametrize("kind", [FluidClock, Twin])


def cold(kind, epochs=3, **options):
    storage = kind([100e3], [0], [epochs * 100e3], 50e3, 40.0, **options)
    storage.allocate([0], [114.0], [50e3])
    return storage


@both
def test_a_cold_job_has_epochs_of_2500_1250_and_1250_seconds(kind):
    storage = cold(kind)
    assert list(storage.advance(2500.0)) == []
    assert list(storage.left) == pytest.approx([200e3])
    storage.advance(3750.0)
    assert list(storage.left) == pytest.approx([100e3])
    assert list(storage.advance()) == [0]
    assert storage.now == pytest.approx(5000.0)
    assert storage.fetched == pytest.approx(200e3)


@both
@pytest.mark.parametrize(("shrink", "seconds"), [("read_first", 1375.0), ("random", 1625.0)])
def test_a_shrink_to_20_gb_in_the_middle_of_the_second_epoch(kind, shrink, seconds):
    storage = cold(kind, 2, shrink=shrink, lazy=False)
    storage.advance(3125.0)
    storage.allocate([0], [114.0], [20e3])
    assert list(storage.cached) == pytest.approx([20e3])
    assert list(storage.advance()) == [0]
    assert storage.now == pytest.approx(2500.0 + seconds)


@both
def test_the_epochs_of_a_steady_job_are_no_events(kind):
    storage = kind([100.0], [0], [1000 * 100.0], 50.0, 40.0)
    storage.allocate([0], [114.0], [50.0])
    assert list(storage.advance()) == [0]
    assert storage.events <= 4


@both
@pytest.mark.parametrize("kappa", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_the_hit_ratio_of_one_lru_cache_follows_the_closed_form(kind, kappa):
    storage = kind([100.0], [0], [300.0], 100 * kappa, 10.0, policy="lru", io_mode="maxmin_io")
    storage.allocate([0], [1000.0])
    storage.advance()
    missed = 1.0 - kappa - (1.0 - kappa) * log1p(-kappa)
    assert storage.fetched == pytest.approx(100.0 * (1 + 2 * missed), rel=8e-3)
