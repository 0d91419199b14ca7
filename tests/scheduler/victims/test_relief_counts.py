"""A job that no victims are searched for has none: the count changes no decision."""

from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import (
    COMPOSITIONS,
    NODES,
    ROLES,
    STAGES,
    TENANTS,
    enforced,
    make_job,
    make_scheduler,
)

from hivecore.scheduler import Wait
from hivecore.scheduler.rounds import offers, waking

PARTS = [
    name for name, parts in sorted(COMPOSITIONS.items()) if {"topology", "devices"} & set(parts)
]
JOBS = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(TENANTS),
        "roles": st.sampled_from(sorted(ROLES)),
        "priority": st.integers(0, 2),
        "guaranteed": st.booleans(),
        "rack": st.booleans(),
        "stages": st.sampled_from(sorted(STAGES)),
    }
)
EVENTS = st.one_of(
    JOBS,
    JOBS,
    st.tuples(st.just("finish"), st.integers(0, 20)),
    st.tuples(st.sampled_from(NODES), st.booleans()),
)


def searching(scheduler):
    """Search for victims whenever a job is refused."""
    with ExitStack() as patches:
        for module in (offers, waking):
            patches.enter_context(patch.object(module, "might_help", lambda *_: True))
        return scheduler.decide(0.0)


@pytest.mark.parametrize("immediate", [True, False])
@given(st.sampled_from(PARTS), st.lists(EVENTS, min_size=5, max_size=25))
@examples(60)
def test_counting_first_changes_nothing(immediate, parts, events):
    scheduler = make_scheduler(COMPOSITIONS[parts], immediate=immediate)
    other = make_scheduler(COMPOSITIONS[parts], immediate=immediate)
    for number, event in enumerate(events):
        for branch in (scheduler, other):
            happen(branch, f"j{number}", event)
        said = scheduler.decide(0.0), searching(other)
        mine, theirs = ([a for a in actions if not isinstance(a, Wait)] for actions in said)
        assert mine == theirs


def happen(scheduler, name, event):
    if isinstance(event, dict):
        stages = STAGES[event["stages"]]
        job = make_job(name, **{**event, "stages": stages})
        scheduler.submit(enforced(scheduler, job), 0.0)
    elif event[0] == "finish":
        running = [name for name in scheduler if scheduler.state(name) == "running"]
        stopping = [name for name in running if scheduler.status(name).for_job]
        if stopping:
            for victim in stopping:
                if not scheduler.status(victim).has_stopped:
                    scheduler.stopped(victim, 0.0)
        elif running:
            scheduler.finish(running[event[1] % len(running)], 0.0)
    else:
        scheduler.set_node(*event, 0.0)
