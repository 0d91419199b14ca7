"""Why a node does not serve a request, and which of Koordinator's defects are kept."""

from typing import NamedTuple

__all__ = ["QUIRKS", "TYPES", "Failure"]

#: The types that Koordinator allocates, in the order in which they are looked at here. Upstream the
#: order is that of a hash map, so which of several failures is told is chance (defect D20).
TYPES = ("gpu", "rdma", "fpga")

#: The defects that can be switched off; with all of them on, answers are Koordinator's.
QUIRKS = frozenset(
    {
        "swapped_device_score",  # D1: a shared GPU's score takes what is free for the total
        "lowest_tier_first",  # D2: partitions of the lowest score are taken first
        "exclusivity_ignored",  # D3: exclusive="pcie" has no effect
        "one_instance_scored",  # D4: the node's score sees one device of the request
        "bytes_not_scored",  # D5: ... and of its GPU memory either bytes or percent, not both
        "greedy_joint",  # D9: the first choice of the primary devices is the only one
        "leaking_hints",  # what reservations hold piles up from one set of NUMA nodes to the next
    }
)


class Failure(NamedTuple):
    """A node's refusal."""

    code: str
    """One word for a program."""
    resolvable: bool
    """Whether it could end when others end (upstream: Unschedulable), or cannot."""
    reason: str
    """A sentence for a reader."""
