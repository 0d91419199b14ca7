"""Worked numbers of SiloD's model: delayed effectiveness, shrinks, estimates, one snapshot.

They follow from the model by hand; the closed forms of LRU are those for epoch shuffles.
"""

from math import inf, log1p

import numpy as np
import pytest
from sim.storage.items import schedule_items
from sim.storage.jobs_on_storage import workload

from hivecore.sim.storage import Rules, StorageCluster, schedule_storage
from hivecore.sim.storage.caches import Allotted
from hivecore.sim.storage.orders import Fifo
from hivecore.sim.storage.situation import Grants

COLD = StorageCluster(gpus=1, cache_gb=50.0, bandwidth_mbps=40.0)


@pytest.mark.parametrize(("epochs", "seconds"), [(1, 2500.0), (2, 3750.0), (3, 5000.0)])
def test_what_an_epoch_caches_is_of_use_from_the_next_one_on(epochs, seconds):
    work = workload(("x", 100.0, 100.0 * epochs, 114.0, 1, 0.0))
    assert schedule_storage(work, COLD).end.tolist() == pytest.approx([seconds])
    assert schedule_items(work, COLD, items=4000).end.tolist() == pytest.approx([seconds], rel=2e-3)


class Once(Fifo):
    """First in first out, which decides again at one instant."""

    def __init__(self, instant):
        self.instant = instant

    def granted(self, situation, jobs):
        result = super().granted(situation, jobs)
        left = self.instant - situation.now
        return Grants(result.jobs, result.share, None, left if left > 0 else inf)


class Shrinks:
    """50 GB for the only dataset, and 20 GB from an instant on."""

    private = lru = False

    def __init__(self, instant):
        self.instant = instant

    def quotas(self, situation, grants):
        return np.array([50e3 if situation.now < self.instant else 20e3]), np.array([0])


@pytest.mark.parametrize(("shrink", "seconds"), [("read_first", 1375.0), ("random", 1625.0)])
@pytest.mark.parametrize("mode", ["fluid", "items"])
def test_a_shrink_in_mid_epoch_spares_hits_if_what_was_read_goes_first(shrink, seconds, mode):
    work = workload(("x", 100.0, 200.0, 114.0, 1, 0.0))
    rules = Rules(Once(3125.0), Shrinks(3125.0), "priority")
    if mode == "fluid":
        end = schedule_storage(work, COLD, rules, shrink=shrink, lazy=False).end
        assert end.tolist() == pytest.approx([2500.0 + seconds])
    else:
        end = schedule_items(work, COLD, rules, shrink=shrink, lazy=False, items=20_000).end
        assert end.tolist() == pytest.approx([2500.0 + seconds], rel=2.5e-3)


@pytest.mark.parametrize("policy", ["sjf", "srtf"])
def test_estimates_without_storage_invert_the_order_of_jobs(policy):
    """The job that its GPUs could do in 1,000 s needs 5,000 s for its data, the other one 2,000."""
    work = workload(("x", 20.0, 20.0, 10.0, 1, 0.0), ("y", 100.0, 100.0, 100.0, 1, 0.0))
    cluster = StorageCluster(gpus=1, cache_gb=0.0, bandwidth_mbps=20.0)
    aware = schedule_storage(work, cluster, policy, "silod").end
    unaware = schedule_storage(work, cluster, policy, "coordl").end
    assert (aware.tolist(), aware.mean()) == (pytest.approx([2000.0, 7000.0]), 4500.0)
    assert (unaware.tolist(), unaware.mean()) == (pytest.approx([7000.0, 5000.0]), 6000.0)


SNAPSHOT = {
    "rn50-oi": (660.0, 114.0, 1),
    "rn50-in": (1360.0, 114.0, 1),
    "eff-oi": (660.0, 69.0, 1),
    "eff-in": (1360.0, 69.0, 1),
    "bert": (20900.0, 8.0, 4),
}


@pytest.mark.parametrize(
    ("storage", "cache", "total", "remote", "cached"),
    [
        (
            "silod",
            2000.0,
            374.0,
            134.0,
            {"rn50-oi": 660, "rn50-in": 680, "eff-oi": 660, "eff-in": 0, "bert": 0},
        ),
        (
            "coordl",
            2000.0,
            279.36,
            200.0,
            {"rn50-oi": 250, "rn50-in": 250, "eff-oi": 250, "eff-in": 250, "bert": 1000},
        ),
        ("silod", 0.0, 200.0, 200.0, dict.fromkeys(SNAPSHOT, 0)),
    ],
)
def test_the_snapshot_of_eight_gpus(storage, cache, total, remote, cached):
    """Jobs so long that all caches are filled and used; the last instant with all of them."""
    seconds = 2e7
    rows = [
        (name, d, rate * seconds / 1e3, rate, g, 0.0) for name, (d, rate, g) in SNAPSHOT.items()
    ]
    work = workload(*rows)
    cluster = StorageCluster(gpus=8, cache_gb=cache, bandwidth_mbps=200.0)
    history = schedule_storage(work, cluster, "fifo", storage, record=True).history
    last = int(np.flatnonzero(history.present == 5)[-1])
    assert history.rate_mbps[last] == pytest.approx(total, abs=0.01)
    assert history.remote_mbps[last] == pytest.approx(remote, abs=0.01)
    assert dict(zip(work.names, history.cached_gb[last], strict=True)) == pytest.approx(cached)


def test_a_warm_up_while_a_job_waits_saves_its_cold_epoch():
    """50 GB come in while another job has the GPU: 1,250 s less than 2,500, 1,250, 1,250."""
    rows = ("w", 1.0, 100.0, 40.0, 1, 0.0), ("x", 100.0, 300.0, 114.0, 1, 0.0)
    cluster = StorageCluster(gpus=1, cache_gb=51.0, bandwidth_mbps=40.0)
    cold, warm = (
        schedule_storage(workload(*rows), cluster, warm_up=warm_up).end for warm_up in (False, True)
    )
    assert cold[1] - cold[0] == pytest.approx(5000.0, rel=0.03)
    assert warm[1] - warm[0] == pytest.approx(3 * 1250.0, rel=0.03)
    assert warm[0] == cold[0]


@pytest.mark.parametrize("kappa", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_the_fluid_lru_has_the_known_hit_ratio_for_one_job(kappa):
    """All epochs but the first miss 1 - k - (1-k) ln(1-k) of 100 GB at 10 MB/s."""
    work = workload(("x", 100.0, 300.0, 1000.0, 1, 0.0))
    cluster = StorageCluster(gpus=1, cache_gb=100 * kappa, bandwidth_mbps=10.0)
    missed = 1.0 - kappa - (1.0 - kappa) * log1p(-kappa)
    end = schedule_storage(work, cluster, "fifo", "alluxio").end[0]
    assert end == pytest.approx(10_000.0 * (1 + 2 * missed), rel=8e-3)


@pytest.mark.parametrize(
    ("jobs", "kappa", "hits"),
    [(2, 0.25, 0.14), (2, 0.5, 0.33), (4, 0.25, 0.20), (4, 0.5, 0.41), (8, 0.25, 0.22)],
)
def test_the_fluid_lru_has_the_measured_hit_ratio_for_jobs_on_one_dataset(jobs, kappa, hits):
    """Rates without waiting are equal, but the jobs began one after another."""
    begin = [1000.0 * job / jobs for job in range(jobs)]
    rows = [("x", 100.0, 100.0 * 30, 100.0, 1, at) for at in begin]
    cluster = StorageCluster(gpus=jobs, cache_gb=100 * kappa, bandwidth_mbps=1e6)
    outcome = schedule_storage(workload(*rows), cluster, "fifo", "alluxio")
    assert 1 - outcome.remote_mb / outcome.read_mb == pytest.approx(hits, abs=0.015)


def test_reclaimed_bytes_stay_useful_until_another_cache_admits():
    """The second job is more efficient and takes the cache, miss by miss."""
    rows = ("x", 100.0, 300.0, 60.0, 1, 0.0), ("y", 50.0, 100.0, 100.0, 1, 5000.0)
    cluster = StorageCluster(gpus=2, cache_gb=50.0, bandwidth_mbps=40.0)
    rules = Rules(Fifo(), Allotted(eps=0.0), "priority")
    lazy, eager = (
        schedule_storage(workload(*rows), cluster, rules, lazy=lazy).end for lazy in (True, False)
    )
    assert lazy[0] < eager[0]
