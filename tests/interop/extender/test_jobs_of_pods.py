"""Jobs of HiveD's and Koordinator's pods."""

import json
import re

import pytest
from hypothesis import given
from interop.extender.pods_and_kubelets import GANG, hived_pod, koordinator_pod
from interop.hostile import broken, refused_clearly
from profiles import examples

from hivecore.devices import DeviceNeed, DeviceRequest
from hivecore.interop.hived import RequestError, job_of_hived_pods
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.koordinator import (
    ElasticQuotas,
    job_of_koordinator_pods,
    read_pod_group,
)
from hivecore.interop.koordinator.jobs import ANNOTATIONS, LABELS
from hivecore.interop.kubernetes.job_names import job_name, object_name
from hivecore.quotas import Quota
from hivecore.scheduler import Job, Role, Where
from hivecore.topology import NetworkTopology

# --- HiveD


def test_a_group_is_a_job_and_its_members_are_roles():
    members = [(1, 2), (2, 8), (1, 8)]
    pods = [hived_pod(name, "v", gpus, "me/g", members, 7) for name, gpus in (("a", 8), ("b", 2))]
    expected = Job("me/g", "v", [Role("2-gpu", 1, 2), Role("8-gpu", 3, 8)], priority=7)
    assert job_of_hived_pods(pods) == expected
    assert job_of_hived_pods(pods[1]) == expected
    assert job_of_hived_pods(iter(pods), name="other") == expected.replace(name="other")


def test_a_pod_without_a_group_is_a_job_of_its_own():
    assert job_of_hived_pods(hived_pod("p", "v", 4)) == Job("x/p", "v", [Role("4-gpu", 1, 4)])


def test_opportunistic_pods_types_and_pinned_cells_are_read():
    job = job_of_hived_pods(hived_pod("p", "v", 4, priority=-1, leafCellType="V100"))
    assert (job.guaranteed, job.priority, job.where) == (False, -1, Where(leaf_type="V100"))
    pinned = {"leafCellType": "V100", "pinnedCellId": "cell"}
    assert job_of_hived_pods(hived_pod("p", "v", 4, **pinned)).where == Where(pinned_cell="cell")


def test_pods_of_two_groups_are_no_job():
    pods = [hived_pod("p", "v", 4, "g", [(2, 4)]), hived_pod("q", "v", 4, "g", [(3, 4)])]
    with pytest.raises(ValueError, match="pod 'x/q' says something else of the group 'g' than the"):
        job_of_hived_pods(pods)


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        ((), "members", "spec: 'members' has no meaning here, it belongs to affinityGroup"),
        ((), "podNumber", "it belongs to an entry of affinityGroup.members"),
        ((), "leafCellNumbr", "spec: 'leafCellNumbr' is unknown, is leafCellNumber meant?"),
        ((), "podRootGroup", "spec: 'podRootGroup' is unknown, known here are affinityGroup"),
        (("affinityGroup",), "priority", "affinityGroup: 'priority' has no meaning here, it belo"),
        (("affinityGroup",), "podNumber", "belongs to an entry of affinityGroup.members"),
        (
            ("affinityGroup", "members", 0),
            "leafCellType",
            "spec: affinityGroup.members[0]: 'leafCellType' has no meaning here, it belongs to the",
        ),
        (("affinityGroup", "members", 0), "name", "it belongs to affinityGroup"),
        (("affinityGroup", "members", 0), 7, "affinityGroup.members[0]: '7' is unknown"),
        ((), "gpuNumber", "spec: gpuNumber=9: leafCellNumber, its newer name, differs"),
        (("affinityGroup", "members", 0), "gpuNumber", "gpuNumber=9: leafCellNumber, its newer"),
    ],
)
def test_a_field_that_would_have_no_effect_is_named(place, key, says):
    pod = hived_pod("p", "v", 4, "g", [(2, 4)])
    notes = pod["metadata"]["annotations"]
    ((annotation, text),) = notes.items()
    spec = json.loads(text)
    inner = spec
    for part in place:
        inner = inner[part]
    inner[key] = 9
    notes[annotation] = json.dumps(spec)
    with pytest.raises(RequestError, match=re.escape(says)):
        job_of_hived_pods(pod)
    assert PodRequest.read(spec, "p", strict=False).gang == "g"


def test_the_fields_that_hived_reads_and_never_uses_are_allowed():
    more = {"version": "v2", "gangReleaseEnable": True, "gpuNumber": 4}
    assert job_of_hived_pods(hived_pod("p", "v", 4, **more)).gpus == 4


def test_what_is_no_pod_of_hived_is_named():
    pod = hived_pod("p", "v", 4)
    for wrong, error, says in (
        ([], ValueError, "pods: is empty"),
        (3, TypeError, "pods"),
        ([3], TypeError, "pod must be a mapping, not int"),
        ({"metadata": {"name": "p"}}, RequestError, "pod-scheduling-spec'\\] is missing|: is miss"),
        ({**pod, "metadata": {**pod["metadata"], "annotations": 3}}, TypeError, "annotations"),
        (hived_pod("p", "v", 4, "g", [(2**21, 4)]), RequestError, "spec: pods=2097152"),
    ):
        with pytest.raises(error, match=says):
            job_of_hived_pods(wrong)
    with pytest.raises(ValueError, match="name="):
        job_of_hived_pods(pod, name="a//b")


@given(broken(hived_pod("p", "v", 4, "g", [(2, 4)])) | broken([hived_pod("p", "v", 4)]))
@examples(200)
def test_whatever_is_no_pod_is_a_clear_error(pods):
    with refused_clearly(RequestError):
        assert isinstance(job_of_hived_pods(pods), Job)


# --- Koordinator


def test_a_gang_is_a_job_that_starts_with_its_minimum():
    pods = [koordinator_pod(f"p{i}", "q", 4, "g", 2, 9125) for i in range(3)]
    roles = [Role("pod", 3, 4, min_pods=2)]
    assert job_of_koordinator_pods(pods) == Job("x/g", "q", roles, priority=912)


def test_the_total_of_an_annotation_is_how_many_join_in_the_end():
    pod = koordinator_pod("p", "q", 4)
    gang = "gang.scheduling.koordinator.sh"
    texts = {f"{gang}/name": "g", f"{gang}/min-available": "1", f"{gang}/total-number": "4"}
    pod["metadata"]["annotations"] = texts
    (role,) = job_of_koordinator_pods(pod).roles
    assert (role.pods, role.min_pods) == (4, 1)


def test_pods_that_ask_for_different_things_are_roles_and_all_of_them_start():
    pods = [koordinator_pod(f"p{i}", "q", i % 2, "g", 2) for i in range(3)]
    roles = [Role("pod-0", 2, 0), Role("pod-1", 1, 1)]
    assert job_of_koordinator_pods(pods) == Job("x/g", "q", roles)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("worker", "launcher", "worker"), ["worker", "launcher"]),
        (("worker", "launcher", "chief"), ["pod-0", "pod-1"]),
        (("worker", "worker", "worker"), ["pod-0", "pod-1"]),
        (("worker", "", "worker"), ["pod-0", "pod-1"]),
    ],
)
def test_a_role_is_called_as_the_labels_of_its_pods_alone_say(labels, names):
    pods = [koordinator_pod(f"p{i}", "q", (i + 1) % 2, "g", 3) for i in range(3)]
    for pod, label in zip(pods, labels, strict=True):
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = label
    roles = job_of_koordinator_pods(pods).roles
    assert [(role.name, role.gpus) for role in roles] == list(zip(names, (1, 0), strict=True))
    assert [role.name for role in job_of_koordinator_pods(pods[:1] * 3).roles] == ["worker"]


def test_devices_and_resources_are_those_of_a_pod():
    pod = koordinator_pod("p", "q", 0)
    pod["spec"]["containers"][0]["resources"] = {
        "limits": {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50},
        "requests": {"cpu": "1500m", "memory": "1Gi"},
    }
    half = DeviceNeed("gpu", 1, {"core": 50, "memory_ratio": 50})
    role = Role(
        "pod",
        devices=DeviceRequest("any", needs=[half]),
        resources={"cpu": 1500, "memory": 1 << 30},
    )
    assert job_of_koordinator_pods(pod) == Job("x/p", "q", [role])


def test_the_tenant_is_a_quota_or_the_namespace():
    pod = koordinator_pod("p", "q", 1)
    quotas = ElasticQuotas((Quota("vision", max={"gpu": 8}),), namespaces={"x": "vision"})
    del pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"]
    assert job_of_koordinator_pods(pod).tenant == "x"
    assert job_of_koordinator_pods(pod, quotas=quotas).tenant == "vision"


@pytest.mark.parametrize(
    ("given", "priority"),
    [(0, 0), (9, 0), (3000, 300), (9999, 999), (2 * 10**9, 1000), (-1, -1), (-(2**31), -1000)],
)
def test_priorities_keep_their_order_within_what_a_job_has(given, priority):
    assert (
        job_of_koordinator_pods(koordinator_pod("p", "q", 1, priority=given)).priority == priority
    )


def test_a_pod_that_must_not_be_preempted_is_not():
    label = {"quota.scheduling.koordinator.sh/preemptible": "false"}
    assert not job_of_koordinator_pods(koordinator_pod("p", "q", 1, **label)).preemptible


def test_a_pod_group_defines_a_gang():
    group = {"metadata": {"name": "g", "namespace": "x"}, "spec": {"minMember": 2}}
    pods = [koordinator_pod(f"p{i}", "q", 4) for i in range(2)]
    for pod in pods:
        pod["metadata"]["labels"][GANG] = "g"
    spec = read_pod_group(group)
    assert job_of_koordinator_pods(pods, gang=spec) == Job("x/g", "q", [Role("pod", 2, 4)])
    with pytest.raises(ValueError, match="pods: 1 of 2 that the gang 'x/g' needs"):
        job_of_koordinator_pods(pods[0], gang=spec)
    with pytest.raises(TypeError, match="gang must be a GangSpec, not str"):
        job_of_koordinator_pods(pods, gang="g")


def test_pods_that_differ_in_what_a_job_has_once_are_no_job():
    first = koordinator_pod("p", "q", 1, "g", 2, 10)
    for other, says in (
        (koordinator_pod("r", "s", 1, "g", 2, 10), "pod 'x/r': its tenant is 's', not 'q' as"),
        (koordinator_pod("r", "q", 1, "h", 2, 10), "its gang is 'x/h', not 'x/g' as that of 'x/p'"),
        (koordinator_pod("r", "q", 1, "g", 2, 90), "its priority is 9, not 1"),
    ):
        with pytest.raises(ValueError, match=says):
            job_of_koordinator_pods([first, other])


@given(broken([koordinator_pod(f"p{i}", "q", 1, "g", 1, 10) for i in range(2)]))
@examples(200)
def test_whatever_is_no_pod_of_koordinator_is_a_clear_error(pods):
    with refused_clearly():
        assert isinstance(job_of_koordinator_pods(pods), Job)


# --- where the pods of a gang go, and with which gangs they start

KEY = "gang.scheduling.koordinator.sh"
SPEC = f"{KEY}/network-topology-spec"
NETWORK = NetworkTopology(["spine", "rack"], {"n": {"spine": "s", "rack": "r"}})


def rules(*layers, **more):
    """Rules by pairs of a layer and a strategy."""
    pairs = zip(layers[::2], layers[1::2], strict=True)
    listed = [{"layer": layer, "strategy": strategy, **more} for layer, strategy in pairs]
    return json.dumps({"gatherStrategy": listed})


def gang_pods(number=2, **notes):
    """Pods of the gang x/g with these annotations."""
    pods = [koordinator_pod(f"p{i}", "q", 4, "g", 2) for i in range(number)]
    for pod in pods:
        named = {f"{KEY}/{key.replace('_', '-')}": text for key, text in notes.items()}
        pod["metadata"]["annotations"] = named
    return pods


@pytest.mark.parametrize(
    ("text", "network", "where"),
    [
        (rules("rack", "MustGather"), None, Where(must="rack")),
        (rules("rack", "PreferGather"), None, Where(prefer="rack")),
        (rules("NodeTopologyLayer", "MustGather", "rack", "MustGather"), None, Where(must="node")),
        (rules("ClusterTopologyLayer", "MustGather"), None, Where()),
        (rules("rack", "MustGather", "spine", "MustGather"), NETWORK, Where(must="rack")),
        (
            rules("rack", "PreferGather", "spine", "MustGather"),
            NETWORK,
            Where(must="spine", prefer="rack"),
        ),
        (rules("spine", "PreferGather", "rack", "MustGather"), NETWORK, Where(must="rack")),
        (rules("rack", "", podCountMultiple=2), None, Where(multiple={"rack": 2})),
    ],
)
def test_rules_of_the_topology_say_where_a_job_goes(text, network, where):
    pods = gang_pods(network_topology_spec=text)
    assert job_of_koordinator_pods(pods, network=network).where == where


@pytest.mark.parametrize(
    ("text", "network", "says"),
    [
        (rules("rack", "MustGather", "spine", "MustGather"), None, "the network says which of 'r"),
        (rules("rack", "MustGather", "spine", "PreferGather"), None, "which of 'rack' and 'spine'"),
        (rules("row", "MustGather"), NETWORK, "gang 'x/g': network-topology-spec: 'row' is none"),
        (rules("row", "", podCountMultiple=2), NETWORK, "'row' is none of spine, rack, node"),
        (rules("node", "MustGather"), None, "'node' is no layer: NodeTopologyLayer is"),
        (rules("rack", "Gather"), None, "gatherStrategy[0].strategy: must be one of MustGather"),
        (rules("rack", "MustGather", foo=1), None, "gatherStrategy[0].foo: is unknown"),
        ('{"gatherStrategie": []}', None, "is unknown, is gatherStrategy meant?"),
        ("{", None, "is no JSON"),
    ],
)
def test_rules_that_no_job_can_have_are_named(text, network, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        job_of_koordinator_pods(gang_pods(network_topology_spec=text), network=network)


def pod_group(**notes):
    named = {f"{KEY}/{key.replace('_', '-')}": text for key, text in notes.items()}
    metadata = {"name": "g", "namespace": "x", "annotations": named}
    return read_pod_group({"metadata": metadata, "spec": {"minMember": 2}})


def test_what_a_pod_group_says_of_places_and_groups_is_in_the_job():
    group = pod_group(
        network_topology_spec=rules("rack", "MustGather"), groups='["x/g", "y/ps", "x/eval"]'
    )
    for pods in (gang_pods(), gang_pods(network_topology_spec=rules("rack", "MustGather"))):
        job = job_of_koordinator_pods(pods, gang=group)
        assert (job.where, job.together) == (Where(must="rack"), ("x/eval", "y/ps"))


def test_one_pod_may_speak_for_its_gang():
    pods = gang_pods()
    pods[1] = gang_pods(2, network_topology_spec=rules("rack", "MustGather"), groups='["x/ps"]')[1]
    for order in (pods, pods[::-1]):
        job = job_of_koordinator_pods(order)
        assert (job.where.must, job.together) == ("rack", ("x/ps",))


@pytest.mark.parametrize(
    ("first", "second", "group", "says"),
    [
        ({"groups": '["x/a"]'}, {"groups": '["x/b"]'}, None, "pod 'x/p1': its groups differ|p0"),
        (
            {"network_topology_spec": rules("rack", "MustGather")},
            {"network_topology_spec": rules("spine", "MustGather")},
            None,
            "its network-topology-spec differ",
        ),
        ({"groups": '["x/a"]'}, {}, {"groups": '["x/b"]'}, "its groups differ"),
        (
            {"network_topology_spec": rules("rack", "MustGather")},
            {},
            {"network_topology_spec": rules("rack", "PreferGather")},
            "its network-topology-spec differ",
        ),
    ],
)
def test_pods_that_say_different_things_of_their_gang_are_no_job(first, second, group, says):
    pods = [gang_pods(**first)[0], gang_pods(2, **second)[1]]
    with pytest.raises(ValueError, match=says):
        job_of_koordinator_pods(pods, gang=None if group is None else pod_group(**group))


def test_groups_are_jobs_that_start_together():
    job = job_of_koordinator_pods(gang_pods(groups='["x/g", "x/ps"]'), name="train")
    assert (job.name, job.together) == ("train", ("x/ps",))
    assert job_of_koordinator_pods(gang_pods(groups='["x/g"]')).together == ()


def test_the_definition_of_another_gang_is_refused():
    other = read_pod_group({"metadata": {"name": "h"}, "spec": {"minMember": 2}})
    with pytest.raises(ValueError, match="gang: is 'default/h', and the pods are of 'x/g'"):
        job_of_koordinator_pods(gang_pods(), gang=other)


SAMPLES = {
    "pod-group.scheduling.sigs.k8s.io": "h",
    "scheduling.x-k8s.io/pod-group": "h",
    "pod-group.scheduling.sigs.k8s.io/name": "h",
    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    "quota.scheduling.koordinator.sh/name": "vision",
    "quota.scheduling.koordinator.sh/preemptible": "false",
    "koordinator.sh/gpu-isolation-provider": "HAMi-core",
    f"{KEY}/name": "h",
    f"{KEY}/min-available": "2",
    f"{KEY}/total-number": "9",
    f"{KEY}/groups": '["x/ps"]',
    SPEC: rules("rack", "MustGather"),
    "scheduling.koordinator.sh/network-topology-selector": "train",
    "scheduling.koordinator.sh/device-allocate-hint": '{"gpu": {"exclusivePolicy": "PCIeLevel"}}',
    "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"]}',
    "scheduling.koordinator.sh/gpu-partition-spec": '{"allocatePolicy": "Restricted"}',
}
#: A job gets its places at once; ranks are given where its pods are.
WITHOUT_EFFECT = {
    f"{KEY}/mode": "NonStrict",
    f"{KEY}/match-policy": "only-waiting",
    "pod-group.scheduling.sigs.k8s.io/match-policy": "only-waiting",
    f"{KEY}/waiting-time": "10m",
    f"{KEY}/network-topology-index": "3",
}


def job_with(place=None, key=None, text=None):
    """The job of two pods with NICs that need each other no more, with one thing said of both."""
    pods = [koordinator_pod(f"p{i}", "q", 4) for i in range(2)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["limits"]["koordinator.sh/rdma"] = 1
        pod["metadata"]["annotations"] = {f"{KEY}/name": "g", f"{KEY}/min-available": "1"}
        if key:
            pod["metadata"][place][key] = text
    return job_of_koordinator_pods(pods)


@pytest.mark.parametrize("key", LABELS + ANNOTATIONS)
def test_every_label_and_annotation_is_in_the_job_or_an_error_names_it(key):
    text = (SAMPLES | WITHOUT_EFFECT)[key]
    try:
        job = job_with("labels" if key in LABELS else "annotations", key, text)
    except ValueError as error:
        assert text in str(error) or key in str(error)
    else:
        assert (job == job_with()) == (key in WITHOUT_EFFECT)


@pytest.mark.parametrize("key", LABELS + ANNOTATIONS)
def test_a_label_among_annotations_and_the_other_way_round_is_named(key):
    text = (SAMPLES | WITHOUT_EFFECT)[key]
    pod = koordinator_pod("p", "q", 4)
    pod["metadata"]["labels"].pop(key, None)
    pod["metadata"]["annotations" if key in LABELS else "labels"][key] = text
    place = "a label" if key in LABELS else "an annotation"
    with pytest.raises(ValueError, match=re.escape(key)) as error:
        job_of_koordinator_pods(pod)
    assert f"is read as {place} only" in str(error.value)


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("min-available", "two", "must be an integer from 0 to 2147483647, not 'two'"),
        ("min-available", "-1", "must be an integer"),
        ("total-number", "1", "must be an integer from 2 to"),
        ("total-number", "many", "must be an integer from 2 to"),
        ("mode", "nonstrict", "must be Strict or NonStrict, not 'nonstrict'"),
        ("match-policy", "waiting", "must be one of once-satisfied, only-waiting"),
        ("waiting-time", "10", "must be a duration such as 10m, not '10'"),
        ("groups", "x/ps", 'must be a list of gangs, such as ["ai/train"]'),
        ("groups", '["ps"]', "must be names with their namespaces"),
        ("name", "h", "is 'h', and its gang is called 'g'"),
        ("network-topology-index", "first", "is no integer"),
    ],
)
def test_a_text_that_cannot_be_read_takes_no_default(key, text, says):
    pod = koordinator_pod("p", "q", 4)
    pod["metadata"]["labels"][f"{GANG}/name"] = "g"
    pod["metadata"]["annotations"] = {f"{KEY}/min-available": "2", f"{KEY}/{key}": text}
    with pytest.raises(ValueError, match=re.escape(f"{KEY}/{key}")) as error:
        job_of_koordinator_pods(pod)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (f"{KEY}/min-avaliable", f"{KEY}/min-available"),
        (f"{KEY}/network-topology-specs", SPEC),
        (f"{KEY}/group", f"{KEY}/groups"),
        (f"{GANG}/names", f"{GANG}/name"),
        ("quota.scheduling.koordinator.sh/preemptable", "quota.scheduling.koordinator.sh/preempti"),
        ("scheduling.x-k8s.io/pod-groups", "scheduling.x-k8s.io/pod-group"),
        (f"{GANG}/Name", f"{GANG}/name"),
        (f"{KEY}/NAME", f"{KEY}/name"),
        ("scheduling.koordinator.sh/network-topology-spec", SPEC),
        ("koordinator.sh/waiting-time", f"{KEY}/waiting-time"),
        (f"{KEY}/device-joint-allocate", "scheduling.koordinator.sh/device-joint-allocate"),
        ("node.koordinator.sh/gpu-partition-spec", "scheduling.koordinator.sh/gpu-partition-spec"),
    ],
)
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_misspelt_key_is_named(place, key, meant):
    pod = koordinator_pod("p", "q", 4)
    pod["metadata"][place][key] = "2"
    with pytest.raises(ValueError, match=re.escape(f"is unknown, is {meant}")):
        job_of_koordinator_pods(pod)


@pytest.mark.parametrize(
    "key", [f"{KEY}/timeout", "quota.scheduling.koordinator.sh/tree-id", "example.com/name"]
)
def test_keys_of_others_are_none_of_ours(key):
    pod = koordinator_pod("p", "q", 4)
    pod["metadata"]["annotations"][key] = "x"
    assert job_of_koordinator_pods(pod) == job_of_koordinator_pods(koordinator_pod("p", "q", 4))


def test_a_definition_without_the_name_of_a_gang_is_named():
    pod = koordinator_pod("p", "q", 4)
    pod["metadata"]["annotations"] = {f"{KEY}/min-available": "2"}
    with pytest.raises(ValueError, match="the pod names no gang"):
        job_of_koordinator_pods(pod)


@pytest.mark.parametrize("label", [GANG, "scheduling.x-k8s.io/pod-group"])
def test_either_label_of_pod_groups_names_the_gang(label):
    pods = [koordinator_pod(f"p{i}", "q", 4) for i in range(2)]
    for pod in pods:
        pod["metadata"]["labels"][label] = "g"
    job = job_of_koordinator_pods(pods, gang=pod_group())
    assert (job.name, job.roles[0].min_pods) == ("x/g", 2)


# --- names


def test_names_of_jobs_differ_where_names_do():
    names = ["a", "a/b", "a:b", "a%b", "a%3Ab", "a%2Fb", "a%25b", "a//b", ":", "/"]
    results = [job_name(name) for name in names]
    assert len(set(results)) == len(names)
    assert results[:3] == names[:3]
    assert [object_name(job) for job in results] == names
    assert [Job(name, "v", 1).name for name in results] == results
