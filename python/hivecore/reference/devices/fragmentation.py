"""How much of a node's idle GPUs the pods that come cannot use (FGD, USENIX ATC'23, section 3).

Which pods come is a task mix: classes of equal pods, each with its weight. Seen by a class, the
idle part of a node's cards is a fragment

- all of it, if the class cannot run here (too little CPU, a wrong model, fewer cards with room than
  it takes) or needs no card, so that it could leave the node with idle GPUs and no CPU;
- else what is idle on cards that have too little of it for one of its shares.

The fragmentation F of a node is the sum over the classes of weight times fragment, and that of a
cluster the sum over its nodes. Weights are integers, so F is one, too: its unit is that of a card's
share times that of a weight. The paper's F has weights that sum up to 1: divide by the sum.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

__all__ = ["Task", "TaskMix", "can_run", "fragment", "fragmentation"]


class Task(NamedTuple):
    """A class of equal pods.

    :param share: what the pod takes of each of its cards, in the unit of the cards' sizes.
    :param cards: how many it takes, each another one; 0: no card.
    :param cpu: what it takes of the host.
    :param models: of the cards that it can use; empty: of all.
    """

    share: int
    cards: int
    cpu: int
    models: frozenset[str] = frozenset()


class TaskMix(Counter[Task]):
    """The weight of each class: given, or learned as the number of its pods that have come.

    >>> mix = TaskMix({Task(500, 1, 4000): 3})
    >>> mix.see(Task(500, 1, 4000))
    >>> mix.total()
    4
    """

    @classmethod
    def of(cls, pods: Iterable[Any]) -> Self:
        """The classes of all these pods, each as often as it is there.

        :param pods: with `share`, `cards`, `cpu` and `models`.
        """
        mix = cls()
        for pod in pods:
            mix.see(pod)
        return mix

    def see(self, pod: Any) -> None:
        """Another pod has come: its class weighs one more."""
        if pod.share and pod.cards:
            self[Task(pod.share, pod.cards, pod.cpu, pod.models)] += 1
        else:
            self[Task(0, 0, pod.cpu)] += 1


def can_run(task: Task, free: Sequence[int], cpu: int, model: str) -> bool:
    """Whether a pod of the class could start with these free shares of cards and this free CPU."""
    if not task.cards:
        return cpu >= task.cpu
    usable = not task.models or model in task.models
    return usable and cpu >= task.cpu and sum(one >= task.share for one in free) >= task.cards


def fragment(task: Task, free: Sequence[int], cpu: int, model: str) -> int:
    """What the class cannot use of the free shares.

    >>> fragment(Task(500, 1, 4000), [300, 700, 1000], 8000, "T4")
    300
    >>> fragment(Task(1000, 2, 4000), [300, 700, 1000], 8000, "T4")
    2000
    """
    if not task.cards or not can_run(task, free, cpu, model):
        return sum(free)
    return sum(one for one in free if one < task.share)


def fragmentation(free: Sequence[int], cpu: int, model: str, mix: TaskMix) -> int:
    """F of one node: the sum over the classes of weight times fragment."""
    return sum(weight * fragment(task, free, cpu, model) for task, weight in mix.items())
