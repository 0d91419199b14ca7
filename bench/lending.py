"""The simulator's cells with lending, under each way to weigh evictions."""

from typing import Any

import numpy as np

from hivecore.cells import CellCluster
from hivecore.scheduler import Scheduler
from hivecore.sim import LENDING, Workload, replay, simulate
from hivecore.sim.configurations import configure, jobs_of

_LATER = 1e-6  # seconds, beyond rounding


def lending(work: Workload) -> list[dict[str, Any]]:
    """Return evictions and delays when waiting jobs run on idle cells, for each way."""
    rows = []
    trace = work.trace
    alone = replay(work, []).runs["private"].start
    usual = configure(LENDING, work)
    assert usual.cells is not None
    for evictions in ("packing", "least", "private"):
        scheduler = Scheduler(
            queues=usual.queues.copy(),
            cells=CellCluster(usual.cells.spec, evictions=evictions),
            lending=True,
            immediate=True,
        )
        submit, duration = trace.submit.tolist(), trace.duration.tolist()
        outcome = simulate(scheduler, jobs_of(work, LENDING), submit, duration)
        delay = (outcome.start - trace.submit) / 60.0
        rows.append(
            {
                "evictions": evictions,
                "jobs": trace.jobs,
                "evicted_runs": int(outcome.preemptions.sum()),
                "lost_gpu_hours": float(trace.gpus @ outcome.lost) / 3600.0,
                "useful_gpu_hours": float(trace.gpus @ outcome.lent) / 3600.0,
                "mean_delay_minutes": float(delay.mean()),
                "p99_delay_minutes": float(np.percentile(delay, 99)),
                "mean_delay_alone_minutes": float((alone - trace.submit).mean() / 60.0),
                "later_than_alone": int((outcome.start - alone > _LATER).sum()),
            }
        )
    return rows
