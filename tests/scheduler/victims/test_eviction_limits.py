"""Limits on how soon and how often jobs are evicted, and how waiting jobs are woken."""

import pytest
from scheduler.lives import decided, flat_network, gpu_quotas, node_cells

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.scheduler import (
    EvictionLimit,
    Job,
    Preempt,
    Role,
    Scheduler,
    Shrink,
    Start,
    Wait,
    event_of_plain,
    replay,
)


def make_scheduler(*limits, **more):
    tree = gpu_quotas(4, a=(4, 2), b=4)
    return Scheduler(quotas=tree, eviction_limits=limits, immediate=True, **more)


def decide(scheduler, now, *jobs):
    for job in jobs:
        scheduler.submit(job, now)
    branch = Scheduler.from_bytes(scheduler.to_bytes())
    actions = scheduler.decide(now)
    assert branch.decide(now) == actions
    scheduler.check()
    return [
        (type(action).__name__, action.job)
        for action in actions
        if isinstance(action, Start | Preempt | Shrink)
    ]


def fill(scheduler, count=4, now=0.0, **more):
    jobs = [Job(f"b{i}", "b", 1, guaranteed=False, **more) for i in range(count)]
    return decide(scheduler, now, *jobs)


def test_a_job_that_has_run_too_short_leaves_as_soon_as_it_has_run_for_long_enough():
    scheduler = make_scheduler(EvictionLimit("b", min_run_time=60))
    fill(scheduler)
    assert decide(scheduler, 10.0, Job("mine", "a", 1)) == []
    assert scheduler.forecast("mine") == 60.0
    assert decide(scheduler, 59.9) == []
    assert sorted(decide(scheduler, 60.0)) == [("Preempt", "b3"), ("Start", "mine")]


def test_pods_above_the_least_are_not_protected_by_their_run_time():
    scheduler = make_scheduler(EvictionLimit("b", min_run_time=60))
    decide(scheduler, 0.0, Job("theirs", "b", [Role("w", 1, gpus=1, max_pods=4)]))
    assert decide(scheduler, 1.0, Job("mine", "a", 1)) == [("Shrink", "theirs"), ("Start", "mine")]


def test_a_job_that_needs_more_victims_than_the_budget_waits_until_it_has_room():
    scheduler = make_scheduler(EvictionLimit("b", per_hour=2))
    fill(scheduler)
    assert len(decide(scheduler, 0.0, Job("one", "a", 1))) == 2
    scheduler.finish("one", 1.0)
    decide(scheduler, 1.0)
    assert decide(scheduler, 2.0, Job("two", "a", 2)) == []
    assert sorted(kind for kind, _ in decide(scheduler, 3600.0)) == ["Preempt", "Preempt", "Start"]
    scheduler = make_scheduler(EvictionLimit("b", per_hour=1))
    fill(scheduler)
    scheduler.submit(Job("two", "a", 2), 2.0)
    assert decide(scheduler, 1e6) == []
    assert scheduler.forecast("two") is None


@pytest.mark.parametrize("part", ["quotas", "quotas and devices", "quotas and topology"])
def test_evictions_among_many_jobs_keep_to_the_budget(part):
    """Two of the least important jobs are too many; the large job alone is enough."""
    tree = gpu_quotas(16, q=16)
    parts = {
        "devices": DeviceCluster({"n": NodeDevices.uniform(gpus=16)}),
        "topology": flat_network("n", gpu=16),
    }
    place = {name: stage for name, stage in parts.items() if name in part}
    limits = [EvictionLimit("q", per_hour=1)]
    scheduler = Scheduler(quotas=tree, eviction_limits=limits, immediate=True, **place)
    for i in range(14):
        scheduler.submit(Job(f"j{i}", "q", 1), 0.0)
    assert len(decide(scheduler, 0.0, Job("large", "q", 2, priority=1))) == 15
    scheduler.submit(Job("urgent", "q", 2, priority=2), 1.0)
    assert sorted(decide(scheduler, 1.0)) == [("Preempt", "large"), ("Start", "urgent")]


def changes(scheduler, name):
    before = scheduler.to_bytes()
    changes = scheduler.explain(name).changes
    assert scheduler.to_bytes() == before
    return [change for change in changes if change.kind == "evictions"]


def test_explanations_name_the_jobs_that_limits_protect_and_until_when():
    scheduler = make_scheduler(EvictionLimit("b", min_run_time=60, per_hour=1))
    fill(scheduler)
    decide(scheduler, 10.0, Job("mine", "a", 1))
    (change,) = changes(scheduler, "mine")
    assert change.jobs == ("b3",)
    assert change.text == "if it might evict b3, but b3 is protected until 60"
    scheduler.submit(Job("more", "a", 2), 10.0)
    (change,) = changes(scheduler, "more")
    never = "b has used 0 of its 1 evictions of an hour, which is too few at any time"
    assert change.limits_of_evictions[-1] == never
    decide(scheduler, 60.0)
    decide(scheduler, 61.0, Job("third", "a", 1))
    (change,) = changes(scheduler, "third")
    assert change.text.endswith("but b has used 1 of its 1 evictions of an hour, until 3660")


def test_explanations_do_not_speak_of_limits_that_protect_no_victim():
    scheduler = make_scheduler(EvictionLimit("a", min_run_time=60))
    fill(scheduler)
    decide(scheduler, 10.0, Job("mine", "a", 3))
    assert changes(scheduler, "mine") == []
    decide(scheduler, 10.0, Job("weak", "a", 2, guaranteed=False))
    assert changes(scheduler, "weak") == []


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: EvictionLimit("b", min_run_time=-1), ValueError, "min_run_time"),
        (lambda: EvictionLimit("b", per_hour=-1), ValueError, "per_hour"),
        (lambda: EvictionLimit("b", per_hour=1.5), TypeError, "per_hour"),
        (lambda: make_scheduler("b"), TypeError, r"eviction_limits\[0\]"),
        (lambda: make_scheduler(EvictionLimit("b"), EvictionLimit("b")), ValueError, "has two"),
    ],
)
def test_wrong_limits_are_named(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_jobs_that_start_only_in_a_trial_wake_nothing():
    """One of two jobs that start together would evict the other, which has just started there."""
    limit = EvictionLimit(min_run_time=3.0)
    cells = node_cells(["n"], 2, a=1)
    scheduler = Scheduler(cells=cells, immediate=True, eviction_limits=[limit])
    scheduler.submit(Job("small", "a", 1, together=["large"]), 0.0)
    scheduler.submit(Job("large", "a", 2, priority=1, together=["small"]), 0.0)
    assert decide(scheduler, 0.0) == []
    assert scheduler.forecast("large") is None
    assert scheduler.forecast("small") is None


def reasons(scheduler, *jobs, now):
    actions = decided(scheduler, *jobs, now=now)
    waits = {wait.job: wait.refusal.reason for wait in actions if isinstance(wait, Wait)}
    for name, reason in waits.items():
        assert scheduler.explain(name).reason == reason
    return waits


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"preemption": False}, "waits for 'theirs' to end, as preemption is off"),
        (
            {"eviction_limits": [EvictionLimit("b", min_run_time=60)]},
            "waits for 'theirs' to leave, but theirs is protected until 60",
        ),
        (
            {"eviction_limits": [EvictionLimit("b", per_hour=0)]},
            "waits for 'theirs' to leave, but b has used 0 of its 0 evictions of an hour, "
            "which is too few at any time",
        ),
    ],
)
def test_a_job_says_why_those_that_are_in_its_way_are_not_evicted(settings, says):
    for parts in (
        {"quotas": gpu_quotas(4, a=(4, 2), b=4)},
        {"cells": node_cells(["n1"], a=1, b=0)},
    ):
        scheduler = Scheduler(**parts, **settings)
        decided(scheduler, Job("theirs", "b", 4, guaranteed="quotas" in parts))
        assert reasons(scheduler, Job("mine", "a", 2), now=1.0) == {"mine": says}
        assert reasons(scheduler, Job("next", "a", 2), now=2.0) == {"next": says}


def test_a_job_says_that_it_evicts_no_jobs_before_a_promised_start():
    scheduler = make_scheduler(backfill=1)
    decided(scheduler, Job("few", "b", 3, guaranteed=False, run_time=100), now=1.0)
    decided(scheduler, Job("all", "b", 4, run_time=50, guaranteed=False), now=2.0)
    assert scheduler.promised("all") == 101.0
    held = reasons(scheduler, Job("mine", "a", 2), now=3.0)
    assert held == {
        "mine": "waits for 'few' to end, as a job that was promised a start comes first"
    }


def test_new_limits_hold_at_once_and_wake_the_jobs_that_waited_for_the_old_ones():
    scheduler = make_scheduler(EvictionLimit("b", min_run_time=60), EvictionLimit(per_hour=0))
    fill(scheduler)
    scheduler.submit(Job("mine", "a", 1), 10.0)
    assert decide(scheduler, 10.0) == []
    scheduler.set_eviction_limits([EvictionLimit("b", min_run_time=30)], 11.0)
    assert decide(scheduler, 11.0) == []
    assert scheduler.forecast("mine") == 30.0
    scheduler.set_eviction_limits(iter([EvictionLimit(per_hour=1)]), 12.0)
    assert sorted(decide(scheduler, 12.0)) == [("Preempt", "b3"), ("Start", "mine")]
    assert decide(scheduler, 13.0, Job("more", "a", 1)) == []
    scheduler.set_eviction_limits([EvictionLimit("b", per_hour=2)], 14.0)
    assert sorted(decide(scheduler, 14.0)) == [("Preempt", "b2"), ("Start", "more")]
    scheduler.set_eviction_limits([], 15.0)
    assert scheduler.eviction_limits == ()


def test_evictions_count_while_a_quota_has_a_limit_per_hour():
    scheduler = make_scheduler(EvictionLimit("b", per_hour=1))
    fill(scheduler)
    assert len(decide(scheduler, 1.0, Job("mine", "a", 1))) == 2
    scheduler.set_eviction_limits([EvictionLimit("b", min_run_time=1), EvictionLimit("a")], 2.0)
    scheduler.set_eviction_limits([EvictionLimit("b", per_hour=1)], 3.0)
    scheduler.submit(Job("more", "a", 1), 3.0)
    assert sorted(decide(scheduler, 3.0)) == [("Preempt", "b2"), ("Start", "more")]


def test_new_limits_are_in_the_log(tmp_path):
    scheduler = make_scheduler()
    scheduler.write_log(tmp_path / "log")
    fill(scheduler)
    scheduler.set_eviction_limits([EvictionLimit("b", min_run_time=60, per_hour=2)], 1.0)
    assert decide(scheduler, 2.0, Job("mine", "a", 1)) == []
    assert len(decide(scheduler, 60.0)) == 2
    scheduler.close()
    again = replay(tmp_path / "log")
    assert (again.eviction_limits, again.summary()) == (
        scheduler.eviction_limits,
        scheduler.summary(),
    )
    event = {"event": "set_eviction_limits", "limits": [{"quota": "b", "per_hour": 1}]}
    event_of_plain(event).tell(scheduler, 61.0)
    assert scheduler.eviction_limits == (EvictionLimit("b", per_hour=1),)


@pytest.mark.parametrize(
    ("limits", "now", "error", "says"),
    [
        ([EvictionLimit("a"), EvictionLimit("a")], 1.0, ValueError, "limits"),
        ([EvictionLimit("a"), 3], 1.0, TypeError, r"limits\[1\]"),
        (3, 1.0, TypeError, "limits"),
        ([], -1.0, ValueError, "now"),
        ([], "x", TypeError, "now"),
    ],
)
def test_wrong_limits_change_nothing(limits, now, error, says):
    scheduler = make_scheduler(EvictionLimit("b", per_hour=1))
    before = scheduler.to_bytes()
    with pytest.raises(error, match=says):
        scheduler.set_eviction_limits(limits, now)
    assert scheduler.to_bytes() == before
