"""How much of a node's idle GPUs expected pods cannot use (FGD, USENIX ATC'23, section 3).

Expected pods are a task mix: classes of equal pods with weights. For a class, the fragment of a
node's idle GPU capacity is

- all of it, if the class cannot run here (too little CPU, wrong model, too few cards with room), or
  needs no card and so could use up the CPU;
- otherwise, what is idle on cards that have too little for one of its shares.

A node's fragmentation F is the sum over classes of weight times fragment; a cluster's is the sum
over nodes. Weights are integers, so F is an integer in units of share times weight. The paper's
weights sum to 1: divide by the sum.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

__all__ = ["Task", "TaskMix", "can_run", "fragment", "fragmentation"]


class Task(NamedTuple):
    """A class of equal pods.

    :param share: what the pod takes of each card, in the unit of the cards' sizes.
    :param cards: the number of different cards.
    :param cpu: what it takes of the host.
    :param models: usable card models; empty for all.
    """

    share: int
    cards: int
    cpu: int
    models: frozenset[str] = frozenset()


class TaskMix(Counter[Task]):
    """The weight of each class: given, or the number of its pods seen so far.

    >>> mix = TaskMix({Task(500, 1, 4000): 3})
    >>> mix.see(Task(500, 1, 4000))
    >>> mix.total()
    4
    """

    @classmethod
    def of(cls, pods: Iterable[Any]) -> Self:
        """Count the classes of these pods.

        :param pods: with `share`, `cards`, `cpu` and `models`.
        """
        mix = cls()
        for pod in pods:
            mix.see(pod)
        return mix

    def see(self, pod: Any) -> None:
        """Count another pod."""
        if pod.share and pod.cards:
            self[Task(pod.share, pod.cards, pod.cpu, pod.models)] += 1
        else:
            self[Task(0, 0, pod.cpu)] += 1


def can_run(task: Task, free: Sequence[int], cpu: int, model: str) -> bool:
    """Whether a pod of the class could start on a node.

    :param free: the free share of each GPU.
    """
    if not task.cards:
        return cpu >= task.cpu
    usable = not task.models or model in task.models
    return usable and cpu >= task.cpu and sum(share >= task.share for share in free) >= task.cards


def fragment(task: Task, free: Sequence[int], cpu: int, model: str) -> int:
    """Return what the class cannot use of the free shares.

    >>> fragment(Task(500, 1, 4000), [300, 700, 1000], 8000, "T4")
    300
    >>> fragment(Task(1000, 2, 4000), [300, 700, 1000], 8000, "T4")
    2000
    """
    if not task.cards or not can_run(task, free, cpu, model):
        return sum(free)
    return sum(share for share in free if share < task.share)


def fragmentation(free: Sequence[int], cpu: int, model: str, mix: TaskMix) -> int:
    """Return F of a node."""
    return sum(weight * fragment(task, free, cpu, model) for task, weight in mix.items())
