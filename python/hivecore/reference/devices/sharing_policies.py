"""Which node and which cards a pod gets: the policies that the FGD paper compares, and worst fit.

Among the nodes where the pod fits, the one with the lowest cost is taken; equal costs go to the
lowest node, equal cards to the lowest card. All costs are exact integers, or tuples of them, which
are compared from the left.

The definitions are those of the paper's simulator (hkust-adsl/kubernetes-scheduler-simulator at
8f3d6417, pkg/simulator/plugin), with one difference: it rounds every cost to a score from 0 to
100, so that many nodes are equally good, and takes the first of them. Here nothing is rounded but
the growth of fragmentation, to steps of a twenty-fifth of a card (what the simulator's rounding
comes to), and of equal ones the node with the least idle cards is taken. Without steps `fgd` would
follow differences that mean nothing: on the default list of openb at a load of 100 % it allocates
94.4 % of the GPUs with exact growths, 95.2 % with steps; recorded of the simulator is 95.2 %.
Rounding is worth about one percent to dot-product, too, and nothing to the others. Besides,

- best-fit and dot-product measure a node against the largest CPU and the most cards of a node of
  this cluster, where the simulator has the constants of its own cluster (128 CPUs, 8 GPUs);
- packing and clustering say nothing of pods without cards: every node costs them the same;
- `fgd` weighs a pod's several cards one after the other. Cards that are taken as a whole are all
  alike, so this differs from trying all sets of cards for shares alone, which the simulator
  refuses;
- clustering calls a share what takes a part of its cards only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hivecore.reference.caching._splitmix import SplitMix64
from hivecore.reference.devices.fragmentation import TaskMix, fragmentation
from hivecore.reference.devices.sharing import Pod, SharedNode

__all__ = ["POLICIES", "Place", "choose"]

_STEPS = 25  # to a card
_WORD = 2**64


class Place(NamedTuple):
    """A node's number and the numbers of the cards, ascending."""

    node: int
    cards: tuple[int, ...]


class _Case(NamedTuple):
    """What a cost may depend on; `scale` is the largest CPU and the most cards of a node."""

    nodes: Sequence[SharedNode]
    pod: Pod
    mix: TaskMix
    seed: int
    number: int
    scale: tuple[int, int]


_Cost = tuple[int, ...]


def choose(
    nodes: Sequence[SharedNode],
    pod: Pod,
    policy: str,
    *,
    mix: TaskMix | None = None,
    seed: int = 0,
    number: int = 0,
    only: Iterable[int] | None = None,
) -> Place | None:
    """Return where the policy puts the pod, or None if it fits nowhere; nothing changes.

    :param policy: one of `POLICIES`.
    :param mix: which pods come, for "fgd".
    :param seed: of "random"; with `number`, the pod's, it decides what is drawn.
    :param only: numbers of the only nodes to use; ``None``: all.
    """
    largest_cpu = max((node.cpu for node in nodes), default=0)
    largest_cards = max((sum(node.sizes) for node in nodes), default=0)
    scale = max(largest_cpu, 1), max(largest_cards, 1)
    case = _Case(nodes, pod, mix or TaskMix(), seed, number, scale)
    pick_cards, cost_of = POLICIES[policy]
    best: tuple[_Cost, Place] | None = None
    for index in range(len(nodes)) if only is None else only:
        if nodes[index].fits(pod):
            cards = pick_cards(case, index) if pod.needs_cards else ()
            place = Place(index, tuple(sorted(cards)))
            found = (cost_of(case, place), place)
            if best is None or found < best:
                best = found
    return None if best is None else best[1]


# --- cards --------------------------------------------------------------------------------------


def _with_room(case: _Case, index: int) -> list[tuple[int, int]]:
    """What is free of each card that has enough, with the card's number."""
    free = case.nodes[index].free()
    return [(left, card) for card, left in enumerate(free) if left >= case.pod.share]


def _fullest_cards(case: _Case, index: int) -> list[int]:
    return [card for _, card in sorted(_with_room(case, index))[: case.pod.cards]]


def _emptiest_cards(case: _Case, index: int) -> list[int]:
    room = sorted((-left, card) for left, card in _with_room(case, index))
    return [card for _, card in room[: case.pod.cards]]


def _random_cards(case: _Case, index: int) -> list[int]:
    room = [(_draw(case, index, card), card) for _, card in _with_room(case, index)]
    return [card for _, card in sorted(room)[: case.pod.cards]]


def _least_fragmenting_cards(case: _Case, index: int) -> list[int]:
    """One card after the other, each where the node is the least fragmented then."""
    node, pod = case.nodes[index], case.pod
    free, cpu = node.free(), node.free_cpu - pod.cpu
    candidates = [card for _, card in _with_room(case, index)]
    taken: list[int] = []
    for _ in range(pod.cards):
        after = {card: _with_less(free, card, pod.share) for card in candidates}
        costs = ((fragmentation(after[i], cpu, node.model, case.mix), i) for i in candidates)
        _, card = min(costs)
        taken.append(card)
        candidates.remove(card)
        free = after[card]
    return taken


def _with_less(free: Sequence[int], card: int, share: int) -> list[int]:
    return [left - share if i == card else left for i, left in enumerate(free)]


# --- nodes --------------------------------------------------------------------------------------


def _left_over(case: _Case, place: Place) -> int:
    """What is free of CPU and cards, each as a part of the largest node's, with equal weights."""
    node = case.nodes[place.node]
    cpu, cards = case.scale
    return node.free_cpu * cards + sum(node.free()) * cpu


def _best_fit(case: _Case, place: Place) -> _Cost:
    return (_left_over(case, place),)


def _worst_fit(case: _Case, place: Place) -> _Cost:
    return (-_left_over(case, place),)


def _dot_product(case: _Case, place: Place) -> _Cost:
    """The smallest product of what is asked with what is free, unlike Tetris' largest."""
    node, pod = case.nodes[place.node], case.pod
    cpu, cards = case.scale
    share = pod.share * pod.cards
    return (pod.cpu * node.free_cpu * cards**2 + share * sum(node.free()) * cpu**2,)


def _packing(case: _Case, place: Place) -> _Cost:
    """Cards in use before idle ones of nodes in use before idle nodes.

    Within these: the least that is free on the cards; the fewest idle cards; the fewest cards of
    the node.
    """
    if not case.pod.needs_cards:
        return (0,)
    node = case.nodes[place.node]
    free = node.free()
    idle = [not used for used in node.used]
    if all(idle):
        return (2, len(idle))
    opened = sum(idle[card] for card in place.cards)
    if opened:
        return (1, opened)
    return (0, sum(free[card] for card in place.cards))


def _clustering(case: _Case, place: Place) -> _Cost:
    """Nodes with pods of the same kind only, with that kind among others, idle ones, the others.

    Within these the least that is free on all cards.
    """
    if not case.pod.needs_cards:
        return (0,)
    node = case.nodes[place.node]
    kinds = {_kind(node, pod, cards) for pod, cards in node.owners.values() if pod.needs_cards}
    kind = _kind(node, case.pod, place.cards)
    if kind in kinds:
        band = 0 if len(kinds) == 1 else 1
    else:
        band = 3 if kinds else 2
    return (band, sum(node.free()))


def _kind(node: SharedNode, pod: Pod, cards: tuple[int, ...]) -> int:
    """How many whole cards the pod has; 0 if it has shares."""
    return len(cards) if all(node.sizes[card] <= pod.share for card in cards) else 0


def _random(case: _Case, place: Place) -> _Cost:
    return (_draw(case, place.node),)


def _draw(case: _Case, *numbers: int) -> int:
    """64 bits that depend on the seed, the pod's number and these numbers alone."""
    bits = case.seed
    for number in (case.number, *numbers):
        bits = SplitMix64((bits + number) % _WORD).next()
    return bits


def _fgd(case: _Case, place: Place) -> _Cost:
    """By how much the node's fragmentation grows, in steps; then what is free of its cards."""
    node, pod = case.nodes[place.node], case.pod
    before = free = node.free()
    for card in place.cards:
        free = _with_less(free, card, pod.share)
    after = fragmentation(free, node.free_cpu - pod.cpu, node.model, case.mix)
    growth = after - fragmentation(before, node.free_cpu, node.model, case.mix)
    size = max(node.sizes[0], 1) if node.sizes else 1
    idle = sum(before)
    return (
        _STEPS * growth // (max(case.mix.total(), 1) * size),
        idle // size * 1000 + idle % size * 1000 // size,
    )


_PickCards = Callable[[_Case, int], list[int]]
_CostOf = Callable[[_Case, Place], _Cost]

#: By name: how the cards of a node are chosen, and what the choice costs.
POLICIES: dict[str, tuple[_PickCards, _CostOf]] = {
    "best-fit": (_fullest_cards, _best_fit),
    "worst-fit": (_emptiest_cards, _worst_fit),
    "dot-product": (_fullest_cards, _dot_product),
    "packing": (_fullest_cards, _packing),
    "clustering": (_fullest_cards, _clustering),
    "random": (_random_cards, _random),
    "fgd": (_least_fragmenting_cards, _fgd),
}
