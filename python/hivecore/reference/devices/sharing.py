"""Cards that several pods share: who fits where, and on which cards (gpushare, open-gpu-share).

A card has a size in some unit (bytes or GiB of memory, or 1000 thousandths) and gives shares of it.
A pod takes `cards` cards of one node, the same share of each, and something of the host. It fits if
so many cards have that much free each: never because their sum would do. A pod that asks for no
card, or for nothing of it, fits wherever the host has room and holds no card.

What is free of a card is its size less its owners' shares, at least 0: a card that has shrunk, or
an owner that was there before, can take more than there is. An unhealthy card keeps its owners and
has nothing free.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

__all__ = ["Pod", "SharedNode", "best_fit_card", "slots_in_order"]


class Pod(NamedTuple):
    """What a pod asks of one node.

    :param share: of each card, in the unit of the cards' sizes.
    :param cards: how many, each another one.
    :param cpu: of the host, in thousandths.
    :param memory: of the host.
    :param models: of the cards that it can use; empty: of all.
    """

    share: int = 0
    cards: int = 1
    cpu: int = 0
    memory: int = 0
    models: frozenset[str] = frozenset()

    @classmethod
    def of_containers(cls, shares: Iterable[int]) -> Self:
        """A pod of several containers, which are on one card together: their requests add up."""
        return cls(sum(shares))

    @property
    def needs_cards(self) -> bool:
        return self.share > 0 and self.cards > 0


class SharedNode:
    """One node and its owners.

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
        """What is left of each card, at least 0; of an unhealthy one nothing."""
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
        """gpushare's filter, with the host and the model."""
        if pod.cpu > self.free_cpu or pod.memory > self.free_memory:
            return False
        if not pod.needs_cards:
            return True
        if pod.models and self.model not in pod.models:
            return False
        return sum(left >= pod.share for left in self.free()) >= pod.cards

    def charge(self, name: str, pod: Pod, cards: Sequence[int]) -> None:
        """Charge an owner; one that is charged already stays as it is."""
        if name not in self.owners:
            self.owners[name] = (pod, tuple(cards))
            self._use(pod, tuple(cards), 1)

    def refund(self, name: str) -> None:
        """The end of an owner; an unknown one changes nothing."""
        if name in self.owners:
            self._use(*self.owners.pop(name), -1)

    def set_sizes(self, sizes: Sequence[int]) -> None:
        """As many cards of other sizes, which count at once; owners stay charged."""
        self.sizes = list(sizes)

    def _use(self, pod: Pod, cards: tuple[int, ...], sign: int) -> None:
        for card in cards:
            self.used[card] += sign * pod.share
        self.used_cpu += sign * pod.cpu
        self.used_memory += sign * pod.memory


def best_fit_card(free: Sequence[int], share: int) -> int | None:
    """gpushare's bind: the card with the least free share that is enough; the lowest if equal.

    :param free: of each card.
    :param share: positive.

    The example is that of gpushare's article: four cards, and 8138 MiB are asked for.

    >>> best_fit_card([12207, 8138, 4069, 16276], 8138)
    1
    """
    enough = [(left, card) for card, left in enumerate(free) if left >= share]
    return min(enough)[1] if enough else None


def slots_in_order(free: Sequence[int], share: int, count: int) -> tuple[int, ...] | None:
    """open-gpu-share's cards of a pod with several shares, or None if there are too few.

    From card 0 on, each card gives as many of the shares as it can: one card may be there several
    times. A pod with one share gets `best_fit_card`; one that needs distinct cards cannot use this.

    :param free: of each card.
    :param share: positive.
    :param count: of the shares.

    >>> slots_in_order([300, 1000, 500], 400, 3)
    (1, 1, 2)
    """
    slots = [card for card, left in enumerate(free) for _ in range(left // share)]
    return tuple(slots[:count]) if len(slots) >= count else None
