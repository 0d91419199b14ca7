"""Policies that choose a pod's node and cards: those of the FGD paper, and worst fit.

Of the nodes where the pod fits, the one with the lowest cost wins; ties go to the lowest node, and
the lowest card. Costs are exact integers or tuples of them, compared from the left.

The definitions are those of the paper's simulator (hkust-adsl/kubernetes-scheduler-simulator at
8f3d6417, pkg/simulator/plugin). That simulator rounds every cost to a score from 0 to 100 and takes
the first of many equal nodes. Here only the growth of fragmentation is rounded, to a twenty-fifth
of a card (the effect of the simulator's rounding), and ties go to the node with the least idle
cards. Without rounding `fgd` follows meaningless differences: on openb's default list at a load of
100 % it allocates 94.4 % of the GPUs, with rounding 95.2 %, like the simulator. Rounding also gains
about one percent for dot-product, and nothing for the others. Besides,

- best-fit and dot-product compare with the largest CPU and card count in this cluster, the
  simulator with constants of its own cluster (128 CPUs, 8 GPUs);
- packing and clustering do not rank nodes for pods without cards;
- `fgd` evaluates a pod's cards one after the other. Whole cards are all alike, so this differs from
  trying all sets of cards only for several shares, which the simulator refuses;
- in clustering, only a part of a card is a share.
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
    """A node's number and its cards' numbers, ascending."""

    node: int
    cards: tuple[int, ...]


class _Case(NamedTuple):
    """What a cost depends on; `scale` is the largest CPU and card count of a node."""

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
    :param mix: the expected pods, for "fgd".
    :param seed: of "random"; together with the pod's `number` it fixes the random choice.
    :param only: the only node numbers to use; ``None`` for all.
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
            option = (cost_of(case, place), place)
            if best is None or option < best:
                best = option
    return None if best is None else best[1]


# --- cards --------------------------------------------------------------------------------------


def _with_room(case: _Case, index: int) -> list[tuple[int, int]]:
    """Return (free share, number) of each card with enough room."""
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
    """Return cards chosen one by one, each causing the least fragmentation."""
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
    """Return free CPU and cards relative to the largest node, equally weighted."""
    node = case.nodes[place.node]
    cpu, cards = case.scale
    return node.free_cpu * cards + sum(node.free()) * cpu


def _best_fit(case: _Case, place: Place) -> _Cost:
    return (_left_over(case, place),)


def _worst_fit(case: _Case, place: Place) -> _Cost:
    return (-_left_over(case, place),)


def _dot_product(case: _Case, place: Place) -> _Cost:
    """The smallest product of requested and free amounts (Tetris takes the largest)."""
    node, pod = case.nodes[place.node], case.pod
    cpu, cards = case.scale
    share = pod.share * pod.cards
    return (pod.cpu * node.free_cpu * cards**2 + share * sum(node.free()) * cpu**2,)


def _packing(case: _Case, place: Place) -> _Cost:
    """Used cards before idle cards of used nodes before idle nodes.

    Ties: least free on the cards; fewest idle cards; fewest cards of the node.
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
    """Nodes with only this kind of pod, then with this kind among others, then idle ones, then
    others.

    Ties: least free on all cards.
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
    """Return the pod's number of whole cards; 0 if it has shares."""
    return len(cards) if all(node.sizes[card] <= pod.share for card in cards) else 0


def _random(case: _Case, place: Place) -> _Cost:
    return (_draw(case, place.node),)


def _draw(case: _Case, *numbers: int) -> int:
    """Return 64 bits that depend only on the seed, the pod's number and these numbers."""
    bits = case.seed
    for number in (case.number, *numbers):
        bits = SplitMix64((bits + number) % _WORD).next()
    return bits


def _fgd(case: _Case, place: Place) -> _Cost:
    """How much the node's fragmentation grows, in steps; then its free cards."""
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

#: name -> (how a node's cards are chosen, cost of the choice)
POLICIES: dict[str, tuple[_PickCards, _CostOf]] = {
    "best-fit": (_fullest_cards, _best_fit),
    "worst-fit": (_emptiest_cards, _worst_fit),
    "dot-product": (_fullest_cards, _dot_product),
    "packing": (_fullest_cards, _packing),
    "clustering": (_fullest_cards, _clustering),
    "random": (_random_cards, _random),
    "fgd": (_least_fragmenting_cards, _fgd),
}
