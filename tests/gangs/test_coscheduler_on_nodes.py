"""A whole scheduler above the coscheduler: nodes with slots, jobs that come, start, run and end.

Every job fits alone. So each of them has to start, whole, whatever the others do meanwhile.
"""

import heapq
from random import Random

import pytest
from profiles import seeds

from hivecore.gangs import Coscheduler, GangSpec

STEPS = 20_000
LONG = 10_000  # a deadlock that is not seen lasts as long as a pod waits


class Cluster:
    """Pods are tried in any order, on any node that has room; binding takes a while."""

    def __init__(self, seed):
        self.rng = rng = Random(seed)
        self.room = {f"n{i}": rng.randint(1, 4) for i in range(rng.randint(1, 5))}
        self.size = sum(self.room.values())
        self.gangs = Coscheduler(backoff=rng.choice([1, 3]))
        self.place, self.job_of, self.trying, self.later = {}, {}, [], []
        self.now = self.numbered = 0
        self.needs, self.bound, self.released = {}, {}, {}
        for job in range(rng.randint(2, 10)):
            self.plan(job)

    def plan(self, job):
        rng = self.rng
        gangs = min(rng.choice([1, 1, 2, 3]), self.size)
        names = [f"j{job}.{i}" for i in range(gangs)]
        members = rng.randint(1, max(1, self.size // gangs // rng.randint(1, 4)))
        mode = rng.choice(["strict", "non-strict"])
        policy = rng.choice(["once-satisfied", "waiting-and-running", "only-waiting"])
        time = rng.randint(0, 30)
        for name in names:
            wait = rng.choice([5, 20, LONG])
            spec = GangSpec(
                name, members, mode=mode, match_policy=policy, wait_time=wait, groups=names
            )
            for i in range(members):
                self.at(time + rng.choice([0, 0, 3]), "create", (f"{name}-{i}", spec, job))
        self.needs[job] = gangs * members
        self.bound[job], self.released[job] = set(), set()

    def at(self, time, what, which):
        self.numbered += 1
        heapq.heappush(self.later, (time, self.numbered, what, which))

    # --- what is to be done

    def do(self, actions):
        started = set()
        for action in actions:
            for pod in action.pods:
                assert pod in self.job_of, f"{action.kind} for {pod}, which is gone"
                if action.kind == "try":
                    self.trying.append(pod)
                elif action.kind == "reject" and pod in self.place:
                    self.room[self.place.pop(pod)] += 1
                elif action.kind == "release":
                    assert pod in self.place
                    job = self.job_of[pod]
                    started.add(job)
                    self.released[job].add(pod)
                    self.at(self.now + self.rng.randint(0, 2), "bind", pod)
        for job in started:
            assert len(self.released[job]) == self.needs[job], f"job {job} starts in part"

    def try_one(self):
        pod = self.trying.pop(self.rng.randrange(len(self.trying)))
        if pod not in self.job_of or self.gangs.pod(pod).state != "trying":
            return
        nodes = [node for node, room in self.room.items() if room]
        if not nodes:
            self.do(self.gangs.fail_pod(pod, self.now, lacks=self.room))
            return
        node = self.rng.choice(nodes)
        self.room[node] -= 1
        self.place[pod] = node
        self.do(self.gangs.assume_pod(pod, self.now, holds=[node]))

    def go_on(self):
        due = self.gangs.deadline
        first = self.later[0][0] if self.later else None
        assert due is not None or first is not None, "nothing is going to happen any more"
        self.now = max(self.now, min(time for time in (due, first) if time is not None))
        if due is not None and due <= self.now:
            self.do(self.gangs.advance(self.now))
            return
        _, _, what, which = heapq.heappop(self.later)
        if what == "create":
            pod, spec, self.job_of[pod] = which
            self.do(self.gangs.create_pod(pod, spec, self.now))
        elif what == "bind":
            job = self.job_of[which]
            self.do(self.gangs.bind_pod(which, self.now))
            self.bound[job].add(which)
            if len(self.bound[job]) == self.needs[job]:
                self.at(self.now + self.rng.randint(1, 15), "end", job)
        else:
            for pod in self.bound.pop(which):
                self.room[self.place.pop(pod)] += 1
                del self.job_of[pod]
                self.do(self.gangs.delete_pod(pod, self.now))


@pytest.mark.parametrize("seed", seeds(150))
def test_every_job_that_fits_alone_starts_whole_and_none_waits_for_ever(seed):
    cluster = Cluster(seed)
    for step in range(STEPS):
        if cluster.trying:
            cluster.try_one()
        elif cluster.bound:
            cluster.go_on()
        else:
            break
        if step % 8 == 0:
            cluster.gangs.check()
    assert not cluster.bound, f"jobs {sorted(cluster.bound)} have not started at {cluster.now}"
    assert cluster.now < LONG
    assert len(cluster.gangs) == 0 and cluster.gangs.gangs == ()
    assert sum(cluster.room.values()) == cluster.size
