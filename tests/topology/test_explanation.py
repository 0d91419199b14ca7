"""What `explain` names: every change is tried, and no cheaper owners would do."""

from itertools import combinations
from random import Random

from profiles import seeds

from hivecore.topology import NetworkTopology, TopologyRequest, TopologyRole

AMOUNTS = ({"gpu": 1}, {"gpu": 2}, {"gpu": 1, "cpu": 2}, {"cpu": 3}, {"gpu": 3, "cpu": 1})


def random_request(rng, name, most, must):
    request = TopologyRequest(name, rng.randint(1, most), must=must, amounts=rng.choice(AMOUNTS))
    if rng.random() < 0.2:
        return request.replace(role=TopologyRole("other", rng.randint(1, 2), rng.choice(AMOUNTS)))
    if rng.random() < 0.2:
        return request.replace(multiple={rng.choice(["rack", "node"]): rng.randint(2, 3)})
    return request


def random_network(rng):
    labels = {
        f"n{i}": {"spine": f"s{rng.randint(0, 1)}", "rack": f"r{rng.randint(0, 2)}"}
        for i in range(rng.randint(2, 6))
    }
    network = NetworkTopology(["spine", "rack"], labels)
    for node in labels:
        network.set_free(node, {"gpu": rng.randint(0, 5), "cpu": rng.randint(0, 8)})
    for number in range(rng.randint(1, 6)):
        request = random_request(rng, f"o{number}", 4, rng.choice(["", "rack", "spine"]))
        decision = network.schedule(request)
        if decision.outcome == "bind":
            network.commit(decision)
    return network


def without(network, owners):
    branch = network.copy()
    for owner in owners:
        branch.release(owner)
    return branch


def pods_of(network, owners):
    return sum(one.pods + one.others for name in owners for one in network.placement(name))


def test_the_owners_that_are_named_are_the_cheapest_ones_that_do():
    named = 0
    for seed in seeds(300):
        rng = Random(seed)
        network = random_network(rng)
        request = random_request(rng, "new", 6, rng.choice(["", "rack", "spine", "node"]))
        before = network.to_bytes()
        explanation = network.explain(request)
        assert network.to_bytes() == before
        assert (explanation.outcome == "bind") == network.fits(request)
        if explanation.outcome == "bind":
            continue
        owners = network.owners
        costs = [
            pods_of(network, some)
            for size in range(1, len(owners) + 1)
            for some in combinations(owners, size)
            if without(network, some).fits(request)
        ]
        released = [one for one in explanation.changes if one.kind == "release"]
        assert [one.cost for one in released] == ([min(costs)] if costs else []), seed
        for change in released:
            assert change.cost == pods_of(network, change.owners)
            assert without(network, change.owners).fits(change.request)
        for change in explanation.changes:
            if change.kind == "relax":
                assert network.fits(change.request)
                for argument in change.relaxed:
                    assert not getattr(change.request, argument)
        named += len(released)
    assert named > 0


def test_of_many_owners_the_cheapest_cover_is_named():
    # Each node has a slot left; three are missing. One owner of three pods is less than two of two.
    sizes = [2] * 8 + [3] * 2
    network = NetworkTopology(["rack"], {f"n{i}": {"rack": "r"} for i in range(10)})
    for number, size in enumerate(sizes):
        nodes = [1 if i == number else 0 for i in range(10)]
        network.set_slots([size * one for one in nodes])
        network.commit(network.schedule(TopologyRequest(f"o{number}", size)))
    network.set_slots([1] * 10)
    (change,) = network.explain(TopologyRequest("g", 13)).changes
    assert (change.kind, change.cost, change.owners) == ("release", 3, ("o8",))
