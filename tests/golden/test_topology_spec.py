"""The example of Koordinator's network: two spines of two blocks of two nodes, 16 cores each.

Beside it what Koordinator places otherwise, as its peer does, and docs/figures/topology.md says.
"""

from peers.koordinator_topology import GreedyNetwork

from hivecore.topology import NetworkTopology, TopologyRequest

BLOCKS = {"b1": (8, 1), "b2": (7, 2), "b3": (6, 3), "b4": (5, 4)}
SPINES = {"s1": ("b1", "b2"), "s2": ("b3", "b4")}


def network():
    topology = NetworkTopology(
        ["spine", "block"],
        {
            f"node-{number}": {"spine": spine, "block": block}
            for spine, blocks in SPINES.items()
            for block in blocks
            for number in BLOCKS[block]
        },
    )
    for node in topology.nodes:
        topology.set_free(node, {"cpu": 16})
    return topology


def gang(pods, cpu, **wishes):
    return TopologyRequest("gang", pods, amounts={"cpu": cpu}, **wishes)


def greedy(network, slots, pods, **wishes):
    """The layer and the pods of each node, Koordinator's way."""
    names = GreedyNetwork([network.domain(node) for node in network.nodes])
    placed = names.place(slots, pods, **wishes)
    return placed and (("", *network.layers, "node")[placed[0]], placed[1])


def test_four_pods_fill_a_spine():
    decision = network().schedule(gang(4, 16))
    assert (decision.layer, decision.domain) == ("spine", ("s1",))
    assert {part.node for part in decision.placement} == {"node-1", "node-8", "node-2", "node-7"}
    assert [part.pods for part in decision.placement] == [1] * 4


def test_koordinator_takes_nodes_by_name_within_blocks():
    layer, pods = greedy(network(), [1] * 8, 4)
    assert layer == "spine"
    assert list(pods) == ["node-1", "node-8", "node-2", "node-7"]


def test_two_pods_share_a_block_or_a_node():
    decision = network().schedule(gang(2, 16, must="block"))
    assert (decision.layer, decision.domain) == ("block", ("s1", "b1"))
    assert greedy(network(), [1] * 8, 2, must=2) == ("block", {"node-1": 1, "node-8": 1})
    small = network().schedule(gang(2, 8))
    assert small.layer == "node"
    assert [part.pods for part in small.placement] == [2]
    assert greedy(network(), [2] * 8, 2) == ("node", {"node-1": 2})


def test_a_spine_that_lost_a_node_has_room_for_three():
    busy = network()
    for name, node in (("existing-pod-1", "node-1"), ("existing-pod-4", "node-4")):
        fixed = gang(1, 16, cost=dict.fromkeys({*busy.nodes} - {node}, 1)).replace(name=name)
        busy.commit(busy.schedule(fixed))
        assert [part.node for part in busy.placement(name)] == [node]
    decision = busy.schedule(gang(4, 16, must="spine"))
    assert decision.outcome == "wait"
    assert decision.reason == "4 pods need one spine: s1 has 3, s2 has 3"
    assert decision.refusal.code == "layer"
    slots = [0 if node in ("node-1", "node-4") else 1 for node in busy.nodes]
    assert greedy(busy, slots, 4, must=1) is None


def test_the_cheapest_end_admits_the_gang():
    busy = network()
    for name, node in (("existing-pod-1", "node-1"), ("existing-pod-4", "node-4")):
        cost = dict.fromkeys({*busy.nodes} - {node}, 1)
        busy.commit(busy.schedule(gang(1, 16, cost=cost).replace(name=name)))
    change = busy.explain(gang(4, 16, must="spine")).changes[-1]
    assert (change.kind, change.owners) == ("release", ("existing-pod-1",))
    busy.release("existing-pod-1")
    assert busy.schedule(gang(4, 16, must="spine")).domain == ("s1",)


def test_equal_segments_where_greedy_filling_fails():
    # 32 pods in segments of 8; blocks with 12 slots have room for one segment each.
    labels = {f"n{i}": {"spine": "s", "block": f"b{i // 3}"} for i in range(12)}
    topology = NetworkTopology(["spine", "block"], labels)
    topology.set_slots([4] * 12)
    request = TopologyRequest("gang", 32, multiple={"block": 8})
    decision = topology.schedule(request)
    by_block = {}
    for part in decision.placement:
        block = topology.domain(part.node)[1]
        by_block[block] = by_block.get(block, 0) + part.pods
    assert by_block == {"b0": 8, "b1": 8, "b2": 8, "b3": 8}
    decision.verify(topology)
    assert topology.schedule(request.replace(multiple={"block": 12, "node": 4})).outcome == "wait"


def test_greedy_filling_uses_more_domains_than_need_be():
    labels = {f"n{i}": {"block": f"b{i // 3}"} for i in range(6)}
    topology = NetworkTopology(["block"], labels)
    # Block b0 has 6 + 1 + 1 slots, b1 has 4 + 4 + 1: eight pods go into two nodes of b1.
    topology.set_slots([6, 1, 1, 4, 4, 1])
    exact = topology.schedule(TopologyRequest("gang", 8))
    assert [part.node for part in exact.placement] == ["n3", "n4"]
    assert greedy(topology, [6, 1, 1, 4, 4, 1], 8) == ("block", {"n0": 6, "n1": 1, "n2": 1})


def test_koordinator_cuts_wide_domains_off_to_whole_segments_before_it_goes_to_narrow_ones():
    topology = NetworkTopology(["block", "rack"], {n: {"block": "b", "rack": "r"} for n in "ab"})
    topology.set_slots([1, 1])
    decision = topology.schedule(TopologyRequest("gang", 2, multiple={"block": 4}))
    assert (decision.layer, decision.ranks) == ("rack", ("a", "b"))
    assert greedy(topology, [1, 1], 2, multiples={1: 4}) is None


def test_koordinator_does_not_read_which_layer_is_preferred():
    topology = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
    topology.set_slots([2, 2])
    assert topology.schedule(TopologyRequest("gang", 2, prefer="rack")).layer == "rack"
    assert greedy(topology, [2, 2], 2) == ("node", {"a": 2})


def test_koordinator_s_job_preemption_takes_the_dearer_of_equal_nodes():
    topology = NetworkTopology([], {"a": {}, "b": {}})
    topology.set_slots([1, 1])
    request = TopologyRequest("gang", 1, cost={"b": 1})
    assert topology.schedule(request).ranks == ("a",)
    assert greedy(topology, [1, 1], 1, cost=[0, 1]) == ("node", {"a": 1})
    assert greedy(topology, [1, 1], 1, cost=[0, 1], dear_first=True) == ("node", {"b": 1})
