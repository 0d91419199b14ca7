"""What the adapters of all parts have in common."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from hivecore.scheduler.job import Job, Role

__all__ = ["Stage"]


class Stage:
    """An adapter of one part of the scheduler."""

    name: str
    part: Any
    #: the fields of `Job`, `Role` and `Where` that the part enforces
    honours: ClassVar[frozenset[str]] = frozenset()

    def chooses_node(self, role: Role) -> bool:
        """Whether the part chooses, or restricts, the nodes of a role's pods."""
        return False

    def counts(self, job: Job, resource: str) -> bool:
        """Whether the part limits how much of a resource the pods of a job take."""
        return False

    def domain(self, job: Job, nodes: Collection[str]) -> frozenset[str] | None:
        """The nodes that hold all pods of a job of which some are on these; ``None``: any do."""
        return None

    def trial(self) -> AbstractContextManager[None]:
        """A context whose changes to the part are undone at its end."""
        trial: AbstractContextManager[None] = self.part.trial()
        return trial
