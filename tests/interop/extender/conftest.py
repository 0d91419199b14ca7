"""Schedulers behind an extender, with a cluster of pods each."""

import pytest
from interop.extender.pods_and_kubelets import World
from scheduler.lives import COMPOSITIONS, make_scheduler


@pytest.fixture
def worlds():
    """Makes one by the parts of its scheduler, which are checked at the end."""
    results = []

    def make(parts, scheduler=None, **options):
        built = make_scheduler(COMPOSITIONS[parts]) if scheduler is None else scheduler
        results.append(World(built, **options))
        return results[-1]

    yield make
    for world in results:
        world.scheduler.check()
        world.runner.close()
