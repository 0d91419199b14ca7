"""Slurm's topology files: the documented ones, round trips, wrong ones, and a user's run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.koordinator_objects import broken
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


def test_a_tree_without_a_top_switch_is_several_domains_of_the_widest_layer():
    read = read_topology_conf("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n")
    assert read.network.layers == ("level0",)
    assert parts(read.network) == sets("n1 n2", "n3 n4")


def test_switches_of_different_heights_may_be_below_one():
    read = read_topology_conf(
        "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=b,d\n"
        "SwitchName=d Nodes=n3\nSwitchName=top Switches=a,c\nSwitchName=empty\n"
    )
    assert parts(read.network) == sets("n1", "n2", "n3", "n2 n3", "n1 n2 n3")
    assert read.network.domain("n1")[0] == read.network.domain("n2")[0] == "top"


def test_blocks_and_larger_blocks_are_layers():
    text = "".join(f"BlockName=b{i} Nodes=n[{32 * i + 1}-{32 * i + 32}]\n" for i in range(4))
    read = read_topology_conf(f"{text}BlockSizes=30,120\n")
    assert (read.plugin, read.block_sizes) == ("block", (30, 120))
    assert read.network.layers == ("blocks4", "block")
    assert read.network.domain("n33") == ("1", "b1", "n33")
    assert len(read.network.nodes) == 128


def test_larger_blocks_are_blocks_in_the_order_of_the_file():
    text = "blockname=z nodes=n[1-2]\nBLOCKNAME=y \\\n Nodes=n[3-4]\nBlockName=x Nodes=n[5-6]\n"
    read = read_topology_conf(f"{text}BlockSizes=2,4,8")
    assert read.network.layers == ("blocks4", "blocks2", "block")
    assert parts(read.network) == sets(
        "n1 n2", "n3 n4", "n5 n6", "n1 n2 n3 n4", "n1 n2 n3 n4 n5 n6"
    )


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
    assert [one.cluster_default for one in (tree, block, flat)] == [False, True, False]
    assert tree.network.domain("node05") == ("sw_root", "sw2", "node05")
    assert block.network.domain("node05") == ("1", "b2", "node05")
    assert (flat.network.layers, flat.network.nodes) == ((), ("node01", "login"))


def test_a_yaml_file_comes_back_from_its_plain_data():
    read = read_topology_yaml(YAML, nodes=["node01", "login"])
    written = write_topology_yaml(read)
    again = read_topology_yaml(json.dumps(written), nodes=["node01", "login"])
    for one, other in zip(read, again, strict=True):
        assert one.network.to_bytes() == other.network.to_bytes()
        assert (one.name, one.plugin, one.block_sizes) == (
            other.name,
            other.plugin,
            other.block_sizes,
        )
        assert one.cluster_default == other.cluster_default


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


def test_blocks_that_share_a_name_are_written_with_what_they_are_in():
    labels = {"n1": {"spine": "s1", "rack": "r"}, "n2": {"spine": "s2", "rack": "r"}}
    network = NetworkTopology(["spine", "rack"], labels)
    text = write_topology_conf(SlurmTopology("block", network, block_sizes=(1, 2)))
    assert text == "BlockName=s1.r Nodes=n1\nBlockName=s2.r Nodes=n2\nBlockSizes=1,2\n"


def test_names_stay_different_even_if_they_join_to_the_same():
    paths = [("a.b", "c"), ("a", "b.c"), ("x", "c"), ("x", "b.c"), ("x", "x.c")]
    names = distinct_names(paths)
    assert list(names.values()) == ["a.b.c", "a.b.c-2", "x.c-2", "x.b.c", "x.c"]


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
        ("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]", "line 2: node 'n2' is below 'a'"),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=a\n"
            "SwitchName=d Switches=a,b",
            "line 4: switch 'a' is below 'c' and 'd', which differ",
        ),
        ("SwitchName=a Nodes=n1,n1", "line 1: Nodes: 'n1' is there twice"),
        ("SwitchName=a Nodes=n[1-", "line 1: Nodes: hostlist 'n[1-'"),
        ("SwitchName=a Nodes=n[1-1000000000000]", "more than the 1,048,575 names that"),
        (
            "SwitchName=a Nodes=n[1-600000]\nSwitchName=b Nodes=m[1-600000]",
            "line 2: Nodes: hostlist",
        ),
        ("SwitchName= Nodes=n1", "line 1: SwitchName: the name 'Nodes=n1'"),
        ("SwitchName=a[1-2] Nodes=n1", "line 1: SwitchName: the name 'a[1-2]'"),
        (f"SwitchName={'a' * 65} Nodes=n1", "line 1: SwitchName: the name"),
        ("SwitchName=a Nodes=n1 Nodes=n2", "line 1: Nodes is there twice"),
        ("SwitchName=a Colour=red", "line 1: Colour is there twice, or not for such a line"),
        ("Nodes=n1 SwitchName=a", "line 1: begins with Nodes"),
        ("RingName=a Nodes=n1", "line 1: begins with RingName"),
        ("hello", "line 1: 'hello' is no Name=Value"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "line 2: switches and blocks"),
        ("BlockName=b", "topology.conf: there is no node"),
        ("BlockName=b Nodes=n1\nBlockName=b Nodes=n2", "line 2: block 'b' is there twice"),
        ("BlockName=a Nodes=n1\nBlockName=b Nodes=n1", "line 2: node 'n1' is in 'a' and 'b'"),
        ("BlockName=a Nodes=n1\nBlockSizes=2", "line 1: block 'a' has 1 nodes, the base"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,6", "the block size 6 must be 2 times a power"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,2", "the block size 2 must be 2 times a power"),
        ("BlockName=a Nodes=n[1-2]\nBlockSizes=2,5", "the block size 5 must be 2 times a power"),
        ("BlockName=a Nodes=n1\nBlockSizes=0", "line 2: BlockSizes: a size is 0"),
        ("BlockName=a Nodes=n1\nBlockSizes=many", "line 2: BlockSizes: 'many' are no sizes"),
        ("BlockName=a Nodes=n1\nBlockSizes=1\nBlockSizes=1", "line 3: there are two lines"),
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


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        ([], ValueError, "topology.yaml: there is no topology"),
        ({}, ValueError, "there is no topology"),
        (3, TypeError, "topology.yaml must be a sequence"),
        ([3], TypeError, "[0] must be a mapping, not 3"),
        ([{"flat": True}], ValueError, "[0].topology: is missing"),
        ([{"topology": "a"}], ValueError, "[0]: must have exactly one of tree, block and flat"),
        ([{"topology": "a", "flat": False}], ValueError, "must have exactly one"),
        ([{"topology": "a", "flat": True, "tree": {}}], ValueError, "must have exactly one"),
        ([{"topology": "a", "flat": True}], ValueError, "[0].flat: a flat topology names no nodes"),
        ([{"topology": "a", "torus3d": {}}], ValueError, "[0]: 'torus3d' is none of"),
        ([{"topology": "a", "tree": {}}], ValueError, "[0].tree: there is no node"),
        (
            [{"topology": "a", "tree": {"switches": [{"switch": "s", "nodes": 3}]}}],
            TypeError,
            "[0].tree.switches[0].nodes must be a string",
        ),
        (
            [{"topology": "a", "tree": {"switches": [{"switch": "s", "children": "t"}]}}],
            ValueError,
            "[0].tree.switches[0]: there is no switch 't'",
        ),
        (
            [{"topology": "a", "block": {"block_sizes": [0], "blocks": []}}],
            ValueError,
            "[0].block.block_sizes[0]",
        ),
    ],
)
def test_wrong_yaml_is_refused_with_the_path_and_the_rule(data, kind, says):
    with pytest.raises(kind) as error:
        read_topology_yaml(data)
    assert says in str(error.value)


def test_names_count_wherever_they_stand_so_that_aliases_end(monkeypatch):
    monkeypatch.setattr("hivecore.interop.slurm._names.MOST_HOSTS", 1000)
    switches = [{"switch": "s", "nodes": "n1"}, *({"switch": f"t{i}"} for i in range(99))]
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


def test_text_that_is_no_yaml_is_refused():
    with pytest.raises(ValueError, match=r"topology\.yaml: is no YAML: line 1"):
        read_topology_yaml("- [")
    with pytest.raises(ValueError, match="must be one document, not 2"):
        read_topology_yaml("--- []\n--- []\n")


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
    with pytest.raises(ValueError, match="the base block size is 2"):
        write_topology_conf(
            SlurmTopology("block", NetworkTopology(["r"], {"n": {"r": "a"}}), "", (2,))
        )
    with pytest.raises(ValueError, match="the name '' is empty or not unique"):
        write_topology_yaml([SlurmTopology("flat", flat)])
    with pytest.raises(TypeError, match="must be a SlurmTopology, not NetworkTopology"):
        write_topology_conf(flat)


DATA = [
    {"topology": "a", "cluster_default": True, "tree": {
        "switches": [{"switch": "s1", "nodes": "n[1-2]"}, {"switch": "s2", "children": "s1"}]}},
    {"topology": "b", "block": {"block_sizes": [1, 2],
        "blocks": [{"block": "x", "nodes": "n[1-2]"}]}},
    {"topology": "c", "flat": True},
]  # fmt: skip


@given(broken(DATA))
@examples(300)
def test_whatever_is_in_it_a_document_is_read_or_refused(data):
    try:
        read_topology_yaml(data, nodes=["n1"])
    except (ValueError, TypeError) as error:
        assert str(error)


LINES = [
    "SwitchName=",
    "BlockName=",
    "Nodes=",
    "Switches=",
    "BlockSizes=",
    "n[1-2]",
    "s1",
    " ",
    "\n",
    "\\",
    "#",
    '"',
]


@given(st.lists(st.sampled_from(LINES), max_size=15).map("".join))
@examples(300)
def test_whatever_is_in_it_a_file_is_read_or_refused(text):
    try:
        read_topology_conf(text)
    except ValueError as error:
        assert str(error)


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
