"""Random histories of a scheduler, in which rare events come in bursts.

`test_any_history.py` searches for the shortest failing history, with a ledger beside the scheduler.
Here each history draws how often each event comes, so that thousands of different histories run in
a minute. After each event all parts agree, every start keeps all rules, and a saved scheduler
decides the same. After a decision nothing is left to decide, even if all waiting jobs are tried
again. HIVECORE_EXAMPLES=200 is about a million events.
"""

import copy
import random
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import count

from scheduler.lives import (
    ALL_NODES,
    CLAIMED,
    COMPOSITIONS,
    ROLES,
    STAGES,
    change_parts,
    enforced,
    make_job,
    make_scheduler,
)

from hivecore.devices import DeviceRequest
from hivecore.scheduler import (
    EvictionLimit,
    Fragments,
    FreeNodes,
    Job,
    Move,
    Preempt,
    Promote,
    Role,
    Scheduler,
    Shrink,
    Start,
    Stop,
    TakeOver,
)
from hivecore.scheduler.ledger.lines import line_of, queue_of
from hivecore.verify import verify_actions

QUARTER = DeviceRequest("any", gpus=1, core=25, memory_percent=25)
HALF = DeviceRequest("any", gpus=1, core=30, memory_percent=50)
#: pods that share GPUs
SHARING_ROLES = [
    [Role("s", 1, devices=QUARTER)],
    [Role("s", 5, devices=QUARTER)],
    [Role("s", 3, devices=HALF)],
    [Role("s", 3, devices=QUARTER, min_pods=1)],
    [Role("s", 1, devices=HALF), Role("w", 1, gpus=2)],
]


def overlooked(scheduler, now):
    """The starts and evictions that a scheduler decides if all waiting jobs are tried again."""
    branch = copy.copy(scheduler)
    state = branch._state
    for kind in [*state.waiting.parked().values()]:
        state.waiting.wake(kind)
        line_of(state, kind).wake(queue_of(state, kind.job), kind.number)
    return [
        action for action in branch.decide(now) if isinstance(action, Start | Promote | Preempt)
    ]


def moved_for_nothing(actions, before):
    """Jobs that move and are evicted in one round, though they could have stayed until then."""
    moves = [action for action in actions if isinstance(action, Move) and not action.shares_with]
    evicted = {action.job for action in actions if isinstance(action, Preempt)}
    for move in moves:
        nodes = {pod.node for pod in move.before}
        others = actions[actions.index(move) + 1 :] + moves
        used = {
            pod.node
            for other in others
            if isinstance(other, Start | Move) and other is not move
            for pod in other.pods
        }
        claimed = any(pod.claims for pod in move.before)
        stays = before._state.immediate and nodes.isdisjoint(used) and not claimed
        drained = nodes & before._state.draining.keys()
        grows = any(role.extra_numbers for role in before.job(move.job).roles)
        if move.job in evicted and (stays or (drained and not grows)):
            yield move.job
    names = [move.job for move in moves]
    yield from {name for name in names if names.count(name) > 1}


@contextmanager
def refused_names():
    """Allow that the name of a job is refused, as pods of another job may have it."""
    try:
        yield
    except ValueError as error:
        assert "may have th" in str(error) or "of this name" in str(error)


class History:
    """The history of one scheduler; the seed determines everything."""

    def __init__(self, parts, seed):
        self.rng = rng = random.Random(seed)
        self.parts = (COMPOSITIONS | CLAIMED)[parts]
        self.scheduler = make_scheduler(
            self.parts,
            blocking=rng.choice(["fifo", "best-effort"]),
            limit=rng.choice(["runtime", "max"]),
            evictions="private" if seed % 2 else "packing",
            immediate=rng.random() < 0.3,
            reservation_seconds=rng.choice([None, None, 5.0]),
            fragments=Fragments([1, 4]) if seed % 3 == 1 else None,
            is_empty=seed % 4 == 2 and not {"cells", "claims"}.intersection(self.parts),
            **self.settings(seed),
        )
        self.now, self.jobs, self.numbers = 0.0, {}, count()
        self.tenants = rng.choice(["a", "ab", "aab"])
        self.roles = rng.sample(sorted(ROLES), rng.randint(2, 6))
        self.stages = [(), STAGES[rng.choice(sorted(STAGES))]]
        self.guaranteed = rng.choice([0.5, 0.8, 1.0])
        #: in some histories jobs do not use the quota that is named like their tenant
        self.quotas = random.Random(~seed) if seed % 3 == 2 and "quotas" in self.parts else None
        #: in some histories pods share GPUs
        whole = {"cells", "sharing"}.intersection(self.parts) or "devices" not in self.parts
        self.shares = None if whole or seed % 5 != 4 else random.Random(~seed)
        self.events = [
            self.come,
            self.come_together,
            self.go,
            self.amend,
            self.fail_a_pod,
            self.stop,
            self.all_stop,
            self.change,
            self.set_node,
            self.regroup,
            self.defragment,
            self.free_a_node,
        ]
        self.weights = [rng.random() ** 2 for _ in self.events]
        self.weights[0] += 0.4
        self.weights[-1] *= 0.1

    def live(self, steps):
        for _ in range(steps):
            (event,) = self.rng.choices(self.events, self.weights)
            event()
            self.scheduler.check()
            if self.rng.random() < 0.6:
                self.now += self.rng.randint(0, 3)
                self.decide()

    def decide(self):
        self.scheduler.advance(self.now)  # reservations may end
        before = copy.copy(self.scheduler)
        saved = self.scheduler.to_bytes()
        actions = self.scheduler.decide(self.now)
        assert Scheduler.from_bytes(saved).decide(self.now) == actions
        if not any(isinstance(action, Move) for action in actions):
            verify_actions(actions, self.jobs, before)
        assert not [*moved_for_nothing(actions, before)]
        starts: set[str] = set()
        for action in actions:
            if isinstance(action, Start):
                starts.add(action.job)
            elif isinstance(action, Preempt) and before.state(action.job) == "running":
                assert action.job not in starts
        self.scheduler.check()
        assert self.scheduler.decide(self.now) == []
        assert self.overlooked() == []

    def overlooked(self):
        return overlooked(self.scheduler, self.now)

    def estimate(self):
        """The estimate of a new job."""

    def settings(self, seed):
        """Further arguments of the scheduler."""
        return {}

    def submit(self, name, **more):
        rng = self.rng
        job = make_job(
            name,
            rng.choice(self.tenants),
            rng.choice(self.roles),
            guaranteed=rng.random() < self.guaranteed,
            priority=rng.randint(0, 2),
            rack=rng.random() < 0.15,
            stages=rng.choice(self.stages),
            **{"run_time": self.estimate(), **more},
        )
        if self.quotas is not None:
            job = job.replace(quota=self.quotas.choice("ab"))
        if self.shares is not None and self.shares.random() < 0.5:
            job = job.replace(roles=self.shares.choice(SHARING_ROLES))
        job = enforced(self.scheduler, self.varied(job))
        self.scheduler.submit(job, self.now)
        self.jobs[name] = job

    def varied(self, job):
        """A job as this kind of history changes it."""
        return job

    def come(self):
        others = list(self.scheduler)[-1:] if self.rng.random() < 0.1 else []
        self.submit(self.new_name(), after=others)

    def new_name(self):
        return f"j{next(self.numbers)}"

    def amend(self):
        """A waiting job changes its request."""
        waiting = [name for name in self.scheduler if self.scheduler.status(name).since is None]
        if waiting:
            name = self.rng.choice(waiting)
            roles = ROLES[self.rng.choice(self.roles)]
            changes = {"roles": roles, "priority": self.rng.randint(0, 2)}
            job = enforced(self.scheduler, self.jobs[name].replace(**changes))
            self.scheduler.amend(name, self.now, roles=job.roles, priority=job.priority)
            self.jobs[name] = job

    def come_together(self):
        names = [*dict.fromkeys(self.new_name() for _ in range(self.rng.randint(2, 3)))]
        for at, name in enumerate(names):
            back = names[:1] if self.rng.random() < 0.5 else []
            self.submit(name, together=back if at else names[1:])

    def one_of(self, names):
        """One of the names; None: there are none."""
        return self.rng.sample(names, min(1, len(names)))

    def running(self):
        return [
            name for name in self.scheduler if self.scheduler.state(name) in ("running", "lent")
        ]

    def stopping(self):
        statuses = {name: self.scheduler.status(name) for name in self.scheduler}
        for job, status in [*statuses.items()]:
            elastic = {role.name: role.extra_numbers for role in self.jobs[job].roles}
            pods = [pod for pod in status.pods if pod.index in elastic[pod.role]]
            for name in (f"{job}/{pod.role}/{pod.index}" for pod in pods if not status.for_job):
                statuses[name] = self.scheduler.status(name)
        return [
            name for name, status in statuses.items() if status.for_job and not status.has_stopped
        ]

    def stop_one(self, name):
        if name in self.scheduler:
            return self.scheduler.stopped(name, self.now)
        job, role, number = name.rsplit("/", 2)
        self.scheduler.stopped(job, self.now, f"{role}/{number}")

    def go(self):
        how = self.rng.choice(["finish", "cancel", "fail"])
        for name in self.one_of(list(self.scheduler) if how == "cancel" else self.running()):
            getattr(self.scheduler, how)(name, self.now)

    def fail_a_pod(self):
        for name in self.one_of(self.running()):
            pod = self.rng.choice(self.scheduler.status(name).pods)
            self.scheduler.fail(name, self.now, f"{pod.role}/{pod.index}")

    def stop(self):
        for name in self.one_of(self.stopping()):
            self.stop_one(name)

    def all_stop(self):
        for name in self.stopping():
            self.stop_one(name)

    def change(self):
        change_parts(self.scheduler, self.rng, self.now)

    def set_node(self):
        with suppress(KeyError):
            node = self.rng.choice(ALL_NODES)
            self.scheduler.set_node(node, self.rng.random() < 0.6, self.now)

    def regroup(self):
        if "sharing" in self.parts:
            self.scheduler.regroup(self.now, self.rng.choice([1.0, 300.0, 1e6]))

    def defragment(self):
        sizes = self.rng.choice([(), (), (4,), (1, 2, 4)])
        with suppress(ValueError):  # no part has nodes
            self.scheduler.defragment(
                self.now,
                Fragments(sizes),
                seconds=self.rng.choice([60.0, 1e6]),
                saves=self.rng.random() < 0.5,
                most_moves=self.rng.choice([1, 2, 8]),
            )

    def free_a_node(self):
        with suppress(KeyError, ValueError):  # no such node, or no part has nodes
            goal = FreeNodes([self.rng.choice(ALL_NODES)])
            for step in self.scheduler.plan_moves(goal, most_tries=4).steps:
                self.scheduler.move(step, self.now)


class FailingHistory(History):
    """Jobs with failing pods, and a client that knows the pods from actions."""

    def __init__(self, parts, seed):
        super().__init__(parts, seed)
        self.ways = random.Random(seed + 1)
        self.drains = random.Random(seed + 2)
        self.weights[3] += 0.6  # pods fail
        self.weights[6] += 0.2  # parts change
        self.places = {}
        self.evicted = Counter()

    def new_name(self):
        """Often a name that looks like that of a pod or a unit of another job."""
        name = super().new_name()
        jobs = list(self.scheduler)
        if not jobs or self.drains.random() < 0.5:
            return name
        near = self.drains.choice(jobs)
        role = self.drains.choice(self.scheduler.job(near).roles).name
        nested = self.drains.choice([near, f"{near}/{role}", f"{near}/lost", name])
        ends = "lent", "lost", f"{role}/{self.drains.randint(0, 4)}", f"lost/{role}/0", role
        new_name = f"{nested}/{self.drains.choice(ends)}"
        is_known = new_name in self.jobs or self.scheduler._state.name_in_use(Job(new_name, "a", 1))
        return name if is_known or len(new_name) > 60 else new_name

    def submit(self, name, **more):
        with refused_names():
            super().submit(name, **more)

    def amend(self):
        with refused_names():
            super().amend()

    def varied(self, job):
        how = self.ways.choice(["job", "pod", "pod", "pod-then-job"])
        if how == "job" or job.stages:
            return job
        spares = self.ways.choice([0, 0, 1])
        roles = [role.replace(spares=spares if role.min_pods else 0) for role in job.roles]
        return job.replace(on_failure=how, roles=roles)

    def settings(self, seed):
        limits = [EvictionLimit(min_run_time=3.0), EvictionLimit("a", min_run_time=1.0, per_hour=2)]
        return {"eviction_limits": limits} if seed % 3 == 1 else {}

    def set_node(self):
        if self.scheduler.eviction_limits and self.ways.random() < 0.3:
            return self.change_limits()
        if self.drains.random() < 0.5:
            return super().set_node()
        with suppress(KeyError):
            by = self.now + self.drains.choice([0.0, 3.0])
            self.scheduler.drain(self.drains.choice(ALL_NODES), self.now, by=by)

    def change_limits(self):
        most = self.ways.choice([None, 1, 3])
        all_quotas = EvictionLimit(min_run_time=self.ways.choice([0.0, 3.0]))
        limits = [all_quotas, EvictionLimit("a", min_run_time=1.0, per_hour=most)]
        self.scheduler.set_eviction_limits(limits, self.now)
        if most is None:
            self.evicted.clear()

    def estimate(self):
        return self.drains.choice([None, 2.0])

    def free_a_node(self):
        super().free_a_node()
        self.places = {name: self.places_of(name) for name in self.scheduler}

    def places_of(self, name):
        return {(pod.role, pod.index): pod.node for pod in self.scheduler.status(name).pods}

    def decide(self):
        self.scheduler.advance(self.now)
        before = copy.copy(self.scheduler)
        actions = copy.copy(before).decide(self.now)
        super().decide()
        moves = [action for action in actions if isinstance(action, Move)]
        if moves and before.cells is None and not any(before.status(m.job).shares for m in moves):
            verify_actions(actions, self.jobs, before)
        self.follow(before, actions)
        self.keep_to_limits(before, actions)

    def keep_to_limits(self, before, actions):
        """No job left too soon, and no quota lost too many; histories are shorter than an hour."""
        limits = {action.quota: action for action in before.eviction_limits}
        for action in actions:
            if not limits or not isinstance(action, Preempt | Shrink):
                continue
            quota = before.job(action.job).quota
            limit = limits.get(quota, limits[""])
            self.evicted[quota] += 1
            assert limit.per_hour is None or self.evicted[quota] <= limit.per_hour
            if isinstance(action, Preempt):
                since = before.status(action.job).since
                since = self.now if since is None else since  # it has started in this round
                assert since + limit.min_run_time <= self.now

    def follow(self, before, actions):
        """The client follows the actions, and knows where pods run."""
        for name in list(self.places):
            if name not in before or before.state(name) in ("pending", "reserved"):
                del self.places[name]
        for action in actions:
            pods = {(pod.role, pod.index): pod.node for pod in getattr(action, "pods", ())}
            pods_of_job = self.places.setdefault(getattr(action, "job", ""), {})
            if isinstance(action, Move | Promote | Preempt):
                pods_of_job.clear()
            elif isinstance(action, TakeOver):
                for pod in action.before:
                    assert pods_of_job.pop((pod.role, pod.index), pod.node) == pod.node
            if isinstance(action, Stop):
                for pod in pods:
                    pods_of_job.pop(pod, None)
            elif isinstance(action, Start | Promote | Move | TakeOver):
                pods_of_job |= pods
        for name in self.scheduler:
            status = self.scheduler.status(name)
            if status.state == "running" and not status.for_job and not status.shares:
                pods, pods_of_job = self.places_of(name), self.places[name]
                assert pods.items() <= pods_of_job.items()
                if self.scheduler.topology and (must := self.scheduler.job(name).where.must):
                    racks = self.scheduler.topology.domains(must)
                    used = {node for node in pods.values() if node}
                    assert any(used <= {*rack} for rack in racks)
