"""Trials of a network: what happens inside is undone at their end."""

import json

import pytest

from hivecore._sealed import seal
from hivecore.errors import StaleDecisionError
from hivecore.topology import NetworkTopology, TopologyRequest


@pytest.fixture
def network():
    network = NetworkTopology(["rack"], {"n0": {"rack": "r0"}, "n1": {"rack": "r1"}})
    network.set_slots([8, 8])
    return network


def test_a_decision_for_a_node_of_a_trial_is_stale_after_it(network):
    with network.trial():
        network.add_node("n2", {"rack": "r2"}, {"slots": 16})
        decision = network.schedule(TopologyRequest("wish", 16))
    network.add_node("n2", {"rack": "r2"}, {"slots": 16})
    with pytest.raises(StaleDecisionError, match="n2"):
        network.commit(decision)


def test_a_decision_of_before_a_trial_is_as_fresh_after_it(network):
    decision = network.schedule(TopologyRequest("wish", 8))
    with network.trial():
        network.remove_node("n0")
        network.add_node("n0", {"rack": "r0"}, {"slots": 8})
        with pytest.raises(StaleDecisionError):
            network.commit(decision)
    network.commit(decision)
    network.check()


def test_what_a_release_gives_back_beyond_the_most_is_undone(network):
    network.commit(network.schedule(TopologyRequest("full", 8)))
    network.set_free("n0", {"slots": 2**62 - 1})
    with network.trial():
        network.release("full")
        assert network.free("n0") == {"slots": 2**62}
    assert network.free("n0") == {"slots": 2**62 - 1}


def test_an_owner_of_nothing_is_released_in_a_trial(network):
    state = network._plain()
    state["owners"] = {"none": [[("gpu", 1)], [], []], "zero": [[("gpu", 1)], [], [("n0", 0, 0)]]}
    data = seal(*network._SAVED_AS, json.dumps(state).encode())
    restored = NetworkTopology.from_bytes(data)
    before = restored.to_bytes()
    with restored.trial():
        for name in restored.owners:
            restored.release(name)
    assert restored.to_bytes() == before
    restored.check()
