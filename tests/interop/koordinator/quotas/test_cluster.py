"""Quotas, pods and nodes of a cluster as a tree."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from interop.hostile import broken
from interop.koordinator.quotas.objects import K, elastic_quota, node, pod
from profiles import examples

from hivecore.interop.koordinator import elastic_quota_status, read_quota_cluster
from hivecore.quotas import quota_rules

GI = 1 << 30
LAB = elastic_quota("lab", {"cpu": 40, "memory": "1Ti"}, notes={"namespaces": ["ns"]})
BOUND = {"nodeName": "n"}


def test_the_total_is_what_nodes_can_allocate_of_resources_that_quotas_have():
    nodes = [
        node("n1", {"cpu": "31500m", "memory": "100Gi", "pods": 110}),
        node("n2", {"cpu": 8, "nvidia.com/gpu": 4}),
        node("n3", {"cpu": 99}, deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    cluster = read_quota_cluster([LAB, *nodes])
    assert cluster.tree.total() == {"cpu": 39_500, "memory": 100 * GI}
    assert cluster.nodes == 3
    assert read_quota_cluster([LAB, *nodes], total={"cpu": 5}).tree.total() == {"cpu": 5}
    without = read_quota_cluster([LAB])
    assert (without.nodes, without.tree.total()) == (0, {})
    empty = node("n", None)
    assert read_quota_cluster([LAB, empty]).tree.total() == {}


def test_bound_pods_run_others_are_pending_and_those_that_have_ended_are_gone():
    pods = [
        pod("bound", {"cpu": 1}, **BOUND),
        pod("leaving", {"cpu": 2}, status={"phase": "Running"}, **BOUND),
        pod("waiting", {"cpu": 4}, status={"phase": "Pending"}),
        pod("done", {"cpu": 8}, status={"phase": "Succeeded"}, **BOUND),
        pod("broken", {"cpu": 16}, status={"phase": "Failed"}),
        pod("free", {"cpu": 32}, namespace="elsewhere", **BOUND),
        pod("gone", {"cpu": "what?"}, status={"phase": "Failed"}),
    ]
    pods[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = read_quota_cluster([LAB, *pods, node("n", {"cpu": 64})])
    members = {name: cluster.tree.members(name) for name in cluster.tree.owners}
    assert members == {"ns/bound": 1, "ns/leaving": 1, "ns/waiting": 0}
    status = cluster.tree.status("lab")
    assert (status.used["cpu"], status.request["cpu"]) == (3000, 7000)
    assert cluster.free == ("elsewhere/free",)
    cluster.tree.check()


def test_the_pod_that_started_last_is_the_first_to_go_in_whatever_order_they_are_listed():
    times = {"c": "2026-01-01T10:00:00Z", "a": "2026-01-01T11:00:00Z", "b": "2026-01-02T00:00:00Z"}
    pods = [pod(name, {"cpu": 2}, status={"startTime": at}, **BOUND) for name, at in times.items()]
    for order in itertools.permutations(pods):
        cluster = read_quota_cluster([LAB, *order], total={"cpu": 5000, "memory": 0})
        assert cluster.tree.overusers("lab") == ("ns/b",)


def amounts(cpu, memory, gpu=None):
    results = {"cpu": cpu, "memory": memory}
    return results if gpu is None else {**results, "nvidia.com/gpu": gpu}


def starting(*many):
    return [{"resources": {"requests": entry}} for entry in many]


TWO_FIRST = starting(amounts(2, 1), amounts(2, 3))
# Koordinator at a7a1b76b, pkg/scheduler/plugins/elasticquota/controller_test.go: quotas called like
# their namespaces, the containers of pods, those that run before them, and the request in the end.
CONTROLLER = [
    (
        amounts(5, 15, 1),
        [("a", [amounts(1, 2, 1)], []), ("a", [amounts(1, 2, 0)], [])],
        {"a": amounts(2, 4, 1)},
    ),
    (
        amounts(5, 15),
        [("a", [amounts(1, 2)] * 2, []), ("a", [amounts(2, 1), amounts(1, 1)], TWO_FIRST)],
        {"a": amounts(5, 7)},
    ),
    (
        amounts(5, 15),
        [
            ("a", [amounts(2, 1), amounts(1, 1)], TWO_FIRST),
            ("b", [amounts(3, 1), amounts(1, 1)], TWO_FIRST),
        ],
        {"a": amounts(3, 3), "b": amounts(4, 3)},
    ),
    (amounts(50, 15), [("c", [amounts(1, 2, 1), amounts(1, 2)], [])], {"a": amounts(0, 0)}),
]


@pytest.mark.parametrize("quote", ['"', ""])
def test_times_order_pods_whether_they_are_in_quotes_or_not_and_in_whatever_zone(quote):
    times = {"a": "2026-01-02T00:00:00Z", "b": "2026-01-02T01:00:00+05:00"}
    pods = "".join(
        f"""
---
kind: Pod
metadata: {{name: {name}, namespace: x, labels: {{quota.scheduling.koordinator.sh/name: lab}}}}
spec: {{nodeName: n, containers: [{{resources: {{requests: {{cpu: 1}}}}}}]}}
status: {{startTime: {quote}{at}{quote}}}"""
        for name, at in times.items()
    )
    text = "{kind: ElasticQuota, metadata: {name: lab}, spec: {max: {cpu: 2}}}" + pods
    tree = read_quota_cluster(text, total={"cpu": 1000}).tree
    assert tree.overusers("lab") == ("x/a",)  # b started four hours before


@pytest.mark.parametrize(("most", "pods", "expected"), CONTROLLER)
def test_requests_are_those_of_koordinators_own_tests(most, pods, expected):
    quotas = [elastic_quota(name, most, amounts(3, 5), namespace=name) for name in expected]
    items = [
        pod(f"p{i}", containers, namespace=namespace, initContainers=first)
        for i, (namespace, containers, first) in enumerate(pods)
    ]
    tree = read_quota_cluster([*quotas, *items]).tree
    for name, wanted in expected.items():
        text = elastic_quota_status(tree, name)["metadata"]["annotations"][f"{K}/request"]
        written = json.loads(text)
        assert {key: int(value) for key, value in written.items()} == wanted


def test_pods_in_parents_and_options_of_the_tree_are_handed_on():
    parent = elastic_quota("p", {"cpu": 4}, {"cpu": 4}, labels={"is-parent": "true"})
    each = pod("x", {"cpu": 1}, quota="p", **BOUND)
    with pytest.raises(ValueError, match=r"Pod 'x': .*quota 'p' is a parent"):
        read_quota_cluster([parent, each])
    cluster = read_quota_cluster([parent, each], total={"cpu": 1000}, pods_in_parents=True)
    assert cluster.tree.status("p").used == {"cpu": 1000}
    loose = read_quota_cluster(parent, total={"cpu": 1000}, scale_min=False)
    assert loose.tree.status("p").min == {"cpu": 4000}
    assert cluster.tree.status("p").min == {"cpu": 1000}


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([node("n", {}), node("n", {})], r"Node 'n': .*metadata.name: 'n' is there twice"),
        ([node("", {})], "Node: .*metadata.name: is missing"),
        ([node("n", {"cpu": -1})], r"Node 'n': .*status.allocatable.cpu: -1 is negative"),
        ([node("n", {"cpu": "x"})], r"Node 'n': .*status.allocatable.cpu: 'x' is no quantity"),
        ([pod("p", {}), pod("p", {})], r"Pod 'p': .*metadata.name: 'ns/p' is there twice"),
        ([pod("p", {"cpu": "x"})], r"Pod 'p': .*requests.cpu: 'x' is no quantity"),
        ([pod("p", {}, nodeName=3)], r"Pod 'p': .*spec.nodeName must be a string, not 3"),
        ([node(i, {"cpu": "1e99"}) for i in "ab"], r"total\['cpu'\]=9223372036854775808"),
    ],
)
def test_what_is_wrong_is_refused_with_kind_name_and_path(objects, says):
    with pytest.raises((TypeError, ValueError), match=says):
        read_quota_cluster([LAB, *objects])


RICH = [
    LAB,
    node("n", {"cpu": 64, "memory": "64Gi"}),
    pod("p", {"cpu": 1}, status={"startTime": "2026-01-01T00:00:00Z"}, **BOUND),
    pod("q", {"cpu": 1}),
]


@given(broken({"kind": "List", "items": RICH}))
@examples(400)
def test_hostile_clusters_are_read_or_refused_and_nothing_else(document):
    try:
        cluster = read_quota_cluster(document)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        cluster.tree.check()
        assert set(cluster.tree.owners).isdisjoint(cluster.free)


EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "quotas.yaml"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="only the installed package is here")
def test_in_the_example_vision_has_borrowed_what_speech_now_asks_for():
    cluster = read_quota_cluster(EXAMPLE.read_text("utf-8"))
    tree, gpu = cluster.tree, "nvidia.com/gpu"
    assert quota_rules(cluster.quotas.quotas) == ()
    assert cluster.free == ()
    # Two nodes of 63.5 cores, without what monitor and one-off use.
    assert tree.total()["cpu"] == 2 * 63_500 - 1500 - 1000
    assert tree.total()[gpu] == 16
    standing = {name: tree.status(name) for name in tree.quotas}
    assert {
        name: (entry.used.get(gpu), entry.runtime.get(gpu)) for name, entry in standing.items()
    } == {
        "koordinator-default-quota": (None, None),
        "koordinator-system-quota": (0, 0),
        "product": (3, 6),
        "research": (8, 10),
        "speech": (0, 3),
        "vision": (8, 7),
    }
    assert tree.overused() == ("vision",)
    assert tree.schedule("speech/recognizer").outcome == "preempt"
    assert tree.schedule("speech/recognizer").victims == ("vision/detector-1",)
