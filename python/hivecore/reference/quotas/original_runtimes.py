"""Runtimes as Koordinator computes them: on the path of a quota when it is read."""

from typing import Any

from hivecore.reference.quotas.figures import Figures, Limits, Vector, figures_of
from hivecore.reference.quotas.water_fill import Claim, water_fill

__all__ = ["OriginalRuntimes"]


class OriginalRuntimes:
    """Computes runtimes of a `reference.quotas.QuotaTree`.

    It keeps the scaled minimums of earlier reads (section 3 of the specification, defect D5).
    """

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.tree.counts_beyond_max = False
        self.scaled: dict[str, Vector] = {}

    def set_quota(self, quota: Any) -> None:
        """Add or change a quota; a changed minimum is no longer scaled."""
        before = self.tree.quotas.get(quota.name)
        self.tree.set_quota(quota)
        after = self.tree.quotas[quota.name]
        if before is None or _without_zeros(before.min) != _without_zeros(after.min):
            self.scaled[quota.name] = dict(after.min)

    def runtime(self, name: str) -> Vector:
        """Return a quota's runtime, and scale the minimums on its path."""
        figures = figures_of(self.tree)
        amounts = figures.totals[self.tree.tree_of(name)]
        for quota in reversed(self.tree.path(name)):
            self._scale(self._siblings(quota), quota, amounts)
            amounts = self._share(self._siblings(quota), quota, amounts, figures)
        return amounts

    def _siblings(self, name: str) -> list[Limits]:
        parent = self.tree.quotas[name].parent
        tree = self.tree.tree_of(name)
        return [self.tree.quotas[child] for child in self.tree.children(parent, tree)]

    def _scale(self, siblings: list[Limits], name: str, amounts: Vector) -> None:
        mine = self.tree.quotas[name]
        if not self.tree.scale_min or not mine.scales:
            return
        scaled = dict(mine.min)
        for d in mine.min:
            amount = amounts.get(d, 0)
            fixed = sum(sibling.min.get(d, 0) for sibling in siblings if not sibling.scales)
            scalable = sum(sibling.min.get(d, 0) for sibling in siblings if sibling.scales)
            if amount < fixed + scalable:
                left = amount - fixed
                part = float(left) * float(mine.min[d]) / float(scalable) if scalable else 0
                scaled[d] = int(part) if left > 0 else 0
        self.scaled[name] = scaled

    def _share(
        self, siblings: list[Limits], name: str, amounts: Vector, figures: Figures
    ) -> Vector:
        runtime = {}
        for d in self.tree.quotas[name].max:
            rivals = [rival for rival in siblings if d in rival.max]
            claims = []
            for rival in rivals:
                least = self.scaled[rival.name].get(d, 0)
                if self.tree.guarantee:
                    least = max(least, figures.guaranteed[rival.name][d])
                lends = rival.lends and not self.tree.guarantee
                claims.append(
                    Claim(figures.claim[rival.name][d], least, rival.weight.get(d, 0), lends)
                )
            shares, _ = water_fill(amounts.get(d, 0), claims)
            runtime[d] = shares[[rival.name for rival in rivals].index(name)]
        return runtime


def _without_zeros(vector: Vector) -> Vector:
    return {d: amount for d, amount in vector.items() if amount}
