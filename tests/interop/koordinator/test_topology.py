"""Koordinator's networks and gangs: the documented forms, round trips, wrong ones, a user's run."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from interop.network_labels import by_name, domains, labelled
from profiles import examples

from hivecore.interop.koordinator import (
    read_network_topology,
    read_topology_gang,
    write_network_labels,
    write_network_topology,
)
from hivecore.topology import NetworkTopology, TopologyRequest

SPINE, BLOCK = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"
GANG = "gang.scheduling.koordinator.sh"
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"


def topology(*layers):
    """Layers as (name, parent, label keys)."""
    spec = [
        {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": list(keys)}
        for name, parent, keys in layers
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": spec},
    }


TOPOLOGY = topology(
    ("NodeTopologyLayer", "BlockLayer", ()),
    ("SpineLayer", "", (SPINE,)),
    ("BlockLayer", "SpineLayer", (BLOCK, "example.com/block")),
)


def node(name, spine=None, block=None, **more):
    labels = {SPINE: spine, BLOCK: block, **more}
    labels = {key: label for key, label in labels.items() if label is not None}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


#: As in the scheduler's own tests: two spines of two blocks of two nodes.
NODES = [
    node("node-1", "s1", "b1"),
    node("node-8", "s1", "b1"),
    node("node-2", "s1", "b2"),
    node("node-7", "s1", "b2"),
    node("node-3", "s2", "b3"),
    node("node-6", "s2", "b3"),
    node("node-4", "s2", "b4"),
    node("node-5", "s2", "b4"),
]


def pod(name, index=None, selector=None, **more):
    notes = {f"{GANG}/network-topology-index": index, SELECTOR: selector}
    return {"kind": "Pod", "metadata": {"name": name, "annotations": notes}, **more}


def gang(*rules):
    spec = json.dumps({"gatherStrategy": list(rules)})
    return {
        "kind": "PodGroup",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "annotations": {f"{GANG}/network-topology-spec": spec},
        },
    }


def rule(layer, strategy="MustGather", **more):
    return {"layer": layer, "strategy": strategy, **more}


def read():
    return read_network_topology(TOPOLOGY, NODES)


# --- networks


def test_layers_are_put_in_order_from_wide_to_narrow():
    network = read()
    assert network.layers == ("SpineLayer", "BlockLayer")
    assert network.domain("node-7") == ("s1", "b2", "node-7")


def test_the_first_label_that_a_node_has_counts():
    nodes = [
        node("a", "s", None, **{"example.com/block": "other"}),
        node("b", "s", "", **{"example.com/block": "other"}),
        node("c", "s", "block", **{"example.com/block": "other"}),
    ]
    network = read_network_topology(TOPOLOGY, nodes)
    assert [network.domain(name)[1] for name in "abc"] == ["other", "other", "block"]


def test_a_node_without_the_label_right_above_it_is_alone():
    network = read_network_topology(TOPOLOGY, [node("a", "s"), node("b", "s"), node("c", "s", "a")])
    network.set_slots([1, 1, 1])
    assert not network.fits(TopologyRequest("two", 2, must="BlockLayer"))
    assert network.fits(TopologyRequest("all", 3, must="SpineLayer"))


def test_a_node_without_a_label_further_up_is_with_those_of_its_block():
    nodes = [node("a", None, "b1"), node("b", None, "b1"), node("c", None, "b2")]
    network = read_network_topology(TOPOLOGY, nodes)
    network.set_slots([1, 1, 1])
    assert network.fits(TopologyRequest("two", 2, must="SpineLayer"))
    assert not network.fits(TopologyRequest("all", 3, must="SpineLayer"))


def test_blocks_called_alike_in_two_spines_are_two():
    network = read_network_topology(TOPOLOGY, [node("a", "s1", "b"), node("b", "s2", "b")])
    network.set_slots([1, 1])
    assert not network.fits(TopologyRequest("two", 2, must="BlockLayer"))


def test_the_top_layer_may_name_the_cluster_as_its_parent():
    given = topology(("NodeTopologyLayer", "L", ()), ("L", "ClusterTopologyLayer", ("l",)))
    assert read_network_topology(given, NODES).layers == ("L",)


def node_in(layer):
    return "NodeTopologyLayer", layer, ()


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ([], "there is no layer 'NodeTopologyLayer'"),
        ([("B", "", ("b",))], "there is no layer 'NodeTopologyLayer'"),
        ([node_in("B")], "[0].parentTopologyLayer: there is no layer 'B'"),
        ([node_in("B"), ("B", "B", ("b",))], "[1].parentTopologyLayer: 'B' is above itself"),
        (
            [node_in("B"), ("B", "NodeTopologyLayer", ("b",))],
            "[1].parentTopologyLayer: 'NodeTopologyLayer' is above itself",
        ),
        (
            [node_in("B"), ("B", "", ("b",)), ("C", "", ("c",))],
            "[2].topologyLayer: 'C' is not above 'NodeTopologyLayer'",
        ),
        ([node_in(""), node_in("")], "[1].topologyLayer: 'NodeTopologyLayer' is there twice"),
        ([("ClusterTopologyLayer", "", ("c",))], "'ClusterTopologyLayer' is built in"),
        ([node_in("B"), ("B", "", ())], "[1].labelKey: is missing"),
        ([("", "", ())], "[0].topologyLayer: is missing"),
    ],
)
def test_layers_that_are_no_chain_are_refused_with_their_path(layers, says):
    start = "ClusterNetworkTopology 'default': spec.networkTopologySpec"
    with pytest.raises(ValueError, match=re.escape(start)) as error:
        read_network_topology(topology(*layers), NODES)
    assert says in str(error.value)


def test_other_kinds_and_versions_are_refused():
    with pytest.raises(ValueError, match="kind: must be 'ClusterNetworkTopology', not 'Topology'"):
        read_network_topology({**TOPOLOGY, "kind": "Topology"}, NODES)
    with pytest.raises(ValueError, match="apiVersion: must be"):
        read_network_topology({**TOPOLOGY, "apiVersion": "v1"}, NODES)
    with pytest.raises(ValueError, match="nodes: there is none"):
        read_network_topology(TOPOLOGY, [])
    with pytest.raises(ValueError, match="there are two nodes of this name"):
        read_network_topology(TOPOLOGY, NODES + NODES)


# --- writing


@given(labelled())
@examples(300)
def test_any_network_comes_back_even_where_names_alone_do_not_tell_domains_apart(case):
    layers, given = case
    network = NetworkTopology(layers, given)
    keys = {layer: f"example.com/{layer}" for layer in layers}
    try:
        labels = write_network_labels(network, keys)
    except ValueError as error:
        assert "two domains are called" in str(error)
        assert by_name(network) != domains(layers, given)
        return
    written = json.loads(json.dumps(write_network_topology(network, keys)))
    nodes = [{"metadata": {"name": name, "labels": label}} for name, label in labels.items()]
    assert by_name(read_network_topology(written, nodes)) == domains(layers, given)
    for layer, groups in zip(layers, domains(layers, given), strict=True):
        # As Koordinator reads it: a domain is its layer and its name.
        named = {}
        for name, label in labels.items():
            named.setdefault(label[keys[layer]], set()).add(name)
        assert {frozenset(group) for group in named.values()} == groups


def test_the_documented_object_is_written_as_it_was():
    keys = {"SpineLayer": SPINE, "BlockLayer": BLOCK}
    written = write_network_topology(read(), keys)
    assert written["spec"]["networkTopologySpec"] == [
        {"topologyLayer": "SpineLayer", "labelKey": [SPINE]},
        {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": [BLOCK]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
    ]
    assert written["metadata"] == {"name": "default"}
    labels = write_network_labels(read(), keys)
    assert labels == {entry["metadata"]["name"]: entry["metadata"]["labels"] for entry in NODES}


def test_what_cannot_be_written_is_refused():
    network = NetworkTopology(["spine", "rack"], {"n": {"rack": "a b"}})
    with pytest.raises(ValueError, match="keys: layer 'rack' has none"):
        write_network_topology(network, {"spine": "s"})
    with pytest.raises(ValueError, match="keys: two layers have the same one"):
        write_network_topology(network, {"spine": "s", "rack": "s"})
    with pytest.raises(ValueError, match="spine a b: 'a b': a label's value has up to 63"):
        write_network_labels(network, {"spine": "s", "rack": "r"})
    with pytest.raises(ValueError, match="'NodeTopologyLayer' is built in"):
        write_network_topology(
            NetworkTopology(["NodeTopologyLayer"], {"n": {}}), {"NodeTopologyLayer": "n"}
        )
    alike = NetworkTopology(["rack"], {"n1": {}, "n2": {"rack": "n1"}})
    with pytest.raises(ValueError, match="network: two domains are called 'n1'"):
        write_network_labels(alike, {"rack": "r"})
    with pytest.raises(TypeError, match="network must be a NetworkTopology"):
        write_network_topology({}, {})


# --- gangs


PREFER_SPINE, PREFER_BLOCK = (rule(f"{layer}Layer", "PreferGather") for layer in ("Spine", "Block"))


@pytest.mark.parametrize(
    ("rules", "wishes"),
    [
        ([], ("", "", ())),
        ([rule("SpineLayer")], ("SpineLayer", "", ())),
        ([rule("BlockLayer"), rule("SpineLayer")], ("BlockLayer", "", ())),
        ([rule("NodeTopologyLayer")], ("node", "", ())),
        ([rule("ClusterTopologyLayer")], ("", "", ())),
        ([PREFER_SPINE, PREFER_BLOCK], ("", "BlockLayer", ())),
        ([rule("SpineLayer"), PREFER_BLOCK], ("SpineLayer", "BlockLayer", ())),
        ([rule("BlockLayer"), PREFER_SPINE], ("BlockLayer", "", ())),
        (
            [
                rule("SpineLayer", podCountMultiple=4),
                rule("NodeTopologyLayer", "", podCountMultiple=2),
            ],
            ("SpineLayer", "", (("SpineLayer", 4), ("node", 2))),
        ),
        ([rule("BlockLayer", podCountMultiple=1)], ("BlockLayer", "", ())),
    ],
)
def test_rules_of_a_gang_are_wishes(rules, wishes):
    network = read()
    request = read_topology_gang(gang(*rules), [pod(f"p{i}") for i in range(4)], network).request
    assert (request.must, request.prefer, request.multiple) == wishes
    assert (request.name, request.pods) == ("team/train", 4)
    network.set_slots([4] * 8)
    assert network.fits(request)


def test_a_gang_without_the_annotation_asks_for_nothing():
    gang = read_topology_gang(pod("p"), pod("p"), read(), amounts={"gpu": 8})
    assert gang.request == TopologyRequest("default/p", 1, amounts={"gpu": 8})


def test_rules_of_pods_count_where_their_gang_has_none_and_must_not_differ():
    key = f"{GANG}/network-topology-spec"
    notes = gang(rule("SpineLayer"))["metadata"]["annotations"]
    other = gang(rule("BlockLayer"))["metadata"]["annotations"]
    pods = [pod("p"), pod("q")]
    pods[1]["metadata"]["annotations"] = {key: notes[key]}
    assert read_topology_gang(gang(), pods, read()).request.must == "SpineLayer"
    assert read_topology_gang(gang(rule("SpineLayer")), pods, read()).request.must == "SpineLayer"
    pods[0]["metadata"]["annotations"] = {key: other[key]}
    for owner in (gang(), gang(rule("SpineLayer"))):
        with pytest.raises(ValueError, match="differs from that of its gang"):
            read_topology_gang(owner, pods, read())


def test_a_selector_of_any_pod_counts_and_a_second_one_is_named():
    near = [pod("a", selector="x", spec={"nodeName": "node-4"})]
    pods = [pod("p"), pod("q", selector="x")]
    assert read_topology_gang(gang(), pods, read(), others=near).request.existing == (
        ("node-4", 1),
    )
    with pytest.raises(ValueError, match="differs from that of its gang"):
        read_topology_gang(gang(), [*pods, pod("r", selector="y")], read(), others=near)


def test_pods_are_by_index_then_by_name_with_numbers_as_numbers():
    pods = [pod("p-10"), pod("p-9"), pod("q", "10"), pod("r", "2"), pod("p-09"), pod("a", "2")]
    outcome = read_topology_gang(gang(), pods, read())
    assert outcome.pods == tuple(
        f"default/{name}" for name in ("a", "r", "q", "p-09", "p-9", "p-10")
    )


def test_a_gang_is_placed_near_to_running_pods_that_match_its_selector():
    others = [
        pod("a", selector="x", spec={"nodeName": "node-4"}),
        pod("b", selector="x", spec={"nodeName": "node-4"}),
        pod("c", selector="x", spec={"nodeName": "node-5"}, status={"phase": "Succeeded"}),
        pod("d", selector="y", spec={"nodeName": "node-6"}),
        pod("e", selector="x"),
        pod("f", selector="x", spec={"nodeName": "elsewhere"}),
    ]
    network = read()
    outcome = read_topology_gang(gang(), [pod("p", selector="x")], network, others=others)
    assert outcome.request.existing == (("node-4", 2),)
    network.set_slots([1] * 8)
    assert outcome.nodes(network.schedule(outcome.request)) == {"default/p": "node-4"}
    alone = read_topology_gang(gang(), [pod("p")], network, others=others)
    assert alone.request.existing == ()


SPEC = f"the gang 'train': metadata.annotations['{GANG}/network-topology-spec']"


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([rule("RackLayer")], ".gatherStrategy[0].layer: 'RackLayer' is none of Cluster"),
        ([rule("BlockLayer")] * 2, ".gatherStrategy[1].layer: 'BlockLayer' is there twice"),
        ([rule("")], ".gatherStrategy[0].layer: is missing"),
        ([rule("BlockLayer", "Gather")], ".gatherStrategy[0].strategy: must be one of MustGather"),
        ([rule("BlockLayer", podCountMultiple=-1)], ".gatherStrategy[0].podCountMultiple=-1"),
        (
            [rule("ClusterTopologyLayer", podCountMultiple=2)],
            ".gatherStrategy[0].podCountMultiple: all pods are in the cluster",
        ),
    ],
)
def test_wrong_rules_are_refused_with_their_path(rules, says):
    with pytest.raises(ValueError, match=re.escape(SPEC)) as error:
        read_topology_gang(gang(*rules), [pod("p")], read())
    assert says in str(error.value)


def test_wrong_pods_are_refused():
    with pytest.raises(ValueError, match="pods: there is none"):
        read_topology_gang(gang(), [], read())
    with pytest.raises(ValueError, match="there are two pods of this name"):
        read_topology_gang(gang(), [pod("p"), pod("p")], read())
    with pytest.raises(ValueError, match="'first' is no integer"):
        read_topology_gang(gang(), [pod("p", "first")], read())


@given(broken([TOPOLOGY, NODES[:2], gang(rule("SpineLayer", podCountMultiple=2)), [pod("p", "1")]]))
@examples(300)
def test_whatever_is_in_them_objects_are_read_or_refused(objects):
    if not isinstance(objects, list) or len(objects) < 4:
        return
    with refused_clearly():
        network = read_network_topology(objects[0], objects[1])
        read_topology_gang(objects[2], objects[3], network, others=objects[3])


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists) | st.text(max_size=9)
)
@examples(100)
def test_whatever_the_annotation_holds_it_is_read_or_refused(value):
    notes = {
        f"{GANG}/network-topology-spec": value if isinstance(value, str) else json.dumps(value)
    }
    with refused_clearly():
        read_topology_gang({"metadata": {"name": "g", "annotations": notes}}, [pod("p")], read())


# --- a user's run: the example of Koordinator's own tests, 16 cores on each node


def test_four_pods_go_to_the_nodes_of_one_spine_by_rank():
    network = read()
    for name in network.nodes:
        network.set_free(name, {"cpu": 16})
    pods = [pod(f"p-{i}", str(3 - i)) for i in range(4)]
    outcome = read_topology_gang(gang(rule("SpineLayer")), pods, network, amounts={"cpu": 16})
    decision = network.schedule(outcome.request)
    assert outcome.nodes(decision) == {
        "default/p-3": "node-1",
        "default/p-2": "node-8",
        "default/p-1": "node-2",
        "default/p-0": "node-7",
    }
    with pytest.raises(ValueError, match="is of 'other', or of another request"):
        outcome.nodes(network.schedule(TopologyRequest("other", 4)))
    full = read_topology_gang(gang(rule("SpineLayer")), pods, network, amounts={"cpu": 17})
    assert full.nodes(network.schedule(full.request)) == {}
