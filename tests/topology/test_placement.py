"""Where gangs go: kernel, twin, all placements, and an integer program."""

from itertools import product
from random import Random

import numpy as np
import pytest
from peers.topology_program import integer_program
from profiles import seeds, times
from topology.oracles import Parts, brute_force, even_objective, objective

from hivecore._topology import TopologyKernel
from hivecore.reference.topology import Wish, build, place
from hivecore.topology import NetworkTopology, TopologyRequest, TopologyRole


def random_labels(rng, layers, nodes, names):
    return sorted([rng.choice(names) for _ in range(layers)] for _ in range(nodes))


def random_wish(rng, layers, nodes, pods):
    wish = Wish(rng.randint(1, pods), rng.randint(0, layers + 1))
    if rng.random() < 0.4:
        wish = wish._replace(narrowest=rng.randint(wish.widest, layers + 1))
    if rng.random() < 0.4:
        steps = {level: rng.choice([1, 2, 2, 3, 4]) for level in range(1, layers + 2)}
        wish = wish._replace(
            multiples={level: step for level, step in steps.items() if rng.random() < 0.4}
        )
    if rng.random() < 0.4:
        wish = wish._replace(existing={node: rng.randint(0, 2) for node in range(nodes)})
    if rng.random() < 0.4:
        wish = wish._replace(cost={node: rng.randint(0, 2) for node in range(nodes)})
    if rng.random() < 0.4:
        levels = rng.sample(range(1, layers + 2), rng.randint(1, layers + 1))
        wish = wish._replace(limits={level: rng.randint(1, pods) for level in levels})
    return wish


def network_of(labels):
    layers = [f"l{level}" for level in range(len(labels[0]))]
    nodes = {f"n{node}": dict(zip(layers, names, strict=True)) for node, names in enumerate(labels)}
    return NetworkTopology(layers, nodes)


def request_of(wish, layers):
    levels = ["", *layers, "node"]
    narrowest = len(levels) - 1 if wish.narrowest is None else wish.narrowest
    return TopologyRequest(
        "gang",
        wish.pods,
        must=levels[wish.widest],
        prefer=levels[narrowest],
        multiple={levels[level]: step for level, step in wish.multiples.items()},
        per_domain={levels[level]: most for level, most in wish.limits.items()},
        existing={f"n{node}": count for node, count in wish.existing.items()},
        cost={f"n{node}": count for node, count in wish.cost.items()},
    )


def random_limits(rng, nodes, pods):
    return [rng.choice([*range(pods + 1), 2**31]) for _ in range(nodes)]


def limited(slots, limits, pods):
    """What slots there are where nodes may get no more pods of so many."""
    return [
        slot if most >= pods else min(slot, most) for slot, most in zip(slots, limits, strict=True)
    ]


def answer(network, wish, most=None, **request):
    """What the kernel says, in the twin's words."""
    if wish.narrowest == 0:  # only the whole network, which has no name of a layer
        wish = wish._replace(narrowest=None)
    decision = network.schedule(request_of(wish, network.layers).replace(**request), most=most)
    decision.verify(network, most=most)
    if decision.outcome == "wait":
        return None
    levels = ["", *network.layers, "node"]
    assert decision.optimal
    pods = [(int(part.node[1:]), part.pods, part.others) for part in decision.placement]
    return levels.index(decision.layer), pods


def random_case(rng, layers, nodes, names, most, pods):
    labels = random_labels(rng, layers, nodes, names)
    slots = [rng.randint(0, most) for _ in labels]
    wish = random_wish(rng, layers, nodes, pods)
    if wish.narrowest == 0:
        wish = wish._replace(narrowest=None)
    return labels, slots, wish


def test_kernel_twin_and_all_placements_agree():
    placed = 0
    for seed in seeds(600):
        rng = Random(seed)
        labels, slots, wish = random_case(rng, rng.randint(0, 3), rng.randint(1, 6), "ab", 4, 8)
        network = network_of(labels)
        network.set_slots(slots, [f"n{node}" for node in range(len(slots))])
        best = brute_force(labels, slots, wish)
        assert place(build(labels), slots, wish) == best, seed
        assert answer(network, wish) == best, seed
        placed += best is not None
        most = random_limits(rng, len(slots), wish.pods)
        best = brute_force(labels, limited(slots, most, wish.pods), wish)
        assert answer(network, wish, most) == best, seed
        network.check()
    assert placed > 0


def test_of_equally_narrow_places_the_one_in_the_fullest_wider_domains_is_taken():
    wider = 0
    for seed in seeds(150):
        rng = Random(seed)
        layers, nodes = rng.randint(1, 3), rng.randint(2, 8)
        labels = random_labels(rng, layers, nodes, "abc")
        network, slots = network_of(labels), [0] * nodes
        for _ in range(4):
            for node in rng.sample(range(nodes), rng.randint(1, nodes)):
                slots[node] = rng.choice([0, 2, 2])
                network.set_slots([slots[node]], [f"n{node}"])
            wish = Wish(rng.choice([1, 2, 2, 4]), rng.randint(0, layers + 1))
            if rng.random() < 0.3:
                wish = wish._replace(narrowest=rng.randint(max(1, wish.widest), layers + 1))
            best = brute_force(labels, slots, wish)
            assert place(build(labels), slots, wish) == best, seed
            assert answer(network, wish) == best, seed
            network.check()
            wider += best is not None and best[1][0][0] > slots.index(max(slots))
    assert wider > 0


def test_kernel_and_twin_agree_in_larger_networks():
    for seed in seeds(40):
        rng = Random(seed)
        layers = rng.randint(1, 4)
        labels, slots, wish = random_case(rng, layers, rng.randint(10, 40), "abc", 9, 60)
        network = network_of(labels)
        network.set_slots(slots, [f"n{node}" for node in range(len(slots))])
        assert answer(network, wish) == place(build(labels), slots, wish), seed
        most = random_limits(rng, len(slots), wish.pods)
        best = place(build(labels), limited(slots, most, wish.pods), wish)
        assert answer(network, wish, most) == best, seed


@pytest.mark.parametrize(
    ("limits", "says"),
    [([1], "limits must have length 3"), ([1, 0, 1], "limits"), ([1, 2**31 + 1, 1], "limits")],
)
def test_the_kernel_names_wrong_limits(limits, says):
    kernel = TopologyKernel([[2], [1, 1]])
    with pytest.raises(ValueError, match=says):
        kernel.place(1, 0, 2, [], None, None, 100, limits)
    assert kernel.place(1, 0, 2, [], None, None, 100, ())[0] == -1


def test_pods_are_as_even_as_can_be_in_a_layer():
    moved = 0
    for seed in seeds(1000):
        rng = Random(seed)
        labels, slots, wish = random_case(rng, rng.randint(1, 2), rng.randint(3, 7), "ab", 3, 9)
        network = network_of(labels)
        network.set_slots(slots, [f"n{node}" for node in range(len(slots))])
        at = rng.randint(1, len(labels[0]) + 1)
        layer = ["", *network.layers, "node"][at]
        parts, result = Parts(labels), answer(network, wish, balance=layer)
        usual = answer(network, wish)
        assert (result is None) == (usual is None), seed
        if result is None:
            continue
        level, pods = result
        assert level == usual[0], seed
        costs = [
            even_objective(parts, slots, wish, level, at, dict(enumerate(counts)))
            for counts in product(*[range(min(slot, wish.pods) + 1) for slot in slots])
            if sum(counts) == wish.pods
        ]
        counts = {node: count for node, count, _ in pods}
        cost = even_objective(parts, slots, wish, level, at, counts)
        assert cost == min(item for item in costs if item is not None), seed
        moved += pods != usual[1]
    assert moved >= times(1000) // 100


def random_roles(rng, layers, nodes, most):
    """A network, a wish of two roles, and what its request has beside."""
    labels = random_labels(rng, layers, nodes, "abc")
    free = [{"gpu": rng.randint(0, most), "cpu": rng.randint(0, 2 * most)} for _ in labels]
    takes = [
        {"gpu": rng.randint(1, 2), "cpu": rng.randint(0, 2)},
        rng.choice([{"cpu": 1}, {"cpu": 3}, {"gpu": 2}, {"gpu": 1, "cpu": 2}]),
    ]
    takes[0] = {resource: amount for resource, amount in takes[0].items() if amount}

    def has_room(node, pods, others):
        return all(
            pods * takes[0].get(item, 0) + others * takes[1].get(item, 0) <= free[node][item]
            for item in ("gpu", "cpu")
        )

    many = range(2 * most + 1)
    rooms = [
        [(pods, others) for pods in many for others in many if has_room(node, pods, others)]
        for node in range(nodes)
    ]
    wish = random_wish(rng, layers, nodes, 2 * most)
    wish = wish._replace(multiples={}, limits={}, others=rng.randint(1, most), rooms=rooms)
    if wish.narrowest == 0:
        wish = wish._replace(narrowest=None)
    network = network_of(labels)
    for node, amounts in enumerate(free):
        network.set_free(f"n{node}", amounts)
    request = {"amounts": takes[0], "role": TopologyRole("leader", wish.others, takes[1])}
    return labels, slots_of(wish), wish, network, request


def slots_of(wish, limits=None):
    """Of pods and of others together, as far as limits leave them."""
    sums = [0] * len(wish.rooms)
    for row, pods in enumerate((wish.pods, wish.others)):
        slots = [max(pair[row] for pair in pairs) for pairs in wish.rooms]
        if limits is not None and limits.ndim == 1:
            slots = limited(slots, limits, pods)
        elif limits is not None:
            both = [[(most, b) for b, most in enumerate(of) if most >= 0] for of in limits.T]
            slots = limited(slots, [max([p[row] for p in of], default=0) for of in both], pods)
        sums = [sum(pair) for pair in zip(sums, slots, strict=True)]
    return sums


def random_limits_of_roles(rng, nodes, wish):
    if rng.random() < 0.5:
        return np.array([rng.randint(0, wish.pods + wish.others + 1) for _ in range(nodes)])
    width = rng.randint(1, wish.others + 2)
    return np.array([[rng.randint(-1, wish.pods + 1) for _ in range(nodes)] for _ in range(width)])


def within(wish, limits):
    """The wish where nodes may get no more than this."""

    def may_get(node, pods, others):
        if limits.ndim == 1:
            return pods + others <= max(limits[node], 0)
        return pods <= max(limits[others:, node], default=-1) or not pods + others

    rooms = [
        [pair for pair in pairs if may_get(node, *pair)] for node, pairs in enumerate(wish.rooms)
    ]
    return wish._replace(rooms=rooms)


def test_with_two_roles_kernel_twin_and_all_placements_agree():
    placed = 0
    for seed in seeds(400):
        rng = Random(seed)
        labels, slots, wish, network, request = random_roles(
            rng, rng.randint(0, 3), rng.randint(1, 4), 3
        )
        best = brute_force(labels, slots, wish)
        assert place(build(labels), slots, wish) == best, seed
        assert answer(network, wish, **request) == best, seed
        placed += best is not None
        most = random_limits_of_roles(rng, len(labels), wish)
        best = brute_force(labels, slots_of(wish, most), within(wish, most))
        assert answer(network, wish, most, **request) == best, seed
        network.check()
    assert placed > 0


def test_with_two_roles_kernel_and_twin_agree_in_larger_networks():
    for seed in seeds(30):
        rng = Random(seed)
        labels, slots, wish, network, request = random_roles(
            rng, rng.randint(1, 4), rng.randint(8, 16), 5
        )
        assert answer(network, wish, **request) == place(build(labels), slots, wish), seed
        most = random_limits_of_roles(rng, len(labels), wish)
        best = place(build(labels), slots_of(wish, most), within(wish, most))
        assert answer(network, wish, most, **request) == best, seed


def test_an_integer_program_finds_nothing_better():
    for seed in seeds(12):
        rng = Random(seed)
        labels, slots, wish = random_case(rng, 2, 24, "abcd", 8, 60)
        network = network_of(labels)
        network.set_slots(slots, [f"n{node}" for node in range(len(slots))])
        result, best = answer(network, wish), integer_program(labels, slots, wish)
        assert (result is None) == (best is None), seed
        if result is not None:
            level, pods = result
            assert level == best[0], seed
            assert (
                objective(Parts(labels), slots, wish, level, {n: k for n, k, _ in pods}) == best[1]
            ), seed


@pytest.mark.parametrize("most", [4, 2**31 - 1])
def test_a_network_that_changes_answers_like_one_that_is_new(most):
    for seed in seeds(10):
        rng = Random(seed)
        labels = random_labels(rng, 2, 20, "abc")
        names = [f"n{node}" for node in range(20)]
        network = network_of(labels)
        slots = [0] * 20
        wishes = [Wish(rng.randint(1, min(3 * most, 2**31))) for _ in range(4)]
        for _ in range(60):
            for node in rng.sample(range(20), rng.randint(1, 4)):
                slots[node] = rng.randint(0, most)
                network.set_slots([slots[node]], [names[node]])
            wish = rng.choice(wishes)
            fresh = network_of(labels)
            fresh.set_slots(slots, names)
            item = network.schedule(request_of(wish, network.layers), work=2**16)
            other = fresh.schedule(request_of(wish, network.layers), work=2**16)
            assert item == other
            item.verify(network)
            network.check()
            if most == 4:
                assert item.outcome == "wait" or item.optimal
