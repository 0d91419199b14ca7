"""The exceptions that a caller may want to catch, every one a `HivecoreError`, and a warning."""

from collections.abc import Sequence

__all__ = [
    "CelRuntimeError",
    "CelSyntaxError",
    "CertificateError",
    "CorruptStateError",
    "FullReportNeededError",
    "GangError",
    "HivecoreError",
    "InexactWarning",
    "InfeasibleAssignmentError",
    "InvariantError",
    "NoFreeCellError",
    "NoPerfectMatchingError",
    "NotAllocatedError",
    "StaleDecisionError",
]


class HivecoreError(Exception):
    """Base class of the errors that hivecore raises for its own reasons."""


class CelSyntaxError(HivecoreError, SyntaxError):
    """An expression of a device selector is no CEL, or uses what hivecore does not evaluate."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what if at is None else f"{what} (character {at + 1})")
        self.what = what
        """What is wrong."""
        self.at = at
        """How many characters stand before it; ``None``: it is the whole."""


class CelRuntimeError(HivecoreError, ValueError):
    """The evaluation of a device selector fails on a device."""


class NoFreeCellError(HivecoreError):
    """No cell of the asked level is free, or the very cell asked for is partly taken."""


class StaleDecisionError(HivecoreError):
    """The cluster has changed since the decision was made so that it no longer fits: ask again."""


class NotAllocatedError(HivecoreError, ValueError):
    """What was to be released is not allocated (released twice, or never allocated)."""


class InfeasibleAssignmentError(HivecoreError, ValueError):
    """The tenants' assignments do not fit into the physical cells of a chain."""


class CorruptStateError(HivecoreError, ValueError):
    """The bytes given to `from_bytes` are not a state that `to_bytes` wrote."""


class FullReportNeededError(HivecoreError):
    """The replica directory does not know this worker, or lacks reports of it: it has to join."""


class GangError(HivecoreError, ValueError):
    """A pod of a gang is not in the state that an event needs."""


class InvariantError(HivecoreError):
    """An audit found an inconsistent state: a defect of hivecore, never of its caller."""


class NoPerfectMatchingError(HivecoreError, ValueError):
    """The graph has no perfect matching.

    The reason is a set of vertices, ``removed``, without which more odd components are left over
    than the set has vertices: each of those needs a partner in the set (Tutte, Berge). When
    ``removed`` is empty, the graph itself has an odd component.
    """

    def __init__(
        self,
        message: str,
        removed: Sequence[int] = (),
        odd_components: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__(message)
        self.removed = tuple(removed)
        """The vertices to take away, ascending."""
        self.odd_components = tuple(map(tuple, odd_components))
        """The odd components that are left then; more than ``removed`` has vertices."""


class CertificateError(HivecoreError):
    """A result's certificate does not prove it: the problem has changed since, or a defect.

    Also raised where a matching has no certificate because none was asked for.
    """


class InexactWarning(UserWarning):
    """A matching's floats had to be rounded: its ``gap_bound`` says how much that may cost."""
