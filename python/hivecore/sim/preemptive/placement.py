"""Which nodes a job gets: the first that can hold it, and whole nodes if it is larger than one."""

from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["idle_nodes", "place"]


def idle_nodes(nodes: int) -> list[int]:
    """Return the free GPUs of each node of an empty cluster."""
    return [GPUS_PER_NODE] * nodes


def place(free: list[int], gpus: int) -> bool:
    """Take a job's GPUs, all of them or none; returns whether it got them.

    :param free: free GPUs per node.
    :param gpus: at most 8 come from one node; more come from idle nodes, and what is left over
        from one more node. Always the nodes of the lowest numbers.

    >>> free = [3, 8, 8]
    >>> place(free, 4), place(free, 10), place(free, 11), free
    (True, True, False, [1, 4, 0])
    """
    if gpus <= GPUS_PER_NODE:
        for node, left in enumerate(free):
            if left >= gpus:
                free[node] = left - gpus
                return True
        return False
    whole, rest = divmod(gpus, GPUS_PER_NODE)
    taken = [node for node, left in enumerate(free) if left == GPUS_PER_NODE][:whole]
    if len(taken) < whole:
        return False
    if rest:
        last = [node for node, left in enumerate(free) if left >= rest and node not in taken][:1]
        if not last:
            return False
        free[last[0]] -= rest
    for node in taken:
        free[node] = 0
    return True
