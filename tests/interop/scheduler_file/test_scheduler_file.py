"""One YAML file for a cluster: what becomes of it, and what every mistake is called."""

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from hivecore.cells import CellCluster
from hivecore.interop.events.overview import plain_overview
from hivecore.interop.hived import ConfigError
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.queues import QueuedJob
from hivecore.scheduler import Data, EvictionLimit, Job, Reject, Role, Sharing, Start, Where

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

MODELS = "cluster:\n  models: {small: {gpus: 4, resources: {cpu: 32, memory: 1Ti}}}\n"
NODES = MODELS + "  nodes: {'n[0-3]': small}\n"
QUOTA = NODES + "tenants: {a: {quota: {max: {gpu: 4}}}}\n"
CELLS = NODES + "  cells: {c: {levels: [gpu, node], fanouts: [4], nodes: 'n[0-3]'}}\n"


def problems(text, name="cluster.yaml"):
    with pytest.raises(ConfigError) as error:
        SchedulerSpec.of_yaml(text, name)
    return [f"{where}: {what}" for where, what in error.value.problems]


def started(scheduler, job, now=0.0):
    """The nodes of a job that starts at once."""
    scheduler.submit(job, now)
    (action,) = (entry for entry in scheduler.decide(now) if isinstance(entry, Start))
    assert action.job == job.name
    scheduler.check()
    return [pod.node for pod in action.pods]


def test_without_its_bandwidth_the_network_shares_out_remote_io():
    pool = SchedulerSpec.of_yaml(NODES + "storage: {cache_gb: 1}").storage
    assert pool is not None and pool.bandwidth_mbps is None


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="only the installed package is here")
def test_the_example_runs_jobs_with_cells_quotas_devices_and_data():
    spec = SchedulerSpec.read(EXAMPLES / "cluster.yaml")
    assert len(spec.nodes) == 64
    assert spec.tenants == ("research", "vision", "speech", "product")
    scheduler = spec.scheduler()
    data = Data("imagenet", 500.0)
    scheduler.submit(Job("train", "vision", [Role("w", 17, gpus=8)], data=data), 0.0)
    scheduler.submit(Job("serve", "product", [Role("w", 17, gpus=8)]), 0.0)
    results = {action.job: action for action in scheduler.decide(0.0) if hasattr(action, "job")}
    assert len(results["train"].pods) == 17
    assert results["train"].pods[0].devices
    assert results["serve"].reason == "asks for 136 of 'gpu', and max of 'product' is 128"
    assert scheduler.quotas.total() == {"gpu": 512}


def test_device_claims_need_no_cluster_and_take_objects_of_a_file(tmp_path):
    assert SchedulerSpec.of_yaml("claims:").scheduler().claims.nodes == ()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    spec = {"driver": "gpu.x", "pool": pool, "nodeName": "n1", "devices": devices}
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu"}}
    document = {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}}
    objects = [
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    ]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    text = "claims: {mode: fewest blocks}"
    assert SchedulerSpec.of_yaml(text).scheduler(tries=2).claims_mode == "fewest blocks"
    for text in ("claims:", "claims: {mode: }"):
        assert SchedulerSpec.of_yaml(text).scheduler().claims_mode == "first"
    (tmp_path / "cluster.yaml").write_text("claims: {kubernetes: '1.34', objects: objects.yaml}")
    scheduler = SchedulerSpec.read(tmp_path / "cluster.yaml").scheduler()
    assert started(scheduler, Job("j", "t", [Role("w", 2, claims=[document])])) == ["n1", "n1"]
    objects[0]["spec"]["nodeName"] = 3
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    with pytest.raises(ConfigError, match=r"claims.objects: .*objects.yaml: ResourceSlice 's'"):
        SchedulerSpec.read(tmp_path / "cluster.yaml")


def test_each_scheduler_of_a_file_has_parts_of_its_own():
    spec = SchedulerSpec.of_yaml(CELLS + "tenants: {a: {cells: {c: {node: 4}}}}\ndevices:\n")
    first, second = spec.scheduler(), spec.scheduler()
    started(first, Job("j", "a", 4))
    assert not second.devices.owners("n0")
    assert started(second, Job("j", "a", 4)) == ["n0"]


def test_options_of_a_scheduler_count_more_than_the_file(tmp_path):
    limits = "eviction_limits: {vision: {min_run_time: 60}, '*': {per_hour: 4}}"
    settings = "{preemption: no, growing: yes, reservation_seconds: 90, " + limits + "}"
    spec = SchedulerSpec.of_yaml(NODES + f"devices:\nscheduler: {settings}\n")
    assert not spec.preemption and spec.growing and spec.reservation_seconds == 90.0
    limits = EvictionLimit("vision", min_run_time=60), EvictionLimit(per_hour=4)
    assert spec.eviction_limits == limits
    with pytest.raises(ValueError, match="tries=0"):
        spec.scheduler(tries=0)
    scheduler = spec.scheduler(log=tmp_path / "log")
    scheduler.close()
    assert (tmp_path / "log").exists()


def test_layers_by_number_of_nodes_and_by_names_place_the_pods():
    by_number = SchedulerSpec.of_yaml(NODES + "  network: {layers: {block: 4, rack: 2}}\n")
    assert by_number.topology.domain("n3") == ("block0", "rack1", "n3")
    halves = "{first: 'n[0,2]', second: 'n[1,3]'}"
    both = (
        f"  network: {{layers: {{block: {{x: 'n[0-1]', y: 'n[2-3]'}}, half: {halves}, host: 1}}}}\n"
    )
    assert SchedulerSpec.of_yaml(NODES + both).topology.domain("n3")[:3] == ("y", "second", "host3")
    racks = "{east: 'n[0,3]', west: 'n[1-2]'}"
    by_name = SchedulerSpec.of_yaml(NODES + f"  network: {{layers: {{rack: {racks}}}}}\n")
    gang = [Role("w", 2, gpus=4)]
    assert started(by_name.scheduler(), Job("j", "a", gang, where=Where(must="rack"))) in (
        ["n0", "n3"],
        ["n1", "n2"],
    )
    assert by_name.topology.free("n0") == {"cpu": 32_000, "gpu": 4, "memory": 1 << 40}


def test_tenants_weights_order_their_queues():
    text = NODES + "tenants: {a: {weight: 3}, b: {}}\nqueues: {order: weighted}\n"
    queues = SchedulerSpec.of_yaml(text).scheduler().queues
    for i in range(8):
        for tenant in "ab":
            queues.push(QueuedJob(f"{tenant}{i}", tenant, 1), now=0)
    served = "".join(queues.next(now=0).job.tenant for _ in range(8))
    assert served.count("a") == 6


def test_without_queues_the_whole_cluster_is_one_queue():
    assert SchedulerSpec.of_yaml(NODES).queues is None
    assert SchedulerSpec.of_yaml(NODES + "queues: {order: priority}").queues is None
    assert SchedulerSpec.of_yaml(NODES + "queues:\n").queues is not None


@pytest.mark.parametrize(
    ("order", "starts"), [("sjf", ["wide", "long"]), ("srsf", ["long", "wide"])]
)
def test_jobs_of_all_tenants_may_be_ordered_by_what_they_need(order, starts):
    text = NODES + f"  network: {{layers: {{rack: 4}}}}\nqueues: {{order: {order}}}\n"
    scheduler = SchedulerSpec.of_yaml(text).scheduler()
    gangs = {pods: [Role("w", pods, gpus=4)] for pods in (3, 4)}
    started(scheduler, Job("first", "c", gangs[4]))
    scheduler.submit(Job("unknown", "a", gangs[4]), 0.0)
    scheduler.submit(Job("wide", "a", gangs[4], run_time=10), 0.0)
    scheduler.submit(Job("long", "b", gangs[3], run_time=12), 0.0)
    for before, after in pairwise(["first", *starts, "unknown"]):
        scheduler.finish(before, 1.0)
        assert [entry.job for entry in scheduler.decide(1.0) if isinstance(entry, Start)] == [after]
        scheduler.check()


def test_ageing_is_priority_per_second_of_waiting():
    text = NODES + "queues: {ageing: 0.5}\n"
    scheduler = SchedulerSpec.of_yaml(text).scheduler()
    queues = scheduler.queues
    queues.push(QueuedJob("early", "a", 1, priority=0), now=0)
    queues.push(QueuedJob("late", "a", 1, priority=1), now=3_000_000)
    assert queues.next(now=3_000_000).job.name == "early"
    for ageing in ("1e-09", "0.0001", "0.0123"):
        with pytest.raises(ConfigError, match=rf"queues\.ageing: {ageing} is too fine"):
            SchedulerSpec.of_yaml(NODES + f"queues: {{ageing: {ageing}}}\n")


def test_a_quota_tree_shares_out_what_the_nodes_have_or_what_is_said():
    tenants = "tenants:\n  lab: {quota: {max: {gpu: 16, cpu: 64}}}\n"
    tenants += "  a: {quota: {parent: lab, max: {gpu: 12, cpu: 8}, min: {gpu: 2}, lends: no}}\n"
    tree = SchedulerSpec.of_yaml(NODES + tenants).quotas
    assert tree.total() == {"gpu": 16, "cpu": 128_000}
    assert tree.quota("a").parent == "lab"
    assert not tree.quota("a").lends
    assert dict(tree.quota("a").max)["cpu"] == 8000
    tree = SchedulerSpec.of_yaml(NODES + tenants + "quotas: {total: {gpu: 9}, limit: max}").quotas
    assert tree.total() == {"gpu": 9}


def test_quotas_that_nothing_gives_a_total_are_remarked():
    text = "tenants: {a: {quota: {max: {gpu.x: 4}}}}\nclaims:\n"
    spec = SchedulerSpec.of_yaml(text)
    assert spec.remarks == (
        "quotas.total: is missing, and no nodes say it: it is 0 until it is set",
    )
    spec = SchedulerSpec.of_yaml(text + "quotas: {total: {gpu.x: 4}}\n")
    assert (spec.quotas.total(), spec.remarks) == ({"gpu.x": 4}, ())


def test_a_tenant_without_a_quota_beside_quotas_is_remarked(tmp_path):
    remarks = ("tenants.b: has no quota: its jobs must name another",)
    assert SchedulerSpec.of_yaml(QUOTA.replace("}}}}", "}}}, b: }")).remarks == remarks
    name = with_quota(tmp_path, {"cpu": 6})
    text = NODES + "tenants: {a: , b: }\nquotas: {koordinator: quotas.yaml}\n"
    spec = SchedulerSpec.of_yaml(text, name)
    assert spec.remarks == remarks
    scheduler = spec.scheduler()
    scheduler.submit(Job("j", "b", gpus=1), 0.0)
    assert scheduler.decide(0.0) == [Reject("j", "there is no quota 'b'")]


def test_processors_and_memory_of_a_model_are_a_device_that_pods_may_ask_for():
    spec = SchedulerSpec.of_yaml(NODES + "devices: {policy: fgd}\n")
    (host,) = spec.devices.inventory("n0").of_type("host")
    assert dict(host.amounts) == {"cpu": 32_000, "memory": 1 << 40}


def test_jobs_with_stages_share_on_the_terms_of_the_file():
    text = NODES + "devices:\nsharing: {resources: 2, max_slowdown: 1.5, min_gain: 0.2}\n"
    spec = SchedulerSpec.of_yaml(text)
    assert spec.sharing == Sharing(2, min_gain=0.2, max_slowdown=1.5)
    scheduler = spec.scheduler()
    for name, stages in (("reads", [3, 1]), ("computes", [1, 3])):
        job = Job(name, "a", [Role("w", 4, gpus=4)], stages=stages)
        assert started(scheduler, job) == ["n0", "n1", "n2", "n3"]
    assert SchedulerSpec.of_yaml(NODES).sharing is None


def test_pinned_cells_are_owned():
    pin = "{chain: c, level: node, index: 2}"
    text = CELLS + f"tenants: {{a: {{cells: {{c: {{node: 1}}}}, pinned_cells: {{p: {pin}}}}}}}\n"
    job = Job("j", "a", 4, where=Where(pinned_cell="p"))
    assert started(SchedulerSpec.of_yaml(text).scheduler(), job) == ["n2"]


@pytest.mark.parametrize("devices", ["", "devices:\n"])
def test_chains_of_the_same_nodes_have_different_gpus_of_them(devices):
    halves = {"c": "n[0-3]", "d": "n[2-3]", "e": "n[0-1]"}
    chains = [
        f"{c}: {{levels: [gpu, node], fanouts: [2], nodes: '{n}'}}" for c, n in halves.items()
    ]
    text = NODES + f"  cells: {{{', '.join(chains)}}}\n" + devices
    spec = SchedulerSpec.of_yaml(
        text + "tenants: {a: {cells: {c: {node: 4}, d: {node: 2}, e: {node: 2}}}}"
    )
    scheduler = spec.scheduler()
    for i in range(8):
        scheduler.submit(Job(f"{i}", "a", 2), now=0.0)
    pods = [pod for action in scheduler.decide(now=0.0) for pod in action.pods]
    given = sorted((pod.node, gpu) for pod in pods for gpu in pod.gpus)
    assert given == [(f"n{i}", gpu) for i in range(4) for gpu in range(4)]
    shown = [node for group in plain_overview(scheduler)["groups"] for node in group["nodes"]]
    assert [node[:3] for node in shown] == [[f"n{i}", 4, 4] for i in range(4)]


@pytest.mark.parametrize("evictions", ["packing", "least", "private"])
def test_cells_weigh_evictions_as_the_file_says(evictions):
    text = CELLS + f"scheduler: {{evictions: {evictions}}}\n"
    cells = SchedulerSpec.of_yaml(text).scheduler().cells
    assert cells.to_bytes() == CellCluster(cells.spec, evictions=evictions).to_bytes()


# --- other files


def written(folder, **files):
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)
    return str(folder / "cluster.yaml")


def with_quota(folder, most, total=None, **spec):
    """A file beside an ElasticQuota, of a tree of its own if it has a total."""
    quota = {"kind": "ElasticQuota", "metadata": {"name": "a"}, "spec": {"max": most, **spec}}
    if total is not None:
        prefix = "quota.scheduling.koordinator.sh/"
        quota["metadata"]["labels"] = {f"{prefix}is-root": "true", f"{prefix}tree-id": "t"}
        quota["metadata"]["annotations"] = {f"{prefix}total-resource": json.dumps(total)}
    return written(folder, quotas_yaml=json.dumps([quota]))


HIVED = """\
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n0}
  - {cellType: NODE, cellAddress: n1}
virtualClusters:
  a:
    virtualCells:
    - {cellType: NODE, cellNumber: 2}
"""


def test_cells_may_stand_in_hiveds_file(tmp_path):
    name = written(tmp_path, hived_yaml=HIVED)
    text = MODELS + "  nodes: {'n[0-1]': small}\n  cells: {hived: hived.yaml}\n"
    spec = SchedulerSpec.of_yaml(text + "tenants: {b: {weight: 2}}\nqueues:\ndevices:\n", name)
    assert spec.tenants == ("b", "a")
    assert started(spec.scheduler(), Job("j", "a", [Role("w", 2, gpus=4)])) == ["n0", "n1"]
    owned = text + "tenants: {a: {cells: {NODE: {NODE: 1}}}}\n"
    (problem,) = problems(owned, name)
    assert problem.endswith(":5: tenants.a.cells: is what virtualClusters of HiveD's file says")


def test_mistakes_in_hiveds_file_have_its_name_and_their_line(tmp_path):
    name = written(tmp_path, hived_yaml=HIVED.replace("cellNumber: 2", "cellNumber: two"))
    (problem,) = problems("cluster: {cells: {hived: hived.yaml}}", name)
    assert problem.startswith(
        f"{tmp_path / 'hived.yaml'}:10: virtualClusters.a.virtualCells[0].cellNumber: must be"
    )
    (problem,) = problems("cluster: {cells: {hived: none.yaml}}", name)
    assert problem.startswith(f"{name}:1: cluster.cells.hived: {tmp_path / 'none.yaml'}: No such")


def test_a_network_may_stand_in_slurms_files(tmp_path):
    conf = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\n"
    block = {"block_sizes": [2], "blocks": [
        {"block": f"b{i}", "nodes": f"n[{2 * i}-{2 * i + 1}]"} for i in range(2)]}  # fmt: skip
    more = {"topology": "two", "tree": {"switches": [{"switch": "s", "nodes": "n[0-3]"}]}}
    yaml = json.dumps([{"topology": "one", "block": block}, more])
    name = written(tmp_path, topology_conf=conf, topology_yaml=yaml)
    text = NODES + "  network: {slurm: topology.%s}\n"
    assert SchedulerSpec.of_yaml(text % "conf", name).topology.domain("n2") == ("s1", "n2")
    (problem,) = problems(text % "yaml", name)
    assert "which topology is meant? There are one, two" in problem
    named = (text % "yaml").replace("topology.yaml}", "topology.yaml, topology: one}")
    assert SchedulerSpec.of_yaml(named, name).topology.domain("n2") == ("b1", "n2")
    (tmp_path / "topology.conf").write_text("SwitchName=s0 Nodes=n[0-9]\n")
    (problem,) = problems(text % "conf", name)
    assert problem.endswith(
        "cluster.network.slurm: the node 'n4' and 5 more are not in cluster.nodes"
    )
    (tmp_path / "topology.conf").write_text("\nNonsense=1\n")
    (problem,) = problems(text % "conf", name)
    assert f"{tmp_path / 'topology.conf'}: line 2: begins with Nonsense" in problem


def test_a_network_may_stand_in_what_scontrol_prints_and_in_included_files(tmp_path):
    leaves = "SwitchName=s0 Level=0 Nodes=n[0-1]\nSwitchName=s1 Level=0 Nodes=n[2-3]\n"
    (tmp_path / "leaves.conf").write_text(leaves)
    (tmp_path / "printed").write_text("Include leaves.conf\nSwitchName=s2 Switches=s[0-1]\n")
    name = str(tmp_path / "cluster.yaml")
    text = NODES + "  network: {slurm: printed}\n"
    assert SchedulerSpec.of_yaml(text, name).topology.domain("n2") == ("s2", "s1", "n2")
    (problem,) = problems(text.replace("printed}", "printed, topology: a}"), name)
    assert "has but one topology: `topology` is for topology.yaml" in problem
    (tmp_path / "printed").write_text("Include none.conf\n")
    (problem,) = problems(text, name)
    assert f"line 1: {tmp_path / 'none.conf'}: No such file" in problem


def test_an_oddity_of_slurms_file_is_a_warning_that_names_the_file(tmp_path):
    conf = "SwitchName=s0 Nodes=n[0-2]\nSwitchName=s1 Nodes=n[2-3]\n"
    name = written(tmp_path, topology_conf=conf)
    with pytest.warns(UserWarning) as caught:
        spec = SchedulerSpec.of_yaml(NODES + "  network: {slurm: topology.conf}\n", name)
    assert str(caught[0].message) == (
        f"{tmp_path / 'topology.conf'}: line 2: below 's0' already, and kept there: 'n2'"
    )
    assert spec.topology.domain("n2") == ("s0", "n2")


def nodes_with(label):
    return [
        {"kind": "Node", "metadata": {"name": f"n{i}", "labels": {label: f"r{i // 2}"}}}
        for i in range(4)
    ]


def test_a_network_may_stand_in_objects_of_kueue_and_koordinator(tmp_path):
    levels = [{"nodeLabel": "rack"}]
    kueue = [{"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}]
    layers = [
        {"topologyLayer": "Rack", "labelKey": ["rack"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Rack"},
    ]
    koordinator = {"kind": "ClusterNetworkTopology", "metadata": {"name": "default"}}
    koordinator["spec"] = {"networkTopologySpec": layers}
    name = written(
        tmp_path,
        kueue_yaml=json.dumps([*kueue, *nodes_with("rack")]),
        koordinator_yaml=json.dumps([koordinator, *nodes_with("rack")]),
        none_yaml=json.dumps(nodes_with("rack")),
    )
    for way in ("kueue", "koordinator"):
        text = NODES + f"  network: {{{way}: {way}.yaml}}\n"
        network = SchedulerSpec.of_yaml(text, name).topology
        assert network.domain("n2")[-2:] == ("r1", "n2")
        assert network.free("n2")["gpu"] == 4
    (problem,) = problems(NODES + "  network: {kueue: none.yaml}\n", name)
    assert problem.endswith("must have one object of kind Topology, not 0")


def test_devices_may_stand_in_koordinators_records(tmp_path):
    record = {
        "kind": "Device",
        "metadata": {"name": "n0"},
        "spec": {
            "devices": [
                {"type": "gpu", "minor": i, "health": True, "resources": {}} for i in range(2)
            ]
        },
    }
    name = written(tmp_path, devices_yaml=json.dumps([record]), none_yaml="[]")
    spec = SchedulerSpec.of_yaml("cluster: {}\ndevices: {koordinator: devices.yaml}\n", name)
    assert list(spec.nodes) == ["n0"]
    assert len(spec.devices.inventory("n0").of_type("gpu")) == 2
    (problem,) = problems("cluster: {}\ndevices: {koordinator: none.yaml}\n", name)
    assert "there is no object of kind Device" in problem
    (problem,) = problems(NODES + "devices: {koordinator: devices.yaml}\n", name)
    assert "the node is there twice" in problem


def test_quotas_may_stand_in_koordinators_objects(tmp_path):
    name = with_quota(tmp_path, {"nvidia.com/gpu": 6}, min={"nvidia.com/gpu": 2})
    text = NODES + "quotas: {koordinator: quotas.yaml}\n"
    spec = SchedulerSpec.of_yaml(text, name)
    assert dict(spec.quotas.quota("a").max) == {"gpu": 6}
    assert spec.quotas.total() == {"gpu": 16}
    (problem,) = problems(text + "tenants: {a: {quota: {max: {gpu: 1}}}}\n", name)
    assert "is what the file of quotas.koordinator says" in problem


def test_a_key_without_a_value_means_the_default_of_quotas_and_claims(tmp_path):
    quota, settings = "lends: , scales: , outside: ", "check_ancestors: , scale_min: , limit: "
    text = QUOTA.replace("gpu: 4}}", f"gpu: 4}}, {quota}}}")
    tree = SchedulerSpec.of_yaml(text + f"quotas: {{total: , guarantee: , {settings}}}\n").quotas
    usual = SchedulerSpec.of_yaml(QUOTA).quotas
    assert tree.quota("a") == usual.quota("a")
    assert tree.total() == usual.total() == {"gpu": 16}
    assert pickle.dumps(tree) == pickle.dumps(usual)
    name = with_quota(tmp_path, {"nvidia.com/gpu": 6})
    spec = SchedulerSpec.of_yaml(NODES + "quotas: {koordinator: quotas.yaml, gpu: }\n", name)
    assert (dict(spec.quotas.quota("a").max), spec.remarks) == ({"gpu": 6}, ())
    (problem,) = problems(NODES + "quotas: {koordinator: quotas.yaml, gpu: [x]}\n", name)
    assert "quotas.gpu: must be a string, not a list" in problem
    claims = SchedulerSpec.of_yaml("claims: {kubernetes: , gates: {DRAAdminAccess: }}").claims
    assert pickle.dumps(claims) == pickle.dumps(SchedulerSpec.of_yaml("claims:").claims)


def test_a_total_of_too_many_resources_in_koordinators_objects_is_a_mistake(tmp_path):
    name = with_quota(tmp_path, {"cpu": 1}, {f"r{i}": 1 for i in range(70)})
    (problem,) = problems(NODES + "quotas: {koordinator: quotas.yaml}\n", name)
    assert "there are 64 already" in problem


def test_other_names_of_gpus_in_koordinators_objects_limit_nothing_and_are_named(tmp_path):
    most = {"nvidia.com/gpu": 6, "amd.com/gpu": 6}
    name = with_quota(tmp_path, most, min={"amd.com/gpu": 6})
    spec = SchedulerSpec.of_yaml(NODES + "quotas: {koordinator: quotas.yaml}\n", name)
    assert dict(spec.quotas.quota("a").max) == {"gpu": 6}
    assert "amd.com/gpu limits nothing here: GPUs are nvidia.com/gpu" in spec.remarks[0]
    assert spec.scheduler() is not None


@pytest.mark.parametrize("at", ["max", "total"])
def test_two_names_of_the_same_gpus_in_one_of_koordinators_objects_are_a_mistake(tmp_path, at):
    both = {"nvidia.com/gpu": 6, "gpu": 8}
    most = both if at == "max" else {"nvidia.com/gpu": 6}
    name = with_quota(tmp_path, most, both if at == "total" else None)
    (message,) = problems(NODES + "quotas: {koordinator: quotas.yaml}\n", name)
    assert "has both gpu and nvidia.com/gpu" in message


@pytest.mark.parametrize(
    ("models", "remarks"),
    [
        (
            "{a: {gpus: 1, resources: {cpu: 1}}, b: {gpus: 1, resources: {cpus: 1}}}",
            ["cluster.models.b.resources.cpus: is cpu meant, which this model lacks?"],
        ),
        (
            "{a: {gpus: 1, resources: {cpuu: 1}}}",
            ["cluster.models.a.resources.cpuu: is cpu meant, which this model lacks?"],
        ),
        ("{a: {gpus: 1, resources: {mig-1g: 1}}, b: {gpus: 1, resources: {mig-2g: 1}}}", []),
        ("{a: {gpus: 1, resources: {cpus: 1}}, b: {gpus: 1, resources: {cpus: 1}}}", []),
        ("{a: {gpus: 1, resources: {cpu: 1, cpus: 1}}}", []),
        ("{a: {gpus: 1, resources: {licenses: 1}}, b: {gpus: 1}}", []),
    ],
)
def test_a_resource_of_a_model_that_may_be_a_typo_is_a_remark(models, remarks):
    text = f"cluster:\n  models: {models}\n  nodes: {{n0: a}}\n"
    assert list(SchedulerSpec.of_yaml(text).remarks) == remarks


# --- mistakes


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "must be a mapping with the key cluster, not nothing"),
        ("- 1", 1, "must be a mapping with the key cluster, not a list"),
        ("tenants: {}", 1, "cluster: is missing; it has models, nodes, cells, network"),
        ("cluster: {}", 1, "cluster: must have nodes or cells"),
        ("cluster:\n  a: b: c", 2, "is no YAML: line 2"),
        ("cluster:\n  nodes: {n: x}", 2, "cluster.nodes.n: there is no model 'x'"),
        (NODES + "clutser: 1", 4, "clutser: is none of cluster, tenants"),
        (MODELS + "  nodes: {'n[2-1]': small}", 3, "cluster.nodes['n[2-1]']: hostlist"),
        (MODELS + "  nodes:\n    n1: small\n    'n[0-1]': small", 5, "'n1' is there twice"),
        ("cluster:\n  models:\n    m:\n      gpus: 300\n  nodes: {n: m}", 3, "gpus=300"),
        ("cluster:\n  models:\n    m: {nics: 1}", 3, "m.gpus: is missing"),
        ("cluster:\n  models: {m: {gpus: 1, resources: {gpu: 1}}}", 2, "is what gpus says"),
        (CELLS + "  network: {layers: {rack: 2}}", 5, "network: cells place the pods already"),
        (NODES + "  network: {}", 4, "must have exactly one of layers, slurm, kueue"),
        (NODES + "  network: {layers: {rack: 0}}", 4, "rack: must be an integer from 1"),
        (NODES + "  network:\n    layers:\n      a: 3\n      b: 2", 7, "divisor of the layer"),
        (NODES + "  network: {layers: {rack: {r: 'n[0-2]'}}}", 4, "'n3' is in no rack"),
        (NODES + "  network:\n    layers:\n      a: {x: 'n[0-2]', y: n3}\n      b: 2",
         7, "layers.b: the nodes 'n2' and 'n3', which 'b1' has, are in different domains of a"),
        (NODES + "  network: {layers: {rack: {r: 'n[0-4]'}}}", 4, "no node 'n4'"),
        (NODES + "  network: {layers: {r: {x: 'n[0-3]', y: n1}}}", 4, "is in 'x' already"),
        (NODES + "  cells: {c: {fanouts: [4], roots: 4}}", 4, "levels: is missing"),
        (NODES + "  cells: {c: {levels: [gpu]}}", 4, "must have nodes or roots"),
        (NODES + "  cells: {c: {levels: [gpu, node, rack], fanouts: [4, 3], nodes: 'n[0-3]'}}",
         4, "cluster.cells.c.nodes: has 4 nodes, and a rack has 3 of them"),
        (NODES + "  cells: {c: {levels: [gpu, node], fanouts: [2], nodes: 'n0,n[0-3],n0'}}",
         4, "cluster.cells.c.nodes: the node 'n0' is there twice"),
        (NODES + "  cells: {c: {levels: [gpu, node], fanouts: [4], roots: 4}}", 4, "nodes is mis"),
        (NODES + "  cells: {c: {levels: [gpu, node], fanouts: [8], nodes: 'n[0-3]'}}",
         4, "'n0' has 8 GPUs here, its model has 4"),
        (NODES + "  cells: {c: {levels: [gpu, node], fanouts: [4], nodes: 'n[0-2]'}}",
         4, "the node 'n3' of cluster.nodes is in no chain"),
        (NODES + "tenants: {a: {cells: {c: {node: 1}}}}", 4, "no meaning without cluster.cells"),
        (CELLS + "tenants:\n  a:\n    cells: {d: {node: 1}}", 7, "no chain 'd', there are c"),
        (CELLS + "tenants:\n  a:\n    cells: {c: {rack: 1}}", 7, "no level 'rack', it has gpu, n"),
        (CELLS + "tenants:\n  a:\n    cells: {c: {node: 5}}", 5, "level 'node': 1 cell too few"),
        (NODES + "tenants: {a: {weight: 2}}", 4, "weight: has no meaning unless queues.order is w"),
        (NODES + "tenants: {a: {weight: 0}}\nqueues:", 4, "integer from 1 to 2147483647, not '0'"),
        (NODES + "tenants: {a: {blocking: fifo}}", 4, "blocking: has no meaning for the order"),
        (NODES + "tenants: {a: {key: 1e99}}\nqueues: {order: key}", 4, "a.key: value: allowed"),
        (NODES + "tenants: {a: {blocking: x}}\nqueues:", 4, "must be one of best-effort, fifo"),
        (NODES + "queues: {order: lifo}", 4, "one of weighted, gpu-time, round-robin, key, "),
        (NODES + "queues: {order: srsf, ageing: 1}", 4, "has no meaning for the order 'srsf'"),
        (NODES + "queues:\n  order: priority\n  ageing: 1", 6, "no meaning for the order priority"),
        (NODES + "tenants:\n  a:\n    quota:\n      max: {gpu: 1x}", 7, "gpu: '1x' is no quant"),
        (NODES + "tenants: {a: {quota: {min: {gpu: 1}}}}", 4, "max is missing"),
        (QUOTA.replace("}}}}", "}, weight: {gpu: 1.5}}}}"), 4, "gpu: '1.5' is no whole number"),
        (NODES + "tenants: {a: {quota: {max: {gpus: 1}}}}", 4, "they have cpu, gpu, memory"),
        (NODES + "tenants: {a: {quota: {max: {gpu: 1}, parent: b}}}", 4, "a.quota: a: "),
        (NODES + "quotas: {limit: max}", 4, "quotas: no tenant has a quota"),
        (NODES + "devices: {policy: best}", 4, "devices.policy: must be one of bin-pack, spread"),
        (NODES + "storage: {cache_gb: 1, bandwidth_mbps: x}", 4, "mbps: must be a number that is"),
        (NODES + "claims: {kubernetes: 1.3}", 4, "kubernetes: must be one of 1.34, 1.35, 1.36"),
        (NODES + "claims: {gates: {DRA: yes}}", 4, "claims.gates: gates of Kubernetes 1.36 must"),
        (NODES + "claims: {gates: {DRAAdminAccess: 7}}", 4, "AdminAccess: must be true or false"),
        (NODES + "claims: {objects: none.yaml}", 4, "claims.objects: none.yaml: No such file"),
        (NODES + "claims: {slices: 1}", 4, "claims.slices: is none of kubernetes, gates, objects"),
        (NODES + "claims: {mode: few}", 4, "claims.mode: mode must be one of first, best"),
        (NODES + "claims: {mode: [1]}", 4, "claims.mode: mode"),
        (NODES + "sharing:", 4, "sharing.resources: is missing: how many stages"),
        (NODES + "sharing: {resources: 9}", 4, "resources: must be an integer from 2 to 8"),
        (NODES + "sharing: {resources: 2, max_group: 3}", 4, "max_group: must be an integer from"),
        (NODES + "sharing: {resources: 2, min_gain: 3}", 4, "sharing: min_gain=3.0: allowed are"),
        (NODES + "sharing: {resources: 2, stages: 3}", 4, "sharing.stages: is none of resources"),
        (NODES + "scheduler: {tries: 1001}", 4, "tries: must be an integer from 1 to 1000"),
        (NODES + "scheduler: {reservation_seconds: 0}", 4, "reservation_seconds=0.0: must be"),
        (NODES + "scheduler: {eviction_limits: {a: {per_hour: -1}}}", 4, "per_hour"),
        (NODES + "scheduler: {eviction_limits: {a: {often: 1}}}", 4, "is none of min_run_time"),
        (QUOTA + "scheduler: {eviction_limits: {b: {per_hour: 1}}}", 5, "there is no quota 'b'"),
        (
            NODES + "tenants: {a: }\nscheduler: {eviction_limits: {b: {per_hour: 1}}}",
            5,
            "there is no tenant 'b'",
        ),
        (
            QUOTA.replace("gpu: 4}}}}", "gpu: 4, cpus: 8}}}}") + "quotas: {total: {cpus: 8}}",
            4,
            "tenants.a.quota.max.cpus: no node has any of it; is cpu meant?",
        ),
        (NODES + "scheduler: {lending: yes}", 4, "scheduler.lending: needs cluster.cells"),
        (NODES + "scheduler: {evictions: least}", 4, "scheduler.evictions: needs cluster.cells"),
        (NODES + "scheduler: {evictions: few}", 4, "must be one of packing, least, private"),
        (NODES + "scheduler: {immediate: 7}", 4, "immediate: must be true or false, not '7'"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_what_is_allowed(text, line, says):
    messages = problems(text)
    assert len(messages) == 1
    assert messages[0].startswith(f"cluster.yaml:{line}: ")
    assert says in messages[0]


def test_all_mistakes_are_named_at_once_by_line():
    text = "cluster:\n  nodes: {n: x}\nqueues: {order: y}\ntenants: {a: {wait: 1}}\n"
    assert [problem.split(":")[1] for problem in problems(text)] == ["2", "3", "4"]
    a, b = "{max: {gpu: 1}, parent: none}", "{max: {gpu: 1}, min: {gpu: 2}}"
    messages = problems(NODES + f"tenants:\n  a: {{quota: {a}}}\n  b: {{quota: {b}}}\n")
    assert [entry.split(":")[1] for entry in messages] == ["5", "6"]
    assert "its parent 'none' is missing" in messages[0]


def test_mistakes_of_one_section_hide_none_of_another():
    text = """
cluster:
  models: {small: {gpus: 4}, large: {gpus: 8}}
  nodes: {'n[0-3]': small, 'm[0-3]': large}
  cells:
    c: {levels: [gpu, node], fanouts: [5], nodes: 'n[0-3]'}
    d: {levels: [gpu, node], fanouts: [8], nodes: 'm[0-2]'}
tenants:
  a: {cells: {c: {node: 80}}, weigth: 2}
  b: {cells: {d: {node: 90}}, quota: {max: {gpus: 8}}}
queues: {order: lifo}
devices: {policy: best}
scheduler: {tries: 0}
"""
    result = "\n".join(problems(text))
    for says in (
        ":5: cluster.cells: the node 'n0' has 5 GPUs here, its model has 4, and 3 more nodes",
        ":5: cluster.cells: the node 'm3' of cluster.nodes is in no chain",
        ":8: tenants: chain 'c', level 'node': 76 cells too few",
        ":8: tenants: chain 'd', level 'node': 87 cells too few",
        ":9: tenants.a.weigth: is none of",
        ":10: tenants.b.quota.max.gpus: the nodes have none of it",
        ":11: queues.order: must be one of",
        ":12: devices.policy: must be one of",
        ":13: scheduler.tries: must be an integer",
    ):
        assert says in result, result
    assert result.count("\n") == 8


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (
            "cluster:\n  models: {m: {gpus: x}}\n  nodes: {n: m}\n"
            "  network: {layers: {r: {a: n}}}\n",
            1,
        ),
        ("cluster:\n  models: {m: {gpus: 8}}\n  nodes: {n: k}\ndevices:\n", 1),
        (
            "cluster:\n  models: {m: {gpus: 8}}\n  nodes: {n: k}\n"
            "  network: {layers: {r: {a: n}}}\ntenants: {t: {quota: {max: {gpu: 1}}}}\n",
            1,
        ),
        (
            "cluster:\n  models: {m: {gpus: 8}}\n  nodes: {n: k}\n"
            "  cells: {c: {levels: [gpu, node], fanouts: [8], nodes: n}}\n",
            1,
        ),
        (
            "cluster:\n  models: {m: {gpus: 8}}\n  nodes: {n: m}\n"
            "  cells: {c: {levels: [gpu, node], fanouts: [8, 2], nodes: n}}\n"
            "tenants: {t: {cells: {c: {rack: 1}, d: {node: 1}}}}\n",
            2,
        ),
        (NODES + "tenants: {a: {quota: {max: {gpu: 1x}}}}\nquotas: {limit: max}", 1),
    ],
)
def test_what_follows_from_a_mistake_is_no_mistake_of_its_own(text, count):
    assert len(problems(text)) == count


def test_a_file_that_is_no_text_is_a_mistake_of_the_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is no UTF-8 text"):
        SchedulerSpec.read(path)
    with pytest.raises(FileNotFoundError):
        SchedulerSpec.read(tmp_path / "none.yaml")
