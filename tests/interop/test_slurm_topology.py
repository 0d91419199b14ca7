"""Slurm's topology files: what is read, written, and refused."""

from random import Random

import pytest
from profiles import seeds

from hivecore.interop.slurm import (
    expand_hostlist,
    fold_hostlist,
    read_topology_conf,
    read_topology_yaml,
    write_topology_conf,
    write_topology_yaml,
)
from hivecore.topology import NetworkTopology, TopologyRequest

TREE = """
# Two racks below one switch, and one that is connected to the core alone.
SwitchName=core Switches=row,r[3-3]
SWITCHNAME=row switches=r1,r2 LinkSpeed=900
SwitchName=r1 Nodes=n[01-02]
SwitchName=r2 \\
  Nodes=n[03-04]   # goes on
SwitchName=r3 Nodes=n05
"""
BLOCKS = """
BlockName=b1 Nodes=n[1-4]
BlockName=b2 Nodes=n[5-8]
BlockName=b3 Nodes=n[9-12]
BlockSizes=4,8
"""


def test_a_tree_of_switches_is_a_network():
    network = read_topology_conf(TREE)
    assert network.layers == ("level2", "level1", "level0")
    assert network.domain("n03") == ("core", "row", "r2", "n03")
    assert network.labels("n05") == {"level2": "core", "level0": "r3"}
    network.set_slots([1, 1, 1, 1, 1])
    assert network.schedule(TopologyRequest("job", 4)).domain == ("core", "row")


def test_blocks_make_up_larger_ones():
    network = read_topology_conf(BLOCKS)
    assert network.layers == ("block8", "block")
    assert network.domain("n5")[:2] == ("0", "b2")
    assert network.domain("n9")[:2] == ("1", "b3")
    network.set_slots([1] * 12)
    decision = network.schedule(TopologyRequest("job", 6, multiple={"block": 3}))  # --segment=3
    assert decision.layer == "block8"
    assert [one.node for one in decision.placement] == ["n1", "n2", "n3", "n5", "n6", "n7"]


def test_several_topologies_in_one_file():
    found = read_topology_yaml("""
- topology: gpu
  cluster_default: false
  tree:
    switches:
      - {switch: core, children: "s[1-2]"}
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
- topology: rows
  cluster_default: true
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
      - {block: b2, nodes: "n[3-4]"}
- topology: any
  flat: true
""")
    assert found.default == "rows"
    assert found.flat == ("any",)
    assert found.networks["gpu"].domain("n3") == ("core", "s2", "n3")
    assert found.networks["rows"].layers == ("block4", "block")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "either switches or blocks"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "either switches or blocks"),
        ("SwitchName=a", "'a' must have either switches or nodes"),
        ("SwitchName=a Nodes=n1 Switches=b", "'a' must have either"),
        ("SwitchName=a Switches=b", "there is no switch 'b'"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "is below itself"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "a switch is there twice"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "node 'n1' is below two switches"),
        ("SwitchName=a,b Switches=c\nSwitchName=c Nodes=n", "'c' is below two others"),
        ("\nSwitchName=a Nodes=n[2-1]", "line 2: text: '2-1' in 'n\\[2-1\\]' goes down"),
        ("SwitchName=a Nodes=n[1-999999999999]", "stands for more than 1000000 names"),
        ("SwitchName=a Nodes=n[1-9999][1-9999]", "stands for more than 1000000 names"),
        ("SwitchName=a Nodes=n[x]", "'x' in 'n\\[x\\]' is no range"),
        ("SwitchName=a Nodes=n[1", "no host name or range"),
        ("SwitchName=a Ports=3", "line 1: 'ports' is not known here"),
        ("SwitchName=a Nodes=n1 Nodes=n2", "Nodes is there twice"),
        ("Switch a", "line 1: 'Switch' is not of the form"),
        ("BlockName=b Nodes=n1\nBlockSizes=2,3", "multiples of 2, not 3"),
        ("BlockName=b Nodes=n1\nBlockSizes=0", "'0' is no number of nodes"),
        ("BlockName=b Nodes=n1\nBlockName=c Nodes=n1", "node 'n1' is in two blocks"),
    ],
)
def test_what_is_wrong_in_a_topology_conf_is_said(text, says):
    with pytest.raises(ValueError, match=says):
        read_topology_conf(text)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("[", ValueError, "is no YAML"),
        ("a: 1", TypeError, "must be a list"),
        ("- {topology: a}", ValueError, r"\[0\]: must have one of tree, block and flat"),
        ("- {topology: a, flat: true, tree: {}}", ValueError, "must have one of"),
        ("- {tree: {}}", ValueError, "topology: is missing"),
        ("- {topology: a, flat: true}\n- {topology: a, flat: true}", ValueError, "there twice"),
        ("- {topology: a, tree: {switches: [{switch: s, nodes: 'n['}]}}", ValueError, "nodes"),
        ("- {topology: a, block: {block_sizes: [x]}}", TypeError, "block_sizes"),
        ("- {topology: a, flat: 1}", TypeError, "flat must be true or false"),
        ("[]", ValueError, "no topology"),
    ],
)
def test_what_is_wrong_in_a_topology_yaml_is_said(text, error, says):
    with pytest.raises(error, match=says):
        read_topology_yaml(text)


def parts(network):
    """Which nodes are together, layer by layer, whatever domains are called."""
    found = []
    for level in range(1, len(network.layers) + 1):
        groups = {}
        for node in network.nodes:
            groups.setdefault(network.domain(node)[:level], set()).add(node)
        found.append({frozenset(group) for group in groups.values()})
    return found


def random_network(rng):
    layers = [f"l{i}" for i in range(rng.randint(1, 3))]
    names = rng.choice(["ab", ["x1", "x2", "n3"], ["r-1", "r-2", "r-03"]])
    nodes = {
        f"n{i}": {layer: rng.choice(names) for layer in layers} for i in range(rng.randint(1, 9))
    }
    return NetworkTopology(layers, nodes)


def test_what_is_written_is_read_again():
    for seed in seeds(100):
        network = random_network(Random(seed))
        again = [
            read_topology_conf(write_topology_conf(network)),
            read_topology_yaml(write_topology_yaml({"net": network})).networks["net"],
        ]
        for one in again:
            assert parts(one) == parts(network), seed
        blocks = read_topology_conf(write_topology_conf(network, blocks=network.layers[-1]))
        assert parts(blocks)[-1] == parts(network)[-1], seed


def test_nodes_without_a_switch_get_one_each():
    network = NetworkTopology(["row", "rack"], {"a": {"row": "w"}, "b": {"row": "w"}, "c": {}})
    again = read_topology_conf(write_topology_conf(network))
    assert again.domain("a")[0] == again.domain("b")[0] == "w"
    assert len({again.domain(node)[1] for node in "abc"}) == 3
    with pytest.raises(ValueError, match="node 'a' is in no 'rack'"):
        write_topology_conf(network, blocks="rack")


def test_names_that_slurm_cannot_read_are_refused():
    for bad in ("a b", "a,b", "a[1]", "a#", "a="):
        network = NetworkTopology(["rack"], {"n": {"rack": bad}})
        with pytest.raises(ValueError, match="name"):
            write_topology_conf(network)


def test_host_lists_stand_for_the_names_that_they_are_made_of():
    for seed in seeds(300):
        rng = Random(seed)
        names = [
            rng.choice(["n", "gpu-", "", "a1b"])
            + f"{rng.randint(0, 12):0{rng.randint(1, 3)}}"
            + rng.choice(["", "", "x"])
            for _ in range(rng.randint(0, 12))
        ]
        assert expand_hostlist(fold_hostlist(names)) == names, seed


def test_any_text_is_a_host_list_or_not():
    for seed in seeds(2000):
        rng = Random(seed)
        text = "".join(rng.choice("n[]-,019 ") for _ in range(rng.randint(0, 12)))
        try:
            names = expand_hostlist(text, most=100)
        except ValueError as error:
            assert str(error).startswith("text: ")
        else:
            assert len(names) <= 100
            assert all(names)
