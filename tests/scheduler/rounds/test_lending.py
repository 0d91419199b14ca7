"""Jobs that wait for their tenant's cells run on idle cells meanwhile."""

import pytest
from scheduler.histories import History
from scheduler.lives import decided, network, node_cells

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Preempt, Promote, Role, Scheduler, Start, Wait, Where


def nodes(count=2, **owned):
    """Nodes of 4 GPUs, one for each tenant."""
    return node_cells([f"n{i}" for i in range(count)], **(owned or {"a": 1, "b": 1}))


def lending(**parts):
    parts.setdefault("cells", nodes())
    parts.setdefault("immediate", True)
    return Scheduler(lending=True, **parts)


def said(actions):
    """The actions with their nodes."""
    return [
        (type(action).__name__, action.job, *{pod.node for pod in getattr(action, "pods", ())})
        for action in actions
        if not isinstance(action, Wait)
    ]


def running(scheduler, *jobs):
    return said(decided(scheduler, *jobs, now=scheduler.now))


def test_a_job_beyond_its_tenants_cells_runs_on_idle_ones_and_waits_for_its_own():
    scheduler = lending()
    running(scheduler, Job("first", "a", 4))
    wait, start = decided(scheduler, Job("second", "a", 4), now=1.0)
    assert isinstance(wait, Wait) and wait.refusal.stage == "cells"
    assert isinstance(start, Start) and start.lent
    assert scheduler.state("second") == "lent"
    assert scheduler.decide(2.0) == []
    scheduler.check()


def test_a_running_job_ignores_later_obstacles():
    chains = {name: Chain(["gpu", "node"], [4], 1, nodes=[f"n{name}"]) for name in "cd"}
    cells = CellCluster(ClusterSpec(chains, {"a": {"c": {"node": 1}}, "b": {"d": {"node": 1}}}))
    scheduler = lending(cells=cells, immediate=False)
    weak = Job("weak", "a", 4, guaranteed=False, where=Where(nodes=["nc"]))
    running(scheduler, Job("first", "a", 4), weak, Job("second", "a", 4))
    scheduler.finish("first", 1.0)
    [start] = scheduler.decide(1.0)
    assert start.job == "weak" and scheduler.state("second") == "lent"


def test_a_lent_job_is_promoted_in_place_if_possible():
    scheduler = lending()
    running(scheduler, Job("first", "a", 4), Job("second", "a", 4))
    scheduler.finish("first", 5.0)
    [promoted] = scheduler.decide(5.0)
    assert isinstance(promoted, Promote) and promoted.job == "second"
    assert [pod.gpus for pod in promoted.pods] == [(0, 1, 2, 3)]
    assert dict(promoted.decisions)["cells"].outcome == "bind"
    assert scheduler.state("second") == "running"
    # It is not a victim any more.
    assert [action[:2] for action in said(running_owner(scheduler))] == [("Start", "owner")]
    scheduler.check()


def running_owner(scheduler):
    return decided(scheduler, Job("owner", "b", 4), now=scheduler.now)


def test_the_tenant_that_owns_the_cells_gets_them_back():
    scheduler = lending()
    running(scheduler, Job("first", "a", 4), Job("second", "a", 4))
    preempt, wait, start = running_owner(scheduler)
    assert preempt == Preempt("second", "owner", "opportunistic")
    assert (wait.job, wait.refusal.stage) == ("second", "cells")  # as before
    assert start.job == "owner" and not start.lent
    assert scheduler.state("second") == "pending"
    scheduler.finish("owner", 3.0)
    assert said(scheduler.decide(3.0)) == [("Start", "second", start.pods[0].node)]
    scheduler.check()


def test_an_equal_job_may_get_the_cells_meanwhile():
    scheduler = lending(cells=nodes(3, a=2, b=1), immediate=False)
    running(scheduler, *[Job(f"j{i}", "a", 4) for i in range(4)])
    assert [scheduler.state(f"j{i}") for i in range(4)] == ["running"] * 2 + ["lent", "pending"]
    assert said(running_owner(scheduler)) == [("Preempt", "j2")]
    scheduler.finish("j0", 1.0)
    [start] = scheduler.decide(1.0)
    assert (start.job, start.lent) == ("j3", False)
    scheduler.check()
    scheduler.finish("j1", 2.0)
    scheduler.stopped("j2", 3.0)
    assert sorted(action[:2] for action in said(scheduler.decide(3.0))) == [
        ("Start", "j2"),
        ("Start", "owner"),
    ]


def test_a_job_that_has_left_idle_cells_may_reclaim_what_its_quota_lacks():
    History("quotas and lending", 200180).live(24)  # checks that no job is overlooked


def test_what_a_quota_forbids_does_not_run_on_idle_cells_either():
    quotas = QuotaTree([Quota("a", max={"gpu": 6}), Quota("b", max={"gpu": 8})], total={"gpu": 8})
    scheduler = lending(quotas=quotas)
    assert [
        action[:2] for action in running(scheduler, Job("first", "a", 4), Job("second", "a", 4))
    ] == [("Start", "first")]


def test_a_job_may_start_after_one_that_runs_on_idle_cells():
    scheduler = lending()
    jobs = [Job("first", "a", 4), Job("second", "a", 2), Job("third", "a", 2, after=["second"])]
    assert [action[:2] for action in running(scheduler, *jobs)] == [
        ("Start", "first"),
        ("Start", "second"),
        ("Start", "third"),
    ]


def test_a_job_does_not_evict_itself_where_devices_refuse_its_own_cells():
    machine = NodeDevices.uniform(gpus=4, nics=2, sockets=1, switches=1)
    devices = DeviceCluster(dict.fromkeys(["n0", "n1"], machine))
    scheduler = lending(devices=devices)

    def with_nics(name, nics):
        return Job(name, "a", [Role("w", devices=DeviceRequest("any", gpus=2, nics=nics))])

    running(scheduler, with_nics("first", 2), with_nics("second", 1))
    assert scheduler.state("second") == "lent"
    scheduler.touch()
    assert said(scheduler.decide(1.0)) == []
    assert scheduler.state("second") == "lent"
    scheduler.check()


def test_a_job_with_its_quota_stays_on_idle_cells_where_devices_refuse_its_own():
    cells = node_cells(2, 2, a=1, b=1)
    machine = NodeDevices.uniform(gpus=2, nics=1)
    quotas = QuotaTree([Quota(name, max={"gpu": 4}) for name in "ab"], total={"gpu": 4})
    devices = DeviceCluster(dict.fromkeys(cells.nodes, machine))
    scheduler = lending(cells=cells, devices=devices, quotas=quotas)
    nic = [Role("w", 1, devices=DeviceRequest("any", gpus=1, nics=1))]
    guest = Job("guest", "b", 1, guaranteed=False)
    running(scheduler, Job("first", "a", nic), Job("second", "a", nic), guest)
    assert scheduler.state("second") == "lent"
    scheduler.submit(Job("third", "a", 2), 1.0)
    scheduler.finish("guest", 2.0)
    assert said(scheduler.decide(2.0)) == []
    assert scheduler.state("second") == "lent"
    scheduler.check()


def test_a_start_is_not_undone_once_another_job_has_started_because_of_it():
    scheduler = lending(cells=node_cells(3, a=1, b=2))
    running(scheduler, Job("first", "a", 4))
    guest = Job("guest", "a", 4, guaranteed=False, where=Where(nodes=["c/1"]))
    behind = Job("behind", "a", 4, after=["guest"])
    actions = running(scheduler, guest, behind, Job("owner", "b", 4, after=["behind"]))
    assert [action[:2] for action in actions] == [
        ("Start", "guest"),
        ("Start", "behind"),
        ("Preempt", "guest"),
        ("Start", "owner"),
    ]


def test_lending_needs_cells():
    with pytest.raises(ValueError, match="lending: there are no cells"):
        Scheduler(topology=network(), lending=True)
    with pytest.raises(TypeError, match="lending"):
        Scheduler(cells=nodes(), lending=1)


def test_what_a_job_has_attained_on_idle_cells_counts_where_it_waits_for_its_own():
    scheduler = lending(queues=TenantQueues(order="2d-las"))
    running(scheduler, Job("first", "a", 4))
    running(scheduler, Job("lent", "a", 4), Job("fresh", "a", 4))
    assert scheduler.state("lent") == "lent"
    assert ("Preempt", "lent") in said(decided(scheduler, Job("own", "b", 4), now=5.0))
    scheduler.check()
    scheduler.finish("first", 6.0)
    again = Scheduler.from_bytes(scheduler.to_bytes())
    assert said(scheduler.decide(6.0)) == said(again.decide(6.0)) == [("Start", "fresh", "n0")]


def timed(name, tenant, gpus, run_time):
    return Job(name, tenant, gpus, run_time=run_time)


def test_a_start_on_idle_cells_delays_no_promised_job():
    scheduler = lending(cells=nodes(3, a=2, b=1), backfill=1, preemption=False)
    running(scheduler, timed("a1", "a", 4, 10.0), timed("b1", "b", 4, 99.0))
    pair = Job("pair", "a", [Role("w", 2, gpus=4)], run_time=5.0)
    assert running(scheduler, pair, timed("long", "b", 4, 50.0)) == []
    assert scheduler.promised("pair") == 10.0
    assert scheduler.status("long").refusal is not None
    # A shorter job like it is lent the idle node, whether it waits already or comes later.
    assert running(scheduler, timed("short", "b", 4, 10.0)) == [("Start", "short", "n2")]
    scheduler.check()
    scheduler.finish("a1", 10.0)
    scheduler.finish("short", 10.0)
    assert said(scheduler.decide(10.0))[0][:2] == ("Start", "pair")
    scheduler.finish("pair", 15.0)
    assert [action[:2] for action in said(scheduler.decide(15.0))] == [("Start", "long")]


@pytest.mark.parametrize("immediate", [False, True])
def test_a_promotion_delays_no_promised_job(immediate):
    cells, may = nodes(3, a=1, b=2), {"preemption": immediate, "immediate": immediate}
    scheduler = lending(cells=cells, backfill=1, **may)
    running(scheduler, timed("b1", "b", 4, 10.0), timed("b2", "b", 4, 20.0))
    pair = Job("pair", "b", [Role("w", 2, gpus=4)], run_time=5.0)
    lent = timed("long", "b", 4, 90.0)
    assert running(scheduler, pair, lent) == [("Start", "long", "n2")]
    assert scheduler.promised("pair") == 20.0
    scheduler.finish("b1", 10.0)
    assert said(scheduler.decide(10.0)) == []  # it would be promoted until 90
    scheduler.finish("b2", 20.0)
    assert said(scheduler.decide(20.0))[0][:2] == ("Start", "pair")
    scheduler.check()
    scheduler.finish("pair", 25.0)
    assert said(scheduler.decide(25.0))[0][:2] == ("Promote", "long")
