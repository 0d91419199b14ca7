"""Runtimes as Koordinator works them out: when one quota is read, on its path alone."""

from typing import Any

from hivecore.reference.quotas.figures import Figures, Limits, Vector, figures_of
from hivecore.reference.quotas.water_fill import Claim, water_fill

__all__ = ["OriginalRuntimes"]


class OriginalRuntimes:
    """Of a `reference.quotas.QuotaTree`, with the scaled minimums that are left from the reads
    before (section 3 of the specification, and its defect D5).
    """

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.tree.counts_beyond_max = False
        self.scaled: dict[str, Vector] = {}

    def set_quota(self, quota: Any) -> None:
        """It is new, or has other limits: another minimum is no longer scaled."""
        before = self.tree.quotas.get(quota.name)
        self.tree.set_quota(quota)
        after = self.tree.quotas[quota.name]
        if before is None or _without_zeros(before.min) != _without_zeros(after.min):
            self.scaled[quota.name] = dict(after.min)

    def runtime(self, name: str) -> Vector:
        """Which scales the minimums on the path."""
        figures = figures_of(self.tree)
        amounts = figures.totals[self.tree.tree_of(name)]
        for quota in reversed(self.tree.path(name)):
            self._scale(self._siblings(quota), quota, amounts)
            amounts = self._share(self._siblings(quota), quota, amounts, figures)
        return amounts

    def _siblings(self, name: str) -> list[Limits]:
        parent = self.tree.quotas[name].parent
        tree = self.tree.tree_of(name)
        return [self.tree.quotas[one] for one in self.tree.children(parent, tree)]

    def _scale(self, siblings: list[Limits], name: str, amounts: Vector) -> None:
        mine = self.tree.quotas[name]
        if not self.tree.scale_min or not mine.scales:
            return
        scaled = dict(mine.min)
        for d in mine.min:
            there = amounts.get(d, 0)
            fixed = sum(one.min.get(d, 0) for one in siblings if not one.scales)
            scalable = sum(one.min.get(d, 0) for one in siblings if one.scales)
            if there < fixed + scalable:
                left = there - fixed
                part = float(left) * float(mine.min[d]) / float(scalable) if scalable else 0
                scaled[d] = int(part) if left > 0 else 0
        self.scaled[name] = scaled

    def _share(
        self, siblings: list[Limits], name: str, amounts: Vector, figures: Figures
    ) -> Vector:
        runtime = {}
        for d in self.tree.quotas[name].max:
            rivals = [one for one in siblings if d in one.max]
            claims = []
            for one in rivals:
                least = self.scaled[one.name].get(d, 0)
                if self.tree.guarantee:
                    least = max(least, figures.guaranteed[one.name][d])
                lends = one.lends and not self.tree.guarantee
                claims.append(Claim(figures.claim[one.name][d], least, one.weight.get(d, 0), lends))
            found, _ = water_fill(amounts.get(d, 0), claims)
            runtime[d] = found[[one.name for one in rivals].index(name)]
        return runtime


def _without_zeros(vector: Vector) -> Vector:
    return {d: amount for d, amount in vector.items() if amount}
