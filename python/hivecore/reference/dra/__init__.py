"""The twin of the allocator of device claims: a chronological search over requests and devices.

`allocator` is the search; `rules` says when a device may be allocated. Records, pools, bookings and
the form of answers come from `hivecore.dra`; sections in docstrings refer to the specification.
"""

from hivecore.reference.dra.allocator import Allocator, Decision, Problem

__all__ = ["Allocator", "Decision", "Problem"]
