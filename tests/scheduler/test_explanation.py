"""Why a job waits, what would change that, and when it will start."""

import random

import pytest
from profiles import seeds
from scheduler.lives import (
    COMPOSITIONS,
    NODES,
    ROLES,
    TENANTS,
    cell_cluster,
    decided,
    enforced,
    flat_network,
    jobs_of,
    machines,
    make_job,
    make_scheduler,
    network,
    quota_tree,
    summary,
)
from scheduler.log.decision_logs import happen

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import EvictionLimit, FreeNodes, Job, Role, Scheduler, Start, Where
from hivecore.topology import NetworkTopology


def test_refusals_of_all_stages_are_named_in_order():
    scheduler = Scheduler(quotas=quota_tree(), cells=cell_cluster())
    decided(scheduler, Job("one", "b", [Role("w", 1, 4)]), Job("two", "b", [Role("w", 1, 4)]))
    explanation = scheduler.explain("two")
    assert [refusal.stage for refusal in explanation.refusals] == ["cells"]
    assert explanation.reason == explanation.refusals[0].reason != ""
    assert explanation.state == "pending" and explanation.position == 0
    assert [(change.kind, change.jobs) for change in explanation.changes] == [("release", ("one",))]
    assert "it would start if one ended" in explanation.text
    assert scheduler.explain("one").refusals == () and scheduler.explain("one").reason == ""


def test_a_limit_that_would_have_to_be_raised_is_named():
    scheduler = Scheduler(quotas=quota_tree())
    scheduler.submit(Job("one", "b", 10), now=0.0)
    decided(scheduler, Job("two", "b", 5), now=2.0)
    explanation = scheduler.explain("two")
    kinds = {change.kind: change for change in explanation.changes}
    assert kinds["release"].jobs == ("one",) and kinds["release"].cost == 0.0
    assert [(limit.quota, limit.limit, limit.amount) for limit in kinds["limits"].limits] == [
        ("b", "max", 15)
    ]
    assert "max of b were gpu: 15" in explanation.text


def test_a_total_that_would_have_to_be_raised_is_named():
    tree = QuotaTree([Quota("b", max={"gpu": 8}), Quota("c", max={"gpu": 8})], total={"gpu": 8})
    scheduler = Scheduler(quotas=tree)
    for name, quota in (("one", "b"), ("two", "c")):
        decided(scheduler, Job(name, quota, 8))
    assert "it would start if the total were gpu: 16" in scheduler.explain("two").text


def test_nodes_that_would_have_to_come_back_are_named():
    for part in ({"topology": network()}, {"cells": cell_cluster()}, {"devices": machines()}):
        scheduler = Scheduler(**part)
        for node in NODES:
            scheduler.set_node(node, False, 0.0)
        decided(scheduler, Job("one", "a", 4))
        changes = scheduler.explain("one").changes
        assert [(change.kind, change.nodes) for change in changes] == [("nodes", ("n0",))]
        assert changes[0].text == "if n0 were healthy"


def test_wishes_that_are_in_the_way_are_named():
    scheduler = Scheduler(topology=network())
    scheduler.submit(Job("one", "a", [Role("w", 1, 4)], where=Where(nodes=["n0"])), now=0.0)
    decided(scheduler, Job("two", "a", [Role("w", 1, 4)], where=Where(nodes=["n0"])))
    explanation = scheduler.explain("two")
    assert [(change.kind, change.relaxed) for change in explanation.changes[:1]] == [
        ("relax", ("nodes",))
    ]
    assert explanation.changes[-1].jobs == ("one",)


def test_a_job_that_waits_for_another_says_so():
    scheduler = Scheduler(quotas=quota_tree())
    decided(scheduler, Job("big", "a", 16))
    decided(scheduler, Job("server", "a", 16), Job("worker", "a", 0, after=["server"]))
    assert scheduler.explain("worker").reason == "waits for 'server' to start"
    assert scheduler.explain("worker").position == 1


def start_of(branch, name, now):
    return name in jobs_of(branch.decide(now), Start)


@pytest.mark.parametrize("seed", seeds(40))
def test_every_change_does_what_it_says_and_nothing_has_changed(seed):
    rng = random.Random(seed)
    # A job on idle cells waits for its own cells, too, and takes these first.
    known = [name for name in COMPOSITIONS if name != "queues" and "lending" not in name]
    parts = COMPOSITIONS[rng.choice(sorted(known))]
    scheduler = make_scheduler(parts, preemption=False, immediate=True)
    for i in range(rng.randint(4, 14)):
        job = make_job(
            f"j{i}",
            rng.choice(TENANTS),
            rng.choice(sorted(set(ROLES) - {"elastic"})),  # its pods wait, too
            guaranteed=rng.random() < 0.7,
            rack=rng.random() < 0.4,
        )
        decided(scheduler, enforced(scheduler, job), now=float(i))
        if rng.random() < 0.2 and parts != ("quotas",):
            scheduler.set_node(rng.choice(NODES), rng.random() < 0.3, float(i))
    now = 20.0
    scheduler.decide(now)
    before = scheduler.to_bytes()
    for name in list(scheduler):
        explanation = scheduler.explain(name)
        assert scheduler.to_bytes() == before
        assert bool(explanation.refusals) == (explanation.state == "pending")
        for change in explanation.changes:
            with scheduler.what_if() as branch:
                # Only this job waits there, so no other takes freed resources.
                for other in list(branch):
                    if other != name and branch.state(other) == "pending":
                        branch.cancel(other, now)
                if start_of(branch, name, now):
                    continue
                for other in change.jobs:
                    branch.finish(other, now)
                for node in change.nodes:
                    branch.set_node(node, True, now)
                for limit in change.limits:
                    if limit.limit == "total":
                        branch.quotas.set_total({"gpu": limit.amount})
                    else:
                        quota = branch.quotas.quota(limit.quota)
                        branch.quotas.set_quota(
                            quota.replace(**{limit.limit: {"gpu": limit.amount}})
                        )
                if change.relaxed:
                    job = branch.job(name)
                    branch.cancel(name, now)
                    branch.submit(job.replace(where=Where()), now)
                branch.touch()
                assert start_of(branch, name, now), (name, change)


def test_a_forecast_is_when_the_estimates_say():
    scheduler = Scheduler(quotas=quota_tree())
    scheduler.submit(Job("one", "a", 16, run_time=100.0), now=5.0)
    scheduler.submit(Job("two", "a", 16, run_time=50.0), now=6.0)
    scheduler.submit(Job("three", "a", 16), now=7.0)
    scheduler.submit(Job("four", "a", 16), now=8.0)
    scheduler.decide(10.0)
    before = scheduler.to_bytes()
    assert [scheduler.forecast(name) for name in ("one", "two", "three", "four")] == [
        10.0,
        110.0,
        160.0,
        None,
    ]
    assert scheduler.to_bytes() == before
    late = 500.0
    scheduler.advance(late)
    assert scheduler.forecast("two") == late


def test_unknown_jobs_are_named():
    scheduler = Scheduler()
    for call in (scheduler.explain, scheduler.forecast):
        with pytest.raises(KeyError, match="no job 'x'"):
            call("x")


def running_jobs(nodes, ages):
    """Running jobs on nodes of four GPUs, given as age, name, GPUs and node; the time is 100."""
    scheduler = Scheduler(devices=machines_of(nodes))
    for age, name, gpus, node in ages:
        job = Job(name, "t", gpus, where=Where(nodes=[node]))
        decided(scheduler, job, now=100.0 - age)
    return scheduler


def machines_of(nodes):
    return DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(gpus=4)))


def test_the_cheapest_sufficient_end_is_named():
    ages = [(100, "a", 2, "n0"), (100, "b", 2, "n0"), (70, "c", 4, "n1")]
    scheduler = running_jobs(["n0", "n1"], ages)
    decided(scheduler, Job("waits", "t", 4), now=100.0)
    *_, change = scheduler.explain("waits").changes
    assert (change.jobs, change.cost) == (("c",), 280.0)


def test_the_end_of_a_job_loses_the_time_since_it_was_moved():
    scheduler = Scheduler(devices=machines_of(["n0", "n1"]))
    decided(scheduler, Job("runs", "t", 4))
    decided(scheduler, Job("last", "t", [Role("w", 2, 4)]))

    def cost_at(now):
        scheduler.advance(now)
        return [change.cost for change in scheduler.explain("last").changes]

    assert cost_at(40.0) == [160.0]
    for moves in scheduler.plan_moves(FreeNodes(["n0"])).steps:
        scheduler.move(moves, 60.0)
    assert cost_at(70.0) == [40.0]


@pytest.mark.parametrize("pods", [1, 8, 12, 20])
def test_no_end_is_named_that_is_not_needed_though_many_are(pods):
    nodes = [f"c/{i}" for i in range(40)]
    spec = ClusterSpec({"c": Chain(["gpu", "node"], [4], len(nodes))}, {"t": {"c": {"node": 40}}})
    scheduler = Scheduler(cells=CellCluster(spec))
    for i in range(4 * len(nodes)):  # the youngest four are on four nodes
        where = Where(nodes=[nodes[i % len(nodes)]])
        decided(scheduler, Job(f"j{i}", "t", 1, where=where), now=float(i))
    decided(scheduler, Job("waits", "t", [Role("w", pods, 4)]), now=200.0)
    [change] = scheduler.explain("waits").changes
    on = [scheduler.status(name).pods[0].node for name in change.jobs]
    assert len(change.jobs) == 4 * pods and len(set(on)) == pods


def test_an_old_job_behind_many_younger_ones_is_found():
    nodes = [f"n{i}" for i in range(31)]
    ages = [(100, "old", 4, "n30")]
    ages += [(10, f"young{i}", 1, nodes[i // 4]) for i in range(120)]
    scheduler = running_jobs(nodes, ages)
    decided(scheduler, Job("waits", "t", 4, where=Where(nodes=["n30"])), now=100.0)
    changes = [change for change in scheduler.explain("waits").changes if change.kind == "release"]
    assert [change.jobs for change in changes] == [("old",)]


def test_an_explanation_has_the_refusals_of_all_stages():
    quotas = QuotaTree([Quota("t", max={"gpu": 4})], total={"gpu": 4})
    place = NetworkTopology(["rack"], {"n0": {"rack": "r"}})
    place.set_free("n0", {"gpu": 4})
    scheduler = Scheduler(quotas=quotas, topology=place, devices=machines_of(["n0"]))
    decided(scheduler, Job("runs", "t", 4), Job("waits", "t", 4))
    stages = [refusal.stage for refusal in scheduler.explain("waits").refusals]
    assert stages == ["quotas", "topology", "devices"]


def test_no_start_is_foretold_behind_the_end_of_time():
    scheduler = Scheduler(quotas=QuotaTree([Quota("t", max={"gpu": 1})], total={"gpu": 1}))
    decided(scheduler, Job("runs", "t", 1, run_time=2.0**40), Job("waits", "t", 1), now=1.0)
    assert scheduler.forecast("waits") is None


def test_no_change_is_proposed_for_jobs_that_start_together():
    tree = QuotaTree([Quota("v", max={"gpu": 8})], total={"gpu": 8})
    scheduler = Scheduler(queues=TenantQueues(blocking="fifo"), quotas=tree)
    for name in "xy":
        scheduler.submit(Job(name, "v", 4), 0.0)
    decided(
        scheduler, Job("head", "v", 8), Job("one", "v", 4, together=["two"]), Job("two", "v", 4)
    )  # they are behind the head, and not tried
    explanation = scheduler.explain("one")
    assert explanation.refusals and explanation.changes == ()


def test_the_end_of_one_that_leaves_for_another_is_of_no_use():
    scheduler = Scheduler(topology=flat_network("n0", gpu=2))
    for name in ("spare", "firm"):
        scheduler.submit(Job(name, "v", 1, guaranteed=name == "firm"), 0.0)
    scheduler.decide(0.0)
    decided(scheduler, *(Job(name, "v", 1) for name in ("train", "late")), now=1.0)
    assert scheduler.state("train") == "reserved"
    [change] = scheduler.explain("late").changes
    assert change.jobs == ("firm",)


def raised_total(tree, jobs):
    """By dimension, the raise of a total that would let the last of these jobs start."""
    scheduler = Scheduler(quotas=tree)
    for job in jobs:
        decided(scheduler, job)
    changes = scheduler.explain(jobs[-1].name).changes
    limits = [limit for change in changes if change.kind == "limits" for limit in change.limits]
    return {limit.dimension: limit.amount for limit in limits if limit.limit == "total"}


def test_a_raised_total_is_tried_beside_what_outside_quotas_use():
    most = {"gpu": 100, "cpu": 100}
    quotas = [Quota("system", max=most, outside=True), Quota("a", max=most)]
    jobs = [
        Job("daemon", "system", [Role("pod", gpus=0, resources={"cpu": 10})]),
        Job("runs", "a", [Role("pod", gpus=15, resources={"cpu": 2})]),
        Job("waits", "a", [Role("pod", gpus=8, resources={"cpu": 8})]),
    ]
    tree = QuotaTree(quotas, total={"gpu": 20, "cpu": 20})
    assert raised_total(tree, jobs) == {"gpu": 23}


@pytest.mark.parametrize("carved", [False, True])
def test_the_total_of_the_jobs_own_tree_is_raised(carved):
    quotas = [Quota("b", max={"gpu": 100}), Quota("a", max={"gpu": 100}, tree="t")]
    tree = QuotaTree(quotas, total={"gpu": 50})
    tree.set_total({"gpu": 20}, tree="t", carved=carved)
    assert raised_total(tree, [Job("runs", "a", 15), Job("waits", "a", 8)]) == {"gpu": 23}


def test_jobs_behind_in_the_queue_take_nothing_first():
    scheduler = Scheduler(topology=flat_network("n0", gpu=8), preemption=False)
    decided(scheduler, Job("runs", "a", 6), Job("first", "a", 6), Job("second", "a", 5))
    assert scheduler.explain("first").changes[0].text == "if runs ended"
    assert scheduler.explain("second").changes[0].ahead == ("first",)
    decided(scheduler, Job("urgent", "a", 5, priority=1), now=1.0)
    assert scheduler.explain("first").changes[0].ahead == ("urgent",)
    scheduler.finish("runs", 2.0)
    starts = jobs_of(scheduler.decide(2.0), Start)
    assert starts == ["urgent"]


@pytest.mark.parametrize("kind", ["nodes", "limits"])
def test_jobs_in_front_are_named_that_could_start_on_other_nodes_or_within_other_limits(kind):
    if kind == "nodes":
        scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=4))
        scheduler.set_node("n1", False, 0.0)
    else:
        tree = QuotaTree([Quota("a", max={"gpu": 4})], total={"gpu": 8})
        scheduler = Scheduler(quotas=tree)
    decided(scheduler, *(Job(name, "a", 4) for name in ("runs", "first", "second")))
    changes = {name: scheduler.explain(name).changes[0] for name in ("first", "second")}
    assert [change.kind for change in changes.values()] == [kind, kind]
    assert changes["first"].ahead == () and changes["second"].ahead == ("first",)
    assert changes["second"].text == f"{changes['first'].text}, and first did not start instead"


@pytest.mark.parametrize("was_first", [False, True])
def test_no_change_is_named_for_a_job_behind_another_that_blocks_its_queue(was_first):
    queues = TenantQueues(blocking="fifo")
    scheduler = Scheduler(queues=queues, topology=flat_network("n0", "n1", gpu=4), preemption=False)
    jobs = [Job(f"job{i}", "a", 4, where=Where(nodes=[f"n{i % 2}"])) for i in range(4)]
    decided(scheduler, *jobs[:2], *jobs[3:][:was_first])
    decided(scheduler, jobs[2].replace(priority=1), *jobs[3:][was_first:], now=1.0)
    explanation = scheduler.explain("job3")
    stages = [refusal.stage for refusal in explanation.refusals]
    assert (stages, explanation.changes) == (["topology", "queues"], ())
    assert "queues: is behind 'job2', which waits" in explanation.text
    scheduler.finish("job1", 2.0)
    assert scheduler.decide(2.0) == []
    assert scheduler.explain("job2").changes[-1].jobs == ("job0",)


def test_an_opportunistic_job_in_front_is_named_if_limits_would_protect_it():
    limits = [EvictionLimit(min_run_time=10.0)]
    scheduler = Scheduler(topology=flat_network("n0", gpu=2), eviction_limits=limits)
    decided(scheduler, Job("runs", "a", 2), Job("spare", "a", 1, guaranteed=False))
    decided(scheduler, Job("waits", "a", 2))
    (change,) = scheduler.explain("waits").changes
    assert (change.jobs, change.ahead) == (("runs",), ("spare",))
    scheduler.finish("runs", 1.0)
    assert summary(scheduler.decide(1.0))[0] == ("start", "spare")
    assert scheduler.state("waits") == "pending"


def test_no_change_is_named_for_a_job_that_is_not_in_the_order():
    scheduler = Scheduler(topology=flat_network("n0", gpu=4))
    decided(scheduler, Job("runs", "a", 4), Job("waits", "a", 4))
    scheduler.reorder(["runs"], 1.0)
    scheduler.decide(1.0)
    explanation = scheduler.explain("waits")
    assert explanation.refusals[-1].reason == "is not in the order given to reorder"
    assert explanation.changes == ()
    scheduler.finish("runs", 2.0)
    assert scheduler.decide(2.0) == []


def test_a_saved_scheduler_names_the_same_jobs_ahead():
    scheduler = Scheduler(topology=flat_network("n0", gpu=2))
    for name in ("first", "next"):
        decided(scheduler, Job(name, "a", 1))
    decided(scheduler, Job("late", "a", 2), Job("wide", "a", 2, preemptible=False))
    for name in ("first", "next"):
        scheduler.fail(name, 1.0)
    decided(scheduler, Job("urgent", "a", 2, priority=1), now=1.0)
    again = Scheduler.from_bytes(scheduler.to_bytes())
    assert again.explain("late") == scheduler.explain("late")
    assert scheduler.explain("late").changes[0].ahead[0] == "first"


def test_a_reserved_job_that_lost_its_place_may_take_what_an_end_frees():
    network = NetworkTopology([], {node: {} for node in NODES[:3]})
    network.set_slots([1, 1, 1])
    scheduler = Scheduler(topology=network)
    for job, node in ((Job("v", "a", 1, guaranteed=False), "n0"), (Job("x", "a", 1), "n2")):
        scheduler.submit(job.replace(where=Where(nodes=[node])), 0.0)
    scheduler.decide(0.0)
    decided(scheduler, Job("reserved", "a", [Role("w", 2, 1)]), now=1.0)
    scheduler.set_node("n1", False, 2.0)
    decided(scheduler, Job("waits", "a", 1), now=2.0)
    scheduler.stopped("v", 3.0)
    *_, change = scheduler.explain("waits").changes
    assert (change.kind, change.jobs, change.ahead) == ("release", ("x",), ("reserved",))
    scheduler.finish("x", 3.0)
    assert [action.job for action in scheduler.decide(3.0)] == ["reserved", "v"]  # which waits


def about_to_start(*later):
    """A job is reserved, and its victim has stopped; another job has the other node."""
    scheduler = Scheduler(topology=flat_network("n0", "n1", slots=1))
    decided(scheduler, Job("victim", "t", 1))
    decided(scheduler, Job("other", "t", 1, priority=2))
    assert scheduler.status("victim").pods[0].node == "n0"
    decided(scheduler, Job("next", "t", 1, priority=1, where=Where(nodes=["n0"])), now=1.0)
    assert scheduler.state("next") == "reserved"
    decided(scheduler, *later, now=1.0)
    scheduler.stopped("victim", 2.0)
    (change,) = scheduler.explain("waits").changes
    assert (change.kind, change.jobs) == ("release", ("other",))
    return scheduler, change.ahead


def test_a_victim_that_returns_to_its_queue_may_take_what_an_end_frees():
    scheduler, ahead = about_to_start(Job("waits", "t", 1))
    assert ahead == ("victim",)
    scheduler.finish("other", 3.0)
    starts = jobs_of(scheduler.decide(3.0), Start)
    assert starts == ["next", "victim"]


def test_a_job_that_may_evict_one_that_is_about_to_start_may_take_what_an_end_frees():
    wide = Job("wide", "t", [Role("w", 2)], priority=2)
    scheduler, ahead = about_to_start(Job("waits", "t", 1), wide)
    assert "wide" in ahead
    scheduler.finish("other", 3.0)
    scheduler.decide(3.0)
    assert scheduler.state("wide") == "reserved" and scheduler.state("waits") == "pending"


@pytest.mark.parametrize("immediate", [False, True])
def test_ends_without_a_condition_are_enough_while_jobs_stop(immediate):
    named = 0
    for name in ("quotas, topology and devices", "quotas and devices", "lending"):
        rng = random.Random(f"0 {name}")
        scheduler, now = make_scheduler(COMPOSITIONS[name], immediate=immediate), 0.0
        for step in range(80):
            now += rng.choice([0.0, 0.5, 60.0])
            happen(scheduler, rng, step, now)
            waiting = [job for job in scheduler if scheduler.state(job) == "pending"]
            for job in () if scheduler.has_order else waiting:
                for change in scheduler.explain(job).changes:
                    if change.kind == "release" and not change.ahead:
                        branch, named = scheduler.copy(), named + 1
                        for other in change.jobs:
                            branch.finish(other, now)
                        assert job in jobs_of(branch.decide(now), Start)
    assert named > 20


def test_no_change_is_named_while_a_companion_has_to_stop():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=1))
    scheduler.set_node("n1", False, 0.0)
    decided(scheduler, Job("lead", "b", 1, guaranteed=False))
    decided(scheduler, Job("big", "a", 1))  # lead has to stop
    decided(scheduler, Job("mate", "b", 1, guaranteed=False, together=["lead"]))
    explained = scheduler.explain("mate")
    assert explained.refusals[0].code == "together" and not explained.changes
    scheduler.set_node("n1", True, 1.0)
    scheduler.decide(1.0)
    assert scheduler.state("mate") == "pending"


def test_a_pod_above_the_least_that_ends_is_in_front_of_the_job_for_which_it_would():
    scheduler = Scheduler(topology=flat_network("n0", gpu=4))
    roles = [Role("w", 4, gpus=1, min_pods=1, max_pods=4)]
    decided(scheduler, Job("grow", "a", roles, guaranteed=False))
    decided(scheduler, Job("next", "a", [Role("w", 2, gpus=1)], guaranteed=False), now=1.0)
    [change] = scheduler.explain("next").changes
    assert (change.jobs, change.ahead) == (("grow/w/1", "grow/w/2"), ("grow/w/1",))
    for name in change.jobs:
        scheduler.fail("grow", 2.0, pod=name.removeprefix("grow/"))
    scheduler.decide(2.0)
    assert scheduler.state("next") == "pending"


def test_an_opportunistic_job_that_would_take_the_room_instead_is_ahead():
    chain = Chain(["gpu", "pair", "node", "rack"], [2, 2, 2], 2, nodes=["n0", "n1", "n2", "n3"])

    def owned(cells):
        return ClusterSpec({"c": chain}, {"a": {"c": cells}, "b": {"c": {"pair": 1}}})

    scheduler = Scheduler(cells=CellCluster(owned({"rack": 1})), immediate=True)
    roles = [Role("leader", 1, gpus=1), Role("worker", 2, gpus=2)]
    scheduler.submit(Job("old", "a", roles, preemptible=False), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("b", "b", 2), 1.0)
    scheduler.decide(1.0)
    scheduler.reconfigure(owned({"node": 1}), 2.0)
    scheduler.decide(2.0)
    scheduler.set_node("n3", False, 2.5)
    scheduler.submit(Job("urgent", "a", 2, priority=2), 3.0)
    scheduler.decide(3.0)
    scheduler.submit(Job("spare", "a", roles, guaranteed=False), 5.0)
    scheduler.submit(Job("small", "a", 2), 5.0)
    scheduler.decide(5.0)
    changes = [(change.jobs, change.ahead) for change in scheduler.explain("small").changes]
    assert changes == [(("urgent",), ("spare",))]
    scheduler.finish("urgent", 5.0)
    assert [action.job for action in scheduler.decide(5.0)] == ["spare"]
