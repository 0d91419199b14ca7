"""Tenants that are charged for the time that their jobs run."""

import copy
import pickle
from fractions import Fraction
from random import Random

import pytest
from profiles import seeds
from scheduler.lives import flat_network

from hivecore.queues import QueuedJob, TenantQueues
from hivecore.scheduler import Job, Scheduler, Start

WEIGHTS = {"a": 1, "b": 2, "c": 3}


class Account:
    """Charges by tenant as fractions, and each running job with what is charged for it."""

    def __init__(self):
        self.tag = dict.fromkeys(WEIGHTS, Fraction(0))
        self.virtual = Fraction(0)
        self.waiting = {name: [] for name in WEIGHTS}
        self.running, self.times = {}, {name: [] for name in WEIGHTS}

    def move(self, tenant, amount):
        self.tag[tenant] += Fraction(amount, WEIGHTS[tenant])

    def push(self, job, now):
        self.pass_time(now)
        if not self.waiting[job.tenant]:
            self.tag[job.tenant] = max(self.tag[job.tenant], self.virtual)
        self.waiting[job.tenant].append(job)

    def pass_time(self, now):
        for name, (job, since, paid) in self.running.items():
            while since + paid <= now:
                self.move(job.tenant, job.size * paid)
                paid *= 2
            self.running[name] = job, since, paid

    def estimate(self, job):
        every = [time for times in self.times.values() for time in times]
        times = self.times[job.tenant] or every or [1]
        return job.run_time or max(1, sum(times) // len(times))

    def next(self, now):
        self.pass_time(now)
        busy = [name for name in WEIGHTS if self.waiting[name]]
        if not busy:
            return None
        tenant = min(busy, key=lambda name: (self.tag[name], [*WEIGHTS].index(name)))
        job = self.waiting[tenant].pop(0)
        self.before = self.virtual
        self.virtual = max(self.virtual, self.tag[tenant])
        paid = self.estimate(job)
        self.move(tenant, job.size * paid)
        self.running[job.name] = job, now, paid
        return job

    def end(self, name, now):
        self.pass_time(now)
        job, since, paid = self.running.pop(name)
        self.move(job.tenant, job.size * (now - since - paid))
        self.times[job.tenant].append(now - since)
        if not self.waiting[job.tenant]:
            self.tag[job.tenant] = max(self.tag[job.tenant], self.virtual)
        return job

    def refund(self, name):
        job, _, paid = self.running.pop(name)
        self.move(job.tenant, -job.size * paid)
        self.virtual = self.before
        self.waiting[job.tenant].insert(0, job)


def queues_and_account():
    queues = TenantQueues(order="gpu-time")
    for name, weight in WEIGHTS.items():
        queues.set_weight(name, weight)
    return queues, Account()


@pytest.mark.parametrize("seed", seeds(60))
def test_the_queues_give_what_an_account_in_fractions_gives(seed):
    rng = Random(seed)
    queues, account = queues_and_account()
    now, gone = 0, {}
    for number in range(150):
        now += rng.choice([0, 0, 1, 7])
        draw = rng.random()
        if draw < 0.45:
            time = rng.choice([None, rng.randint(1, 40)])
            job = QueuedJob(f"j{number}", rng.choice("abc"), rng.randint(1, 8), run_time=time)
            queues.push(job, now)
            account.push(job, now)
        elif draw < 0.75:
            with queues.trial():
                queues.next(now)
                queues.next(now)
            departure, expected = queues.next(now), account.next(now)
            assert (departure and departure.job) == expected
            if departure:
                gone[departure.job.name] = departure
                if rng.random() < 0.2:  # there was no place for it
                    queues.requeue(gone.pop(expected.name))
                    account.refund(expected.name)
        elif gone:
            name = rng.choice(sorted(gone))
            departure = queues.ended(gone.pop(name), now)
            job = account.end(name, now)
            if rng.random() < 0.3:  # it was stopped, and has its place again
                queues.requeue(departure)
                account.waiting[job.tenant].insert(0, job)
                account.waiting[job.tenant].sort(key=lambda entry: int(entry.name[1:]))
        queues.check()
        if rng.random() < 0.1:
            queues = rng.choice([copy.copy, restarted])(queues)


def restarted(queues):
    return pickle.loads(pickle.dumps(queues))


@pytest.mark.parametrize("seed", seeds(30))
@pytest.mark.parametrize("is_exact", [True, False])
def test_charges_by_weight_differ_by_a_job_of_each_and_by_wrong_estimates(seed, is_exact):
    """All tenants have jobs all the time; as many run as there is room for."""
    rng = Random(seed)
    queues, account = queues_and_account()
    for name in WEIGHTS:
        for i in range(200):
            job = QueuedJob(f"{name}{i}", name, rng.randint(1, 4), run_time=rng.randint(1, 30))
            queues.push(job, 0)
            account.push(job, 0)
    now, ends, departures = 0, {}, {}
    while all(account.waiting.values()):
        while (
            all(account.waiting.values())
            and sum(account.running[name][0].size for name in ends) < 16
        ):
            departure = queues.next(now)
            assert account.next(now) == departure.job
            time = departure.job.run_time * (1 if is_exact else rng.choice([1, 3]))
            departures[departure.job.name] = departure
            ends[departure.job.name] = now + time
            wrong = sum(
                job.size * max(paid, ends[name] - since)
                for name, (job, since, paid) in account.running.items()
            )
            most = {name: Fraction(4 * 30, weight) for name, weight in WEIGHTS.items()}
            for item in WEIGHTS:
                for other in WEIGHTS:
                    apart = account.tag[item] - account.tag[other]
                    assert apart <= most[item] + (0 if is_exact else wrong)
        now = min(ends.values())
        for name in [name for name, end in ends.items() if end == now]:
            del ends[name]
            queues.ended(departures.pop(name), now)
            account.end(name, now)


@pytest.mark.parametrize("known", [True, False])
def test_a_tenant_with_jobs_ten_times_as_long_gets_half_of_the_gpu_time(known):
    def shares(order):
        network = flat_network("n1", "n2", gpu=8)
        scheduler = Scheduler(queues=TenantQueues(order=order), topology=network)
        hours = {"long": 10.0, "short": 1.0}
        for tenant, time in hours.items():
            for i in range(600 if tenant == "short" else 60):
                run_time = time if known else None
                scheduler.submit(Job(f"{tenant}{i}", tenant, 4, run_time=run_time), 0.0)
        used, ends, now = dict.fromkeys(hours, 0.0), {}, 0.0
        while now < 100.0:
            for action in scheduler.decide(now):
                if isinstance(action, Start):
                    ends[action.job] = now + hours[action.job.rstrip("0123456789")]
            now = min(ends.values())
            for name in [name for name, end in ends.items() if end == now]:
                del ends[name]
                scheduler.finish(name, now)
                used[name.rstrip("0123456789")] += hours[name.rstrip("0123456789")]
        scheduler.check()
        return used["long"] / sum(used.values())

    assert shares("weighted") > 0.85
    assert 0.4 < shares("gpu-time") < 0.6


def test_a_preempted_job_is_charged_for_what_it_has_run():
    network = flat_network("n1", gpu=8)
    queues = TenantQueues(order="gpu-time")
    scheduler = Scheduler(queues=queues, topology=network, immediate=True)
    scheduler.submit(Job("weak", "a", 8, guaranteed=False, run_time=100.0), 0.0)
    scheduler.decide(0.0)
    for name, tenant in (("strong", "b"), ("also-a", "a"), ("also-b", "b")):
        priority = 1 if name == "strong" else 0
        scheduler.submit(Job(name, tenant, 8, run_time=10.0, priority=priority), 40.0)
    scheduler.decide(40.0)
    scheduler.finish("strong", 50.0)
    (start,) = [item for item in scheduler.decide(50.0) if isinstance(item, Start)]
    assert start.job == "also-b"  # 10 seconds of b, 40 of a
    assert Scheduler.from_bytes(scheduler.to_bytes()).queues.charges_time


def test_what_is_no_departure_and_what_does_not_run():
    queues = TenantQueues(order="gpu-time")
    queues.push(QueuedJob("j", "a", 1), now=0)
    departure = queues.next(now=0)
    with pytest.raises(TypeError, match="departure must be a Departure"):
        queues.ended("j", 1)
    with pytest.raises(ValueError, match="there is one of this name"):
        queues.push(QueuedJob("j", "a", 1), now=1)
    for wrong in ({"job": None}, {"number": "1"}):
        with pytest.raises(TypeError, match=r"departure\.(job|number) must be"):
            queues.ended(departure._replace(**wrong), 1)
    queues.ended(departure, 1)
    assert queues.ended(departure, 2) is departure


def running():
    """Of each tenant two jobs, one of which runs and has estimated 10."""
    queues = TenantQueues(order="gpu-time")
    for name in ("a1", "b1", "a2", "b2"):
        queues.push(QueuedJob(name, name[0], 1, run_time=10), 0)
    return queues, [queues.next(0) for _ in range(2)]


def test_peek_charges_no_tenant_for_the_time_until_then():
    queues, _ = running()
    before = queues.to_bytes()
    for _ in range(100):
        assert queues.peek(500).name == "a2"
    assert queues.to_bytes() == before
    assert len(queues._running._due) < 40
    queues.check()


@pytest.mark.parametrize("how", [{"plugins": [3]}, {"fits": lambda job: 1 / 0}, {"capacity": 3}])
def test_next_charges_no_tenant_if_it_fails(how):
    queues, _ = running()
    before = queues.to_bytes()
    with pytest.raises((TypeError, ZeroDivisionError)):
        queues.next(500, **how)
    assert queues.to_bytes() == before
    queues.check()
    assert queues.next(500, fits=lambda job: job.name == "b2").job.name == "b2"


def test_the_end_of_a_job_is_not_that_of_a_later_one_of_its_name():
    queues, (first, _) = running()
    stopped = queues.ended(first, 5)
    queues.push(first.job.replace(priority=1), 5)
    second = queues.next(5)
    assert second.job.name == "a1" != second.number
    before = queues.to_bytes()
    assert queues.ended(first, 5) is first
    with pytest.raises(ValueError, match="there is one of this name"):
        queues.requeue(stopped)
    assert queues.to_bytes() == before
    assert queues.ended(second, 5).charge == 0


def test_a_job_that_has_ended_stays_charged_when_its_first_departure_is_requeued():
    queues, (first, _) = running()
    queues.ended(first, 5)
    queues.requeue(first)
    assert [queues.next(5).job.name for _ in range(3)] == ["a1", "b2", "a2"]


def test_a_job_that_could_not_start_sets_no_tenant_back_that_comes_later():
    queues = TenantQueues(order="gpu-time")
    for number in range(2):
        queues.push(QueuedJob(f"large-{number}", "a", 8, run_time=1), 0)
    for number in range(9):
        queues.push(QueuedJob(f"b{number}", "b", 1, run_time=1, kind=1), 0)
    assert [queues.next(0).job.name for _ in range(2)] == ["large-0", "b0"]
    queues.park("b", 1)
    queues.requeue(queues.next(0))
    queues.wake("b", 1)
    for number in range(9):
        queues.push(QueuedJob(f"c{number}", "c", 1, run_time=1), 0)
    names = [queues.next(0).job.name for _ in range(6)]
    assert names == ["c0", "b1", "c1", "b2", "c2", "b3"]
    queues.check()


def test_a_tenant_saves_nothing_while_all_of_its_jobs_run():
    queues = TenantQueues(order="gpu-time")
    queues.push(QueuedJob("a0", "a", 1, run_time=100), 0)
    for number in range(20):
        queues.push(QueuedJob(f"b{number}", "b", 8, run_time=10), 0)
    alone = queues.next(0)
    for now in range(0, 100, 10):
        queues.ended(queues.next(now), now + 10)
    queues.requeue(queues.ended(alone, 100))
    for number in range(1, 10):
        queues.push(QueuedJob(f"a{number}", "a", 8, run_time=10), 100)
    assert [queues.next(100).job.tenant for _ in range(6)] == ["a", "b", "a", "b", "a", "b"]


def test_a_job_that_runs_is_requeued_for_no_other_tenant():
    queues, (first, _) = running()
    before = queues.to_bytes()
    with pytest.raises(ValueError, match="departure='a1' has not left these queues"):
        queues.requeue(first._replace(job=first.job.replace(tenant="b")))
    assert queues.to_bytes() == before


def test_ends_in_a_trial_are_undone_to_the_byte():
    queues, (first, _) = running()
    before = queues.to_bytes()
    with queues.trial():
        queues.requeue(queues.ended(first, 5))
    assert queues.to_bytes() == before


def test_jobs_that_end_early_leave_nothing_behind():
    queues = TenantQueues(order="gpu-time")
    for number in range(200):
        queues.push(QueuedJob(f"j{number}", "a", 1, run_time=2**40), number)
        queues.ended(queues.next(number), number)
    assert len(queues._running._due) < 40


def test_running_jobs_of_states_of_before_they_had_numbers_are_read():
    queues, departures = running()
    state = queues._plain()
    state["times"][1][2] = [row[:-1] for row in state["times"][1][2]]
    run = state["times"][1][2][0][1:]
    with pytest.raises(TypeError, match="name must be a string"):
        TenantQueues._restored({**state, "times": (state["times"][0], [0, 0, [(5, *run)]])})
    older = TenantQueues._restored(state)
    assert [older.ended(each, 5).charge for each in departures] == [0, 0]
