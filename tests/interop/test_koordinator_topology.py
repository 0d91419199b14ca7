"""Koordinator's ClusterNetworkTopology, gathering rules, and which pod goes where."""

import json

import pytest

from hivecore.interop.koordinator import (
    assign_pods,
    read_cluster_network_topology,
    read_gathering,
    write_cluster_network_topology,
)
from hivecore.topology import NetworkTopology, TopologyRequest

SPINE, BLOCK = "net.example.com/spine", "net.example.com/block"
LAYERS = [
    {
        "topologyLayer": "BlockLayer",
        "parentTopologyLayer": "SpineLayer",
        "labelKey": [BLOCK, "old"],
    },
    {"topologyLayer": "SpineLayer", "labelKey": [SPINE]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]
GANG = "gang.scheduling.koordinator.sh/"


def topology(layers):
    return {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": layers}}


def node(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


def eight():
    nodes = [node(f"node-{i}", **{SPINE: f"s{i // 4}", BLOCK: f"b{i // 2}"}) for i in range(8)]
    return read_cluster_network_topology(topology(LAYERS), nodes)


def gang(*rules):
    note = json.dumps({"gatherStrategy": list(rules)})
    return {"metadata": {"name": "train", "annotations": {GANG + "network-topology-spec": note}}}


def rule(layer, strategy="MustGather", multiple=0):
    return {"layer": layer, "strategy": strategy, "podCountMultiple": multiple}


def test_layers_are_put_into_their_order():
    network = eight()
    assert network.layers == ("SpineLayer", "BlockLayer")
    assert network.domain("node-5") == ("s1", "b2", "node-5")


def test_the_first_label_that_is_there_counts_and_equal_blocks_stay_apart():
    nodes = [
        node("a", **{SPINE: "s0", "old": "b"}),
        node("b", **{SPINE: "s0", BLOCK: "b", "old": "x"}),
        node("c", **{SPINE: "s1", BLOCK: "b"}),
        node("d"),
    ]
    network = read_cluster_network_topology(topology(LAYERS), nodes)
    network.set_slots([1, 1, 1, 1])
    assert network.schedule(TopologyRequest("g", 3, must="BlockLayer")).outcome == "wait"
    assert network.schedule(TopologyRequest("g", 2)).ranks == ("a", "b")
    assert network.labels("d") == {}


@pytest.mark.parametrize(
    ("rules", "must", "prefer", "multiple"),
    [
        ((), "", "", ()),
        ((rule("SpineLayer"),), "SpineLayer", "", ()),
        ((rule("SpineLayer"), rule("BlockLayer")), "BlockLayer", "", ()),
        (
            (rule("SpineLayer"), rule("BlockLayer", "PreferGather")),
            "SpineLayer",
            "BlockLayer",
            (),
        ),
        ((rule("NodeTopologyLayer", "PreferGather"),), "", "node", ()),
        (
            (rule("ClusterTopologyLayer"), rule("BlockLayer", "PreferGather", 2)),
            "",
            "BlockLayer",
            (("BlockLayer", 2),),
        ),
        ((rule("BlockLayer"), rule("SpineLayer", "PreferGather")), "BlockLayer", "", ()),
    ],
)
def test_rules_are_wishes(rules, must, prefer, multiple):
    request = read_gathering(gang(*rules), eight(), 4)
    assert request == TopologyRequest(
        "default/train", 4, must=must, prefer=prefer, multiple=dict(multiple)
    )


def test_a_network_is_written_and_read_again():
    network = eight()
    keys = {"SpineLayer": SPINE, "BlockLayer": BLOCK}
    record, labels = write_cluster_network_topology(network, keys)
    again = read_cluster_network_topology(record, [node(name, **labels[name]) for name in labels])
    assert again.layers == network.layers
    assert [again.domain(name) for name in again.nodes] == [
        network.domain(name) for name in network.nodes
    ]
    assert record["spec"]["networkTopologySpec"][-1] == LAYERS[-1]


def test_pods_go_by_index_then_by_name_with_numbers_as_numbers():
    network = eight()
    network.set_slots([1] * 8)
    decision = network.schedule(TopologyRequest("g", 5))
    pods = [{"metadata": {"name": name}} for name in ("w-10", "w-9", "w-1x")]
    for name, index in (("late", "7"), ("first", "0")):
        pods.append(
            {"metadata": {"name": name, "annotations": {GANG + "network-topology-index": index}}}
        )
    order = ["default/first", "default/late", "default/w-1x", "default/w-9", "default/w-10"]
    assert assign_pods(decision, pods) == dict(zip(order, decision.ranks, strict=True))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: read_cluster_network_topology(3, []), TypeError, "record"),
        (
            lambda: read_cluster_network_topology(topology([LAYERS[0]]), []),
            ValueError,
            "below ClusterTopologyLayer is no layer",
        ),
        (
            lambda: read_cluster_network_topology(topology([LAYERS[1], LAYERS[1]]), []),
            ValueError,
            "'SpineLayer' is there twice",
        ),
        (
            lambda: read_cluster_network_topology(
                topology([LAYERS[1], {"topologyLayer": "Other"}]), []
            ),
            ValueError,
            "layers must be one chain",
        ),
        (
            lambda: read_cluster_network_topology(topology(LAYERS), [node("a"), node("a")]),
            ValueError,
            "is there twice",
        ),
        (
            lambda: read_cluster_network_topology(topology([{"topologyLayer": 3}]), []),
            TypeError,
            "ClusterNetworkTopology 'default'",
        ),
        (lambda: read_gathering(gang(rule("RackLayer")), eight(), 2), ValueError, "'RackLayer'"),
        (
            lambda: read_gathering(gang(rule("SpineLayer", "May")), eight(), 2),
            ValueError,
            "strategy",
        ),
        (
            lambda: read_gathering(gang(rule("SpineLayer", "")), eight(), 2),
            ValueError,
            "is missing",
        ),
        (
            lambda: read_gathering(gang(rule("SpineLayer", multiple=-1)), eight(), 2),
            ValueError,
            "podCountMultiple",
        ),
        (
            lambda: write_cluster_network_topology(eight(), {"SpineLayer": SPINE}),
            ValueError,
            "layer 'BlockLayer' has none",
        ),
        (
            lambda: write_cluster_network_topology(eight(), {"SpineLayer": "x", "BlockLayer": "x"}),
            ValueError,
            "two layers have the same",
        ),
        (lambda: assign_pods(None, []), TypeError, "decision"),
    ],
)
def test_what_is_wrong_is_said(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_pods_that_do_not_match_the_placement_are_refused():
    network = NetworkTopology([], {"n": {}})
    network.set_slots([4])
    decision = network.schedule(TopologyRequest("g", 2))
    pod = {"metadata": {"name": "p"}}
    with pytest.raises(ValueError, match="one is there twice"):
        assign_pods(decision, [pod, pod])
    with pytest.raises(ValueError, match="there are 1, and 2 were placed"):
        assign_pods(decision, [pod])
