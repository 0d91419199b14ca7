"""Stopped jobs wait with equal jobs, and are tried once for all of them."""

import copy

import pytest
from scheduler.lives import decided, gpu_quotas, jobs_of

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start, Wait


def machines(count):
    return DeviceCluster({f"n{i}": NodeDevices.uniform(gpus=8) for i in range(count)})


def with_quotas(nodes):
    """Two quotas that are entitled to half of the GPUs each, and may use all."""
    gpus = 8 * nodes
    tree = gpu_quotas(gpus, limit="max", a=(gpus, gpus // 2), b=(gpus, gpus // 2))
    return Scheduler(quotas=tree, devices=machines(nodes), immediate=True)


def numbers(scheduler):
    """The number of each waiting job's kind."""
    return {unit.owner: unit.kind.number for unit in scheduler._state.queued.values()}


def test_opportunistic_jobs_that_were_evicted_wait_with_those_that_never_ran():
    scheduler = Scheduler(devices=machines(4), immediate=True)
    weak = [Job(f"o{i}", "a", 8, guaranteed=False) for i in range(5)]
    decided(scheduler, *weak)
    actions = decided(scheduler, Job("gang", "b", [Role("w", 2, gpus=8)]), now=1.0)
    gone = jobs_of(actions, Preempt)
    assert len(gone) == 2 and set(numbers(scheduler)) == {*gone, "o4"}
    assert len(set(numbers(scheduler).values())) == 1
    assert all(scheduler.status(name).refusal for name in gone)
    scheduler.finish("gang", 2.0)
    starts = jobs_of(scheduler.decide(2.0), Start)
    assert starts == gone, "at their old places, before those that came later"


@pytest.mark.parametrize(
    "read", [copy.copy, lambda scheduler: Scheduler.from_bytes(scheduler.to_bytes())]
)
def test_a_job_that_may_do_less_waits_by_itself_until_the_next_event(read):
    scheduler = with_quotas(2)
    jobs = [Job(name, "a", 8) for name in ("first", "second", "third")]
    decided(scheduler, *jobs)
    actions = decided(scheduler, Job("owner", "b", 8), now=1.0)
    assert Preempt("second", "owner", "reclaim") in actions
    alone, of_all = numbers(scheduler)["second"], numbers(scheduler)["third"]
    assert alone != of_all
    scheduler = read(scheduler)
    assert not decided(scheduler, Job("huge", "b", 99), now=2.0)[1:]
    assert numbers(scheduler)["second"] == alone, "the quotas do not know of such a job"
    decided(scheduler, Job("other", "b", 8, guaranteed=False), now=3.0)
    assert numbers(scheduler)["second"] == of_all


def test_each_of_equal_jobs_that_stop_gets_a_reason():
    scheduler = with_quotas(3)
    decided(scheduler, *[Job(f"j{i}", "a", 8) for i in range(3)])
    for node in ("n0", "n1"):
        scheduler.set_node(node, False, 1.0)
    for name in ("j0", "j1"):
        scheduler.fail(name, 2.0)
    for branch in (scheduler, Scheduler.from_bytes(scheduler.to_bytes())):
        assert jobs_of(branch.decide(3.0), Wait) == [
            "j0",
            "j1",
        ]
    assert scheduler.status("j0").refusal == scheduler.status("j1").refusal
