"""A trace-driven simulator of multi-tenant GPU clusters, built on hivecore's public API.

`simulate` lets jobs run under any `hivecore.scheduler.Scheduler`. A `Workload` is a trace on the
nodes that its tenants own; `replay` runs it through private clusters, quotas and cells, which are
configurations of a scheduler; `summarize` turns the outcome into figures per tenant.
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
