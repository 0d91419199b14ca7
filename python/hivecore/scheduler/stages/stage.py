"""What the adapters of all parts have in common."""

from contextlib import AbstractContextManager
from typing import Any

__all__ = ["Stage"]


class Stage:
    """An adapter of one part of the scheduler."""

    name: str
    part: Any

    def trial(self) -> AbstractContextManager[None]:
        """A context whose changes to the part are undone at its end."""
        trial: AbstractContextManager[None] = self.part.trial()
        return trial
