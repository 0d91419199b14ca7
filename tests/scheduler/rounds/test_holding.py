"""What a job needs is held for it while its victims stop."""

import pickle

import pytest
from scheduler.lives import (
    NODES,
    decided,
    gpu_quotas,
    make_scheduler,
    network,
    node_cells,
    running,
    summary,
)

from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Wait, Where

PARTS = pytest.mark.parametrize(
    "parts",
    [
        ("quotas",),
        ("cells",),
        ("topology",),
        ("devices",),
        ("topology", "devices"),
        ("quotas", "topology", "devices"),
        ("cells", "devices"),
        ("quotas", "cells", "devices"),
    ],
    ids=" ".join,
)
TWO = [Role("w", 2, gpus=4)]


def reserved(parts, **settings):
    """One of four nodes is idle; "train" reserves it, and that of "weak"."""
    scheduler = make_scheduler(parts, **settings)
    running(scheduler, Job("other", "b", 4))
    mate = NODES[NODES.index(scheduler.status("other").pods[0].node or "n0") ^ 1]
    beside = Where(nodes=[mate] if parts != ("quotas",) else [])
    weak = "cells" in parts  # b owns no more of them
    running(scheduler, Job("near", "b", 4, guaranteed=not weak, preemptible=weak, where=beside))
    running(scheduler, Job("weak", "b", 4, guaranteed=False))
    scheduler.submit(Job("train", "a", TWO), 1.0)
    [preempt] = [action for action in scheduler.decide(1.0) if isinstance(action, Preempt)]
    assert (preempt.job, preempt.for_job) == ("weak", "train")
    assert scheduler.state("train") == "reserved"
    scheduler.check()
    return scheduler


@PARTS
def test_reserved_resources_are_idle_again_when_the_job_is_cancelled(parts):
    scheduler = reserved(parts)
    scheduler.cancel("train", 2.0)
    scheduler.check()
    small = [Job(f"s{i}", "a", 1, guaranteed=False) for i in range(4)]
    running(scheduler, *small)
    scheduler.submit(Job("more", "a", 1, guaranteed=False), 2.0)
    assert summary(scheduler.decide(2.0)) == [("wait", "more")], "the victim still runs"
    scheduler.stopped("weak", 3.0)
    assert "start" in dict(summary(scheduler.decide(3.0)))
    for name in list(scheduler):
        scheduler.cancel(name, 4.0)
    scheduler.check()
    assert len(scheduler) == 0
    if scheduler.cells is not None:
        assert scheduler.cells.groups() == ()
    if scheduler.topology is not None:
        assert scheduler.topology.owners == ()
    if scheduler.devices is not None:
        assert len(scheduler.devices) == 0
    if scheduler.quotas is not None:
        assert scheduler.quotas.owners == ()


@PARTS
def test_a_job_does_not_wait_for_victims_longer_than_it_may(parts):
    scheduler = reserved(parts, reservation_seconds=60.0)
    assert scheduler.decide(60.0) == []
    before = scheduler.copy()
    [wait] = scheduler.decide(61.0)
    assert isinstance(wait, Wait) and wait.job == "train"
    assert scheduler.state("train") == "pending" and scheduler.status("weak").for_job == "train"
    assert scheduler.decide(61.0) == []
    scheduler.check()
    again = pickle.loads(pickle.dumps(before))
    assert again.decide(61.0) == [wait]
    for branch in (scheduler, again):
        running(branch, Job("spare", "a", 4, guaranteed=False))  # the idle resources are idle again
        branch.finish("spare", 62.0)
        branch.cancel("weak", 63.0)
        assert summary(branch.decide(63.0)) == [("start", "train")]
        branch.check()


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), 2.0**41, "1", True])
def test_wrong_reservation_times_are_refused(seconds):
    with pytest.raises((TypeError, ValueError), match="reservation_seconds"):
        Scheduler(reservation_seconds=seconds)


@pytest.mark.parametrize("parts", [("topology",), ("cells",), ("devices",)], ids=" ".join)
@pytest.mark.parametrize("by_touch", [False, True])
def test_resources_on_a_lost_node_are_released(parts, by_touch):
    scheduler = reserved(parts)
    taken = {
        pod.node for name in scheduler for pod in scheduler.status(name).pods if name != "train"
    }
    [idle] = {pod.node for pod in scheduler.status("train").pods} - taken
    if by_touch:
        part = scheduler.topology or scheduler.cells or scheduler.devices
        part.set_health(idle, False)
        scheduler.touch()
    else:
        scheduler.set_node(idle, False, 2.0)
    scheduler.check()
    assert scheduler.state("train") == "reserved" and scheduler.status("train").pods == ()
    scheduler.set_node(idle, True, 2.0)
    scheduler.stopped("weak", 3.0)
    assert summary(scheduler.decide(3.0))[0] == ("start", "train"), "it is placed again"
    scheduler.check()


def test_cells_of_victims_that_are_not_needed_can_be_promised_to_others():
    cells = node_cells(NODES[:3], a=2)
    scheduler = Scheduler(cells=cells)
    running(scheduler, Job("low", "a", TWO), Job("spare", "a", 1, guaranteed=False))
    scheduler.submit(Job("high", "a", 4, priority=1), 1.0)
    assert summary(scheduler.decide(1.0)) == [("preempt", "low")]
    low = cells.group("low")
    assert not low.guaranteed and sum(len(pod.leaf_indices) for pod in low.placement) == 4
    assert cells.group("high").guaranteed
    scheduler.check()
    scheduler.cancel("high", 2.0)
    assert sum(len(pod.leaf_indices) for pod in cells.group("low").placement) == 8
    scheduler.check()
    scheduler.stopped("low", 3.0)
    assert summary(scheduler.decide(3.0)) == [("start", "low")]
    assert cells.group("low").guaranteed


def test_a_quota_counts_both_until_the_victim_has_stopped():
    tree = gpu_quotas(16, a=(16, 8), b=(16, 8))
    scheduler = Scheduler(quotas=tree)
    running(scheduler, Job("kept", "a", 6), Job("borrows", "a", 4))
    assert summary(decided(scheduler, Job("owner", "b", 8), now=1.0)) == [("preempt", "borrows")]
    assert tree.status("a").used == {"gpu": 10} and tree.status("b").used == {"gpu": 8}
    # Both together exceed the total; no further job is evicted because of that.
    assert summary(decided(scheduler, Job("small", "a", 2), now=2.0)) == [("wait", "small")]
    scheduler.stopped("borrows", 3.0)
    actions = summary(scheduler.decide(3.0))
    assert actions[0] == ("start", "owner") and ("start", "small") in actions
    scheduler.check()


def test_no_job_is_evicted_because_quotas_count_a_victim_twice():
    most = {"gpu": 20}
    leaves = [Quota(name, max=most, min={"gpu": 9 if name == "a" else 4}) for name in "abc"]
    scheduler = Scheduler(quotas=QuotaTree(leaves, total=most, limit="max"))
    running(scheduler, Job("kept", "b", 5, priority=2), Job("borrows", "b", 4, priority=1))
    running(scheduler, Job("short", "c", 3))
    assert summary(decided(scheduler, Job("owner", "a", 9), now=1.0)) == [("preempt", "borrows")]
    scheduler.finish("short", 2.0)
    running(scheduler, Job("late", "b", 2, priority=1))
    assert sum(scheduler.quotas.status(name).used["gpu"] for name in "abc") == 20
    scheduler.submit(Job("next", "c", 1), 3.0)
    assert summary(scheduler.decide(3.0)) == [("wait", "next")], "no job is evicted for it"
    scheduler.stopped("borrows", 4.0)
    assert set(summary(scheduler.decide(4.0))) >= {("start", "owner"), ("start", "next")}


@pytest.mark.parametrize(
    "parts", [("topology",), ("devices",), ("topology", "devices")], ids=" ".join
)
def test_a_reserved_job_waits_again_if_a_part_changed_without_touch(parts):
    scheduler = reserved(parts)
    part = scheduler.devices or scheduler.topology
    for pod in scheduler.status("train").pods:
        part.set_health(pod.node, False)
    scheduler.stopped("weak", 3.0)
    assert ("start", "train") not in summary(scheduler.decide(3.0))
    assert scheduler.state("train") == "pending" and scheduler.status("train").pods == ()
    scheduler.check()


def test_no_job_starts_after_a_job_that_has_stopped():
    scheduler = Scheduler(topology=network())
    weak = [Job(f"w{i}", "a", 4, guaranteed=False) for i in range(4)]
    running(scheduler, *weak)
    gone, other = [action.job for action in decided(scheduler, Job("train", "a", TWO), now=1.0)]
    scheduler.submit(Job("second", "a", 1, after=[gone]), 1.0)
    scheduler.stopped(gone, 2.0)
    scheduler.decide(2.0)
    refusal = scheduler.explain("second").refusals[0]
    assert (refusal.code, refusal.part) == ("after", gone)
    scheduler.stopped(other, 3.0)
    actions = scheduler.decide(3.0)
    assert summary(actions)[0] == ("start", "train")
    assert any(isinstance(action, Wait) for action in actions)
