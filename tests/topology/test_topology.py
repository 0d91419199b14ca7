"""Networks of domains: what they tell, what they refuse, how they are copied and saved."""

import json
import random

import numpy as np
import pytest
from profiles import seeds

from hivecore._sealed import seal, unseal
from hivecore.errors import CertificateError, CorruptStateError, StaleDecisionError
from hivecore.topology import (
    NetworkTopology,
    NodePods,
    TopologyDecision,
    TopologyRequest,
    TopologyRole,
)


def small():
    labels = {f"n{i}": {"spine": f"s{i // 4}", "rack": f"r{i // 2}"} for i in range(8)}
    network = NetworkTopology(["spine", "rack"], labels)
    network.set_slots([2, 1, 2, 2, 2, 2, 0, 2])
    return network


@pytest.mark.parametrize(
    ("request_", "nodes", "lacking"),
    [
        (TopologyRequest("g", 1, amounts={"cpu": 193, "gpu": 1}), None, (("cpu", 193, 192),)),
        (TopologyRequest("g", 2, amounts={"cpu": 97}, must="rack"), ["n1"], (("cpu", 97, 96),)),
        (
            TopologyRequest("g", 1, amounts={"gpu": 9}, role=TopologyRole("r", 1, {"nic": 0.5})),
            None,
            (("gpu", 9, 8), ("nic", 0.5, 0)),
        ),
        (TopologyRequest("g", 1, amounts={"cpu": 150, "gpu": 5}), None, ()),
        (TopologyRequest("g", 3, amounts={"cpu": 96}), ["n0"], ()),
        (TopologyRequest("g", 1, amounts={"cpu": 1}), [], (("cpu", 1, 0),)),
    ],
)
def test_a_resource_that_no_node_has_enough_of_is_named(request_, nodes, lacking):
    network = NetworkTopology(["rack"], {"n0": {"rack": "r0"}, "n1": {"rack": "r1"}})
    network.set_free("n0", {"cpu": 192, "gpu": 4})
    network.set_free("n1", {"cpu": 96, "gpu": 8})
    assert network.lacking(request_, nodes) == lacking
    with pytest.raises(KeyError, match="n7"):
        network.lacking(request_, ["n7"])
    with pytest.raises(TypeError, match="request must be"):
        network.lacking("g")


def test_equal_names_in_different_domains_are_different_domains():
    labels = {
        "a": {"spine": "s0", "rack": "r"},
        "b": {"spine": "s1", "rack": "r"},
        "c": {"spine": "s0", "rack": "r"},
    }
    network = NetworkTopology(["spine", "rack"], labels)
    assert network.nodes == ("a", "c", "b")
    assert network.domains("rack") == network.domains("spine") == (("a", "c"), ("b",))
    network.set_slots([1, 1, 1])
    assert network.schedule(TopologyRequest("g", 2)).placement == (
        NodePods("a", 1),
        NodePods("c", 1),
    )
    assert network.slots("rack") == {"r": 3}
    assert network.slots("") == {"": 3}


def test_nodes_without_a_label_have_domains_of_their_own():
    labels = {
        "a": {"rack": "r"},
        "b": {"rack": "r"},
        "c": {},
        "d": {"spine": "s"},
        "e": {"spine": "s"},
    }
    network = NetworkTopology(["spine", "rack"], labels)
    assert network.domains("") == (network.nodes,)
    assert network.domains("spine") == (("a", "b"), ("c",), ("d", "e"))
    assert network.domains("rack") == (("a", "b"), ("c",), ("d",), ("e",))
    assert network.domains("node") == tuple((node,) for node in network.nodes)
    network.set_slots([1] * 5)
    assert network.domain("a")[:2] == network.domain("b")[:2]
    assert network.domain("d")[0] == network.domain("e")[0] == "s"
    assert network.domain("d")[1] != network.domain("e")[1]
    pair = network.schedule(TopologyRequest("g", 2, must="rack"))
    assert [part.node for part in pair.placement] == ["a", "b"]
    assert network.schedule(TopologyRequest("g", 3, must="spine")).reason.startswith(
        "3 pods need one spine: "
    )


def test_what_owners_take_is_given_back():
    network = small()
    before = network.to_bytes()
    decision = network.schedule(TopologyRequest("g", 6))
    network.commit(decision)
    network.check()
    assert network.owners == ("g",)
    assert network.placement("g") == decision.placement
    assert network.slots("spine") == {"s0": 7, "s1": 0}
    network.release("g")
    assert network.to_bytes() == before


def test_no_more_is_given_back_than_is_counted():
    network = small()
    network.set_free("n0", {"gpu": 4})
    network.commit(network.schedule(TopologyRequest("g", 4, amounts={"gpu": 1})))
    network.set_free("n0", {"gpu": 2**62 - 1})
    network.release("g")
    assert network.free("n0")["gpu"] == 2**62


def test_resources_limit_pods_together():
    network = small()
    network.set_free("n0", {"gpu": 8, "cpu": 12})
    network.set_free("n1", {"gpu": 2, "cpu": 90})
    pods = {"gpu": 1, "cpu": 4}
    assert network.slots(amounts=pods)["n0"] == 3
    assert network.slots(amounts=pods)["n1"] == 2
    assert network.slots()["n0"] == 0
    network.commit(network.schedule(TopologyRequest("g", 5, amounts=pods)))
    assert network.free("n0") == {"cpu": 0, "gpu": 5, "slots": 0}
    network.check()


def test_a_search_that_is_cut_short_says_so():
    network = small()
    request = TopologyRequest("g", 6)
    short = network.schedule(request, work=0)
    assert not short.optimal
    assert short.fewest == (("rack", 2), ("node", 3))
    short.verify(network)
    assert network.schedule(request).optimal
    none = network.schedule(request.replace(multiple={"rack": 3}), work=0)
    assert (none.outcome, none.refusal.code) == ("wait", "work")


def test_a_gang_of_billions_is_placed_without_a_search():
    network = small()
    network.set_slots([2**31] * 8)
    decision = network.schedule(TopologyRequest("g", 2**31))
    assert decision.placement == (NodePods("n0", 2**31),)
    network.set_slots([2**30] * 8)
    decision = network.schedule(TopologyRequest("g", 2**31))
    assert (decision.layer, decision.optimal) == ("rack", False)
    decision.verify(network)
    network.check()


def test_thirty_layers():
    layers = [f"l{i}" for i in range(30)]
    labels = {
        f"n{i}": {layer: f"{i >> max(0, 6 - k)}" for k, layer in enumerate(layers)}
        for i in range(64)
    }
    network = NetworkTopology(layers, labels)
    network.set_slots(np.full(64, 2**31, dtype=np.int64))
    decision = network.schedule(TopologyRequest("g", 50))
    assert decision.layer == "node"
    network.set_slots(np.arange(64) % 3)
    decision = network.schedule(TopologyRequest("g", 20))
    decision.verify(network)
    assert decision.optimal
    network.check()


WRONG = [
    (lambda t: NetworkTopology("ab", {"a": {}}), TypeError, "layers"),
    (lambda t: NetworkTopology(["a", "a"], {"n": {}}), ValueError, "layers"),
    (lambda t: NetworkTopology(["node"], {"n": {}}), ValueError, "layers"),
    (lambda t: NetworkTopology([1], {"n": {}}), TypeError, "layers"),
    (lambda t: NetworkTopology([f"l{i}" for i in range(61)], {"n": {}}), ValueError, "60"),
    (lambda t: NetworkTopology(["a"], ["n"]), TypeError, "nodes"),
    (lambda t: NetworkTopology(["a"], {"": {}}), ValueError, "nodes"),
    (lambda t: NetworkTopology(["a"], {"n": {"b": "x"}}), ValueError, "'b' is no layer"),
    (lambda t: NetworkTopology(["a"], {"n": {"a": 3}}), TypeError, r"nodes\['n'\]\['a'\]"),
    (lambda t: NetworkTopology(["a"], {"n": 3}), TypeError, r"labels in nodes\['n'\] must"),
    (lambda t: t.set_slots([1]), ValueError, "counts must have shape"),
    (lambda t: t.set_slots([]), ValueError, "counts must have shape"),
    (lambda t: t.set_slots({"n0": 1}), TypeError, "counts must be an array, not a mapping"),
    (lambda t: t.set_slots([1, 2], ["n0", "n9"]), KeyError, "n9"),
    (lambda t: t.set_slots([0.5], ["n0"]), TypeError, "counts must hold integers"),
    (lambda t: t.set_slots([float("nan")], ["n0"]), TypeError, "counts"),
    (lambda t: t.set_slots([-1], ["n0"]), ValueError, "counts"),
    (lambda t: t.set_slots([2**31 + 1], ["n0"]), ValueError, "counts"),
    (lambda t: t.set_slots([2**70], ["n0"]), TypeError, "counts"),
    (lambda t: t.set_slots([[1], [2, 3]], ["n0", "n1"]), ValueError, "counts"),
    (lambda t: t.set_free("n9", {}), KeyError, "n9"),
    (lambda t: t.set_free("n0", {"gpu": -1}), ValueError, r"amounts\['gpu'\]"),
    (lambda t: t.set_free("n0", {"gpu": 0.0005}), ValueError, r"amounts\['gpu'\]"),
    (lambda t: t.free([]), KeyError, "there is no node"),
    (lambda t: t.domain("x"), KeyError, "there is no node 'x'"),
    (lambda t: t.slots("row"), KeyError, "there is no layer 'row'"),
    (lambda t: t.domains("row"), KeyError, "there is no layer 'row'"),
    (lambda t: t.schedule("g"), TypeError, "request must be a TopologyRequest"),
    (lambda t: t.schedule(TopologyRequest("g", 1), work=-1), ValueError, "work"),
    (lambda t: t.schedule(TopologyRequest("g", 1), work=1.5), TypeError, "work"),
    (lambda t: t.schedule(TopologyRequest("g", 1, must="row")), KeyError, "request.must"),
    (lambda t: t.schedule(TopologyRequest("g", 1, prefer="row")), KeyError, "request.prefer"),
    (
        lambda t: t.schedule(TopologyRequest("g", 1, must="rack", prefer="spine")),
        ValueError,
        "wider",
    ),
    (lambda t: t.schedule(TopologyRequest("g", 1, multiple={"row": 2})), KeyError, "multiple"),
    (lambda t: t.schedule(TopologyRequest("g", 1, per_domain={"row": 2})), KeyError, "per_domain"),
    (lambda t: t.schedule(TopologyRequest("g", 1, balance="row")), KeyError, "balance"),
    (lambda t: t.schedule(TopologyRequest("g", 1, existing={"x": 2})), KeyError, "existing"),
    (lambda t: t.schedule(TopologyRequest("g", 1, cost={"x": 2})), KeyError, "cost"),
    (lambda t: TopologyRequest("", 1), ValueError, "name"),
    (lambda t: TopologyRequest("g", 0), ValueError, "pods"),
    (lambda t: TopologyRequest("g", 2**31 + 1), ValueError, "pods"),
    (lambda t: TopologyRequest("g", 1, must=None), TypeError, "must"),
    (lambda t: TopologyRequest("g", 1, multiple={"rack": 0}), ValueError, "multiple"),
    (lambda t: TopologyRequest("g", 1, per_domain={"rack": 0}), ValueError, "per_domain"),
    (lambda t: TopologyRequest("g", 1, balance=None), TypeError, "balance"),
    (lambda t: TopologyRequest("g", 1, amounts={}), ValueError, "amounts"),
    (lambda t: TopologyRequest("g", 1, amounts={"gpu": 0}), ValueError, "amounts"),
    (lambda t: TopologyRequest("g", 1, cost={"a": 2**31, "b": 1}), ValueError, "cost"),
    (lambda t: TopologyRequest("g", 1, existing={"a": -1}), ValueError, "existing"),
    (lambda t: t.commit("g"), TypeError, "decision must be a TopologyDecision"),
    (lambda t: t.commit(t.schedule(TopologyRequest("g", 99))), ValueError, "decision.outcome"),
    (lambda t: t.release("g"), KeyError, "there is no owner 'g'"),
    (lambda t: t.placement([]), KeyError, "there is no owner"),
    (lambda t: t.explain(3), TypeError, "request"),
    (lambda t: NetworkTopology.from_bytes(3), TypeError, "data"),
]


@pytest.mark.parametrize(("call", "error", "says"), WRONG)
def test_wrong_arguments_are_named_and_change_nothing(call, error, says):
    network = small()
    before = network.to_bytes()
    with pytest.raises(error, match=says):
        call(network)
    assert network.to_bytes() == before
    network.check()


def test_gangs_one_after_the_other_or_none_of_them():
    network = small()
    before = network.to_bytes()
    gangs = [TopologyRequest(name, pods) for name, pods in (("a", 6), ("b", 5), ("c", 4), ("d", 2))]
    decisions = network.schedule_many(gangs)
    assert [decision.outcome for decision in decisions] == ["bind", "bind", "wait", "bind"]
    assert network.to_bytes() == before
    with pytest.raises(ValueError, match="there is an owner 'a'"):
        network.schedule_many([gangs[0], gangs[0]])
    assert network.to_bytes() == before
    with pytest.raises(ValueError, match="decision"):
        network.commit_many(decisions)
    assert network.to_bytes() == before
    network.commit_many([decision for decision in decisions if decision.outcome == "bind"])
    assert network.owners == ("a", "b", "d")
    network.check()


def test_decisions_of_before_are_stale():
    network = small()
    item = network.schedule(TopologyRequest("one", 6))
    other = network.schedule(TopologyRequest("other", 6))
    network.commit(item)
    before = network.to_bytes()
    for decision in (item, other):
        with pytest.raises(StaleDecisionError):
            network.commit(decision)
    with pytest.raises(ValueError, match="there is an owner 'one'"):
        network.schedule(TopologyRequest("one", 1))
    assert network.to_bytes() == before


def lie(**changes):
    network = small()
    claimed = network.schedule(TopologyRequest("g", 3))
    return claimed.replace(**changes), network


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"placement": (NodePods("n0", 2),)}, "2 pods placed, not 3"),
        ({"placement": (NodePods("n0", 1), NodePods("n0", 2))}, "pods placed"),
        ({"placement": (NodePods("n0", 1), NodePods("n1", 2))}, "node 'n1' has no room for 2 pods"),
        ({"placement": (NodePods("n0", 2), NodePods("n2", 1))}, "no domain of layer 'rack'"),
        ({"request": TopologyRequest("g", 3, must="node")}, "'rack' is wider than 'node'"),
        ({"request": TopologyRequest("g", 3, prefer="spine")}, "'rack' is narrower than 'spine'"),
        ({"request": TopologyRequest("g", 3, multiple={"node": 2})}, "no multiple of 2"),
        ({"request": TopologyRequest("g", 3, per_domain={"rack": 2})}, "at most 2 may be there"),
        ({"layer": "spine", "domain": ("s0",)}, "a domain of layer 'rack' has room for all"),
    ],
)
def test_the_proof_notices_what_is_wrong(changes, says):
    decision, network = lie(**changes)
    with pytest.raises(CertificateError, match=says):
        decision.verify(network)


def test_the_proof_distinguishes_domains_of_equal_names():
    network = NetworkTopology(["rack"], {"n1": {}, "n2": {"rack": "n1"}})
    assert network.domain("n1")[:1] == network.domain("n2")[:1]
    network.set_slots([1, 1])
    decision = network.schedule(TopologyRequest("g", 2))
    assert decision.layer == ""
    decision.verify(network)
    with pytest.raises(CertificateError, match="no domain of layer 'rack'"):
        decision.replace(layer="rack").verify(network)


def test_a_saved_state_whose_owners_take_what_there_is_not_is_refused():
    network = small()
    network.commit(network.schedule(TopologyRequest("g", 6)))
    state = {**json.loads(unseal(b"HCNT", 2, network.to_bytes())), "free": {}}
    with pytest.raises(CorruptStateError, match="owner 'g' takes of 'slots': unknown"):
        NetworkTopology.from_bytes(seal(b"HCNT", 2, json.dumps(state).encode()))


def test_no_pod_is_placed_on_an_unhealthy_node_and_owners_stay():
    network = small()
    network.commit(network.schedule(TopologyRequest("g", 6)))
    before = network.placement("g")
    node = before[0].node
    network.set_health(node, False)
    assert network.unhealthy == (node,) and set(network.free(node).values()) == {0}
    stale = network.copy()
    stale.set_health(node, True)
    decision = stale.schedule(TopologyRequest("h", 1, cost={n: n != node for n in network.nodes}))
    network.release("g")
    assert network.slots()[node] == 0
    if decision.placement[0].node == node:
        with pytest.raises(StaleDecisionError):
            network.commit(decision)
    for branch in (network.copy(), NetworkTopology.from_bytes(network.to_bytes())):
        assert branch.unhealthy == (node,)
        branch.check()
        everywhere = branch.schedule(TopologyRequest("all", sum(branch.slots().values())))
        assert node not in [part.node for part in everywhere.placement]
        branch.set_health(node, True)
        assert branch.unhealthy == () and branch.slots()[node] > 0
        branch.check()
    with pytest.raises(KeyError, match="no node 'x'"):
        network.set_health("x", True)
    with pytest.raises(TypeError, match="healthy"):
        network.set_health(node, 1)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_nodes_to_use_are_as_a_network_where_nothing_else_is_free(seed):
    rng = random.Random(seed)
    labels = {f"n{i}": {"spine": f"s{i // 4}", "rack": f"r{i // 2}"} for i in range(8)}
    network = NetworkTopology(["spine", "rack"], labels)
    for node in network.nodes:
        network.set_free(node, {"gpu": rng.randint(0, 8), "cpu": rng.randint(0, 8)})
    request = TopologyRequest(
        "g",
        rng.randint(1, 8),
        must=rng.choice(["", "spine", "rack"]),
        amounts={"gpu": rng.randint(1, 3)},
        role=TopologyRole("leader", rng.randint(1, 2), {"cpu": 2}) if rng.random() < 0.4 else None,
    )
    nodes = rng.sample(network.nodes, rng.randint(0, 8))
    other = network.copy()
    for node in set(network.nodes) - set(nodes):
        other.set_free(node, {})
    before = network.to_bytes()
    decision = network.schedule(request, nodes=nodes)
    expected = other.schedule(request)
    assert network.to_bytes() == before and decision.nodes == tuple(nodes)
    assert (decision.outcome, decision.placement) == (expected.outcome, expected.placement)
    assert decision.refusal == expected.refusal and decision.optimal == expected.optimal
    decision.verify(network)
    if decision.outcome == "bind":
        network.commit(decision)
        network.check()


def test_the_proof_knows_which_nodes_may_be_used():
    network = small()
    decision = network.schedule(TopologyRequest("g", 1), nodes=["n3"])
    with pytest.raises(CertificateError, match="'n3' is not one of those that may be used"):
        decision.replace(nodes=("n2",)).verify(network)
    with pytest.raises(KeyError, match="no node 'x'"):
        network.schedule(TopologyRequest("g", 1), nodes=["x"])


def test_a_node_gets_no_more_pods_than_most_says():
    network = NetworkTopology([], {"a": {}, "b": {}, "c": {}})
    network.set_slots([8, 4, 8])
    gang = TopologyRequest("g", 3)
    decision = network.schedule(gang, most=[2, 2, 2])
    assert decision.placement == (NodePods("a", 2), NodePods("b", 1))
    decision.verify(network, most=[2, 2, 2])
    with pytest.raises(CertificateError, match="node 'a' has more pods than it may get"):
        decision.verify(network, most=[1, 2, 2])
    with pytest.raises(CertificateError, match="a domain of layer 'node' has room for all"):
        decision.verify(network)
    assert network.schedule(gang, most=[2, 2, 2], nodes=["a", "c"]).ranks == ("a", "a", "c")
    assert network.schedule(gang, most=np.array([9, 3, 3], np.int32)) == network.schedule(gang)
    refused = network.schedule(gang, most=[1, 0, 1])
    assert refused.reason == "3 pods need as many slots: the network has 2 slots"
    alone = network.schedule(TopologyRequest("h", 1), most=[0, 0, 0])
    assert alone.reason == "1 pod needs a slot: the network has 0 slots"
    network.commit(decision)
    assert network.slots() == {"a": 6, "b": 3, "c": 8}


def test_a_refusal_names_what_the_network_does_not_count():
    network = NetworkTopology([], {"a": {}})
    network.set_free("a", {"gpu": 8})
    for amounts in ({"gpu": 1, "cpu": 4}, {"cpu": 4}):
        refused = network.schedule(TopologyRequest("h", 1, amounts=amounts))
        assert refused.reason == "no node of the network counts 'cpu'"
    role = TopologyRole("leader", 1, {"cpu": 1})
    refused = network.schedule(TopologyRequest("h", 1, amounts={"gpu": 1}, role=role))
    assert "counts 'cpu'" in refused.reason


def test_most_is_a_number_for_each_node():
    network = NetworkTopology([], {"a": {}, "b": {}})
    with pytest.raises(ValueError, match=r"most must have shape \(2,\), not \(1,\)"):
        network.schedule(TopologyRequest("g", 1), most=[1])
    with pytest.raises(ValueError, match=r"most must have shape \(2,\), not \(2, 2\)"):
        network.schedule(TopologyRequest("g", 1), most=[[1, 1], [1, 1]])
    led = TopologyRequest("g", 1, role=TopologyRole("leader", 1, {"slots": 1}))
    with pytest.raises(ValueError, match=r"most must have shape \(1, 2\), not \(1, 1\)"):
        network.schedule(led, most=[[1]])
    with pytest.raises(TypeError, match="most must hold integers"):
        network.schedule(TopologyRequest("g", 1), most=[1.0, 1.0])


def two_nodes():
    network = NetworkTopology((), {"a": {}, "b": {}})
    network.set_slots([4, 4])
    return network


@pytest.mark.parametrize(
    ("placement", "error", "says"),
    [
        ((NodePods("a", 3), NodePods("a", 3)), ValueError, "a node is named twice"),
        ((NodePods("a", 7), NodePods("b", -1)), ValueError, "pods of node 'b'=-1: allowed are 0"),
        ((NodePods("a", 6, -1),), ValueError, "pods of node 'a'=-1: allowed are 0"),
        ((NodePods("a", 2**31 + 1),), ValueError, "pods of node 'a'=2147483649: allowed are 0"),
        ((NodePods("a", 2**200),), ValueError, "pods of node 'a'=a huge number"),
        ((NodePods("a", 1.5),), TypeError, "pods of node 'a' must be an integer, not float"),
        ((NodePods("a", True),), TypeError, "pods of node 'a' must be an integer, not bool"),
        ((NodePods("a", "6"),), TypeError, "pods of node 'a' must be an integer, not str"),
        ((NodePods("a", 4, None),), TypeError, "pods of node 'a' must be an integer, not None"),
        ((NodePods("a", 4), NodePods("b", 0)), ValueError, "pods of node 'b': there are none"),
        ((NodePods("a", 4), NodePods("b", 1)), ValueError, "5 pods, not 6"),
        ((), ValueError, "0 pods, not 6"),
        ((NodePods("a", 4), NodePods("b", 2, 1)), ValueError, "1 others, not 0"),
        ((NodePods("c", 6),), KeyError, "there is no node 'c'"),
        ((NodePods(["a"], 6),), TypeError, "a node must be a string, not list"),
        ((NodePods("", 6),), ValueError, "a node must not be empty"),
        ((("a", 6, 0),), TypeError, "decision.placement must hold NodePods, not tuple"),
        ("ab", TypeError, "decision.placement must be a sequence, not str"),
        (None, TypeError, "decision.placement must be a sequence, not NoneType"),
        ((NodePods("a", 6),), StaleDecisionError, "a node has no room"),
    ],
)
def test_a_decision_made_by_hand_takes_what_its_request_says_or_nothing(placement, error, says):
    network = two_nodes()
    before = network.to_bytes()
    decision = TopologyDecision(TopologyRequest("train", 6), "bind", placement)
    for commit in (network.commit, lambda item: network.commit_many([item])):
        with pytest.raises(error, match=says):
            commit(decision)
        assert network.to_bytes() == before
    network.check()


def test_a_decision_made_by_hand_has_a_request_and_whole_numbers_of_any_kind():
    network = two_nodes()
    with pytest.raises(TypeError, match=r"decision\.request must be a TopologyRequest, not str"):
        network.commit(TopologyDecision("train", "bind", (NodePods("a", 1),)))
    request = TopologyRequest("train", 6)
    network.commit(
        TopologyDecision(request, "bind", [NodePods("a", np.int32(4)), NodePods("b", 2)])
    )
    assert NetworkTopology.from_bytes(network.to_bytes()).to_bytes() == network.to_bytes()
    assert network.slots() == {"a": 0, "b": 2}


def test_a_multiple_holds_in_the_domain_that_holds_all_and_in_those_inside_it():
    network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 2}"} for i in range(4)})
    network.set_slots([4] * 4)
    for pods, layer in ((1, "node"), (3, "node"), (5, None), (6, "rack"), (7, None), (12, "")):
        decision = network.schedule(TopologyRequest("g", pods, multiple={"rack": 2}))
        assert (decision.layer if decision.outcome == "bind" else None) == layer
        decision.verify(network)


# --- nodes that come and go


def test_a_node_comes_as_the_last_of_its_domain_and_gangs_go_there():
    network = small()
    network.commit(network.schedule(TopologyRequest("first", 8)))
    before = {node: network.free(node) for node in network.nodes}
    where = network.placement("first")
    network.add_node("new", {"spine": "s1", "rack": "r3"}, {"slots": 3, "disk": 1})
    assert network.nodes == (*(f"n{i}" for i in range(8)), "new")
    assert network.domain("new") == ("s1", "r3", "new")
    assert network.placement("first") == where
    assert {node: network.free(node)["slots"] for node in before} == {
        node: free["slots"] for node, free in before.items()
    }
    assert network.free("new") == {"disk": 1, "slots": 3} and network.free("n0")["disk"] == 0
    second = network.schedule(TopologyRequest("second", 3))
    assert second.placement == (NodePods("new", 3),)
    network.commit(second)
    network.check()
    network.add_node("lone", {})
    assert network.domain("lone")[-1] == "lone" and network.free("lone")["slots"] == 0


def test_removing_a_node_releases_the_owners_with_pods_there():
    network = small()
    for name, pods in (("a", 3), ("b", 4), ("c", 2)):
        network.commit(network.schedule(TopologyRequest(name, pods)))
    on = {name: {part.node for part in network.placement(name)} for name in network.owners}
    gone = next(iter(on["b"] - on["a"] - on["c"]))
    where = {name: network.placement(name) for name in ("a", "c")}
    assert network.remove_node(gone) == ("b",)
    assert gone not in network.nodes and network.owners == ("a", "c")
    assert {name: network.placement(name) for name in ("a", "c")} == where
    network.check()
    total = dict(zip((f"n{i}" for i in range(8)), [2, 1, 2, 2, 2, 2, 0, 2], strict=True))
    for item in (*where["a"], *where["c"]):
        total[item.node] -= item.pods
    del total[gone]
    assert {node: network.free(node)["slots"] for node in network.nodes} == total
    with pytest.raises(KeyError):
        network.placement("b")


def test_a_node_that_comes_and_goes_leaves_no_trace():
    network = small()
    network.set_health("n2", False)
    network.commit(network.schedule(TopologyRequest("a", 4)))
    before = network.to_bytes()
    network.add_node("new", {"spine": "s0"}, {"slots": 9})
    assert network.unhealthy == ("n2",)
    assert NetworkTopology.from_bytes(network.to_bytes()).nodes == network.nodes
    assert network.remove_node("new") == ()
    assert network.to_bytes() == before


def test_what_cannot_be_added_or_removed_changes_nothing():
    network = small()
    before = network.to_bytes()
    for call, error, says in (
        (lambda: network.add_node("n1", {}), ValueError, "node='n1': is there already"),
        (lambda: network.add_node("", {}), ValueError, "node must not be empty"),
        (lambda: network.add_node(3, {}), TypeError, "node must be a string"),
        (lambda: network.add_node("x", {"zone": "z"}), ValueError, "labels: 'zone' is no layer"),
        (lambda: network.add_node("x", ["rack"]), TypeError, "labels must be a mapping"),
        (lambda: network.add_node("x", {}, {"gpu": -1}), ValueError, "free"),
        (lambda: network.add_node("x", {}, {"gpu": 0.0005}), ValueError, "free"),
        (lambda: network.remove_node("x"), KeyError, "there is no node 'x'"),
        (lambda: network.remove_node(None), KeyError, "there is no node None"),
    ):
        with pytest.raises(error, match=says):
            call()
        assert network.to_bytes() == before


@pytest.mark.parametrize("layers", [[], ["rack"], ["spine", "rack"]])
def test_a_network_may_be_empty_and_becomes_so_again(layers):
    network = NetworkTopology(layers, {})
    request = TopologyRequest("gang", 2, amounts={"gpu": 4}, must=layers[-1] if layers else "")
    both = TopologyRequest("led", 1, amounts={"gpu": 1}, role=TopologyRole("leader", 1, {"gpu": 1}))
    for item in (request, both):
        assert network.schedule(item).outcome == network.schedule(item, nodes=[]).outcome == "wait"
        assert network.explain(item).changes == ()
    assert (
        network.nodes == network.resources == network.domains("node") == ()
        and network.slots() == {}
    )
    assert NetworkTopology.from_bytes(network.to_bytes()).to_bytes() == network.to_bytes()
    empty = network.to_bytes()
    with network.trial():
        network.add_node("n0", dict.fromkeys(layers, "x"), {"gpu": 8})
        network.commit(network.schedule(request))
        assert network.remove_node("n0") == ("gang",) and network.nodes == ()
        network.check()
    assert network.to_bytes() == empty
    network.set_slots([])
    assert network.resources == ("slots",)
    network.add_node("n0", {}, {"gpu": 8})
    assert network.schedule(request).outcome == "bind"


def test_a_network_whose_nodes_came_and_went_places_as_one_made_of_them():
    for seed in seeds(20):
        rng = random.Random(seed)
        layers = ["spine", "rack"]

        def label(rng=rng):
            return {"spine": f"s{rng.randrange(2)}", "rack": f"r{rng.randrange(3)}"}

        labels = {f"n{i}": label() for i in range(4)}
        network = NetworkTopology(layers, labels)
        free = dict.fromkeys(labels, 0)
        for step in range(12):
            node = rng.choice(sorted(free))
            if rng.random() < 0.3 and len(free) > 1:
                for owner in network.remove_node(node):
                    assert owner not in network.owners
                labels.pop(node)
            elif rng.random() < 0.5:
                labels[f"m{step}"] = label()
                network.add_node(f"m{step}", labels[f"m{step}"], {"slots": rng.randrange(4)})
            else:
                network.set_slots([rng.randrange(5)], [node])
            decision = network.schedule(TopologyRequest(f"g{step}", rng.randrange(1, 6)))
            if decision.outcome == "bind":
                network.commit(decision)
            network.check()
            free = {node: network.free(node).get("slots", 0) for node in network.nodes}
        other = NetworkTopology(layers, {node: labels[node] for node in network.nodes})
        other.set_slots([free[node] for node in other.nodes])
        assert other.nodes == network.nodes
        for pods in range(1, 9):
            request = TopologyRequest("probe", pods)
            mine, others = network.schedule(request), other.schedule(request)
            assert (mine.outcome, mine.placement) == (others.outcome, others.placement)
