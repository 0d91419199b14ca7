"""Jobs of HiveD's and Koordinator's pods."""

import pytest
from hypothesis import given
from interop.koordinator_objects import broken
from interop.pods_and_kubelets import GANG, hived_pod, koordinator_pod
from profiles import examples

from hivecore.devices import DeviceNeed, DeviceRequest
from hivecore.interop.hived import RequestError, job_of_hived_pods
from hivecore.interop.koordinator import (
    ElasticQuotas,
    job_of_koordinator_pods,
    read_pod_group,
)
from hivecore.interop.kubernetes.job_names import job_name
from hivecore.quotas import Quota
from hivecore.scheduler import Job, Role, Where

# --- HiveD


def test_a_group_is_a_job_and_its_members_are_roles():
    members = [(1, 2), (2, 8), (1, 8)]
    pods = [hived_pod(name, "v", gpus, "me/g", members, 7) for name, gpus in (("a", 8), ("b", 2))]
    expected = Job("me:g", "v", [Role("2-gpu", 1, 2), Role("8-gpu", 3, 8)], priority=7)
    assert job_of_hived_pods(pods) == expected
    assert job_of_hived_pods(pods[1]) == expected
    assert job_of_hived_pods(iter(pods), name="other") == expected.replace(name="other")


def test_a_pod_without_a_group_is_a_job_of_its_own():
    assert job_of_hived_pods(hived_pod("p", "v", 4)) == Job("x:p", "v", [Role("4-gpu", 1, 4)])


def test_opportunistic_pods_types_and_pinned_cells_are_read():
    job = job_of_hived_pods(hived_pod("p", "v", 4, priority=-1, leafCellType="V100"))
    assert (job.guaranteed, job.priority, job.where) == (False, -1, Where(leaf_type="V100"))
    pinned = {"leafCellType": "V100", "pinnedCellId": "cell"}
    assert job_of_hived_pods(hived_pod("p", "v", 4, **pinned)).where == Where(pinned_cell="cell")


def test_pods_of_two_groups_are_no_job():
    pods = [hived_pod("p", "v", 4, "g", [(2, 4)]), hived_pod("q", "v", 4, "g", [(3, 4)])]
    with pytest.raises(ValueError, match="pod 'x/q' says something else of the group 'g' than the"):
        job_of_hived_pods(pods)


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
    with pytest.raises(ValueError, match="'/' is not allowed in the name of a job"):
        job_of_hived_pods(pod, name="a/b")


@given(broken(hived_pod("p", "v", 4, "g", [(2, 4)])) | broken([hived_pod("p", "v", 4)]))
@examples(200)
def test_whatever_is_no_pod_is_a_clear_error(pods):
    try:
        assert isinstance(job_of_hived_pods(pods), Job)
    except (TypeError, ValueError) as error:
        assert str(error)


# --- Koordinator


def test_a_gang_is_a_job_that_starts_with_its_minimum():
    pods = [koordinator_pod(f"p{i}", "q", 4, "g", 2, 9125) for i in range(3)]
    roles = [Role("pod", 3, 4, min_pods=2)]
    assert job_of_koordinator_pods(pods) == Job("x:g", "q", roles, priority=912)


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
    assert job_of_koordinator_pods(pods) == Job("x:g", "q", roles)


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
    assert job_of_koordinator_pods(pod) == Job("x:p", "q", [role])


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
    assert job_of_koordinator_pods(pods, gang=spec) == Job("x:g", "q", [Role("pod", 2, 4)])
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
    try:
        assert isinstance(job_of_koordinator_pods(pods), Job)
    except (TypeError, ValueError) as error:
        assert str(error)


# --- names


def test_names_of_jobs_differ_where_names_do():
    names = ["a", "a/b", "a:b", "a%b", "a%3Ab", "a%2Fb", "a%25b", "a//b", ":", "/"]
    found = [job_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert not any("/" in name for name in found)
