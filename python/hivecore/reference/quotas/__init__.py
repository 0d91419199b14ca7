"""Twins of `hivecore.quotas`, in plain Python."""

from hivecore.reference.quotas.original_runtimes import OriginalRuntimes
from hivecore.reference.quotas.quota_tree import QuotaTree
from hivecore.reference.quotas.water_fill import Claim, Round, shares, water_fill

__all__ = ["Claim", "OriginalRuntimes", "QuotaTree", "Round", "shares", "water_fill"]
