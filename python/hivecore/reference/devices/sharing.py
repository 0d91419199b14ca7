"""Cards that several pods share, as in gpushare and open-gpu-share.

A card has a size in some unit (bytes or GiB of memory, or 1000 thousandths) and is given in shares.
A pod takes the same share of each of `cards` cards of a node, and something of the host. It fits if
that many cards have the share free each; free parts of several cards are never added up. A pod that
needs no card, or nothing of it, fits wherever the host has room, and holds no card.

The free part of a card is its size minus its owners' shares, at least 0, as an earlier owner may
take more than there is. An unhealthy card keeps its owners and has nothing free.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Pod", "SharedNode", "best_fit_card", "slots_in_order"]


class Pod(NamedTuple):
    """A pod's request on a node.

    :param share: of each card, in the unit of the cards' sizes.
    :param cards: the number of different cards.
    :param cpu: of the host, in thousandths.
    :param memory: of the host.
    :param models: usable card models; empty for all.
    """

    share: int = 0
    cards: int = 1
    cpu: int = 0
    memory: int = 0
    models: frozenset[str] = frozenset()

    @property
    def needs_cards(self) -> bool:
        return self.share > 0 and self.cards > 0


class SharedNode:
    """A node and its owners.

    :param sizes: of its cards, which may differ.
    :param cpu: of the host, in thousandths.
    :param memory: of the host.
    :param model: of its cards.
    :param unhealthy: numbers of cards that take no new owners.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        cpu: int = 0,
        memory: int = 0,
        model: str = "",
        unhealthy: Iterable[int] = (),
    ) -> None:
        self.sizes = list(sizes)
        self.cpu = cpu
        self.memory = memory
        self.model = model
        self.unhealthy = set(unhealthy)
        self.owners: dict[str, tuple[Pod, tuple[int, ...]]] = {}
        self.used = [0] * len(self.sizes)
        self.used_cpu = 0
        self.used_memory = 0

    def free(self) -> list[int]:
        """Return what is free of each card; 0 for an unhealthy card."""
        return [
            0 if card in self.unhealthy else max(size - used, 0)
            for card, (size, used) in enumerate(zip(self.sizes, self.used, strict=True))
        ]

    @property
    def free_cpu(self) -> int:
        return max(self.cpu - self.used_cpu, 0)

    @property
    def free_memory(self) -> int:
        return max(self.memory - self.used_memory, 0)

    def fits(self, pod: Pod) -> bool:
        """Whether the pod fits: gpushare's filter, plus host and model."""
        if pod.cpu > self.free_cpu or pod.memory > self.free_memory:
            return False
        if not pod.needs_cards:
            return True
        if pod.models and self.model not in pod.models:
            return False
        return sum(left >= pod.share for left in self.free()) >= pod.cards

    def charge(self, name: str, pod: Pod, cards: Sequence[int]) -> None:
        """Charge an owner; no effect if it is charged already."""
        if name not in self.owners:
            self.owners[name] = (pod, tuple(cards))
            self._use(pod, tuple(cards), 1)

    def refund(self, name: str) -> None:
        """Refund an owner; no effect if it is unknown."""
        if name in self.owners:
            self._use(*self.owners.pop(name), -1)

    def _use(self, pod: Pod, cards: tuple[int, ...], sign: int) -> None:
        for card in cards:
            self.used[card] += sign * pod.share
        self.used_cpu += sign * pod.cpu
        self.used_memory += sign * pod.memory


def best_fit_card(free: Sequence[int], share: int) -> int | None:
    """Return the card with the least sufficient free share, lowest first (gpushare's bind).

    :param free: of each card.
    :param share: positive.

    The example is from gpushare's article: four cards, a request for 8138 MiB.

    >>> best_fit_card([12207, 8138, 4069, 16276], 8138)
    1
    """
    enough = [(left, card) for card, left in enumerate(free) if left >= share]
    return min(enough)[1] if enough else None


def slots_in_order(free: Sequence[int], share: int, count: int) -> tuple[int, ...] | None:
    """Return open-gpu-share's cards for a pod with several shares, or None if there are too few.

    From card 0 on, each card gives as many shares as it can, so a card may be listed several times.
    A pod with a single share uses `best_fit_card`; one that needs different cards cannot use this.

    :param free: of each card.
    :param share: positive.
    :param count: the number of shares.

    >>> slots_in_order([300, 1000, 500], 400, 3)
    (1, 1, 2)
    """
    slots = [card for card, left in enumerate(free) for _ in range(left // share)]
    return tuple(slots[:count]) if len(slots) >= count else None
