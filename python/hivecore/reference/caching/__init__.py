"""Twins of `hivecore.caching`, in plain Python."""

from hivecore.reference.caching.clairvoyant_cache import ClairvoyantCache
from hivecore.reference.caching.epoch_shuffle import EpochShuffle
from hivecore.reference.caching.policy_cache import PolicyCache, simulate
from hivecore.reference.caching.uniform_cache import UniformCache
from hivecore.reference.caching.uniform_mapping import UniformMapping

__all__ = [
    "ClairvoyantCache",
    "EpochShuffle",
    "PolicyCache",
    "UniformCache",
    "UniformMapping",
    "simulate",
]
