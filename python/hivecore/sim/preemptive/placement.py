"""Places jobs on the first node that can hold them, or on whole nodes if they are larger."""

from collections.abc import Iterable
from dataclasses import dataclass

from hivecore.scheduler import PlacedPod
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["Placed", "idle_nodes", "nodes_of", "place"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Jobs on the same GPUs.

    :param jobs: ascending.
    :param nodes: of the GPUs: whole nodes, except for the last.
    """

    jobs: tuple[int, ...]
    nodes: tuple[int, ...]


def idle_nodes(nodes: int) -> list[int]:
    """Return the free GPUs of each node of an empty cluster."""
    return [GPUS_PER_NODE] * nodes


def place(free: list[int], gpus: int) -> tuple[int, ...]:
    """Take a job's GPUs, all or none; return their nodes.

    :param free: free GPUs per node.
    :param gpus: up to 8 come from one node; more come from idle nodes, and the rest from another
        node, which is listed last. Lower node numbers come first.

    >>> free = [3, 8, 8]
    >>> place(free, 4), place(free, 10), place(free, 11), free
    ((1,), (2, 0), (), [1, 4, 0])
    """
    if gpus <= GPUS_PER_NODE:
        for node, left in enumerate(free):
            if left >= gpus:
                free[node] = left - gpus
                return (node,)
        return ()
    whole, rest = divmod(gpus, GPUS_PER_NODE)
    taken = [node for node, left in enumerate(free) if left == GPUS_PER_NODE][:whole]
    if len(taken) < whole:
        return ()
    if rest:
        last = [node for node, left in enumerate(free) if left >= rest and node not in taken][:1]
        if not last:
            return ()
        free[last[0]] -= rest
        taken += last
    for node in taken[:whole]:
        free[node] = 0
    return tuple(taken)


def nodes_of(pods: Iterable[PlacedPod]) -> tuple[int, ...]:
    """Return the numbers of the nodes of a job's pods, without repetition, in their order."""
    return tuple(dict.fromkeys([int(pod.node) for pod in pods]))
