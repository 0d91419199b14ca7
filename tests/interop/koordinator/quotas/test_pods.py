"""Which quota a pod belongs to, and what it asks of it."""

import pytest
from hypothesis import given
from interop.hostile import broken
from interop.koordinator.quotas.objects import K, elastic_quota, pod
from profiles import examples

from hivecore.interop.koordinator import pod_quota, quota_request_of, read_elastic_quotas
from hivecore.quotas import QuotaRequest, QuotaTree

GI = 1 << 30
DEFAULT = "koordinator-default-quota"

LAB = elastic_quota("lab", {"cpu": 9, "memory": "9Gi"}, labels={"is-parent": "true"})
A = elastic_quota(
    "a", {"cpu": 9, "memory": "9Gi"}, parent="lab", notes={"namespaces": ["x", "own", "l"]}
)
OWN = elastic_quota("own", {"cpu": 9}, namespace="own")
QUOTAS = read_elastic_quotas([LAB, A, OWN, elastic_quota(DEFAULT, {"cpu": 99})])
WITHOUT_DEFAULT = read_elastic_quotas([LAB, A, OWN])


@pytest.mark.parametrize(
    ("quota", "namespace", "expected"),
    [
        ("a", "own", "a"),  # the label comes first
        (None, "own", "own"),  # then the quota called like the namespace, in it
        (None, "x", "a"),  # then the annotation
        (None, "ns", DEFAULT),  # then the default quota
        ("gone", "x", DEFAULT),  # which is also that of an unknown name
        ("gone", "own", DEFAULT),
    ],
)
def test_the_first_way_that_applies_names_the_quota(quota, namespace, expected):
    each = pod("p", {}, quota=quota, namespace=namespace)
    assert pod_quota(each, QUOTAS) == expected
    without = None if expected == DEFAULT else expected
    assert pod_quota(each, WITHOUT_DEFAULT) == without
    request = quota_request_of(each, WITHOUT_DEFAULT)
    assert (request and request.quota) == without


def test_an_empty_label_is_none_and_a_pod_without_a_namespace_is_in_default():
    spaces = elastic_quota("d", {"cpu": 1}, notes={"namespaces": ["default"]})
    quotas = read_elastic_quotas(spaces)
    each = pod("p", {"cpu": 1}, labels={f"{K}/name": ""}, namespace=None)
    assert pod_quota(each, quotas) == "d"
    assert quota_request_of(each, quotas).name == "default/p"


def test_a_parent_has_no_pods_unless_it_may():
    each = pod("p", {"cpu": 1}, quota="lab")
    for call in (pod_quota, quota_request_of):
        with pytest.raises(ValueError, match=r"Pod 'p': .*/name'\]: quota 'lab' is a parent, and"):
            call(each, QUOTAS)
    assert pod_quota(each, QUOTAS, pods_in_parents=True) == "lab"
    assert quota_request_of(each, QUOTAS, pods_in_parents=True).quota == "lab"


def test_containers_add_up_starting_ones_are_alone_and_the_overhead_comes_on_top():
    each = pod(
        "p",
        [{"cpu": "500m", "memory": "1Gi"}, {"cpu": "700m"}],
        quota="a",
        initContainers=[
            {"resources": {"requests": {"cpu": 2}}},
            {"resources": {"requests": {"memory": "1Gi"}}, "restartPolicy": "Always"},
        ],
        overhead={"cpu": "1m", "memory": 1},
    )
    expected = (("cpu", 2001), ("memory", 2 * GI + 1))
    assert quota_request_of(each, QUOTAS).amounts == expected


def test_resources_without_a_maximum_are_left_out_whatever_they_are():
    each = pod("p", {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": "1e99"}, namespace="own")
    assert quota_request_of(each, QUOTAS).amounts == (("cpu", 1000),)
    # A tree has 64 dimensions at most: hundreds of pods with a resource of their own are welcome.
    tree = QUOTAS.tree({"cpu": 900_000})
    for i in range(200):
        own = pod(f"p{i}", {"cpu": "1m", f"example.com/{i}": 1}, quota="a")
        tree.submit(quota_request_of(own, QUOTAS))
    assert tree.status("a").request == {"cpu": 200, "memory": 0}


def test_priority_and_the_preemptible_label_are_the_pods():
    each = pod("p", {}, quota="a", priority=-7)
    assert quota_request_of(each, QUOTAS) == QuotaRequest("ns/p", "a", {}, priority=-7)
    for text, expected in (("false", False), ("true", True), ("False", True), ("", True)):
        each = pod("p", {}, quota="a", labels={f"{K}/preemptible": text})
        assert quota_request_of(each, QUOTAS).preemptible is expected


def test_pods_that_start_together_are_members_of_one_owner():
    labels = {"pod-group.scheduling.sigs.k8s.io": "gang"}
    pods = [pod(f"p{i}", {"cpu": 1}, quota="a", labels=labels) for i in range(3)]
    request = quota_request_of(pods, QUOTAS, min_count=2)
    assert request == QuotaRequest("ns/gang", "a", {"cpu": 1000}, count=3, min_count=2)
    assert quota_request_of(iter(pods), QUOTAS, name="mine").name == "mine"
    noted = pod("q", {"cpu": 1}, quota="a")
    noted["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/name": "other"}
    assert quota_request_of([noted], QUOTAS).name == "ns/other"
    assert quota_request_of(noted, QUOTAS).name == "ns/q"


@pytest.mark.parametrize(
    "label",
    [
        "pod-group.scheduling.sigs.k8s.io",
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io/name",
    ],
)
def test_every_label_of_a_gang_names_the_owner(label):
    pods = [pod(f"p{i}", {"cpu": 1}, quota="a", labels={label: "gang"}) for i in range(2)]
    assert quota_request_of(pods, QUOTAS).name == "ns/gang"


def test_pods_of_one_owner_are_alike_and_of_one_gang():
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    first = pod("p", {"cpu": 1}, quota="a", labels=labels)
    for other, what in (
        (pod("q", {"cpu": 2}, quota="a", labels=labels), "request"),
        (pod("q", {"cpu": 1}, quota="own", labels=labels), "quota"),
        (pod("q", {"cpu": 1}, quota="a", labels=labels, priority=1), "priority"),
        (
            pod("q", {"cpu": 1}, quota="a", labels={**labels, f"{K}/preemptible": "false"}),
            "preemptible label",
        ),
    ):
        with pytest.raises(ValueError, match=f"Pod 'q': its {what} is not that of the first pod"):
            quota_request_of([first, other], QUOTAS)
    for other in (
        pod("q", {"cpu": 1}, quota="a"),
        pod("q", {"cpu": 1}, quota="a", labels=labels, namespace="elsewhere"),
    ):
        with pytest.raises(ValueError, match="the pods are of no one gang: give the owner a name"):
            quota_request_of([first, other], QUOTAS)
    with pytest.raises(ValueError, match="pods: is empty"):
        quota_request_of([], QUOTAS)


@pytest.mark.parametrize(
    ("item", "kind", "says"),
    [
        (pod("p", {"cpu": "x"}, quota="a"), ValueError, r"requests.cpu: 'x' is no quantity"),
        (pod("p", {"cpu": -1}, quota="a"), ValueError, r"requests.cpu: -1 is negative"),
        (pod("p", {"cpu": float("nan")}, quota="a"), ValueError, r"cpu: nan is no quantity"),
        (pod("p", {"cpu": "1e99"}, quota="a"), ValueError, r"amounts\['cpu'\]"),
        (pod("p", 3, quota="a"), TypeError, r"spec.containers\[0\].resources.requests must be a m"),
        (pod("p", {}, quota="a", priority="high"), TypeError, "spec.priority must be an integer"),
        (pod("p", {}, quota="a", priority=2**31), ValueError, "spec.priority"),
        (pod("", {}, quota="a"), ValueError, "metadata.name: is missing"),
        (pod("a/b", {}, quota="a"), ValueError, "metadata.name: must not contain '/'"),
        (pod("p", {}, labels={f"{K}/name": 3}), TypeError, "name'. must be a string, not 3"),
    ],
)
def test_what_is_wrong_with_a_pod_is_refused_with_pod_and_path(item, kind, says):
    with pytest.raises(kind, match=says) as caught:
        quota_request_of(item, QUOTAS)
    assert str(caught.value).startswith("Pod")


def test_wrong_arguments_are_type_errors():
    for call in (pod_quota, quota_request_of):
        with pytest.raises(TypeError, match="quotas must be ElasticQuotas, not dict"):
            call(pod("p", {}), {})
        with pytest.raises(TypeError, match="pod"):
            call(3, QUOTAS)
        with pytest.raises(TypeError, match="pods_in_parents must be a bool"):
            call(pod("p", {}), QUOTAS, pods_in_parents=1)
    with pytest.raises(ValueError, match="min_count"):
        quota_request_of(pod("p", {}, quota="a"), QUOTAS, min_count=2)


RICH = pod(
    "p",
    [{"cpu": "500m"}, {"memory": "1Gi"}],
    quota="a",
    labels={f"{K}/preemptible": "false", "pod-group.scheduling.sigs.k8s.io": "g"},
    initContainers=[{"resources": {"requests": {"cpu": 2}}, "restartPolicy": "Always"}],
    overhead={"cpu": "1m"},
    priority=3,
)


@given(broken(RICH))
@examples(500)
def test_hostile_pods_are_read_or_refused_and_nothing_else(document):
    try:
        request = quota_request_of(document, QUOTAS)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        tree = QuotaTree(QUOTAS.quotas)
        tree.submit(request)
        assert tree.request(request.name) == request
