"""Queues that order jobs by what they need or have attained."""

import random

import pytest
from profiles import seeds
from scheduler.lives import COMPOSITIONS, jobs_of, make_scheduler, network
from scheduler.log.decision_logs import happen

from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler, Start, replay

WHOLE = [Role("w", 4, gpus=4)]


def by(order, **parts):
    return Scheduler(queues=TenantQueues(order=order), topology=network(), **parts)


def starts(scheduler, now):
    names = jobs_of(scheduler.decide(now), Start)
    scheduler.check()
    return names


def after_failing(scheduler):
    """Three jobs that need all GPUs; the first fails after 50 seconds, the next after 20."""
    for name in ("one", "two", "three"):
        scheduler.submit(Job(name, name, WHOLE), 0.0)
    assert starts(scheduler, 0.0) == ["one"]
    scheduler.fail("one", 50.0)
    assert starts(scheduler, 50.0) == ["two"]
    scheduler.fail("two", 70.0)
    assert starts(scheduler, 70.0) == ["three"]
    return scheduler


def test_the_job_that_has_attained_least_is_next():
    scheduler = after_failing(by("2d-las"))
    scheduler.fail("three", 100.0)
    assert starts(scheduler, 100.0) == ["two"]
    scheduler.fail("two", 200.0)
    assert starts(scheduler, 200.0) == ["three"]


@pytest.mark.parametrize(
    "how", [Scheduler.copy, lambda scheduler: Scheduler.from_bytes(scheduler.to_bytes())]
)
def test_attained_service_of_running_and_waiting_jobs_is_copied_and_saved(how):
    scheduler = how(after_failing(by("2d-las")))
    scheduler.fail("three", 100.0)
    assert starts(how(scheduler), 100.0) == ["two"]
    assert starts(scheduler, 100.0) == ["two"]
    other = how(scheduler)
    other.fail("two", 129.0)  # 49 seconds in all, while one has 50 and three 30
    assert starts(other, 129.0) == ["three"]
    other.fail("three", 148.5)  # 49.5
    assert starts(other, 148.5) == ["two"]


def test_service_is_gpus_times_time():
    quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    scheduler = Scheduler(queues=TenantQueues(order="2d-las"), quotas=quotas)
    scheduler.submit(Job("wide", "a", 6), 0.0)
    scheduler.submit(Job("narrow", "a", 2), 0.0)
    assert starts(scheduler, 0.0) == ["wide", "narrow"]
    scheduler.fail("wide", 10.0)  # 60 GPU-seconds
    scheduler.fail("narrow", 20.0)  # 40
    scheduler.submit(Job("fills", "a", 8), 20.0)
    assert starts(scheduler, 20.0) == ["fills"]
    scheduler.finish("fills", 30.0)
    assert starts(scheduler, 30.0) == ["narrow", "wide"]


def test_a_job_that_stops_in_an_order_has_attained_its_run_time():
    scheduler = by("2d-las", immediate=True)
    for name in ("one", "two"):
        scheduler.submit(Job(name, name, WHOLE), 0.0)
    assert starts(scheduler, 0.0) == ["one"]
    scheduler.reorder(["two", "one"], 10.0)
    assert starts(scheduler, 10.0) == ["two"]
    scheduler.reorder(["one", "two"], 15.0)
    assert starts(scheduler, 15.0) == ["one"]  # two has had 5 seconds
    scheduler.reorder([], 16.0)
    scheduler.fail("one", 16.0)
    assert starts(scheduler, 16.0) == ["two"]


def test_a_stopped_job_needs_all_of_its_run_time_again():
    scheduler = by("srsf")
    scheduler.submit(Job("long", "a", WHOLE, run_time=100.0), 0.0)
    assert starts(scheduler, 0.0) == ["long"]
    scheduler.submit(Job("short", "b", WHOLE, run_time=90.0), 1.0)
    assert starts(scheduler, 1.0) == []
    scheduler.fail("long", 50.0)
    assert starts(scheduler, 50.0) == ["short"]


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("seed", seeds(3))
def test_in_any_history_attained_service_adds_up_and_is_reproducible(seed, name, tmp_path):
    rng = random.Random(f"{seed} {name}")
    order, blocking = rng.choice(["sjf", "srsf", "2d-las"]), rng.choice(["fifo", "best-effort"])
    settings = {"order": order, "blocking": blocking, "immediate": rng.random() < 0.5}
    scheduler = make_scheduler(COMPOSITIONS[name], log=tmp_path / "log", **settings)
    now = 0.0
    for step in range(80):
        now += rng.choice([0.0, 0.5, 60.0])
        happen(scheduler, rng, step, now)
        scheduler.check()
    scheduler.decide(now)
    branches = [scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes())]
    branches.append(replay(tmp_path / "log"))
    for branch in branches:
        assert {job: branch.state(job) for job in branch} == {
            j: scheduler.state(j) for j in scheduler
        }
        ends = [
            job
            for job in branch
            if branch.state(job) == "running" and not branch.status(job).for_job
        ]
        for job in ends:
            branch.finish(job, now + 9.0)
    first, *others = [branch.decide(now + 9.0) for branch in branches]
    assert all(decided == first for decided in others)
