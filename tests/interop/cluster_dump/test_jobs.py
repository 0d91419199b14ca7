"""Which pods of a dump are a job, how many of them there are, and what of their wishes is named."""

import copy
import json

import pytest
from interop.cluster_dump.dumps import (
    GPU,
    HOST,
    KUEUE,
    LEVELS,
    NODES,
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

QUOTA = "quota.scheduling.koordinator.sh"
NODE = ("gpu-0",)
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


def test_what_was_admitted_without_a_count_is_for_all_pods():
    job = workload("j", "ns/main", 2, 4, "q")
    (part,) = job["status"]["admission"]["podSetAssignments"]
    part.pop("count")
    part["resourceUsage"] = {GPU: "12"}
    assert sets_of(read(*KUEUES, job).running[0]) == [("main", 4, 3)]


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
def test_a_job_that_asks_for_nothing_that_counts_is_in_no_way(system, runs, tmp_path, output):
    if system == "Volcano":
        job = of_queue("idle", "q", *(["gpu-0"] if runs else []))
        job["spec"]["containers"], objects = [{}], [*NODES, volcano("q")]
    else:
        job, objects = workload("idle", "ns/main", 1, 1, "q" * runs, {"gpu-0": 1}), KUEUES
        job["spec"]["podSets"][0]["template"]["spec"]["containers"] = [{}]
        job["spec"]["podSets"][0]["topologyRequest"] = {"required": RACK}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, job]}))
    assert "It would start now on" in output("what-if", path, "--queue", "q", "--gpus", "8")


def test_cpus_and_memory_that_no_node_and_no_queue_has_do_not_count():
    bare, pod = node("gpu-0"), of_queue("p", "q", "gpu-0")
    bare["status"]["allocatable"] = {GPU: 8}
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", "memory": "1Gi"}
    dump = read(bare, volcano("q"), pod)
    assert dump.fill(SchedulerSpec.of_yaml(dump.text).scheduler()) == ()


def test_pods_that_no_scheduler_considers_do_not_wait():
    gated, leaving, going = (of_queue(n, "q", *on) for n, on in [("g", ()), ("l", ()), ("r", NODE)])
    gated["spec"]["schedulingGates"] = [{"name": "later"}]
    for each in (leaving, going):
        each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    dump = read(*NODES, volcano("q"), gated, leaving, going)
    assert ([job.name for job in dump.running], dump.waiting) == (["ns/r"], ())
    assert dump.remarks == (
        "Pod ns/g: waits and has scheduling gates; it is left out",
        "Pod ns/l: waits and is being deleted; it is left out",
    )


def test_each_pod_of_a_running_group_stays_on_its_node():
    nodes = [node(f"gpu-{i}", 8) for i in range(2)]
    some = pods(3, "train", ("gpu-0", "gpu-1", "gpu-1"))
    for pod in some:
        pod["spec"]["containers"] = [{"resources": {"limits": {GPU: 2}}}]
    dump = read(*nodes, volcano("q"), GROUP, *some)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == ()
    places = [pod.node for pod in scheduler.status("ns/train").pods]
    assert places == ["gpu-0", "gpu-1", "gpu-1"]


def test_a_group_with_a_pod_on_a_node_that_is_not_read_is_said_to_be_elsewhere():
    some = pods(3, "train", ("gpu-0", "gpu-9", "gpu-0"))
    for pod in some:
        pod["spec"]["containers"] = [{"resources": {"limits": {GPU: 2}}}]
    dump = read(node("gpu-0", 8), volcano("q"), GROUP, *some)
    (remark,) = dump.fill(SchedulerSpec.of_yaml(dump.text).scheduler())
    assert remark.startswith("Job ns/train: not all pods are on their nodes here: ")


def test_each_pod_of_a_workload_stays_on_the_node_of_its_topology_assignment():
    job = workload("j", "ns/main", 2, 3, "q", {"gpu-0": 1, "gpu-1": 2})
    dump = read(*KUEUES, job)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == ()
    assert [pod.node for pod in scheduler.status("ns/j").pods] == ["gpu-0", "gpu-1", "gpu-1"]
    job["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    assert not read(*KUEUES, job).places  # which one has ended is not said


def test_a_job_whose_nodes_are_not_read_is_said_to_be_on_others():
    dump = read(*NODES, volcano("q"), of_queue("p", "q", "head"))
    (remark,) = dump.fill(SchedulerSpec.of_yaml(dump.text).scheduler())
    assert remark.startswith("Job ns/p: runs on other nodes here: ")


def test_a_job_that_runs_evicts_no_other_that_runs():
    """Two pods with a part of the same GPU, each of which counts as a whole one."""
    jobs = []
    for name, priority in (("less", 50), ("more", 75)):
        (pod,) = pods(1, name, ["gpu-0"], {"gpu-fraction": "0.5"}, priority=priority)
        pod["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
        pod["spec"]["containers"] = [{}]
        jobs.append(pod)
    dump = read(node("gpu-0", 1), node("gpu-1", 1), kai("q", quota=2), *jobs)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    (remark,) = dump.fill(scheduler)
    assert remark.startswith("Job ns/more: runs on other nodes here: ")
    assert [scheduler.status(name).for_job for name in scheduler] == ["", ""]
    assert scheduler.eviction_limits == ()


def test_a_job_without_room_on_its_nodes_takes_those_of_no_other():
    jobs = [
        pods(1, name, [on], {"gpu-fraction": "0.5"})[0]
        for name, on in (("a", "gpu-0"), ("b", "gpu-0"), ("c", "gpu-1"))
    ]
    for pod in jobs:
        pod["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
        pod["spec"]["containers"] = [{}]
    nodes = [node(f"gpu-{i}", 1) for i in range(3)]
    dump = read(*nodes, kai("q", quota=3), *jobs)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    (remark,) = dump.fill(scheduler)
    assert remark.startswith("Job ns/b: runs on other nodes here: ")
    places = {name: scheduler.status(name).pods[0].node for name in scheduler}
    assert places == {"ns/a": "gpu-0", "ns/b": "gpu-2", "ns/c": "gpu-1"}


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


def test_a_mistake_of_a_pod_names_the_pod_or_its_job():
    def wrong(spec=(), status=()):
        pod = of_queue("p", "q")
        pod["spec"] |= dict(spec)
        return [*NODES, volcano("q"), {**pod, "status": dict(status)}]

    job, huge = workload("j", "ns/main"), {"limits": {GPU: 10**7}}
    job["spec"]["podSets"][0]["template"]["spec"]["affinity"] = {"nodeAffinity": 5}
    for objects, message in [
        (wrong(status={"phase": 3}), "^Pod 'p': status.phase must be a string, not 3"),
        (wrong({"affinity": {"nodeAffinity": 5}}), "^Job ns/p: spec.affinity.nodeAffinity must be"),
        (wrong({"containers": [{"resources": huge}]}), "^Job ns/p: gpus=10000000: allowed are 0"),
        ([*KUEUES, job], "^Workload 'ns/j': template.spec.affinity.nodeAffinity must be a mapping"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            read(*objects)


def test_an_object_that_is_nested_too_deeply_is_a_mistake():
    nested = "x"
    for _ in range(2000):
        nested = [nested]
    with pytest.raises(ValueError, match=r"^ConfigMap 'c': is nested too deeply"):
        read(*NODES, volcano("q"), thing("v1", "ConfigMap", "c", {"data": nested}))


def test_a_key_that_is_no_text_is_a_mistake_of_its_mapping():
    broken = node("a")
    broken["status"]["allocatable"] = {8: 8}
    with pytest.raises(ValueError, match=r"^Node 'a': status.allocatable: expected `str`"):
        read(broken, kai("q"))


VOLCANO = [*NODES, volcano("q")]
KAI_QUEUES = [*(node(f"gpu-{i}") for i in range(4)), kai("q", quota=32)]
NAMED = {"kai.scheduler/queue": "q"}


def kai_group(**spec):
    return thing("scheduling.run.ai/v2alpha2", "PodGroup", "train", spec, namespace="ns")


@pytest.mark.parametrize(
    ("objects", "label", "expected"),
    [
        (VOLCANO, {"volcano.sh/preemptable": "false"}, False),
        (VOLCANO, {"volcano.sh/preemptable": "true"}, True),
        (KAI_QUEUES, {**NAMED, "kai.scheduler/preemptibility": "non-preemptible"}, False),
        (KAI_QUEUES, NAMED, True),
    ],
)
def test_labels_say_which_jobs_are_preempted(objects, label, expected):
    waiting = pods(1, "train", (None,), **label)
    waiting[0]["metadata"]["labels"] |= label
    group = thing(
        "scheduling.volcano.sh/v1beta1", "PodGroup", "train", {"queue": "q"}, namespace="ns"
    )
    groups_ = [group] if objects is VOLCANO else []
    (job,) = read(*objects, *groups_, *waiting).waiting
    assert job.preemptible == expected


def test_a_pod_group_says_how_many_pods_are_enough_how_important_they_are_and_where():
    high = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 125}
    high["metadata"] = {"name": "inference"}
    spec = {"minMember": 2, "queue": "q", "markUnschedulable": False, "subGroups": [{"name": "a"}]}
    spec["topologyConstraint"] = {"topology": "t", "requiredTopologyLevel": RACK}
    group = kai_group(**spec, priorityClassName="inference")
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}
    network = thing("kai.scheduler/v1alpha1", "Topology", "t", levels)
    racks = [node(f"gpu-{i}", labels={RACK: f"r{i}"}) for i in range(2)]
    objects = [*racks, kai("q", quota=16), high, network, *pods(3, "train", (None,) * 3)]
    dump = read(*objects, group)
    (job,) = dump.waiting
    assert [(role.pods, role.min_pods) for role in job.roles] == [(3, 2)]
    assert (job.priority, job.preemptible, job.where.must) == (125, False, RACK)
    assert dump.remarks[-1] == "PodGroup ns/train: spec.subGroups has no counterpart here"
    group["spec"] |= {"preemptibility": "preemptible", "minMember": 4, "priorityClassName": "x"}
    dump = read(*objects, group)
    assert dump.waiting[0].preemptible and dump.waiting[0].priority == 0
    text = "Job ns/train: 3 of the 4 pods that it needs are there; here these start"
    assert text in dump.remarks
    assert any("its class x is not there" in remark for remark in dump.remarks)


def test_of_different_pods_all_start_and_a_group_without_pods_is_named():
    small = pods(1, "train", (None,))
    small[0]["metadata"]["name"] = "small"
    small[0]["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
    empty = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "late", {}, namespace="ns")
    empty["status"] = {"phase": "Pending"}
    remarks = read(*VOLCANO, GROUP, empty, *pods(2, "train", (None,) * 2), *small).remarks
    assert remarks == (
        "Job ns/train: 2 of its 3 pods are enough; here all of them start together",
        "PodGroup ns/late: has no pods yet, and is left out",
    )


def test_a_workload_that_may_start_with_fewer_pods_does():
    some = workload("j", "ns/main", pods=4)
    some["spec"]["podSets"][0]["minCount"] = 3
    (job,) = read(*KUEUES, some).waiting
    assert [(role.pods, role.min_pods) for role in job.roles] == [(4, 3)]


def test_pods_of_koordinator_are_a_gang_by_their_annotations():
    gang, quota = "gang.scheduling.koordinator.sh", "quota.scheduling.koordinator.sh/name"
    waiting = [pods(1, f"p{i}", (None,))[0] for i in range(3)]
    for i, pod in enumerate(waiting):
        pod["metadata"] = {"name": f"p{i}", "namespace": "ns", "labels": {quota: "lab"}}
        pod["metadata"]["annotations"] = {f"{gang}/name": "train", f"{gang}/min-available": "2"}
    lab = thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "lab", {"max": {GPU: 32}})
    (job,) = read(*KAI_QUEUES[:4], lab, *waiting).waiting
    assert [(job.name, role.pods, role.min_pods) for role in job.roles] == [("ns/train", 3, 2)]


_LWS = "leaderworkerset.sigs.k8s.io"


@pytest.mark.parametrize(("labels", "annotations", "spec", "job"), [
    ({f"{_LWS}/name": "llm", f"{_LWS}/group-index": "0"}, {f"{_LWS}/size": "2"}, {},
     "ns/leaderworkerset:llm-0"),
    ({}, {}, {"schedulingGroup": {"podGroupName": "llm"}}, "ns/llm"),
])  # fmt: skip
def test_what_the_extender_reads_as_a_gang_is_one_job(labels, annotations, spec, job):
    quota, rules = "quota.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/groups"
    waiting = [pods(1, f"p{i}", (None,))[0] for i in range(2)]
    for i, pod in enumerate(waiting):
        pod["metadata"] = {"name": f"p{i}", "namespace": "ns", "labels": {quota: "lab", **labels}}
        pod["metadata"]["annotations"] = {rules: '["ns/a"]', **annotations}
        pod["spec"] |= spec
    lab = thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "lab", {"max": {GPU: 32}})
    dump = read(*KAI_QUEUES[:4], lab, *waiting)
    (only,) = dump.waiting
    assert [(only.name, role.pods, role.min_pods) for role in only.roles] == [(job, 2, 2)]
    assert f"Job {job}: its {rules} is not read" in dump.remarks


@pytest.mark.parametrize("annotations", [
    {"gpu-memory": "4096"}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
])  # fmt: skip
def test_a_part_of_a_gpu_is_a_whole_one_however_it_is_said(annotations):
    (pod,) = pods(1, "p", ("gpu-0",))
    pod["metadata"] |= {"labels": NAMED, "annotations": annotations}
    pod["spec"]["containers"] = [{"resources": {}}]
    dump = read(*KAI_QUEUES, pod)
    (job,) = dump.running
    assert job.gpus == len(annotations)
    text = "Pod ns/p-0: asks for a part of a GPU; it counts as a whole one"
    assert dump.remarks == (text,)


@pytest.mark.parametrize("nodes", [("gpu-0",), (None,)])
def test_what_no_queue_counts_and_device_claims_are_named(nodes):
    (pod,) = pods(1, "p", nodes)
    pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "q"}
    requests = {"nvidia.com/mig-1g.10gb": "1", "ephemeral-storage": "1Gi", "cpu": "1"}
    pod["spec"]["containers"] = [{"resources": {"requests": requests}}]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "g"}]
    assert read(*VOLCANO, pod).remarks == (
        "Job ns/p-0: has device claims, which are not read",
        "Job ns/p-0: asks for nvidia.com/mig-1g.10gb, which no queue counts; that is not read",
    )
    template = workload("j", "ns/main", running="q" if nodes[0] else "")
    template["spec"]["podSets"][0]["template"]["spec"] |= {"resourceClaims": [{"name": "gpu"}]}
    text = "Job ns/j: has device claims, which are not read"
    assert text in read(*KUEUES, template).remarks
