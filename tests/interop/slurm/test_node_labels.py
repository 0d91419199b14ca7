"""Topologies of Slurm from labels of nodes and back, by partition, with blocks and segments."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore import cli
from hivecore.interop.slurm import (
    read_node_labels,
    read_topology_conf,
    read_topology_yaml,
    write_node_labels,
    write_topology_conf,
    write_topology_yaml,
)
from hivecore.topology import TopologyRequest

PREFIX = "network.topology.nvidia.com"
CORE, SPINE, LEAF, NVL = (f"{PREFIX}/{key}" for key in ("core", "spine", "leaf", "accelerator"))


def node(name, **labels):
    keys = {
        "core": CORE,
        "spine": SPINE,
        "leaf": LEAF,
        "nvl": NVL,
        "clique": "nvidia.com/gpu.clique",
    }
    own = {"kubernetes.io/hostname": name, **{keys[key]: value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": own}}


#: Two racks of NVLink, whose nodes are at leaf switches of other spines, and nodes without.
NODES = [
    *(node(f"gb-{i}", core="c0", spine=f"s{i % 2}", leaf=f"l{i % 2}", nvl=f"nvl{i // 4}")
      for i in range(8)),
    *(node(f"cpu-{i}", core="c0", spine="s2", leaf=f"l{2 + i // 2}") for i in range(4)),
]  # fmt: skip


def test_switches_are_a_tree_from_wide_to_narrow():
    (topology,) = read_node_labels(NODES)
    assert (topology.name, topology.plugin) == ("default", "tree")
    assert topology.network.domain("gb-3") == ("c0", "s1", "l1", "gb-3")
    assert write_topology_conf(topology).splitlines()[:2] == [
        "SwitchName=l0 Nodes=gb-[0,2,4,6]",
        "SwitchName=l1 Nodes=gb-[1,3,5,7]",
    ]


def test_partitions_have_topologies_of_their_own():
    partitions = {"gb200": [f"gb-{i}" for i in range(8)], "cpu": ["cpu-1", "cpu-3"], "lone": ["x"]}
    topologies = read_node_labels([*NODES, node("x")], partitions=partitions, block_sizes=[4, 8])
    assert [(each.name, each.plugin, each.cluster_default) for each in topologies] == [
        ("gb200", "block", True),
        ("cpu", "tree", False),
        ("lone", "flat", False),
    ]
    again = read_topology_yaml(write_topology_yaml(topologies), nodes=["x"])
    assert [each.plugin for each in again] == ["block", "tree", "flat"]
    assert again[0].network.domain("gb-5") == ("1", "nvl1", "gb-5")
    network = again[0].network
    network.set_slots([1] * 8)
    job = TopologyRequest("job", 6, multiple={"block": 2})  # --nodes=6 --segment=2
    blocks = [network.domain(name)[1] for name in network.schedule(job).ranks]
    assert sorted(map(blocks.count, set(blocks))) == [2, 4]


def test_the_clique_of_the_gpu_operator_stands_in_for_the_label_of_a_block():
    nodes = [node("a", clique="u1.0"), node("b", clique="u1.1", nvl="n")]
    (topology,) = read_node_labels(nodes)
    assert [topology.network.domain(name)[-2] for name in "ab"] == ["u1.0", "n"]


def test_near_blocks_stand_side_by_side():
    nodes = [node(f"n{i}", leaf=f"l{i % 2}", nvl=f"nvl{i}") for i in range(4)]
    (topology,) = read_node_labels(nodes, block_sizes=[1, 2])
    network = topology.network
    assert [network.domain(f"n{i}")[0] for i in range(4)] == ["1", "2", "1", "2"]


def test_nodes_of_slurm_may_have_other_names_and_those_without_labels_are_named():
    said = []
    hosts = {"gb-0": "worker-0", "cpu-0": "worker-1", "bare": "worker-2"}
    (topology,) = read_node_labels([*NODES, node("bare")], hosts=hosts, warn=said.append)
    assert topology.network.nodes == ("worker-0", "worker-1")
    assert said == ["partition 'default': at no switch, and left out: 'worker-2'"]


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ([], {}, "nodes: there is none"),
        (NODES, {"partitions": {}}, "partitions: there is none"),
        (NODES, {"partitions": {"a": []}}, r"partitions\['a'\]: has no nodes"),
        (NODES, {"partitions": {"a": ["gb-9"]}}, r"\['a'\]: there is no node 'gb-9'"),
        (NODES, {"hosts": {"gb-9": "w"}}, "hosts: there is no node 'gb-9'"),
        (NODES, {"hosts": {"gb-1": "w", "gb-2": "w"}}, "hosts: 'w' is on two nodes"),
        (NODES[:8], {"block_sizes": [4, 6]}, "block_sizes: the block size 6 must be 4"),
    ],
)
def test_what_does_not_go_together_is_named(nodes, options, message):
    with pytest.raises(ValueError, match=message):
        read_node_labels(nodes, **options)


def test_a_tree_of_more_levels_than_labels_is_refused():
    text = "SwitchName=a Nodes=n\nSwitchName=b Switches=a\nSwitchName=c Switches=b\n"
    text += "SwitchName=d Switches=c\n"
    with pytest.raises(ValueError, match="3 labels are too few for 4 levels"):
        write_node_labels(read_topology_conf(text))
    assert len(write_node_labels(read_topology_conf(text), switches=list("wxyz"))["n"]) == 4


@st.composite
def labelled(draw):
    """Nodes at leaf switches of spines, of which each has a name of its own."""
    leaves = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    of = draw(st.lists(st.integers(0, len(leaves) - 1), min_size=1, max_size=8))
    return [node(f"n{i}", spine=f"s{leaves[leaf]}", leaf=f"l{leaf}") for i, leaf in enumerate(of)]


@given(labelled())
@examples(60)
def test_labels_of_a_topology_of_labels_are_these_labels(nodes):
    (topology,) = read_node_labels(nodes)
    whole = {n["metadata"]["name"]: dict(n["metadata"]["labels"]) for n in nodes}
    labels = {
        name: {k: v for k, v in own.items() if k in (SPINE, LEAF)} for name, own in whole.items()
    }
    assert write_node_labels(topology) == labels
    again = read_topology_conf(write_topology_conf(topology))
    leaves = {name: {LEAF: own[LEAF]} for name, own in labels.items()}
    assert {name: {LEAF: own[LEAF]} for name, own in write_node_labels(again).items()} == leaves


def test_the_command_goes_both_ways(tmp_path, capsys, output, refused):
    dump = tmp_path / "nodes.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": NODES}))
    partitions = ["--partition", "gb=gb-[0-7]", "--partition", "cpu=cpu-[0-3]"]
    text = output("topology", dump, *partitions, "--block-sizes", "4")
    assert [each["topology"] for each in yaml.safe_load(text)] == ["gb", "cpu"]
    file = tmp_path / "topology.yaml"
    file.write_text(text)
    lines = output("topology", file, "--to", "labels").splitlines()
    assert lines[0] == f"kubectl label node gb-0 {NVL}=nvl0"
    assert lines[-1] == f"kubectl label node cpu-3 {CORE}=c0 {SPINE}=s2 {LEAF}=l3"
    assert "has but one topology, here are 2" in refused("topology", file, "--to", "conf")
    conf = tmp_path / "topology.conf"
    conf.write_text("# block001=nvl1\nBlockName=block001 Nodes=n[1-4]\nBlockSizes=4\n")
    (entry,) = yaml.safe_load(output("topology", conf))
    assert entry["block"] == {
        "block_sizes": [4],
        "blocks": [{"block": "block001", "nodes": "n[1-4]"}],
    }
    assert cli.main(["topology", str(conf), "--to", "conf"]) == 0
    assert capsys.readouterr().out == "BlockName=block001 Nodes=n[1-4]\nBlockSizes=4\n"
