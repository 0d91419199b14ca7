"""What backfilling gains, and whether it keeps what it promised.

    python bench/bench_backfill.py [--smoke] [--out DIR]

Five clusters of Microsoft ITP, Microsoft's Philly, and generated jobs: each tenant has a cluster of
its own, and jobs come first, first served. Behind a job that cannot start

first come, first served   no job starts
best effort                each job starts that fits
EASY                       a job starts that does not delay the first one (`backfill=1`)
conservative               nor one of the first sixteen (`backfill=16`)

with exact run times; conservative not for ITP, where thousands of jobs wait: each offer looks at
what is promised until then. Waits are until the start. Of jobs with a promise: how many started
later than the first time that was promised, and by how much at most.

The traces are in the folder HIVECORE_TRACES, by default `shared/traces` beside the checkout; those
that are not there are left out.
"""

from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np
from harness import ITP, TRACES, command_line, save, show
from onlooker import Onlooker

from hivecore.queues import TenantQueues
from hivecore.scheduler import Action, Scheduler, Wait
from hivecore.sim import BACKFILL, Workload, own_nodes, simulate
from hivecore.sim.configurations import configure, jobs_of
from hivecore.traces import generate, load, load_virtual_clusters

RULES: dict[str, tuple[str, int]] = {
    "first come, first served": ("fifo", 0),
    "best effort": ("best-effort", 0),
    "EASY": ("best-effort", 1),
    "conservative": ("best-effort", 16),
}
ROUNDING = 1e-3  # seconds


class Promises(Onlooker):
    """A world that only notes the first promise to each job."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.first: dict[str, float] = {}

    def obey(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            if isinstance(action, Wait) and action.job not in self.first:
                promised = self.scheduler.promised(action.job)
                if promised is not None:
                    self.first[action.job] = promised


def run(work: Workload, blocking: str, backfill: int) -> dict[str, Any]:
    scheduler = Scheduler(
        queues=TenantQueues(order="arrival", blocking=blocking),
        cells=configure("private", work).cells,
        immediate=True,
        backfill=backfill,
    )
    submit, duration = work.trace.submit.tolist(), work.trace.duration.tolist()
    jobs = jobs_of(work, BACKFILL)
    world, begin = Promises(scheduler), process_time()
    start = simulate(scheduler, jobs, submit, duration, world=world).start
    seconds = process_time() - begin
    waits = (start - work.trace.submit) / 60
    late = [float(start[int(name)]) - promised for name, promised in world.first.items()]
    return {
        "mean": float(waits.mean()),
        "p99": float(np.percentile(waits, 99)),
        "promised": len(late),
        "broken": sum(excess > ROUNDING for excess in late),
        "later": max(0.0, *late) / 60 if late else 0.0,
        "seconds": seconds,
    }


def measure(name: str, work: Workload) -> list[dict[str, Any]]:
    rows = []
    for rule, (blocking, backfill) in RULES.items():
        if name == "ITP" and backfill > 1:
            continue
        row = {"trace": name, "jobs": work.trace.jobs, "rule": rule}
        row |= run(work, blocking, backfill)
        show(row)
        rows.append(row)
    return rows


def main() -> None:
    arguments = command_line(__doc__)
    nodes = {"vision": 10, "search": 14, "speech": 8, "ads": 16, "robots": 6}
    count = 300 if arguments.smoke else 12_000
    works = {"generated": Workload.of(generate(nodes, jobs=count, seed=3, load=1.1), nodes)}
    philly = TRACES / "philly"
    if not arguments.smoke and all(path.is_file() for path in ITP):
        trace = load([str(path) for path in ITP], "itp")
        works["ITP"] = Workload.of(trace, own_nodes(trace, 1.3))
    if not arguments.smoke and philly.is_dir():
        trace = load(philly / "jobs.csv", "philly")
        owned = load_virtual_clusters(philly / "virtual_clusters.csv")
        works["Philly"] = Workload.of(trace, owned)
    rows = [row for name, work in works.items() for row in measure(name, work)]
    save(arguments, "backfill", rows)


if __name__ == "__main__":
    main()
