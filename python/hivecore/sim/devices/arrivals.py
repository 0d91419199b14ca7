"""The order and number of arriving pods, which ask for more GPUs than there are.

As in FGD's simulator (USENIX ATC'23, section 6.1): first all pods of the list in random order, then
pods drawn from the list until the requests reach a multiple of the cluster's GPUs. No pod ends. A
list that asks for more by itself is cut off.
"""

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_float, as_int
from hivecore.traces import GpuPods

__all__ = ["arrivals"]

_MOST_LOAD = 1000


def arrivals(pods: GpuPods, capacity_milli: int, load: float, seed: int) -> npt.NDArray[np.int64]:
    """Return the arriving pods, as rows of the list: first all pods in random order, then pods that
    are drawn at random with repetition.

    :param pods: the list.
    :param capacity_milli: thousandths of a GPU in the cluster, at least 1.
    :param load: positive, at most 1000; the most that pods may ask for, divided by the capacity.
        The first pod that would exceed it ends the list, which may be empty.
    :param seed: equal seeds give equal arrivals.
    :raises ValueError: an argument is out of range, or no pod needs a GPU.

    FGD's simulator ends when one GPU of the next pod would be too much, so it may exceed the load
    by a few GPUs. Cost: O(arrivals).

    >>> from hivecore.traces import generate_openb_pods
    >>> pods = generate_openb_pods(100, seed=0)
    >>> rows = arrivals(pods, 100_000, load=1.3, seed=0)
    >>> sorted(rows[:100].tolist()) == list(range(100))
    True
    >>> int(pods.total_milli[rows].sum()) <= 130_000
    True
    """
    capacity = as_int(capacity_milli, "capacity_milli", 1, 2**62)
    wanted = as_float(load, "load")
    if not (np.isfinite(wanted) and wanted > 0):
        raise ValueError(f"load must be finite and positive, not {load}")
    if wanted > _MOST_LOAD:
        raise ValueError(f"load={wanted}: must be at most {_MOST_LOAD}")
    milli = pods.total_milli
    if not milli.any():
        raise ValueError("pods: none of them needs a GPU")
    most = int(wanted * capacity)
    rng = np.random.default_rng(as_int(seed, "seed", 0, 2**63 - 1))
    rows = rng.permutation(len(pods))
    arrived = np.cumsum(milli[rows])
    while arrived[-1] <= most:
        drawn = rng.integers(len(pods), size=len(pods))
        rows = np.concatenate([rows, drawn])
        arrived = np.concatenate([arrived, arrived[-1] + np.cumsum(milli[drawn])])
    return rows[: int(np.searchsorted(arrived, most, side="right"))]
