"""The ends that `explain` names are enough: they are carried out on a copy, which then decides."""

import random

import pytest
from profiles import times
from scheduler.lives import COMPOSITIONS, decided, make_scheduler
from scheduler.log.decision_logs import happen

from hivecore.scheduler import EvictionLimit, Preempt, Shrink, Start
from hivecore.scheduler.explanation import cheapest_ends
from hivecore.scheduler.ledger.budgets import Budgets
from hivecore.scheduler.stages.transaction import Started

STEPS = 60


def test_ends_without_a_condition_let_the_job_start_in_nineteen_of_twenty_cases():
    named = true = with_condition = 0
    for name, parts in COMPOSITIONS.items():
        for seed in range(times(2)):
            rng = random.Random(f"{seed} {name}")
            scheduler, now = make_scheduler(parts, immediate=True), 0.0
            for step in range(STEPS):
                now += rng.choice([0.0, 0.5, 60.0])
                happen(scheduler, rng, step, now)
                if step < 20 or step % 5 or scheduler.has_order:
                    continue
                scheduler.decide(now)
                before = scheduler.to_bytes()
                for job, change in ends(scheduler):
                    if change.ahead:
                        with_condition += 1
                        assert all(other in change.text for other in change.ahead)
                        continue
                    named += 1
                    true += starts(scheduler.copy(), job, change.jobs, now)
                assert scheduler.to_bytes() == before
    assert named > 30 and with_condition > 30
    assert true >= 0.95 * named


def test_none_of_the_ends_that_are_named_can_be_left_out():
    tried = 0
    for name, parts in COMPOSITIONS.items():
        rng = random.Random(name)
        scheduler, now = make_scheduler(parts, immediate=True), 0.0
        for step in range(2 * STEPS):
            now += rng.choice([0.0, 0.5, 60.0])
            happen(scheduler, rng, step, now)
            for job, change in ends(scheduler) if step % 5 == 0 else ():
                for other in change.jobs if len(change.jobs) > 1 else ():
                    tried += 1
                    rest = [name for name in change.jobs if name != other]
                    assert not starts_without(scheduler._state, job, rest)
    assert tried > 50


def starts_without(state, name, ended):
    with state.stages.trial():
        for other in ended:
            for unit in state.jobs[other].placed:
                state.stages.give_back(unit, end=True)
        return isinstance(state.stages.start(state.jobs[name].units[0].trial()), Started)


@pytest.mark.parametrize("immediate", [False, True])
def test_jobs_that_limits_protect_are_victims_without_limits(immediate):
    limits = [EvictionLimit("a", min_run_time=30, per_hour=1), EvictionLimit(per_hour=0)]
    named = same = 0
    for name, parts in COMPOSITIONS.items():
        rng = random.Random(f"limits {name}")
        scheduler = make_scheduler(parts, immediate=immediate, eviction_limits=limits)
        now = 0.0
        for step in range(STEPS):
            now += rng.choice([0.0, 0.5, 20.0])
            happen(scheduler, rng, step, now)
            if step % 4 or scheduler.has_order:
                continue
            scheduler.decide(now)
            before = scheduler.to_bytes()
            for job in [job for job in scheduler if scheduler.state(job) == "pending"]:
                for change in scheduler.explain(job).changes:
                    if change.kind == "evictions":
                        named += 1
                        assert change.limits_of_evictions and "might evict" in change.text
                        same += evicted(scheduler.copy(), job, now) == {*change.jobs}
            assert scheduler.to_bytes() == before
    assert named > 20, same
    assert same >= 0.9 * named, (same, named)


def evicted(branch, job, now):
    """The jobs that are evicted for a job without limits, if no other job waits."""
    branch._state.budgets = Budgets([], branch._state.log)
    amended = branch.job(job)
    for name in [name for name in branch if branch.state(name) == "pending"]:
        branch.cancel(name, now)
    actions = decided(branch, amended, now=now)
    shrinks = {
        f"{action.job}/{pod.role}/{pod.index}"
        for action in actions
        if isinstance(action, Shrink)
        for pod in action.pods
    }
    return {action.job for action in actions if isinstance(action, Preempt)} | shrinks


def ends(scheduler):
    for job in [name for name in scheduler if scheduler.state(name) == "pending"]:
        for change in scheduler.explain(job).changes:
            if change.kind == "release":
                yield job, change


def test_running_jobs_are_listed_by_what_their_ends_lose_whatever_has_happened():
    listed = 0
    for name, parts in COMPOSITIONS.items():
        rng = random.Random(name)
        scheduler, now = make_scheduler(parts, immediate=True), 0.0
        for step in range(STEPS):
            now += rng.choice([0.0, 0.5, 60.0])
            happen(scheduler, rng, step, now)
            for job in rng.sample(list(scheduler), min(len(scheduler), 1)):
                scheduler.forecast(job)
            if step % 3 == 0:
                listed += check_losses(scheduler._state)
    assert listed > 500


def check_losses(state):
    """Compare all lists with the jobs; return the number of listed jobs."""
    expected = [
        ((state.now - live.since) * live.job.gpus, name, live.job.tenant)
        for name, live in state.running.items()
        if not live.for_job
    ]
    entries = list(cheapest_ends(state, None))
    assert entries == sorted(entry[:2] for entry in expected)
    if state.stages.places_by_cells:
        for tenant in {entry[2] for entry in expected}:
            of_tenant = sorted(entry[:2] for entry in expected if entry[2] == tenant)
            assert list(cheapest_ends(state, tenant)) == of_tenant
    return len(entries)


def starts(branch, job, ended, now):
    for other in ended:
        branch.finish(other, now)
    return any(isinstance(action, Start) and action.job == job for action in branch.decide(now))
