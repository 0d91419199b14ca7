"""Slurm's topology files: the documented ones, round trips, wrong ones, and a user's run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken, refused_clearly
from interop.network_labels import by_name, domains, labelled
from profiles import examples

from hivecore.interop.domain_names import distinct_names
from hivecore.interop.slurm import (
    SlurmTopology,
    compress_hostlist,
    read_topology_conf,
    read_topology_yaml,
    write_topology_conf,
    write_topology_yaml,
)
from hivecore.topology import NetworkTopology, TopologyRequest


def parts(network):
    """The sets of nodes that are domains; which layer they are of does not matter."""
    paths = {node: network.domain(node) for node in network.nodes}
    groups = {}
    for node, path in paths.items():
        for end in range(1, len(path)):
            groups.setdefault(path[:end], set()).add(node)
    return {frozenset(group) for group in groups.values()}


def sets(*texts):
    return {frozenset(text.split()) for text in texts}


# --- the documented files, with other names


def test_a_tree_of_three_levels_is_three_layers():
    read = read_topology_conf(
        """
        # Switch Configuration
        SwitchName=s0 Nodes=tux[0-1]
        SwitchName=s1 Nodes=tux[2-3]
        SwitchName=s2 Nodes=tux[4-5]
        SwitchName=s3 Nodes=tux[6-7]
        SwitchName=s4 Switches=s[0-1]
        SwitchName=s5 Switches=s[2-3]
        SwitchName=s6 Switches=s[4-5]   # the top
        """
    )
    assert (read.plugin, read.name, read.cluster_default) == ("tree", "", True)
    assert read.network.layers == ("level2", "level1", "level0")
    assert read.network.domain("tux5") == ("s6", "s5", "s2", "tux5")
    assert read.network.nodes == tuple(f"tux{i}" for i in range(8))


def test_switches_above_the_same_switches_are_one_domain():
    read = read_topology_conf(
        """
        SwitchName=s0 Nodes=a[0-3]   LinkSpeed=900
        SwitchName=s1 Nodes=a[4-7]   LinkSpeed=900
        SwitchName=s4 Switches=s[0-1] LinkSpeed=1800
        SwitchName=s5 Switches=s[0-1] LinkSpeed=1800
        SwitchName=t0 Switches=s4
        SwitchName=t1 Switches=s5
        """
    )
    assert read.network.domain("a7") == ("t0", "s4", "s1", "a7")


def test_blocks_and_larger_blocks_are_layers():
    text = "".join(f"BlockName=b{i} Nodes=n[{32 * i + 1}-{32 * i + 32}]\n" for i in range(4))
    read = read_topology_conf(f"{text}BlockSizes=30,120\n")
    assert (read.plugin, read.block_sizes) == ("block", (30, 120))
    assert read.network.layers == ("blocks4", "block")
    assert read.network.domain("n33") == ("1", "b1", "n33")
    assert len(read.network.nodes) == 128


YAML = """
- topology: fabric
  cluster_default: false
  tree:
    switches:
    - switch: sw_root
      children: sw[1-2]
    - {switch: sw1, nodes: "node[01-04]"}
    - {switch: sw2, nodes: "node[05-08]"}
- topology: nvl
  cluster_default: True
  block:
    block_sizes: [4, 8]
    blocks:
    - block: b1
      nodes: node[01-04]
    - block: b2
      nodes: node[05-08]
- topology: rest
  cluster_default: True
  flat: True
"""


def test_a_yaml_file_has_several_topologies_of_which_the_first_default_counts():
    tree, block, flat = read_topology_yaml(YAML, nodes=["node01", "login"])
    assert (tree.name, block.name, flat.name) == ("fabric", "nvl", "rest")
    assert [topology.cluster_default for topology in (tree, block, flat)] == [False, True, False]
    assert tree.network.domain("node05") == ("sw_root", "sw2", "node05")
    assert block.network.domain("node05") == ("1", "b2", "node05")
    assert (flat.network.layers, flat.network.nodes) == ((), ("node01", "login"))


def test_a_yaml_file_comes_back_from_its_plain_data():
    read = read_topology_yaml(YAML, nodes=["node01", "login"])
    written = write_topology_yaml(read)
    again = read_topology_yaml(json.dumps(written), nodes=["node01", "login"])
    for topology, other in zip(read, again, strict=True):
        assert topology.network.to_bytes() == other.network.to_bytes()
        for field in ("name", "plugin", "block_sizes", "cluster_default"):
            assert getattr(topology, field) == getattr(other, field)


# --- round trips


@given(labelled())
@examples(300)
def test_any_network_comes_back_from_a_tree_with_the_same_domains(case):
    layers, labels = case
    network = NetworkTopology(layers, labels)
    try:
        text = write_topology_conf(SlurmTopology("tree", network))
    except ValueError as error:
        assert "two domains are called" in str(error)
        assert by_name(network) != domains(layers, labels)
        return
    (data,) = write_topology_yaml([SlurmTopology("tree", network, "t")])
    for again in (read_topology_conf(text), read_topology_yaml([data])[0]):
        assert parts(again.network) == set().union(*domains(layers, labels))
        assert sorted(again.network.nodes) == sorted(labels)
        # What was read is written as it is.
        twice = read_topology_conf(write_topology_conf(again))
        assert twice.network.to_bytes() == again.network.to_bytes()


@given(st.lists(st.integers(2, 5), min_size=1, max_size=9), st.sampled_from([(), (2,), (1, 4)]))
@examples(100)
def test_blocks_come_back(counts, sizes):
    lines, begin = [], 0
    for number, count in enumerate(counts):
        lines.append(f"BlockName=b{number} Nodes={compress_hostlist(names(begin, count))}")
        begin += count
    lines += ["BlockSizes=" + ",".join(map(str, sizes))] if sizes else []
    read = read_topology_conf("\n".join(lines))
    assert write_topology_conf(read).splitlines() == lines
    (data,) = write_topology_yaml([SlurmTopology("block", read.network, "b", sizes)])
    again = read_topology_yaml([data])[0]
    assert again.network.to_bytes() == read.network.to_bytes()
    assert again.block_sizes == sizes


def names(begin, count):
    return [f"n{i}" for i in range(begin, begin + count)]


def test_a_domain_of_one_other_is_a_switch_and_a_missing_layer_is_none():
    labels = {"n1": {"spine": "s1", "rack": "r1"}, "n2": {"rack": "r2"}, "n3": {"spine": "s1"}}
    text = write_topology_conf(SlurmTopology("tree", NetworkTopology(["spine", "rack"], labels)))
    assert text.splitlines() == [
        "SwitchName=r1 Nodes=n1",
        "SwitchName=n3 Nodes=n3",
        "SwitchName=r2 Nodes=n2",
        "SwitchName=s1 Switches=r1,n3",
    ]


def test_names_stay_different_even_if_they_join_to_the_same():
    paths = [("a.b", "c"), ("a", "b.c"), ("x", "c"), ("x", "b.c"), ("x", "x.c")]
    names = distinct_names(paths)
    assert list(names.values()) == ["a.b.c", "a.b.c-2", "x.c-2", "x.b.c", "x.c"]


# --- what scontrol prints


def test_what_scontrol_prints_of_a_tree_reads_as_its_file_does():
    read = read_topology_conf(
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-1]\n"
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[2-3]\n"
        "SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[0-3] Switches=s[0-1]\n"
    )
    file = (
        "SwitchName=s0 Nodes=tux[0-1]\nSwitchName=s1 Nodes=tux[2-3]\nSwitchName=s2 Switches=s[0-1]"
    )
    assert read.network.to_bytes() == read_topology_conf(file).network.to_bytes()


@pytest.mark.parametrize("nothing", ["Nodes=", "Nodes=(null)", 'Nodes=""', ""])
def test_a_switch_of_scontrol_may_have_no_nodes(nothing):
    text = (
        f"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=s1 Level=0 LinkSpeed=1 {nothing}\n"
    )
    with pytest.warns(UserWarning, match="line 2: switch 's1' has no nodes"):
        assert read_topology_conf(text).network.nodes == ("n1",)


def test_what_scontrol_prints_of_blocks_has_their_sizes():
    blocks = "".join(
        f"BlockName=b{i} BlockIndex={i} Nodes=n[{2 * i + 1}-{2 * i + 2}] BlockSize=2\n"
        for i in range(5)
    )
    larger = (
        "AggregatedBlock=b[0-3] BlockIndex=5 Nodes=n[1-8] BlockSize=8\n"
        "AggregatedBlock=b[0-4] BlockIndex=6 Nodes=n[1-10] BlockSize=16\n"
    )
    read = read_topology_conf(blocks + larger)
    assert (read.plugin, read.block_sizes) == ("block", (2, 8, 16))
    assert read.network.layers == ("blocks8", "blocks4", "block")
    assert read_topology_conf(blocks).network.layers == ("block",)
    assert read_topology_conf(write_topology_conf(read)).network.to_bytes() == (
        read.network.to_bytes()
    )


def test_a_topology_of_scontrol_has_the_other_types_as_empty_mappings():
    tree = {"switches": [{"switch": "s", "children": None, "nodes": "n1"}]}
    printed = [
        {"topology": "a", "tree": tree, "block": {}, "flat": False},
        {"topology": "b", "tree": {}, "block": {}, "flat": True, "ring": {}, "torus3d": {}},
        {"topology": "c", "tree": tree, "flat": {}},
        {"topology": "d", "flat": {}},
    ]
    topologies = read_topology_yaml(printed, nodes=["n1"])
    assert [topology.plugin for topology in topologies] == ["tree", "flat", "tree", "flat"]


# --- blocks of any size


def blocks_text(*counts):
    begin, lines = 1, []
    for number, count in enumerate(counts):
        nodes = f" Nodes=n[{begin}-{begin + count - 1}]" if count else ""
        lines.append(f"BlockName=b{number}{nodes}\n")
        begin += count
    return "".join(lines)


@pytest.mark.parametrize(
    ("blocks", "layers"),
    [
        (1, ["block"]),
        (2, ["blocks2", "block"]),
        (3, ["blocks4", "blocks2", "block"]),
        (4, ["blocks4", "blocks2", "block"]),
        (5, ["blocks8", "blocks4", "blocks2", "block"]),
        (16, ["blocks16", "blocks8", "blocks4", "blocks2", "block"]),
        (40, ["blocks16", "blocks8", "blocks4", "blocks2", "block"]),
    ],
)
def test_without_sizes_larger_blocks_are_powers_of_two_up_to_sixteen(blocks, layers):
    read = read_topology_conf(blocks_text(*[2] * blocks))
    assert list(read.network.layers) == layers
    assert read.block_sizes == ()
    (data,) = write_topology_yaml([SlurmTopology("block", read.network, "b")])
    assert read_topology_yaml([data])[0].network.to_bytes() == read.network.to_bytes()


def test_the_order_of_larger_sizes_does_not_matter_and_the_first_one_is_the_base():
    read = read_topology_conf(f"{blocks_text(*[2] * 4)}BlockSizes=2,8,4,4,\n")
    assert read.network.layers == ("blocks4", "blocks2", "block")


# --- what Slurm accepts with a warning


@pytest.mark.parametrize(
    ("text", "says", "groups"),
    [
        (
            "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[2-4]\nSwitchName=c Switches=a,b",
            "line 2: below 'a' already, and kept there: 'n[2-3]'",
            ["n1 n2 n3", "n4", "n1 n2 n3 n4"],
        ),
        (
            "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[1-2]",
            "line 2: switch 'b' has the nodes of 'a'",
            ["n1 n2"],
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=a\n"
            "SwitchName=d Switches=a,b",
            "line 3: below 'd' already, and kept there: 'a'",
            ["n1", "n2", "n1 n2"],
        ),
        (
            "SwitchName=a Nodes=n[1-2],n2",
            "line 1: Nodes: several times, counted once: 'n2'",
            ["n1 n2"],
        ),
        ("SwitchName=a Nodes=n1\nSwitchName=b", "line 2: switch 'b' has no nodes", ["n1"]),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=ALL",
            "line 2: Nodes: 'ALL' stands for no",
            ["n1"],
        ),
        (
            "SwitchName=a Nodes=n1 nodes=n2",
            "line 1: nodes: is given twice; the last value counts",
            ["n2"],
        ),
        (
            "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[2-3]\nBlockSizes=2",
            "line 2: in another block already, and kept there: 'n2'",
            ["n1 n2", "n3"],
        ),
        (
            "BlockName=a Nodes=n1\nBlockName=b Nodes=n2\nBlockSizes=1,2\nBlockSizes=1",
            "line 4: BlockSizes: an earlier line has BlockSizes too; this line counts",
            ["n1", "n2"],
        ),
    ],
)
def test_an_oddity_that_slurm_accepts_is_a_warning_with_its_line(text, says, groups):
    with pytest.warns(UserWarning) as caught:
        read = read_topology_conf(text)
    assert any(str(warning.message).startswith(says) for warning in caught)
    assert caught[0].filename == __file__
    assert parts(read.network) == sets(*groups)
    received = []
    read_topology_conf(text, warn=received.append)
    assert received == [str(warning.message) for warning in caught]


def test_many_names_of_one_oddity_are_one_short_warning():
    text = "SwitchName=a Nodes=n[1-999]\nSwitchName=b Nodes=n[1-1000]"
    with pytest.warns(UserWarning, match=r"'n\[1-8\]' and 991 more") as caught:
        read_topology_conf(text)
    assert len(caught) == 1


def test_children_beside_nodes_are_not_used_in_yaml_as_in_slurm():
    switches = [{"switch": "a", "nodes": "n1"}, {"switch": "b", "nodes": "n2", "children": "a"}]
    with pytest.warns(UserWarning, match=r"switches\[1\].children: not used, as the switch has"):
        (read,) = read_topology_yaml([{"topology": "t", "tree": {"switches": switches}}])
    assert parts(read.network) == sets("n1", "n2")


# --- topologies that are not supported

MANUAL = """
- {topology: t1, cluster_default: true, tree: {switches: [{switch: s1, nodes: "n[1-2]"}]}}
- {topology: t2, flat: true}
- {topology: t3, flat: {alpha_step_rank: true}}
- {topology: t4, cluster_default: true, ring: {rings: [{ring: r0, nodes: "n[1-2]"}]}}
- {topology: t5, torus3d: {toruses: [{name: p, dims: {x: 2, y: 1, z: 1}, nodes: "n[1-2]"}]}}
- {topology: t6, cluster_default: true, block: {blocks: [{block: b1, nodes: "n[1-2]"}]}}
"""


def test_topologies_that_are_not_supported_are_named_and_the_others_are_read():
    with pytest.warns(UserWarning) as caught:
        topologies = read_topology_yaml(MANUAL, nodes=["n1", "n2"])
    assert [topology.name for topology in topologies] == ["t1", "t2", "t3", "t6"]
    assert [topology.cluster_default for topology in topologies] == [True, False, False, False]
    assert [str(warning.message).partition(":")[0] for warning in caught] == [
        "topology.yaml[3].ring",
        "topology.yaml[4].torus3d",
    ]
    received = []
    topologies = read_topology_yaml(MANUAL, warn=received.append)
    assert [topology.name for topology in topologies] == ["t1", "t6"]
    assert "[1].flat: a flat topology names no nodes: give them as `nodes`, so 't2'" in received[0]


def test_the_default_of_a_topology_that_is_left_out_goes_to_no_other():
    ring = {"topology": "r", "cluster_default": True, "ring": {"rings": []}}
    tree = {"switches": [{"switch": "s", "nodes": "n1"}]}
    other = {"topology": "t", "cluster_default": True, "tree": tree}
    with pytest.warns(UserWarning, match="'r' is left out"):
        (topology,) = read_topology_yaml([ring, other])
    assert not topology.cluster_default


# --- lines of files


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_ends_of_lines_and_a_byte_order_mark_are_read(end):
    text = "\ufeff" + end.join(
        ["# first", "switchname=s1 NODES=n1", "", "SwitchName=s2 Nodes=n2", ""]
    )
    assert read_topology_conf(text).network.nodes == ("n1", "n2")
    assert read_topology_yaml("\ufeff[{'topology': t, tree: {switches: [{switch: s, nodes: n1}]}}]")


def test_a_continued_line_is_joined_as_it_stands_and_called_by_its_first_line():
    text = "SwitchName=a Nodes=n[1-2],\\\nn3\n"
    assert read_topology_conf(text).network.nodes == ("n1", "n2", "n3")
    with pytest.raises(ValueError, match="line 3: Nodes: hostlist"):
        read_topology_conf(f"{text}SwitchName=b \\  # more\n  Nodes=n[4-\n")


def test_included_files_are_read_in_place_and_their_lines_named():
    files = {
        "leaves.conf": "SwitchName=a Nodes=n1\nInclude more.conf\n",
        "more.conf": "SwitchName=b Nodes=n2",
    }
    text = "include leaves.conf  # two\nSwitchName=c Switches=a,b\n"
    read = read_topology_conf(text, include=files.__getitem__)
    assert parts(read.network) == sets("n1", "n2", "n1 n2")
    files["more.conf"] += "\nSwitchName=d Colour=red"
    with pytest.raises(ValueError, match=r"^more.conf: line 2: Colour"):
        read_topology_conf(text, include=files.__getitem__)
    files["more.conf"] = "Include leaves.conf"
    with pytest.raises(ValueError, match="too many files, or one that includes itself"):
        read_topology_conf(text, include=files.__getitem__)
    with pytest.raises(ValueError, match="too many files, or one that includes itself"):
        read_topology_conf("Include a\n" * 2000, include=lambda name: "")


# --- what is refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "topology.conf: has neither switches nor blocks"),
        ("SwitchName=a", "topology.conf: there is no node"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: switch 'a' is there twice"),
        ("SwitchName=a Nodes=n1 Switches=b", "line 1: switch 'a' has both switches and nodes"),
        ("SwitchName=a Switches=b", "line 1: there is no switch 'b'"),
        ("SwitchName=a Switches=a", "topology.conf: switch 'a' is below itself"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "switch 'a' is below itself"),
        ("SwitchName=a Nodes=n[1-", "line 1: Nodes: hostlist 'n[1-'"),
        ("SwitchName=a Nodes=n[1-1000000000000]", "more than the 1,048,575 names that"),
        ("SwitchName=a Nodes=n[1-600000]\nSwitchName=b Nodes=m[1-600000]", "line 2: Nodes: hostl"),
        ("SwitchName= Nodes=n1", "line 1: SwitchName: is missing"),
        ("SwitchName=a\\#b Nodes=n1", "line 1: SwitchName: the name"),
        ("SwitchName=a[1-2] Nodes=n1", "line 1: SwitchName: the name 'a[1-2]'"),
        (f"SwitchName={'a' * 65} Nodes=n1", "line 1: SwitchName: the name"),
        ("SwitchName=a Colour=red", "line 1: Colour is not for such a line"),
        ("SwitchName=a SwitchName=b", "line 1: SwitchName is not for such a line"),
        ("SwitchName=a BlockIndex=1", "line 1: BlockIndex is not for such a line"),
        ("BlockName=a Level=1 Nodes=n1", "line 1: Level is not for such a line"),
        ("BlockName=a Nodes=n1 BlockSizes=2", "line 1: BlockSizes is not for such a line"),
        ("SwitchName=a Nodes=n[3-1]", "line 1: Nodes: hostlist 'n[3-1]': the range '3-1' runs"),
        ("Nodes=n1 SwitchName=a", "line 1: begins with Nodes"),
        ("RingName=a Nodes=n1", "line 1: begins with RingName: of topologies trees and"),
        ("TorusName=a Dims=4x4x2", "line 1: begins with TorusName: of topologies trees and"),
        ("hello", "line 1: 'hello' is no Name=Value"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "line 2: switches and blocks"),
        ("BlockName=b", "topology.conf: there is no node"),
        ("BlockName=b Nodes=n1\nBlockName=b Nodes=n2", "line 2: block 'b' is there twice"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,6", "block size 6 must be 2, the first one, t"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,5", "block size 5 must be 2, the first one, t"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,1", "block size 1 must be 2, the first one, t"),
        ("BlockName=a Nodes=n1\nBlockSizes=1,65536", "block size 65536 must be 1, the first one"),
        ("BlockSizes=2\nSwitchName=a Nodes=n1", "line 2: switches and blocks are not for one"),
        ("AggregatedBlock=a Nodes=n1", "line 1: blocksize: '' is no size"),
        (
            "BlockName=a Nodes=n1 BlockSize=1\nBlockName=b Nodes=n2 BlockSize=2",
            "line 2: BlockSize: 2 is another base block size than 1 before",
        ),
        ("# first\nInclude other.conf", "line 2: includes 'other.conf': give a function"),
        ("BlockName=a Nodes=n1\nBlockSizes=0", "line 2: BlockSizes: a size is 0"),
        ("BlockName=a Nodes=n1\nBlockSizes=many", "line 2: BlockSizes: 'many' is no size"),
        (
            "SwitchName=s0 Nodes=n1\n"
            + "".join(f"SwitchName=s{i} Switches=s{i - 1}\n" for i in range(1, 5000)),
            "topology.conf: 5000 levels of switches, allowed are 60",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_line_and_the_rule(text, says):
    with pytest.raises(ValueError, match=r"line|topology\.conf") as error:
        read_topology_conf(text)
    assert says in str(error.value)


def a(**types):
    return [{"topology": "a", **types}]


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        ("- [", ValueError, "topology.yaml: is no YAML: line 1"),
        ("--- []\n--- []\n", ValueError, "must be one document, not 2"),
        ([], ValueError, "topology.yaml: there is no topology"),
        ({}, ValueError, "topology.yaml.topology: is missing"),
        (3, TypeError, "topology.yaml must be a sequence"),
        ([3], TypeError, "[0] must be a mapping, not 3"),
        ([{"flat": True}], ValueError, "[0].topology: is missing"),
        ([{"topology": "a"}], ValueError, "[0]: must have exactly one of tree, block, flat"),
        (a(flat=False), ValueError, "must have exactly one"),
        (a(flat=True, tree={"switches": []}), ValueError, "must have exactly one"),
        (a(tree={}, block={}), ValueError, "must have exactly one"),
        (a(flat=True), ValueError, "[0].flat: a flat topology names no nodes"),
        (a(flat="yes"), TypeError, "[0].flat must be true or false"),
        (
            a(flat={"alpha_step_rank": "yes"}),
            TypeError,
            "[0].flat.alpha_step_rank must be true or false",
        ),
        (
            a(tree={"switches": [{"nodes": "n1"}]}),
            ValueError,
            "[0].tree.switches[0].switch: is missing",
        ),
        (
            a(torus3d={"toruses": []}),
            ValueError,
            "no topology that can be read; topology.yaml[0].torus3d: a topology of the type",
        ),
        (a(hypercube={}), ValueError, "[0].hypercube: is none of topology,"),
        (a(flat={"rank": True}), ValueError, "[0].flat.rank: is none of"),
        (a(default=1), ValueError, "[0].default: is none of topology,"),
        (a(tree={"switch": []}), ValueError, "[0].tree.switch: is none of switches"),
        (
            a(tree={"switches": [{"switch": "s", "node": "n1"}]}),
            ValueError,
            "[0].tree.switches[0].node: is none of switch, children, nodes",
        ),
        (
            a(block={"blocks": [{"block": "b", "switch": "n1"}]}),
            ValueError,
            "[0].block.blocks[0].switch: is none of block, nodes",
        ),
        (
            a(block={"block_size": [4], "blocks": []}),
            ValueError,
            "[0].block.block_size: is none of block_sizes, blocks",
        ),
        (a(tree={}), ValueError, "[0].tree: there is no node"),
        (
            a(tree={"switches": [{"switch": "s", "nodes": 3}]}),
            TypeError,
            "[0].tree.switches[0].nodes must be a string",
        ),
        (
            a(tree={"switches": [{"switch": "s", "children": "t"}]}),
            ValueError,
            "[0].tree.switches[0]: there is no switch 't'",
        ),
        (a(block={"block_sizes": [0], "blocks": []}), ValueError, "[0].block.block_sizes[0]"),
    ],
)
def test_wrong_yaml_is_refused_with_the_path_and_the_rule(data, kind, says):
    with pytest.raises(kind) as error:
        read_topology_yaml(data)
    assert says in str(error.value)


def test_names_count_wherever_they_stand_so_that_aliases_end(monkeypatch):
    monkeypatch.setattr("hivecore.interop.slurm._names.MOST_HOSTS", 1000)
    switches = [{"switch": f"s{i}", "nodes": f"n{i}"} for i in range(51)]
    many = [{"topology": f"a{i}", "tree": {"switches": switches}} for i in range(10)]
    with pytest.raises(ValueError, match=r"\[9\].*switch: there are more than 1,000 names"):
        read_topology_yaml(many)
    assert len(read_topology_yaml(many[:9])) == 9


def test_a_line_may_be_continued_and_ends_with_the_file():
    text = "SwitchName=a \\\n\\\n Nodes=n1 # \\\nSwitchName=b Nodes=n2 \\"
    assert read_topology_conf(text).network.nodes == ("n1", "n2")


def test_two_topologies_of_one_name_are_refused():
    tree = {"topology": "a", "tree": {"switches": [{"switch": "s", "nodes": "n1"}]}}
    with pytest.raises(ValueError, match=r"\[1\].topology: 'a' is there twice"):
        read_topology_yaml([tree, tree])


def test_empty_yaml_documents_beside_the_topologies_say_nothing():
    tree = "- {topology: a, tree: {switches: [{switch: s, nodes: n1}]}}"
    (topology,) = read_topology_yaml(f"---\n# nothing\n---\n{tree}\n---\n")
    assert topology.network.nodes == ("n1",)


def test_what_cannot_be_written_is_refused():
    flat = NetworkTopology([], {"n1": {}})
    spaced = NetworkTopology(["rack"], {"n1": {"rack": "a b"}})
    with pytest.raises(ValueError, match=r"a flat one has no topology\.conf"):
        write_topology_conf(SlurmTopology("flat", flat))
    for plugin in ("tree", "block"):
        with pytest.raises(ValueError, match="it has no layers"):
            write_topology_conf(SlurmTopology(plugin, flat))
        with pytest.raises(ValueError, match="'a b': a name has"):
            write_topology_conf(SlurmTopology(plugin, spaced))
    with pytest.raises(ValueError, match="block_sizes"):
        SlurmTopology("tree", spaced, block_sizes=(1,))
    with pytest.raises(ValueError, match="the block size 3 must be 2"):
        write_topology_conf(
            SlurmTopology("block", NetworkTopology(["r"], {"n": {"r": "a"}}), "", (2, 3))
        )
    with pytest.raises(ValueError, match="the name '' is empty or not unique"):
        write_topology_yaml([SlurmTopology("flat", flat)])
    with pytest.raises(TypeError, match="must be a SlurmTopology, not NetworkTopology"):
        write_topology_conf(flat)


def as_sentence(text):
    assert text.startswith(("line ", "topology."))
    assert len(text) < 400


DATA = [
    {"topology": "a", "cluster_default": True, "tree": {
        "switches": [{"switch": "s1", "nodes": "n[1-2]"}, {"switch": "s2", "children": "s1"}]}},
    {"topology": "b", "block": {"block_sizes": [1, 2],
        "blocks": [{"block": "x", "nodes": "n[1-2]"}]}},
    {"topology": "c", "flat": True},
    {"topology": "d", "ring": {"rings": [{"ring": "r", "nodes": "n[1-2]"}]}},
]  # fmt: skip


@given(broken(DATA))
@examples(300)
def test_whatever_is_in_it_a_document_is_read_or_refused(data):
    with refused_clearly():
        read_topology_yaml(data, nodes=["n1"], warn=as_sentence)


KEYS = "SwitchName BlockName Nodes Switches BlockSizes BlockSize AggregatedBlock"
WORDS = [*(f"{key}=" for key in KEYS.split()), "Level=0", "Include ", "n[1-2]", "s1", *' \n\\#"']


@given(st.lists(st.sampled_from(WORDS), max_size=15).map("".join))
@examples(300)
def test_whatever_is_in_it_a_file_is_read_or_refused(text):
    with refused_clearly(of=(ValueError,)):
        read_topology_conf(text, include=lambda name: "", warn=as_sentence)


# --- a user's run


def test_segments_of_a_job_are_placed_in_blocks_and_written_as_a_node_list():
    text = "".join(f"BlockName=b{i} Nodes=n[{i}01-{i}18]\n" for i in range(1, 5))
    network = read_topology_conf(f"{text}BlockSizes=16,64\n").network
    network.set_slots([1] * 72)
    network.set_slots([0] * 4, ["n101", "n102", "n103", "n210"])
    # sbatch --nodes=32 --segment=16
    decision = network.schedule(TopologyRequest("job", 32, multiple={"block": 16}))
    decision.verify(network)
    used = {}
    for node in decision.ranks:
        used[network.domain(node)[1]] = used.get(network.domain(node)[1], 0) + 1
    assert used == {"b2": 16, "b3": 16}
    assert compress_hostlist(decision.ranks) == "n[201-209,211-217,301-316]"
