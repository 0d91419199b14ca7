"""Gangs with a role beside their pods: what is refused, taken, proved and saved."""

import pytest

from hivecore.errors import CertificateError, StaleDecisionError
from hivecore.topology import NetworkTopology, NodePods, TopologyRequest, TopologyRole

LEADER = TopologyRole("leader", 1, {"cpu": 40})


def small():
    labels = {f"n{i}": {"rack": f"r{i // 2}"} for i in range(6)}
    network = NetworkTopology(["rack"], labels)
    for i, (gpus, cpus) in enumerate(zip([8, 4, 8, 8, 2, 8], [64, 8, 40, 64, 64, 8], strict=True)):
        network.set_free(f"n{i}", {"gpu": gpus, "cpu": cpus})
    return network


def led(pods, name="led", role=LEADER, **wishes):
    return TopologyRequest(name, pods, amounts={"gpu": 4, "cpu": 8}, role=role, **wishes)


def test_what_both_roles_take_is_given_back():
    network = small()
    before = {node: network.free(node) for node in network.nodes}
    decision = network.schedule(led(3))
    network.commit(decision)
    assert network.free("n0") == {"cpu": 64 - 2 * 8 - 40, "gpu": 0}
    assert network.placement("led") == decision.placement
    network.check()
    assert NetworkTopology.from_bytes(network.to_bytes()).placement("led") == decision.placement
    network.release("led")
    assert {node: network.free(node) for node in network.nodes} == before
    network.check()


def test_a_decision_on_two_roles_can_be_stale():
    network = small()
    decision = network.schedule(led(3))
    network.set_free("n0", {"cpu": 55})  # 16 and 40 are needed
    with pytest.raises(StaleDecisionError):
        network.commit(decision)
    assert network.owners == ()


def test_a_gang_whose_pairs_are_too_many_for_a_search_goes_to_one_node_or_says_so():
    network = NetworkTopology(["rack"], {f"n{i}": {"rack": "r"} for i in range(3)})
    network.set_slots([2**20, 2**22, 2**20])
    role = TopologyRole("other", 2**20, {"slots": 2})
    decision = network.schedule(TopologyRequest("g", 2**20, role=role))
    assert decision.placement == (NodePods("n1", 2**20, 2**20),)
    decision.verify(network)
    network.set_slots([2**22 - 1] * 3)  # 3 * 2**20 are needed, and are here
    assert network.schedule(TopologyRequest("g", 2**21, role=role)).refusal.code == "work"
    largest = TopologyRole("other", 2**31, {"slots": 2**62})
    assert not network.fits(TopologyRequest("g", 2**31, amounts={"slots": 2**62}, role=largest))


@pytest.mark.parametrize(
    ("request_", "code", "says"),
    [
        (led(99), "slots", "99 pods need as many slots: the network has 9 slots"),
        (
            led(3, must="node"),
            "layer",
            "3 pods need one node: n0 has 2, n2 has 2, n3 has 2, 3 others",
        ),
        (
            led(1, role=TopologyRole("leader", 2, {"cpu": 40}), must="node"),
            "layer",
            "2 pods of role 'leader' need one node: n0 has 1",
        ),
        (led(2, must="node", role=TopologyRole("leader", 1, {"cpu": 48})), "role", "no node has"),
        (
            led(9),
            "role",
            "the network has not room for 9 pods and 1 of role 'leader' together",
        ),
    ],
)
def test_a_refusal_tells_which_role_has_no_room(request_, code, says):
    network = small()
    network.set_free("n0", {"cpu": 55, "gpu": 8})
    network.set_free("n3", {"cpu": 55, "gpu": 8})
    network.set_free("n4", {"cpu": 40, "gpu": 4})
    refusal = network.schedule(request_).refusal
    assert (refusal.code, says in refusal.reason) == (code, True), refusal


def test_a_refusal_counts_domains_of_one_name_apart():
    labels = {"a": {"spine": "s0", "rack": "r"}, "b": {"spine": "s1", "rack": "r"}}
    network = NetworkTopology(["spine", "rack"], labels)
    network.set_slots([3, 2])
    refusal = network.schedule(TopologyRequest("g", 4, must="rack")).refusal
    assert (refusal.code, refusal.reason) == ("layer", "4 pods need one rack: r has 3, r has 2")


def test_the_end_of_an_owner_of_two_roles_is_proposed():
    network = small()
    network.commit(network.schedule(led(6)))
    change = network.explain(led(6, name="next")).changes[0]
    assert (change.kind, change.owners, change.cost) == ("release", ("led",), 7)
    network.release("led")
    assert network.fits(led(6, name="next"))


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        ((NodePods("n0", 2, 0), NodePods("n1", 1, 0)), "0 others placed, not 1"),
        ((NodePods("n0", 1, 0), NodePods("n1", 2, 1)), "node 'n1' has no room for 3 pods"),
        ((NodePods("n0", 2, 0), NodePods("n2", 1, 1)), "node 'n2' has no room for 2 pods"),
        ((NodePods("n0", 2, 1), NodePods("n1", 1, 0), NodePods("n2", 0, 0)), "has 0 and 0 pods"),
        ((NodePods("n0", 2, 2), NodePods("n1", 1, -1)), "'n0' has no room"),
    ],
)
def test_the_proof_looks_at_both_roles(placement, says):
    network = small()
    decision = network.schedule(led(3)).replace(placement=placement)
    with pytest.raises(CertificateError, match=says):
        decision.verify(network)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: led(1, role="leader"), TypeError, "role must be a TopologyRole"),
        (lambda: led(1, multiple={"rack": 2}), ValueError, "role: .* multiple"),
        (lambda: led(1, per_domain={"rack": 2}), ValueError, "role: .* per_domain"),
        (lambda: led(1, balance="rack"), ValueError, "role: .* balance"),
        (lambda: TopologyRole("", 1, {"cpu": 1}), ValueError, "name"),
        (lambda: TopologyRole("leader", 0, {"cpu": 1}), ValueError, "pods"),
        (lambda: TopologyRole("leader", 1, {}), ValueError, "amounts"),
        (lambda: TopologyRole("leader", 1, {"cpu": 0.0005}), ValueError, r"amounts\['cpu'\]"),
    ],
)
def test_wrong_roles_are_named(call, error, says):
    with pytest.raises(error, match=says):
        call()
