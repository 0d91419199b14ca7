"""Every object of the library is copied, deep-copied and pickled alike: into one that stands alone.

The public classes are found, not listed: a new one needs a line in `ACTING` unless it only holds
fields, or its test fails.
"""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from fractions import Fraction

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import astuple
from objects.saved_states import damaged_bytes_are_refused

import hivecore
from hivecore import (
    caching,
    cells,
    devices,
    dra,
    gangs,
    interleaving,
    matching,
    queues,
    quotas,
    replicas,
    scheduler,
    storage,
    topology,
    traces,
)
from hivecore.errors import (
    HivecoreError,
    NoPerfectMatchingError,
    StaleDecisionError,
)
from hivecore.interop import gpushare, koordinator, kueue, slurm
from hivecore.interop.hived import ConfigError, Extender, HivedScheduler
from hivecore.interop.slurm import live
from hivecore.sim.worlds import InterleavedGpus

HOW = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
}


def is_public(name, is_package):
    parts = name.split(".")
    hidden = any(part.startswith("_") for part in parts) or "reference" in parts
    return not hidden and (is_package or len(parts) == 2)


def public_classes():
    """What users import, the readable twins aside."""
    results = {}
    for module in pkgutil.walk_packages(hivecore.__path__, "hivecore."):
        if is_public(module.name, module.ispkg):
            imported = importlib.import_module(module.name)
            for name in getattr(imported, "__all__", ()):
                thing = getattr(imported, name)
                if inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
                    results[thing] = f"{module.name}.{name}"
    return results


PUBLIC = public_classes()

ASKED = devices.DeviceRequest("asked", gpus=1, memory=1 << 20)


def running():
    """A job that runs, and one that waits."""
    limit = quotas.Quota("a", max={"gpu": 4})
    created = scheduler.Scheduler(quotas=quotas.QuotaTree([limit], total={"gpu": 4}))
    for name in ("first", "second"):
        created.submit(scheduler.Job(name, "a", 3), 0.0)
    created.decide(0.0)
    return created


def tenant_queues():
    """Two tenants with a job each."""
    created = queues.TenantQueues()
    created.push(queues.QueuedJob("first", "a", 2), 0)
    created.push(queues.QueuedJob("second", "b", 2), 1)
    return created


def namespace_quota():
    """A job is assumed."""
    created = queues.NamespaceQuota()
    created.set_quota("a", {"gpu": 4}, {"gpu": 1})
    created.pre_dequeue(queues.QueuedJob("first", "a", 2, resources={"gpu": 2}))
    return created


def shared_gpus(*owners):
    """A node of two GPUs, and its owners."""
    node = devices.DeviceCluster({"n": devices.NodeDevices.uniform(gpus=2)})
    for name in owners:
        node.allocate(ASKED.replace(name=name), "n")
    return node


# --- objects that change: how one is made, how it is changed, and what is to be seen of it


def specification():
    chain = cells.Chain(levels=["gpu", "node"], fanouts=[4], roots=2)
    return cells.ClusterSpec(chains={"c": chain}, virtual_clusters={"A": {"c": {"node": 1}}})


def cluster(*groups):
    created = cells.CellCluster(specification())
    for group in groups:
        created.commit(created.schedule(group))
    return created


RUNNING = cells.AffinityGroup("first", "A", [(1, 2)])
WAITING = cells.AffinityGroup("second", "A", [(1, 1)])


def allocator():
    created = cells.BuddyAllocator([2, 2], 2)
    created.allocate(2)
    return created


def matcher(dtype=float):
    weights = np.random.default_rng(0).integers(1, 9, (9, 9)).astype(dtype)
    created = matching.Matcher(np.maximum(weights, weights.T))
    created.remove_vertex(4)
    created.solve()
    return created


def matched(thing):
    result = thing.solve()
    return result.pairs.tolist(), result.weight, result.exact, thing.n, thing.vertices.tolist()


def grouper():
    created = interleaving.Grouper(2, capacity=4, method="exact")
    created.add("train", [1.0, 3.0], gpus=4)
    created.groups()
    return created


def grouping_cache():
    created = interleaving.GroupingCache()
    grouped(created)
    return created


def grouped(cache):
    return interleaving.group_jobs([[2, 1], [3, 1]], [1, 1], 1, method="exact", cache=cache).groups


def uniform_cache():
    created = caching.UniformCache(capacity=40)
    created.add_dataset("text", items=9, item_size=10, quota=30)
    created.access("text", [1, 2])
    return created


def mapping():
    created = caching.UniformMapping(maxsize=9)
    created["a"] = 1
    return created


def limiter():
    created = storage.RemoteIOLimiter(rate_bytes=100, burst_bytes=100)
    created.add_job(50, 50, now_ns=0)
    return created


def replica_cache():
    created = replicas.ReplicaAwareCache(capacity=3, blocks=10)
    created.access(2)
    return created


def directory():
    created = replicas.ReplicaDirectory(workers=3, blocks=10)
    created.join(0)
    return created


def quota_tree():
    created = quotas.QuotaTree([quotas.Quota("a", max={"gpu": 8})], total={"gpu": 8})
    created.commit(created.schedule(quotas.QuotaRequest("first", "a", {"gpu": 6})))
    return created


def overuse_monitor():
    created = quotas.OveruseMonitor(delay=5)
    observed(created, 0)
    return created


def observed(monitor, now):
    tree = quota_tree()
    tree.set_total({"gpu": 4})
    return monitor.observe(tree, now)


def silent(command, text=""):
    """A Slurm without nodes and jobs."""
    return ""


def network():
    created = topology.NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
    created.set_slots([2, 2])
    created.commit(created.schedule(topology.TopologyRequest("first", 1)))
    return created


def usage_history():
    created = quotas.UsageHistory(half_life=9)
    created.record("a", 0, 8)
    return created


def clairvoyant():
    created = caching.ClairvoyantCache(capacity=5, datasets=[9])
    created.attach(1, 0, shuffle=11, rate=1.0)
    created.access(1, 3)
    return created


def coscheduler():
    created = gangs.Coscheduler()
    created.create_pod("a", gangs.GangSpec("g", 2), 0)
    created.create_pod("b", "g", 0)
    created.assume_pod("a", 0, ["n"])
    return created


def hived():
    cell_types = {
        "NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True},
    }
    cell = {"cellType": "NODE", "cellAddress": "node"}
    owned = {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}
    physical = {"cellTypes": cell_types, "physicalCells": [cell]}
    created = HivedScheduler({"physicalCluster": physical, "virtualClusters": {"A": owned}})
    created.schedule("default/train", {"virtualCluster": "A", "leafCellNumber": 2})
    created.allocate("default/train")
    return created


def inspected(extender):
    return extender.handle("/v1/inspect/clusterstatus")


def saved(thing):
    return thing.to_bytes()


SHARING = [
    scheduler.Job(name, "a", 1, stages=stages)
    for name, stages in (("first", [2, 1]), ("second", [1, 1]))
]


def taking_turns():
    """Two jobs on the same GPUs; one of them is to end."""
    created = InterleavedGpus(SHARING)
    created.obey([scheduler.Start("first", ()), scheduler.Start("second", (), ("first",))], 0.0)
    created.speeds(0.0)
    created.end("second", 1.0)
    return created


def speeds_of(thing):
    return copy.deepcopy(thing).speeds(2.0)


CLAIM = {
    "metadata": {"name": "first"},
    "spec": {
        "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}
    },
}


def claims_cluster():
    created = dra.DraCluster()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n1", "pool": pool}
    spec["devices"] = [{"name": f"gpu-{i}"} for i in range(6)]
    created.update({"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
    created.update({"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec})
    created.commit(created.schedule([CLAIM]))
    return created


ACTING = {
    InterleavedGpus: (
        taking_turns,
        lambda it: it.end("first", 1.0),
        speeds_of,
    ),
    dra.ClaimDecision: (
        lambda: claims_cluster().schedule([CLAIM | {"metadata": {"name": "next"}}]),
        None,
        lambda it: (it.node, it.outcome, it.allocations, it.devices, it.entries, repr(it)),
    ),
    dra.ClaimFits: (
        lambda: claims_cluster().fits([CLAIM]),
        None,
        lambda it: (it.nodes, dict(it), it.reason("n1")),
    ),
    dra.DraCluster: (claims_cluster, lambda it: it.release("/first"), saved),
    scheduler.Scheduler: (running, lambda it: it.finish("first", 1.0), saved),
    cells.AffinityGroup: (lambda: RUNNING, None, repr),
    cells.BuddyAllocator: (allocator, lambda it: it.allocate(1), saved),
    cells.CellCluster: (lambda: cluster(RUNNING), lambda it: it.release("first"), saved),
    cells.NodeSet: (lambda: cells.NodeSet(["n1", "n2"]), None, set),
    cells.GroupDecision: (
        lambda: cluster(RUNNING).schedule(WAITING),
        None,
        lambda it: (it.request, it.outcome, it.placement, it.refusals, it.reason, repr(it)),
    ),
    cells.NodeOrderPolicy: (lambda: cells.NodeOrderPolicy(["c/0"]), None, vars),
    matching.Matcher: (matcher, lambda it: it.set_vertex(2, np.zeros(9)), matched),
    interleaving.Grouper: (
        grouper,
        lambda it: it.add("tune", [3.0, 1.0], gpus=4),
        lambda it: (len(it), [group.jobs for group in it.copy().groups()]),
    ),
    interleaving.GroupingCache: (grouping_cache, None, grouped),
    caching.UniformCache: (uniform_cache, lambda it: it.access("text", [5]), saved),
    caching.UniformMapping: (mapping, lambda it: it.pop("a"), lambda it: list(it.items())),
    caching.PolicyCache: (
        lambda: caching.PolicyCache("lru", items=4, capacity=2),
        lambda it: it.access([0, 1]),
        saved,
    ),
    caching.ClairvoyantCache: (clairvoyant, lambda it: it.access(1, 2), saved),
    caching.EpochShuffle: (
        lambda: caching.EpochShuffle(seed=7, items=20),
        None,
        lambda it: it.order(3).tolist(),
    ),
    storage.RemoteIOLimiter: (limiter, lambda it: it.take(0, 30, now_ns=0), saved),
    quotas.QuotaTree: (quota_tree, lambda it: it.release("first"), saved),
    quotas.QuotaDecision: (
        lambda: quota_tree().schedule(quotas.QuotaRequest("second", "a", {"gpu": 4})),
        None,
        lambda it: (it.request, it.outcome, it.placement, it.refusal, it.victims, repr(it)),
    ),
    quotas.OveruseMonitor: (
        overuse_monitor,
        lambda it: it.observe(quotas.QuotaTree([]), 3),
        lambda it: observed(copy.deepcopy(it), 6),
    ),
    quotas.UsageHistory: (
        usage_history,
        lambda it: it.record("a", 2, 0),
        lambda it: it.usage("a", 4),
    ),
    topology.NetworkTopology: (network, lambda it: it.release("first"), saved),
    replicas.ReplicaAwareCache: (replica_cache, lambda it: it.access(5), saved),
    replicas.ReplicaDirectory: (directory, lambda it: it.report(0, added=[4]), saved),
    queues.TenantQueues: (
        tenant_queues,
        lambda it: it.next(3),
        lambda it: (it.to_bytes(), [job.name for job in it]),
    ),
    queues.NamespaceQuota: (
        namespace_quota,
        lambda it: it.forget("first"),
        lambda it: (it.to_bytes(), it.assumed),
    ),
    gangs.Coscheduler: (
        coscheduler,
        lambda it: it.delete_pod("a", 1),
        saved,
    ),
    HivedScheduler: (hived, lambda it: it.delete("default/train"), saved),
    Extender: (
        lambda: Extender(hived()),
        lambda it: it.scheduler.delete("default/train"),
        inspected,
    ),
    devices.DeviceCluster: (
        lambda: shared_gpus("first"),
        lambda it: it.release("first"),
        lambda it: (it.to_bytes(), it.schedule(ASKED).placement),
    ),
    devices.DeviceDecision: (
        lambda: shared_gpus().schedule(ASKED),
        None,
        lambda it: (it.request, it.outcome, it.node, it.placement, it.victims, repr(it)),
    ),
    dra.Selector: (lambda: dra.compile_selector("device.driver == 'd'"), None, hash),
    devices.TaskMix: (lambda: devices.TaskMix.of([ASKED]), None, repr),
    slurm.SlurmTopology: (
        lambda: slurm.SlurmTopology("block", network(), block_sizes=[2, 4]),
        None,
        lambda it: (it.plugin, it.network.to_bytes(), it.name, it.block_sizes),
    ),
    live.Broker: (
        lambda: live.Broker(scheduler.Scheduler(), silent),
        lambda it: it.scheduler.submit(scheduler.Job("a", "t", 1), 0.0),
        lambda it: (it.scheduler.to_bytes(), it.step(it.scheduler.now), it.problems),
    ),
    live.Shadow: (
        lambda: live.Shadow(scheduler.Scheduler(immediate=True), silent),
        lambda it: it.scheduler.submit(scheduler.Job("a", "t", 1), 0.0),
        lambda it: (it.scheduler.to_bytes(), it.rows),
    ),
    gpushare.Extender: (
        lambda: gpushare.Extender(shared_gpus("first"), "MiB"),
        lambda it: it._books.release("first"),
        lambda it: it.handle("/gpushare-scheduler/inspect"),
    ),
}

# --- the others hold fields, or say what is wrong

ERRORS = {
    NoPerfectMatchingError: ("why", [1], [[0], [2], [3]]),
    ConfigError: ([("path", "why")],),
    traces.TraceFormatError: ("why", "jobs.csv", 7, "gpus"),
}


def hollow(created):
    """An instance whose fields are what no constructor would let pass, each another one."""
    if issubclass(created, tuple):
        return created._make(created._fields)
    if issubclass(created, Struct):
        return created(**{name: [name] for name in created.__struct_fields__})
    thing = object.__new__(created)
    for field in dataclasses.fields(created):
        object.__setattr__(thing, field.name, [field.name])
    return thing


TAINT = dra.Taint("broken", "NoSchedule")

#: Records that check what they are made of, also where a pickle is read.
CHECKED = {
    cells.Chain: cells.Chain(["gpu", "node"], [8], 2),
    cells.ClusterSpec: cells.ClusterSpec({"a": cells.Chain(["node"], [], 2)}, {}),
    devices.Device: devices.Device("gpu", 0, {"core": 100}, numa=1, labels={"net": "a"}),
    devices.DeviceAllocation: devices.DeviceAllocation("gpu", 0, {"core": 50}, template="half"),
    devices.DeviceNeed: devices.DeviceNeed("rdma", 2, {"share": 50}, selector={"net": "a"}),
    devices.DeviceRequest: ASKED,
    devices.GpuLinks: devices.GpuLinks([[0, 2], [2, 0]]),
    devices.LabelExpression: devices.LabelExpression("net", "In", ["b", "a"]),
    devices.NodeDevices: devices.NodeDevices.uniform(2, nics=1, functions=2),
    devices.NumaHint: devices.NumaHint([1, 0], True),
    devices.Partition: devices.Partition([1, 0], 2),
    devices.PartitionTable: devices.PartitionTable.of_model("H100"),
    devices.ShareTemplate: devices.ShareTemplate("half", {"core": 50}),
    devices.ShareTemplates: devices.ShareTemplates([devices.ShareTemplate("half", {"core": 50})]),
    devices.Task: devices.Task(50, True, 1, 0, ()),
    devices.VirtualFunction: devices.VirtualFunction("a:0"),
    devices.VirtualFunctionGroup: devices.VirtualFunctionGroup(["a:0"], {"net": "a"}),
    dra.Attribute: dra.Attribute(strings=("x", "y")),
    dra.Capacity: dra.Capacity(Fraction(1, 3)),
    dra.CapacityPolicy: dra.CapacityPolicy(Fraction(2), (Fraction(1), Fraction(2))),
    dra.CapacityRange: dra.CapacityRange(Fraction(1), Fraction(9), Fraction(2)),
    dra.CelSelector: dra.CelSelector("device.driver == 'd'"),
    dra.Device: dra.Device("gpu-0", {"model": dra.Attribute(string="a")}, taints=(TAINT,)),
    dra.DeviceConstraint: dra.DeviceConstraint(("gpus",), match_attribute="d/model"),
    dra.DeviceRequest: dra.DeviceRequest("gpus", exactly=dra.ExactDeviceRequest("gpu")),
    dra.DeviceSubRequest: dra.DeviceSubRequest(device_class_name="gpu", name="large"),
    dra.ExactDeviceRequest: dra.ExactDeviceRequest("gpu", admin_access=True),
    dra.NodeSelectorTerm: dra.NodeSelectorTerm((dra.NodeSelectorRequirement("zone", "Exists"),)),
    dra.ResourceClaim: dra.ResourceClaim("claim", "team"),
    dra.ResourcePool: dra.ResourcePool("pool", 3, 1),
    dra.ResourceSlice: dra.ResourceSlice(
        "slice", "d", dra.ResourcePool("pool", 3, 1), "node", devices=(dra.Device("gpu-0"),)
    ),
    gangs.GangSpec: gangs.GangSpec("workers", 2, groups=["servers"]),
    gangs.RunningPod: gangs.RunningPod("pod", "n1", 3),
    koordinator.ElasticQuotas: koordinator.ElasticQuotas(
        (quotas.Quota("a", max={"gpu": 8}),), namespaces={"b": "a"}
    ),
    koordinator.GpuSharing: koordinator.GpuSharing(
        {"huawei-310P": devices.ShareTemplates([devices.ShareTemplate("half", {"core": 50})])},
        unshareable=[("nvidia", "H100")],
    ),
    kueue.TopologyAssignment: kueue.TopologyAssignment(["rack"], [(["r1"], 2), (["r2"], 1)]),
    queues.Capacity: queues.Capacity(2, [(10, 4), (5, 2)]),
    queues.QueuedJob: queues.QueuedJob("train", "a", 8, resources={"gpu": 8}),
    quotas.Quota: quotas.Quota("a", max={"gpu": 8}, min={"gpu": 0.25}),
    quotas.QuotaRequest: quotas.QuotaRequest("train", "a", {"gpu": 8}, count=2),
    scheduler.Data: scheduler.Data("images", 9.5),
    scheduler.Fit: scheduler.Fit("train"),
    scheduler.FreeDomain: scheduler.FreeDomain("rack"),
    scheduler.Fragments: scheduler.Fragments([1, 8]),
    scheduler.FreeNodes: scheduler.FreeNodes(["n2", "n1"]),
    scheduler.EvictionLimit: scheduler.EvictionLimit("a", min_run_time=60.0, per_hour=3),
    scheduler.Job: scheduler.Job("train", "a", 3, quota="b", run_time=5.0),
    scheduler.Role: scheduler.Role("worker", 4, min_pods=2, max_pods=8, spares=1, devices=ASKED),
    scheduler.Sharing: scheduler.Sharing(4, 3),
    scheduler.StoragePool: scheduler.StoragePool({"images": 9.5}, 5.0, None),
    scheduler.Where: scheduler.Where(multiple={"rack": 2}, nodes=["n1"]),
    storage.StorageJobs: storage.StorageJobs(["a", "b"], [1.0, 2.0], running=[True, False]),
    topology.TopologyRequest: topology.TopologyRequest("train", 4, multiple={"rack": 2}),
    topology.TopologyRole: topology.TopologyRole("leader", 1, {"cpu": 0.25}),
    traces.GpuNodes: traces.GpuNodes(["n1", "n2"], [8, 8], [4, 4], [2, 1], ["A100", "T4"]),
    traces.GpuPods: traces.GpuPods(
        ["a", "b"], [1, 1], [2, 2], [1, 2], [500, 1000], (frozenset(), {"T4"}), created=[1.0, 2.0]
    ),
    traces.Trace: traces.Trace.from_columns(["a", "b"], ["x", "y"], [0.0, 3.0], [1.0, 2.0], [1, 8]),
}


def fields_of(thing):
    if isinstance(thing, tuple):
        return thing
    if isinstance(thing, Struct):
        return [value.tolist() if hasattr(value, "tolist") else value for value in astuple(thing)]
    return [getattr(thing, field.name) for field in dataclasses.fields(thing)]


def recipe(created):
    if created in ACTING:
        return ACTING[created]
    if issubclass(created, (HivecoreError, Warning)):
        arguments = ERRORS.get(created, ("why",))
        return (lambda: created(*arguments)), None, lambda it: (str(it), vars(it))
    if created in CHECKED:
        return (lambda: CHECKED[created]), None, fields_of
    known = dataclasses.is_dataclass(created) or issubclass(created, (tuple, Struct))
    assert known, "add a line to ACTING"
    return (lambda: hollow(created)), None, fields_of


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("created", PUBLIC, ids=PUBLIC.values())
def test_a_copy_is_equal_and_goes_its_own_way(created, how):
    make, change, look = recipe(created)
    thing = make()
    before = look(thing)
    other = HOW[how](thing)
    assert type(other) is type(thing)
    assert look(other) == before
    if change is None:
        return
    change(other)
    assert look(thing) == before != look(other)
    again = HOW[how](thing)
    change(thing)
    assert look(again) == before != look(thing)
    for item in (thing, other, again):
        if hasattr(item, "check"):
            item.check()


SAVED = [created for created in ACTING if hasattr(created, "from_bytes")]


@pytest.mark.parametrize("created", SAVED, ids=lambda created: created.__name__)
def test_damaged_bytes_of_a_state_are_refused(created):
    damaged_bytes_are_refused(ACTING[created][0])


# --- a decision is carried out wherever it still fits, and nowhere else


@pytest.mark.parametrize("how", HOW)
def test_a_copied_decision_binds_in_the_cluster_and_in_its_copies(how):
    where = cluster(RUNNING)
    decision = where.schedule(WAITING)
    other = HOW[how](decision)
    for created in (where.copy(), HOW["pickle"](where), where):
        created.commit(other)
        created.check()
        assert created.group("second").placement == decision.placement
        with pytest.raises(StaleDecisionError, match="live already"):
            created.commit(other)
    both, moved = HOW["pickle"]((cluster(RUNNING), decision))
    both.commit(moved)
    assert both.group("second").placement == decision.placement


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.commit(it.schedule(cells.AffinityGroup("x", "A", [(1, 2)]))),
        lambda it: it.set_health("c/0", False),
        lambda it: it.reconfigure(cells.ClusterSpec({"d": it.spec.chains["c"]}, {"A": {}})),
        lambda it: it.reconfigure(cells.ClusterSpec(it.spec.chains, {"B": {"c": {"node": 1}}})),
    ],
)
def test_a_copied_decision_is_stale_where_the_state_has_moved_on(change):
    where = cluster(RUNNING)
    decision = HOW["pickle"](where.schedule(WAITING))
    change(where)
    before = where.to_bytes()
    with pytest.raises(StaleDecisionError):
        where.commit(decision)
    assert where.to_bytes() == before
    where.check()


def test_a_copy_of_a_stale_decision_is_stale_too():
    where = cells.CellCluster(specification())
    lazy = cells.AffinityGroup("lazy", "A", [(1, 4)], priority=1, lazy_preemption=True)
    urgent = cells.AffinityGroup("urgent", "A", [(1, 4)], priority=5)
    where.commit(where.schedule(lazy))
    decision = where.schedule(urgent)
    assert decision.downgrades == ("lazy",)
    where.release("lazy")
    where.commit(where.schedule(lazy))  # another group of this name, at the same place
    for how in HOW.values():
        with pytest.raises(StaleDecisionError):
            where.copy().commit(how(decision))


def test_a_copied_decision_takes_cells_only_from_the_groups_that_it_was_made_with():
    spec = specification()
    lazy = cells.AffinityGroup("lazy", "A", [(1, 4)], lazy_preemption=True)
    urgent = cells.AffinityGroup("urgent", "A", [(1, 4)], priority=5, lazy_preemption=True)
    where = cells.CellCluster(spec)
    where.commit(where.schedule(cells.AffinityGroup("gone", "A", [(1, 1)], priority=-1)))
    where.commit(where.schedule(lazy))
    where.release("gone")  # so that the restored cluster counts its groups otherwise
    decision = where.schedule(urgent)
    assert decision.downgrades == ("lazy",)

    carried = HOW["pickle"](decision)
    for created in (where.copy(), HOW["pickle"](where)):
        created.commit(carried)
        created.check()
        assert created.group("lazy").lazy_preempted_by == "urgent"

    where.release("lazy")
    where.commit(where.schedule(cells.AffinityGroup("lazy", "A", [(1, 4)], priority=9)))
    before = where.to_bytes()
    with pytest.raises(StaleDecisionError, match="meanwhile"):
        where.commit(carried)
    with pytest.raises(StaleDecisionError):
        where.commit(HOW["pickle"](decision))  # copied when it was stale already
    assert where.to_bytes() == before


def test_a_decision_made_up_harms_nothing():
    where = cluster(RUNNING)
    made_up = copy.copy(where.schedule(WAITING))
    created, arguments = made_up.__reduce__()
    plan = made_up._plan
    before = where.to_bytes()
    for wrong in (
        {"pods": [[0]]},
        {"pods": [[2**40]]},
        {"pods": [[2, 2]]},
        {"pods": []},
        {"virtual": None},
        {"virtual": [[(7, 0)]]},
        {"virtual": [[]]},
        {"touched": [None]},
    ):
        changed = plan._replace(**wrong)
        wrong_decision = created(*[changed if given is plan else given for given in arguments])
        with pytest.raises(StaleDecisionError):
            where.commit(wrong_decision)
        assert where.to_bytes() == before
    where.check()


# --- matchers keep their answer


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", [np.int64, float])
def test_a_copied_matcher_goes_on_as_the_original(how, dtype):
    item = matcher(dtype)
    item.set_edge(0, 1, dtype(2**40))
    answer = matched(item)
    other = HOW[how](item)
    assert matched(other) == answer
    assert other.add_vertex(np.ones(9, dtype)) == item.add_vertex(np.ones(9, dtype)) == 4
    assert other.solve().weight == item.solve().weight
    other.check()
    item.check()
