"""Random histories that combine everything: drains, limits on evictions, defragmentation, promises,
elastic and adopted jobs, and limits per node and rack. Queries change nothing, and a replay of the
log gives the same.
"""

import copy
import random

import pytest
from dra.worlds import claim, request
from profiles import seeds
from scheduler.lives import CLAIMED, COMPOSITIONS
from scheduler.test_per_node import SpreadElasticHistory

from hivecore.errors import HivecoreError
from hivecore.scheduler import EvictionLimit, Fragments, Job, Scheduler, replay


class MixedHistory(SpreadElasticHistory):
    """Jobs with any request, and a scheduler that is queried all the time."""

    def __init__(self, parts, seed, path=None):
        super().__init__(parts, seed)
        self.mixed = random.Random(seed + 3)
        if path is not None:
            self.scheduler.write_log(path)
        self.more = [self.adopt_again, self.estimate_again, self.ask, self.say_nonsense]
        self.events += self.more
        self.weights += [self.mixed.random() ** 2 for _ in self.more]

    def settings(self, seed):
        settings = super().settings(seed)
        if seed % 2:
            limit = EvictionLimit(min_run_time=2.0, per_hour=seed % 5 + 1)
            settings = {"eviction_limits": [limit]}
        self.promises = seed % 4 // 2 * (1 + seed % 3)
        return {**settings, "backfill": self.promises}

    def varied(self, job):
        job = super().varied(job)
        fixed = job.stages or job.on_failure != "job"
        if fixed or any(role.max_pods or role.joining_numbers for role in job.roles):
            return job
        limits = {"per_domain": {self.mixed.choice(["rack", "node"]): self.mixed.randint(1, 2)}}
        where = job.where.replace(**self.mixed.choice([{}, {}, limits, {"balance": "rack"}]))
        job = self.if_enforced(job.replace(where=where)) or job
        if "claims" not in self.parts or self.mixed.random() < 0.4:
            return job
        devices = claim(request("r", self.mixed.randint(1, 2)), name="gpu")
        role = job.roles[0].replace(devices=None, claims=[devices])
        return self.if_enforced(job.replace(roles=[role, *job.roles[1:]])) or job

    def estimate(self):
        return self.mixed.choice([None, 2.0, 5.0, 40.0])

    def adopt_again(self):
        """A job is forgotten for a moment, and adopted where it runs."""
        running = [
            name
            for name in self.running()
            if not (status := self.scheduler.status(name)).for_job
            and not (status.shares or status.lost)
            and self.scheduler.state(name) == "running"
        ]
        for name in self.one_of(running) if not self.scheduler.has_order else ():
            job, status = self.jobs[name], self.scheduler.status(name)
            branch = copy.copy(self.scheduler)
            branch.cancel(name, self.now)
            try:
                branch.adopt(job, status.pods, self.now, since=status.since)
            except (ValueError, HivecoreError):
                continue
            self.scheduler.cancel(name, self.now)
            self.scheduler.adopt(job, status.pods, self.now, since=status.since)
            assert {*self.scheduler.status(name).pods} == {*status.pods}
            assert self.scheduler.status(name).since == status.since
            self.places[name] = self.places_of(name)

    def estimate_again(self):
        for name in self.one_of(self.running()):
            self.scheduler.amend(name, self.now, run_time=self.mixed.choice([1.0, 9.0, 90.0]))
            self.jobs[name] = self.scheduler.job(name)

    def ask(self):
        """Queries change nothing."""
        before, pods = self.scheduler.to_bytes(), self.all_pods(self.scheduler)
        again = Scheduler.from_bytes(before)
        for name in self.scheduler:
            assert self.scheduler.forecast(name) == again.forecast(name)
            assert self.scheduler.explain(name) == again.explain(name)
        self.scheduler.summary()
        assert self.scheduler.to_bytes() == again.to_bytes() == before
        assert self.all_pods(again) == self.all_pods(self.scheduler) == pods

    def all_pods(self, scheduler):
        return {name: scheduler.status(name).pods for name in scheduler}

    def say_nonsense(self):
        """A refused event changes nothing."""
        names, now = list(self.scheduler), self.now
        name = self.mixed.choice(names) if names else "x"
        nan, node = float("nan"), self.mixed.choice(["n0", "n9", ""])
        pod = self.scheduler.status(name).pods[:1] if names else ()
        calls = [
            lambda: self.scheduler.drain(node, now, by=nan),
            lambda: self.scheduler.drain(node, now, by=now - 1),
            lambda: self.scheduler.drain("n9", now),
            lambda: self.scheduler.amend(name, now, run_time=-1),
            lambda: self.scheduler.amend(name, now, roles=()),
            lambda: self.scheduler.amend(name, now, tenant="b"),
            lambda: self.scheduler.adopt(Job("new", "a", 3), pod, now),
            lambda: self.scheduler.fail(name, now, "w/99"),
            lambda: self.scheduler.stopped(name, now, "w/99"),
            lambda: self.scheduler.set_node(node, 1, now),
            lambda: self.scheduler.defragment(now, Fragments(), seconds=nan),
            lambda: self.scheduler.defragment(now, Fragments(), seconds=1.0, most_moves=-1),
            lambda: self.scheduler.decide(now, most=0),
        ]
        before = self.scheduler.to_bytes()
        with pytest.raises((ValueError, TypeError, KeyError, HivecoreError)):
            self.mixed.choice(calls)()
        assert self.scheduler.to_bytes() == before

    def overlooked(self):
        # wrong estimates wake no job
        return [] if self.promises else super().overlooked()


@pytest.mark.parametrize("parts", sorted({*COMPOSITIONS, *CLAIMED} - {"queues"}))
@pytest.mark.parametrize("seed", seeds(1))
def test_mixed_histories_are_consistent_and_replayed(parts, seed, path):
    history = MixedHistory(parts, seed, path)
    history.live(40)
    history.scheduler.close()
    again = replay(path)
    again._logged = history.scheduler.logged  # which a replay does not write
    assert again.to_bytes() == history.scheduler.to_bytes()
