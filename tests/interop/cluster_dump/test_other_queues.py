"""Queues of Volcano, KAI-Scheduler and Koordinator as quotas, and what is wrong with a dump."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from interop.cluster_dump.dumps import (
    GPU,
    cluster_queue,
    flavor,
    node,
    numbers,
    read,
    spec_of,
    thing,
    workload,
)
from interop.hostile import broken
from profiles import examples

from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.hived import ConfigError
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Job, Start

NODES = [node(f"gpu-{i}") for i in range(4)]


def volcano(name, **spec):
    thing_ = thing(
        "scheduling.volcano.sh/v1beta1", "Queue", name, {"reclaimable": True, "weight": 1}
    )
    thing_["spec"] |= spec
    thing_["status"] = {"state": "Open", "allocated": {"cpu": "0"}, "reservation": {}}
    return thing_


def kai(name, parent="", quota=0, limit=-1, weight=1, **spec):
    amounts = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    free = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": amounts, "cpu": free, "memory": free}
    parents = {"parentQueue": parent} if parent else {}
    return thing("scheduling.run.ai/v2", "Queue", name, {"resources": resources, **parents, **spec})


def test_volcano_queues_that_say_what_they_deserve_take_that_back():
    dump = read(
        *NODES,
        volcano("root", reclaimable=False),
        volcano("org", parent="root", capability={GPU: "24"}),
        volcano("a", parent="org", deserved={GPU: "16"}, dequeueStrategy="fifo"),
        volcano("b", parent="org", deserved={GPU: 8}, guarantee={"resource": {GPU: 4}}, weight=3),
        volcano("default"),
    )
    assert numbers(dump) == {
        "org": ("", 24, 24, 0),
        "default": ("", 0, 32, 0),
        "a": ("org", 16, 32, 0),
        "b": ("org", 8, 32, 0),
    }
    assert dump.sections["quotas"]["limit"] == "max"
    assert dump.sections["tenants"]["a"]["blocking"] == "fifo"
    assert dump.remarks == (
        "Queue b: weight does not count, as queues say what they deserve",
        "Queue b: guarantee is not kept; all that is idle is lent, and taken back on demand",
    )


def test_volcano_queues_without_it_share_by_weight_and_keep_what_is_guaranteed():
    objects = [
        *NODES,
        volcano("a", weight=3),
        volcano("b", guarantee={"resource": {GPU: 12}}, priority=5, affinity={"nodeGroup": 1}),
    ]
    dump = read(*objects)
    assert numbers(dump) == {"a": ("", 0, 32, 3), "b": ("", 12, 32, 1)}
    assert dump.remarks[0] == "Queue b: spec.affinity has no counterpart here"
    scheduler = spec_of(*objects).scheduler()
    for i in range(32):
        scheduler.submit(Job(f"j{i}", "a", 1), 0.0)
    assert sum(isinstance(entry, Start) for entry in scheduler.decide(0.0)) == 20


def test_kinds_of_a_system_that_are_not_read_are_named():
    hyper = thing("topology.volcano.sh/v1alpha1", "HyperNode", "s1", {"tier": 1})
    others = [thing("v1", "ConfigMap", "c"), thing("batch.volcano.sh/v1alpha1", "Job", "j")]
    remarks = read(*NODES, volcano("a"), hyper, *others).remarks
    assert remarks == (
        "HyperNode: objects of this kind are not read",
        "Job: objects of this kind are not read",
    )


def test_kai_queues_have_quotas_weights_and_limits():
    dump = read(
        *NODES,
        kai("org", quota=-1),
        kai("a", "org", quota=16, limit=24, weight=2),
        kai("b", "org", quota=8, priority=200, reclaimMinRuntime="5m"),
        kai("half", "org", quota=0.5, limit=0),
    )
    assert numbers(dump) == {
        "org": ("", 32, 32, 1000),
        "a": ("org", 16, 24, 2000),
        "b": ("org", 8, 32, 1000),
        "half": ("org", 1, 1, 1000),
    }
    assert numbers(dump, "cpu")["b"] == ("org", 0, 762_000, 1000)
    assert "org" not in dump.queues and dump.queues["a"] == "a"
    assert dump.remarks == (
        "Queue b: spec.reclaimMinRuntime has no counterpart here",
        "Queue b: priority does not count; what is spare is shared by weight",
        "Queue half: the limit of gpu is below its quota, which counts",
        "Queue half: gpu is rounded up to whole units",
    )


def test_a_kai_queue_may_have_as_much_memory_as_quotas_count():
    queues = [kai("org", quota=-1), kai("a", "org"), kai("b", "org")]
    for queue, megabytes in zip(queues[1:], (2**22, 2**41), strict=True):
        queue["spec"]["resources"]["memory"] = {"quota": megabytes, "limit": -1}
    memory = numbers(read(*NODES, *queues), "memory")
    assert memory["a"][1] == 2**22 * 10**6 and memory["b"][1] == 2**41 * 10**6


def test_koordinator_quotas_are_as_its_reader_has_them():
    quota = thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "lab", {
        "max": {"cpu": 40, GPU: 16}, "min": {GPU: "8"}})  # fmt: skip
    dump = read(*NODES, quota)
    assert dump.system == "Koordinator" and dump.sections["quotas"]["limit"] == "runtime"
    tree = SchedulerSpec.of_yaml(dump.text).quotas
    assert dict(tree.quota("lab").max) == {"cpu": 40_000, "gpu": 16}
    assert tree.total() == {"cpu": 762_000, "gpu": 32}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "there is no ClusterQueue of Kueue, no Queue of Volcano"),
        ([volcano("a")], "there is no Node: dump the nodes, too"),
        ([*NODES, NODES[0], volcano("a")], "Node 'gpu-0' is there twice"),
        ([NODES[0], flavor(labels={"a": "b"}), cluster_queue("a", 8)], "no node of 1 belongs to a"),
        ([*NODES, volcano("a"), kai("b")], "there are queues of Volcano and KAI-Scheduler"),
        ([*NODES, kai("a", "b"), kai("b", "a")], "Queue 'a' is above itself"),
        ([*NODES, kai("a", "b")], "Queue 'a': there is no parent 'b'"),
        ([*NODES, volcano("a", weight="x")], "Queue 'a': spec.weight: expected `int`, got `str`"),
        ([*NODES, cluster_queue("a", "8 GPUs")], r"'a': spec.resourceGroups\[0\]"),
        ([*NODES, cluster_queue("a", -8)], r"resources\[0\]\.nominalQuota: amount -8 is negative"),
        ([*NODES, cluster_queue("a", 8, spec={"queueingStrategy": "LIFO"})], "queueingStrategy"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_object(objects, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read(*objects)


def test_a_dump_is_read_where_a_file_of_a_scheduler_is_and_mistakes_name_it():
    assert not ClusterDump.recognises("kind: ConfigMap\ndata: {a: 'physicalCluster:'}")
    with pytest.raises(ConfigError, match=r"dump.yaml: there is no ClusterQueue of Kueue"):
        SchedulerSpec.of_yaml("apiVersion: v1\nkind: Node\nmetadata: {name: a}", "dump.yaml")
    with pytest.raises(ValueError, match="flavor: KAI-Scheduler has no flavors"):
        read(*NODES, kai("a"), flavor="x")


DOCUMENT = [
    node("n0", labels={"pool": "h"}),
    flavor(labels={"pool": "h"}),
    cluster_queue("q", 8, "all", borrowingLimit=2),
    workload("j", "ns/lq", running="q", nodes={"n0": 1}),
]


@given(broken(DOCUMENT))
@examples(300)
def test_an_unexpected_value_is_an_error_or_read(document):
    try:
        assert SchedulerSpec.of_yaml(ClusterDump.read(document).text).nodes
    except (TypeError, ValueError):
        return


@given(st.data(), st.sampled_from([kai("a", quota=3), volcano("a", deserved={GPU: 1})]))
@examples(150)
def test_so_it_is_with_other_queues(data, queue):
    try:
        SchedulerSpec.of_yaml(ClusterDump.read(data.draw(broken([NODES[0], queue]))).text)
    except (TypeError, ValueError):
        return


def test_gpus_that_a_node_shares_are_named():
    shared = node("s", gpus=32, labels={"nvidia.com/gpu.replicas": "4"})
    dump = read(shared, volcano("a"))
    assert dump.remarks == ("Node s: shares each GPU 4 times, and each share is a GPU here",)
    (model,) = dump.sections["cluster"]["models"].values()
    assert (model["gpus"], model["gpu_memory"]) == (32, "20389Mi")


@pytest.mark.parametrize("as_text", [json.dumps, yaml.safe_dump])
def test_a_dump_may_begin_with_warnings_of_kubectl(as_text):
    objects = {"apiVersion": "v1", "kind": "List", "items": [NODES[0], volcano("a")]}
    text = "Warning: v1 Endpoints is deprecated\nWarning: so is that\n" + as_text(objects)
    assert ClusterDump.recognises(text)
    assert ClusterDump.read(text).queues == {"a": "a"}
    assert SchedulerSpec.of_yaml(text).nodes
