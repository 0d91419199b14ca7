"""Twin of `hivecore.interleaving`, in plain Python."""

from hivecore.reference.interleaving.grouping import Matcher, Weight, group_jobs
from hivecore.reference.interleaving.rounds import Row, efficiencies, interleave

__all__ = ["Matcher", "Row", "Weight", "efficiencies", "group_jobs", "interleave"]
