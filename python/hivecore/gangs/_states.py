"""Groups of pod states."""

__all__ = ["BOUND", "ENDED", "IDLE", "NOT_PLACED", "PLACED"]

IDLE = frozenset({"pending", "held-up"})
NOT_PLACED = IDLE | {"trying"}
PLACED = frozenset({"waiting", "released"})
BOUND = frozenset({"bound", "running"})
ENDED = frozenset({"succeeded", "failed"})
