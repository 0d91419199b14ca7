"""A part enforces each constraint of a job, or the job is refused and nothing changes."""

import pytest
from scheduler.lives import decided, jobs_of

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import Device, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.interop.events.rounds import take
from hivecore.interop.scheduler_file import SchedulerSpec, shape_text
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    EvictionLimit,
    Job,
    Reject,
    Role,
    Scheduler,
    Sharing,
    Start,
    StoragePool,
    Wait,
    Where,
    diff_log,
    event_of_plain,
    plain_record,
    recover,
    replay,
)
from hivecore.scheduler.stages.composed import _KINDS
from hivecore.topology import NetworkTopology

NODES = ("n0", "n1")


def network(layers=("rack",), **free):
    built = NetworkTopology(layers, {node: {} for node in NODES})
    for node in NODES:
        built.set_free(node, free or {"gpu": 8})
    return built


def slots():
    built = NetworkTopology(["rack"], {node: {} for node in NODES})
    built.set_slots([4, 4])
    return built


def machines(*, host=()):
    devices = NodeDevices.uniform(gpus=8, nics=2).devices
    more = [Device("host", 0, dict(host))] if host else []
    return DeviceCluster({node: NodeDevices([*devices, *more]) for node in NODES})


def cells():
    chain = Chain(["gpu", "node"], [8], 2, nodes=NODES)
    return CellCluster(ClusterSpec({"H100": chain}, {"t": {"H100": {"node": 2}}}))


def tree(**most):
    return QuotaTree([Quota("t", max=most or {"gpu": 16})], total=most or {"gpu": 16})


PARTS = {
    "nothing": dict,
    "quotas": lambda: {"quotas": tree()},
    "cells": lambda: {"cells": cells()},
    "network": lambda: {"topology": network()},
    "network of CPUs": lambda: {"topology": network(cpu=8)},
    "slots": lambda: {"topology": slots()},
    "devices": lambda: {"devices": machines()},
    "cells and devices": lambda: {"cells": cells(), "devices": machines()},
    "network and devices": lambda: {"topology": network(), "devices": machines()},
}
NETWORKS = {"network", "slots", "network and devices"}
CELLS = {"cells", "cells and devices"}
DEVICES = {"devices", "cells and devices", "network and devices"}
#: A constraint, the compositions that enforce it, and the parts that could.
CONSTRAINTS = {
    "must": ({"where": Where(must="rack")}, NETWORKS, "topology"),
    "multiple": ({"where": Where(multiple={"rack": 1})}, NETWORKS, "topology"),
    "within": ({"where": Where(within="node")}, CELLS, "cells"),
    "leaf_type": ({"where": Where(leaf_type="gpu")}, CELLS, "cells"),
    "pinned_cell": ({"where": Where(pinned_cell="p")}, CELLS, "cells"),
    "nodes": ({"where": Where(nodes=["n1"])}, NETWORKS | CELLS | DEVICES, "devices"),
    "resources": ({"roles": [Role("w", resources={"cpu": 1})]}, {"network of CPUs"}, "quotas"),
    "devices": (
        {"roles": [Role("w", devices=DeviceRequest("any", gpus=1, memory_percent=50))]},
        DEVICES,
        "devices",
    ),
    "joint": (
        {"roles": [Role("w", devices=DeviceRequest("a", gpus=1, nics=1, joint=("gpu", "rdma")))]},
        DEVICES,
        "devices",
    ),
    "quota": ({"quota": "other"}, {"quotas"}, "quotas"),
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("field", CONSTRAINTS)
def test_a_constraint_is_enforced_or_named_with_the_part_that_would_enforce_it(parts, field):
    arguments, enforcing, part = CONSTRAINTS[field]
    scheduler = Scheduler(**PARTS[parts]())
    before = scheduler.to_bytes()
    job = Job("j", "t", **{"roles": 1} | arguments)
    if parts in enforcing:
        decided(scheduler, job)
        assert "j" not in scheduler or scheduler.state("j") == "running"
        return
    with pytest.raises(ValueError, match=rf"job='j': .*{field}\b.*=") as caught:
        scheduler.submit(job, 5.0)
    if not set(PARTS[parts]()) & {part}:
        assert part in str(caught.value)
    assert scheduler.to_bytes() == before
    scheduler.submit(Job("j", "t", 1), 5.0)


def test_every_field_that_constrains_is_honoured_by_a_part():
    honoured = frozenset().union(*(kind.honours for kind in _KINDS))
    assert set(Where.__struct_fields__) < honoured
    assert {"resources", "devices", "joint", "quota", "data", "stages"} < honoured


@pytest.mark.parametrize("parts", PARTS)
def test_optional_fields_are_ignored_if_no_part_reads_them(parts):
    scheduler = Scheduler(**PARTS[parts]())
    job = Job(
        "j",
        "t",
        [Role("w", 2, devices=DeviceRequest("any", gpus=2), resources={"cpu": 0})],
        stages=(1.0, 2.0),
        data=Data("images", 10.0),
        run_time=60.0,
        where=Where() if parts in NETWORKS | {"network of CPUs"} else Where(prefer="rack"),
    )
    assert isinstance(decided(scheduler, job)[0], Start)


def test_pods_that_the_network_does_not_count_are_not_held_in_a_rack():
    scheduler = Scheduler(topology=network(), devices=machines(host={"cpu": 8}))
    loose = Role("loose", 1, gpus=0, devices=DeviceRequest("any", cpu_milli=1))
    with pytest.raises(ValueError, match=r"where\.must='rack': topology places no pods of .*loose"):
        scheduler.submit(Job("j", "t", [Role("w"), loose], where=Where(must="rack")), 0.0)
    scheduler.submit(
        Job("j", "t", [Role("w"), Role("launcher", gpus=0)], where=Where(must="rack")), 0.0
    )
    assert isinstance(scheduler.decide(0.0)[0], Start)


def test_an_amount_is_enforced_by_any_quota_on_the_path():
    quotas = QuotaTree(
        [Quota("all", max={"gpu": 8, "cpu": 4}), Quota("t", max={"gpu": 8}, parent="all")],
        total={"gpu": 8, "cpu": 4},
    )
    scheduler = Scheduler(quotas=quotas)
    job = Job("j", "t", [Role("w", resources={"cpu": 3, "disk": 1})])
    assert scheduler.counted(job) == {"cpu"}
    with pytest.raises(ValueError, match=r"resources\['disk'\]=1: "):
        scheduler.submit(job, 0.0)
    scheduler.submit(job.replace(roles=[Role("w", resources={"cpu": 3})]), 0.0)


# --- parts that limit nothing


def misspelt_network():
    built = NetworkTopology([], {"n0": {}})
    built.set_free("n0", {"gpus": 8})
    return built


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"topology": NetworkTopology([], {"n0": {}})}, "topology: the network counts nothing"),
        ({"topology": misspelt_network()}, "topology: .*'gpus'"),
        ({"quotas": tree(gpus=8)}, r"quotas\['t'\]: .*'gpus'"),
        ({"quotas": tree(GPU=8, gpu=8)}, r"quotas\['t'\]: .*'GPU'"),
        (
            {"quotas": QuotaTree([Quota("t", max={"gpu": 8})], total={"gpus": 8})},
            "quotas: total: .*'gpus'",
        ),
        (
            {"quotas": tree(), "eviction_limits": [EvictionLimit("team", per_hour=1)]},
            "eviction_limits: .*'team'",
        ),
        ({"queues": TenantQueues(blocking="backfill")}, "blocking='fifo' or 'best-effort'"),
    ],
)
def test_a_part_that_limits_nothing_is_refused(part, says):
    with pytest.raises(ValueError, match=says):
        Scheduler(**part)


def test_queues_in_which_one_tenant_backfills_or_jobs_wait_are_refused():
    queues = TenantQueues()
    queues.set_blocking("t", "backfill")
    with pytest.raises(ValueError, match="use Scheduler"):
        Scheduler(queues=queues)
    queues = TenantQueues()
    queues.push(QueuedJob("j", "t", 1), 0)
    with pytest.raises(ValueError, match="queues: "):
        Scheduler(queues=queues)


def test_changes_that_limit_nothing_are_refused():
    scheduler = Scheduler(quotas=tree(), topology=NetworkTopology([], {}))
    before = scheduler.to_bytes()
    for call, says in (
        (
            lambda: scheduler.set_quota(Quota("t", max={"gpus": 1}), 1.0),
            "quota='t': .*'gpus'",
        ),
        (lambda: scheduler.add_node("n0", 1.0), "free: the network counts nothing"),
        (
            lambda: scheduler.add_node("n0", 1.0, free={"gpus": 8}),
            "free: .*'gpus'",
        ),
        (lambda: scheduler.set_total({"gpus": 8}, 1.0), "total: .*'gpus'"),
        (
            lambda: scheduler.set_eviction_limits([EvictionLimit("u"), EvictionLimit()], 1.0),
            "limits: .*'u'",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            call()
        assert scheduler.to_bytes() == before


def test_a_log_with_a_total_and_limits_that_are_refused_now_is_replayed(monkeypatch, tmp_path):
    scheduler = Scheduler(quotas=tree(), log=tmp_path / "log")
    with monkeypatch.context() as before:
        for check in ("check_names", "check_limits"):
            before.setattr(f"hivecore.scheduler.cluster_events.{check}", lambda *_: None)
        scheduler.set_total({"gpus": 8, "gpu": 8}, 1.0)
        scheduler.set_eviction_limits([EvictionLimit("u")], 1.0)
    scheduler.close()
    again = recover(tmp_path / "log")
    assert again.quotas.declared_total() == ({"gpu": 8, "gpus": 8}, False)
    assert again.eviction_limits == scheduler.eviction_limits
    Scheduler.from_bytes(again.to_bytes()).check()


def test_a_file_in_which_quotas_limit_what_no_job_can_ask_for_is_refused():
    text = shape_text("node")
    for spelling, says in (
        (
            text.replace("gpu: 8}, min", "gpus: 8}, min").replace("min: {gpu:", "min: {gpus:"),
            "gpus",
        ),
        (text.replace("{cpu: 192", "{gpus: 8, cpu: 192"), "is what gpus says"),
        (
            f"{text}\nquotas: {{total: {{gpu: 8}}}}\n".replace("{gpu:", "{gpus:"),
            "gpus: no node has any",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            SchedulerSpec.of_yaml(spelling)


# --- processors and memory of nodes


@pytest.mark.parametrize("shape", ["node", "rack", "four-racks"])
def test_resources_of_nodes_in_a_file_limit_roles(shape):
    scheduler = SchedulerSpec.of_yaml(shape_text(shape)).scheduler()
    tenant = "vision" if shape == "four-racks" else "research"
    where = Where(nodes=["node0" if shape == "node" else "node00"])
    for name, gpus, cpu in (("huge", 1, 10_000_000), ("one", 1, 100_000), ("two", 0, 93_000)):
        role = Role("w", 1, gpus, resources={"cpu": cpu, "memory": 1})
        scheduler.submit(Job(name, tenant, [role], where=where), 0.0)
    assert [(type(item), item.job) for item in scheduler.decide(0.0)] == [
        (Reject, "huge"),
        (Start, "one"),
        (Wait, "two"),
    ]
    scheduler.check()
    again = Scheduler.from_bytes(scheduler.to_bytes())
    assert again.to_bytes() == scheduler.to_bytes()
    for item in (scheduler, again):
        item.finish("one", 1.0)
        assert [type(action) for action in item.decide(1.0)] == [Start]
        item.finish("two", 2.0)
        item.check()
    with pytest.raises(ValueError, match=r"resources\['disk'\]=1"):
        scheduler.submit(Job("j", tenant, [Role("w", resources={"disk": 1})]), 2.0)


def test_a_request_for_devices_takes_the_processors_of_its_role_as_well():
    scheduler = Scheduler(devices=machines(host={"cpu": 10}))
    request = DeviceRequest("any", gpus=1, cpu_milli=2)
    for name, cpu in (("one", 6), ("two", 4), ("three", 5)):
        scheduler.submit(
            Job(
                name,
                "t",
                [Role("w", devices=request, resources={"cpu": cpu})],
                where=Where(nodes=["n0"]),
            ),
            0.0,
        )
    assert [type(item) for item in scheduler.decide(0.0)] == [Start, Start, Wait]
    scheduler.check()


# --- growing clusters

GROWING = {
    "network": lambda: {"topology": NetworkTopology(["rack"], {})},
    "devices": lambda: {"devices": DeviceCluster({})},
    "both": lambda: {"topology": NetworkTopology(["rack"], {}), "devices": DeviceCluster({})},
    "quotas": lambda: {
        "quotas": QuotaTree([Quota("t", max={"gpu": 64})]),
        "devices": DeviceCluster({}),
    },
}


def add(scheduler, node, now):
    arguments = {}
    if scheduler.topology is not None:
        arguments["free"] = {"gpu": 8}
    if scheduler.devices is not None:
        arguments["inventory"] = NodeDevices.uniform(gpus=8)
    scheduler.add_node(node, now, **arguments)


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("parts", GROWING)
def test_jobs_wait_for_the_nodes_of_a_cluster_that_is_empty_at_first(parts, queued):
    queues = TenantQueues() if queued else None
    scheduler = Scheduler(queues=queues, growing=True, **GROWING[parts]())
    scheduler.submit(Job("gang", "t", [Role("w", 2, gpus=8)]), 0.0)
    scheduler.submit(Job("there", "t", 1, where=Where(nodes=["n1"])), 0.0)
    assert [type(item) for item in scheduler.decide(0.0)] == [Wait, Wait]
    assert scheduler.explain("gang").refusals
    scheduler.check()
    scheduler = Scheduler.from_bytes(scheduler.to_bytes())
    if scheduler.quotas is not None:
        scheduler.set_total({"gpu": 16}, 1.0)
    add(scheduler, "n0", 1.0)
    assert not any(isinstance(item, Start | Reject) for item in scheduler.decide(1.0))
    add(scheduler, "n1", 2.0)
    assert jobs_of(scheduler.decide(2.0), Start) == ["gang"]
    scheduler.finish("gang", 3.0)
    assert jobs_of(scheduler.decide(3.0), Start) == ["there"]
    scheduler.remove_node("n1", 4.0)
    assert not any(isinstance(item, Reject) for item in scheduler.decide(4.0))
    scheduler.remove_node("n0", 5.0)
    assert scheduler.decide(5.0) == []
    assert scheduler.state("there") == "pending"
    scheduler.check()


@pytest.mark.parametrize("parts", GROWING)
def test_by_default_a_job_that_no_node_can_serve_is_rejected(parts):
    scheduler = Scheduler(**GROWING[parts]())
    assert [type(item) for item in decided(scheduler, Job("j", "t", 8))] == [Reject]


def test_a_growing_cluster_rejects_jobs_that_no_node_can_ever_serve():
    for parts, job in (
        ({"topology": network()}, Job("j", "t", 1, where=Where(must="row"))),
        ({"quotas": tree(gpu=8)}, Job("j", "t", 9)),
        ({"quotas": tree(gpu=8)}, Job("j", "unknown", 1)),
        ({"cells": cells()}, Job("j", "t", 1, priority=-5)),
        ({"storage": StoragePool({}, 1.0, 1.0)}, Job("j", "t", 1, data=Data("lost", 1.0))),
        ({"sharing": Sharing(3)}, Job("j", "t", 1, stages=(1.0, 2.0))),
    ):
        scheduler = Scheduler(growing=True, **parts)
        assert [type(item) for item in decided(scheduler, job)] == [Reject], job


def test_a_job_that_waits_for_nodes_evicts_no_job():
    scheduler = Scheduler(growing=True, devices=machines(), cells=cells())
    scheduler.submit(Job("weak", "t", 8, guaranteed=False), 0.0)
    scheduler.submit(Job("wide", "t", [Role("w", 3, gpus=8)], priority=5), 0.0)
    kinds = {type(item): item.job for item in scheduler.decide(0.0)}
    assert kinds == {Start: "weak", Wait: "wide"}
    scheduler.check()


# --- other ways in


def test_an_event_with_a_constraint_that_no_part_enforces_is_refused_and_the_others_are_taken():
    scheduler = Scheduler(devices=machines())
    jobs = [Job("near", "t", 1, where=Where(must="rack")), Job("any", "t", 1)]
    events = [{"event": "submit", "job": plain_record(job)} for job in jobs]
    actions, errors = take(scheduler, map(event_of_plain, events), now=1.0)
    assert [item.job for _, item in actions] == ["any"]
    assert [(item.event, item.status) for item in errors] == [(0, 409)]
    assert "where.must='rack': no part enforces it; topology would" in errors[0].message


# --- jobs accepted by earlier releases


def test_a_log_in_which_a_constraint_was_ignored_is_read(tmp_path):
    scheduler = Scheduler(devices=machines(), log=tmp_path / "log")
    job = Job("j", "t", 1, where=Where(must="rack"))
    scheduler._is_rerun = True
    scheduler.submit(job, 0.0)
    scheduler._is_rerun = False
    assert isinstance(scheduler.decide(0.0)[0], Start)
    scheduler.close()
    for again in (replay(tmp_path / "log"), recover(tmp_path / "log")):
        assert again.job("j") == job
        with pytest.raises(ValueError, match="no part enforces it"):
            again.submit(job.replace(name="k"), 1.0)
        again.close()


def test_a_log_under_another_configuration_names_jobs_that_it_cannot_constrain(tmp_path):
    scheduler = Scheduler(topology=network(), log=tmp_path / "log")
    scheduler.submit(Job("near", "t", 1, where=Where(must="rack")), 0.0)
    decided(scheduler, Job("any", "t", 1, where=Where(prefer="rack")))
    scheduler.close()
    difference = diff_log(tmp_path / "log", Scheduler(devices=machines()))
    assert [(item.job, item.after) for item in difference.jobs] == [("near", None), ("any", 0.0)]
