"""What the adapters of all parts have in common."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from hivecore.scheduler.job import Job

__all__ = ["Stage"]


class Stage:
    """An adapter of one part of the scheduler."""

    name: str
    part: Any

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The nodes that hold all pods of a job of which some are on these; ``None``: any do."""
        return None

    def trial(self) -> AbstractContextManager[None]:
        """A context whose changes to the part are undone at its end."""
        trial: AbstractContextManager[None] = self.part.trial()
        return trial
