"""Failed pods are placed again near the others, which keep their nodes and numbers."""

import json
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, seeds
from scheduler.histories import FailingHistory
from scheduler.lives import (
    COMPOSITIONS,
    decided,
    flat_network,
    machines,
    node_cells,
    rack_network,
    said,
)

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.dra import ResourceClaim
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Job,
    Role,
    Scheduler,
    Start,
    Stop,
    Wait,
    Where,
    action_of_plain,
    plain_record,
)
from hivecore.topology import NetworkTopology


def two_racks(size=4, gpus=8, racks=2, **settings):
    """Racks of so many nodes: n0, n1, ... of r0, and so on."""
    network = rack_network({f"n{i}": f"r{i // size}" for i in range(racks * size)}, gpu=gpus)
    return Scheduler(topology=network, immediate=True, **settings)


def gang(pods, on_failure="pod", spares=0, name="train", must="rack", **more):
    roles = [Role("w", pods, gpus=8, spares=spares)]
    return Job(name, "a", roles, where=Where(must=must), on_failure=on_failure, **more)


def nodes_of(scheduler, job="train"):
    """The node of each pod by number."""
    return {pod.index: pod.node for pod in scheduler.status(job).pods}


def start(scheduler, *jobs):
    return decided(scheduler, *jobs, now=scheduler.now)


def test_the_pods_of_a_lost_node_are_placed_again_in_the_rack_and_the_others_keep_theirs():
    scheduler = two_racks()
    start(scheduler, gang(3))
    before = nodes_of(scheduler)
    scheduler.remove_node("n1", now=5.0)
    scheduler.check()
    assert nodes_of(scheduler) == {0: "n0", 2: "n2"}
    stop, again = scheduler.decide(now=5.0)
    assert stop == Stop("train", stop.pods, "n1")
    assert [(pod.index, pod.node) for pod in stop.pods] == [(1, "n1")]
    assert [(pod.index, pod.node) for pod in again.pods] == [(1, "n3")]
    assert nodes_of(scheduler) == before | {1: "n3"}
    assert scheduler.status("train").since == 0.0


def test_all_pods_of_a_node_are_placed_at_once_or_none():
    scheduler = two_racks(gpus=16)
    start(scheduler, gang(6), Job("small", "a", 8, where=Where(nodes=["n3"])))
    assert sorted(nodes_of(scheduler).values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    scheduler.remove_node("n1", now=5.0)
    stop, wait = scheduler.decide(now=5.0)
    assert len(stop.pods) == 2
    assert wait.reason == "2 pods need one rack: r0 has 1, r1 has 0"
    assert len(nodes_of(scheduler)) == 4
    scheduler.finish("small", now=6.0)
    (again,) = scheduler.decide(now=6.0)
    assert [(pod.index, pod.node) for pod in again.pods] == [(2, "n3"), (3, "n3")]


def test_without_room_pods_wait_beside_the_others_though_another_rack_is_idle():
    scheduler = two_racks()
    start(scheduler, gang(4), Job("other", "a", 8))
    scheduler.remove_node("n1", now=5.0)
    _, wait = scheduler.decide(now=5.0)
    assert (wait.job, scheduler.state("train")) == ("train", "running")
    assert scheduler.decide(now=6.0) == []
    # Its places are held, and its job is not moved away from the waiting pods.
    assert nodes_of(scheduler) == {0: "n0", 2: "n2", 3: "n3"}
    assert scheduler.explain("train").state == "running"
    scheduler.add_node("n1", now=7.0, labels={"rack": "r0"}, free={"gpu": 8})
    assert said(scheduler.decide(now=7.0)) == [("Start", "train")]
    assert nodes_of(scheduler)[1] == "n1"


def test_the_whole_job_moves_only_if_it_allows_that():
    scheduler = two_racks()
    start(scheduler, gang(4, "pod-then-job"))
    scheduler.remove_node("n1", now=5.0)
    _, move = scheduler.decide(now=5.0)
    assert [pod.index for pod in move.before] == [0, 2, 3]
    assert [(pod.index, pod.node) for pod in move.pods] == [(i, f"n{4 + i}") for i in range(4)]
    assert scheduler.status("train").since == 5.0
    scheduler.check()
    # No rack has room for all: it waits.
    start(scheduler, Job("small", "a", 1))
    scheduler.remove_node("n5", now=6.0)
    assert said(scheduler.decide(now=6.0)) == [("Stop", "train")]
    assert len(nodes_of(scheduler)) == 3


def test_spares_take_numbers_first_and_are_placed_again():
    scheduler = two_racks()
    (started,) = start(scheduler, gang(2, spares=1))
    assert [(pod.index, pod.node) for pod in started.pods] == [(0, "n0"), (1, "n1"), (2, "n2")]
    scheduler.fail("train", now=5.0, pod="w/0")
    assert nodes_of(scheduler) == {0: "n2", 1: "n1"}
    taken, again = scheduler.decide(now=5.0)
    assert [(pod.index, pod.node) for pod in taken.before] == [(2, "n2")]
    assert [(pod.index, pod.node) for pod in taken.pods] == [(0, "n2")]
    assert [(pod.index, pod.node) for pod in again.pods] == [(2, "n0")]
    assert action_of_plain(plain_record(taken)) == taken
    # A failed spare is placed again, too; then none is left to take a number.
    scheduler.fail("train", now=6.0, pod="w/2")
    scheduler.fail("train", now=6.0, pod="w/1")
    assert [type(action) for action in scheduler.decide(now=6.0)] == [Start, Start]


@pytest.mark.parametrize(("gpus", "more"), [(3, {"spares": 1}), (2, {"max_pods": 3})])
def test_neither_spares_nor_further_pods_take_the_room_of_pods_that_wait(gpus, more):
    network = flat_network("n0", "n1", "n2", gpu=1)
    network.set_free("n0", {"gpu": gpus})
    scheduler = Scheduler(topology=network, preemption=False)
    start(scheduler, Job("fill", "a", 1, where=Where(nodes=["n2"])))
    roles = [Role("w", 2, gpus=1, **more), Role("v", 1, gpus=1)]
    start(scheduler, Job("train", "a", roles, on_failure="pod"))
    scheduler.remove_node("n0", 1.0)  # v/0 is on n1
    scheduler.decide(1.0)
    scheduler.finish("fill", 2.0)
    assert said(scheduler.decide(2.0)) == []
    scheduler.add_node("n3", 3.0, labels={}, free={"gpu": 1})
    assert said(scheduler.decide(3.0)) == [("Start", "train")]
    assert {pod.node for pod in scheduler.status("train").pods} == {"n1", "n2", "n3"}
    scheduler.add_node("n4", 4.0, labels={}, free={"gpu": 1})
    assert said(scheduler.decide(4.0)) == [("Start", "train")]
    assert len(scheduler.status("train").pods) == 4
    scheduler.check()


def test_a_spare_takes_the_number_of_a_pod_that_waits_when_its_node_recovers():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=1))
    start(scheduler, Job("train", "a", [Role("w", 1, gpus=1, spares=1)], on_failure="pod"))
    for node in ("n0", "n1"):
        scheduler.set_node(node, False, 1.0)
    scheduler.fail("train", 1.0, "w/0")
    assert said(scheduler.decide(1.0)) == []
    scheduler.set_node("n1", True, 2.0)
    assert said(scheduler.decide(2.0)) == [("TakeOver", "train")]
    assert nodes_of(scheduler) == {0: "n1"}
    scheduler.check()


def test_a_spare_fails_under_its_old_number_until_the_caller_knows_its_new_one():
    scheduler = two_racks()
    start(scheduler, gang(2, spares=2))
    for pod in ("w/0", "w/2", "w/3"):
        scheduler.fail("train", now=5.0, pod=pod)
    again = scheduler.decide(now=5.0)
    assert [type(action) for action in again] == [Start] * 3
    assert sorted(pod.index for action in again for pod in action.pods) == [0, 2, 3]
    scheduler.fail("train", now=6.0, pod="w/0")
    scheduler.fail("train", now=6.0, pod="w/1")
    scheduler.fail("train", now=6.0, pod="w/2")
    (taken, *_) = scheduler.decide(now=6.0)
    assert ([pod.index for pod in taken.before], [pod.index for pod in taken.pods]) == ([3], [1])


def test_a_job_does_not_move_for_a_spare_and_pods_do_not_wait_for_it():
    scheduler = two_racks(size=3)
    start(scheduler, gang(2, "pod-then-job", spares=1))
    scheduler.remove_node("n2", now=5.0)
    assert said(scheduler.decide(now=5.0)) == [("Stop", "train")]
    scheduler.fail("train", now=6.0, pod="w/1")
    again = scheduler.decide(now=6.0)[0]
    assert [(pod.index, pod.node) for pod in again.pods] == [(1, "n1")]
    scheduler.add_node("n2", now=7.0, labels={"rack": "r0"}, free={"gpu": 8})
    (again,) = scheduler.decide(now=7.0)
    assert [(pod.index, pod.node) for pod in again.pods] == [(2, "n2")]


def test_pods_on_cells_are_placed_again_in_the_cell_of_their_job():
    spec = ClusterSpec({"c": Chain(["gpu", "node", "rack"], [8, 4], 2)}, {"a": {"c": {"rack": 1}}})
    scheduler = Scheduler(cells=CellCluster(spec), immediate=True)
    roles = [Role("w", 3, gpus=8)]
    start(scheduler, Job("train", "a", roles, where=Where(within="rack"), on_failure="pod"))
    before = nodes_of(scheduler)
    scheduler.remove_node(before[1], now=5.0)
    scheduler.check()
    assert said(scheduler.decide(now=5.0)) == [("Stop", "train"), ("Start", "train")]
    scheduler.check()
    after = nodes_of(scheduler)
    assert {i: after[i] for i in (0, 2)} == {i: before[i] for i in (0, 2)}
    assert after[1].rpartition("/")[2] == "3"
    assert scheduler.cells.group("train").guaranteed
    scheduler.finish("train", now=6.0)
    assert not scheduler.cells.groups()


def test_a_job_moves_with_the_devices_that_its_cells_choose():
    nodes = [f"n{i}" for i in range(4)]
    chain = Chain(["gpu", "node", "rack"], [4, 2], 2, nodes=nodes)
    cells = CellCluster(ClusterSpec({"c": chain}, {"a": {"c": {"rack": 2}}}))
    devices = DeviceCluster({node: NodeDevices.uniform(gpus=4) for node in nodes})
    scheduler = Scheduler(cells=cells, devices=devices, immediate=True)
    roles = [Role("w", 2, gpus=4)]
    start(
        scheduler, Job("train", "a", roles, where=Where(within="rack"), on_failure="pod-then-job")
    )
    before = nodes_of(scheduler)
    scheduler.remove_node(before[1], now=5.0)
    assert said(scheduler.decide(now=5.0)) == [("Stop", "train"), ("Move", "train")]
    scheduler.check()
    assert {*nodes_of(scheduler).values()}.isdisjoint(before.values())


def test_pods_fail_after_the_cells_have_lost_a_node_and_the_job_keeps_what_it_had_there():
    def racks(nodes):
        chain = Chain(["gpu", "node", "rack"], [4, 2], 1, nodes=nodes)
        return ClusterSpec({"c": chain}, {"a": {"c": {"node": 2}}})

    spec = racks(["n0", "n1"])
    scheduler = Scheduler(cells=CellCluster(spec), immediate=True)
    start(scheduler, Job("train", "a", [Role("w", 4, gpus=2)], on_failure="pod"))
    before = nodes_of(scheduler)
    lost = [i for i in before if before[i] == "n1"]
    scheduler.reconfigure(racks(["n0", "n2"]), now=1.0)
    scheduler.fail("train", now=2.0, pod=f"w/{lost[0]}")
    scheduler.check()
    assert nodes_of(scheduler) == {i: before[i] for i in before if i != lost[0]}
    scheduler.reconfigure(spec, now=3.0)
    scheduler.check()
    group = scheduler.cells.group("train")
    assert group.guaranteed
    assert [pod.node for pod in group.placement].count("n1") == 1


def test_pods_fail_of_a_job_that_has_lost_its_guarantee_and_it_may_have_it_again():
    def owned(nodes):
        chain = Chain(["gpu", "node"], [4], 2, nodes=["n0", "n1"])
        return ClusterSpec({"c": chain}, {"a": {"c": {"node": nodes}}})

    scheduler = Scheduler(cells=CellCluster(owned(2)), immediate=True)
    start(scheduler, Job("train", "a", [Role("w", 2, gpus=4)], on_failure="pod"))
    scheduler.reconfigure(owned(0), now=1.0)
    scheduler.fail("train", now=2.0, pod="w/1")
    assert not scheduler.cells.group("train").guaranteed
    scheduler.reconfigure(owned(2), now=3.0)
    assert scheduler.cells.group("train").guaranteed
    scheduler.check()


def test_the_quota_stays_charged_for_pods_that_wait():
    tree = QuotaTree([Quota("a", max={"gpu": 32})], total={"gpu": 32})
    scheduler = two_racks(quotas=tree)
    start(scheduler, gang(4))
    scheduler.remove_node("n1", now=5.0)
    *_, refused = start(scheduler, Job("late", "a", 8))
    assert refused.job == "late" and tree.status("a").used == {"gpu": 32}
    scheduler.fail("train", now=6.0)
    assert tree.status("a").used == {"gpu": 0}
    scheduler.check()


def test_a_tenant_is_charged_once_for_pods_that_are_placed_again():
    scheduler = two_racks(queues=TenantQueues(order="weighted"))

    def tags():
        return json.loads(re.search(rb"{.*}", scheduler.queues.to_bytes())[0])["tenants"]

    start(scheduler, gang(3))
    charged = tags()
    for now in (1.0, 2.0):
        scheduler.fail("train", now=now, pod="w/1")
        scheduler.decide(now=now)
    live = scheduler._state.jobs["train"]
    assert live.units[0].departure.charge == 24
    assert tags() == charged


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("on_failure must be one of", lambda: gang(2, "never")),
        ("stages", lambda: gang(2, stages=(1.0, 2.0))),
        ("spares", lambda: gang(2, "job", spares=1)),
        ("spares=-1", lambda: gang(2, spares=-1)),
        ("spares=1: with min_pods=0", lambda: Role("w", 2, min_pods=0, spares=1)),
        (
            "where.multiple",
            lambda: Job("j", "a", 1, where=Where(multiple={"node": 2}), on_failure="pod"),
        ),
        (
            "claims",
            lambda: Job(
                "j", "a", [Role("w", claims=[ResourceClaim("c", requests=[])])], on_failure="pod"
            ),
        ),
    ],
)
def test_errors_name_the_argument(what, call):
    with pytest.raises((ValueError, TypeError), match=what):
        call()


def test_a_pod_that_waits_does_not_fail():
    scheduler = two_racks(racks=1)
    start(scheduler, gang(4))
    scheduler.set_node("n1", False, now=1.0)
    scheduler.fail("train", now=1.0, pod="w/1")
    before = scheduler.to_bytes()
    with pytest.raises(KeyError, match="w/1"):
        scheduler.fail("train", now=1.0, pod="w/1")
    assert scheduler.to_bytes() == before
    # Others fail on bad nodes, where the remaining pods still count.
    scheduler.set_node("n2", False, now=1.0)
    scheduler.fail("train", now=1.0, pod="w/3")
    scheduler.check()
    assert nodes_of(scheduler) == {0: "n0", 2: "n2"}


# --- exact: failed pods wait only if their rack lacks room for all of them


@given(
    racks=st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=3), min_size=1, max_size=2),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    fillers=st.lists(st.integers(1, 3), max_size=4),
    lost=st.integers(0, 5),
    data=st.data(),
)
@examples(200)
def test_pods_wait_only_if_no_assignment_to_nodes_of_their_rack_holds_them(
    racks, sizes, fillers, lost, data
):
    nodes = {f"n{i}{j}": f"r{i}" for i, rack in enumerate(racks) for j, _ in enumerate(rack)}
    free = dict(zip(nodes, [gpus for rack in racks for gpus in rack], strict=True))
    network = NetworkTopology(["rack"], {node: {"rack": rack} for node, rack in nodes.items()})
    for node, gpus in free.items():
        network.set_free(node, {"gpu": gpus})
    scheduler = Scheduler(topology=network, growing=True)
    (pods, gpus), where = sizes, Where(must="rack")
    roles = [Role("w", pods, gpus=gpus), Role("head", gpus=1)]
    start(scheduler, Job("train", "a", roles, where=where, on_failure="pod"))
    start(scheduler, *[Job(f"f{i}", "a", size) for i, size in enumerate(fillers)])
    if scheduler.state("train") != "running":
        return
    node = data.draw(st.sampled_from(sorted({pod.node for pod in scheduler.status("train").pods})))
    kept = [pod for pod in scheduler.status("train").pods if pod.node != node]
    scheduler.remove_node(node, now=1.0)
    scheduler.check()
    if not kept:
        assert scheduler.state("train") == "pending"
        return
    gone = pods + 1 - len(kept)
    needs = [gpus] * (gone - (not any(pod.role == "head" for pod in kept)))
    needs += [1] * (gone - len(needs))
    place = [
        node_name
        for node_name in nodes
        if node_name != node and nodes[node_name] == nodes[kept[0].node]
    ]
    idle = {node_name: network.free(node_name).get("gpu", 0) for node_name in place}
    fits = any(
        all(
            sum(need for need, at in zip(needs, chosen, strict=True) if at == node_name)
            <= idle[node_name]
            for node_name in place
        )
        for chosen in product(place, repeat=gone)
    )
    scheduler.decide(now=1.0)
    scheduler.check()
    assert (len(scheduler.status("train").pods) == pods + 1) == fits
    assert set(kept) <= set(scheduler.status("train").pods)


# --- random histories


@pytest.mark.parametrize("parts", sorted(COMPOSITIONS))
@pytest.mark.parametrize("seed", seeds(2))
def test_histories_with_failures_are_consistent(parts, seed):
    FailingHistory(parts, seed).live(40)


NODES = [f"n{i}" for i in range(4)]
SMALL = {
    "topology": lambda: {"topology": flat_network(*NODES, gpu=4)},
    "devices": lambda: {"devices": machines()},
    "cells": lambda: {"cells": node_cells(NODES, a=2, b=0)},
}


def lose_a_node_beside(others, parts, **settings):
    """A gang loses a node, and other jobs have the idle ones."""
    scheduler = Scheduler(**SMALL[parts](), **settings)
    start(scheduler, Job("train", "a", [Role("w", 2, gpus=4)], on_failure="pod", priority=1))
    start(scheduler, *others)
    scheduler.remove_node(nodes_of(scheduler)[0], 1.0)
    return scheduler


@pytest.mark.parametrize("parts", SMALL)
def test_pods_that_have_failed_evict_jobs_as_their_job_does(parts):
    weak = [Job(f"weak{i}", "b", 4, guaranteed=False) for i in range(2)]
    scheduler = lose_a_node_beside(weak, parts, immediate=True)
    evicted = [pair for pair in said(scheduler.decide(1.0)) if pair[0] in ("Preempt", "Start")]
    assert [kind for kind, _ in evicted] == ["Preempt", "Start"] and evicted[1][1] == "train"
    assert len(scheduler.status("train").pods) == 2 and not scheduler.status("train").lost
    scheduler.check()
    firm = [Job(f"firm{i}", "b", 4, guaranteed=parts != "cells", priority=9) for i in range(2)]
    scheduler = lose_a_node_beside(firm if parts != "cells" else [], parts, immediate=True)
    scheduler.decide(1.0)
    assert bool(scheduler.status("train").lost) == (parts != "cells")


def test_a_victim_stops_once():
    scheduler = Scheduler(topology=flat_network("n0", gpu=8))
    decided(
        scheduler, Job("low", "t", 4, guaranteed=False), Job("second", "t", 4, guaranteed=False)
    )
    decided(scheduler, Job("high", "t", 8), now=1.0)
    scheduler.stopped("low", 2.0)
    with pytest.raises(ValueError, match="'low': it has stopped already"):
        scheduler.stopped("low", 3.0)
    with pytest.raises(ValueError, match="'high': it does not have to stop"):
        scheduler.stopped("high", 3.0)


@pytest.mark.parametrize("on_failure", ["job", "pod"])
def test_a_victim_has_stopped_when_a_pod_fails_and_the_others_do_not_run_on(on_failure):
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=1))
    roles = [Role("w", 2, gpus=1)]
    decided(scheduler, Job("weak", "a", roles, guaranteed=False, on_failure=on_failure))
    assert said(decided(scheduler, Job("train", "a", roles))) == [("Preempt", "weak")]
    scheduler.fail("weak", 1.0, pod="w/0")
    scheduler.check()
    started = [("Start", "train")]
    assert said(scheduler.decide(1.0)) == (started if on_failure == "job" else [])
    if on_failure == "pod":
        scheduler.stopped("weak", 2.0)
        assert said(scheduler.decide(2.0)) == started
    scheduler.check()


@pytest.mark.parametrize("parts", SMALL)
def test_pods_that_have_failed_and_wait_are_explained(parts):
    weak = [Job(f"weak{i}", "b", 4, guaranteed=False) for i in range(2)]
    scheduler = lose_a_node_beside(weak, parts, preemption=False)
    waits = [action for action in scheduler.decide(1.0) if isinstance(action, Wait)]
    explanation = scheduler.explain("train")
    assert explanation.state == "running" and explanation.reason == waits[0].reason != ""
    assert parts != "cells" or explanation.reason == (
        "waits for 'weak1' to end, as preemption is off"
    )
    assert "its failed pods would start if weak0 ended" in explanation.text
    scheduler.finish("weak0", 2.0)
    assert ("Start", "train") in said(scheduler.decide(2.0))
    assert scheduler.explain("train").refusals == scheduler.explain("train").changes == ()


def test_pods_that_have_failed_evict_jobs_in_the_domain_of_their_job_alone():
    scheduler = two_racks(size=3)
    start(scheduler, gang(2), *[Job(f"s{i}", "a", 8, guaranteed=False) for i in range(4)])
    rack = {int(node[1:]) // 3 for node in nodes_of(scheduler).values()}
    scheduler.remove_node(nodes_of(scheduler)[0], 1.0)
    kinds = [kind for kind, _ in said(scheduler.decide(1.0)) if kind in ("Preempt", "Start")]
    assert kinds == ["Preempt", "Start"]
    assert {int(node[1:]) // 3 for node in nodes_of(scheduler).values()} == rack
    scheduler.check()
