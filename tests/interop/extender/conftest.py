"""Schedulers behind an extender, with a cluster of pods, or of pods with device claims, each."""

import pytest
from interop.extender.claims_and_controllers import ClaimCluster
from interop.extender.pods_and_kubelets import World
from scheduler.lives import COMPOSITIONS, make_scheduler

from hivecore.scheduler import Scheduler


@pytest.fixture
def worlds():
    """Makes one by the parts of its scheduler, which are checked at the end."""
    results = []

    def make(parts="", scheduler=None, after=None, listed=False, **options):
        """`after`: another process has its pods; without `parts` it goes on from the same log."""
        if parts:
            scheduler = make_scheduler(COMPOSITIONS[parts])
        elif after is not None:
            scheduler = Scheduler.from_bytes(after.scheduler.to_bytes())
        results.append(World(scheduler, **options))
        if after is not None:
            results[-1].cluster.pods = after.cluster.pods
        assert not listed or results[-1].cluster.listed() == (200, {})
        return results[-1]

    yield make
    for world in results:
        world.scheduler.check()
        world.runner.close()


@pytest.fixture
def clusters(tmp_path):
    items = []

    def make(**options):
        folder = tmp_path / str(len(items))
        folder.mkdir()
        items.append(ClaimCluster(folder, **options))
        return items[-1]

    yield make
    for entry in items:
        try:
            entry.check()
        finally:
            entry.close()


@pytest.fixture
def cluster(clusters):
    return clusters()
