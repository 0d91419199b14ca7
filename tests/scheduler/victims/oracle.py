"""The cheapest victims of a job, by trying all sets of running jobs on the parts.

It shares no code with the scheduler: it calls copies of the parts, as a user would, and has its own
version of the documented rules for evictions.
"""

from collections import Counter
from itertools import combinations
from typing import NamedTuple

from scheduler.lives import make_scheduler

from hivecore.cells import AffinityGroup, NodeSet
from hivecore.devices import DeviceRequest
from hivecore.scheduler import EvictionLimit, Job, Preempt, Role, Start
from hivecore.topology import TopologyRequest

COMPOSITIONS = {
    " and ".join(parts): parts
    for parts in (
        ("quotas",),
        ("cells",),
        ("topology",),
        ("devices",),
        ("quotas", "cells"),
        ("quotas", "topology"),
        ("quotas", "devices"),
        ("topology", "devices"),
        ("cells", "devices"),
        ("quotas", "topology", "devices"),
        ("quotas", "cells", "devices"),
    )
}


class Answer(NamedTuple):
    """What a scheduler does for the last job, and the cheapest possible victims.

    :param victims: ``None``: the job waits; empty: it starts.
    :param least: guaranteed victims and all victims of the cheapest set; ``None``: no set is
        enough.
    """

    victims: frozenset | None
    rank: tuple[int, int] | None
    least: tuple[int, int] | None
    is_irreducible: bool


def instance(parts, rng, limits=()):
    """A scheduler with running jobs, and a job that waits for its first decision; and the past
    evictions, as pairs of quota and time.
    """
    scheduler = make_scheduler(parts, immediate=True, eviction_limits=limits)
    evictions = []
    for i in range(rng.randint(3, 9)):
        guaranteed = rng.random() < 0.6
        job = Job(
            f"j{i}",
            rng.choice("ab"),
            [Role("w", rng.choice((1, 1, 1, 2)), gpus=rng.choice((1, 1, 2, 3, 4)))],
            priority=rng.randint(0, 2),
            guaranteed=guaranteed,
            preemptible=not guaranteed or rng.random() < 0.9,
        )
        scheduler.submit(job, float(i))
        for action in scheduler.decide(float(i)):
            if isinstance(action, Preempt):
                evictions.append((scheduler.job(action.job).quota, float(i)))
    for name in [name for name in scheduler if scheduler.state(name) != "running"]:
        scheduler.cancel(name, 10.0)
    job = Job(
        "wanted",
        rng.choice("ab"),
        [Role("w", rng.choice((1, 1, 2, 3)), gpus=rng.choice((1, 2, 3, 4)))],
        priority=rng.randint(0, 3),
    )
    scheduler.submit(job, 11.0)
    return scheduler, job, evictions


def random_limits(rng):
    """Limits on evictions for each quota, or for both."""
    return [
        EvictionLimit(
            quota,
            min_run_time=rng.choice((0.0, 0.0, 5.0, 8.0)),
            per_hour=rng.choice((None, 0, 1, 1, 2, 3)),
        )
        for quota in rng.choice((("",), ("a",), ("b",), ("a", "b")))
    ]


def answer(scheduler, job, evictions=(), now=11.0):
    """What the scheduler does, and the best rank."""
    oracle = Oracle(scheduler, job, evictions, now)
    actions = scheduler.decide(now)
    victims = frozenset(
        action.job
        for action in actions
        if isinstance(action, Preempt) and action.for_job == job.name
    )
    least = oracle.least()
    if not any(isinstance(action, Start) and action.job == job.name for action in actions):
        return Answer(None, None, least, True)
    smaller = (victims - {name} for name in victims)
    return Answer(
        victims, oracle.rank(victims), least, not any(map(oracle.starts_without, smaller))
    )


class Oracle:
    """The parts before the decision on the job."""

    def __init__(self, scheduler, job, evictions=(), now=11.0):
        self.job, self.now = job, now
        self.limits = {limit.quota: limit for limit in scheduler.eviction_limits}
        self.evicted = Counter(quota for quota, time in evictions if now < time + 3600)
        self.running = {name: scheduler.job(name) for name in scheduler if name != job.name}
        self.pods = {name: scheduler.status(name).pods for name in self.running}
        self.since = {name: scheduler.status(name).since for name in self.running}
        self.quotas, self.cells, self.topology, self.devices = (
            part and part.copy()
            for part in (scheduler.quotas, scheduler.cells, scheduler.topology, scheduler.devices)
        )

    def rank(self, names):
        return sum(self.running[name].guaranteed for name in names), len(names)

    def least(self):
        """The rank of the cheapest set whose eviction lets the job start."""
        names = [name for name in self.running if self.may_leave(name)]
        sets = (some for count in range(len(names) + 1) for some in combinations(names, count))
        for some in sorted(sets, key=self.rank):
            if self.keeps_to_limits(some) and self.is_fair(some) and self.starts_without(some):
                return self.rank(some)
        return None

    def keeps_to_limits(self, names):
        together = self.evicted + Counter(self.running[name].quota for name in names)
        for name in names:
            quota = self.running[name].quota
            limit = self.limits.get(quota, self.limits.get("", EvictionLimit()))
            if limit.per_hour is not None and together[quota] > limit.per_hour:
                return False
            if self.since[name] + limit.min_run_time > self.now:
                return False
        return True

    def may_leave(self, name):
        other = self.running[name]
        if not other.preemptible:
            return False
        if not other.guaranteed:
            return True
        if self.quotas is None:
            return other.tenant == self.job.tenant and other.priority < self.job.priority
        if other.quota == self.job.quota:
            return other.priority < self.job.priority
        return self.is_over(self.quotas, name)

    def is_over(self, quotas, name):
        over = quotas.overused()
        return self.running[name].quota in over or any(
            name in quotas.overusers(quota) for quota in over
        )

    def is_fair(self, names):
        """Whether each quota that returns something is still over-used before it does."""
        if self.quotas is None:
            return True
        quotas = self.quotas.copy()
        mine = self.job.quota
        reclaimed = [
            name
            for name in names
            if self.running[name].guaranteed and self.running[name].quota != mine
        ]
        for name in sorted(reclaimed, key=lambda name: self.running[name].gpus):
            if not self.is_over(quotas, name):
                return False
            quotas.evict(name)
        for name in set(names).difference(reclaimed):
            quotas.evict(name)
        return not reclaimed or not quotas.schedule(self.job.name).borrows

    def starts_without(self, names):
        (role,) = self.job.roles
        if self.quotas is not None:
            quotas = self.quotas.copy()
            for name in names:
                quotas.evict(name)
            if quotas.schedule(self.job.name).outcome != "bind":
                return False
        devices = None
        if self.devices is not None:
            devices = self.devices.copy()
            for name in names:
                for pod in self.pods[name]:
                    devices.release(f"{name}/{pod.role}/{pod.index}")
        place = self.cells or self.topology
        if place is not None:
            place = place.copy()
            for name in names:
                place.release(name)
        shunned = set()
        while True:
            nodes = None
            if devices is not None and shunned:
                fitting = devices.filter(DeviceRequest("any", gpus=role.gpus)).fitting
                nodes = sorted(set(fitting) - shunned)
                if not nodes:
                    return False
            places = self.places(place, role, nodes)
            if places is None:
                return False
            refused = devices and self.refused(devices.copy(), role, places)
            if not refused:
                return True
            if refused not in self.known_nodes(place) or len(shunned) == 3:
                return False
            shunned.add(refused)

    def known_nodes(self, place):
        return () if place is None else place.nodes

    def places(self, place, role, nodes):
        """Node and GPUs of each pod; None: no place."""
        if place is None:
            return [(None, None)] * role.pods
        if place is self.topology or self.topology is not None:
            request = TopologyRequest("wanted", role.pods, amounts={"gpu": role.gpus})
            decision = place.schedule(request, nodes=nodes)
            if decision.outcome != "bind":
                return None
            return [(node, None) for node in decision.ranks]
        group = AffinityGroup(
            "wanted", self.job.tenant, [(role.pods, role.gpus)], priority=self.job.priority
        )
        allowed = None if nodes is None else NodeSet(nodes)
        decision = place.schedule(group, suggested_nodes=allowed)
        if decision.outcome != "bind":
            return None
        return [(pod.node, pod.leaf_indices) for pod in decision.placement]

    def refused(self, devices, role, places):
        """The node whose devices refuse a pod, "nowhere" without nodes; "": none does."""
        for i, (node, gpus) in enumerate(places):
            request = DeviceRequest(f"wanted/w/{i}", gpus=role.gpus)
            allowed = None if node is None else (node,)
            decision = devices.schedule(request, nodes=allowed, gpus=gpus)
            if decision.outcome != "bind":
                return node or "nowhere"
            devices.commit(decision)
        return ""
