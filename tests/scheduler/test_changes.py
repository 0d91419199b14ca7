"""Nodes come and go, quotas change, and cells are reconfigured, while jobs run."""

import numpy as np
import pytest
from scheduler.lives import (
    ALL_NODES,
    COMPOSITIONS,
    MACHINE,
    SPECS,
    decided,
    gpu_quotas,
    make_job,
    make_scheduler,
    network,
    quota_tree,
    racks,
    summary,
)
from scheduler.lives import cell_cluster as cells
from scheduler.lives import machines as devices

from hivecore.cells import Chain, ClusterSpec
from hivecore.devices import (
    Device,
    DeviceCluster,
    NodeDevices,
    Partition,
    PartitionTable,
    ShareTemplate,
    ShareTemplates,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.errors import InfeasibleAssignmentError
from hivecore.quotas import Quota
from hivecore.scheduler import (
    Job,
    Preempt,
    Reject,
    Role,
    Scheduler,
    Sharing,
    Start,
    Stop,
    Where,
    diff_log,
    log_standing,
    plain_record,
    read_log,
    record_of_plain,
    recover,
    replay,
)
from hivecore.topology import NetworkTopology


def nodes_of(scheduler, job):
    return sorted({pod.node for pod in scheduler.status(job).pods})


def networked(**more):
    return Scheduler(topology=network(), **more)


# --- new nodes


def test_a_new_node_is_used_by_a_waiting_job():
    scheduler = Scheduler(topology=network(), devices=devices())
    decided(scheduler, *(Job(f"j{i}", "a", 4) for i in range(5)))
    assert scheduler.state("j4") == "pending"
    scheduler.add_node("n4", 5.0, labels={"rack": "r2"}, free={"gpu": 4}, inventory=MACHINE)
    assert summary(scheduler.decide(5.0)) == [("start", "j4")]
    assert nodes_of(scheduler, "j4") == ["n4"]
    assert scheduler.topology.domain("n4") == ("r2", "n4")
    scheduler.check()


def test_a_job_that_was_impossible_is_possible_when_its_node_has_come():
    scheduler = networked()
    large = Job("large", "a", [Role("w", 5, gpus=4)])
    assert summary(decided(scheduler, large)) == [("reject", "large")]
    scheduler.add_node("n4", 1.0, labels={"rack": "r2"}, free={"gpu": 4})
    assert summary(decided(scheduler, large, now=1.0)) == [("start", "large")]


def test_a_node_may_come_with_a_resource_that_no_other_one_has():
    scheduler = networked()
    wants = Job("wants", "a", [Role("w", 1, gpus=1, resources={"fpga": 1})])
    with pytest.raises(ValueError, match=r"'fpga'\]=1: no part counts it"):
        scheduler.submit(wants, 0.0)
    scheduler.add_node("n4", 1.0, free={"gpu": 4, "fpga": 1})
    decided(scheduler, wants, now=1.0)
    assert nodes_of(scheduler, "wants") == ["n4"]


@pytest.mark.parametrize(
    ("make", "changed_arguments", "error", "says"),
    [
        (networked, {"node": "n1"}, ValueError, "node='n1'"),
        (networked, {"node": ""}, ValueError, "node must not be empty"),
        (networked, {"node": 3}, TypeError, "node must be a string"),
        (networked, {"labels": {"zone": "z"}}, ValueError, "'zone' is no layer"),
        (networked, {"labels": 3}, TypeError, "labels must be a mapping"),
        (networked, {"free": {"gpu": -1}}, ValueError, "free"),
        (networked, {"inventory": MACHINE}, ValueError, "inventory: there are no devices"),
        (networked, {"now": -1.0}, ValueError, "now=-1.0"),
        (Scheduler, {}, ValueError, "node="),
        (lambda: Scheduler(devices=devices()), {}, ValueError, "inventory: "),
        (
            lambda: Scheduler(devices=devices()),
            {"inventory": 3},
            TypeError,
            "NodeDevices, not int",
        ),
        (
            lambda: Scheduler(devices=devices()),
            {"inventory": MACHINE, "labels": {}},
            ValueError,
            "labels: there is no network",
        ),
        (
            lambda: Scheduler(devices=devices()),
            {"inventory": MACHINE, "node": "n0"},
            ValueError,
            "node='n0'",
        ),
        (lambda: Scheduler(cells=cells()), {"node": "n9"}, KeyError, "cells have no such node"),
        (lambda: Scheduler(cells=cells()), {"node": "n1"}, ValueError, "node="),
        (
            lambda: Scheduler(cells=cells(), devices=devices()),
            {"inventory": MACHINE},
            KeyError,
            "reconfigure them first",
        ),
        (
            lambda: Scheduler(topology=network(), devices=devices()),
            {"inventory": MACHINE, "node": "n1"},
            ValueError,
            "node=",
        ),
        (
            lambda: Scheduler(topology=network(), devices=devices()),
            {"inventory": MACHINE, "labels": {"zone": "z"}},
            ValueError,
            "no layer",
        ),
        (
            lambda: Scheduler(topology=network(), devices=devices()),
            {"inventory": 3, "free": {"disk": 1}},
            TypeError,
            "NodeDevices",
        ),
    ],
)
def test_a_node_that_cannot_come_changes_nothing(make, changed_arguments, error, says):
    scheduler = make()
    decided(scheduler, Job("j", "a", 1))
    before = scheduler.to_bytes()
    arguments = {"node": "n9", "now": 5.0, **changed_arguments}
    with pytest.raises(error, match=says):
        scheduler.add_node(**arguments)
    assert scheduler.to_bytes() == before


# --- removed nodes


def test_a_job_with_a_pod_on_a_node_that_goes_stops_as_a_whole_and_waits_at_its_old_place():
    scheduler = networked()
    decided(scheduler, Job("gang", "a", [Role("w", 2, gpus=4)], where=Where(must="rack")))
    gone, other = nodes_of(scheduler, "gang")
    pods = scheduler.status("gang").pods
    decided(scheduler, Job("small", "a", [Role("w", 2, gpus=4)]), now=1.0)
    decided(scheduler, Job("later", "a", 4), now=2.0)
    scheduler.remove_node(gone, 3.0)
    scheduler.check()
    assert scheduler.state("gang") == "pending" and scheduler.state("small") == "running"
    assert gone not in scheduler.topology.nodes
    assert scheduler.topology.free(other) == {"gpu": 4}
    stop, *rest = scheduler.decide(3.0)
    assert stop == Stop("gang", pods, gone)
    # It comes before the later jobs, but no rack has two free nodes.
    assert summary(rest) == [("wait", "gang"), ("start", "later")]
    scheduler.finish("small", 4.0)
    assert summary(scheduler.decide(4.0)) == [("start", "gang")]


def test_a_job_that_can_never_start_without_the_node_is_rejected():
    scheduler = networked()
    decided(scheduler, Job("runs", "a", [Role("w", 4, gpus=4)]))
    decided(scheduler, Job("waits", "a", [Role("w", 4, gpus=4)]), now=1.0)
    decided(scheduler, Job("small", "a", 4), now=1.0)
    scheduler.remove_node("n3", 2.0)
    assert list(scheduler) == ["small"]
    with pytest.raises(ValueError, match="job='"):
        scheduler.submit(Job("waits", "a", 1), 2.0)
    actions = scheduler.decide(2.0)
    assert summary(actions)[0] == ("stop", "runs")
    assert sorted(action.job for action in actions if isinstance(action, Reject)) == [
        "runs",
        "waits",
    ]
    assert summary(actions)[-1] == ("start", "small")
    scheduler.submit(Job("waits", "a", 1), 2.0)
    scheduler.check()


def test_nodes_that_a_job_names_do_not_count_while_they_are_not_there():
    scheduler = Scheduler(topology=network(), devices=devices())
    decided(scheduler, Job("j", "a", 4, where=Where(nodes=["n1", "n2", "n9"])))
    assert nodes_of(scheduler, "j") == ["n1"]
    scheduler.remove_node("n1", 1.0)
    assert summary(scheduler.decide(1.0)) == [("stop", "j"), ("start", "j")]
    assert nodes_of(scheduler, "j") == ["n2"]
    scheduler.remove_node("n2", 2.0)
    stop, reject = scheduler.decide(2.0)
    assert stop.job == "j" and reject == Reject("j", "none of the nodes that it may use is there")
    assert summary(decided(scheduler, Job("k", "a", 4, where=Where(nodes=["n9"])), now=2.0)) == [
        ("reject", "k")
    ]


def test_a_node_of_cells_that_is_gone_is_bad_until_it_comes_again():
    scheduler = Scheduler(cells=cells(), devices=devices())
    decided(scheduler, *(Job(f"j{i}", "a", 4, guaranteed=False) for i in range(4)))
    (job,) = [name for name in scheduler if nodes_of(scheduler, name) == ["n3"]]
    scheduler.remove_node("n3", 1.0)
    assert scheduler.cells.bad_nodes() == ("n3",)
    assert scheduler.summary().unhealthy == ()
    assert summary(scheduler.decide(1.0)) == [("stop", job), ("wait", job)]
    for call in (scheduler.remove_node, lambda node, now: scheduler.set_node(node, True, now)):
        with pytest.raises(KeyError, match="no part knows it"):
            call("n3", 1.0)
    scheduler.add_node("n3", 2.0, inventory=MACHINE)
    assert summary(scheduler.decide(2.0)) == [("start", job)]
    assert scheduler.cells.bad_nodes() == ()
    scheduler.check()


def test_a_node_that_comes_again_with_fewer_gpus_is_used_as_far_as_it_goes():
    scheduler = Scheduler(cells=cells(), devices=devices())
    scheduler.remove_node("n3", 1.0)
    scheduler.add_node("n3", 2.0, inventory=NodeDevices.uniform(gpus=3))
    assert scheduler.cells.bad_leaves() == (("n3", 3),)
    decided(scheduler, *(Job(f"j{i}", "a", 1, guaranteed=False) for i in range(16)), now=2.0)
    assert sum(scheduler.state(name) == "running" for name in scheduler) == 15
    scheduler.set_node("n3", False, 3.0)
    scheduler.set_node("n3", True, 3.0)
    assert scheduler.cells.bad_leaves() == (("n3", 3),)


def test_a_node_that_cannot_go_changes_nothing():
    only = Scheduler(topology=NetworkTopology([], {}))
    for scheduler, node, error, says in (
        (only, "n1", KeyError, "node='n1': no part knows it"),
        (only, 1, TypeError, "node must be a string"),
        (Scheduler(), "n0", KeyError, "node='n0': no part knows it"),
    ):
        before = scheduler.to_bytes()
        with pytest.raises(error, match=says):
            scheduler.remove_node(node, 1.0)
        assert scheduler.to_bytes() == before


# --- quotas


def lab(most=8, total=16, **more):
    return Scheduler(quotas=gpu_quotas(total, lab=most, other=16), **more)


def test_a_higher_limit_starts_a_waiting_job():
    scheduler = lab()
    decided(scheduler, Job("one", "lab", 8), Job("two", "lab", 8))
    scheduler.set_quota(Quota("lab", max={"gpu": 15}), 1.0)
    assert scheduler.decide(1.0) == []
    scheduler.set_quota(Quota("lab", max={"gpu": 16}), 2.0)
    assert summary(scheduler.decide(2.0)) == [("start", "two")]
    scheduler.check()


def test_running_jobs_stay_under_a_lower_limit_and_usage_above_min_is_reclaimed():
    scheduler = lab(most=16, immediate=True)
    decided(scheduler, Job("one", "lab", 8), Job("two", "lab", 8))
    scheduler.set_quota(Quota("lab", max={"gpu": 8}), 1.0)
    assert scheduler.decide(1.0) == []
    assert scheduler.quotas.status("lab").used == {"gpu": 16}
    scheduler.check()
    scheduler.set_quota(Quota("other", max={"gpu": 16}, min={"gpu": 8}), 2.0)
    actions = decided(scheduler, Job("mine", "other", 8), now=2.0)
    assert summary(actions)[:2] == [("preempt", "two"), ("start", "mine")]
    assert actions[0].why == "reclaim"


def test_a_job_that_requests_more_than_can_ever_exist_is_rejected():
    scheduler = lab()
    decided(scheduler, Job("one", "lab", 8), Job("two", "lab", 8))
    scheduler.set_quota(Quota("lab", max={"gpu": 6}), 1.0)
    (reject,) = scheduler.decide(1.0)
    assert reject == Reject("two", "asks for 8 of 'gpu', and max of 'lab' is 6")
    assert list(scheduler) == ["one"] and scheduler.state("one") == "running"
    scheduler.fail("one", 2.0)
    assert summary(scheduler.decide(2.0)) == [("reject", "one")]
    assert len(scheduler) == 0 and scheduler.quotas.owners == ()
    assert summary(decided(scheduler, Job("three", "lab", 6), now=3.0)) == [("start", "three")]


def test_a_job_for_which_others_have_to_stop_may_be_rejected_too():
    scheduler = networked(quotas=gpu_quotas(32, a=32))
    decided(scheduler, *(Job(f"weak{i}", "a", 4, guaranteed=False) for i in range(4)))
    decided(scheduler, Job("train", "a", 4), now=1.0)
    (victim,) = scheduler.status("train").victims
    scheduler.stopped(victim, 2.0)
    scheduler.set_quota(Quota("a", max={"gpu": 3}), 2.0)
    scheduler.check()
    assert "train" not in scheduler
    assert {action.job for action in scheduler.decide(2.0) if isinstance(action, Reject)} == {
        "train",
        victim,
    }


def test_a_quota_may_be_new_and_have_another_parent():
    scheduler = lab(most=16)
    scheduler.set_quota(Quota("team", parent="lab", max={"gpu": 4}), 1.0)
    assert summary(decided(scheduler, Job("j", "team", 4), Job("k", "team", 4), now=1.0)) == [
        ("start", "j"),
        ("wait", "k"),
    ]
    scheduler.set_quota(Quota("top", max={"gpu": 4}), 2.0)
    scheduler.set_quota(Quota("team", parent="top", max={"gpu": 4}), 2.0)
    large = Job("large", "team", 5)
    assert summary(decided(scheduler, large, now=2.0)) == [("reject", "large")]


def test_a_change_of_quotas_that_cannot_be_changes_nothing():
    scheduler = lab()
    decided(scheduler, Job("one", "lab", 8), Job("two", "lab", 8))
    before = scheduler.to_bytes()
    quota = Quota("lab", max={"gpu": 9})
    for call, error, says in (
        (lambda: scheduler.set_quota("lab", 1.0), TypeError, "quota must be a Quota, not str"),
        (lambda: scheduler.set_quota(quota, -1.0), ValueError, "now=-1.0"),
        (lambda: scheduler.set_quota(quota.replace(parent="x"), 1.0), KeyError, "no quota 'x'"),
        (lambda: scheduler.set_quota(quota.replace(parent="lab"), 1.0), ValueError, "below"),
        (lambda: scheduler.set_total({"gpu": -1}, 1.0), ValueError, "total"),
        (lambda: scheduler.set_total({"gpu": 8}, 1.0, carved=True), ValueError, "carved"),
        (lambda: scheduler.set_total({"gpu": 8}, 1.0, tree=3), TypeError, "tree"),
    ):
        with pytest.raises(error, match=says):
            call()
        assert scheduler.to_bytes() == before
    for call in (lambda: Scheduler().set_quota(quota, 0), lambda: Scheduler().set_total({}, 0)):
        with pytest.raises(ValueError, match="there are no quotas"):
            call()


def test_requests_of_joining_pods_may_let_other_jobs_start(monkeypatch):
    """This moves what the quotas above may use, as these do not count what exceeds a maximum."""
    monkeypatch.setattr("scheduler.lives.quota_tree", lambda limit: quota_tree(limit, parity=True))
    scheduler = make_scheduler(COMPOSITIONS["all with cells and sharing"], immediate=True)
    for i, name in enumerate(("a1", "b1", "a2", "b2")):
        decided(scheduler, make_job(name, "ab"[i % 2], "four", guaranteed=False), now=i)
    scheduler.cancel("b1", 4.0)
    decided(scheduler, make_job("large", "a", "pairs"), now=5.0)
    scheduler.set_quota(Quota("a", parent="all", max={"gpu": 4}, weight={"gpu": 1}), 5.0)
    scheduler.set_quota(Quota("all", max={"gpu": 24}), 5.0)
    scheduler.cancel("b2", 5.0)
    weak = make_job("weak", "b", "four", guaranteed=False, priority=1)
    assert ("wait", "weak") in summary(decided(scheduler, weak, now=6.0))
    actions = decided(scheduler, make_job("elastic", "b", "elastic", priority=1), now=7.0)
    assert next(action for action in summary(actions) if action[0] == "start") == (
        "start",
        "elastic",
    )
    again = scheduler.copy()
    again.touch()
    assert not any(isinstance(action, Start) for action in again.decide(7.0))


# --- cells


def test_a_job_that_loses_its_guarantee_runs_on_and_leaves_for_the_owner_of_its_cells():
    scheduler = Scheduler(cells=cells(), immediate=True)
    decided(scheduler, Job("old", "a", [Role("w", 2, gpus=4)]))
    changes = scheduler.reconfigure(SPECS["b has all"], 1.0)
    assert changes.downgraded == ("old",) and scheduler.state("old") == "running"
    assert scheduler.decide(1.0) == []
    actions = decided(
        scheduler, *(Job(f"b{i}", "b", [Role("w", 2, gpus=4)]) for i in (1, 2)), now=2.0
    )
    assert ("preempt", "old") in summary(actions)
    assert {action.why for action in actions if isinstance(action, Preempt)} == {"opportunistic"}
    assert {name: scheduler.state(name) for name in ("b1", "b2")} == {
        "b1": "running",
        "b2": "running",
    }
    # It has no cells any more in which it could ever run.
    assert ("reject", "old") in summary(actions)
    scheduler.check()


def test_a_job_that_requests_what_no_longer_exists_is_rejected():
    scheduler = Scheduler(cells=cells())
    rack = Where(within="rack")
    decided(scheduler, Job("runs", "b", 4), Job("waits", "b", 4))
    decided(scheduler, Job("near", "a", [Role("w", 2, gpus=4)], where=rack))
    decided(scheduler, Job("also", "a", [Role("w", 2, gpus=4)], where=rack))
    scheduler.reconfigure(SPECS["b is gone"], 1.0)
    assert [action.job for action in scheduler.decide(1.0)] == ["waits"]
    scheduler.reconfigure(SPECS["no racks"], 2.0)
    assert [action.job for action in scheduler.decide(2.0)] == ["also"]
    assert sorted(scheduler) == ["near", "runs"]
    scheduler.check()
    for name in ("runs", "near"):  # they run on, but could not start again
        scheduler.fail(name, 3.0)
        assert summary(scheduler.decide(3.0)) == [("reject", name)]
    assert scheduler.cells.groups() == ()


def test_jobs_on_nodes_that_cells_have_no_more_run_on_and_have_them_again_later():
    scheduler = Scheduler(cells=cells(), devices=devices())
    decided(scheduler, *(Job(f"j{i}", "a", 4, guaranteed=False) for i in range(4)))
    (job,) = [name for name in scheduler if nodes_of(scheduler, name) == ["n3"]]
    changes = scheduler.reconfigure(SPECS["a rack less"], 1.0)
    assert job in changes.lost
    scheduler.check()
    scheduler.reconfigure(SPECS["as before"], 2.0)
    decided(scheduler, Job("more", "a", 1, guaranteed=False), now=2.0)
    assert scheduler.state("more") == "pending"
    scheduler.reconfigure(SPECS["a rack less"], 3.0)
    scheduler.remove_node("n3", 4.0)
    assert ("stop", job) in summary(scheduler.decide(4.0))
    scheduler.check()


def test_a_victim_keeps_what_it_has_on_nodes_that_cells_have_no_more():
    """No other job starts there before it has stopped, even if the cells have these nodes again."""
    scheduler = Scheduler(cells=cells())
    decided(scheduler, Job("wide", "a", [Role("w", 4, gpus=4)], guaranteed=False))
    scheduler.reconfigure(SPECS["a rack less"], 1.0)
    decided(scheduler, Job("train", "a", 4), now=2.0)
    assert scheduler.status("train").victims == ("wide",)
    scheduler.reconfigure(SPECS["as before"], 3.0)
    actions = decided(
        scheduler, *(Job(f"j{i}", "b", 1, guaranteed=False) for i in range(9)), now=3.0
    )
    assert not any(isinstance(action, Start) for action in actions)
    scheduler.check()
    scheduler.stopped("wide", 4.0)
    assert summary(scheduler.decide(4.0))[0] == ("start", "train")
    scheduler.check()


def test_no_job_joins_a_job_on_a_node_that_cells_no_longer_have():
    scheduler = Scheduler(cells=cells(), sharing=Sharing(2))
    for i in range(4):
        decided(scheduler, Job(f"j{i}", "a", 4, guaranteed=False, stages=[4, 1]))
    scheduler.reconfigure(SPECS["a rack less"], 1.0)
    for i in range(3):
        decided(scheduler, Job(f"k{i}", "a", 4, guaranteed=False, stages=[1, 4]), now=2.0)
    assert {node for i in range(2) for node in nodes_of(scheduler, f"k{i}")} == {"n0", "n1"}
    assert scheduler.state("k2") == "pending"
    again = Scheduler.from_bytes(scheduler.to_bytes())
    again.touch()
    assert again.decide(3.0) == []
    assert Scheduler.from_bytes(scheduler.to_bytes()).decide(3.0) == []
    scheduler.reconfigure(SPECS["as before"], 4.0)
    assert summary(scheduler.decide(4.0)) == [("start", "k2")]


def test_nodes_of_new_cells_without_devices_are_bad_until_they_come():
    scheduler = Scheduler(cells=cells(), devices=devices())
    scheduler.reconfigure(SPECS["a rack more"], 1.0)
    assert scheduler.cells.bad_nodes() == ("n4", "n5")
    decided(scheduler, *(Job(f"j{i}", "a", 4, guaranteed=False) for i in range(5)), now=1.0)
    assert scheduler.state("j4") == "pending"
    scheduler.add_node("n4", 2.0, inventory=MACHINE)
    assert summary(scheduler.decide(2.0)) == [("start", "j4")]
    assert scheduler.cells.bad_nodes() == ("n5",)


def test_cells_that_cannot_be_change_nothing():
    scheduler = Scheduler(cells=cells())
    decided(scheduler, Job("j", "a", 4))
    before = scheduler.to_bytes()
    much = ClusterSpec({"c": racks(ALL_NODES[:2])}, {"a": {"c": {"rack": 2}}})
    for spec, now, error, says in (
        (much, 1.0, InfeasibleAssignmentError, "too few"),
        ("spec", 1.0, TypeError, "spec must be a ClusterSpec, not str"),
        (SPECS["as before"], -1.0, ValueError, "now=-1.0"),
    ):
        with pytest.raises(error, match=says):
            scheduler.reconfigure(spec, now)
        assert scheduler.to_bytes() == before
    with pytest.raises(ValueError, match="spec: there are no cells"):
        networked().reconfigure(SPECS["as before"], 0.0)


def test_touch_after_a_reconfiguration_from_outside_rejects_as_well():
    scheduler = Scheduler(cells=cells())
    decided(scheduler, Job("one", "b", 4), Job("two", "b", 4))
    scheduler.cells.reconfigure(SPECS["b is gone"])
    scheduler.touch()
    assert summary(scheduler.decide(1.0)) == [("reject", "two")]


# --- as plain data, in logs, and replayed


FULL = NodeDevices(
    (
        Device("gpu", 0, {"core": 100, "memory": 80 << 30}, socket=0, numa=0, pcie="0"),
        Device("gpu", 1, {"core": 100}, healthy=False, module_id=3, labels={"a": "b"}),
        Device(
            "rdma",
            0,
            {"share": 100},
            bus_id="b0",
            uuid="u",
            vf_groups=[VirtualFunctionGroup([VirtualFunction("f0", 7), "f1"], {"x": "y"})],
        ),
    ),
    partitions=PartitionTable((Partition((0, 1), 2, 10**9, "NVLink"), Partition((0,)))),
    partition_policy="honor",
    secondary_well_planned=True,
    vendor="v",
    model="m",
    isolation_provider="p",
    templates=ShareTemplates((ShareTemplate("t", {"npu_core": 2}),), ("npu_cpu",)),
    shareable=False,
)


CHAIN = Chain(["gpu", "node"], [2], 2, "node", ["x", "y"], [[0, 1], [4, 5]])


@pytest.mark.parametrize(
    "record",
    [
        FULL,
        MACHINE,
        NodeDevices(()),
        Quota("a", max={"gpu": 8}),
        Quota("a", max={"gpu": 8, "cpu": 2}, min={"gpu": 1}, weight={"cpu": 1}, parent="b"),
        Quota("a", max={}, weight={}, lends=False, scales=False, outside=True, tree="t"),
        *SPECS.values(),
        ClusterSpec({"d": CHAIN, "c": CHAIN}, {"a": {}}, {"a": {"pin": ("c", "node", 1)}}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_nodes_quotas_and_cells_are_plain_data_and_back(record):
    again = record_of_plain(type(record), plain_record(record))
    assert again == record and repr(again) == repr(record)


def changed(path):
    """A scheduler under which everything changes, with its log."""
    quotas = gpu_quotas(16, a=16)
    scheduler = Scheduler(quotas=quotas, cells=cells(), devices=devices(), log=path)
    decided(scheduler, Job("one", "a", [Role("w", 2, gpus=4)]), Job("two", "a", 4))
    scheduler.remove_node(nodes_of(scheduler, "one")[0], 1.0)
    scheduler.decide(1.0)
    scheduler.set_quota(Quota("a", max={"gpu": 24}, weight={"gpu": 1}), 2.0)
    scheduler.set_total({"gpu": 24}, 2.0)
    scheduler.reconfigure(SPECS["a rack more"], 3.0)
    for node in ("n4", "n5"):
        scheduler.add_node(node, 4.0, inventory=FULL if node == "n5" else MACHINE)
    scheduler.decide(4.0)
    scheduler.finish("one", 9.0)
    scheduler.decide(9.0)
    return scheduler


def test_all_changes_are_logged_and_replayed(tmp_path):
    scheduler = changed(tmp_path / "log")
    scheduler.close()
    events = [record.event for record in read_log(tmp_path / "log")]
    assert {"add_node", "remove_node", "set_quota", "set_total", "reconfigure"} <= set(events)
    again = replay(tmp_path / "log")
    assert again.summary() == scheduler.summary()
    assert again.cells.spec == SPECS["a rack more"]
    assert again.devices.inventory("n5") == FULL
    assert again.quotas.quota("a") == scheduler.quotas.quota("a")
    recovered = recover(tmp_path / "log")
    assert recovered.to_bytes() == scheduler.to_bytes()
    recovered.close()


def test_a_node_of_all_parts_exists_already():
    scheduler = Scheduler(topology=network(), devices=DeviceCluster({"n0": FULL}))
    before = scheduler.to_bytes()
    with pytest.raises(ValueError, match="'n0': exists already"):
        scheduler.add_node("n0", 1.0)
    with pytest.raises(ValueError, match="inventory: missing"):
        scheduler.add_node("n1", 1.0)
    assert scheduler.to_bytes() == before


def test_a_log_shows_that_jobs_stopped_with_their_node(path):
    scheduler = networked(log=path)
    decided(scheduler, Job("gang", "a", [Role("w", 4, gpus=4)]), Job("next", "a", 4))
    scheduler.remove_node("n0", 5.0)
    scheduler.decide(5.0)
    scheduler.finish("next", 8.0)
    scheduler.decide(8.0)
    scheduler.close()
    before = log_standing(path, until=4.0)
    assert (before.in_use, before.gpus) == (16, 16)
    after = log_standing(path, until=5.0)
    assert (after.in_use, after.gpus, after.rejected) == (4, 12, 1)
    difference = diff_log(path, networked())
    assert difference.before == difference.after and difference.skipped == 0
    assert difference.before.preemptions == 0
    assert difference.before.usage == ((0.0, 16), (5.0, 4), (8.0, 0))
    other = diff_log(path, lab(total=16))
    assert other.skipped == 1


def test_a_job_goes_on_with_what_is_left_where_its_node_is_gone_later(path):
    scheduler = networked(log=path)
    decided(scheduler, Job("j", "a", 4))
    scheduler.remove_node("n0", 10.0)
    scheduler.decide(10.0)
    scheduler.finish("j", 40.0)
    scheduler.decide(40.0)
    scheduler.close()
    small = network()
    for node in ("n0", "n1", "n2", "n3"):
        small.set_free(node, {"gpu": 4 if node == "n3" else 0})
    difference = diff_log(path, Scheduler(topology=small))
    # On n3 nothing stops it: 10 and 30 seconds of work are done at once.
    assert difference.after.gpu_seconds == difference.before.gpu_seconds == 4 * 40.0


def test_a_node_s_numbers_may_be_those_of_numpy(tmp_path):
    network = NetworkTopology(["rack"], {})
    scheduler = Scheduler(topology=network, log=tmp_path / "log")
    scheduler.add_node("n1", 1.0, labels={"rack": "r0"}, free={"gpu": np.int64(8)})
    assert [type(action) for action in decided(scheduler, Job("a", "t", 8), now=1.0)] == [Start]
    scheduler.close()
    assert replay(tmp_path / "log").status("a") == scheduler.status("a")
    with pytest.raises(ValueError, match="free"):
        scheduler.add_node("n2", 2.0, labels={"rack": "r0"}, free={"gpu": 1.0005})
    assert network.nodes == ("n1",)
