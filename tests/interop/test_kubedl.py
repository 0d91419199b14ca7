"""KubeDL's jobs: what is read of them, their gangs, and the queues that they wait in."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken
from profiles import examples

from hivecore.gangs import GangSpec
from hivecore.interop.koordinator import read_gang_pod
from hivecore.interop.kubedl import (
    KubedlJob,
    gang_labels,
    gangs_of,
    read_job,
    read_resource_quotas,
)
from hivecore.queues import NamespaceQuota, QueuedJob, TenantQueues

GPU = "nvidia.com/gpu"
FIELDS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "XDLJob": "xdlReplicaSpecs",
    "MarsJob": "marsReplicaSpecs",
    "ElasticDLJob": "elasticdlReplicaSpecs",
}


def role(replicas=None, spot=None, limits=None, **requests):
    resources = {"requests": requests, "limits": limits}
    results = {"template": {"spec": {"containers": [{"name": "main", "resources": resources}]}}}
    if replicas is not None:
        results["replicas"] = replicas
    if spot is not None:
        results["spotReplicaSpec"] = {"spotReplicaNumber": spot}
    return results


def job(roles, kind="PyTorchJob", policy=None, namespace="ai", **spec):
    policies = {"schedulingPolicy": policy}
    if kind == "MPIJob":
        policies = {"runPolicy": policies}
    return {
        "apiVersion": "training.kubedl.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {FIELDS[kind]: roles, **policies, **spec},
    }


MNIST = job(
    {
        "Master": role(limits={GPU: "1"}, cpu="500m", memory="1Gi"),
        "Worker": role(3, 1, limits={GPU: 1}, cpu="1", memory="2Gi"),
        "AIMaster": role(1, cpu="250m", memory="512Mi"),
    },
    policy={"queue": "vision", "priority": 7, "minAvailable": 2},
)


# --- jobs


def test_a_job_is_read():
    job = read_job(MNIST)
    assert (job.kind, job.name, job.namespace) == ("PyTorchJob", "ai/train", "ai")
    assert (job.tenant, job.priority, job.min_available) == ("vision", 7, 2)
    assert [(role.name, role.replicas, role.spot_replicas) for role in job.roles] == [
        ("Master", 1, 0),
        ("Worker", 3, 1),
        ("AIMaster", 1, 0),
    ]
    assert job.roles[0].requests == (
        ("cpu", Fraction(1, 2)),
        ("memory", Fraction(2**30)),
        (GPU, Fraction(1)),
    )
    assert job.resources == (("cpu", 2750), ("memory", 11 * 2**29), (GPU, 3))
    assert job.spot_resources == (("cpu", 1000), ("memory", 2**31), (GPU, 1))
    assert job.queued() == QueuedJob(
        "PyTorchJob/ai/train",
        "vision",
        3,
        7,
        resources=dict(job.resources),
        namespace="ai",
    )


@pytest.mark.parametrize("kind", FIELDS)
def test_each_kind_has_its_own_field_and_its_policy(kind):
    outcome = read_job(job({"Master": role(2, cpu=1)}, kind, {"queue": "q", "priority": -3}))
    assert (outcome.kind, outcome.tenant, outcome.priority) == (kind, "q", -3)
    assert outcome.resources == (("cpu", 2000),)
    others = {field: {"Master": role(1)} for field in FIELDS.values() if field != FIELDS[kind]}
    with pytest.raises(ValueError, match=rf"{kind} 'train': spec.{FIELDS[kind]}: is missing"):
        read_job(job({}, kind, **others))


def test_a_policy_in_the_place_of_another_kind_is_named():
    own = job({"Worker": role()}, "MPIJob", schedulingPolicy={"queue": "legacy"})
    with pytest.raises(
        ValueError, match=r"spec\.schedulingPolicy: has no meaning for the kind MPIJob"
    ):
        read_job(own)
    other = job({"Worker": role()}, runPolicy={"schedulingPolicy": {"queue": "q"}})
    with pytest.raises(ValueError, match=r"belongs to spec\.schedulingPolicy"):
        read_job(other)
    wrong = job({"Worker": role()}, policy={"queues": "q"})
    with pytest.raises(ValueError, match=r"schedulingPolicy\.queues: is unknown, is queue meant"):
        read_job(wrong)


@pytest.mark.parametrize(
    ("policy", "priority"),
    [
        (None, 0),
        ({"priority": 5, "priorityClassName": "high"}, 5),
        ({"priority": 0, "priorityClassName": "high"}, 0),
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "unknown"}, 0),
        ({"priorityClassName": ""}, 0),
    ],
)
def test_the_priority_is_the_policy_s_then_that_of_its_class_then_0(policy, priority):
    outcome = read_job(job({"Worker": role()}, policy=policy), priority_classes={"high": 1000})
    assert outcome.priority == priority


def test_the_tenant_is_the_queue_then_the_default_then_the_namespace():
    with_queue, without = (job({"Worker": role()}, policy=p) for p in ({"queue": "q"}, None))
    assert read_job(with_queue, default_tenant="d").tenant == "q"
    assert read_job(without, default_tenant="d").tenant == "d"
    assert read_job(without).tenant == "ai"
    assert read_job(without, default_tenant="d").queued().namespace == "ai"


def test_what_a_pod_asks_for_is_what_kubernetes_counts():
    each = role(2, cpu=1, memory=100)
    spec = each["template"]["spec"]
    spec["containers"].append({"resources": {"requests": {"cpu": "250m"}, "limits": {GPU: 2}}})
    spec["initContainers"] = [{"resources": {"requests": {"cpu": 1, "memory": 300}}}]
    spec["overhead"] = {"cpu": "10m"}
    assert read_job(job({"Worker": each})).resources == (("cpu", 2520), ("memory", 600), (GPU, 4))


def test_spot_pods_are_no_more_than_all():
    outcome = read_job(job({"Worker": role(2, 5, cpu=1)}))
    assert (outcome.resources, outcome.spot_resources) == ((("cpu", 0),), (("cpu", 2000),))
    assert outcome.queued("cpu").size == 1


@pytest.mark.parametrize(("given_name", "name"), [("worker", "Worker"), ("WORKER", "Worker")])
def test_roles_are_known_in_any_case(given_name, name):
    assert read_job(job({given_name: role(), "aimaster": role()})).roles[0].name == name
    assert (
        len(gangs_of(read_job(job({given_name: role(), "aimaster": role()})), per_role=True)) == 1
    )


def test_half_a_core_many_times_is_half_of_that():
    """KubeDL makes a core of each half: 1000 pods of 500m would be 1000 cores."""
    outcome = read_job(job({"Worker": role(1000, cpu="500m")}))
    assert outcome.resources == (("cpu", 500_000),)
    quota = NamespaceQuota()
    quota.set_quota("ai", {"cpu": 500_000})
    assert quota.filter(outcome.queued()) == ""


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000), st.integers(0, 1000), st.lists(st.integers(0, 9999), max_size=3)
        ),
        min_size=1,
        max_size=4,
    )
)
@examples(200)
def test_totals_are_exact(roles):
    """Beside sums of whole millionths of a core, which round only once."""
    specs, normal, spots = {}, 0, 0
    for i, (replicas, spot, containers) in enumerate(roles):
        spec = role(replicas, spot)
        spec["template"]["spec"]["containers"] = [
            {"resources": {"requests": {"cpu": f"{micro}u"}}} for micro in containers
        ]
        specs[f"role{i}"] = spec
        spots += min(spot, replicas) * sum(containers)
        normal += max(replicas - spot, 0) * sum(containers)
    outcome = read_job(job(specs))
    for wanted, micros in ((outcome.resources, normal), (outcome.spot_resources, spots)):
        assert dict(wanted).get("cpu", 0) == -(-micros // 1000)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"kind": "Job"}, ValueError, "kind: must be one of PyTorchJob, .*, not 'Job'"),
        ({"kind": None}, ValueError, "kind: is missing"),
        ({"apiVersion": "kubeflow.org/v1"}, ValueError, "must be of the group training.kubedl.io"),
        ({"metadata": {}}, ValueError, "PyTorchJob: metadata.name: is missing"),
        ({"spec": {}}, ValueError, "spec.pytorchReplicaSpecs: is missing"),
        ({"spec": 3}, TypeError, "PyTorchJob 'train': spec must be a mapping"),
    ],
)
def test_what_is_wrong_with_an_object_is_named(change, kind, says):
    with pytest.raises(kind, match=says):
        read_job({**MNIST, **change})


@pytest.mark.parametrize(
    ("roles", "policy", "kind", "says"),
    [
        ({"Worker": None}, None, ValueError, "pytorchReplicaSpecs.Worker: is missing"),
        ({"": role()}, None, ValueError, "a role must have a name"),
        ({"Worker": role(), "worker": role()}, None, ValueError, "worker: the role is there twice"),
        ({"Worker": role(-1)}, None, ValueError, "Worker.replicas=-1"),
        ({"Worker": role("3")}, None, TypeError, "Worker.replicas must be an integer"),
        ({"Worker": role(1, -1)}, None, ValueError, "spotReplicaNumber=-1"),
        ({"Worker": role(cpu="-1")}, None, ValueError, r"requests.cpu: '-1' is negative"),
        ({"Worker": role(cpu="many")}, None, ValueError, r"containers\[0\].*is no quantity"),
        ({"a": role(2**31 - 1), "b": role(1)}, None, ValueError, "more than 2.*31 - 1 pods"),
        ({"a": role(2**30, memory="1Ei")}, None, ValueError, "ask for more than 2.*63 - 1 of"),
        ({"a": role(9, 9, memory="1Ei")}, None, ValueError, "ask for more than 2.*63 - 1 of"),
        ({"a": role()}, {"priority": 2**31}, ValueError, "schedulingPolicy.priority=2147483648"),
        ({"a": role()}, {"minAvailable": "2"}, TypeError, "schedulingPolicy.minAvailable must be"),
        ({"a": role()}, {"queue": 3}, TypeError, "schedulingPolicy.queue must be a string"),
    ],
)
def test_what_is_wrong_within_is_named_with_its_path(roles, policy, kind, says):
    with pytest.raises(kind, match=says):
        read_job(job(roles, policy=policy))


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="record must be a mapping"):
        read_job([MNIST])
    with pytest.raises(ValueError, match=r"priority_classes\['high'\]"):
        read_job(MNIST, priority_classes={"high": 2**31})
    with pytest.raises(TypeError, match="default_tenant"):
        read_job(MNIST, default_tenant=3)
    with pytest.raises(ValueError, match=r"size_of='memory'.*2305843009213693952"):
        read_job(job({"a": role(2, memory="1Ei")})).queued("memory")
    with pytest.raises(ValueError, match="size_of"):
        read_job(MNIST).queued("")
    for call in (gangs_of, lambda item, **kw: gang_labels(item, "Worker", **kw)):
        with pytest.raises(TypeError, match="job must be a KubedlJob"):
            call(MNIST, per_role=True)
        with pytest.raises(TypeError, match="per_role"):
            call(read_job(MNIST), per_role=1)


@given(broken(MNIST))
@examples(300)
def test_hostile_jobs_are_read_or_refused_and_nothing_else(document):
    try:
        job = read_job(document)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(job, KubedlJob)
        TenantQueues().push(job.queued(), now=0)
        gangs_of(job, per_role=True)


# --- gangs


def test_gangs_by_role_need_all_and_start_without_each_other():
    assert gangs_of(read_job(MNIST), per_role=True) == (
        GangSpec("ai/train-master", 1),
        GangSpec("ai/train-worker", 3),
    )


def test_one_gang_needs_what_the_job_says_or_all_but_the_ai_master():
    assert gangs_of(read_job(MNIST), per_role=False) == (GangSpec("ai/train", 2, 4),)
    for least in (None, 0, -1):
        record = job(MNIST["spec"]["pytorchReplicaSpecs"], policy={"minAvailable": least})
        assert gangs_of(read_job(record), per_role=False) == (GangSpec("ai/train", 4),)


def test_a_gang_that_could_never_start_is_refused():
    record = read_job(job({"a": role(2), "AIMaster": role(9)}, policy={"minAvailable": 3}))
    with pytest.raises(ValueError, match="minAvailable is 3, and there are 2 pods"):
        gangs_of(record, per_role=False)
    assert len(gangs_of(record, per_role=True)) == 1


def test_an_ai_master_alone_is_no_gang():
    record = read_job(job({"AIMaster": role(1)}, policy={"minAvailable": 1}))
    assert gangs_of(record, per_role=True) == gangs_of(record, per_role=False) == ()
    assert gang_labels(record, "AIMaster", per_role=False) == {}


def test_labels_are_those_of_two_protocols():
    label = "pod-group.scheduling.sigs.k8s.io"
    job = read_job(MNIST)
    assert gang_labels(job, "Worker", per_role=True) == {
        label: "train-worker",
        f"{label}/name": "train-worker",
        f"{label}/min-available": "3",
    }
    assert gang_labels(job, "Worker", per_role=False) == {
        label: "train",
        f"{label}/name": "train",
        f"{label}/min-available": "2",
    }
    assert gang_labels(job, "AIMaster", per_role=True) == {}
    with pytest.raises(KeyError, match="role='PS'"):
        gang_labels(job, "PS", per_role=True)


@pytest.mark.parametrize("per_role", [True, False])
def test_koordinator_follows_the_labels(per_role):
    job = read_job(MNIST)
    gangs = {gang.name: gang for gang in gangs_of(job, per_role=per_role)}
    for name in ("Master", "Worker"):
        labels = gang_labels(job, name, per_role=per_role)
        pod = {"metadata": {"name": "p", "namespace": "ai", "labels": labels}}
        assert read_gang_pod(pod).gang in gangs
        del labels["pod-group.scheduling.sigs.k8s.io"]
        light = read_gang_pod(pod)
        assert light.spec.min_members == gangs[light.gang].min_members


# --- quotas


def quota(hard, used=None, namespace="ai", name="q"):
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": hard},
        "status": {"used": used},
    }


RICH = quota({"requests.nvidia.com/gpu": "4", "cpu": "1", "pods": 9}, {"cpu": "500m", "x": 1})


def test_limits_of_requests_are_limits_of_the_resource():
    assert read_resource_quotas(RICH) == {
        "ai": ({GPU: 4, "cpu": 1000, "pods": 9}, {GPU: 0, "cpu": 500, "pods": 0})
    }


def test_use_is_that_of_the_limit():
    key = "requests.nvidia.com/gpu"
    assert read_resource_quotas(quota({key: 4}, {key: 3, GPU: 1})) == {"ai": ({GPU: 4}, {GPU: 3})}


def test_limits_are_rounded_down_and_use_up():
    assert read_resource_quotas(quota({"cpu": "1500u", "memory": "1500m"}, {"cpu": "1500u"})) == {
        "ai": ({"cpu": 1, "memory": 1}, {"cpu": 2, "memory": 0})
    }
    assert read_resource_quotas(quota({"memory": "100Ei"}))["ai"][0] == {"memory": 2**63 - 1}


def test_of_several_limits_that_counts_which_leaves_least():
    both = quota({"cpu": 8, "requests.cpu": 6}, {"cpu": 5, "requests.cpu": 5})
    assert read_resource_quotas(both) == {"ai": ({"cpu": 6000}, {"cpu": 5000})}
    other = quota({"cpu": 3, "limits.cpu": 1}, {"cpu": 1}, name="r")
    elsewhere = quota({"cpu": 2}, namespace="lab")
    assert read_resource_quotas([other, both, elsewhere]) == {
        "ai": ({"cpu": 6000, "limits.cpu": 1}, {"cpu": 5000, "limits.cpu": 0}),
        "lab": ({"cpu": 2000}, {"cpu": 0}),
    }


def test_jobs_wait_for_the_devices_of_their_namespace():
    queues, plugin = TenantQueues(), NamespaceQuota()
    for namespace, (hard, used) in read_resource_quotas(RICH).items():
        plugin.set_quota(namespace, {GPU: hard[GPU]}, used)
    large = read_job(job({"Worker": role(5, limits={GPU: 1})})).queued()
    queues.push(large, now=0)
    assert queues.next(1, plugins=[plugin]) is None
    reason = queues.explain(large.name, 1, plugins=[plugin]).reason
    assert reason == "quota of 'ai': asks for 5 of 'nvidia.com/gpu', and 4 are left"


@pytest.mark.parametrize(
    ("record", "kind", "says"),
    [
        ({**RICH, "kind": "Pod"}, ValueError, "kind: must be ResourceQuota"),
        ({**RICH, "metadata": {}}, ValueError, "metadata.name: is missing"),
        (quota({"cpu": -1}), ValueError, "spec.hard.cpu: -1 is negative"),
        (quota({"cpu": []}), TypeError, "spec.hard.cpu must be a quantity"),
        (quota({"cpu": 1}, {"cpu": "x"}), ValueError, "ResourceQuota 'q': status.used.cpu"),
        (3, TypeError, "objects must be objects"),
    ],
)
def test_what_is_wrong_with_a_quota_is_named(record, kind, says):
    with pytest.raises(kind, match=says):
        read_resource_quotas(record)


@given(broken(RICH))
@examples(300)
def test_hostile_quotas_are_read_or_refused_and_nothing_else(document):
    try:
        limits = read_resource_quotas(document)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        for namespace, (hard, used) in limits.items():
            NamespaceQuota().set_quota(namespace, hard, used)
