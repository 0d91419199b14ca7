"""What `explain` names: every change is tried, and no cheaper owners would do."""

from itertools import combinations
from random import Random

from profiles import seeds

from hivecore.topology import NetworkTopology, TopologyRequest, TopologyRole
from hivecore.topology.releases import Leavers

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
    return sum(part.pods + part.others for name in owners for part in network.placement(name))


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
        released = [item for item in explanation.changes if item.kind == "release"]
        assert [item.cost for item in released] == ([min(costs)] if costs else []), seed
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
        network.set_slots([size * node for node in nodes])
        network.commit(network.schedule(TopologyRequest(f"o{number}", size)))
    network.set_slots([1] * 10)
    (change,) = network.explain(TopologyRequest("g", 13)).changes
    assert (change.kind, change.cost, change.owners) == ("release", 3, ("o8",))


def released(request, pods, gains, enough, adds_up=False, slots=(0, 0)):
    """What is named where these sets of owners are enough, and which sets were tried."""
    tried = []

    def fits_without(_, names):
        tried.append("".join(sorted(names)))
        return any(set(some) <= set(names) for some in enough)

    leavers = Leavers(request, pods, list(slots), gains, adds_up, fits_without)
    return leavers.cheapest(), tried


ONE = TopologyRequest("g", 1)
NINE = "abcdefghi"


def test_no_set_of_owners_is_tried_where_all_together_are_not_enough():
    assert released(ONE, {"x": 1, "y": 1}, {0: {"x": 1, "y": 1}}, []) == (None, ["xy"])
    assert released(ONE, {}, {}, []) == (None, [""])


def test_a_cover_that_is_enough_is_named_before_other_owners_that_cost_as_much():
    # What x and y give back does not add up to a slot, but a pod fits once both have ended.
    pods = {"x": 1, "y": 1, "z": 2}
    gains = {0: {"z": 1}, 1: {"x": 0, "y": 0}}
    assert released(ONE, pods, gains, ["z", "xy"])[0] == (2, ("z",))
    assert released(ONE, pods | {"z": 3}, gains, ["z", "xy"])[0] == (2, ("x", "y"))


def test_a_cover_that_is_enough_is_named_before_other_owners_that_cost_more():
    pods = dict.fromkeys(NINE, 5) | {"a": 2, "x": 2, "y": 2}
    gains = {0: dict.fromkeys(NINE, 0) | {"a": 1}, 1: {"x": 0, "y": 0}}
    assert released(ONE, pods, gains, ["a", "xy"])[0] == (2, ("a",))


def test_all_owners_of_a_domain_are_a_cover_if_they_give_back_just_what_is_missing():
    pods = dict.fromkeys(NINE, 1) | {"z": 10}
    gains = {0: dict.fromkeys(NINE, 1), 1: {"z": 9}}
    request = TopologyRequest("g", 9)
    assert released(request, pods, gains, [NINE, "z"], adds_up=True)[0] == (9, tuple(NINE))


def test_owners_that_give_back_too_little_are_no_cover():
    pods, gains = dict.fromkeys(NINE, 1), {0: dict.fromkeys(NINE, 1)}
    tried = released(TopologyRequest("g", 10), pods, gains, [NINE])[1]
    assert tried[:2] == [NINE, NINE]  # in a cover's place the search for few


def test_of_many_owners_without_a_cover_those_are_named_of_which_all_are_needed():
    pods = dict.fromkeys(NINE, 1) | {"x": 1}
    gains = {0: dict.fromkeys(NINE, 0), 1: {"x": 0}}
    named, tried = released(ONE, pods, gains, ["bd", "ef"])
    assert named == (2, ("b", "d"))
    assert tried.count("x") == 1  # the sets of few owners have been tried, all of them


def test_owners_of_two_domains_are_compared_by_what_multiples_leave_of_their_slots():
    labels = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
    network = NetworkTopology(["rack"], {node: {"rack": rack} for node, rack in labels.items()})
    for owner, slots in (("p", [0, 1, 0, 0]), ("r", [0, 1, 0, 0]), ("t", [0, 0, 2, 1])):
        network.set_slots(slots)
        network.commit(network.schedule(TopologyRequest(owner, sum(slots))))
    network.set_slots([1, 0, 0, 0])
    # Without p rack a has two slots, but on two nodes; without t rack b has two on one.
    (change,) = [
        item
        for item in network.explain(
            TopologyRequest("g", 2, must="rack", multiple={"node": 2})
        ).changes
        if item.kind == "release"
    ]
    assert (change.cost, change.owners) == (2, ("p", "r"))
