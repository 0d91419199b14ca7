"""Jobs that share GPUs, each on another resource at a time (Muri, SIGCOMM'22)."""

from hivecore.interleaving.exact import GroupingCache
from hivecore.interleaving.grouper import Group, Grouper
from hivecore.interleaving.grouping import Grouping, group_jobs
from hivecore.interleaving.rounds import Interleaving, efficiencies, interleave

__all__ = [
    "Group",
    "Grouper",
    "Grouping",
    "GroupingCache",
    "Interleaving",
    "efficiencies",
    "group_jobs",
    "interleave",
]
