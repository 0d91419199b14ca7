"""A trace-driven simulator of multi-tenant GPU clusters, built on hivecore's public API.

`simulate` runs jobs under any `hivecore.scheduler.Scheduler`. A `Workload` is a trace on the nodes
that its tenants own; `replay` runs it in private clusters, with quotas and in cells; `summarize`
returns figures per tenant.
"""

from hivecore.sim.metrics import Figures, findings, summarize
from hivecore.sim.replay import BACKFILL, LENDING, POLICIES, Borrowing, Replay, Run, replay
from hivecore.sim.simulate import Outcome, simulate
from hivecore.sim.sweep import Point, sweep
from hivecore.sim.workload import Excluded, Workload, own_nodes

__all__ = [
    "BACKFILL",
    "LENDING",
    "POLICIES",
    "Borrowing",
    "Excluded",
    "Figures",
    "Outcome",
    "Point",
    "Replay",
    "Run",
    "Workload",
    "findings",
    "own_nodes",
    "replay",
    "simulate",
    "summarize",
    "sweep",
]
