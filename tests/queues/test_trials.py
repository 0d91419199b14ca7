"""Trials of queues: what happens inside is undone at their end."""

from typing import get_args

import pytest

from hivecore.queues import Departure, QueuedJob, TenantOrder, TenantQueues


def place(queues, name, gpus=8):
    queues.push(QueuedJob(name, "a", gpus), 0)


@pytest.fixture
def queues():
    """30 jobs, and between the first two the place of 20 that were removed."""
    queues = TenantQueues()
    for number in range(50):
        place(queues, f"j{number}", 1)
    for number in range(1, 21):
        queues.remove(f"j{number}")
    return queues


def test_a_job_that_comes_after_a_trial_has_the_number_of_one_that_came_in_it(queues):
    with queues.trial():
        place(queues, "tried", 1)
        place(queues, "other", 1)
        queues.next(0)
    for name in ("real", "next"):
        place(queues, name, 1)
    queues.check()
    assert [queues.next(0).number for _ in range(32)][-3:] == [50, 51, 52]


def test_a_tenant_of_a_trial_is_unknown_after_it(queues):
    with queues.trial():
        queues.push(QueuedJob("tried", "b", 1), 0)
        queues.next(0)
    assert queues.tenants == ("a",)
    queues.push(QueuedJob("real", "c", 1), 0)
    queues.check()
    assert [queues.next(0).job.name for _ in range(3)] == ["j0", "real", "j21"]


def test_a_tenant_of_a_trial_goes_without_a_look_at_all_others(queues, monkeypatch):
    def gather(queues):
        raise AssertionError("all tenants are looked at")

    for number in range(40):
        queues.push(QueuedJob(f"of-{number}", f"t{number}", 1), 0)
    monkeypatch.setattr(TenantQueues, "_gather_ring", gather)
    for number in range(30):
        with queues.trial():
            queues.push(QueuedJob("tried", f"new-{number}", 1), 0)
    queues.push(QueuedJob("real", "new", 1), 0)
    queues.check()
    assert queues.peek(0, fits=lambda job: job.name == "real").name == "real"
    monkeypatch.undo()
    for number in range(100):
        with queues.trial():
            queues.push(QueuedJob("tried", f"other-{number}", 1), 0)
    assert len(queues._ring) < 110
    while queues.next(0):
        queues.check()


def test_jobs_that_were_removed_before_trials_are_in_the_way_of_the_first_alone(queues):
    line = queues._tenants["a"].line
    assert line.length == 50
    with queues.trial():
        queues.next(0)
    assert queues._tenants["a"].line is line
    assert len(line.queues[0]) == line.length == 30
    queues.check()
    assert [queues.next(0).job.name for _ in range(2)] == ["j0", "j21"]


CHANGES = {
    "push": lambda queues: queues.push(QueuedJob("new", "a", 1), 9),
    "push of a new tenant": lambda queues: queues.push(QueuedJob("new", "c", 1), 9),
    "next": lambda queues: queues.next(9),
    "next of a": lambda queues: queues.next(9, fits=lambda job: job.tenant == "a"),
    "next of b": lambda queues: queues.next(9, fits=lambda job: job.tenant == "b"),
    "next of none": lambda queues: queues.next(9, fits=lambda job: False),
    "requeue": lambda queues: queues.requeue(Departure(QueuedJob("back", "a", 1), 0, 1, 1, 1)),
    "remove": lambda queues: queues.remove("a2"),
    "take": lambda queues: queues.take("b1"),
    "set_weight": lambda queues: queues.set_weight("b", 3),
    "set_weight of a new tenant": lambda queues: queues.set_weight("c", 1),
    "set_key": lambda queues: queues.set_key("b", -1),
    "set_blocking": lambda queues: queues.set_blocking("b", "fifo"),
    "park": lambda queues: queues.park("b", 2),
    "wake": lambda queues: queues.wake("a", 1),
}


@pytest.mark.parametrize("order", get_args(TenantOrder))
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_queues_is_undone(order, change):
    queues = TenantQueues(order=order)
    for tenant in "ab":
        for kind in range(3):
            queues.push(QueuedJob(f"{tenant}{kind}", tenant, 2, kind=kind), 5)
    queues.park("a", 1)
    queues.next(5)
    before, expected = queues.to_bytes(), [*queues]
    with queues.trial():
        CHANGES[change](queues)
        assert queues.to_bytes() != before
        queues.check()
    assert queues.to_bytes() == before and [*queues] == expected
    queues.check()
    branch = TenantQueues.from_bytes(before)
    for _ in range(6):
        assert queues.next(9) == branch.next(9)
        queues.check()
