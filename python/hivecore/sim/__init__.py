"""A trace-driven simulator of multi-tenant GPU clusters, built on hivecore's public API.

A `Workload` is a trace on the nodes that its tenants own; `replay` runs it through private
clusters, quotas and cells; `summarize` turns the outcome into figures per tenant.
"""

from hivecore.sim.engine import Borrowing, Run
from hivecore.sim.metrics import Figures, findings, summarize
from hivecore.sim.replay import LENDING, POLICIES, Replay, replay
from hivecore.sim.sweep import Point, sweep
from hivecore.sim.workload import Excluded, Workload, own_nodes

__all__ = [
    "LENDING",
    "POLICIES",
    "Borrowing",
    "Excluded",
    "Figures",
    "Point",
    "Replay",
    "Run",
    "Workload",
    "findings",
    "own_nodes",
    "replay",
    "summarize",
    "sweep",
]
