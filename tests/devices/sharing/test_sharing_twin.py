"""Shared cards in the twin against restatements that try everything, with fractions."""

from fractions import Fraction
from itertools import combinations
from math import floor

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.reference.devices.fragmentation import Task, TaskMix, fragmentation
from hivecore.reference.devices.sharing import Pod, SharedNode, best_fit_card, slots_in_order
from hivecore.reference.devices.sharing_policies import POLICIES, choose

MODELS = ("T4", "G2")
models = st.frozensets(st.sampled_from(MODELS), max_size=2)
shares = st.sampled_from([0, 100, 250, 400, 500, 600, 1000, 1200])
pods = st.builds(
    Pod,
    share=shares,
    cards=st.integers(0, 3),
    cpu=st.sampled_from([0, 1000, 3000, 8000]),
    memory=st.integers(0, 4),
    models=models,
)
tasks = st.builds(
    Task, shares, st.integers(0, 3), st.sampled_from([0, 1000, 4000, 9000]), models
).filter(lambda task: (task.share > 0) == (task.cards > 0))
mixes = st.dictionaries(tasks, st.integers(1, 20), min_size=1, max_size=5).map(TaskMix)


@st.composite
def nodes(draw):
    sizes = draw(st.lists(st.sampled_from([1000, 1000, 1500]), max_size=4))
    node = SharedNode(
        sizes,
        cpu=draw(st.sampled_from([4000, 8000, 16000])),
        memory=draw(st.integers(2, 12)),
        model=draw(st.sampled_from(MODELS)),
        unhealthy=draw(st.sets(st.sampled_from(range(len(sizes))), max_size=1)) if sizes else (),
    )
    for number in range(draw(st.integers(0, 4))):
        pod = draw(pods)
        cards = [i for i, left in enumerate(node.free()) if left >= pod.share][: pod.cards]
        if node.fits(pod):
            node.charge(str(number), pod, cards if pod.needs_cards else ())
    return node


clusters = st.lists(nodes(), min_size=1, max_size=4)


def fragmentation_by_cards(free, cpu, model, mix):
    """The other way round: each card of each class is a fragment, or not."""
    total = 0
    for task, weight in mix.items():
        able = [i for i, left in enumerate(free) if left >= task.share]
        starts = (
            task.cards > 0
            and len(able) >= task.cards
            and task.cpu <= cpu
            and (task.models == frozenset() or {model} & task.models == {model})
        )
        for card, left in enumerate(free):
            if not (starts and card in able):
                total += weight * left
    return total


@examples(300)
@given(st.lists(st.integers(0, 1500), max_size=5), st.integers(0, 9000), mixes)
def test_fragmentation_is_the_sum_over_classes_and_cards(free, cpu, mix):
    for model in MODELS:
        expected = fragmentation_by_cards(free, cpu, model, mix)
        assert fragmentation(free, cpu, model, mix) == expected
        assert expected <= mix.total() * sum(free)


@examples(300)
@given(st.lists(st.integers(0, 20), max_size=5), st.integers(1, 9), st.integers(1, 6))
def test_slots_are_those_of_two_pointers(free, share, count):
    left, card, taken = list(free), 0, []
    while card < len(left) and len(taken) < count:
        if left[card] >= share:
            left[card] -= share
            taken.append(card)
        else:
            card += 1
    result = slots_in_order(free, share, count)
    assert result == (tuple(taken) if len(taken) == count else None)


@examples(300)
@given(st.lists(st.integers(0, 20), max_size=6), st.integers(1, 20))
def test_no_card_with_room_is_tighter_than_the_bound_one(free, share):
    card = best_fit_card(free, share)
    room = [left for left in free if left >= share]
    if card is None:
        assert not room
    else:
        assert free[card] == min(room)
        assert card == free.index(min(room))


def all_places(cluster, pod):
    """Every node that serves the pod, with every set of cards that does."""
    for index, node in enumerate(cluster):
        cpu = sum(owner.cpu for owner, _ in node.owners.values())
        memory = sum(owner.memory for owner, _ in node.owners.values())
        if cpu + pod.cpu > node.cpu or memory + pod.memory > node.memory:
            continue
        if not pod.share or not pod.cards:
            yield index, ()
            continue
        if pod.models and node.model not in pod.models:
            continue
        room = []
        for card, size in enumerate(node.sizes):
            held = sum(owner.share for owner, cards in node.owners.values() if card in cards)
            if card not in node.unhealthy and held + pod.share <= size:
                room.append(card)
        yield from ((index, cards) for cards in combinations(room, pod.cards))


def restated_cost(cluster, pod, policy, mix, index, cards):
    """What the place costs, and what is compared of the cards if other cards cost the same."""
    node = cluster[index]
    free = node.free()
    most_cpu = max(1, *(item.cpu for item in cluster))
    most_cards = max(1, *(sum(item.sizes) for item in cluster))
    cpu, idle = Fraction(node.free_cpu, most_cpu), Fraction(sum(free), most_cards)
    tight = sorted((free[card], card) for card in cards)
    if policy == "best-fit":
        return cpu + idle, tight
    if policy == "worst-fit":
        return -cpu - idle, sorted((-free[card], card) for card in cards)
    if policy == "dot-product":
        asked_cpu = Fraction(pod.cpu, most_cpu)
        request = Fraction(pod.share * pod.cards, most_cards)
        return asked_cpu * cpu + request * idle, tight
    if policy == "packing":
        used = {card for _, held in node.owners.values() for card in held}
        if not cards:
            return 0, tight
        if not used:
            return (2, len(node.sizes)), tight
        opened = len(set(cards) - used)
        return ((1, opened) if opened else (0, sum(free[i] for i in cards))), tight
    if policy == "fgd":
        after = [left - pod.share * (card in cards) for card, left in enumerate(free)]
        before = fragmentation_by_cards(free, node.free_cpu, node.model, mix)
        then = fragmentation_by_cards(after, node.free_cpu - pod.cpu, node.model, mix)
        return then - before, cards
    raise KeyError(policy)


def in_steps(cluster, mix, index, growth):
    """How fgd compares nodes: growth in parts of 40 thousandths of a card, then what is idle."""
    node = cluster[index]
    size = node.sizes[0] if node.sizes and node.sizes[0] else 1
    weight = sum(mix.values()) or 1
    idle = Fraction(1000 * sum(node.free()), size)
    return floor(Fraction(growth, weight * size) / Fraction(40, 1000)), floor(idle)


@examples(400)
@given(clusters, pods, mixes)
def test_no_place_is_better_than_the_chosen_one(cluster, pod, mix):
    places = list(all_places(cluster, pod))
    for policy in ("best-fit", "worst-fit", "dot-product", "packing", "fgd"):
        if policy == "fgd" and pod.needs_cards and pod.cards > 1:
            continue  # its cards are weighed one after the other
        result = choose(cluster, pod, policy, mix=mix)
        if not places:
            assert result is None
            continue
        by_node = {}
        for index, cards in places:
            cost, tie = restated_cost(cluster, pod, policy, mix, index, cards)
            # Of one node the cards come first, but for fgd, where they are what costs.
            key = (cost, tie) if policy == "fgd" else (tie, cost)
            by_node[index] = min(by_node.get(index, (key, cards)), (key, cards))
        if policy == "fgd":
            by_node = {
                index: ((in_steps(cluster, mix, index, key[0]), key[1]), cards)
                for index, (key, cards) in by_node.items()
            }
        costs = {
            index: (key[0] if policy == "fgd" else key[1]) for index, (key, _) in by_node.items()
        }
        best = min(costs, key=lambda index: (costs[index], index))
        assert tuple(result) == (best, by_node[best][1])


@examples(200)
@given(clusters, pods, mixes, st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_every_policy_places_a_pod_if_and_only_if_it_fits_somewhere(
    cluster, pod, mix, seed, number
):
    places = set(all_places(cluster, pod))
    for policy in POLICIES:
        result = choose(cluster, pod, policy, mix=mix, seed=seed, number=number)
        assert (result is None) == (not places)
        assert result is None or tuple(result) in places


@examples(300)
@given(clusters, pods.filter(lambda pod: pod.cards > 1 and 0 < pod.share < 600), mixes)
def test_a_pod_with_several_cards_fragments_no_more_than_its_cards_one_by_one(cluster, pod, mix):
    result = choose(cluster, pod, "fgd", mix=mix)
    if result is None or not result.cards:
        return
    node = cluster[result.node]
    free, cpu = node.free(), node.free_cpu - pod.cpu
    room = [card for card, left in enumerate(free) if left >= pod.share]
    taken = []
    for _ in range(pod.cards):
        costs = []
        for card in (item for item in room if item not in taken):
            after = list(free)
            after[card] -= pod.share
            costs.append((fragmentation_by_cards(after, cpu, node.model, mix), card))
        card = min(costs)[1]
        taken.append(card)
        free[card] -= pod.share
    assert result.cards == tuple(sorted(taken))


@examples(200)
@given(nodes(), st.lists(st.tuples(pods, st.booleans()), max_size=8))
def test_what_is_used_is_what_the_owners_hold(node, steps):
    for number, (pod, leaves) in enumerate(steps):
        if node.fits(pod):
            room = [card for card, left in enumerate(node.free()) if left >= pod.share]
            node.charge(f"step-{number}", pod, room[: pod.cards] if pod.needs_cards else ())
        if leaves and node.owners:
            node.refund(next(iter(node.owners)))
        held = [
            sum(pod.share for pod, cards in node.owners.values() if card in cards)
            for card in range(len(node.sizes))
        ]
        assert node.used == held
        assert node.used_cpu == sum(pod.cpu for pod, _ in node.owners.values()) <= node.cpu
        assert all(used <= size for used, size in zip(node.used, node.sizes, strict=True))
