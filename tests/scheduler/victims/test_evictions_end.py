"""Evictions end: all histories of a few jobs on four GPUs.

Between two external events no set of running jobs occurs twice. There are 2**n sets of n jobs, or
3**n with idle cells, so the number of starts is bounded. No job is evicted for a job that then
waits.

Where victims take time to stop, each stop is an event. Still no set of running jobs occurs twice
before a job comes or ends, whichever victim stops first.
"""

from functools import cache

import pytest
from profiles import SCALE
from scheduler.lives import flat_network, gpu_quotas, jobs_of

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.scheduler import Job, Preempt, Promote, Role, Scheduler, Sharing, Start

#: a long run tries more jobs of more sizes
JOBS = 3 if SCALE < 10 else 4
SIZES = (1, 4) if SCALE < 2 else (1, 2, 4) if SCALE < 5 else (1, 2, 3, 4)
NODES = "n0", "n1"
#: tenant, GPUs, priority, guaranteed
CHOICES = [
    (tenant, gpus, priority, guaranteed)
    for tenant in "ab"
    for gpus in SIZES
    for priority, guaranteed in ((0, True), (1, True), (0, False))
]


def cells():
    chain = Chain(["gpu", "node"], [2], 2, nodes=NODES)
    return CellCluster(ClusterSpec({"c": chain}, {"a": {"c": {"node": 1}}, "b": {"c": {"gpu": 2}}}))


def quotas(limit):
    return gpu_quotas(4, limit=limit, a=(4, 1), b=(3, 2))


def network():
    return flat_network(*NODES, gpu=2)


def machines():
    return DeviceCluster(dict.fromkeys(NODES, NodeDevices.uniform(gpus=2)))


WORLDS = {
    "cells": lambda: {"cells": cells()},
    "runtimes": lambda: {"quotas": quotas("runtime")},
    "maximums": lambda: {"quotas": quotas("max")},
    "cells and quotas": lambda: {"cells": cells(), "quotas": quotas("max")},
    "network and quotas": lambda: {"topology": network(), "quotas": quotas("max")},
    "network and runtimes, across tenants": lambda: {
        "topology": network(),
        "quotas": quotas("runtime"),
    },
    "cells and quotas, across tenants": lambda: {"cells": cells(), "quotas": quotas("max")},
    "devices": lambda: {"devices": machines()},
    "lending": lambda: {"cells": cells(), "lending": True},
    "sharing": lambda: {"devices": machines(), "sharing": Sharing(resources=2, max_group=2)},
}


@cache
def job_of(number, tenant, gpus, priority, guaranteed, across):
    return Job(
        f"j{number}",
        tenant,
        [Role("pod", gpus, gpus=1)],
        priority=priority,
        guaranteed=guaranteed,
        quota={"a": "b", "b": "a"}[tenant] if across and number % 2 else tenant,
        stages=(1.0, 3.0) if number % 2 else (3.0, 1.0),
    )


class History:
    """A scheduler, and the running jobs according to its actions.

    :param across: every other job requests the quota of the other tenant.
    """

    def __init__(self, scheduler, jobs, running, across):
        #: running job -> whether it runs on idle cells
        self.scheduler, self.jobs, self.running = scheduler, jobs, running
        self.across = across
        self.preempted = 0

    @classmethod
    def of(cls, world, *more, **settings):
        return cls(Scheduler(**WORLDS[world](), **settings), {}, {}, "across" in world, *more)

    def branch(self):
        return History(self.scheduler.copy(), dict(self.jobs), dict(self.running), self.across)

    def submit(self, choice):
        job = job_of(len(self.jobs), *choice, across=self.across)
        self.jobs[job.name] = job
        self.scheduler.submit(job, 0.0)
        self.settle()

    def settle(self):
        """Decide until nothing happens any more."""
        seen = {frozenset(self.running.items())}
        actions = self.scheduler.decide(0.0, len(self.jobs) * 3 ** len(self.jobs))
        winner = ""
        for action in actions:
            if isinstance(action, Preempt):
                assert winner in ("", action.for_job), "they leave for several"
                winner = action.for_job
                del self.running[action.job]
            elif isinstance(action, (Start, Promote)):
                assert winner in ("", action.job), "they have left for another one"
                winner = ""
                self.runs(action, seen)
        assert not winner, "they have left for no job"
        won = {action.for_job for action in actions if isinstance(action, Preempt)}
        assert won <= self.running.keys(), "a job that evicted others waits"
        self.preempted += len(won)
        assert self.scheduler.decide(0.0) == [], "it is not quiet"

    def runs(self, action, seen):
        self.running[action.job] = isinstance(action, Start) and action.lent
        assert frozenset(self.running.items()) not in seen, "they have run together before"
        seen.add(frozenset(self.running.items()))

    def end(self):
        """End the running jobs in turn, until none is left."""
        while self.running:
            first = min(self.running)
            self.scheduler.finish(first, 0.0)
            del self.running[first]
            self.settle()
        assert len(self.scheduler) == 0, "a job waits forever"


def after(history, jobs):
    """All histories with so many more jobs; how often a job was evicted."""
    count = 0
    for choice in CHOICES:
        branch = history.branch()
        branch.submit(choice)
        if jobs > 1:
            count += after(branch, jobs - 1)
        else:
            branch.end()
        count += branch.preempted
    return count


class SlowHistory(History):
    """A history in which victims stop one after the other."""

    def __init__(self, scheduler, jobs, running, across, first):
        super().__init__(scheduler, jobs, running, across)
        #: whether the first victim stops first, or last
        self.first = first

    def branch(self):
        copied = self.scheduler.copy(), dict(self.jobs), dict(self.running)
        branch = SlowHistory(*copied, self.across, self.first)
        assert not any(self.scheduler.status(name).for_job for name in self.running)
        return branch

    def settle(self):
        """Decide and let victims stop, until nothing happens any more."""
        seen = {frozenset(self.running.items())}
        stopping = {}  # victim -> the job that it stops for
        while True:
            waiting = set(stopping.values())
            for action in self.scheduler.decide(0.0):
                if isinstance(action, Preempt):
                    assert action.job in self.running and action.job not in stopping
                    assert action.for_job not in waiting, "one more has to stop for it"
                    stopping[action.job] = action.for_job
                    self.preempted += 1
                elif isinstance(action, (Start, Promote)):
                    assert action.job not in stopping.values(), "it does not wait for its victims"
                    self.runs(action, seen)
            if not stopping:
                break
            victim = list(stopping)[0 if self.first else -1]
            winner = stopping.pop(victim)
            del self.running[victim]
            self.scheduler.stopped(victim, 0.0)
            if winner not in stopping.values():
                branch = self.scheduler.copy()
                starts = jobs_of(branch.decide(0.0), Start)
                assert winner in starts, "a job that evicted others waits"
        assert self.scheduler.decide(0.0) == [], "it is not quiet"


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("first", [True, False] if SCALE > 1 else [True])
def test_every_history_gets_quiet_where_victims_take_their_time(world, first):
    assert after(SlowHistory.of(world, first), JOBS) > 0


@pytest.mark.parametrize("world", WORLDS)
def test_every_history_of_few_jobs_gets_quiet(world):
    assert after(History.of(world, immediate=True), JOBS) > 0
