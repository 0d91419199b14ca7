"""The twin of the allocator of device claims: a chronological search over requests and devices.

`allocator` is the search, `rules` says what a device may be given for. Its records, its pools, its
book of what is allocated and the form of its answers are those of `hivecore.dra`; the sections in
docstrings are those of the specification.
"""

from hivecore.reference.dra.allocator import Allocator, Decision, Problem

__all__ = ["Allocator", "Decision", "Problem"]
