"""Kueue's topologies, pod sets and assignments."""

import pytest

from hivecore.interop.kueue import (
    HOSTNAME,
    pod_selectors,
    read_pod_set,
    read_topology,
    topology_assignment,
)
from hivecore.topology import TopologyRequest

BLOCK, RACK = "cloud.example.com/block", "cloud.example.com/rack"
TOPOLOGY = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Topology",
    "metadata": {"name": "default"},
    "spec": {"levels": [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]},
}
FLAVOR = {
    "kind": "ResourceFlavor",
    "metadata": {"name": "gpu"},
    "spec": {"nodeLabels": {"pool": "gpu"}, "topologyName": "default"},
}
KUEUE = "kueue.x-k8s.io/podset-"


def node(name, **labels):
    return {"metadata": {"name": name, "labels": {HOSTNAME: name, **labels}}}


def racks():
    nodes = [
        node(f"n{i}", **{BLOCK: f"b{i // 4}", RACK: f"r{i // 2}", "pool": "gpu"}) for i in range(8)
    ]
    nodes += [node("cpu", **{BLOCK: "b0", RACK: "r0", "pool": "cpu"}), node("lost", pool="gpu")]
    network = read_topology(TOPOLOGY, nodes, FLAVOR)
    network.set_slots([2, 2, 2, 1, 2, 2, 2, 2])
    return network


def template(**annotations):
    return {
        "metadata": {
            "annotations": {
                KUEUE + key.replace("_", "-"): value for key, value in annotations.items()
            }
        }
    }


def test_nodes_of_the_flavor_with_all_labels_are_the_network():
    network = racks()
    assert network.layers == (BLOCK, RACK)
    assert network.nodes == tuple(f"n{i}" for i in range(8))


@pytest.mark.parametrize(
    ("annotations", "must", "prefer", "multiple"),
    [
        ({}, "", "", ()),
        ({"unconstrained_topology": "true"}, "", "", ()),
        ({"required_topology": RACK}, RACK, "", ()),
        ({"preferred_topology": BLOCK}, "", BLOCK, ()),
        ({"required_topology": HOSTNAME}, "node", "", ()),
        (
            {
                "required_topology": BLOCK,
                "slice_required_topology": RACK,
                "slice_size": "2",
            },
            BLOCK,
            "",
            ((RACK, 2),),
        ),
    ],
)
def test_annotations_are_wishes(annotations, must, prefer, multiple):
    request = read_pod_set(template(**annotations), racks(), "ml/train/main", 4)
    assert request == TopologyRequest(
        "ml/train/main", 4, must=must, prefer=prefer, multiple=dict(multiple)
    )


def test_a_placement_is_an_assignment():
    network = racks()
    asked = template(required_topology=BLOCK, slice_required_topology=RACK, slice_size="3")
    decision = network.schedule(read_pod_set(asked, network, "ml/train/main", 6))
    assert topology_assignment(decision, network) == {
        "levels": [HOSTNAME],
        "domains": [
            {"values": ["n0"], "count": 2},
            {"values": ["n1"], "count": 1},
            {"values": ["n2"], "count": 2},
            {"values": ["n3"], "count": 1},
        ],
    }
    assert topology_assignment(decision, network, (BLOCK, RACK))["domains"] == [
        {"values": ["b0", "r0"], "count": 3},
        {"values": ["b0", "r1"], "count": 3},
    ]
    hosts = [selector[HOSTNAME] for selector in pod_selectors(decision, network)]
    assert hosts == list(decision.ranks)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: read_topology({}, []), ValueError, "spec.levels: is missing"),
        (
            lambda: read_topology({"spec": {"levels": [{}]}}, []),
            ValueError,
            "nodeLabel: is missing",
        ),
        (
            lambda: read_topology({"spec": {"levels": [{"nodeLabel": RACK}] * 2}}, []),
            ValueError,
            "is there twice",
        ),
        (
            lambda: read_topology(
                {"spec": {"levels": [{"nodeLabel": HOSTNAME}, {"nodeLabel": RACK}]}}, []
            ),
            ValueError,
            "is below kubernetes.io/hostname",
        ),
        (lambda: read_topology(TOPOLOGY, []), ValueError, "nodes: there is none"),
        (lambda: read_topology(TOPOLOGY, [node("a"), node("a")]), ValueError, "there twice"),
        (
            lambda: read_topology(TOPOLOGY, [], {**FLAVOR, "spec": {"topologyName": "x"}}),
            ValueError,
            "ResourceFlavor 'gpu': spec.topologyName: is not 'default'",
        ),
        (lambda: read_topology(3, []), TypeError, "record"),
        (lambda: read_pod_set(template(required_topology="x"), racks(), "a", 1), ValueError, "'x'"),
        (
            lambda: read_pod_set(
                template(required_topology=RACK, preferred_topology=RACK), racks(), "a", 1
            ),
            ValueError,
            "required-topology and",
        ),
        (
            lambda: read_pod_set(template(slice_size="2"), racks(), "a", 2),
            ValueError,
            "belong together",
        ),
        (
            lambda: read_pod_set(
                template(slice_required_topology=RACK, slice_size="2"), racks(), "a", 3
            ),
            ValueError,
            "3 pods are no multiple of 2",
        ),
        (
            lambda: read_pod_set(
                template(required_topology=RACK, slice_required_topology=BLOCK, slice_size="2"),
                racks(),
                "a",
                2,
            ),
            ValueError,
            "is wider than",
        ),
        (
            lambda: read_pod_set(template(unconstrained_topology="yes"), racks(), "a", 2),
            ValueError,
            "must be 'true' or 'false'",
        ),
        (
            lambda: topology_assignment(racks().schedule(TopologyRequest("a", 99)), racks()),
            ValueError,
            "must be 'bind'",
        ),
        (
            lambda: pod_selectors(racks().schedule(TopologyRequest("a", 1)), racks(), ("x",)),
            ValueError,
            "no level 'x'",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, says):
    with pytest.raises(error, match=says):
        call()
