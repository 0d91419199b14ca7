"""The actions of a scheduler, event by event."""

import numpy as np
import pytest
from scheduler.lives import (
    NIC,
    NODES,
    cell_cluster,
    decided,
    flat_network,
    limited,
    machines,
    network,
    said,
    summary,
)

from hivecore.cells import AffinityGroup
from hivecore.devices import (
    Device,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
)
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    Job,
    PlacedPod,
    Reject,
    Role,
    Scheduler,
    SetCache,
    SetRemoteIO,
    Start,
    StoragePool,
    Where,
)
from hivecore.storage import StorageJobs, allocate_storage
from hivecore.topology import NetworkTopology


def test_a_job_starts_waits_and_starts_when_there_is_room():
    scheduler = limited()
    scheduler.submit(Job("one", "a", 6), now=0)
    assert summary(decided(scheduler, Job("two", "a", 6))) == [("start", "one"), ("wait", "two")]
    assert scheduler.state("one") == "running" and scheduler.state("two") == "pending"
    assert scheduler.decide(5) == []
    scheduler.finish("one", now=9)
    assert "one" not in scheduler
    assert summary(scheduler.decide(9)) == [("start", "two")]


def test_without_any_part_everything_starts_at_once():
    scheduler = Scheduler()
    start = decided(scheduler, Job("one", "a", 1000))[0]
    assert start == Start("one", (PlacedPod("pod", 0, ""),))


def test_a_job_that_could_never_run_is_rejected_at_once():
    for scheduler, job, reason in (
        (limited(), Job("j", "a", 9), "asks for 9 of 'gpu', and max of 'a' is 8"),
        (limited(), Job("j", "b", 1), "there is no quota 'b'"),
        (Scheduler(cells=cell_cluster()), Job("j", "c", 1), "c"),
        (Scheduler(cells=cell_cluster()), Job("j", "b", 16), "node"),
        (Scheduler(cells=cell_cluster()), Job("j", "a", [Role("w", 3, 4)]), "few free leaves"),
        (Scheduler(topology=network()), Job("j", "a", [Role("w", 5, 4)]), "5 pods need"),
        (
            Scheduler(topology=network()),
            Job("j", "a", [Role("x", 1, 1), Role("y", 1, 2), Role("z", 1, 3)]),
            "two kinds",
        ),
        (Scheduler(devices=machines()), Job("j", "a", 5), "too few devices"),
        (
            Scheduler(cells=cell_cluster()),
            Job("j", "a", 1, where=Where(leaf_type="H100")),
            "H100",
        ),
    ):
        action = decided(scheduler, job)[0]
        assert isinstance(action, Reject) and reason in action.reason
        assert "j" not in scheduler
        assert isinstance(decided(scheduler, job)[0], Reject)
        scheduler.check()


def test_a_victim_does_not_stop_for_another_job_of_the_same_name():
    scheduler = Scheduler(cells=cell_cluster())
    decided(scheduler, Job("spare", "b", [Role("w", 4, 4)], guaranteed=False))
    decided(scheduler, Job("train", "a", [Role("w", 2, 4)]), now=1)
    scheduler.cancel("train", now=2)
    scheduler.submit(Job("train", "a", 1, guaranteed=False), now=2)
    scheduler.stopped("spare", now=3)
    scheduler.check()
    assert sorted(summary(scheduler.decide(3)))[0][0] == "start"
    scheduler.check()


def test_preemption_can_be_switched_off():
    scheduler = Scheduler(cells=cell_cluster(), immediate=True, preemption=False)
    decided(scheduler, Job("spare", "b", [Role("w", 4, 4)], guaranteed=False))
    scheduler.submit(Job("train", "a", [Role("w", 2, 4)]), now=1)
    assert summary(scheduler.decide(1)) == [("wait", "train")]


def test_a_job_waits_for_those_after_which_it_may_start():
    scheduler = limited()
    decided(scheduler, Job("big", "a", 8))
    scheduler.submit(Job("server", "a", 8), now=1)
    scheduler.submit(Job("worker", "a", 0, after=["server"]), now=1)
    waits = {action.job: action.reason for action in scheduler.decide(1)}
    assert waits["worker"] == "waits for 'server' to start"
    scheduler.finish("big", now=2)
    assert summary(scheduler.decide(2)) == [("start", "server"), ("start", "worker")]


def test_the_other_pods_of_a_running_job_do_not_wait_for_other_jobs_to_start():
    """Otherwise pods of other jobs with the same request would wait with them."""
    scheduler = limited()
    elastic = [Role("w", 3, gpus=1, min_pods=1)]
    jobs = [
        Job("first", "a", 4),
        Job("second", "a", elastic, after=["first"]),
        Job("third", "a", elastic),
        Job("other", "a", 2),
    ]
    assert summary(decided(scheduler, *jobs))[:4] == [("start", job.name) for job in jobs]
    scheduler.set_quota(Quota("a", max={"gpu": 7}), 1)
    scheduler.fail("first", 1)  # and there is no room for it any more
    starts = [action for action in scheduler.decide(1) if isinstance(action, Start)]
    assert sorted(action.job for action in starts) == ["second", "second", "third"]
    assert scheduler.state("first") == "pending"
    scheduler.check()


def test_cells_choose_the_gpus_and_devices_the_nics_beside_them():
    scheduler = Scheduler(cells=cell_cluster(), devices=machines())
    pod = decided(scheduler, Job("one", "a", [Role("w", 1, devices=NIC)]))[0].pods[0]
    assert dict(pod.minors) == {"gpu": (0, 1), "rdma": (0,)}
    assert {(device.type, device.minor) for device in pod.devices} == {
        ("gpu", 0),
        ("gpu", 1),
        ("rdma", 0),
    }


def test_placement_decides_again_without_a_node_that_devices_refuse():
    devices = machines()
    for node in NODES[:3]:
        devices.set_health(node, False, type="rdma")
    for place in ({"topology": network()}, {"cells": cell_cluster()}):
        scheduler = Scheduler(devices=devices.copy(), **place)
        scheduler.submit(Job("one", "a", [Role("w", 1, devices=NIC)]), now=0)
        assert scheduler.decide(0)[0].pods[0].node == NODES[3]
        scheduler.check()


def test_alike_jobs_that_wait_are_not_tried_one_by_one():
    class Counting(QuotaTree):
        calls = 0

        def schedule(self, *args, **kwargs):
            Counting.calls += 1
            return super().schedule(*args, **kwargs)

    scheduler = Scheduler(quotas=Counting([Quota("a", max={"gpu": 8})], total={"gpu": 8}))
    for i in range(500):
        decided(scheduler, Job(f"j{i}", "a", 8), now=i)
    assert Counting.calls < 1100
    before = Counting.calls
    scheduler.finish("j0", now=500)
    assert summary(scheduler.decide(500)) == [("start", "j1")]
    assert Counting.calls - before < 6


def test_a_wait_is_repeated_only_for_another_reason():
    scheduler = limited()
    first = decided(scheduler, *(Job(f"j{i}", "a", gpus) for i, gpus in enumerate((6, 2, 8))))
    assert summary(first) == [("start", "j0"), ("start", "j1"), ("wait", "j2")]
    scheduler.finish("j0", now=1)
    assert scheduler.decide(1) == []


def test_most_bounds_the_attempts_of_one_call():
    scheduler = limited()
    for i in range(4):
        scheduler.submit(Job(f"j{i}", "a", 1), now=0)
    assert [summary(scheduler.decide(0, most=1)) for _ in range(5)] == [
        [("start", f"j{i}")] for i in range(4)
    ] + [[]]


def test_a_part_may_be_changed_from_outside_if_touch_is_called():
    scheduler = limited(most=8)
    decided(scheduler, Job("one", "a", 8), Job("two", "a", 4))
    tree = scheduler.quotas
    tree.set_quota(Quota("a", max={"gpu": 12}))
    tree.set_total({"gpu": 12})
    assert scheduler.decide(1) == []
    scheduler.touch()
    assert summary(scheduler.decide(1)) == [("start", "two")]


def test_the_parts_are_those_that_were_given():
    cells = cell_cluster()
    cells.commit(cells.schedule(AffinityGroup("other", "a", [(1, 4)])))
    scheduler = Scheduler(cells=cells)
    assert scheduler.cells is cells
    assert summary(decided(scheduler, Job("one", "a", [Role("w", 2, 4)]))) == [("wait", "one")]


POOL = StoragePool({"images": 100.0, "text": 40.0}, cache_gb=60.0, bandwidth_mbps=100.0)


def test_cache_and_remote_io_are_allocated_as_storage_says():
    scheduler = Scheduler(storage=POOL)
    scheduler.submit(Job("one", "a", 1, data=Data("images", 300.0)), now=0)
    actions = decided(scheduler, Job("two", "a", 1, data=Data("text", 90.0)), Job("plain", "a", 1))
    assert summary(actions[:3]) == [("start", "one"), ("start", "two"), ("start", "plain")]
    jobs = StorageJobs(
        dataset=["images", "text"],
        rate_mbps=np.array([300.0, 90.0]),
        names=("one", "two"),
    )
    expected = allocate_storage(jobs, dict(POOL.datasets_gb), 60.0, 100.0)
    cache = {action.dataset: action.size for action in actions if isinstance(action, SetCache)}
    io = {action.job: action.rate_mbps for action in actions if isinstance(action, SetRemoteIO)}
    assert cache == {name: round(gb * 1e9) for name, gb in expected.by_dataset().items() if gb}
    assert io == {name: of.remote_io_mbps for name, of in expected.by_job().items() if of[0]}
    assert scheduler.decide(1) == []
    scheduler.finish("plain", now=2)
    assert scheduler.decide(2) == []


def test_reductions_come_before_increases_and_small_increases_are_left_out():
    scheduler = Scheduler(storage=POOL)
    decided(scheduler, Job("one", "a", 1, data=Data("text", 50.0)))
    scheduler.submit(Job("two", "a", 1, data=Data("images", 900.0)), now=1)
    changed = [action for action in scheduler.decide(1) if isinstance(action, SetCache)]
    assert [action.dataset for action in changed] == ["text", "images"]
    assert sum(action.size for action in changed) <= 60_000_000_000
    pool = StoragePool(dict(POOL.datasets_gb), 60.0, 100.0, threshold=1e9)
    scheduler = Scheduler(storage=pool)
    decided(scheduler, Job("one", "a", 1, data=Data("images", 300.0)))
    scheduler.submit(Job("two", "a", 1, data=Data("images", 300.0)), now=1)
    assert summary(action for action in scheduler.decide(1) if isinstance(action, Start)) == [
        ("start", "two")
    ]


def test_a_small_increase_of_cache_is_an_action_as_remote_io_relies_on_it():
    scheduler = Scheduler(storage=StoragePool({"images": 100.0, "text": 3.0}, 100.0, 50.0))
    scheduler.submit(Job("one", "a", 1, data=Data("images", 300.0)), now=0)
    first = {
        action.dataset: action.size
        for action in decided(scheduler, Job("two", "a", 1, data=Data("text", 900.0)))
        if isinstance(action, SetCache)
    }
    assert first == {"images": 97_000_000_000, "text": 3_000_000_000}
    scheduler.finish("two", now=1)
    assert SetCache("images", 100_000_000_000) in scheduler.decide(1)


def test_a_later_job_of_the_same_name_gets_its_remote_io():
    scheduler = Scheduler(storage=POOL)
    job = Job("one", "a", 1, data=Data("images", 300.0))
    rates = []
    for now in (0, 1):
        scheduler.submit(job, now)
        rates += [action for action in scheduler.decide(now) if isinstance(action, SetRemoteIO)]
        scheduler.finish("one", now)
    assert len(rates) == 2 and rates[0] == rates[1]


def test_a_job_whose_dataset_is_unknown_is_rejected():
    scheduler = Scheduler(storage=POOL)
    scheduler.submit(Job("one", "a", 1, data=Data("lost", 300.0)), now=0)
    assert scheduler.decide(0) == [Reject("one", "there is no dataset 'lost'")]


WRONG = [
    (lambda s: Scheduler(storage="pool"), TypeError, "storage must be a StoragePool"),
    (lambda s: StoragePool({"a": 0.0}, 1.0, 1.0), ValueError, "datasets_gb['a']=0.0"),
    (lambda s: StoragePool({}, -1.0, 1.0), ValueError, "cache_gb=-1.0"),
    (lambda s: StoragePool({}, 1.0, 1.0, "best"), ValueError, "objective must be one of"),
    (lambda s: StoragePool([], 1.0, 1.0), TypeError, "datasets_gb must be a mapping"),
    (lambda s: Scheduler(cells=cell_cluster(), topology=network()), ValueError, "topology"),
    (lambda s: Scheduler(quotas=cell_cluster()), TypeError, "quotas must be a QuotaTree"),
    (lambda s: Scheduler(tries=0), ValueError, "tries=0"),
    (lambda s: Scheduler(immediate=1), TypeError, "immediate"),
    (lambda s: s.submit("one", 5), TypeError, "job must be a Job"),
    (lambda s: s.submit(Job("runs", "a", 1), 5), ValueError, "'runs'"),
    (lambda s: s.submit(Job("x", "a", 1), 4), ValueError, "now=4.0"),
    (lambda s: s.submit(Job("x", "a", 1), float("nan")), ValueError, "now=nan"),
    (lambda s: s.submit(Job("x", "a", 1), "5"), TypeError, "now must be a float"),
    (lambda s: s.finish("x", 5), KeyError, "no job 'x'"),
    (lambda s: s.finish("waits", 5), ValueError, "is pending, not running"),
    (lambda s: s.fail("waits", 5), ValueError, "is pending, not running"),
    (lambda s: s.fail("runs", 5, pod="w/9"), KeyError, "no such pod"),
    (lambda s: s.cancel("x", 5), KeyError, "no job 'x'"),
    (lambda s: s.stopped("runs", 5), ValueError, "job='runs'"),
    (lambda s: s.set_node("n9", True, 5), KeyError, "n9"),
    (lambda s: s.decide(4), ValueError, "now=4.0"),
    (lambda s: s.decide(5, most=0), ValueError, "most=0"),
    (lambda s: s.advance(1), ValueError, "now=1.0"),
    (lambda s: s.job("x"), KeyError, "no job 'x'"),
    (lambda s: Job("a//b", "a", 1), ValueError, "'/'"),
    (lambda s: Job("x", "a", []), ValueError, "roles must not be empty"),
    (lambda s: Job("x", "a", [1]), TypeError, "roles must hold Roles"),
    (lambda s: Job("x", "a", 1, priority=1001), ValueError, "priority=1001"),
    (lambda s: Job("x", "a", 1, run_time=0), ValueError, "run_time=0"),
    (lambda s: Job("x", "a", 1, stages=[0.0]), ValueError, "stages: all are 0"),
    (lambda s: Job("x", "a", 1, after=["x"]), ValueError, "wait for itself"),
    (lambda s: Job("x", "a", 1, where="n1"), TypeError, "where must be a Where"),
    (lambda s: Job("x", "a", 1, guaranteed=False, preemptible=False), ValueError, "opportunistic"),
    (lambda s: Job("x", "a", [Role("w"), Role("w")]), ValueError, "roles:"),
    (lambda s: Job("x", "a", [Role("w", min_pods=0)]), ValueError, "min_pods"),
    (lambda s: Role("w", 2, min_pods=3), ValueError, "min_pods=3"),
    (lambda s: Role("w", 1, 2, devices=NIC.replace(name="y")), None, ""),
    (lambda s: Role("w", 1, 3, devices=NIC), ValueError, "gpus=3"),
    (lambda s: Role("w/1"), ValueError, "'/'"),
    (lambda s: Role("w", resources={"gpu": 1}), ValueError, "'gpu'"),
    (lambda s: Role("w", resources={"memory": 2**62 + 1}), ValueError, "'memory'"),
    (
        lambda s: Job("x", "a", [Role("w", 2, resources={"memory": 2**61 + 1})]),
        ValueError,
        "roles: more than 2**62 of 'memory' in all",
    ),
    (lambda s: Role("w", devices="8"), TypeError, "devices must be a DeviceRequest"),
    (lambda s: Data("d", 0.0), ValueError, "rate_mbps=0.0"),
]


SIX = {f"n{i}": NodeDevices.uniform(gpus=6, nics=2, switches=2) for i in range(10)}
SAME = {"joint": ("gpu", "rdma"), "same_pcie": True}
GANGS = [
    ([Role("w", 12, 4)], 10, [Role("w", 10, 4)]),
    ([Role("w", 21, 3)], 20, [Role("w", 20, 3)]),
    ([Role("w", 2, 7)], None, [Role("w", 2, 6)]),
    ([Role("w", 10, 4), Role("v", 11, 2)], None, [Role("w", 10, 4), Role("v", 10, 2)]),
    (
        [Role("w", 21, devices=DeviceRequest("pod", 1, nics=1, **SAME))],
        20,
        [Role("w", 20, devices=DeviceRequest("pod", 1, nics=1, **SAME))],
    ),
    (
        [Role("w", 61, devices=DeviceRequest("pod", 1, memory_percent=51))],
        60,
        [Role("w", 60, devices=DeviceRequest("pod", 1, memory_percent=51))],
    ),
]


@pytest.mark.parametrize("roles, room, smaller", GANGS)
def test_a_gang_is_rejected_exactly_if_idle_and_healthy_nodes_are_too_few(roles, room, smaller):
    scheduler = Scheduler(devices=DeviceCluster(SIX))
    assert [type(action) for action in decided(scheduler, Job("small", "a", smaller))] == [Start]
    scheduler.submit(Job("large", "a", roles), now=1)
    rejected, *others = decided(scheduler, Job("next", "a", smaller), now=2)
    assert isinstance(rejected, Reject) and rejected.job == "large"
    assert room is None or f"the nodes have room for {room}" in rejected.reason
    scheduler.finish("small", now=3)
    others += scheduler.decide(3)
    assert [action.job for action in others if isinstance(action, Start)] == ["next"]
    assert not any(isinstance(action, Reject) for action in others)


def test_a_gang_waits_that_unhealthy_devices_keep_from_starting():
    cluster = DeviceCluster(SIX)
    cluster.set_health("n0", False)
    scheduler = Scheduler(devices=cluster)
    scheduler.submit(Job("gang", "a", [Role("w", 10, 4)]), now=0)
    assert not any(isinstance(action, (Reject, Start)) for action in scheduler.decide(0))
    scheduler.set_node("n0", True, now=1)
    assert [action.job for action in scheduler.decide(1)] == ["gang"]


@pytest.mark.parametrize("call, error, message", WRONG)
def test_wrong_arguments_are_named_and_change_nothing(call, error, message):
    scheduler = limited()
    decided(scheduler, Job("runs", "a", 8), Job("waits", "a", 8), now=5)
    before = scheduler.to_bytes()
    if error is None:
        call(scheduler)
    else:
        with pytest.raises(error) as raised:
            call(scheduler)
        assert message in str(raised.value)
    assert scheduler.to_bytes() == before
    scheduler.check()


@pytest.mark.parametrize(
    "roles, message",
    [
        ([Role("w", 2**20, gpus=0), Role("v", gpus=0)], "more than 2**20 pods in all"),
        ([Role("w", 2**11, gpus=2**20)], "more than 2**31 GPUs in all"),
    ],
)
def test_a_job_is_bounded_in_all(roles, message):
    with pytest.raises(ValueError) as raised:
        Job("j", "a", roles)
    assert message in str(raised.value)


@pytest.mark.parametrize("parts", [{"topology": network}, {"cells": cell_cluster}])
def test_no_job_evicts_the_jobs_that_it_starts_after(parts):
    scheduler = Scheduler(**{name: make() for name, make in parts.items()}, immediate=True)
    for i in range(4):
        scheduler.submit(Job(f"w{i}", "a", 4, guaranteed=False), 0.0)
    scheduler.submit(Job("j", "a", [Role("w", 2, gpus=4)], after=["w0", "w1", "w2"]), 0.0)
    assert summary(scheduler.decide(0.0)) == [
        *(("start", f"w{i}") for i in range(4)),
        ("wait", "j"),
    ]


@pytest.mark.parametrize("immediate", [False, True])
def test_a_start_that_would_be_evicted_in_the_same_round_is_left_out(immediate):
    scheduler = Scheduler(topology=network(), immediate=immediate)
    for i in range(4):
        scheduler.submit(Job(f"w{i}", "a", 4, guaranteed=False), 0.0)
    actions = summary(decided(scheduler, Job("j", "a", 4)))
    assert [verb for verb, _ in actions] == ["start"] * 4 + ["wait"]
    assert ("start", "j") in actions
    assert sum(scheduler.state(f"w{i}") == "running" for i in range(4)) == 3
    scheduler.check()


def test_a_job_is_not_started_and_evicted_in_one_round():
    scheduler = Scheduler(topology=network(), immediate=True)
    for i in range(3):
        scheduler.submit(Job(f"w{i}", "a", 4), 0.0)
    scheduler.submit(Job("first", "a", 2, guaranteed=False), 0.0)
    scheduler.submit(Job("second", "a", 2, guaranteed=False, after=["first"]), 0.0)
    assert summary(decided(scheduler, Job("j", "a", 2)))[3:] == [
        ("start", "j"),
        ("start", "first"),
        ("wait", "second"),
    ]


def test_a_name_that_is_rejected_is_free_when_that_is_summary():
    scheduler = Scheduler(topology=network())
    scheduler.submit(Job("j", "a", 5), 0.0)
    for branch in (scheduler, scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes())):
        with pytest.raises(ValueError, match="job='"):
            branch.submit(Job("j", "a", 1), 0.0)
        assert summary(branch.decide(0.0)) == [("reject", "j")]
        assert summary(decided(branch, Job("j", "a", 1))) == [("start", "j")]


@pytest.mark.parametrize("cells", [True, False])
def test_a_pod_without_devices_runs_beside_those_that_have_some(cells):
    scheduler = Scheduler(cells=cell_cluster() if cells else None, devices=machines())
    scheduler.submit(Job("plain", "a", [Role("w", gpus=0)]), 0.0)
    scheduler.submit(Job("mixed", "a", [Role("l", gpus=0), Role("w", gpus=2)]), 0.0)
    assert [len(action.pods) for action in scheduler.decide(0.0)] == [1, 2]
    scheduler.check()
    assert Scheduler.from_bytes(scheduler.to_bytes()).state("mixed") == "running"


@pytest.mark.parametrize("limit", ["runtime", "max"])
def test_what_a_quota_does_not_limit_keeps_no_job_waiting(limit):
    quotas = [Quota("a", max={"gpu": 8}), Quota("b", max={"gpu": 8, "cpu": 4})]
    tree = QuotaTree(quotas, total={"gpu": 16, "cpu": 4}, limit=limit)
    scheduler = Scheduler(quotas=tree)
    decided(scheduler, *(Job(name, "a", 8) for name in ("first", "second")))
    assert [scheduler.state(name) for name in ("first", "second")] == ["running", "pending"]
    scheduler.finish("first", 1.0)
    scheduler.decide(1.0)
    assert scheduler.state("second") == "running"


def test_a_job_does_not_wait_for_a_scarce_resource_that_it_does_not_request():
    most = {"gpu": 8, "cpu": 8}
    scheduler = Scheduler(quotas=QuotaTree([Quota("a", max=most)], total=most))
    scheduler.submit(Job("gpus", "a", 4), 0.0)
    scheduler.submit(Job("cpus", "a", [Role("worker", 1, gpus=0, resources={"cpu": 6})]), 0.0)
    decided(scheduler, Job("more", "a", 8))
    scheduler.set_quota(Quota("a", max={"gpu": 8, "cpu": 2}), 1.0)
    scheduler.finish("gpus", 2.0)
    scheduler.decide(2.0)
    assert [scheduler.state(name) for name in ("cpus", "more")] == ["running", "running"]


def test_a_run_time_is_no_longer_than_time_is_counted():
    with pytest.raises(ValueError, match="run_time"):
        Job("long", "a", 4, run_time=2.0**40 + 1)
    scheduler = Scheduler(queues=TenantQueues(order="srsf"))
    huge = Job("huge", "a", [Role("w", 2**10, gpus=2**20)], run_time=2.0**40)
    scheduler.submit(huge, 0.0)
    scheduler.check()
    assert scheduler.decide(0.0)[0].job == "huge"


def test_more_than_there_is_in_all_is_rejected():
    tree = QuotaTree([Quota("a", max={"gpu": 16})], total={"gpu": 16})
    scheduler = Scheduler(queues=TenantQueues(blocking="fifo"), quotas=tree)
    for name, gpus in (("run", 16), ("big", 12), ("small", 1)):
        scheduler.submit(Job(name, "a", gpus), 0.0)
    scheduler.decide(0.0)
    scheduler.set_total({"gpu": 8}, 1.0)
    scheduler.finish("run", 2.0)
    assert said(scheduler.decide(2.0)) == [("Reject", "big"), ("Start", "small")]
    assert decided(scheduler, Job("large", "a", 10), now=3.0) == [
        Reject("large", "asks for 10 of 'gpu', and there are 8 in all")
    ]


def test_a_job_is_rejected_with_a_hint_where_quotas_have_no_total():
    scheduler = Scheduler(quotas=QuotaTree([Quota("a", max={"gpu": 16})]))
    assert decided(scheduler, Job("job", "a", 10)) == [
        Reject("job", "asks for 10 of 'gpu', and the total has none: set_total")
    ]


def test_a_forecast_while_victims_stop():
    racks = NetworkTopology([], {"n0": {}, "n1": {}})
    racks.set_slots([1, 1])
    scheduler = Scheduler(topology=racks)
    decided(scheduler, *(Job(name, "v", 1, guaranteed=False, run_time=100) for name in ("p", "q")))
    decided(scheduler, Job("train", "v", [Role("w", 2, gpus=1)], run_time=50), now=10.0)
    assert scheduler.forecast("train") == 10.0  # they are expected to stop at any time
    scheduler.stopped("p", 20.0)
    assert scheduler.forecast("train") == 20.0


def test_a_forecast_where_no_job_is_evicted_for_jobs_that_start_together():
    scheduler = Scheduler(topology=flat_network("n0", gpu=3))
    scheduler.submit(Job("spare", "v", 2, guaranteed=False, run_time=1000.0), 0.0)
    decided(scheduler, Job("brief", "v", 1, run_time=10.0))
    scheduler.submit(Job("one", "v", 2, together=["two"]), 1.0)
    scheduler.submit(Job("two", "v", 1, together=["one"]), 1.0)
    assert scheduler.forecast("one") == 1000.0


def test_why_a_job_is_not_offered_though_no_stage_refuses_it():
    tree = QuotaTree([Quota("v", max={"gpu": 8})], total={"gpu": 8})
    scheduler = Scheduler(queues=TenantQueues(blocking="fifo"), quotas=tree)
    for name, gpus in (("run", 4), ("head", 8), ("behind", 2)):
        scheduler.submit(Job(name, "v", gpus), 0.0)
    scheduler.decide(0.0)
    explanation = scheduler.explain("behind")
    assert explanation.reason == "is behind 'head', which waits"
    assert (explanation.position, explanation.changes) == (1, ())
    scheduler.reorder(["run"], 1.0)
    scheduler.decide(1.0)
    assert "order" in scheduler.explain("behind").reason


MOST = 2**62
PARTS_WITH_MUCH_MEMORY = {
    "quotas": lambda: {
        "quotas": QuotaTree([Quota("a", max={"memory": MOST})], total={"memory": MOST})
    },
    "topology": lambda: {"topology": flat_network("n0", memory=MOST)},
    "quotas and topology": lambda: {
        "quotas": QuotaTree([Quota("a", max={"memory": MOST})], total={"memory": MOST}),
        "topology": flat_network("n0", memory=MOST),
    },
}


@pytest.mark.parametrize("parts", PARTS_WITH_MUCH_MEMORY)
def test_a_pod_may_have_as_much_memory_as_the_parts_count(parts):
    scheduler = Scheduler(**PARTS_WITH_MUCH_MEMORY[parts]())
    role = Role("w", 1, gpus=0, resources={"memory": MOST})
    assert [type(action) for action in decided(scheduler, Job("all", "a", [role]))] == [Start]
    again = Scheduler.from_bytes(scheduler.to_bytes())
    again.check()
    again.finish("all", 1.0)
    again.submit(Job("large", "a", [role.replace(resources={"memory": "4Ti"})]), 1.0)
    assert [type(action) for action in again.decide(1.0)] == [Start]


@pytest.mark.parametrize("growing", [False, True])
def test_a_pod_with_more_memory_than_a_host_can_have_is_rejected(growing):
    host = NodeDevices([Device("host", 0, {"memory": 2**48})])
    scheduler = Scheduler(devices=DeviceCluster({"n0": host}), growing=growing)
    for name, memory in (("fits", 2**48), ("never", 2**48 + 1)):
        role = Role("w", 1, gpus=0, resources={"memory": memory})
        scheduler.submit(Job(name, "a", [role]), 0.0)
    assert [(type(a), a.job) for a in scheduler.decide(0.0)] == [(Reject, "never"), (Start, "fits")]
    scheduler.check()
