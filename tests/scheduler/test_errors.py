"""Errors inside a scheduler, at any call of a part, leave it unchanged.

The part calls of a decision or an event are counted on a copy. Then some of them fail, before or
after they have done their work. Afterwards the state is the same to the byte, and so are the
decisions. A forecast, which simulates the future, leaves no trace either.
"""

import copy
import random
from contextlib import contextmanager, suppress
from math import inf

import pytest
from profiles import seeds
from scheduler import histories as scheduler_histories
from scheduler.histories import History
from scheduler.lives import COMPOSITIONS, make_job

from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler import Scheduler
from hivecore.scheduler.ledger.waiting import Waiting
from hivecore.scheduler.stages.sharing import SharingStage
from hivecore.scheduler.stages.storage import StorageStage
from hivecore.topology import NetworkTopology

METHODS = {
    CellCluster: ("schedule", "commit", "release", "recover", "rename", "set_health"),
    DeviceCluster: (
        *("schedule", "commit", "allocate_many", "release", "release_many", "recover"),
        *("rename", "set_health"),
    ),
    NetworkTopology: ("schedule", "commit", "release", "rename", "set_health", "add_node"),
    QuotaTree: ("schedule", "commit", "submit", "release", "evict", "recover", "set_quota"),
    TenantQueues: ("push", "next", "take", "requeue", "park", "wake"),
    SharingStage: ("join", "begin", "leave", "stop", "share", "regrouped", "regroup"),
    StorageStage: ("come", "read", "go", "allot"),
    Waiting: ("add", "leave", "park", "wake", "woken", "touch"),
}
#: without those that check first: they cost too much in a transaction
CALLS = (
    *("decide", "amend", "cancel", "fail", "stopped", "advance", "move", "regroup", "drain"),
    "defragment",
    *("set_node", "add_node", "remove_node", "set_quota", "set_total", "reconfigure", "reorder"),
    "set_eviction_limits",
)


class Injected(Exception):
    pass


@contextmanager
def failing(at, is_after=False):
    """Let the call with this number fail; -1: none. Yields how many calls there were."""
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


class Failing:
    """Lets calls of schedulers fail before they are made."""

    def __init__(self, seed):
        self.rng, self.failed, self.is_busy = random.Random(seed), 0, False

    def wrapped(self, method):
        def call(scheduler, *arguments, **options):
            if self.is_busy:
                return method(scheduler, *arguments, **options)
            self.is_busy = True
            try:
                with failing(-1) as calls:
                    method(copy.copy(scheduler), *arguments, **options)
                for _ in range(min(calls[0], 2)):
                    before = scheduler.to_bytes()
                    with failing(self.rng.randint(1, calls[0]), self.rng.random() < 0.5):
                        try:
                            return method(scheduler, *arguments, **options)
                        except Injected:
                            self.failed += 1
                    assert scheduler.to_bytes() == before
                    scheduler.check()
            finally:
                self.is_busy = False
            return method(scheduler, *arguments, **options)

        return call


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("parts", COMPOSITIONS)
def test_a_call_that_fails_changes_nothing(parts, seed, monkeypatch):
    history, calls = History(parts, seed), Failing(seed)
    for name in CALLS:
        monkeypatch.setattr(Scheduler, name, calls.wrapped(getattr(Scheduler, name)))
    history.live(30)
    assert calls.failed or not history.jobs


def lived_through(scheduler, job):
    """When a job starts on a branch if running jobs end by their estimates; None: never."""
    branch, now = copy.copy(scheduler), scheduler.now
    while True:
        settle(branch, now)
        if job not in branch:
            return None
        if branch.state(job) in ("running", "lent"):
            return branch.status(job).since
        ends = {
            name: max(now, branch.status(name).since + branch.job(name).run_time)
            for name in branch
            if branch.status(name).since is not None and branch.job(name).run_time is not None
        }
        now = min(ends.values(), default=inf)
        if now == inf:
            return None
        for name in sorted(name for name, end in ends.items() if end == now):
            branch.finish(name, now)


def settle(branch, now):
    """Decide until no job has to stop any more."""
    while True:
        branch.decide(now)
        statuses = {name: branch.status(name) for name in branch}
        stopping = [
            name for name, status in statuses.items() if status.for_job and not status.has_stopped
        ]
        if not stopping:
            return
        for name in stopping:
            branch.stopped(name, now)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("parts", COMPOSITIONS)
def test_a_forecast_is_what_a_branch_lives_through_and_leaves_no_trace(parts, seed, monkeypatch):
    rng = random.Random(seed)

    def estimated(*arguments, **options):
        return make_job(*arguments, **options | {"run_time": rng.choice([None, 1.0, 5.0, 20.0])})

    monkeypatch.setattr(scheduler_histories, "make_job", estimated)
    history = History(parts, seed)
    for _ in range(4):
        history.live(6)
        before = history.scheduler.to_bytes()
        for job in history.scheduler:
            if history.scheduler.state(job) not in ("running", "lent"):
                forecast = history.scheduler.forecast(job)
                assert history.scheduler.to_bytes() == before
                assert forecast == lived_through(history.scheduler, job)
