"""The simulator's cells with lending, and what evicting as little as possible changes there."""

from typing import Any

import numpy as np

from hivecore.sim import Workload
from hivecore.sim.engine import run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells

_LATER = 1e-6  # seconds, beyond rounding


class LeastEvictions(Cells):
    """Every job would rather open a node than evict somebody."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        self._groups = [group.replace(evictions="least") for group in self._groups]


def lending(work: Workload) -> list[dict[str, Any]]:
    """Evictions and delays when waiting jobs run on idle cells, per way to weigh evictions."""
    never = np.array([])
    rows = []
    for name, policy in {"packing": Cells, "least evictions": LeastEvictions}.items():
        alone = run(work, policy(work), never).start  # each tenant as in a cluster of its own
        outcome = run_opportunistic(work, policy(work), never)
        delay = (outcome.start - work.trace.submit) / 60.0
        borrowing = outcome.borrowing
        assert borrowing is not None
        rows.append(
            {
                "evictions": name,
                "jobs": work.trace.jobs,
                "evicted_runs": borrowing.preemptions,
                "lost_gpu_hours": borrowing.lost_gpu_hours,
                "useful_gpu_hours": borrowing.gpu_hours,
                "mean_delay_minutes": float(delay.mean()),
                "p99_delay_minutes": float(np.percentile(delay, 99)),
                "mean_delay_alone_minutes": float((alone - work.trace.submit).mean() / 60.0),
                "later_than_alone": int((outcome.start - alone > _LATER).sum()),
            }
        )
    return rows
