"""The input of a replay: a trace's jobs as requests for cells, and the tenants' nodes.

Nodes have 8 GPUs; their cells are the GPU, the pair, the quad and the node. A job of up to 8 GPUs
asks for a cell, a larger one for whole nodes; other sizes are rounded up. Every policy gets the
same requests. Jobs that could never run are left out for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_float, as_instance, as_int, as_mapping, as_text
from hivecore.traces import Trace

__all__ = [
    "CHAIN",
    "FANOUTS",
    "GPUS_PER_NODE",
    "LEVELS",
    "NODE",
    "Excluded",
    "Workload",
    "own_nodes",
]

CHAIN = "gpu-nodes"
LEVELS = ("gpu", "pair", "quad", "node")
FANOUTS = (2, 2, 2)
NODE = len(LEVELS)
GPUS_PER_NODE = 8
_MOST_NODES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Excluded:
    """Jobs that a replay leaves out, and their work."""

    jobs: int
    gpu_hours: float


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The jobs of a trace as requests for cells.

    :param trace: the jobs; its tenants own nodes, and some may have no job.
    :param nodes: tenant -> nodes of 8 GPUs.
    :param level: int64[jobs], level of the requested cells: 1 GPU, 2 pair, 3 quad, 4 node.
    :param cells: int64[jobs], number of requested cells, above 1 only for nodes.
    :param rounded: number of jobs whose size was rounded up.
    :param unowned: jobs left out because their tenant owns no node.
    :param oversized: jobs left out because they are larger than their tenant.

    See `Workload.of`.
    """

    trace: Trace
    nodes: tuple[int, ...]
    level: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]
    rounded: int
    unowned: Excluded
    oversized: Excluded

    @classmethod
    def of(cls, trace: Trace, nodes: Mapping[str, int]) -> Self:
        """Return the requests of a trace's jobs on a cluster of the tenants' nodes.

        :param trace: any trace.
        :param nodes: tenant -> owned nodes of 8 GPUs, at least 1.
        :raises ValueError: a tenant has no nodes, or no job could run.
        :raises TypeError: an argument has a wrong type.

        Cost: O(jobs).

        >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [3, 20])
        >>> work = Workload.of(trace, {"x": 3})
        >>> work.level.tolist(), work.cells.tolist(), work.held.tolist(), work.rounded
        ([3, 4], [1, 3], [4, 24], 2)
        """
        as_instance(trace, "trace", Trace)
        for name, owned in as_mapping(nodes, "nodes").items():
            as_int(owned, f"nodes[{as_text(name, 'nodes')!r}]", 1, _MOST_NODES)
        names = tuple(sorted(nodes))
        code = {name: position for position, name in enumerate(names)}
        owner = np.array([code.get(name, -1) for name in trace.tenants])[trace.tenant]
        owned_by = np.array([nodes[name] for name in names] + [0])
        cells = -(-trace.gpus // GPUS_PER_NODE)
        unowned = owner < 0
        oversized = ~unowned & (cells > owned_by[owner])
        kept = ~(unowned | oversized)
        if not kept.any():
            raise ValueError("no job of the trace fits into the nodes that its tenant owns")

        gpus = trace.gpus[kept]
        level = np.where(gpus > GPUS_PER_NODE, NODE, np.ceil(np.log2(gpus)).astype(np.int64) + 1)
        return cls(
            trace=Trace(
                tenants=names,
                job_id=trace.job_id[kept],
                tenant=owner[kept].astype(np.int32),
                submit=trace.submit[kept],
                duration=trace.duration[kept],
                gpus=gpus,
                dropped=trace.dropped,
            ),
            nodes=tuple(nodes[name] for name in names),
            level=level,
            cells=cells[kept],
            rounded=int((gpus < cells[kept] << (level - 1)).sum()),
            unowned=_excluded(trace, unowned),
            oversized=_excluded(trace, oversized),
        )

    @property
    def held(self) -> npt.NDArray[np.int64]:
        """int64[jobs], GPUs that each job holds while it runs: its size rounded up."""
        return self.cells << (self.level - 1)

    @property
    def window(self) -> float:
        """Seconds over which averages are taken: until the last submission.

        After that the cluster only drains. If all jobs are submitted at once, until the longest
        ends.
        """
        return float(self.trace.submit[-1] or self.trace.duration.max())


def own_nodes(trace: Trace, oversubscribe: float) -> dict[str, int]:
    """Return how many nodes each tenant owns if its jobs ask for `oversubscribe` times as much.

    :param trace: any trace.
    :param oversubscribe: finite and positive.
    :raises ValueError, TypeError: another factor.

    A tenant owns ceil(GPUs in use / (8 oversubscribe)) nodes, and at least what its largest job
    needs. The GPUs in use are the average if each job started at once: work divided by the time
    from the tenant's first submission to its last completion. Cost: O(jobs).

    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [16, 32])
    >>> own_nodes(trace, 1.0), own_nodes(trace, 2.0)
    ({'x': 6}, {'x': 4})
    """
    as_instance(trace, "trace", Trace)
    if not 0 < as_float(oversubscribe, "oversubscribe") < inf:
        raise ValueError(f"oversubscribe must be finite and positive, not {oversubscribe}")
    nodes = {}
    for code, name in enumerate(trace.tenants):
        own = trace.tenant == code
        submit, duration, gpus = trace.submit[own], trace.duration[own], trace.gpus[own]
        if not len(submit):
            continue
        # A duration may be lost in the rounding of the sum.
        span = max((submit + duration).max() - submit[0], duration.max())
        in_use = float(gpus @ duration) / float(span)
        average = in_use / GPUS_PER_NODE / oversubscribe
        if average > _MOST_NODES:
            own = f"tenant {name!r} would own {average:.2g} nodes"
            raise ValueError(f"oversubscribe={oversubscribe}: {own}, at most {_MOST_NODES}")
        nodes[name] = max(ceil(average), -(-int(gpus.max()) // GPUS_PER_NODE))
    return nodes


def _excluded(trace: Trace, rows: npt.NDArray[np.bool_]) -> Excluded:
    work = float(trace.gpus[rows] @ trace.duration[rows]) / 3600.0
    return Excluded(int(rows.sum()), work)
