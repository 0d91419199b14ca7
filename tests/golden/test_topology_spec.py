"""The example of Koordinator's network: two spines of two blocks of two nodes, 16 cores each."""

import pytest

from hivecore.topology import NetworkTopology, TopologyRequest

BLOCKS = {"b1": (8, 1), "b2": (7, 2), "b3": (6, 3), "b4": (5, 4)}
SPINES = {"s1": ("b1", "b2"), "s2": ("b3", "b4")}


def network():
    made = NetworkTopology(
        ["spine", "block"],
        {
            f"node-{number}": {"spine": spine, "block": block}
            for spine, blocks in SPINES.items()
            for block in blocks
            for number in BLOCKS[block]
        },
    )
    for node in made.nodes:
        made.set_free(node, {"cpu": 16})
    return made


def gang(pods, cpu, **wishes):
    return TopologyRequest("gang", pods, amounts={"cpu": cpu}, **wishes)


@pytest.mark.parametrize("method", ["exact", "koordinator"])
def test_four_pods_fill_a_spine(method):
    decision = network().schedule(gang(4, 16), method=method)
    assert (decision.layer, decision.domain) == ("spine", ("s1",))
    assert {one.node for one in decision.placement} == {"node-1", "node-8", "node-2", "node-7"}
    assert [one.pods for one in decision.placement] == [1] * 4


def test_koordinator_takes_nodes_by_name_within_blocks():
    decision = network().schedule(gang(4, 16), method="koordinator")
    assert decision.ranks == ("node-1", "node-8", "node-2", "node-7")


@pytest.mark.parametrize("method", ["exact", "koordinator"])
def test_two_pods_share_a_block_or_a_node(method):
    decision = network().schedule(gang(2, 16, must="block"), method=method)
    assert (decision.layer, decision.domain) == ("block", ("s1", "b1"))
    small = network().schedule(gang(2, 8), method=method)
    assert small.layer == "node"
    assert [one.pods for one in small.placement] == [2]


@pytest.mark.parametrize("method", ["exact", "koordinator"])
def test_a_spine_that_lost_a_node_has_room_for_three(method):
    busy = network()
    for name, node in (("existing-pod-1", "node-1"), ("existing-pod-4", "node-4")):
        fixed = gang(1, 16, cost={one: 1 for one in busy.nodes if one != node}).replace(name=name)
        busy.commit(busy.schedule(fixed))
        assert [one.node for one in busy.placement(name)] == [node]
    decision = busy.schedule(gang(4, 16, must="spine"), method=method)
    assert decision.outcome == "wait"
    assert decision.reason == "4 pods need one spine: s1 has 3, s2 has 3"
    assert decision.refusal.code == "layer"


def test_the_cheapest_end_admits_the_gang():
    busy = network()
    for name, node in (("existing-pod-1", "node-1"), ("existing-pod-4", "node-4")):
        cost = {one: 1 for one in busy.nodes if one != node}
        busy.commit(busy.schedule(gang(1, 16, cost=cost).replace(name=name)))
    change = busy.explain(gang(4, 16, must="spine")).changes[-1]
    assert (change.kind, change.owners) == ("release", ("existing-pod-1",))
    busy.release("existing-pod-1")
    assert busy.schedule(gang(4, 16, must="spine")).domain == ("s1",)


def test_equal_segments_where_greedy_filling_fails():
    # 32 pods in segments of 8; blocks with 12 slots have room for one segment each.
    labels = {f"n{i}": {"spine": "s", "block": f"b{i // 3}"} for i in range(12)}
    made = NetworkTopology(["spine", "block"], labels)
    made.set_slots([4] * 12)
    request = TopologyRequest("gang", 32, multiple={"block": 8})
    decision = made.schedule(request)
    by_block = {}
    for one in decision.placement:
        block = made.domain(one.node)[1]
        by_block[block] = by_block.get(block, 0) + one.pods
    assert by_block == {"b0": 8, "b1": 8, "b2": 8, "b3": 8}
    decision.verify(made)
    assert made.schedule(request.replace(multiple={"block": 12, "node": 4})).outcome == "wait"


def test_greedy_filling_uses_more_domains_than_need_be():
    labels = {f"n{i}": {"block": f"b{i // 3}"} for i in range(6)}
    made = NetworkTopology(["block"], labels)
    # Block b0 has 6 + 1 + 1 slots, b1 has 4 + 4 + 1: eight pods go into two nodes of b1.
    made.set_slots([6, 1, 1, 4, 4, 1])
    exact = made.schedule(TopologyRequest("gang", 8))
    greedy = made.schedule(TopologyRequest("gang", 8), method="koordinator")
    assert [one.node for one in exact.placement] == ["n3", "n4"]
    assert [one.node for one in greedy.placement] == ["n0", "n1", "n2"]
