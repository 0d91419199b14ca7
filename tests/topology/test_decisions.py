"""Decisions are verified, committed and saved; forged ones change nothing."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from profiles import seeds

from hivecore.errors import CertificateError, StaleDecisionError
from hivecore.topology import (
    NetworkTopology,
    NodePods,
    TopologyDecision,
    TopologyRequest,
    TopologyRole,
)

LAYERS = ("spine", "block", "rack")
WHOLE = ({"gpu": 1}, {"gpu": 2}, {"cpu": 1}, {"gpu": 1, "cpu": 2})
RESOURCES = (*WHOLE, {"gpu": 0.3}, {"gpu": Decimal("1.001"), "cpu": 1})
#: numbers and what is none
JUNK = (
    *(-1, 0, 1, 2, 3, 1.5, 1.0, True, False, None, "1", [1], 2**31, 2**31 + 1, 2**63, -(2**70)),
    *(2**200, float("nan"), float("inf"), 1j, np.int64(2), np.float64(2), np.bool_(True)),
    *(np.array([1]), b"1", object()),
)


def random_network(rng):
    layers = LAYERS[: rng.randint(0, 3)]
    labels = {
        f"n{i}": {level: f"{level}{rng.randint(0, 2)}" for level in layers if rng.random() < 0.95}
        for i in range(rng.randint(1, 9))
    }
    network = NetworkTopology(layers, labels)
    for node in network.nodes:
        gpus = rng.choice((0, 0, 0, 0, rng.randint(1, 999))) / 1000
        network.set_free(node, {"gpu": rng.randint(0, 8) + gpus, "cpu": rng.randint(0, 8)})
    if rng.random() < 0.2:
        network.set_health(rng.choice(network.nodes), False)
    return network


def random_request(rng, network, name="g"):
    levels = ("", *network.layers, "node")
    must = rng.randrange(len(levels))
    role = TopologyRole("more", rng.randint(1, 3), rng.choice(RESOURCES))
    multiple = {level: rng.randint(1, 6) for level in levels[1:] if rng.random() < 0.4}
    limits, balance = {}, ""
    if rng.random() < 0.4:
        limits = {level: rng.randint(1, 9) for level in levels[1:] if rng.random() < 0.4}
        balance = rng.choice(levels)
    return TopologyRequest(
        name,
        rng.randint(1, 14),
        per_domain=limits,
        balance=balance,
        must=levels[must],
        prefer=rng.choice(["", *levels[max(must, 1) :]]),
        multiple=multiple,
        amounts=rng.choice(RESOURCES),
        existing={node: rng.randint(0, 2) for node in network.nodes if rng.random() < 0.2},
        cost={node: rng.randint(0, 3) for node in network.nodes if rng.random() < 0.3},
        role=role if not (multiple or limits or balance) and rng.random() < 0.4 else None,
    )


def test_decisions_are_verified_committed_and_saved():
    bound = 0
    for seed in seeds(400):
        rng = Random(seed)
        network = random_network(rng)
        request = random_request(rng, network)
        nodes = rng.sample(network.nodes, rng.randint(0, len(network.nodes)))
        shape = rng.choice([(), (3,)]) if request.role else ()
        counts = Random(seed).choices(range(6), k=3 * len(network.nodes))
        limits = np.resize(counts, (*shape, len(network.nodes)))
        for within, most in product((None, nodes), (None, limits)):
            for work in (2**28, 20, 0):
                decision = network.schedule(request, nodes=within, most=most, work=work)
                decision.verify(network, most=most)
                if decision.outcome == "bind":
                    bound += 1
                    branch = network.copy()
                    branch.commit(decision)
                    branch.check()
                    again = NetworkTopology.from_bytes(branch.to_bytes())
                    assert again.placement("g") == decision.placement
    assert bound


def test_what_is_free_is_counted_exactly_in_fractions_from_any_moment_on():
    for seed in seeds(150):
        rng = Random(seed)
        network = random_network(rng)
        free = {node: parts(network.free(node)) for node in network.nodes}
        taken = {}
        for i in range(12):
            amounts = rng.choice(RESOURCES)
            of = parts(amounts)
            counts = network.slots("node", amounts=amounts)
            healthy = [node for node in network.nodes if node not in network.unhealthy]
            assert counts == {
                node: min(free[node].get(name, 0) // n for name, n in of.items())
                if node in healthy
                else 0
                for node in network.nodes
            }
            decision = network.schedule(TopologyRequest(f"o{i}", 2, amounts=amounts))
            assert (decision.outcome == "bind") == (sum(counts.values()) >= 2)
            if decision.outcome == "bind":
                network.commit(decision)
                taken[f"o{i}"] = of, decision.placement
                change_free(free, *taken[f"o{i}"], -1)
            if taken and rng.random() < 0.4:
                name = rng.choice(sorted(taken))
                network.release(name)
                change_free(free, *taken.pop(name), 1)
            network.check()
            for node in healthy:
                assert parts(network.free(node)) == free[node]
            network = rng.choice((network, NetworkTopology.from_bytes(network.to_bytes())))


def parts(amounts):
    return {name: Fraction(round(amount * 1000), 1000) for name, amount in amounts.items()}


def change_free(free, amounts, placement, sign):
    for part in placement:
        for name, amount in amounts.items():
            free[part.node][name] += sign * part.pods * amount


def commits(network, decision):
    """Whether a decision can be committed now."""
    branch = network.copy()
    try:
        branch.commit(decision)
    except (StaleDecisionError, KeyError) as error:
        return str(error)
    return branch.to_bytes()


def change(rng, network):
    """A change of any kind."""
    node = rng.choice(network.nodes or ("gone",))
    owner = rng.choice([*network.owners, ""])
    name = f"o{rng.randint(0, 5)}"
    labels = {layer: f"{layer}{rng.randint(0, 2)}" for layer in network.layers}
    free = rng.choice(({"gpu": 3}, {"gpu": 0.125}, {"cpu": 2**52}, {"nic": 2**62}, {}))
    several = rng.sample(network.nodes, rng.randint(min(1, len(network.nodes)), len(network.nodes)))
    changes = [
        lambda: network.set_free(node, free),
        lambda: network.set_slots([rng.randint(0, 3) for _ in several], several),
        lambda: network.set_health(node, rng.random() < 0.5),
        lambda: network.add_node(f"n{rng.randint(0, 9)}", labels, free),
        lambda: network.remove_node(node),
        lambda: network.release(owner),
        lambda: network.rename(owner, name),
        lambda: network.commit_many([network.schedule(random_request(rng, network))] * 2),
        lambda: network.schedule_many([random_request(rng, network)] * 2),
        *[lambda: network.commit(network.schedule(random_request(rng, network, name)))] * 4,
    ]
    with suppress(KeyError, ValueError, StaleDecisionError):
        rng.choice(changes)()


def live(rng, network, depth, earlier):
    """Changes and trials within trials, which leave nothing behind."""
    for _ in range(rng.randint(1, 6)):
        if depth == 0 or rng.random() < 0.6:
            change(rng, network)
            network.check()
            continue
        before = network.copy()
        with suppress(ZeroDivisionError), network.trial():
            live(rng, network, depth - 1, earlier)
            branch = network.copy()
            assert branch.to_bytes() == network.to_bytes()
            branch.check()
            if rng.random() < 0.3:
                raise ZeroDivisionError
        assert network.to_bytes() == before.to_bytes()
        assert network.nodes == before.nodes
        network.check()
        earlier.append(before.schedule(random_request(rng, before, "new")))
        assert network.schedule(earlier[-1].request) == earlier[-1]
        for decision in earlier:
            if decision.outcome == "bind":
                assert commits(network, decision) == commits(before, decision)


def test_a_trial_leaves_nothing_behind():
    for seed in seeds(150):
        rng = Random(seed)
        live(rng, random_network(rng), 3, [])


def test_no_decision_is_narrower_than_is_preferred():
    network = NetworkTopology(["rack"], {"a": {"rack": "r"}, "b": {"rack": "r"}})
    network.set_slots([2, 2])
    decision = network.schedule(TopologyRequest("g", 2))
    assert decision.layer == "node"
    wider = decision.replace(request=TopologyRequest("g", 2, prefer="rack"))
    for optimal in (True, False):
        with pytest.raises(CertificateError, match="'node' is narrower than 'rack'"):
            wider.replace(optimal=optimal).verify(network)


def test_a_forged_decision_is_refused_and_changes_nothing_or_can_be_saved():
    taken, cases = 0, seeds(400)
    for seed in cases:
        rng = Random(seed)
        network = random_network(rng)
        request = TopologyRequest("g", rng.randint(1, 3), amounts=rng.choice(RESOURCES))
        if rng.random() < 0.3:
            request = request.replace(role=TopologyRole("more", 1, rng.choice(RESOURCES)))
        before = network.to_bytes()
        free = {node: network.free(node) for node in network.nodes}
        placement = tuple(
            NodePods(
                rng.choice([*network.nodes, "nowhere", "", 3, None])
                if rng.random() < 0.3
                else "n0",
                rng.choice(JUNK) if rng.random() < 0.6 else request.pods,
                rng.choice(JUNK) if rng.random() < 0.3 else 0,
            )
            for _ in range(rng.randint(0, 2))
        )
        forged = TopologyDecision(request, "bind", placement)
        try:
            network.commit(forged)
        except (ValueError, TypeError, KeyError, StaleDecisionError) as error:
            assert str(error)
            assert network.to_bytes() == before
            continue
        taken += 1
        network.check()
        again = NetworkTopology.from_bytes(network.to_bytes())
        assert again.placement("g") == network.placement("g")
        assert all(type(part.pods) is int for part in network.placement("g"))
        assert any(network.free(node) != free[node] for node in network.nodes)
        network.release("g")
        assert {node: network.free(node) for node in network.nodes} == free
    assert taken > 0 or len(cases) < 400  # of few cases all may be refused


CALLS = {
    "set_slots": lambda it, n: it.set_slots([n], ["n0"]),
    "set_slots of all": lambda it, n: it.set_slots(n),
    "set_free": lambda it, n: it.set_free("n0", {"gpu": n}),
    "add_node": lambda it, n: it.add_node("new", {}, {"gpu": n}),
    "slots": lambda it, n: it.slots(amounts={"gpu": n}),
    "work": lambda it, n: it.schedule(TopologyRequest("g", 1, amounts={"gpu": 1}), work=n),
    "pods": lambda it, n: it.commit(it.schedule(TopologyRequest("g", n, amounts={"gpu": 1}))),
    "amounts": lambda it, n: it.commit(it.schedule(TopologyRequest("g", 1, amounts={"gpu": n}))),
    "multiple": lambda it, n: it.schedule(TopologyRequest("g", 1, multiple={"node": n})),
    "per_domain": lambda it, n: it.schedule(TopologyRequest("g", 1, per_domain={"node": n})),
    "balance": lambda it, n: it.schedule(TopologyRequest("g", 1, balance=n)),
    "existing": lambda it, n: it.schedule(TopologyRequest("g", 1, existing={"n0": n})),
    "cost": lambda it, n: it.schedule(TopologyRequest("g", 1, cost={"n0": n})),
    "role": lambda it, n: it.schedule(
        TopologyRequest("g", 1, role=TopologyRole("r", n, {"gpu": 1}))
    ),
    "role amounts": lambda it, n: it.schedule(
        TopologyRequest("g", 1, role=TopologyRole("r", 1, {"gpu": n}))
    ),
    "healthy": lambda it, n: it.set_health("n0", n),
    "rename": lambda it, n: it.rename("o", n),
    "release": lambda it, n: it.release(n),
    "remove_node": lambda it, n: it.remove_node(n),
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_is_no_number_is_refused_and_every_state_can_be_saved(call):
    for number in JUNK:
        network = NetworkTopology(["rack"], {"n0": {"rack": "r"}, "n1": {"rack": "r"}})
        for node in network.nodes:
            network.set_free(node, {"gpu": 8})
        network.commit(network.schedule(TopologyRequest("o", 2, amounts={"gpu": 2})))
        before = network.to_bytes()
        try:
            CALLS[call](network, number)
        except (ValueError, TypeError, KeyError) as error:
            assert str(error), number
            assert network.to_bytes() == before, number
        network.check()
        again = NetworkTopology.from_bytes(network.to_bytes())
        assert again.to_bytes() == network.to_bytes(), number


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"placement": (NodePods("x", 2),)}, "there is no node 'x'"),
        ({"placement": (NodePods("a", 2.0),)}, "node 'a' has 2.0 pods, which is no integer"),
        ({"placement": ("a",)}, "the placement has 'a', which is no NodePods"),
        ({"placement": (NodePods(["a"], 2),)}, r"there is no node \['a'\]"),
        ({"placement": (NodePods("a", 2, False),)}, "node 'a' has False pods"),
        ({"layer": "row"}, "there is no layer 'row'"),
        ({"request": TopologyRequest("g", 2, must="row")}, "there is no layer 'row'"),
        ({"request": TopologyRequest("g", 2, multiple={"row": 2})}, "there is no layer 'row'"),
        ({"request": TopologyRequest("g", 2, per_domain={"row": 2})}, "there is no layer 'row'"),
        ({"request": TopologyRequest("g", 2, balance="row")}, "there is no layer 'row'"),
    ],
)
def test_the_proof_names_what_a_network_does_not_have(changes, says):
    network = NetworkTopology(["rack"], {"a": {}, "b": {}})
    network.set_slots([2, 2])
    decision = network.schedule(TopologyRequest("g", 2))
    with pytest.raises(CertificateError, match=says):
        decision.replace(**changes).verify(network)
