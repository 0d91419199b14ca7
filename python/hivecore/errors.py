"""The exceptions that a caller may want to catch; every one is a `HivecoreError`."""

__all__ = [
    "CorruptStateError",
    "HivecoreError",
    "InfeasibleAssignmentError",
    "InvariantError",
    "NoFreeCellError",
    "NoHealthyCellError",
    "NotAllocatedError",
    "QuotaExceededError",
]


class HivecoreError(Exception):
    """Base class of the errors that hivecore raises for its own reasons."""


class NoFreeCellError(HivecoreError):
    """No cell of the asked level is free, or the very cell asked for is partly taken."""


class NoHealthyCellError(NoFreeCellError):
    """The tenant owns a free cell, but only bad hardware could back it safely."""


class QuotaExceededError(HivecoreError):
    """The tenant asks for more than the cells that it owns can still serve."""


class NotAllocatedError(HivecoreError, ValueError):
    """What was to be released is not an allocated cell (released twice, or never allocated)."""


class InfeasibleAssignmentError(HivecoreError, ValueError):
    """The tenants' assignments do not fit into the physical cells of a chain."""


class CorruptStateError(HivecoreError, ValueError):
    """The bytes given to `from_bytes` are not a state that `to_bytes` wrote."""


class InvariantError(HivecoreError):
    """An audit found an inconsistent state: a defect of hivecore, never of its caller."""
