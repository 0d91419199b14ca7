"""Which running jobs to move, so that nodes get free or a job fits."""

from hivecore.scheduler.moves.plan import (
    Fit,
    FreeDomain,
    FreeNodes,
    Goal,
    MoveCost,
    MovePlan,
    plan_moves,
)

__all__ = ["Fit", "FreeDomain", "FreeNodes", "Goal", "MoveCost", "MovePlan", "plan_moves"]
