"""kube-scheduler gets the answers that a scheduler decides on the same events.

A ledger knows gangs by their pods alone. It tells a scheduler of its own, in the order in which
things happen to pods: submit with the last pod that comes, cancel when one of a waiting gang goes,
finish with the last one of a running gang, stopped when the last one of a victim is gone.
"""

import json
import random
from collections import Counter

import pytest
from interop.extender.pods_and_kubelets import World, hived_pod, koordinator_pod
from profiles import seeds
from scheduler.lives import COMPOSITIONS, NODES, TENANTS, make_scheduler

from hivecore.scheduler import Job, Preempt, Reject, Role, Wait

# name -> (pods, GPUs) of each kind of its pods
KINDS = {
    "one": [(1, 1)],
    "four": [(1, 4)],
    "gang": [(2, 4)],
    "pairs": [(3, 2)],
    "leader": [(1, 1), (2, 2)],
    "huge": [(5, 4)],
}


class Ledger:
    """A scheduler that follows the events of gangs of pods."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.jobs, self.size = {}, {}
        self.pods = {}  # gang -> its pods that exist
        self.rejected, self.reasons = set(), {}

    def define(self, name, job):
        self.jobs[name], self.pods[name] = job, set()
        self.size[name] = sum(role.pods for role in job.roles)

    def gang_of(self, pod):
        return pod.split("-")[0]

    def create(self, pod, bound):
        name = self.gang_of(pod)
        self.pods[name].add(pod)
        self.submit_if_complete(name, bound)

    def submit_if_complete(self, name, bound):
        waiting = self.pods[name] - bound
        if self.jobs[name].name in self.scheduler or name in self.rejected:
            return
        if len(waiting) == self.size[name]:
            self.scheduler.submit(self.jobs[name], 0.0)
            self.decide(bound)

    def delete(self, pod, bound):
        """`bound` are the pods that still are."""
        name = self.gang_of(pod)
        job = self.jobs[name].name
        self.pods[name].discard(pod)
        if not self.pods[name]:
            self.rejected.discard(name)
        if job not in self.scheduler:
            return
        status = self.scheduler.status(job)
        if status.state in ("pending", "reserved"):
            self.scheduler.cancel(job, 0.0)
        elif not status.for_job:
            if self.pods[name]:
                return
            self.scheduler.finish(job, 0.0)
        elif not self.pods[name] & bound:
            if not status.has_stopped:
                self.scheduler.stopped(job, 0.0)
            if len(self.pods[name]) < self.size[name] and not status.is_ending:
                self.scheduler.cancel(job, 0.0)
        else:
            return
        self.decide(bound)

    def set_node(self, node, healthy, bound):
        self.scheduler.set_node(node, healthy, 0.0)
        self.decide(bound)

    def decide(self, bound):
        victims = []
        for action in self.scheduler.decide(0.0):
            if isinstance(action, Preempt):
                victims.append(action.job)
            elif isinstance(action, Reject):
                self.rejected.add(action.job.removeprefix("pods:").removeprefix("x/"))
            elif isinstance(action, Wait):
                self.reasons[action.job] = action.reason
        stopped = False
        for job in victims:
            name = job.removeprefix("pods:").removeprefix("x/")
            if not self.pods[name] & bound:
                self.scheduler.stopped(job, 0.0)
                stopped = True
        if stopped:
            self.decide(bound)


def make_gang(name, form, kind, tenant, priority):
    """The pods of a gang, and the job that they are."""
    kinds = KINDS[kind]
    if form == "hived":
        pods = [
            hived_pod(f"{name}-{gpus}{i}", tenant, gpus, name, kinds, priority)
            for count, gpus in kinds
            for i in range(count)
        ]
        roles = [Role(f"{gpus}-gpu", count, gpus) for count, gpus in kinds]
        job = Job(f"pods:{name}", tenant, roles, priority=priority, guaranteed=priority >= 0)
        return pods, job
    count, gpus = kinds[-1]
    pods = [
        koordinator_pod(f"{name}-{i}", tenant, gpus, name, count, 10 * abs(priority))
        for i in range(count)
    ]
    role = Role("pod", count, gpus)
    return pods, Job(f"pods:x/{name}", tenant, [role], priority=abs(priority))


WITHOUT_MOVES = sorted(
    name for name, parts in COMPOSITIONS.items() if not {"lending", "sharing"} & set(parts)
)


class History:
    """What happens to pods, to a cluster and to a ledger alike."""

    def __init__(self, composition, rng):
        self.parts, self.rng = COMPOSITIONS[composition], rng
        self.world = World(make_scheduler(self.parts))
        self.world.service.touches = True
        self.cluster, self.ledger = self.world.cluster, Ledger(make_scheduler(self.parts))
        self.ready = dict.fromkeys(NODES, True)
        self.to_come, self.gangs, self.seen = [], 0, Counter()

    def bound(self):
        return set(self.cluster.bound())

    def create(self):
        """One more pod of a gang that is not whole, mostly of the one that came first."""
        rng = self.rng
        if not self.to_come or rng.random() < 0.1:
            name = f"g{self.gangs}"
            self.gangs += 1
            form = rng.choice(["hived", "hived", "koordinator"])
            kind, tenant = rng.choice(sorted(KINDS)), rng.choice(TENANTS)
            pods, job = make_gang(name, form, kind, tenant, rng.choice([-1, -1, 0, 0, 5]))
            self.ledger.define(name, job)
            rng.shuffle(pods)
            self.to_come += pods
        pod = self.to_come.pop(0 if rng.random() < 0.8 else rng.randrange(len(self.to_come)))
        self.cluster.create(pod)
        self.ledger.create(pod["metadata"]["name"], self.bound())

    def end(self, pods):
        """A pod is removed; a pod of its name may come again."""
        if pods:
            pod = self.rng.choice(pods)
            name = pod["metadata"]["name"]
            self.cluster.delete(name)
            self.ledger.delete(name, self.bound())

    def step(self):
        draw, cluster = self.rng.random(), self.cluster
        if draw < 0.5:
            self.create()
        elif draw < 0.65:
            self.end(list(cluster.pods.values()))
        elif draw < 0.95:
            self.end([cluster.pods[uid] for uid in cluster.evicted if uid in cluster.pods])
        else:
            lost = [node for node in NODES if not self.ready[node]]
            node = self.rng.choice(lost or NODES)
            self.ready[node] = not self.ready[node]
            cluster.set_ready(node, self.ready[node])
            if {"cells", "topology", "devices"} & set(self.parts):
                self.ledger.set_node(node, self.ready[node], self.bound())
        assert self.world.scheduler.to_bytes() == self.ledger.scheduler.to_bytes()
        cluster.pump(grace=True, touched_by=self.world.service.extender.jobs)
        bound = cluster.bound()
        cluster.pump(grace=True)
        assert cluster.bound() == bound  # no pod had to be touched that was not
        compare(cluster, self.ledger)
        self.seen.update(self.world.states().values())


@pytest.mark.parametrize("composition", WITHOUT_MOVES)
@pytest.mark.parametrize("seed", seeds(1))
def test_pods_get_what_a_scheduler_decides_on_the_same_events(composition, seed):
    history = History(composition, random.Random(seed))
    for _ in range(100 if composition == "cells" else 50):
        history.step()
    history.world.scheduler.check()
    history.world.runner.close()
    assert history.seen["running"]
    if composition == "cells" and seed == 0:
        assert history.seen["pending"]
        assert history.cluster.evicted


def compare(cluster, ledger):
    """Every pod is where its job is, or gets the reason why not."""
    scheduler = ledger.scheduler
    present, expected = cluster.bound(), []
    for name, job in ledger.jobs.items():
        pods = ledger.pods[name]
        state = scheduler.state(job.name) if job.name in scheduler else ""
        if state == "running":
            nodes = [pod.node for pod in scheduler.status(job.name).pods]
            taken = [present[pod] for pod in pods if pod in present]
            left = sorted(nodes)
            for node in taken:
                # A stage that places nothing leaves the node to kube-scheduler.
                left.remove(node if node in left else "")
            expected += [pod for pod in pods if pod in present]
        elif state == "pending" and job.name in ledger.reasons:
            assert {cluster.reasons[pod] for pod in pods - set(present)} <= {
                ledger.reasons[job.name]
            }
        elif not state and name not in ledger.rejected:
            for pod in pods - set(present):
                assert f"of the {ledger.size[name]} pods that " in cluster.reasons[pod]
    assert sorted(expected) == sorted(present)


class Groups:
    """Gangs that name each other at random, in a cluster where pods and nodes come and go."""

    KEY = "gang.scheduling.koordinator.sh/groups"

    def __init__(self, composition, rng):
        self.rng = rng
        self.world = World(make_scheduler(COMPOSITIONS[composition]))
        self.world.service.touches = True
        self.partners = {
            name: [other for other in "abcd" if other != name and rng.random() < 0.35]
            for name in "abcd"
        }
        self.least = {name: rng.randint(1, 3) for name in "abcd"}
        self.tenant = {name: rng.choice(TENANTS) for name in "abcd"}
        self.created = 0
        self.once = set()  # gangs that have started; while they have pods, they wait for no partner

    def pods(self, gang):
        names = [pod["metadata"]["name"] for pod in self.world.cluster.pods.values()]
        return [name for name in names if name[0] == gang]

    def running(self):
        states = self.world.states()
        return {name.rpartition("/")[2] for name in states if states[name] == "running"}

    def step(self):
        cluster, rng, gang = self.world.cluster, self.rng, self.rng.choice("abcd")
        before, draw = self.running(), rng.random()
        if draw < 0.55 and len(self.pods(gang)) < 3:
            self.created += 1
            name = f"{gang}{self.created}"
            pod = koordinator_pod(name, self.tenant[gang], 2, gang, self.least[gang])
            named = [f"x/{partner}" for partner in self.partners[gang]]
            pod["metadata"]["annotations"] = {self.KEY: json.dumps(named)}
            cluster.create(pod)
        elif draw < 0.75 and self.pods(gang):
            cluster.delete(rng.choice(self.pods(gang)))
        elif draw < 0.85:
            cluster.set_ready(rng.choice(NODES), rng.random() < 0.7)
        else:
            cluster.pump()
        after = self.running()
        self.once = {gang for gang in self.once if self.pods(gang)}
        for started in after - before - self.once:
            assert after.issuperset(self.partners[started]), (started, self.partners)
        self.once |= after

    def closure(self, gang):
        known, queue = {gang}, [gang]
        while queue:
            more = set(self.partners[queue.pop()]) - known
            known |= more
            queue += more
        return known


@pytest.mark.parametrize("composition", ["topology", "quotas and devices"])
@pytest.mark.parametrize("seed", [*seeds(4), 65056])
def test_no_gang_starts_without_its_group_and_complete_groups_are_jobs(composition, seed):
    groups = Groups(composition, random.Random(seed))
    for _ in range(60):
        groups.step()
        groups.world.scheduler.check()
    for node in NODES:
        groups.world.cluster.set_ready(node, True)
    groups.world.cluster.pump(touched_by=groups.world.service.extender.jobs)
    bound = groups.world.cluster.bound()
    groups.world.cluster.pump()
    assert groups.world.cluster.bound() == bound  # no pod had to be touched that was not
    for gang in "abcd":
        needed = groups.closure(gang)
        if all(len(groups.pods(other)) >= groups.least[other] for other in needed):
            assert f"pods:x/{gang}" in groups.world.states()
    groups.world.runner.close()
