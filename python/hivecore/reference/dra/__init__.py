"""The twin of the allocator of device claims: a chronological search over requests and devices.

`allocator` is the search, `rules` says what a device may be given for, `book` keeps what is
allocated. Its records, its pools and the form of its answers are those of `hivecore.dra`; the
sections in docstrings are those of the specification.
"""

from hivecore.reference.dra.allocator import Allocator, Decision, Problem
from hivecore.reference.dra.book import Book

__all__ = ["Allocator", "Book", "Decision", "Problem"]
