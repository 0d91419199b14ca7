"""What the adapters of all parts have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Stage"]


class Stage:
    """An adapter of one part of the scheduler."""

    name: str
    part: Any

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A context whose changes to the part are undone at its end."""
        if hasattr(self.part, "trial"):
            with self.part.trial():
                yield
            return
        mine, self.part = self.part, self.part.copy()
        try:
            yield
        finally:
            self.part = mine
