"""Any history: the queues give what a readable account of sorted lists and fractions gives."""

import copy
import pickle
from fractions import Fraction
from math import inf
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples, seeds

from hivecore.queues import Capacity, QueuedJob, TenantQueues

TENANTS = ["a", "b", "c", "d"]
RANKED = ["sjf", "srsf", "2d-las"]
BY_JOB = ["arrival", *RANKED]


class Account:
    """All of it as lists that are sorted again each time."""

    def __init__(self, order, ageing, blocking):
        self.order, self.ageing, self.default = order, ageing, blocking
        self.names = []
        self.weight, self.mode, self.key, self.tag = {}, {}, {}, {}
        self.parked = {}
        self.jobs = []
        self.virtual, self.last = Fraction(0), None
        self.served = 0, self.virtual
        self.round = {}

    def tenant(self, name):
        if name not in self.names:
            self.names.append(name)
            self.weight[name], self.mode[name], self.key[name] = 1, self.default, 0
            self.tag[name] = Fraction(0)
            self.parked[name] = set()

    def rank(self, job):
        """Of jobs of one priority, the lowest first."""
        if self.order == "2d-las":
            return job.size * job.attained
        if self.order not in ("sjf", "srsf"):
            return 0
        if job.run_time is None:
            return inf
        return job.run_time * (job.size if self.order == "srsf" else 1)

    def queue(self, name, now):
        def urgency(entry):
            job, arrived, number = entry
            return -(job.priority + self.ageing * (now - arrived)), self.rank(job), number

        return sorted([entry for entry in self.jobs if entry[0].tenant == name], key=urgency)

    def push(self, job, arrived, number, refunded=False):
        self.tenant(job.tenant)
        if not refunded and not any(entry[0].tenant == job.tenant for entry in self.jobs):
            self.tag[job.tenant] = max(self.tag[job.tenant], self.virtual)
        if refunded and self.served[0] == number:
            self.virtual = self.served[1]
        self.jobs.append((job, arrived, number))

    def in_turn(self):
        busy = [name for name in self.names if any(entry[0].tenant == name for entry in self.jobs)]
        place = self.names.index
        if self.order == "weighted":
            return sorted(busy, key=lambda name: (self.tag[name], place(name)))
        if self.order == "key":
            return sorted(busy, key=lambda name: (self.key[name], place(name)))
        after = -1 if self.last is None else place(self.last)
        return sorted(busy, key=lambda name: (place(name) <= after, place(name)))

    def next(self, now, held=(), unfit=(), free=None, running=()):
        reserved, blocked = None, set()
        for name, entry in self.sequence(now):
            job = entry[0]
            if name in blocked:
                continue
            waits = sort_of(job) in held or job.kind in self.parked[name]
            room = free is None or job.size <= free
            if room and free is not None and reserved is not None:
                room = not delays(job, reserved, now, free, running)
            if not waits and room and sort_of(job) not in unfit:
                return entry
            if self.mode[name] == "fifo":
                blocked.add(name)
            if self.mode[name] == "backfill" and not waits and reserved is None:
                if free is None:
                    blocked.add(name)
                elif job.size <= free + sum(size for _, size in running):
                    reserved = job
        return None

    def sequence(self, now):
        """All jobs in the order in which they are asked."""
        if self.order in BY_JOB:
            return [(entry[0].tenant, entry) for entry in sorted(self.jobs, key=self.place)]
        return [(name, entry) for name in self.in_turn() for entry in self.queue(name, now)]

    def place(self, entry):
        job, arrived, number = entry
        return self.ageing * arrived - job.priority, self.rank(job), number

    def leave(self, entry):
        self.jobs.remove(entry)
        name = entry[0].tenant
        self.last = name
        self.served = entry[2], self.virtual
        self.virtual = max(self.virtual, self.tag[name])
        self.tag[name] += Fraction(entry[0].size, self.weight[name])


def sort_of(job):
    """What those have in common that are answered alike."""
    return (job.tenant, job.priority, job.kind) if job.kind else job.name


def free_at(time, now, free, running):
    return free + sum(size for end, size in running if max(end, now) <= time)


def delays(job, reserved, now, free, running):
    """By trying: would the reserved job find room at its time with this one in its way?"""
    times = [now, *sorted(max(end, now) for end, _ in running)]
    start = next((t for t in times if free_at(t, now, free, running) >= reserved.size), None)
    if start is None:
        return False
    still_there = job.run_time is None or now + job.run_time > start
    room = free_at(start, now, free, running) - (job.size if still_there else 0)
    return room < reserved.size


class Holding:
    def __init__(self, held):
        self.held = held

    def filter(self, job):
        return "held" if sort_of(job) in self.held else "Skip"


def restarted(queues):
    return pickle.loads(pickle.dumps(queues))


class Histories(RuleBasedStateMachine):
    @initialize(
        order=st.sampled_from(["weighted", "round-robin", "key", *BY_JOB]),
        ageing=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(5)]),
        blocking=st.sampled_from(["fifo", "best-effort", "backfill"]),
    )
    def begin(self, order, ageing, blocking):
        ageing = Fraction(0) if order in RANKED else ageing
        self.queues = TenantQueues(order=order, ageing=ageing, blocking=blocking)
        self.account = Account(order, ageing, blocking)
        self.now = self.made = 0
        self.gone = []
        self.trials = []

    @precondition(lambda self: len(self.trials) < 3)
    @rule()
    def begin_a_trial(self):
        branch, trial = self.queues.copy(), self.queues.trial()
        trial.__enter__()
        assert self.queues.to_bytes() == branch.to_bytes()
        account = copy.deepcopy(self.account)
        self.trials.append((trial, self.queues, branch, account, self.now, self.made, [*self.gone]))

    @precondition(lambda self: self.trials)
    @rule(error=st.sampled_from((None, KeyError("inside"))))
    def end_a_trial(self, error):
        trial, self.queues, before, self.account, self.now, self.made, self.gone = self.trials.pop()
        assert not trial.__exit__(type(error), error, None)
        assert self.queues.to_bytes() == before.to_bytes()
        assert list(self.queues) == list(before) and self.queues.tenants == before.tenants
        branch = self.queues.copy()
        while departure := before.next(self.now):
            assert branch.next(self.now) == departure
        assert branch.next(self.now) is None

    @rule(
        tenant=st.sampled_from(TENANTS),
        size=st.integers(1, 6),
        priority=st.integers(-2, 2),
        run_time=st.none() | st.integers(1, 9),
        kind=st.integers(0, 2),
        attained=st.integers(0, 3),
        later=st.integers(0, 2),
    )
    def push(self, tenant, size, priority, run_time, kind, attained, later):
        self.now += later
        self.made += 1
        job = QueuedJob(f"j{self.made}", tenant, size, priority, run_time, kind, attained)
        self.queues.push(job, self.now)
        self.account.push(job, self.now, self.made)

    @rule(data=st.data(), later=st.integers(0, 2), limited=st.booleans())
    def next(self, data, later, limited):
        self.now += later
        sorts = sorted({sort_of(entry[0]) for entry in self.account.jobs}, key=str)
        some = st.sets(st.sampled_from(sorts), max_size=2) if sorts else st.just(set())
        held, unfit = data.draw(some), data.draw(some)
        free, running = None, []
        if limited:
            free = data.draw(st.integers(0, 6))
            running = data.draw(
                st.lists(st.tuples(st.integers(0, self.now + 9), st.integers(1, 4)), max_size=4)
            )
        capacity = Capacity(free, running) if limited else None
        expected = self.account.next(self.now, held, unfit, free, running)
        ask = {"plugins": [Holding(held)], "capacity": capacity}
        ask["fits"] = lambda job: sort_of(job) not in unfit
        before = self.queues.to_bytes()
        assert self.queues.peek(self.now, **ask) == (expected and expected[0])
        assert self.queues.to_bytes() == before
        result = self.queues.next(self.now, **ask)
        if expected is None:
            assert result is None
        else:
            assert (result.job, result.arrived, result.number) == expected
            self.account.leave(expected)
            self.gone.append((result, self.account.weight[result.job.tenant]))

    @rule(later=st.integers(0, 2))
    def next_of_all(self, later):
        """Without questions, which has a way of its own."""
        self.now += later
        expected = self.account.next(self.now)
        result = self.queues.next(self.now)
        assert (result and result[:3]) == expected
        if expected is not None:
            self.account.leave(expected)
            self.gone.append((result, self.account.weight[result.job.tenant]))

    @precondition(lambda self: self.gone)
    @rule(more=st.integers(0, 3))
    def requeue(self, more):
        """It may have run meanwhile."""
        result, weight = self.gone.pop()
        ran = result.job.replace(attained=result.job.attained + more)
        result = result._replace(job=ran)
        self.queues.requeue(result)
        if weight < inf:
            self.account.tag[result.job.tenant] -= Fraction(result.job.size, weight)
        self.account.push(result.job, result.arrived, result.number, refunded=True)

    @precondition(lambda self: self.account.jobs)
    @rule(data=st.data())
    def remove(self, data):
        item = data.draw(st.sampled_from(self.account.jobs))
        assert self.queues.remove(item[0].name) == item[0]
        self.account.jobs.remove(item)

    @precondition(lambda self: self.account.jobs)
    @rule(data=st.data())
    def take(self, data):
        """Out of its turn, so that no tenant is charged."""
        item = data.draw(st.sampled_from(self.account.jobs))
        result = self.queues.take(item[0].name)
        assert result[:3] == item and result.charge == 0
        self.account.jobs.remove(item)
        self.gone.append((result, inf))

    @rule(tenant=st.sampled_from(TENANTS), weight=st.sampled_from([1, 2, 4]))
    def weigh(self, tenant, weight):
        self.queues.set_weight(tenant, weight)
        self.account.tenant(tenant)
        self.account.weight[tenant] = weight

    @rule(tenant=st.sampled_from(TENANTS), key=st.integers(-2, 2))
    def set_key(self, tenant, key):
        self.queues.set_key(tenant, key)
        self.account.tenant(tenant)
        self.account.key[tenant] = key

    @precondition(lambda self: self.account.names)
    @rule(data=st.data(), kind=st.integers(1, 2))
    def park(self, data, kind):
        tenant = data.draw(st.sampled_from(self.account.names))
        self.queues.park(tenant, kind)
        self.account.parked[tenant].add(kind)

    @precondition(lambda self: any(self.account.parked.values()))
    @rule(data=st.data(), kind=st.integers(0, 2))
    def wake(self, data, kind):
        tenant = data.draw(st.sampled_from(self.account.names))
        assert self.queues.wake(tenant, kind) == (kind in self.account.parked[tenant])
        self.account.parked[tenant].discard(kind)

    @precondition(lambda self: self.account.jobs)
    @rule(data=st.data())
    def explain(self, data):
        job = data.draw(st.sampled_from(self.account.jobs))[0]
        queue = [entry[0] for entry in self.account.queue(job.tenant, self.now)]
        free = [entry for entry in queue if entry.kind not in self.account.parked[job.tenant]]
        standing = self.queues.explain(job.name, self.now)
        assert standing.position == queue.index(job)
        if job not in free:
            assert standing.reason == "its kind is parked"
        elif self.account.mode[job.tenant] == "fifo" and queue[: len(free)] != free:
            first = next(entry for entry in queue if entry not in free)
            if queue.index(first) < queue.index(job):
                assert standing.reason == f"is behind {first.name!r}, which waits"
        else:
            assert standing.reason == ("" if job == free[0] else f"{free[0].name!r} leaves first")

    @rule(tenant=st.sampled_from(TENANTS), mode=st.sampled_from(["fifo", "best-effort"]))
    def block(self, tenant, mode):
        self.queues.set_blocking(tenant, mode)
        self.account.tenant(tenant)
        self.account.mode[tenant] = mode

    @rule(how=st.sampled_from([copy.copy, copy.deepcopy, restarted]))
    def branch(self, how):
        """The copy goes on; what happens to the other one does not matter to it."""
        before, self.queues = self.queues, how(self.queues)
        assert before.to_bytes() == self.queues.to_bytes()
        while before.next(self.now):
            pass

    def teardown(self):
        while getattr(self, "trials", ()):
            self.end_a_trial(None)
            self.all_is_in_order()

    @invariant()
    def all_is_in_order(self):
        if not hasattr(self, "queues"):
            return
        self.queues.check()
        account = [
            entry[0] for name in self.account.names for entry in self.account.queue(name, self.now)
        ]
        assert list(self.queues) == account and len(self.queues) == len(account)
        for name, kinds in self.account.parked.items():
            assert self.queues.parked(name) == tuple(sorted(kinds))


TestHistories = Histories.TestCase
TestHistories.settings = examples(60, stateful_step_count=40)


ACTS = ["push", "push", "push", "next", "next", "requeue", "remove", "park", "wake", "begin", "end"]


@pytest.mark.parametrize("blocking", ["fifo", "best-effort"])
@pytest.mark.parametrize("order", ["weighted", "srsf"])
@pytest.mark.parametrize("seed", seeds(8))
def test_many_kinds_that_are_parked_and_woken_all_the_time(seed, order, blocking):
    """Heaps of many queues: the account again, for longer and with few tenants."""
    rng = Random(seed)
    ageing = rng.choice([0, 1]) if order == "weighted" else 0
    queues = TenantQueues(order=order, ageing=ageing, blocking=blocking)
    account = Account(order, ageing, blocking)
    few = rng.choice([3, 40])
    gone = []
    count = 0
    trials = []
    for now in range(600):
        act = rng.choice(ACTS)
        tenant, kind = rng.choice("ab"), rng.randint(1, few)
        if act == "push":
            count += 1
            terms = rng.randint(0, 2), rng.choice([None, 1, 5, 9]), rng.randint(0, few)
            job = QueuedJob(f"j{count}", tenant, 1, *terms)
            queues.push(job, now)
            account.push(job, now, count)
        elif act == "next":
            unfit = {sort_of(entry[0]) for entry in account.jobs if rng.random() < 0.3}
            expected = account.next(now, unfit=unfit)
            result = queues.next(now, fits=lambda job, unfit=unfit: sort_of(job) not in unfit)
            assert (result and result[:3]) == expected
            if result:
                account.leave(expected)
                gone.append(result)
        elif act == "requeue" and gone:
            result = gone.pop(rng.randrange(len(gone)))
            queues.requeue(result)
            account.tag[result.job.tenant] -= 1
            account.push(result.job, result.arrived, result.number, refunded=True)
        elif act == "remove" and account.jobs:
            queues.remove(account.jobs.pop(rng.randrange(len(account.jobs)))[0].name)
        elif act == "park" and tenant in account.names:
            queues.park(tenant, kind)
            account.parked[tenant].add(kind)
        elif act == "wake" and tenant in account.names:
            assert queues.wake(tenant, kind) == (kind in account.parked[tenant])
            account.parked[tenant].discard(kind)
        elif act == "begin" and len(trials) < 3:
            trials.append(
                (queues.trial(), queues.to_bytes(), copy.deepcopy(account), [*gone], count)
            )
            trials[-1][0].__enter__()
        elif act == "end" and trials:
            trial, before, account, gone, count = trials.pop()
            trial.__exit__(None, None, None)
            assert queues.to_bytes() == before
        queues.check()
        assert queues.peek(now) == ((account.next(now) or [None])[0])


@pytest.mark.parametrize("seed", seeds(20))
def test_weighted_tenants_never_differ_by_more_than_a_job_of_each(seed):
    rng = Random(seed)
    weights = {name: rng.choice([1, 2, 3, 7, 10**9 + 7, 2**31 - 1]) for name in TENANTS}
    sizes = {name: rng.choice([1, 5, 1000, 2**31 - 1]) for name in TENANTS}
    queues = TenantQueues()
    count = 0

    def push(name):
        nonlocal count
        count += 1
        queues.push(QueuedJob(f"j{count}", name, rng.randint(1, sizes[name])), 0)

    for name, weight in weights.items():
        queues.set_weight(name, weight)
    idle = "d"
    for name in "abc":
        push(name)
        push(name)
    served = dict.fromkeys(TENANTS, Fraction(0))
    points = [dict(served)]
    for step in range(200):
        result = queues.next(0).job
        served[result.tenant] += Fraction(result.size, weights[result.tenant])
        if result.tenant != idle:
            push(result.tenant)
        points.append(dict(served))
        if step == 100:  # a late tenant has saved nothing up
            since = len(points)
            for _ in range(150):
                push(idle)
    largest = {name: Fraction(sizes[name], weights[name]) for name in TENANTS}
    for item in TENANTS:
        for other in TENANTS:
            first = since - 1 if idle in (item, other) else 0
            gaps = [point[item] - point[other] for point in points[first:]]
            assert max(gaps) - min(gaps) <= largest[item] + largest[other]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", seeds(30))
def test_backfill_never_delays_the_reservation_of_the_head(seed, exact):
    rng = Random(seed)
    total = 10
    jobs = {
        f"j{i}": QueuedJob(f"j{i}", "a", rng.randint(1, total), 0, rng.randint(1, 12))
        for i in range(40)
    }
    queues = TenantQueues(blocking="backfill")
    for job in jobs.values():
        queues.push(job, 0)
    takes = {n: j.run_time if exact else rng.randint(1, j.run_time) for n, j in jobs.items()}
    running, promised, overtaken, now = {}, {}, 0, 0
    while len(queues):
        running = {n: start for n, start in running.items() if start + takes[n] > now}
        while len(queues):
            free = total - sum(jobs[n].size for n in running)
            assert free >= 0
            ends = [(start + jobs[n].run_time, jobs[n].size) for n, start in running.items()]
            head = next(iter(queues))
            times = [now, *sorted(end for end, _ in ends)]
            start = next(t for t in times if free_at(t, now, free, ends) >= head.size)
            assert start <= promised.setdefault(head.name, start)
            result = queues.next(now, capacity=Capacity(free, ends))
            if result is None:
                break
            overtaken += result.job != head
            running[result.job.name] = now
        now += 1
    assert overtaken


@pytest.mark.parametrize("seed", seeds(10))
def test_no_job_starves_under_ageing(seed):
    rng = Random(seed)
    queues = TenantQueues(ageing=Fraction(1, 2))
    queues.push(QueuedJob("low", "a", 1, priority=0), 0)
    for now in range(1, 100):
        queues.push(QueuedJob(f"j{now}", "a", 1, priority=rng.randint(5, 10)), now)
        if queues.next(now).job.name == "low":
            break
    assert now <= 20


def test_a_refused_offer_moves_no_virtual_time():
    """What the large job of a tenant costs does not count before the tenant's next job starts."""
    queues = TenantQueues()
    for name, tenant, size in [("a1", "a", 100), ("a2", "a", 1), ("b1", "b", 1), ("b2", "b", 1)]:
        queues.push(QueuedJob(name, tenant, size, kind=1), 0)
    assert [queues.next(0).job.name for _ in range(2)] == ["a1", "b1"]
    for name in "b2", "a2":
        refused = queues.next(0)
        assert refused.job.name == name
        queues.requeue(refused)
        queues.park(refused.job.tenant, 1)
    queues.push(QueuedJob("c1", "c", 1), 0)
    for tenant in "ab":
        queues.wake(tenant, 1)
    assert [queues.next(0).job.name for _ in range(3)] == ["c1", "b2", "a2"]
