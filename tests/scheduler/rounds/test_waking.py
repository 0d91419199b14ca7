"""A waiting job is tried again as soon as it could start."""

from scheduler.histories import overlooked
from scheduler.lives import gpu_quotas, machines, make_scheduler, node_cells

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start, Where


def submit(scheduler, *jobs):
    for job in jobs:
        scheduler.submit(job, scheduler.now)
    return decide(scheduler)


def decide(scheduler):
    """What a round starts and evicts. A second round does nothing, even if all jobs are tried."""
    actions = scheduler.decide(scheduler.now)
    assert scheduler.decide(scheduler.now) == overlooked(scheduler, scheduler.now) == []
    scheduler.check()
    actions_of_interest = [action for action in actions if isinstance(action, Start | Preempt)]
    return [(type(action).__name__, action.job) for action in actions_of_interest]


def test_a_job_starts_once_no_job_between_it_and_a_job_that_stops_is_left():
    scheduler = make_scheduler(("devices",))
    here = Where(nodes=["n0"])
    submit(scheduler, Job("stops", "a", 4, where=here))
    submit(scheduler, Job("urgent", "a", 4, where=here, priority=1))
    names = ["first", "second", "third", "stops"]
    chain = [Job(names[i], "a", 1, together=[names[i + 1]]) for i in range(3)]
    assert submit(scheduler, *chain) == []
    scheduler.cancel("second", 1.0)
    assert decide(scheduler) == [("Start", "first")]


def quotas_of_half(total, **settings):
    """Two quotas that are entitled to half, and may borrow all."""
    tree = gpu_quotas(total, limit="max", a=(total, total // 2), b=(total, total // 2))
    return Scheduler(quotas=tree, **settings)


def test_a_job_is_tried_that_starts_by_its_priority_and_by_what_others_give_back():
    scheduler = quotas_of_half(12)
    submit(scheduler, Job("old", "a", 1), Job("large", "a", 7, priority=1))
    submit(scheduler, Job("keeps", "b", 4, priority=2))
    assert submit(scheduler, Job("low", "b", 1, priority=1)) == [("Preempt", "old")]
    assert submit(scheduler, Job("wants", "b", 2, priority=2)) == []
    scheduler.stopped("old", 1.0)
    assert set(decide(scheduler)) == {("Start", "low"), ("Preempt", "low"), ("Preempt", "large")}


def test_a_job_on_idle_cells_leaves_for_a_job_of_another_quota_that_the_total_refuses():
    cells = node_cells(["n0", "n1"], a=1, b=1)
    tree = gpu_quotas(8, limit="max", a=8, b=(8, 8))
    scheduler = Scheduler(quotas=tree, cells=cells, lending=True)
    submit(scheduler, Job("firm", "b", 4))
    assert submit(scheduler, Job("guest", "b", 4)) == [("Start", "guest")]
    again = Scheduler.from_bytes(scheduler.to_bytes())
    for branch in (scheduler, again, scheduler.copy()):
        assert submit(branch, Job("mine", "a", 4)) == [("Preempt", "guest")]


def on(*nodes):
    return Where(nodes=nodes)


def with_a_job_that_stops(gpus, quota="a", **more):
    """A job on n0 that stops for a job that is gone."""
    scheduler = make_scheduler(("quotas", "devices"), limit="max")
    roles = [Role(f"r{i}", 1, gpus=size) for i, size in enumerate(gpus)]
    submit(scheduler, Job("stops", quota, roles, where=on("n0", "n1"), **more))
    gone = Job("gone", quota, 4, priority=2, where=on("n0"))
    assert submit(scheduler, gone) == [("Preempt", "stops")]
    scheduler.cancel("gone", scheduler.now)
    return scheduler


PAIR = [Role("w", 2, gpus=4)]


def test_a_job_that_waits_for_one_that_stops_is_tried_again_when_a_start_takes_its_quota():
    scheduler = with_a_job_that_stops([4, 1], guaranteed=False)
    submit(scheduler, Job("weak", "a", 4, guaranteed=False, where=on("n2")))
    assert submit(scheduler, Job("wants", "a", PAIR, where=on("n2", "n3"))) == []
    roles = [Role("x", 1, gpus=4), Role("y", 1, gpus=1)]
    more = Job("more", "b", roles, guaranteed=False, where=on("n1", "n3"))
    assert submit(scheduler, more) == [("Preempt", "weak")]
    assert scheduler.state("more") == "pending"


def test_a_job_is_tried_again_when_a_start_lets_another_quota_exceed_its_runtime():
    scheduler = with_a_job_that_stops([4], guaranteed=False)
    submit(scheduler, Job("large", "b", PAIR, where=on("n1", "n2")))
    assert submit(scheduler, Job("wants", "a", PAIR)) == []
    submit(scheduler, Job("weak", "a", 1, guaranteed=False))
    assert ("Preempt", "large") in submit(scheduler, Job("small", "b", 1, priority=1))


def test_a_job_whose_victims_in_cells_must_not_leave_is_tried_again_when_cells_get_free():
    cells = node_cells(["n0", "n1", "n2"], t=3)
    tree = gpu_quotas(24, limit="max", a=12, b=12)
    scheduler = Scheduler(quotas=tree, cells=cells)
    submit(scheduler, Job("firm", "t", 4, quota="b", priority=2))
    submit(scheduler, Job("low", "t", 4, quota="a"), Job("needed", "t", 4, quota="a", priority=1))
    wants = Job("wants", "t", PAIR, quota="a", priority=2, after=["needed"])
    assert submit(scheduler, wants, Job("late", "t", 4, quota="b")) == []
    assert submit(scheduler, Job("later", "t", 4, quota="b")) == []
    scheduler.finish("firm", 1.0)
    assert decide(scheduler) == [("Preempt", "low")]


def test_a_job_that_keeps_cells_of_a_tenant_at_a_bad_node_leaves_for_a_more_important_one():
    chain = Chain(["gpu", "node", "rack"], [4, 2], 2, nodes=["n0", "n1", "n2", "n3"])
    cells = CellCluster(ClusterSpec({"c": chain}, {"a": {"c": {"rack": 1}}, "b": {}}))
    scheduler = Scheduler(cells=cells)
    submit(scheduler, Job("low", "a", 1))
    [pod] = scheduler.status("low").pods
    other = {"n0": "n1", "n1": "n0", "n2": "n3", "n3": "n2"}[pod.node]
    scheduler.set_node(other, False, 0.0)
    assert submit(scheduler, Job("wants", "a", PAIR, priority=1)) == [("Preempt", "low")]


def test_a_job_is_tried_again_when_a_start_lets_cells_propose_victims_that_may_leave():
    chain = Chain(["gpu", "pair", "node"], [2, 2], 2, nodes=["n0", "n1"])
    scheduler = Scheduler(cells=CellCluster(ClusterSpec({"c": chain}, {"a": {"c": {"node": 2}}})))
    for name, gpus in (("large", 4), ("needed", 1), ("small", 1)):
        submit(scheduler, Job(name, "a", gpus, guaranteed=False))
    wants = Job("wants", "a", [Role("w", 2, gpus=2)], together=["needed"])
    assert submit(scheduler, wants) == []
    more = Job("more", "a", 2, guaranteed=False)
    assert submit(scheduler, more) == [("Start", "more"), ("Preempt", "large")]


def test_a_job_without_room_is_tried_again_when_its_quota_is_entitled_to_more():
    tree = gpu_quotas(24, limit="max", a=(24, 6), b=(24, 4), c=(24, 14))
    scheduler = Scheduler(quotas=tree, devices=machines())
    submit(scheduler, Job("mine", "a", 4), *[Job(f"b{i}", "b", 4) for i in range(3)])
    weak = [Job(name, "c", gpus, guaranteed=False) for name, gpus in (("c0", 12), ("c1", 6))]
    weak = [job.replace(roles=[Role("w", job.gpus // 2, gpus=2)]) for job in weak]
    assert submit(scheduler, *weak, Job("wants", "a", 4)) == []
    assert submit(scheduler, Job("late", "c", 2, guaranteed=False)) == []
    scheduler.cancel("c0", 1.0)
    assert decide(scheduler) == [("Preempt", "b2")]


def test_a_job_on_idle_cells_is_promoted_once_another_quota_exceeds_its_runtime():
    cells = node_cells(["n0", "n1", "n2"], a=1, b=2)
    tree = gpu_quotas(12, a=(12, 4), b=(12, 4))
    scheduler = Scheduler(quotas=tree, cells=cells, lending=True, immediate=True)
    submit(scheduler, Job("holds", "a", 4, quota="b"), Job("firm", "b", 4))
    assert submit(scheduler, Job("guest", "a", 4)) == [("Start", "guest")]
    scheduler.set_node("n0", True, 0.0)
    assert decide(scheduler) == []
    assert submit(scheduler, Job("more", "a", 4, guaranteed=False)) == [("Preempt", "holds")]
    assert scheduler.state("guest") == "running"


def test_another_job_leaves_where_quotas_propose_a_job_that_must_stay():
    tree = gpu_quotas(12, a=12)
    scheduler = Scheduler(quotas=tree)
    submit(scheduler, Job("low", "a", 4), Job("needed", "a", 4))
    wants = Job("wants", "a", 8, priority=1, after=["needed"])
    assert submit(scheduler, wants) == [("Preempt", "low")]


def test_another_quota_gives_back_another_job_than_one_that_must_stay():
    scheduler = quotas_of_half(8)
    submit(scheduler, Job("other", "a", 2), Job("needed", "a", 4), Job("mine", "b", 1))
    wants = Job("wants", "b", 2, after=["needed"])
    assert submit(scheduler, wants) == [("Preempt", "other")]


def test_a_job_is_tried_again_though_a_more_important_job_of_its_quota_still_has_to_stop():
    scheduler = with_a_job_that_stops([4], "b", priority=1)
    submit(scheduler, Job("large", "a", PAIR, where=on("n1", "n2")))
    assert submit(scheduler, Job("wants", "b", PAIR)) == []
    more = Job("more", "a", 4, where=on("n3"))
    assert submit(scheduler, more) == [("Start", "more"), ("Preempt", "large")]


def test_a_job_whose_victims_stop_for_another_is_tried_again_when_cells_propose_others():
    chain = Chain(["gpu", "pair", "node"], [2, 2], 2, nodes=["n0", "n1"])
    scheduler = Scheduler(cells=CellCluster(ClusterSpec({"c": chain}, {"a": {"c": {"node": 2}}})))
    for name, gpus in (("large", 4), ("stops", 1), ("small", 1)):
        submit(scheduler, Job(name, "a", gpus, guaranteed=False))
    where = on(scheduler.status("stops").pods[0].node)
    gone = Job("gone", "a", [Role("w", 2, gpus=2)], where=where)
    assert {name for _, name in submit(scheduler, gone)} == {"stops", "small"}
    scheduler.cancel("gone", 0.0)
    assert submit(scheduler, Job("wants", "a", [Role("w", 2, gpus=2)])) == []
    more = Job("more", "a", 2, guaranteed=False)
    assert submit(scheduler, more) == [("Start", "more"), ("Preempt", "large")]


def test_a_job_that_cells_would_refuse_as_before_takes_no_attempt():
    cells = node_cells(["n0", "n1"], 2, a=2)
    scheduler = Scheduler(cells=cells)
    submit(scheduler, *[Job(f"small-{i}", "a", 1) for i in range(4)])
    assert submit(scheduler, Job("wide", "a", 2), Job("narrow", "a", 1)) == []
    node = {i: cells.group(f"small-{i}").placement[0].node for i in range(4)}
    scheduler.finish("small-0", 1.0)
    assert [(type(action).__name__, action.job) for action in scheduler.decide(1.0, most=1)] == [
        ("Start", "narrow")
    ]
    for name in ["narrow", *[f"small-{i}" for i in (1, 2, 3) if node[i] == node[0]]]:
        scheduler.finish(name, 1.0)
    assert decide(scheduler) == [("Start", "wide")]


def test_a_job_is_tried_again_when_a_job_stops_that_has_to_start_with_it():
    scheduler = make_scheduler(("devices",), blocking="fifo", immediate=True)
    weak = Job("weak", "a", [Role("w", 3, gpus=4)], guaranteed=False)
    submit(scheduler, Job("firm", "a", 4), weak)
    linked = Job("linked", "a", 4, priority=1, guaranteed=False, together=["firm"])
    assert submit(scheduler, linked) == []
    scheduler.remove_node(scheduler.status("firm").pods[0].node, 1.0)
    assert decide(scheduler) == [("Preempt", "weak"), ("Start", "firm"), ("Start", "linked")]


def test_a_job_is_tried_again_when_a_job_comes_that_has_to_start_with_it():
    scheduler = make_scheduler(("devices",), blocking="fifo", immediate=True)
    submit(scheduler, Job("weak", "a", [Role("w", 4, gpus=4)], guaranteed=False))
    linked = Job("linked", "a", 4, priority=1, guaranteed=False, together=["firm"])
    assert submit(scheduler, linked) == []
    started = submit(scheduler, Job("firm", "a", 4))
    assert started == [("Preempt", "weak"), ("Start", "firm"), ("Start", "linked")]


def test_jobs_start_together_where_the_first_lets_a_quota_exceed_what_the_second_takes_back():
    scheduler = make_scheduler(("quotas", "devices"), limit="max", immediate=True)
    scheduler.set_node("n3", False, 0.0)
    submit(scheduler, Job("old", "b", PAIR))
    assert submit(scheduler, Job("large", "a", PAIR)) == []
    linked = [Job("one", "b", 4, together=["two"]), Job("two", "a", 4, together=["one"])]
    started = submit(scheduler, *linked)
    assert started == [("Start", "one"), ("Preempt", "old"), ("Start", "two")]


def test_a_job_is_tried_again_when_its_quotas_no_longer_count_a_job_that_gave_up():
    tree = gpu_quotas(22, a=(8, 8), b=(8, 8))
    scheduler = Scheduler(quotas=tree, reservation_seconds=5.0)
    submit(scheduler, Job("old", "a", 8), Job("low", "b", 8))
    assert submit(scheduler, Job("urgent", "a", 8, priority=1)) == [("Preempt", "old")]
    assert submit(scheduler, Job("wants", "b", 8, priority=1)) == []
    assert submit(scheduler, Job("late", "b", 8)) == []
    scheduler.advance(5.0)
    assert decide(scheduler) == [("Preempt", "low")]


def test_linked_jobs_are_tried_again_when_a_start_leaves_so_little_that_the_first_reclaims():
    scheduler = make_scheduler(("quotas",), immediate=True)
    submit(scheduler, Job("large", "b", 8, priority=2), Job("small", "b", 4, priority=2))
    assert submit(scheduler, Job("one", "a", 2, together=["two"]), Job("two", "b", 2)) == []
    assert ("Start", "two") in submit(scheduler, Job("more", "a", 3))


def test_linked_jobs_are_tried_again_when_a_start_leaves_so_little_that_the_first_evicts_others():
    scheduler = make_scheduler(("devices",), immediate=True)
    submit(scheduler, Job("low", "a", PAIR), Job("firm", "b", 4))
    roles = [Role("x", 1, gpus=4), Role("y", 1, gpus=2)]
    first = Job("one", "a", 2, priority=1, together=["two"])
    assert submit(scheduler, first, Job("two", "b", roles, together=["one"])) == []
    started = submit(scheduler, Job("more", "b", 4))
    assert started == [("Start", "more"), ("Preempt", "low"), ("Start", "one"), ("Start", "two")]


def test_a_job_evicts_once_another_job_frees_what_quotas_count_twice_of_one_that_stops():
    scheduler = make_scheduler(("quotas", "topology", "devices"))
    elastic = [Role("w", 4, gpus=2, min_pods=1)]
    submit(scheduler, Job("gone", "b", 2, priority=1), Job("stops", "b", elastic))
    scheduler.set_node("n0", False, 0.0)
    scheduler.cancel("gone", 0.0)
    submit(scheduler, Job("fails", "b", elastic, guaranteed=False))
    gang = Job("wants", "a", [Role("w", 3, gpus=2)])
    assert submit(scheduler, gang, Job("low", "a", 2, priority=1)) == [
        ("Start", "low"),
        ("Preempt", "stops"),
    ]
    # The parent quota counts "stops" beside "wants", so it has no room for "high" instead of "low".
    assert submit(scheduler, Job("high", "a", 2, priority=2)) == []
    scheduler.fail("fails", 1.0)
    assert decide(scheduler) == [("Preempt", "low")]


def test_a_job_is_tried_again_when_a_quota_exceeds_its_runtime_by_more():
    cells = node_cells(["n0", "n1", "n2", "n3"], t=2, u=2)
    tree = gpu_quotas(16, limit="max", a=16, b=(16, 8))
    scheduler = Scheduler(quotas=tree, cells=cells, lending=True)
    submit(scheduler, Job("first", "t", 4, quota="a"), Job("second", "t", 4, quota="a"))
    assert submit(scheduler, Job("guest", "t", 4, quota="a")) == [("Start", "guest")]
    wants = Job("wants", "t", [Role("w", 3, gpus=2)], quota="b")
    assert (
        submit(scheduler, wants) == []
    )  # of the three jobs, only the guest exceeds its entitlement
    late = submit(scheduler, Job("late", "t", 4, quota="a"))
    assert set(late) == {("Preempt", "first"), ("Preempt", "second"), ("Start", "late")}
