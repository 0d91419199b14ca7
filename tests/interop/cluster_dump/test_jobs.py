"""Which pods of a dump are a job, how many of them there are, and what of their wishes is named."""

import copy
import json

import pytest
from interop.cluster_dump.dumps import (
    BLOCK,
    GPU,
    HOST,
    KUEUE,
    RACK,
    cluster_queue,
    flavor,
    groups,
    node,
    read,
    thing,
    workload,
)
from interop.cluster_dump.test_other_queues import kai, volcano
from interop.cluster_dump.test_what_if import pods

from hivecore import cli
from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.koordinator import read_quota_cluster
from hivecore.interop.scheduler_file import SchedulerSpec

NODES = [node(f"gpu-{i}", labels={BLOCK: "b1", RACK: f"r{i // 2}"}) for i in range(4)]
QUOTA = "quota.scheduling.koordinator.sh"
LEVELS = [{"nodeLabel": level} for level in (BLOCK, RACK, HOST)]
KUEUES = [
    *NODES,
    flavor(topologyName="t"),
    thing(KUEUE, "Topology", "t", {"levels": LEVELS}),
    cluster_queue("q", 32),
    thing(KUEUE, "LocalQueue", "main", {"clusterQueue": "q"}, namespace="ns"),
]
GROUP = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "train", {"minMember": 2, "queue": "q"},
              namespace="ns")  # fmt: skip


def of_queue(name, queue, *node_names):
    (pod,) = pods(1, name, node_names, **{"scheduling.volcano.sh/queue-name": queue})
    pod["metadata"] |= {"name": name, "annotations": {}}
    return pod


def sets_of(job):
    return [(role.name, role.pods, role.gpus) for role in job.roles]


@pytest.mark.parametrize("running", ["q", ""])
def test_pods_of_a_workload_that_have_ended_hold_nothing(running):
    job = workload("j", "ns/main", 2, 4, running)
    job.setdefault("status", {})["reclaimablePods"] = [{"name": "main", "count": 3}]
    dump = read(*KUEUES, job)
    assert [sets_of(job) for job in dump.running + dump.waiting] == [[("main", 1, 2)]]


def test_a_workload_holds_what_was_admitted():
    job = workload("j", "ns/main", 2, 4, "q")
    (part,) = job["status"]["admission"]["podSetAssignments"]
    part |= {"count": 3, "resourceUsage": {"cpu": "27", GPU: "9", "credits": "6"}}
    queue = cluster_queue("q", 32)
    queue["spec"]["resourceGroups"] += groups(40, resource="credits")
    (role,) = read(*KUEUES[:-2], queue, job).running[0].roles
    assert (role.pods, role.gpus) == (3, 3)
    assert dict(role.resources) == {"cpu": 9000, "credits": 2}


def test_with_one_flavor_pod_sets_on_others_do_not_count():
    job = workload("j", "ns/main", 2, 2, "q")
    (part,), sets = job["status"]["admission"]["podSetAssignments"], job["spec"]["podSets"]
    job["status"]["admission"]["podSetAssignments"] += [
        {**part, "name": "more", "flavors": {GPU: "a100"}}
    ]
    sets.append({**sets[0], "name": "more"})
    assert read(*KUEUES, job).running[0].gpus == 8
    assert read(*KUEUES, job, flavor="h100").running[0].gpus == 4


def test_a_workload_without_pods_is_no_job():
    dump = read(*KUEUES, workload("empty", "ns/main", pods=0), workload("j", "ns/main"))
    assert [job.name for job in dump.waiting] == ["ns/j"]


def test_pod_sets_that_ask_for_different_levels_are_named():
    job = workload("j", "ns/main", 2, 2)
    job["spec"]["podSets"] += [{**copy.deepcopy(job["spec"]["podSets"][0]), "name": "more"}]
    for request, must, says in [
        ({"required": RACK}, "", "its pod sets ask for different levels, which are not read"),
        ({"podSetSliceRequiredTopology": HOST}, "", "has slices of pod sets; they are not read"),
    ]:
        job["spec"]["podSets"][1]["topologyRequest"] = request
        dump = read(*KUEUES, job)
        assert [job.where.must for job in dump.waiting] == [must]
        assert any(says in remark for remark in dump.remarks)
    for group, says in [({}, True), ({"podSetGroupName": "g"}, False)]:
        for each in job["spec"]["podSets"]:
            each["topologyRequest"] = {"required": RACK, **group}
        dump = read(*KUEUES, job)
        assert [job.where.must for job in dump.waiting] == [RACK]
        assert any("here all of them are in one" in remark for remark in dump.remarks) == says


def test_wishes_for_certain_nodes_are_named_of_jobs_that_wait():
    job, chosen = workload("j", "ns/main"), {"nodeSelector": {"pool": "a"}}
    job["spec"]["podSets"][0]["template"]["spec"] |= chosen
    says = "asks for certain nodes by nodeSelector or affinity; that is not read"
    assert f"Job ns/j: {says}" in read(*KUEUES, job).remarks
    pod, bound = of_queue("p", "q"), of_queue("r", "q", "gpu-0")
    for each in (pod, bound):
        each["spec"] |= chosen
    assert read(*NODES, volcano("q"), pod, bound).remarks == (f"Job ns/p: {says}",)


def test_a_pod_that_is_called_like_a_group_is_a_job_of_its_own():
    others = [of_queue("train", "other", "gpu-2")]
    objects = [*NODES, volcano("q"), volcano("other"), GROUP]
    dump = read(*objects, *pods(2, "train", ("gpu-0", "gpu-1")), *others)
    assert [(job.name, job.quota, job.gpus) for job in dump.running] == [
        ("ns/train", "q", 16),
        ("pod:ns/train", "other", 8),
    ]
    dump = read(*objects, *others)
    assert [(job.name, job.quota) for job in dump.running] == [("ns/train", "other")]


def test_koordinators_pods_are_of_the_quotas_that_its_own_reader_says():
    elastic = {
        name: thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", name,
                    {"max": {GPU: 16}, "min": {GPU: 8}}, namespace="kube-system")
        for name in ("koordinator-default-quota", "lab", "ns")
    }  # fmt: skip
    elastic["lab"]["metadata"]["annotations"] = {f"{QUOTA}/namespaces": '["far"]'}
    pairs = [pods(1, name, (node,), **labels) for name, node, labels in [
        ("named", "gpu-0", {f"{QUOTA}/name": "lab", f"{QUOTA}/preemptible": "false"}),
        ("gone", "gpu-1", {f"{QUOTA}/name": "gone"}), ("none", "gpu-2", {}), ("far", "gpu-3", {}),
    ]]  # fmt: skip
    pairs[3][0]["metadata"]["namespace"] = "far"
    objects = [*NODES, *elastic.values(), *(pod for pair in pairs for pod in pair)]
    tree, dump = read_quota_cluster(objects).tree, read(*objects)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == ()
    used = {name: scheduler.quotas.status(name).used for name in tree.quotas}
    assert used == {name: {"gpu": tree.status(name).used[GPU]} for name in tree.quotas}
    assert {job.name: (job.quota, job.preemptible) for job in dump.running} == {
        "ns/named": ("lab", False),
        "ns/gone": ("koordinator-default-quota", True),
        "ns/none": ("koordinator-default-quota", True),
        "far/far": ("lab", True),
    }


def test_a_namespace_is_no_queue_of_volcano():
    (pod,) = pods(1, "p", ("gpu-0",))
    dump = read(*NODES, volcano("ns"), pod)
    assert not dump.running
    assert dump.remarks == (
        "Pod ns/p-0: asks for GPUs, is of no queue that is read, and is left out",
    )


def test_nothing_starts_on_a_node_that_is_leaving():
    leaving = node("leaves")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(*NODES, leaving, volcano("q")).unhealthy == ("leaves",)


def test_pods_of_a_running_group_that_wait_are_named():
    some = pods(3, "train", ("gpu-0", "gpu-1", "gpu-2"))
    del some[2]["spec"]["nodeName"]
    dump = read(*NODES, volcano("q"), GROUP, *some)
    assert [sets_of(job) for job in dump.running] == [[("pods", 2, 8)]]
    text = "Job ns/train: 2 of its 3 pods have a node; the others are left out"
    assert dump.remarks == (text,)


def test_where_a_workload_was_before_does_not_count():
    owner = [{"kind": "Job", "uid": "u1", "name": "x"}]
    ended, later = (
        thing("v1", "Pod", name, {"nodeName": name, "containers": []}, namespace="ns",
              ownerReferences=owner)
        for name in ("gpu-1", "gpu-2")
    )  # fmt: skip
    ended["status"] = {"phase": "Failed"}
    dump = read(*KUEUES, workload("x", "ns/main", running="q", ownerReferences=owner), ended, later)
    assert dump.running[0].where.nodes == ("gpu-2",)


@pytest.mark.parametrize(
    "meta",
    [
        {"uid": "u1"},
        {"labels": {"jobset.sigs.k8s.io/jobset-uid": "u1"}, "ownerReferences": [{"uid": "u2"}]},
        {"annotations": {"kueue.x-k8s.io/workload": "x"}},
    ],
)
def test_pods_that_their_owner_does_not_own_itself_say_where_a_workload_is(meta):
    pod = thing("v1", "Pod", "p", {"nodeName": "gpu-2", "containers": []}, namespace="ns", **meta)
    owned = workload("x", "ns/main", running="q", ownerReferences=[{"uid": "u1"}])
    assert read(*KUEUES, owned, pod).running[0].where.nodes == ("gpu-2",)


def test_a_workload_whose_nodes_are_not_known_is_on_nodes_of_its_flavor():
    queue = cluster_queue("q", 16)
    queue["spec"]["resourceGroups"] += groups(16, flavor="a100")
    flavors = [flavor(labels={RACK: "r0"}), flavor("a100", {RACK: "r1"})]
    job = workload("j", "ns/main", running="q")
    (part,) = job["status"]["admission"]["podSetAssignments"]
    for name, nodes in [("h100", "01"), ("a100", "23"), ("gone", "")]:
        part["flavors"] = {GPU: name}
        dump = read(*NODES, *flavors, queue, KUEUES[-1], job)
        assert dump.running[0].where.nodes == tuple(f"gpu-{number}" for number in nodes)


@pytest.mark.parametrize("system", ["Volcano", "Kueue"])
@pytest.mark.parametrize("runs", [True, False])
def test_a_job_that_asks_for_nothing_that_counts_is_in_no_way(system, runs, tmp_path, capsys):
    if system == "Volcano":
        job = of_queue("idle", "q", *(["gpu-0"] if runs else []))
        job["spec"]["containers"], objects = [{}], [*NODES, volcano("q")]
    else:
        job, objects = workload("idle", "ns/main", 1, 1, "q" * runs, {"gpu-0": 1}), KUEUES
        job["spec"]["podSets"][0]["template"]["spec"]["containers"] = [{}]
        job["spec"]["podSets"][0]["topologyRequest"] = {"required": RACK}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, job]}))
    assert cli.main(["what-if", str(path), "--queue", "q", "--gpus", "8"]) == 0
    assert "It would start now on" in capsys.readouterr().out


def test_a_job_whose_nodes_are_not_read_is_said_to_be_on_others():
    dump = read(*NODES, volcano("q"), of_queue("p", "q", "head"))
    (remark,) = dump.fill(SchedulerSpec.of_yaml(dump.text).scheduler())
    assert remark.startswith("Job ns/p: runs on other nodes here: ")


def texts():
    objects = [*NODES, kai("q")]
    lists = [json.dumps({"apiVersion": "v1", "kind": "List", "items": objects[i::2]}, indent=1)
             for i in (0, 1)]  # fmt: skip
    first = {"metadata": {"resourceVersion": ""}, "apiVersion": "v1", "kind": "List"}
    return {
        "several lists": "\n".join(lists),
        "a byte order mark": "\ufeff" + "\n---\n".join(lists),
        "an array": json.dumps(objects, indent=1),
        "metadata first": json.dumps({**first, "items": objects}, indent=1),
    }


@pytest.mark.parametrize("which", texts())
def test_a_dump_is_recognised_in_whatever_form_it_comes(which, tmp_path, capsys):
    path = tmp_path / "dump.json"
    path.write_text(texts()[which])
    assert ClusterDump.recognises(path.read_text())
    assert cli.main(["validate", str(path)]) == 0
    assert cli.main(["what-if", str(path), "--queue", "q"]) == 0
    assert cli.main(["init", "--from", str(path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (["text"], r"items\[0\] must be an object, not 'text'"),
        ([None], r"items\[0\] must be an object, not nothing"),
        ([node("a", labels={"rack": 1})], r"Node 'a': metadata.labels\['rack'\]: expected `str`"),
        ([node("a", memory="x"), kai("q")], r"Node 'a': .*\['memory'\]: amount: 'x' is no"),
        ([node("a", gpus="1k"), kai("q")], r"Node 'a': .*'nvidia.com/gpu'\]: more than 256 GPUs"),
        ([*KUEUES, workload("j", "ns/main", pods=-1)], r"Workload 'ns/j': spec.podSets\[0\].count"),
        ([*KUEUES, thing("scheduling.k8s.io/v1", "PriorityClass", "p")], "'p': value: is missing"),
    ],
)
def test_a_mistake_names_the_object_and_the_field(objects, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read(*objects)


def test_a_key_that_is_no_text_is_a_mistake_of_its_mapping():
    broken = node("a")
    broken["status"]["allocatable"] = {8: 8}
    with pytest.raises(ValueError, match=r"^Node 'a': status.allocatable: expected `str`"):
        read(broken, kai("q"))
