"""Pods join a running job, and a job that is offered later in the same round evicts that job."""

import pytest
from scheduler.lives import decided, flat_network, running, said

from hivecore.scheduler import Job, Role, Scheduler, Start

EVICTED = ("Preempt", "weak")
STARTS = ("Start", "strong")


def after_other_ends(weak, strong, immediate):
    """Two GPUs: "weak" runs beside "other"; "strong" waits, and "other" ends."""
    scheduler = Scheduler(topology=flat_network("n0", gpu=2), immediate=immediate)
    running(scheduler, Job("other", "t", 1))
    running(scheduler, Job("weak", "t", [weak], priority=1, guaranteed=False))
    scheduler.finish("other", now=1.0)
    actions = decided(scheduler, Job("strong", "t", [Role("w", strong)]), now=1.0)
    scheduler.check()
    assert scheduler.decide(now=1.0) == []
    return scheduler, actions


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("immediate", [False, True])
def test_no_pod_starts_for_a_job_that_is_evicted_in_the_same_round(immediate, most):
    weak = Role("w", 2, min_pods=1, max_pods=most)
    scheduler, actions = after_other_ends(weak, 2, immediate)
    assert said(actions) == ([EVICTED, STARTS] if immediate else [EVICTED])
    if not immediate:
        scheduler.stopped("weak", now=2.0)
        assert said(scheduler.decide(now=2.0)) == [STARTS]
    scheduler.finish("strong", now=3.0)
    assert said(scheduler.decide(now=3.0)) == [("Start", "weak")] * 2


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("immediate", [False, True])
def test_a_job_starts_in_place_of_a_joining_pod_if_that_is_enough(immediate, most):
    weak = Role("w", 2, min_pods=1, max_pods=most)
    scheduler, actions = after_other_ends(weak, 1, immediate)
    assert said(actions) == [STARTS]
    scheduler.finish("strong", now=2.0)
    (start,) = scheduler.decide(now=2.0)
    assert isinstance(start, Start)
    assert [(start.job, pod.index) for pod in start.pods] == [("weak", 1)]


@pytest.mark.parametrize("immediate", [False, True])
def test_no_failed_pod_starts_again_for_a_job_that_is_evicted_in_the_same_round(immediate):
    scheduler = Scheduler(topology=flat_network("n0", gpu=3), immediate=immediate)
    roles = [Role("w", 2)]
    weak = Job("weak", "t", roles, priority=1, guaranteed=False, on_failure="pod")
    running(scheduler, weak)
    scheduler.fail("weak", now=1.0, pod="w/1")
    actions = decided(scheduler, Job("strong", "t", [Role("w", 3)]), now=1.0)
    scheduler.check()
    assert said(actions) == ([EVICTED, STARTS] if immediate else [EVICTED])
