"""Caches: uniform caches with quotas, reference policies, clairvoyance, shuffles."""

from hivecore._caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    UniformCache,
    simulate,
)
from hivecore.caching.hit_ratios import expected_hit_ratio
from hivecore.caching.uniform_mapping import UniformMapping

__all__ = [
    "ClairvoyantCache",
    "EpochShuffle",
    "PolicyCache",
    "UniformCache",
    "UniformMapping",
    "expected_hit_ratio",
    "simulate",
]
