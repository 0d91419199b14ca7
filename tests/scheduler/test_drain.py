"""A drained node: its jobs move, or wait again, and it takes none until it is healthy."""

import copy

import pytest
from scheduler.lives import decided, node_cells, rack_network, said

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.scheduler import (
    Job,
    Move,
    PlacedPod,
    Role,
    Scheduler,
    Start,
    Stop,
    Where,
    event_of_plain,
    recover,
)
from hivecore.verify import verify_actions


def make_scheduler(nodes=3, gpus=2, racks=1, **more):
    network = rack_network({f"n{i}": f"r{i % racks}" for i in range(nodes)}, gpu=gpus)
    return Scheduler(topology=network, **more)


def on(scheduler, name):
    return [pod.node for pod in scheduler.status(name).pods]


def only(node):
    return Where(nodes=[node])


def test_a_job_moves_with_all_its_pods_before_waiting_jobs_get_the_room():
    scheduler = make_scheduler(nodes=3, gpus=2)
    decided(scheduler, Job("train", "t", [Role("w", 2, gpus=2)]))
    decided(scheduler, Job("next", "t", 2))
    decided(scheduler, Job("late", "other", 2, priority=9))
    scheduler.finish("next", 1.0)
    before = on(scheduler, "train")
    scheduler.drain(before[0], 1.0)
    move, *rest = scheduler.decide(1.0)
    assert isinstance(move, Move)
    assert [pod.node for pod in move.before] == before
    assert {pod.node for pod in move.pods} == {"n0", "n1", "n2"} - {before[0]}
    assert said(rest) == []
    assert scheduler.status("train").since == 1.0
    scheduler.check()


def test_a_job_that_fits_nowhere_else_stops_and_waits_until_the_node_is_healthy():
    scheduler = make_scheduler(nodes=2, gpus=2)
    decided(scheduler, Job("a", "t", 2, where=only("n0")), Job("b", "t", 2))
    scheduler.drain("n0", 1.0)
    assert said(scheduler.decide(1.0)) == [("Stop", "a")]
    assert scheduler.state("a") == "pending"
    scheduler.finish("b", 2.0)
    assert said(scheduler.decide(2.0)) == []
    scheduler.set_node("n0", True, 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "a")]
    assert said(scheduler.decide(4.0)) == []


def test_the_more_important_job_gets_the_room():
    scheduler = make_scheduler(nodes=2, gpus=2)
    scheduler.set_node("n1", False, 0.0)
    decided(scheduler, Job("weak", "t", 1, priority=5, guaranteed=False), Job("firm", "t", 1))
    scheduler.set_node("n1", True, 0.0)
    decided(scheduler, Job("fill", "t", 1, where=only("n1")))
    scheduler.drain("n0", 1.0)
    assert said(scheduler.decide(1.0)) == [("Move", "firm"), ("Stop", "weak")]


@pytest.mark.parametrize(("run_time", "by", "leaves_at"), [(10, 10, 10), (11, 10, 1), (None, 9, 1)])
def test_until_the_time_jobs_stay_that_end_by_then(run_time, by, leaves_at):
    scheduler = make_scheduler(nodes=2, gpus=2)
    decided(scheduler, Job("a", "t", 2, run_time=run_time))
    scheduler.drain("n0", 1.0, by=by)
    for now in range(1, leaves_at):
        assert said(scheduler.decide(float(now))) == []
        scheduler = Scheduler.from_bytes(scheduler.to_bytes()) if now % 2 else copy.copy(scheduler)
    assert said(scheduler.decide(float(leaves_at))) == [("Move", "a")]
    scheduler.check()


def test_a_job_that_is_not_preemptible_stays_until_it_ends():
    scheduler = make_scheduler(nodes=2)
    decided(scheduler, Job("a", "t", 2, preemptible=False))
    scheduler.drain("n0", 1.0, by=2.0)
    assert said(scheduler.decide(9.0)) == []
    assert on(scheduler, "a") == ["n0"]


def test_only_pods_on_the_node_leave_where_a_job_runs_on_without_them():
    scheduler = make_scheduler(nodes=5, racks=1)
    roles = [Role("w", 2, gpus=2, spares=1)]
    decided(scheduler, Job("a", "t", roles, on_failure="pod"))
    before = on(scheduler, "a")
    scheduler.drain(before[0], 1.0)
    actions = scheduler.decide(1.0)
    assert said(actions) == [("TakeOver", "a"), ("Stop", "a"), ("Start", "a")] or said(actions) == [
        ("Stop", "a"),
        ("TakeOver", "a"),
        ("Start", "a"),
    ]
    assert set(before) - {before[0]} < set(on(scheduler, "a"))
    assert scheduler.status("a").since == 0.0


def test_pods_above_the_least_grow_elsewhere():
    scheduler = make_scheduler(nodes=3, gpus=1)
    decided(scheduler, Job("a", "t", [Role("w", 1, gpus=1, max_pods=2)]))
    assert on(scheduler, "a") == ["n0", "n1"]
    scheduler.drain("n1", 1.0)
    actions = scheduler.decide(1.0)
    assert said(actions) == [("Stop", "a"), ("Start", "a")]
    assert on(scheduler, "a") == ["n0", "n2"]
    scheduler.check()


def test_a_drain_releases_held_resources_and_victims_stop_as_before():
    scheduler = make_scheduler(nodes=1, gpus=2)
    decided(scheduler, Job("weak", "t", 2, guaranteed=False))
    assert said(decided(scheduler, Job("firm", "t", 2))) == [("Preempt", "weak")]
    scheduler.drain("n0", 1.0)
    assert said(scheduler.decide(1.0)) == []
    scheduler.stopped("weak", 2.0)
    assert said(scheduler.decide(2.0)) == []
    assert [scheduler.state(name) for name in ("weak", "firm")] == ["pending", "pending"]


@pytest.mark.parametrize("end", ["set_node", "add_node", "remove_node"])
def test_draining_ends(end):
    scheduler = make_scheduler(nodes=1, growing=True)
    decided(scheduler, Job("a", "t", 2, run_time=100))
    scheduler.drain("n0", 1.0, by=200.0)
    if end == "set_node":
        scheduler.set_node("n0", True, 2.0)
    else:
        scheduler.remove_node("n0", 2.0)
        scheduler.add_node("n0", 3.0, labels={"rack": "r0"}, free={"gpu": 2})
    assert said(scheduler.decide(300.0))[-1:] == ([] if end == "set_node" else [("Start", "a")])
    assert not scheduler._state.draining


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"node": "n9", "now": 5.0}, KeyError),
        ({"node": 1, "now": 5.0}, TypeError),
        ({"node": "n0", "now": 5.0, "by": 4.0}, ValueError),
        ({"node": "n0", "now": 5.0, "by": "soon"}, TypeError),
        ({"node": "n0", "now": -1.0}, ValueError),
    ],
)
def test_after_an_error_nothing_has_changed(call, error):
    scheduler = make_scheduler()
    before = scheduler.to_bytes()
    with pytest.raises(error):
        scheduler.drain(**call)
    assert scheduler.to_bytes() == before


def test_the_log_and_plain_data_know_it(path):
    scheduler = make_scheduler(nodes=2, log=path)
    decided(scheduler, Job("a", "t", 2, run_time=50))
    event_of_plain({"event": "drain", "node": "n0", "by": 40, "now": 1.0}).tell(scheduler, 0.0)
    scheduler.decide(2.0)
    scheduler.drain("n1", 2.0)
    scheduler.set_node("n1", True, 3.0)
    actions = scheduler.decide(40.0)
    scheduler.close()
    assert recover(path).to_bytes() == scheduler.to_bytes()
    assert not any(isinstance(action, Start | Stop) for action in actions)


def test_nodes_that_reconfigure_removes_are_drained_no_more():
    def spec(count):
        chain = Chain(["gpu", "node"], [2], count, nodes=[f"n{i}" for i in range(count)])
        return ClusterSpec({"c": chain}, {"a": {"c": {"node": 1}}})

    scheduler = Scheduler(cells=CellCluster(spec(2)))
    scheduler.drain("n1", now=0.0)
    scheduler.reconfigure(spec(1), now=1.0)
    scheduler.reconfigure(spec(2), now=2.0)
    jobs = (Job("first", "a", 2), Job("second", "a", 2, guaranteed=False))
    assert said(decided(scheduler, *jobs, now=3.0)) == [("Start", "first"), ("Start", "second")]
    assert scheduler.decide(now=3.0) == []


def run_elastic_beside(scheduler, *nodes, **more):
    """An elastic job with a pod on each of two nodes, and an extra pod on the first."""
    fillers = [Job(f"fills {node}", "t", 1, where=only(node)) for node in nodes]
    decided(scheduler, *fillers)
    decided(scheduler, Job("train", "t", [Role("w", 2, max_pods=3)], **more))
    scheduler.finish(fillers[0].name, 1.0)
    scheduler.decide(1.0)
    assert sorted(on(scheduler, "train")) == sorted([*nodes, nodes[0]])


def test_a_pod_above_the_least_takes_no_number_where_it_has_to_leave_itself():
    scheduler = make_scheduler(nodes=2, gpus=2)
    run_elastic_beside(scheduler, "n0", "n1", on_failure="pod")
    scheduler.drain("n0", 2.0)
    assert said(scheduler.decide(2.0)) == [("Stop", "train"), ("Stop", "train")]
    assert on(scheduler, "train") == ["n1"]
    assert scheduler.decide(2.0) == []
    scheduler.check()


@pytest.mark.parametrize("role", [Role("w", 2, spares=1), Role("w", 2, max_pods=3)])
def test_no_pod_on_another_drained_node_takes_a_number(role):
    scheduler = make_scheduler(nodes=3, gpus=1)
    decided(scheduler, Job("train", "t", [role], on_failure="pod"))
    scheduler.drain("n0", 2.0)
    scheduler.drain("n2", 2.0)
    assert said(scheduler.decide(2.0)) == [("Stop", "train"), ("Stop", "train")]
    assert on(scheduler, "train") == ["n1"]
    assert scheduler.decide(2.0) == []


def test_a_job_moves_to_where_only_its_own_pods_above_the_least_are():
    scheduler = make_scheduler(nodes=2, gpus=2)
    decided(scheduler, Job("train", "t", [Role("w", 2, max_pods=4)]))
    assert on(scheduler, "train") == ["n0", "n0", "n1", "n1"]
    scheduler.drain("n0", 1.0)
    before = copy.copy(scheduler)
    actions = scheduler.decide(1.0)
    verify_actions(actions, {}, before)
    assert said(actions) == [("Move", "train")]
    assert on(scheduler, "train") == ["n1", "n1"]
    scheduler.check()


def test_a_forecast_leaves_jobs_where_they_are():
    scheduler = make_scheduler(nodes=2, gpus=2)
    decided(scheduler, Job("train", "t", 2))
    scheduler.submit(Job("next", "t", 2, run_time=9), 5.0)
    scheduler.drain("n0", 5.0)
    before = scheduler.to_bytes()
    assert scheduler.forecast("next") is None
    assert scheduler.to_bytes() == before


def test_a_job_starts_when_the_pod_that_it_waits_for_left_with_a_move():
    scheduler = make_scheduler(2, immediate=False)
    elastic = Job("elastic", "a", [Role("w", 1, gpus=1, max_pods=2)])
    decided(scheduler, elastic, Job("other", "a", 2))
    assert on(scheduler, "elastic") == ["n0", "n0"]
    decided(scheduler, Job("next", "a", 1))
    assert scheduler.status("next").victims == ("elastic/w/1",)
    scheduler.finish("other", 1.0)
    scheduler.drain("n0", 1.0)
    actions = scheduler.decide(1.0)
    assert [(type(action), action.job) for action in actions] == [
        (Move, "elastic"),
        (Start, "next"),
    ]
    assert on(scheduler, "elastic") == on(scheduler, "next") == ["n1"]
    assert scheduler.decide(1.0) == []
    scheduler.check()


@pytest.mark.parametrize("immediate", [True, False])
def test_a_job_that_is_evicted_in_the_same_round_does_not_move_before(immediate):
    scheduler = make_scheduler(nodes=2, immediate=immediate)
    decided(scheduler, Job("weak", "t", 2, where=Where(nodes=["n0", "n1"]), guaranteed=False))
    (node,) = on(scheduler, "weak")
    scheduler.drain(node, 1.0)
    scheduler.submit(job := Job("new", "t", 2), 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert said(actions) == [("Stop", "weak"), ("Start", "new")]
    assert (actions[0].node, actions[0].pods[0].node) == (node, node)
    verify_actions(actions, {"new": job}, before)
    assert scheduler.state("weak") == "pending"
    scheduler.check()


def test_nor_do_its_extra_pods_start():
    scheduler = make_scheduler(nodes=3, immediate=True)
    roles = [Role("w", 2, gpus=2, min_pods=1, max_pods=2)]
    decided(scheduler, Job("weak", "t", roles, guaranteed=False))
    scheduler.drain(on(scheduler, "weak")[0], 1.0)
    scheduler.submit(job := Job("new", "t", [Role("w", 2, gpus=2)]), 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert said(actions) == [("Stop", "weak"), ("Start", "new")]
    assert len(actions[0].pods) == 2
    verify_actions(actions, {"new": job}, before)
    scheduler.check()


@pytest.mark.parametrize(
    ("immediate", "expected"),
    [
        (True, [("Preempt", "weak"), ("Start", "new")]),
        (False, [("Move", "weak"), ("Preempt", "weak")]),  # it leaves its first nodes at once
    ],
)
def test_a_job_whose_failed_pod_finds_no_place_is_evicted_from_where_it_runs(immediate, expected):
    scheduler = make_scheduler(nodes=4, racks=2, immediate=immediate)
    role, rack = Role("w", 2, gpus=2), Where(must="rack")
    weak = Job("weak", "t", [role], where=rack, guaranteed=False, on_failure="pod-then-job")
    decided(scheduler, weak)
    node = on(scheduler, "weak")[1]
    scheduler.fail("weak", 1.0, "w/1")
    scheduler.set_node(node, False, 1.0)
    scheduler.submit(new := Job("new", "t", [role], where=rack), 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert said(actions) == expected
    verify_actions(actions, {"new": new}, before)
    scheduler.check()


def test_a_job_moves_first_if_another_has_started_where_it_was():
    scheduler = make_scheduler(nodes=4, racks=2, immediate=True)
    role, rack = Role("w", 2, gpus=2), Where(must="rack")
    weak = Job("weak", "t", [role], where=rack, guaranteed=False, on_failure="pod-then-job")
    decided(scheduler, weak)
    first, node = on(scheduler, "weak")
    scheduler.fail("weak", 1.0, "w/1")
    scheduler.set_node(node, False, 1.0)
    jobs = [Job("other", "t", 1, where=only(first)), Job("new", "t", [role], where=rack)]
    for job in jobs:
        scheduler.submit(job, 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert said(actions) == [
        ("Move", "weak"),
        ("Start", "other"),
        ("Preempt", "weak"),
        ("Start", "new"),
    ]
    verify_actions(actions, {job.name: job for job in jobs}, before)


def test_a_job_that_may_stay_is_remembered_until_its_node_must_be_empty():
    scheduler = make_scheduler(nodes=2, gpus=4)
    decided(scheduler, Job("short", "t", 2, run_time=50.0, where=only("n0")))
    decided(scheduler, Job("other", "t", 2, where=only("n1")))
    scheduler.drain("n0", 1.0, by=60.0)
    for now in (1.0, 2.0, 3.0):
        decided(scheduler, Job(f"late{now}", "t", 4), now=now)
        scheduler.check()
    assert said(scheduler.decide(60.0)) == [("Stop", "short")]
    scheduler.check()


def test_a_job_that_is_adopted_on_a_draining_node_leaves_it():
    scheduler = Scheduler(cells=node_cells(3, 2, t=3))
    decided(scheduler, Job("train", "t", 2))
    (node,) = on(scheduler, "train")
    scheduler.drain(node, 1.0)
    assert said(scheduler.decide(1.0)) == [("Move", "train")]
    scheduler.adopt(Job("tune", "t", 1), [PlacedPod("pod", 0, node, (("gpu", (0,)),))], 2.0)
    scheduler.check()
    assert said(scheduler.decide(2.0)) == [("Move", "tune")]
