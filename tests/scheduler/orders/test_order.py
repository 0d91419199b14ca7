"""Jobs run in a given order: earlier jobs take the GPUs of later ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import flat_network, gpu_quotas, limited, said

from hivecore.scheduler import (
    Job,
    Move,
    Preempt,
    Role,
    Scheduler,
    Sharing,
    Start,
    Wait,
)
from hivecore.verify import verify_actions

STAGES = {"a": (3.0, 1.0), "b": (1.0, 3.0), "c": (2.0, 2.0)}


def submitted(sizes, count=1, immediate=True, **settings):
    scheduler = Scheduler(
        topology=flat_network(*(f"n{i}" for i in range(count)), gpu=8),
        immediate=immediate,
        **settings,
    )
    for name, gpus in sizes.items():
        stages = STAGES.get(name, ()) if "sharing" in settings else ()
        scheduler.submit(Job(name, "t", [Role("w", 1, gpus=gpus)], stages=stages), now=0.0)
    return scheduler


def running(scheduler):
    return {name for name in scheduler if scheduler.state(name) == "running"}


def decided(scheduler, order, now):
    scheduler.reorder(order, now)
    return scheduler.decide(now)


def test_the_first_jobs_run_and_then_those_that_fit_behind_them():
    scheduler = submitted({"a": 4, "b": 8, "c": 2, "d": 4})
    assert said(decided(scheduler, ["a", "b", "c", "d"], 0.0)) == [("Start", "a"), ("Start", "c")]
    actions = decided(scheduler, ["b", "a", "c", "d"], 1.0)
    assert actions[:2] == [Preempt("a", "b", "order"), Preempt("c", "b", "order")]
    assert said(actions[2:]) == [("Start", "b")]
    assert scheduler.decide(2.0) == []


def test_a_running_job_stays_unless_another_needs_its_place():
    scheduler = submitted({"a": 4, "b": 4, "c": 4, "d": 8}, count=2)
    decided(scheduler, ["a", "b", "c"], 0.0)
    scheduler.finish("a", 1.0)
    # One job of four is on each node: one must make room for eight.
    moves = decided(scheduler, ["b", "c", "d"], 1.0)
    assert [type(action) for action in moves if not isinstance(action, Wait)] == [Move, Start]
    assert running(scheduler) == {"b", "c", "d"}
    scheduler.check()


def test_a_start_while_all_are_placed_again_has_its_decisions():
    sizes = {"a": 4, "b": 4, "c": 4, "d": 8, "e": 8}
    scheduler = submitted(sizes, count=3)
    decided(scheduler, ["a", "b", "c"], 0.0)
    scheduler.finish("a", 1.0)
    # The fours are on two nodes; beside them a job of eight fits.
    actions = decided(scheduler, ["b", "c", "d", "e"], 1.0)
    assert said(actions) == [("Move", "c"), ("Start", "d"), ("Start", "e")]
    for start in actions[1:]:
        [(stage, decision)] = start.decisions
        assert (stage, decision.request.name) == ("topology", start.job)
        assert [pod.node for pod in decision.placement] == [pod.node for pod in start.pods]
    scheduler.check()


def test_later_jobs_stay_if_all_of_them_free_too_little_in_one_place():
    sizes = {"p": 5, "q": 5, "r": 3, "s": 3, "x": 6}
    scheduler = submitted(sizes, count=2)
    decided(scheduler, ["p", "q", "r", "s"], 0.0)
    before = {name: scheduler.status(name).pods for name in "pqrs"}
    actions = decided(scheduler, ["p", "q", "x", "s", "r"], 1.0)
    assert [(type(action), action.job) for action in actions] == [(Wait, "x")]
    assert {name: scheduler.status(name).pods for name in "pqrs"} == before
    scheduler.check()


def test_later_jobs_that_share_gpus_stay_as_well():
    sizes = dict.fromkeys("ab", 3) | {"p": 5, "q": 5, "s": 3, "x": 6}
    scheduler = submitted(sizes, count=2, sharing=Sharing(2))
    decided(scheduler, ["p", "q", "s", ("a", "b")], 0.0)
    before = {name: scheduler.status(name).pods for name in "pqsab"}
    actions = decided(scheduler, ["p", "q", "x", ("b", "a"), "s"], 1.0)
    assert [(type(action), action.job) for action in actions] == [(Wait, "x")]
    assert {name: scheduler.status(name).pods for name in "pqsab"} == before
    assert sorted(scheduler.status("a").shares) == ["a", "b"]
    scheduler.check()


def test_a_job_that_is_not_named_does_not_run():
    scheduler = submitted({"a": 2, "b": 2})
    scheduler.decide(0.0)
    assert said(decided(scheduler, ["b"], 1.0)) == [("Preempt", "a")]
    scheduler.submit(Job("c", "t", 2), 2.0)
    assert scheduler.decide(2.0) == []
    # The queues decide again.
    assert said(decided(scheduler, [], 3.0)) == [("Start", "a"), ("Start", "c")]


def test_a_preempted_job_has_its_old_place_in_the_queue():
    scheduler = submitted({"a": 8, "b": 8, "c": 8})
    decided(scheduler, ["c", "b", "a"], 0.0)
    decided(scheduler, ["b"], 1.0)
    scheduler.finish("b", 2.0)
    assert said(decided(scheduler, [], 2.0)) == [("Start", "a")]


def test_pods_that_join_later_request_nothing_until_the_order_ends():
    tree = gpu_quotas(11, a=16, b=(4, 2))
    scheduler = Scheduler(quotas=tree, immediate=True)
    scheduler.submit(Job("elastic", "b", [Role("w", 3, gpus=1, min_pods=1)]), 0.0)
    scheduler.submit(Job("large", "a", 10), 0.0)
    jobs = {name: scheduler.job(name) for name in scheduler}
    scheduler.reorder(["elastic", "large"], 0.0)
    before = scheduler.copy()
    actions = scheduler.decide(0.0)
    assert said(actions) == [("Start", "elastic"), ("Start", "large")]
    verify_actions(actions, jobs, before)
    scheduler.finish("large", 1.0)
    assert scheduler.decide(1.0) == []
    assert said(decided(scheduler, [], 2.0)) == [("Start", "elastic")] * 2
    scheduler.check()


def test_no_pods_join_a_victim_when_an_order_ends():
    scheduler = Scheduler(topology=flat_network("n0", gpu=8))
    scheduler.submit(Job("elastic", "t", [Role("w", 2, gpus=2, min_pods=1)]), 0.0)
    assert said(decided(scheduler, ["elastic"], 0.0)) == [("Start", "elastic")]
    scheduler.submit(Job("first", "t", 8), 1.0)
    assert said(decided(scheduler, ["first", "elastic"], 1.0)) == [("Preempt", "elastic")]
    assert said(decided(scheduler, [], 2.0)) == []
    scheduler.stopped("elastic", 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "elastic")] * 2
    scheduler.check()


def test_a_job_stands_behind_those_that_it_is_to_start_after():
    scheduler = Scheduler(topology=flat_network("n0", gpu=8), immediate=True)
    scheduler.submit(Job("first", "t", 4), 0.0)
    scheduler.submit(Job("then", "t", 4, after=["first"]), 0.0)
    scheduler.submit(Job("other", "t", 4), 0.0)
    assert said(decided(scheduler, ["then", "other", "first"], 0.0)) == [
        ("Start", "other"),
        ("Start", "first"),
    ]
    scheduler.finish("other", 1.0)
    assert said(scheduler.decide(1.0)) == [("Start", "then")]


def test_unless_victims_stop_at_once_no_job_starts_until_all_have():
    scheduler = submitted({"a": 4, "b": 4, "c": 8}, immediate=False)
    scheduler.decide(0.0)
    actions = decided(scheduler, ["c", "a", "b"], 1.0)
    assert said(actions) == [("Preempt", "a"), ("Preempt", "b")]
    scheduler.stopped("a", 2.0)
    assert said(scheduler.decide(2.0)) == []
    scheduler.stopped("b", 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "c")]
    assert scheduler.state("a") == scheduler.state("b") == "pending"


def test_no_job_starts_before_jobs_that_are_not_named_have_stopped():
    scheduler = submitted({"a": 2, "b": 2}, immediate=False)
    scheduler.decide(0.0)
    scheduler.submit(Job("c", "t", 2), 1.0)
    assert said(decided(scheduler, ["a", "c"], 1.0)) == [("Preempt", "b")]
    assert said(scheduler.decide(2.0)) == []
    scheduler.stopped("b", 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "c")]


def test_jobs_that_stand_together_share_gpus():
    scheduler = submitted({"a": 8, "b": 8, "c": 8}, sharing=Sharing(2))
    first, second = [
        action for action in decided(scheduler, [("a", "b"), "c"], 0.0) if action.job != "c"
    ]
    assert (first.job, first.shares_with) == ("a", ())
    assert (second.job, second.shares_with, len(second.offsets)) == ("b", ("a",), 2)
    # The job that stays has the GPUs now, and the third joins it.
    actions = decided(scheduler, [("b", "c")], 1.0)
    assert said(actions) == [("Preempt", "a"), ("Start", "c")]
    assert actions[-1].shares_with == ("b",)
    assert scheduler.status("b").shares == ("b", "c")
    assert said(decided(scheduler, ["c"], 2.0)) == [("Preempt", "b")]
    scheduler.check()


def test_groups_change_members():
    scheduler = submitted(dict.fromkeys("abcd", 8), count=2, sharing=Sharing(2, max_group=2))
    scheduler.submit(Job("e", "t", [Role("w", 1, gpus=8)], stages=(2.0, 2.0)), 0.0)
    with pytest.raises(ValueError, match="'a', 'd' are not alike, or have no stages"):
        scheduler.reorder([("a", "d")], 0.0)
    decided(scheduler, [("a", "b"), ("c", "e")], 0.0)
    where = {name: scheduler.status(name).pods[0].node for name in "abce"}
    actions = decided(scheduler, [("a", "c"), ("b", "e")], 1.0)
    assert all(isinstance(action, Move) for action in actions) and len(actions) == 2
    now = {name: scheduler.status(name).pods[0].node for name in "abce"}
    assert now["a"] == now["c"] != now["b"] == now["e"]
    assert {action.job for action in actions} == {
        name for name in "abce" if where[name] != now[name]
    }


@pytest.mark.parametrize(
    ("order", "error", "says"),
    [
        ("ab", TypeError, "order must be a sequence, not str"),
        (3, TypeError, "order must be a sequence, not int"),
        ([3], TypeError, "order must be a sequence, not int"),
        ([("a", 3)], TypeError, "order must be a string, not int"),
        ([()], ValueError, "an entry has no jobs"),
        (["a", "a"], ValueError, "job 'a' is named twice"),
        ([("a", "b"), "b"], ValueError, "job 'b' is named twice"),
        (np.array("a"), TypeError, "order must be a sequence, not an array without dimensions"),
        (["unknown"], KeyError, "order: there is no job 'unknown'"),
        ([("a", "unknown")], KeyError, "order: there is no job 'unknown'"),
        ([("a", "b", "c")], ValueError, "are 3, and at most 2 share GPUs"),
        ([("a", "d")], ValueError, "are not alike, or have no stages"),
    ],
)
def test_an_order_that_cannot_be_is_refused_and_changes_nothing(order, error, says):
    scheduler = submitted(dict.fromkeys("abcd", 2), sharing=Sharing(2))
    decided(scheduler, ["b", "a"], 0.0)
    before = scheduler.to_bytes()
    with pytest.raises(error, match=says):
        scheduler.reorder(order, 1.0)
    assert scheduler.to_bytes() == before


def test_a_pod_of_an_elastic_job_is_no_job_of_an_order():
    scheduler = submitted({})
    scheduler.submit(Job("a", "t", [Role("w", 2, gpus=1, min_pods=1, max_pods=2)]), 0.0)
    scheduler.decide(0.0)
    assert scheduler.status("a/w/1").state == "running"
    with pytest.raises(KeyError, match="order: there is no job 'a/w/1'"):
        scheduler.reorder(["a/w/1"], 1.0)


def test_where_an_order_makes_no_sense_it_is_refused():
    scheduler = submitted({"a": 2, "b": 2})
    with pytest.raises(ValueError, match="order: "):
        scheduler.reorder([("a", "b")], 0.0)
    with pytest.raises(ValueError, match=r"allowed are 0\.0 to"):
        scheduler.reorder(["a"], -1.0)


sizes = st.sampled_from([1, 1, 2, 4, 8, 16])


@given(
    st.sampled_from([1, 2, 4]),
    st.lists(
        st.tuples(st.lists(sizes, max_size=4), st.randoms(use_true_random=False)), max_size=12
    ),
    st.booleans(),
)
@examples(150)
def test_sizes_that_are_powers_of_two_run_as_if_only_their_number_counted(count, rounds, immediate):
    """If jobs move, GPUs that are free in number are free in place, too."""
    scheduler, gpus = (
        Scheduler(
            topology=flat_network(*(f"n{i}" for i in range(count)), gpu=8), immediate=immediate
        ),
        {},
    )
    for now, (new, random) in enumerate(rounds):
        for size in new:
            if size <= 8 * count:
                name = f"j{len(gpus)}"
                gpus[name] = size
                pods = [Role("w", max(1, size // 8), gpus=min(8, size))]
                scheduler.submit(Job(name, "t", pods), now)
        for name in sorted(running(scheduler)):
            if random.random() < 0.2:
                scheduler.finish(name, now)
        order = sorted(scheduler)
        random.shuffle(order)
        scheduler.reorder(order, now)
        for _ in range(4):
            for action in scheduler.decide(now):
                if isinstance(action, Preempt) and not immediate:
                    scheduler.stopped(action.job, now)
        free, expected = 8 * count, set()
        for name in order:
            if gpus[name] <= free:
                free -= gpus[name]
                expected.add(name)
        assert running(scheduler) == expected
        assert scheduler.decide(now) == []
        scheduler.check()


@pytest.mark.parametrize("immediate", [True, False])
def test_an_order_takes_the_pods_above_the_least_with_their_job(immediate):
    scheduler = limited(4, immediate=immediate)
    elastic = Job("elastic", "a", [Role("w", 1, max_pods=4)])
    scheduler.submit(elastic, 0.0)
    scheduler.decide(0.0)
    assert len(scheduler.status("elastic").pods) == 4
    scheduler.submit(Job("other", "a", 4), 1.0)
    scheduler.reorder(["other", "elastic"], 1.0)
    actions = said(scheduler.decide(1.0))
    assert actions[0] == ("Preempt", "elastic")
    if not immediate:
        scheduler.stopped("elastic", 2.0)
        actions += said(scheduler.decide(2.0))
    assert actions == [("Preempt", "elastic"), ("Start", "other")]
    scheduler.check()
    scheduler.reorder(["elastic"], 3.0)
    scheduler.cancel("other", 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "elastic")]
    scheduler.reorder([], 4.0)
    assert said(scheduler.decide(4.0)) == 3 * [("Start", "elastic")]
    scheduler.check()


def test_an_order_takes_all_pods_above_the_least_of_a_job_that_stays():
    scheduler = limited(4, immediate=True)
    scheduler.submit(Job("elastic", "a", [Role("w", 1, max_pods=4)]), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("other", "a", 3), 1.0)
    scheduler.reorder(["elastic", "other"], 1.0)
    assert said(scheduler.decide(1.0)) == 3 * [("Shrink", "elastic")] + [("Start", "other")]
    scheduler.check()
    assert len(scheduler._state.jobs["elastic"].extras) == 1
