"""What a run held, waited for and completed over time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hivecore.sim.demo.ledger import Floats, Indices
from hivecore.sim.demo.run import Demo
from hivecore.sim.figures import fragmentation
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["DemoSeries", "demo_series"]


@dataclass(frozen=True, slots=True, eq=False)
class DemoSeries:
    """A configuration over time; tenants are in the order of the trace.

    :param instants: float64[instants], seconds, from 0 to the last submission.
    :param held: float64[tenants, instants], GPUs on which each tenant's jobs run.
    :param waiting: float64[tenants, instants], GPUs that each tenant's waiting jobs ask for.
    :param useful: float64[instants], GPUs that would do the same work at full speed, without work
        that is lost later.
    :param used: int64[nodes, instants], GPUs in use on each node.
    """

    instants: Floats
    held: Floats
    waiting: Floats
    useful: Floats
    used: Indices

    @property
    def free(self) -> Indices:
        """int64[instants], free GPUs."""
        return np.asarray((GPUS_PER_NODE - self.used).sum(axis=0))

    @property
    def stranded(self) -> Indices:
        """int64[instants], free GPUs on partly used nodes."""
        return np.asarray(np.where(self.used > 0, GPUS_PER_NODE - self.used, 0).sum(axis=0))

    @property
    def fragmentation(self) -> float:
        """The fraction of free GPUs that are stranded, over all instants; 0.0 if
        none is ever free.
        """
        return fragmentation(self.free, self.stranded)


def demo_series(demo: Demo, name: str, instants: int) -> DemoSeries:
    """Return a configuration over time.

    :param demo: outcome of `run_demo`.
    :param name: of a configuration other than "alone".
    :param instants: their number, at least 2.

    Cost: O(runs + pods + (tenants + nodes) instants).
    """
    trace, run = demo.work.trace, demo.runs[name]
    if run.books is None:
        raise ValueError(f"name={name!r}: tenants are alone there")
    times = np.linspace(0.0, float(trace.submit[-1]), instants)
    tenants, books = len(trace.tenants), run.books
    tenant, gpus = trace.tenant.astype(np.int64), trace.gpus.astype(np.float64)
    held = _sums(tenant[books.holder], tenants, books.held, books.gpus, times)
    present = np.stack([trace.submit, run.end], axis=1)
    waiting = _sums(tenant, tenants, present, gpus, times)
    waiting -= _sums(tenant[books.job], tenants, books.runs, gpus[books.job], times)
    final = np.stack([run.start, run.end], axis=1)
    speed = trace.duration / (run.end - run.start)
    useful = _sums(np.zeros_like(tenant), 1, final, gpus * speed, times)[0]
    nodes = sum(demo.work.nodes.values())
    used = _sums(books.node, nodes, books.held, books.gpus, times)
    return DemoSeries(times, held, waiting, useful, np.rint(used).astype(np.int64))


def _sums(
    row: Indices, rows: int, spans: Floats, amount: npt.NDArray[np.generic], times: Floats
) -> Floats:
    """Sum amounts by row and instant; a span includes its start and excludes its end."""
    change = np.zeros((rows, len(times) + 1))
    begin, end = np.searchsorted(times, spans, side="left").T
    np.add.at(change, (row, begin), amount)
    np.add.at(change, (row, end), -amount.astype(np.float64))
    return np.cumsum(change, axis=1)[:, :-1]
