"""KubeDL's jobs: tenants, priorities, exact amounts, gangs, quotas."""

from random import Random

import pytest
from profiles import seeds

from hivecore.gangs import Coscheduler, GangSpec
from hivecore.interop.koordinator import read_gang_pod
from hivecore.interop.kubedl import (
    KubedlJob,
    gang_labels,
    gangs_of,
    queued_job,
    read_job,
    read_resource_quota,
)
from hivecore.queues import NamespaceQuota, TenantQueues

KINDS = {
    "ElasticDLJob": "elasticdlReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "MarsJob": "marsReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XDLJob": "xdlReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
}


def role(replicas=None, spot=None, **requests):
    asked = {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in requests.items()}
    found = {"template": {"spec": {"containers": [{"resources": {"requests": asked}}]}}}
    if replicas is not None:
        found["replicas"] = replicas
    if spot is not None:
        found["spotReplicaSpec"] = {"spotReplicaNumber": spot}
    return found


def job(kind="TFJob", policy=None, name="train", **roles):
    return {
        "apiVersion": "training.kubedl.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {KINDS[kind]: roles, **({} if policy is None else {"schedulingPolicy": policy})},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_framework_has_its_roles(kind):
    found = read_job(job(kind, Worker=role(2, cpu="1")))
    assert (found.kind, found.name, found.resources) == (kind, "ml/train", (("cpu", 2000),))


def test_amounts_are_exact_and_spot_replicas_apart():
    found = read_job(job(PS=role(cpu="500m"), Worker=role(4, 1, cpu="500m", gpu="2", memory="1Ki")))
    assert dict(found.resources) == {
        "cpu": 500 + 1500,
        "nvidia.com/gpu": 6000,
        "memory": 3 * 1024 * 1000,
    }
    assert dict(found.spot_resources) == {
        "cpu": 500,
        "nvidia.com/gpu": 2000,
        "memory": 1024 * 1000,
    }
    assert queued_job(found).size == 8


def test_a_thousandth_is_rounded_up_once():
    found = read_job(job(Worker=role(10, cpu="100u")))
    assert found.resources == (("cpu", 1),)  # 10 * 0.1, not 10 * 1


@pytest.mark.parametrize(
    ("policy", "options", "tenant"),
    [
        (None, {}, "ml"),
        ({}, {"tenant": "vision"}, "vision"),
        ({"queue": "search"}, {"tenant": "vision"}, "search"),
    ],
)
def test_the_tenant_is_the_queue_the_preset_or_the_namespace(policy, options, tenant):
    assert read_job(job(policy=policy, Worker=role()), **options).tenant == tenant


@pytest.mark.parametrize(
    ("policy", "priority"),
    [
        (None, 0),
        ({"priority": 7, "priorityClassName": "high"}, 7),
        ({"priority": 0, "priorityClassName": "high"}, 0),
        ({"priorityClassName": "high"}, 100),
        ({"priorityClassName": "unknown"}, 0),
    ],
)
def test_the_priority_is_the_value_or_that_of_the_class(policy, priority):
    found = read_job(job(policy=policy, Worker=role()), priorities={"high": 100})
    assert found.priority == priority


def test_gangs_per_role_and_per_job():
    found = read_job(job(PS=role(2), Worker=role(4), AIMaster=role(1)))
    assert gangs_of(found, wait_time=60) == (
        GangSpec("ml/train-ps", 2, wait_time=60),
        GangSpec("ml/train-worker", 4, wait_time=60),
    )
    assert gangs_of(found, per_role=False) == (GangSpec("ml/train", 6),)
    some = read_job(job(policy={"minAvailable": 3}, PS=role(2), Worker=role(4), AIMaster=role(1)))
    assert gangs_of(some, per_role=False) == (GangSpec("ml/train", 3, 6),)
    assert gangs_of(some) == gangs_of(read_job(job(PS=role(2), Worker=role(4))))


@pytest.mark.parametrize("per_role", [True, False])
def test_koordinator_reads_the_gangs_that_the_labels_name(per_role):
    found = read_job(job(PS=role(2), AIMaster=role(1), Worker=role(4)))
    specs = {spec.name: spec for spec in gangs_of(found, per_role=per_role)}
    for name in ("PS", "Worker"):
        labels = gang_labels(found, name, per_role=per_role)
        pod = {"metadata": {"name": "p", "namespace": "ml", "labels": labels}}
        assert read_gang_pod(pod).gang in specs  # a PodGroup defines it
        del labels["pod-group.scheduling.sigs.k8s.io"]
        spec = read_gang_pod(pod).spec
        assert spec.min_members == specs[spec.name].min_members
    assert gang_labels(found, "AIMaster", per_role=per_role) == {}
    with pytest.raises(KeyError, match="'Chief'"):
        gang_labels(found, "Chief")


def test_from_the_queue_to_the_pods():
    """Jobs of a namespace wait for its quota; the one that leaves starts as a gang."""
    quota, queues, gangs = NamespaceQuota(), TenantQueues(), Coscheduler()
    record = {
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8", "pods": "100", "limits.cpu": "1"}},
        "status": {"used": {"requests.nvidia.com/gpu": "2"}},
    }
    quota.set_quota(*read_resource_quota(record))
    jobs = [
        read_job(job(name="large", policy={"priority": 9}, Worker=role(4, gpu="2"))),
        read_job(job(name="small", Worker=role(3, gpu="2"))),
    ]
    for one in jobs:
        queues.push(queued_job(one), now=0)
    assert "asks for 8000" in queues.explain("ml/large", now=0, plugins=[quota]).reason
    left = queues.next(now=0, plugins=[quota]).job
    assert left.name == "ml/small"
    assert queues.next(now=0, plugins=[quota]) is None  # it is assumed
    [spec] = gangs_of(jobs[1])
    for i in range(3):
        gangs.create_pod(f"{spec.name}-{i}", spec, 0)
    actions = [gangs.assume_pod(f"{spec.name}-{i}", 1) for i in range(3)][-1]
    assert [(one.kind, len(one.pods)) for one in actions] == [("release", 3)]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: read_job(3), TypeError, "record"),
        (lambda: read_job({}), ValueError, "kind: is missing"),
        (lambda: read_job({"kind": "Job"}), ValueError, "must be one of ElasticDLJob"),
        (lambda: read_job(job()), ValueError, "TFJob 'train': spec.tfReplicaSpecs: is missing"),
        (lambda: read_job(job(Worker=role(-1))), ValueError, "Worker.replicas"),
        (lambda: read_job(job(Worker=role(2, 3))), ValueError, "spotReplicaNumber"),
        (lambda: read_job(job(Worker=role(1, cpu="x"))), ValueError, "no quantity"),
        (lambda: read_job(job(Worker=role(1, cpu="-1"))), ValueError, "negative"),
        (lambda: read_job(job(Worker=role(2**31 - 1, cpu="1E"))), ValueError, "more than 2"),
        (lambda: read_job(job(policy={"minAvailable": -1}, W=role())), ValueError, "minAvailable"),
        (lambda: read_job(job(policy={"priority": "9"}, W=role())), TypeError, "priority"),
        (lambda: read_job(job(policy={"queue": 3}, W=role())), TypeError, "queue"),
        (lambda: queued_job(None), TypeError, "job must be a KubedlJob"),
        (lambda: gangs_of(None), TypeError, "job must be a KubedlJob"),
        (lambda: gangs_of(read_job(job(W=role())), per_role=1), TypeError, "per_role"),
        (lambda: read_resource_quota([]), TypeError, "record"),
        (
            lambda: read_resource_quota(
                {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "many"}}}
            ),
            ValueError,
            "ResourceQuota 'q': spec.hard.cpu",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_hostile_jobs_are_read_or_refused_and_nothing_else():
    values = [None, 0, -1, 2**70, 0.5, float("nan"), "", "x", "1", True, [], {}, [None], {"a": 1}]
    for seed in seeds(500):
        rng = Random(seed)
        record = job(policy={"queue": "q", "priority": 1}, Worker=role(2, 1, cpu="1", gpu="1"))
        for _ in range(rng.randint(1, 3)):
            place = record
            while True:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not keys:
                    break
                key = rng.choice(keys)
                if not isinstance(place[key], (dict, list)) or rng.random() < 0.2:
                    place[key] = rng.choice(values)
                    break
                place = place[key]
        try:
            found = read_job(record)
        except (TypeError, ValueError):
            continue
        assert isinstance(found, KubedlJob)
        gangs_of(found)
