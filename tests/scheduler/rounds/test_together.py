"""Jobs that start together or not at all."""

import pytest
from scheduler.lives import (
    COMPOSITIONS,
    decided,
    gpu_quotas,
    jobs_of,
    limited,
    make_scheduler,
    node_cells,
)

from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Fit,
    Job,
    Preempt,
    Reject,
    Role,
    Scheduler,
    Start,
    Wait,
    record_of_plain,
)
from hivecore.scheduler import plain_record as plain


def submit(scheduler, *jobs, now=0.0):
    actions = decided(scheduler, *jobs, now=now)
    scheduler.check()
    return actions


def started(actions):
    return jobs_of(actions, Start)


def pair(gpus=(4, 4), **more):
    return [
        Job("one", "a", gpus[0], together=["two"], **more),
        Job("two", "a", gpus[1], together=["one"], **more),
    ]


def test_neither_starts_where_there_is_room_for_one_only():
    scheduler = limited()
    actions = submit(scheduler, Job("other", "a", 2), *pair())
    assert started(actions) == ["other"]
    waits = [action for action in actions if isinstance(action, Wait)]
    assert [action.job for action in waits] == ["one", "two"]
    assert waits[0].reason.startswith("starts together with 'two': runtime of 'a' is exceeded")
    assert waits[1].reason.startswith("runtime of 'a' is exceeded")
    assert scheduler.decide(1.0) == []
    scheduler.finish("other", 2.0)
    assert started(scheduler.decide(2.0)) == ["one", "two"]
    scheduler.check()


def test_a_job_that_names_no_other_does_not_wait_for_a_job_that_names_it():
    scheduler = limited()
    jobs = [Job("one", "a", 6, together=["two"]), Job("two", "a", 4)]
    assert started(submit(scheduler, Job("other", "a", 2), *jobs)) == ["other", "two"]
    scheduler.finish("other", 1.0)
    assert scheduler.decide(1.0) == []
    assert scheduler.state("one") == "pending"
    scheduler.finish("two", 2.0)  # an unknown job does not count
    assert started(scheduler.decide(2.0)) == ["one"]


def test_a_job_that_names_no_other_starts_with_its_companion_and_later_waits_with_its_kind():
    scheduler = limited()
    like = [Job(name, "a", 4) for name in ("two", "like", "third")]
    actions = submit(scheduler, Job("one", "a", 4, priority=1, together=["two"]), *like)
    assert started(actions) == ["one", "two"]
    assert [scheduler.state(name) for name in ("like", "third")] == ["pending"] * 2
    scheduler.finish("one", 1.0)
    scheduler.finish("two", 1.0)
    assert started(scheduler.decide(1.0)) == ["like", "third"]


def test_jobs_named_by_named_jobs_start_as_well():
    scheduler = limited(12)
    jobs = [Job(name, "a", 4, together=[other]) for name, other in ("ab", "bc", "ca")]
    assert started(submit(scheduler, Job("other", "a", 2), *jobs)) == ["other"]
    scheduler.finish("other", 1.0)
    assert started(scheduler.decide(1.0)) == ["a", "b", "c"]


def test_companions_may_start_after_one_another():
    jobs = [
        Job("one", "a", 4, together=["two"], after=["two"]),
        Job("two", "a", 4, together=["one"]),
    ]
    assert started(submit(limited(), *jobs)) == ["two", "one"]


def test_jobs_that_wait_for_each_other_wait_forever():
    jobs = [
        Job("one", "a", 4, together=["two"], after=["two"]),
        Job("two", "a", 4, together=["one"], after=["one"]),
    ]
    assert started(submit(limited(), *jobs)) == []


def test_a_failed_companion_starts_beside_the_other():
    scheduler = limited()
    submit(scheduler, *pair())
    scheduler.fail("two", 1.0)
    assert started(scheduler.decide(1.0)) == ["two"]


def test_others_leave_for_all_of_them_or_for_none():
    scheduler = Scheduler(quotas=gpu_quotas(8, a=(8, 6), b=8), immediate=True)
    for i in range(2):
        scheduler.submit(Job(f"old{i}", "b", 4), 0.0)
    assert started(scheduler.decide(0.0)) == ["old0", "old1"]
    actions = decided(scheduler, *pair((4, 4)), now=1.0)  # the second job exceeds their entitlement
    assert not started(actions)
    assert not [action for action in actions if isinstance(action, Preempt)]
    scheduler.cancel("two", 2.0)
    actions = decided(scheduler, Job("two", "a", 2, together=["one"]), now=2.0)
    assert started(actions) == ["one", "two"]
    assert {action.job for action in actions if isinstance(action, Preempt)} == {"old0", "old1"}
    scheduler.check()


def test_no_job_is_evicted_for_them_where_victims_take_time_to_stop():
    scheduler = limited()
    submit(scheduler, Job("old", "a", 8))
    actions = submit(scheduler, *pair(priority=5), now=1.0)
    assert {type(action) for action in actions} == {Wait}


def test_a_rejected_companion_does_not_count():
    actions = submit(limited(), *pair((4, 16)))
    assert jobs_of(actions, Reject) == ["two"]
    assert started(actions) == ["one"]


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("parts", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_a_failed_try_leaves_no_trace(parts, immediate):
    scheduler = make_scheduler(parts, immediate=immediate)
    decided(scheduler, Job("old", "a", 4, preemptible=False))
    alone = scheduler.copy()
    for job in pair((4, 4)):
        scheduler.submit(job.replace(where=job.where), 1.0)
    scheduler.submit(Job("three", "a", 4, together=["one", "two"]), 1.0)
    decided(scheduler, Job("last", "a", 4, together=["three"]), now=1.0)
    scheduler.check()
    runs = [scheduler.state(name) == "running" for name in ("one", "two")]
    assert runs[0] == runs[1]
    for name in ("one", "two", "three", "last"):
        if name in scheduler:
            scheduler.cancel(name, 2.0)
    scheduler.decide(2.0)
    alone.decide(2.0)
    probe = Job("probe", "a", 4)
    for branch in (scheduler, alone):
        branch.submit(probe, 3.0)
    assert [type(action) for action in scheduler.decide(3.0)] == [
        type(action) for action in alone.decide(3.0)
    ]


@pytest.mark.parametrize("parts", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_the_first_that_is_refused_is_found_and_nothing_has_changed(parts):
    scheduler = make_scheduler(parts)
    running = submit(scheduler, Job("old", "a", 2), Job("b's", "b", 1))
    assert started(running) == ["old", "b's"]
    like = [Job(f"j{at}", "a", [Role("w", 2, gpus=2)]) for at in range(8)]
    for job in like:
        scheduler.submit(job, 1.0)
    before = scheduler.to_bytes()
    units = [scheduler._state.jobs[job.name].units[0].trial() for job in like]
    refused = scheduler._state.stages.first_refused(units)
    assert (refused is None) == (parts == ())
    assert refused is None or 0 < refused[0] < 4
    assert scheduler.to_bytes() == before
    scheduler.check()


@pytest.mark.parametrize("evictions", ["packing", "private"])
def test_jobs_that_would_not_fit_beside_the_others_come_first(evictions):
    """Alone the opportunistic job would use its tenant's rack, which the other job needs."""
    scheduler = make_scheduler(("cells",), evictions=evictions)
    jobs = [
        Job("weak", "a", 1, guaranteed=False, together=["strong"]),
        Job("strong", "a", [Role("w", 2, gpus=4)], together=["weak"]),
    ]
    assert started(submit(scheduler, Job("other", "b", 2), *jobs)) == [
        "other",
        "strong",
        "weak",
    ]


def test_jobs_that_would_evict_others_without_need_come_last():
    """Where the opportunistic job would run, the only idle place is left."""
    scheduler = make_scheduler(("cells",))
    guest, owner = Job("guest", "b", 2, guaranteed=False), Job("owner", "b", 4)
    jobs = [
        Job("weak", "a", [Role("w", 2, gpus=4)], guaranteed=False, together=["strong"]),
        Job("strong", "a", 2, together=["weak"]),
    ]
    assert started(submit(scheduler, guest, owner)) == ["guest", "owner"]
    assert started(submit(scheduler, *jobs, now=1.0)) == ["weak", "strong"]


def test_many_companions_are_tried_in_order_of_importance_and_in_reverse():
    scheduler = limited(8)
    jobs = [
        Job(name, "a", gpus, priority=gpus, together=[other])
        for name, other, gpus in (("a", "b", 1), ("b", "c", 2), ("c", "d", 3), ("d", "a", 2))
    ]
    assert started(submit(scheduler, *jobs)) == ["c", "d", "b", "a"]


def full(parts, *jobs, **settings):
    """On four nodes of four GPUs, three of which hold jobs that cannot be evicted."""
    scheduler = make_scheduler(parts, **settings)
    firm = [Job(f"firm{i}", "a", 4, preemptible=False) for i in range(3)]
    assert len(started(submit(scheduler, *firm, *jobs))) == 3 + len(jobs)
    return scheduler


PLACED = pytest.mark.parametrize("parts", [("topology",), ("devices",)], ids=" ".join)


@PLACED
def test_a_failed_job_waits_for_its_reserved_companion(parts):
    first = Job("one", "a", 1, together=["two"])
    scheduler = full(parts, first, Job("weak", "a", 3), immediate=False)
    two = Job("two", "a", 3, priority=1, together=["one"])
    assert submit(scheduler, two) == [Preempt("weak", "two", "priority")]
    scheduler.fail("one", 1.0)
    [wait] = scheduler.decide(1.0)
    assert wait.reason == "starts together with 'two': others have to stop for it"
    scheduler.stopped("weak", 2.0)
    scheduler.decide(2.0)
    scheduler.check()
    assert (scheduler.state("one"), scheduler.state("two")) == ("running", "running")


@PLACED
@pytest.mark.parametrize("immediate", [False, True])
def test_no_job_is_evicted_for_a_job_that_does_not_start_without_it(parts, immediate):
    first = Job("one", "a", 4, together=["two"])
    scheduler = full(parts, first, immediate=immediate)
    two = Job("two", "a", 4, priority=1)
    assert Preempt("one", "two", "priority") in submit(scheduler.copy(), two)
    [wait] = submit(scheduler, Job("two", "a", 4, priority=1, together=["one"]))
    assert isinstance(wait, Wait) and scheduler.state("one") == "running"


@PLACED
@pytest.mark.parametrize("link", ["together", "after"])
@pytest.mark.parametrize("priority", [1, 2])
def test_a_reserved_job_keeps_those_that_it_cannot_start_without(parts, link, priority):
    """Else it would wait again once its victims have stopped, and evict others, without end."""
    low = Job("low", "a", 2)
    scheduler = full(parts, low, immediate=False)
    first = Job("first", "a", 2, priority=1, **{link: ["helper"]})
    helper = Job("helper", "a", 2, guaranteed=False)
    actions = submit(scheduler, first, helper)
    assert Preempt("low", "first", "priority") in actions and started(actions) == ["helper"]
    actions = submit(scheduler, Job("late", "b", 2, priority=priority), now=1.0)
    assert (Preempt("helper", "late", "opportunistic") in actions) == (priority > 1)
    if priority > 1:
        scheduler.stopped("helper", 2.0)
    scheduler.stopped("low", 2.0)
    assert started(submit(scheduler, now=2.0)) == (["late", "low"] if priority > 1 else ["first"])


def test_the_quota_of_pods_that_join_a_job_later_counts_when_the_others_are_tried():
    # With "one" first, its other three pods request the quota's minimum, and "two" has no room.
    scheduler = Scheduler(quotas=gpu_quotas(6, a=(6, 4), b=6))
    first = Job("one", "a", [Role("w", 5, gpus=1, min_pods=2)], together=["two"])
    two = Job("two", "b", [Role("w", 2, gpus=1)], together=["one"])
    assert started(submit(scheduler, first, two)) == ["two", "one", "one", "one"]


def test_companions_are_explained_logged_and_read_again(tmp_path):
    job = pair()[0]
    assert record_of_plain(Job, plain(job)) == job
    scheduler = limited()
    submit(scheduler, Job("other", "a", 2), *pair())
    explanation = scheduler.explain("two")
    assert explanation.refusals[0].code == "together" and explanation.changes == ()
    again = Scheduler.from_bytes(scheduler.to_bytes())
    for branch in (scheduler, again):
        branch.finish("other", 2.0)
        assert started(branch.decide(2.0)) == ["one", "two"]


def test_no_moves_or_orders_include_them():
    scheduler = make_scheduler(("topology",), immediate=True)
    submit(scheduler, *[Job(f"other{i}", "a", 4) for i in range(3)], *pair())
    assert scheduler.state("two") == "pending"
    assert scheduler.plan_moves(Fit("two")).reason == "starts together with other jobs"
    with pytest.raises(ValueError, match="'one' starts together with other jobs"):
        scheduler.reorder(["one"], 1.0)


@pytest.mark.parametrize("names", [["one"], [""], [5], "two"])
def test_wrong_names_are_refused(names):
    with pytest.raises((TypeError, ValueError), match="together"):
        Job("one", "a", 1, together=names)


def test_a_start_is_undone_with_those_that_depend_on_it():
    """They are in the way of a job that is offered later; one of them may start alone."""
    cells = node_cells(2, a=1, b=0)
    scheduler = Scheduler(cells=cells)
    jobs = [
        Job("one", "b", [Role("w", 1, gpus=4)], guaranteed=False, together=["two"]),
        Job("two", "b", [Role("w", 1, gpus=4)], guaranteed=False),
        Job("owner", "a", 4),
    ]
    actions = submit(scheduler, *jobs)
    assert started(actions) == ["owner", "two"]
    assert not [action for action in actions if isinstance(action, Preempt)]
    assert scheduler.state("one") == "pending"
    scheduler.finish("owner", 1.0)
    assert started(scheduler.decide(1.0)) == ["one"]


def beside_outside(total):
    """Quota "a" beside the outside quota "system"; each tenant uses the quota of its name."""
    quotas = [Quota("system", max={"gpu": 100}, outside=True), Quota("a", max={"gpu": 100})]
    return Scheduler(quotas=QuotaTree(quotas, total={"gpu": total}))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("total", "both"), [(20, False), (25, True)])
def test_jobs_in_outside_quotas_and_others_start_within_the_total(total, both, first):
    scheduler = beside_outside(total)
    jobs = [
        Job("s", "system", 15, together=["j"], priority=first),
        Job("j", "a", 10, together=["s"], priority=1 - first),
    ]
    assert sorted(started(submit(scheduler, *jobs))) == (["j", "s"] if both else [])


def test_a_job_that_fits_once_outside_quotas_use_less_waits_and_is_not_rejected():
    scheduler = beside_outside(20)
    assert started(submit(scheduler, Job("s", "system", 15))) == ["s"]
    (waits,) = submit(scheduler, Job("j", "a", 20))
    assert isinstance(waits, Wait)
    (rejected,) = submit(scheduler, Job("k", "a", 21))
    assert isinstance(rejected, Reject)
    assert rejected.reason == "asks for 21 of 'gpu', and there are 20 in all"
    scheduler.finish("s", 1.0)
    assert started(scheduler.decide(1.0)) == ["j"]


def test_opportunistic_jobs_of_another_quota_leave_for_a_pair_that_the_total_refuses():
    tree = gpu_quotas(8, limit="max", a=8, b=(8, 8))
    scheduler = Scheduler(quotas=tree, immediate=True)
    submit(scheduler, Job("weak", "b", 8, guaranteed=False))
    assert started(submit(scheduler, *pair())) == ["one", "two"]
