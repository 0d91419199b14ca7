"""Cache for jobs whose hit ratio is no straight line in the cache, from measured curves.

A job that reads its dataset once per epoch hits the share cache / dataset under a uniform cache.
One that reads irregularly has some curve h(c), measured or simulated, in a partition of its own. A
GB there saves rate * h'(c), which may rise at first; the least concave function above the curve has
falling slopes, so its segments, filled by descending slope, are the best cache for it. Capacity
runs out within one segment at most, so the curves themselves lose against that in one place only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hivecore._arguments import as_tuple
from hivecore.caching._numbers import (
    BYTE,
    Float64,
    as_amount,
    as_amounts,
    as_column,
    fill_in_order,
    frozen,
)
from hivecore.errors import CertificateError

__all__ = ["CurveAllocation", "HitRatioCurve", "allocate_by_curves"]

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class HitRatioCurve:
    """What share of the bytes hits, by the size of the cache; straight between the points.

    Without cache nothing hits; beyond the last point more cache changes nothing.

    :raises ValueError: sizes that do not ascend, ratios that are not from 0 to 1, or no point.
    :raises TypeError: what is not a number.

    >>> curve = HitRatioCurve(cache=[10, 20, 40], hit_ratio=[0.1, 0.6, 0.8])
    >>> curve.at([5, 15, 100]).tolist()
    [0.05, 0.35, 0.8]
    >>> curve.concave().cache.tolist()
    [20.0, 40.0]
    """

    cache: Float64
    """float64[k] > 0, GB, strictly ascending."""
    hit_ratio: Float64
    """float64[k], from 0 to 1."""

    def __post_init__(self) -> None:
        sizes = as_amounts(self.cache, "cache")
        if sizes.ndim != 1 or not len(sizes):
            raise ValueError("cache must be one-dimensional, with at least one point")
        sizes = as_column(sizes, "cache", len(sizes), BYTE)
        for row in np.flatnonzero(np.diff(sizes) <= 0.0)[:1]:
            raise ValueError(f"cache[{row + 1}]={sizes[row + 1]}: must be above {sizes[row]}")
        object.__setattr__(self, "cache", sizes)
        ratios = as_column(self.hit_ratio, "hit_ratio", len(sizes), 0.0, 1.0)
        object.__setattr__(self, "hit_ratio", ratios)

    @classmethod
    def uniform(cls, dataset: float) -> "HitRatioCurve":
        """Return the line of a uniform cache on a dataset of so many GB.

        :raises ValueError, TypeError: as the class.

        >>> HitRatioCurve.uniform(660.0).at(330.0)
        0.5
        """
        return cls(np.array([as_amount(dataset, "dataset", BYTE)]), np.ones(1))

    def at(self, cache: Any) -> Any:
        """Return the hit ratio with so many GB; a float for a number, else float64 of that shape.

        :raises ValueError, TypeError: what is negative or no number.
        """
        sizes = as_amounts(cache, "cache")
        points = np.concatenate(([0.0], self.cache)), np.concatenate(([0.0], self.hit_ratio))
        ratios = np.interp(sizes, *points)
        return float(ratios) if np.ndim(ratios) == 0 else ratios

    def concave(self) -> "HitRatioCurve":
        """Return the least concave curve that is nowhere below this one. O(k)."""
        kept = [(0.0, 0.0)]
        for x, y in zip(self.cache.tolist(), self.hit_ratio.tolist(), strict=True):
            # Drop the last corner while it is not above the line from the one before to this point.
            while len(kept) > 1:
                (x0, y0), (x1, y1) = kept[-2:]
                if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                    break
                kept.pop()
            kept.append((x, y))
        top = max(range(len(kept)), key=lambda row: (kept[row][1], -row))
        points = kept[1 : top + 1] or kept[1:2]
        sizes, ratios = np.array(points).T
        return HitRatioCurve(sizes, np.maximum(ratios, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class CurveAllocation:
    """The cache of each partition, and what it saves."""

    cache: Float64
    """float64[n], GB of each partition."""
    hit_ratio: Float64
    """float64[n], what hits then, by the curves themselves."""
    demand: Float64
    """float64[n], MB/s of remote reads at full rate."""
    bound: float
    """No cache leaves a demand of less than this in total, in MB/s."""
    multiplier: float
    """MB/s that a further GB would save, on the concave curves; 0 if capacity is left."""
    _asked: tuple[Float64, tuple[HitRatioCurve, ...], float] = field(repr=False)

    def verify(self) -> Literal[True]:
        """Prove that no cache leaves less demand than ``bound``, and that the fields agree.

        By duality: any cache saves at most ``multiplier * capacity`` and, of each curve, the most
        that ``rate * h(c) - multiplier * c`` reaches.

        :raises CertificateError: something fails; it says what. O(points).
        """
        rates, curves, capacity = self._asked
        if (
            self.cache.shape != rates.shape
            or not (np.isfinite(self.cache) & (self.cache >= 0)).all()
        ):
            raise CertificateError("cache must be finite and not negative")
        if self.cache.sum() > capacity * (1 + _TOLERANCE):
            raise CertificateError("cache exceeds the capacity")
        if not self.multiplier >= 0.0:
            raise CertificateError("multiplier must not be negative")
        ratios = np.array([curve.at(c) for curve, c in zip(curves, self.cache, strict=True)])
        saved = self.multiplier * capacity
        for rate, curve in zip(rates.tolist(), curves, strict=True):
            saved += max(0.0, float((rate * curve.hit_ratio - self.multiplier * curve.cache).max()))
        for name, given, wanted in (
            ("hit_ratio", self.hit_ratio, ratios),
            ("demand", self.demand, rates * (1.0 - ratios)),
            ("bound", self.bound, rates.sum() - saved),
        ):
            if not np.allclose(given, wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise CertificateError(f"{name} is not what follows from the curves")
        return True


def allocate_by_curves(
    rates: Any, curves: Iterable[HitRatioCurve], cache: float
) -> CurveAllocation:
    """Return the cache per partition that leaves the least demand for remote IO.

    :param rates: float64[n], MB/s that the jobs of each partition consume when never stalled.
    :param curves: the hit ratio of each; `HitRatioCurve.uniform` for shuffled epochs, for which the
        answer is that of `allocate_storage`.
    :param cache: capacity in GB.
    :returns: the cache, least on the concave curves. Each partition but one ends at a corner of its
        concave curve, which is a point of the curve itself: only one may save less than there.
    :raises ValueError: a number out of range, or not as many curves as rates.
    :raises TypeError: an argument of another type.

    Ties break by lowest id. O(points log points). Source: SiloD (EuroSys'23), irregular jobs.

    >>> measured = HitRatioCurve([10, 20, 40], [0.1, 0.6, 0.8])
    >>> found = allocate_by_curves([100.0, 60.0], [measured, HitRatioCurve.uniform(50.0)], 40.0)
    >>> found.cache.tolist(), found.demand.tolist(), found.verify()
    ([20.0, 20.0], [40.0, 36.0], True)
    """
    speeds = as_amounts(rates, "rates")
    if speeds.ndim != 1:
        raise ValueError(f"rates must have one dimension, not {speeds.ndim}")
    speeds = as_column(speeds, "rates", len(speeds))
    given = as_tuple(curves, "curves")
    for row, curve in enumerate(given):
        if not isinstance(curve, HitRatioCurve):
            raise TypeError(f"curves[{row}] must be a HitRatioCurve, not {type(curve).__name__}")
    if len(given) != len(speeds):
        raise ValueError(f"curves must be {len(speeds)}, one per rate, not {len(given)}")
    capacity = as_amount(cache, "cache")

    hulls = [curve.concave() for curve in given]
    owner = np.repeat(np.arange(len(hulls)), [len(hull.cache) for hull in hulls])
    width = np.concatenate([np.diff(hull.cache, prepend=0.0) for hull in hulls] or [np.zeros(0)])
    rise = np.concatenate([np.diff(hull.hit_ratio, prepend=0.0) for hull in hulls] or [np.zeros(0)])
    worth = speeds[owner] * rise / width
    order = np.argsort(-worth, kind="stable")
    order = order[worth[order] > 0.0]
    part = fill_in_order(width[order], capacity)
    filled = np.zeros(len(speeds))
    np.add.at(filled, owner[order], part)
    short = np.flatnonzero(part < width[order])
    multiplier = float(worth[order[short[0]]]) if len(short) else 0.0

    ratios = np.array([curve.at(c) for curve, c in zip(given, filled, strict=True)])
    bound = float(speeds.sum() - (worth[order] * part).sum())
    return CurveAllocation(
        frozen(filled),
        frozen(ratios),
        frozen(np.asarray(speeds * (1.0 - ratios))),
        bound,
        multiplier,
        (speeds, given, capacity),
    )
