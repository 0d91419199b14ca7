"""Failed pods of a running job wait until their victims have stopped, on places held for them."""

import copy
import random
from contextlib import suppress
from itertools import product

import pytest
from profiles import seeds
from scheduler.histories import refused_names
from scheduler.lives import COMPOSITIONS, enforced, said
from scheduler.test_failures import SMALL, lose_a_node_beside, nodes_of
from scheduler.test_mixed_histories import MixedHistory

from hivecore.scheduler import Job, Role, Scheduler
from hivecore.verify import verify_actions

WEAK = [Job(f"weak{i}", "b", 4, guaranteed=False) for i in range(2)]


def evicting(parts, **settings):
    """A job has lost a node and has evicted a job for it, which has not stopped."""
    scheduler = lose_a_node_beside(WEAK, parts, **settings)
    (evicted,) = [pair for pair in said(scheduler.decide(1.0)) if pair[0] == "Preempt"]
    status = scheduler.status("train")
    assert status.state == "running" and len(status.pods) == len(status.lost) == 1
    assert status.victims == (evicted[1],)
    assert said(scheduler.decide(1.0)) == []
    scheduler.check()
    return scheduler, evicted[1]


@pytest.mark.parametrize("parts", SMALL)
def test_they_start_when_their_victims_have_stopped_and_nothing_takes_their_place(parts):
    scheduler, victim = evicting(parts)
    explanation = scheduler.explain("train")
    assert explanation.reason == f"its failed pods wait for {victim!r} to stop"
    scheduler.submit(Job("next", "a", 4, priority=1), 2.0)
    for branch in (copy.copy(scheduler), Scheduler.from_bytes(scheduler.to_bytes())):
        assert ("Start", "next") not in said(branch.decide(2.0))
        branch.stopped(victim, 3.0)
        before = branch.copy()
        actions = branch.decide(3.0)
        assert ("Start", "train") in said(actions)
        verify_actions(actions, {name: branch.job(name) for name in branch}, before)
        status = branch.status("train")
        assert len(status.pods) == 2 and status.since == 0.0
        assert status.lost == status.victims == ()
        branch.check()


@pytest.mark.parametrize("how", ["finish", "cancel", "fail"])
@pytest.mark.parametrize("parts", SMALL)
def test_victims_that_end_have_stopped(parts, how):
    scheduler, victim = evicting(parts)
    getattr(scheduler, how)(victim, 2.0)
    assert ("Start", "train") in said(scheduler.decide(2.0))
    scheduler.check()


@pytest.mark.parametrize("stops", ["before", "after"])
def test_their_job_may_be_evicted_meanwhile(stops):
    """In that round no pod of it starts, even if the victim has stopped before."""
    scheduler, victim = evicting("cells")
    scheduler.submit(Job("next", "a", 4, priority=9), 2.0)
    if stops == "before":
        scheduler.stopped(victim, 2.0)
    assert said(scheduler.decide(2.0)) == [("Preempt", "train")]
    assert scheduler.status("train").victims == scheduler.status("train").lost == ()
    scheduler.check()
    for name in ([victim] if stops == "after" else []) + ["train"]:
        scheduler.stopped(name, 3.0)
    assert ("Start", "next") in said(scheduler.decide(3.0))
    scheduler.check()


@pytest.mark.parametrize("how", ["finish", "cancel", "fail"])
@pytest.mark.parametrize("parts", SMALL)
def test_nothing_is_held_when_their_job_has_ended(parts, how):
    scheduler, victim = evicting(parts)
    getattr(scheduler, how)("train", 2.0)
    scheduler.check()
    scheduler.decide(2.0)
    assert scheduler.status(victim).for_job == "train"
    scheduler.stopped(victim, 3.0)
    scheduler.decide(3.0)
    scheduler.check()
    assert victim in scheduler


@pytest.mark.parametrize("parts", SMALL)
def test_they_wait_again_after_the_reservation(parts):
    scheduler, victim = evicting(parts, reservation_seconds=5.0)
    scheduler.decide(5.9)
    assert scheduler.status("train").victims == (victim,)
    actions = said(scheduler.decide(6.0))
    (other,) = {"weak0", "weak1"} - {victim}
    if parts != "cells":  # its cells are those of the first victim
        assert ("Preempt", other) in actions
        scheduler.stopped(other, 7.0)
    scheduler.check()
    scheduler.stopped(victim, 7.0)
    assert scheduler.status(victim).state == "pending"
    scheduler.decide(7.0)
    scheduler.check()
    assert not scheduler.status("train").lost


@pytest.mark.parametrize("parts", SMALL)
def test_another_failure_or_an_eviction_ends_the_wait(parts):
    scheduler, victim = evicting(parts)
    scheduler.fail("train", 2.0, f"w/{min(nodes_of(scheduler))}")
    scheduler.check()
    assert scheduler.state("train") == "pending"  # its last pod
    assert scheduler.status("train").victims == ()
    scheduler.decide(2.0)
    scheduler.stopped(victim, 3.0)
    scheduler.decide(3.0)
    scheduler.check()


@pytest.mark.parametrize("parts", sorted({*SMALL} - {"cells"}))
def test_a_held_place_on_a_node_that_fails_is_given_up(parts):
    scheduler, victim = evicting(parts)
    (node,) = {pod.node for pod in scheduler.status(victim).pods}
    scheduler.remove_node(node, 2.0)
    scheduler.check()
    scheduler.decide(2.0)
    (other,) = {"weak0", "weak1"} - {victim}
    assert scheduler.status("train").victims == (other,)
    scheduler.stopped(other, 3.0)
    assert ("Start", "train") in said(scheduler.decide(3.0))
    scheduler.check()


class ReplacingHistory(MixedHistory):
    """Pods fail on a full cluster, and victims stop late."""

    def __init__(self, parts, seed, path=None):
        super().__init__(parts, seed, path)
        self.scheduler._state.immediate = False
        self.guaranteed, self.gangs = 0.4, random.Random(seed + 4)
        often = {"stop": 0.4, "all_stop": 0.1, "fail_a_pod": 0.6, "come": 0.4, "go": 0.4}
        self.weights = [often.get(event.__name__, 0.1) for event in self.events]
        self.events.append(self.break_a_gang)
        self.weights.append(0.7)
        self.replaced = 0

    def break_a_gang(self):
        """Pods of a gang fail for which there is no room but that of others."""
        name, rng = self.new_name(), self.gangs
        roles = [Role("w", rng.randint(2, 3), gpus=rng.choice([1, 2, 4]), spares=rng.randint(0, 1))]
        how, priority = rng.choice(["pod", "pod", "pod-then-job"]), rng.randint(1, 2)
        gang = Job(name, rng.choice(self.tenants), roles, on_failure=how, priority=priority)
        with refused_names():
            job = enforced(self.scheduler, gang)
            self.scheduler.submit(job, self.now)
            self.jobs[name] = job
        self.decide()
        before, self.guaranteed = self.guaranteed, 0.0
        for _ in range(rng.randint(2, 5)):
            self.come()
        self.guaranteed = before
        self.decide()
        if name not in self.scheduler or self.scheduler.state(name) != "running":
            return
        status = self.scheduler.status(name)
        for pod in rng.sample(status.pods, rng.randint(1, 2)) if not status.for_job else ():
            with suppress(KeyError, ValueError):  # no part has nodes, or the job has stopped
                self.scheduler.set_node(pod.node, False, self.now)
                self.scheduler.fail(name, self.now, f"{pod.role}/{pod.index}")
        self.decide()

    def decide(self):
        before = {name: live.held for name, live in self.scheduler._state.replacing.items()}
        super().decide()
        after = self.scheduler._state.replacing
        self.replaced += sum(name not in after for name in before)


REPLACING = sorted({*COMPOSITIONS} - {"queues", "cells and sharing"})


@pytest.mark.parametrize(
    ("parts", "seed"),
    # In the last ones, cells first propose more victims than a limit allows, and later fewer.
    [
        *product(REPLACING, seeds(1)),
        *((parts, 90001) for parts in REPLACING if "cells" in COMPOSITIONS[parts]),
    ],
)
def test_histories_with_failing_pods_on_a_full_cluster_are_consistent(parts, seed):
    ReplacingHistory(parts, seed).live(40)


def test_such_histories_replace_pods():
    histories = [ReplacingHistory("topology", seed) for seed in range(8, 12)]
    for history in histories:
        history.live(30)
    assert sum(history.replaced for history in histories)
