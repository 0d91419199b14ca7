"""Errors inside of `Scheduler.decide`, at every call of a part, leave a scheduler as it was.

The calls that a decision makes are counted on a copy. Then some of them fail, before or after they
have done their work; afterwards the state is the same to the byte, and the same is decided.
"""

import copy
import random
from contextlib import contextmanager, suppress

import pytest
from profiles import seeds
from scheduler_histories import History
from scheduler_lives import COMPOSITIONS

from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler.lifecycle.waiting import Waiting
from hivecore.scheduler.stages.sharing import SharingStage
from hivecore.scheduler.stages.storage import StorageStage
from hivecore.topology import NetworkTopology

METHODS = {
    CellCluster: ("schedule", "commit", "release", "recover", "rename"),
    DeviceCluster: ("schedule", "commit", "release", "recover", "rename", "filter"),
    NetworkTopology: ("schedule", "commit", "release", "rename"),
    QuotaTree: ("schedule", "commit", "submit", "release", "evict", "recover", "exchange"),
    TenantQueues: ("push", "next", "take", "requeue", "park", "wake"),
    SharingStage: ("join", "begin", "leave", "stop", "share", "regrouped", "regroup"),
    StorageStage: ("read", "go", "allot"),
    Waiting: ("add", "leave", "park", "wake", "woken", "touch"),
}


class Injected(Exception):
    pass


@contextmanager
def failing(at, is_after):
    """Let the call of this number fail; -1: none does. Gives how many there were."""
    calls = [0]

    def wrapped(method):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] != at:
                return method(*arguments, **options)
            if is_after:
                with suppress(KeyError):
                    method(*arguments, **options)
            raise Injected

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, names in METHODS.items():
            for name in names:
                patch.setattr(owner, name, wrapped(getattr(owner, name)))
        yield calls


class FailingHistory(History):
    """A history in which decisions fail before they are made."""

    failed = 0

    def decide(self):
        rng = random.Random(self.rng.random())
        with failing(-1, False) as calls:
            copy.copy(self.scheduler).decide(self.now)
        for _ in range(min(calls[0], 3)):
            before = self.scheduler.to_bytes()
            with failing(rng.randint(1, calls[0]), rng.random() < 0.5):
                try:
                    self.scheduler.decide(self.now)
                except Injected:
                    self.failed += 1
                else:  # it knew more than its copy, and called less
                    return
            assert self.scheduler.to_bytes() == before
            self.scheduler.check()
        super().decide()


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("parts", COMPOSITIONS)
def test_a_decision_that_fails_changes_nothing(parts, seed):
    history = FailingHistory(parts, seed)
    history.live(40)
    assert history.failed
