"""What runs in a dumped cluster runs here; `hivecore what-if` says what one more job would do."""

import json

import pytest
import yaml
from interop.cluster_dump.dumps import (
    BLOCK,
    GPU,
    HOST,
    KUEUE,
    LEVELS,
    NODES,
    RACK,
    cluster_queue,
    flavor,
    node,
    read,
    thing,
    workload,
)
from interop.cluster_dump.test_other_queues import kai, volcano

from hivecore import cli
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.interop.what_if_command import _as_written
from hivecore.scheduler import Job, Role
from hivecore.traces import Trace, save_csv

CLUSTER = [
    *NODES,
    thing("kueue.x-k8s.io/v1alpha1", "Topology", "t", {"levels": LEVELS}),
    flavor(labels={BLOCK: "b1"}, topologyName="t"),
    cluster_queue("a", 16, "all"),
    cluster_queue("b", 16, "all"),
    *(thing(KUEUE, "LocalQueue", "main", {"clusterQueue": n}, namespace=f"ns-{n}") for n in "ab"),
    {**thing(KUEUE, "WorkloadPriorityClass", "high"), "value": 100_000},
]
RUNNING = [
    workload("old", "ns-a/main", 8, 1, "a", {"gpu-2": 1}, creationTimestamp="2026-01-01T00:00:00Z"),
    workload("new", "ns-a/main", 8, 2, "a", {"gpu-3": 1, "gpu-0": 1},
             creationTimestamp="2026-01-02T00:00:00Z"),
]  # fmt: skip


def answer(tmp_path, capsys, objects, *options):
    """The exit status and what is printed."""
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    status = cli.main(["what-if", str(path), *map(str, options)])
    return status, capsys.readouterr().out.splitlines()


def test_what_runs_is_on_its_nodes_and_what_waits_is_submitted():
    ended = workload("ended", "ns-a/main", running="a")
    ended["status"]["conditions"].append({"type": "Finished", "status": "True"})
    dump = read(*CLUSTER, *RUNNING, workload("waits", "ns-b/main", 8, 3), ended)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == ()
    assert [pod.node for pod in scheduler.status("ns-a/old").pods] == ["gpu-2"]
    assert {pod.node for pod in scheduler.status("ns-a/new").pods} == {"gpu-0", "gpu-3"}
    assert scheduler.state("ns-b/waits") == "pending" and len(scheduler) == 3
    scheduler.check()


def test_a_job_stays_on_a_cordoned_node_and_no_other_starts_there(tmp_path, capsys):
    closed = node("closed", gpus=16, spec={"unschedulable": True}, labels={BLOCK: "b1", RACK: "r0"})
    mine = workload("mine", "ns-a/main", 8, 1, "a", {"closed": 1})
    objects = [closed, *CLUSTER, mine]
    dump = read(*objects)
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == () and scheduler.status("ns-a/mine").pods[0].node == "closed"
    options = ["--queue", "a", "--gpus", 8]
    assert answer(tmp_path, capsys, objects, *options)[1] != ["It would start now on closed"]
    assert answer(tmp_path, capsys, objects, *options, "--pods", 5)[0] == 1


def test_a_job_that_fits_starts_beside_the_others(tmp_path, capsys):
    status, said = answer(
        tmp_path, capsys, [*CLUSTER, *RUNNING], "--queue", "ns-b/main", "--gpus", 8
    )
    assert (status, said) == (0, ["It would start now on gpu-1"])


def test_the_youngest_job_that_borrows_would_leave(tmp_path, capsys):
    options = ["--queue", "b", "--gpus", 8, "--pods", 2, "--must", BLOCK]
    status, said = answer(tmp_path, capsys, [*CLUSTER, *RUNNING], *options)
    assert status == 0 and said[0].endswith(", if these left:")
    assert said[1:] in (
        ["  ns-a/old: queue a, priority 0, 8 GPUs"],
        ["  ns-a/new: queue a, priority 0, 16 GPUs"],
    )


def test_the_answer_for_a_waiting_job_has_reasons_and_changes_that_would_help(tmp_path, capsys):
    options = ["--queue", "a", "--gpus", 8, "--pods", 2, "--must", RACK]
    status, said = answer(tmp_path, capsys, [*CLUSTER, *RUNNING], *options)
    assert status == 1 and said[0] == "It would wait, first in its queue"
    assert "it would start if ns-a/new ended" in said
    status, said = answer(tmp_path, capsys, CLUSTER, "--queue", "a", "--pods", 33)
    assert (status, said) == (
        1,
        ["It could never start: asks for 33 of 'gpu', and max of 'a' is 32"],
    )


def test_classes_are_priorities_by_their_order(tmp_path, capsys, refused):
    options = ["--queue", "a", "--gpus", 8, "--pods", 2, "--priority"]
    status, said = answer(tmp_path, capsys, [*CLUSTER, *RUNNING], *options, "high")
    assert status == 0 and said[0].endswith("if these left:")
    for wrong, message in (("low", "is no number and no class; classes: high"), ("", "classes")):
        with pytest.raises(SystemExit):
            answer(tmp_path, capsys, CLUSTER, *options, wrong)
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        answer(tmp_path, capsys, CLUSTER, "--queue", "c")
    assert "there is no queue 'c', there are a, b, ns-a/main, ns-b/main" in capsys.readouterr().err
    file = tmp_path / "cluster.yaml"
    file.write_text(read(*CLUSTER).text)
    assert cli.main(["what-if", str(file), "--queue", "a", "--gpus", "8"]) == 0
    assert "there is no queue 'c', there are a, all, b" in refused("what-if", file, "--queue", "c")


def test_what_runs_on_another_flavor_is_left_out_with_one_flavor():
    other = workload("other", "ns-a/main", running="a")
    other["status"]["admission"]["podSetAssignments"][0]["flavors"] = {GPU: "a100"}
    dump = read(*CLUSTER, *RUNNING, other, flavor="h100")
    assert [job.name for job in dump.running] == ["ns-a/old", "ns-a/new"]
    assert "Workload ns-a/other: is not on the flavor h100; it is left out" in dump.remarks


def test_a_level_that_is_wished_for_is_asked_for_or_named():
    def wishing(level):
        waits = workload(level.replace("/", "-"), "ns-a/main", 8, 2)
        waits["spec"]["podSets"][0]["topologyRequest"] = {"required": level}
        return waits

    dump = read(*CLUSTER, wishing(RACK), wishing(HOST), wishing("cloud/zone"))
    assert [job.where.must for job in dump.waiting] == [RACK, "node", ""]
    text = "Workload ns-a/cloud-zone: cloud/zone is no level that is read; it may span it"
    assert text in dump.remarks


def test_pods_that_hold_gpus_beside_kueue_are_named():
    requests = {"containers": [{"resources": {"limits": {GPU: "4"}}}], "nodeName": "gpu-0"}
    owner = [{"kind": "Job", "uid": "u1", "name": "x"}]
    mine = workload("x", "ns-a/main", running="a", ownerReferences=owner)
    known = thing("v1", "Pod", "x-0", requests, namespace="ns-a", ownerReferences=owner)
    marked = thing("v1", "Pod", "y", requests, labels={"kueue.x-k8s.io/queue-name": "main"})
    stranger = thing("v1", "Pod", "z", requests, namespace="sys")
    idle = thing("v1", "Pod", "i", {"containers": [], "nodeName": "gpu-0"})
    dump = read(*CLUSTER, mine, known, marked, stranger, idle)
    said = [text for text in dump.remarks if text.startswith("Pod")]
    assert said == ["Pod sys/z: holds GPUs, is of no Workload, and does not count"]


def pods(count, group, node_names=(), annotations=None, priority=0, **labels):
    requests = {"resources": {"requests": {GPU: "8"}, "limits": {GPU: "8"}}}
    notes = {"scheduling.k8s.io/group-name": group, "pod-group-name": group, **(annotations or {})}
    return [
        thing("v1", "Pod", f"{group}-{i}",
              {"containers": [requests], "priority": priority,
               **({"nodeName": node_names[i]} if node_names else {})},
              namespace="ns", annotations=notes, labels=labels)
        for i in range(count)
    ]  # fmt: skip


def test_pods_of_a_group_are_a_job_of_its_queue():
    group = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "g", {"minMember": 2, "queue": "q"},
                  namespace="ns")  # fmt: skip
    lone = pods(1, "lone", **{"scheduling.volcano.sh/queue-name": "gone"})
    dump = read(*CLUSTER[:4], volcano("q"), group, *pods(2, "g", ("gpu-0", "gpu-3")), *lone)
    (job,) = dump.running
    assert (job.name, job.quota, job.where.nodes) == ("ns/g", "q", ("gpu-0", "gpu-3"))
    assert [(role.pods, role.gpus) for role in job.roles] == [(2, 8)]
    said = "Pod ns/lone-0: asks for GPUs, is of no queue that is read, and is left out"
    assert dump.remarks == (said,)


def test_jobs_of_kai_stay_from_priority_100_on_and_parts_of_gpus_count_whole():
    queue = {"kai.scheduler/queue": "q"}
    stays = pods(1, "s", priority=125, **queue)
    part = pods(1, "p", annotations={"gpu-fraction": "0.5"}, priority=50, **queue)
    part[0]["spec"]["containers"] = []
    dump = read(*CLUSTER[:4], kai("q"), *stays, *part)
    results = {job.name: (job.preemptible, job.gpus, job.priority) for job in dump.waiting}
    assert results == {"ns/s": (False, 8, 125), "ns/p": (True, 1, 50)}
    assert dump.remarks == ("Pod ns/p-0: asks for a part of a GPU; it counts as a whole one",)


def test_a_trace_is_replayed_in_the_cluster_and_its_file_is_written(tmp_path, capsys, refused):
    path, trace = tmp_path / "dump.json", tmp_path / "jobs.csv"
    odd = cluster_queue("odd", 0, spec={"admissionChecks": ["a"]})
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*CLUSTER, odd]}))
    save_csv(Trace.from_columns(["x", "y"], ["v", "v"], [0, 0], [60, 60], [8, 32]), trace)
    given = ["--format", "csv", "--tenant", "v=a", "--json", str(tmp_path / "out.json")]
    assert cli.main(["replay", "spec", "--cluster", str(path), *given, str(trace)]) == 0
    text = f"{path}: ClusterQueue odd: spec.admissionChecks has no counterpart here"
    assert text in capsys.readouterr().err
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["specs"]["dump.json"]["gpus"] == 32
    file = tmp_path / "cluster.yaml"
    assert cli.main(["init", "--from", str(path), "--flavor", "h100", "--out", str(file)]) == 0
    assert "# ClusterQueue odd: spec.admissionChecks has" in file.read_text()
    assert cli.main(["validate", str(file)]) == 0
    assert SchedulerSpec.read(file).tenants == ("all", "a", "b", "odd")
    assert "jobs.csv" in refused("init", "--from", trace)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--resource", "cpu=193"), "a pod takes cpu 193, and no node has more than 192"),
        (("--resource", "memory=3Ti"), "a pod takes memory 3Ti, and no node has more than 2Ti"),
        (("--must", "rak"), "--must: there is no layer 'rak'; known are rack, switch, node"),
    ],
)
def test_the_reason_speaks_of_what_the_user_wrote(tmp_path, capsys, options, says):
    file = tmp_path / "cluster.yaml"
    assert cli.main(["init", "rack", "--out", str(file)]) == 0
    assert cli.main(["what-if", str(file), "--queue", "research", *options]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        ("cpu=120", "asks for 120 of 'cpu', and max of 'research' is 100"),
        ("memory=2Ti", "asks for 2Ti of 'memory', and max of 'research' is 1Ti"),
    ],
)
def test_amounts_are_written_as_users_write_them(tmp_path, capsys, resource, says):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "cluster: {models: {h: {gpus: 8, resources: {cpu: 192, memory: 2Ti}}}, nodes: {n0: h}}\n"
        "tenants: {research: {quota: {max: {gpu: 8, cpu: 100, memory: 1Ti}}}}\n"
        "devices:\n"
    )
    assert cli.main(["what-if", str(file), "--queue", "research", "--resource", resource]) == 1
    assert says in capsys.readouterr().out


NO_ROOM = " It has no devices, cells or network, so no room on its nodes was looked for."


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("tenants: {q: {quota: {max: {gpu: 8}}}}\ndevices:", "."),
        ("devices:", ", and no quotas, so --queue limits nothing."),
        ("", f", and no quotas, so --queue limits nothing.{NO_ROOM}"),
        ("tenants: {q: {quota: {max: {gpu: 9}}}}", f".{NO_ROOM}"),
    ],
)
def test_what_a_file_does_not_have_is_said_not_to_be_considered(tmp_path, more, says, output):
    file = tmp_path / "cluster.yaml"
    file.write_text(f"cluster: {{models: {{h: {{gpus: 8}}}}, nodes: {{n0: h}}}}\n{more}\n")
    start, considered = output("what-if", file, "--queue", "q").splitlines()
    assert start == ("It would start now on n0" if "devices" in more else "It would start now")
    assert considered == f"The file has no other jobs{says}"


@pytest.mark.parametrize("tenants", ["", "tenants: {a: {weight: 2}}\nqueues:\n"])
def test_a_quota_of_another_file_may_be_asked_for(tmp_path, tenants, output, refused):
    quota = thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "lab", {"max": {GPU: 8}})
    (tmp_path / "quotas.yaml").write_text(yaml.safe_dump(quota))
    file = tmp_path / "cluster.yaml"
    cluster = "cluster: {models: {h: {gpus: 8}}, nodes: {n0: h}}\ndevices:\n"
    file.write_text(f"{cluster}quotas: {{koordinator: quotas.yaml}}\n{tenants}")
    assert output("what-if", file, "--queue", "lab").startswith("It would start now on n0\n")
    said = refused("what-if", file, "--queue", "lob")
    assert "--queue: there is no queue 'lob', there are" in said


def test_reasons_and_changes_are_written_as_users_write_amounts():
    job = Job("it", "q0", [Role("w", resources={"cpu": 1500, "gpu-core": 50})])
    text = "max of 'q0' is exceeded (cpu: 8000 used + 1500 asked > 8500, gpu: 1 used + 1 asked > 1)"
    after = "max of 'q0' is exceeded (cpu: 8 used + 1500m asked > 8500m, gpu: 1 used + 1 asked > 1)"
    assert _as_written(text, job) == after
    assert _as_written("if max of q0 were cpu: 9500", job) == "if max of q0 were cpu: 9500m"
    assert _as_written("asks for 50 of 'cpu', and the total has none", job) == (
        "asks for 50m of 'cpu', and the total has none"
    )
