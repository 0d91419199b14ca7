"""Scores from 0 to 100 of devices and nodes (section 1.10).

For every weighted amount the score is the share that would be free ("least_allocated": spread) or
used ("most_allocated": pack) if the request were served, in whole percent; the mean by weight is
cut off to an integer. Both integer divisions are part of the answer.
"""

from collections.abc import Iterable, Sequence

from hivecore.reference.devices.koordinator.amounts import Amounts
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.node_view import TypeView, View

__all__ = ["WEIGHTS", "node_score", "normalised", "score"]

#: Koordinator's defaults; "core" and the amounts of NPUs have none.
WEIGHTS = {"memory_ratio": 1, "memory": 1, "share": 1}


def score(strategy: str, request: Amounts, total: Amounts, free: Amounts) -> int:
    """The score of a device, or of the sum of many."""
    points = weights = 0
    for name, weight in WEIGHTS.items():
        capacity = total.get(name, 0)
        if not capacity:
            continue
        asked = capacity
        if capacity >= free.get(name, 0):
            asked = capacity - free.get(name, 0) + request.get(name, 0)
        points += weight * _percent(strategy, asked, capacity)
        weights += weight
    return points // weights if weights else 0


def _percent(strategy: str, asked: int, capacity: int) -> int:
    if strategy == "most_allocated":
        return min(asked, capacity) * 100 // capacity
    return max(capacity - asked, 0) * 100 // capacity


def node_score(strategy: str, view: View, demands: Iterable[Demand], quirks: frozenset[str]) -> int:
    """The sum of the types' scores, each of all devices of the type taken together.

    Upstream charges a single device of the request (defect D4), and of GPU memory only the amount
    that was asked, bytes or percent, so that the other one looks free (defect D5). Without the
    latter the other one is filled in for a device of the view's mean size.
    """
    points = 0
    for demand in demands:
        found = view.get(demand.need.type)
        if found is None or not found.total:
            continue
        asked = dict(demand.amounts)
        if "bytes_not_scored" not in quirks and demand.need.type == "gpu":
            _fill_memory(asked, found)
        if "one_instance_scored" not in quirks:
            asked = {name: amount * demand.count for name, amount in asked.items()}
        points += score(strategy, asked, _sum(found.total.values()), _sum(found.free.values()))
    return points


def _sum(many: Iterable[Amounts]) -> Amounts:
    sums: Amounts = {}
    for amounts in many:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def _fill_memory(asked: Amounts, found: TypeView) -> None:
    sizes = [total["memory"] for total in found.total.values() if total.get("memory")]
    if not sizes:
        return
    if "memory_ratio" in asked:
        asked["memory"] = asked["memory_ratio"] * sum(sizes) // (100 * len(sizes))
    else:
        asked["memory_ratio"] = asked.get("memory", 0) * 100 * len(sizes) // sum(sizes)


def normalised(scores: Sequence[int]) -> list[int]:
    """The nodes' scores so that the best has 100; all 0 stay as they are."""
    best = max(scores, default=0)
    return [100 * one // best for one in scores] if best else list(scores)
