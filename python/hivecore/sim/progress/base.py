"""What a simulation needs from the object that keeps the progress of its jobs."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hivecore.scheduler import Action

__all__ = ["Incident", "JobFails", "NodeChanges", "Progress"]


class JobFails(NamedTuple):
    """A running job stops by itself, and waits again.

    :param job: its name.
    """

    job: str


class NodeChanges(NamedTuple):
    """A node is lost, or back.

    :param node: its name.
    :param healthy: whether it is back.
    """

    node: str
    healthy: bool


#: What `Progress` reports beside jobs that end.
Incident = JobFails | NodeChanges


class Progress(Protocol):
    """What jobs have done, and when they end.

    It is notified of all events in order, with times in seconds. At each instant the methods are
    called in the order in which they are defined here.
    """

    #: Whether stopped jobs keep their progress and continue from there.
    is_kept: bool

    def next_end(self, before: float) -> float:
        """Return when the next job completes, if nothing else happens before.

        It may be inf if that is after ``before``, the next submission.
        """

    def next_change(self, before: float) -> float:
        """Return the time of the next event but a completion, or ``before`` if that is earlier."""

    def completed(self, now: float) -> Sequence[str]:
        """Return the jobs that complete at this instant, that of `next_end`; they stop running."""

    def happen(self, now: float) -> Sequence[Incident]:
        """Return what happens by itself at this instant, in order."""

    def submit(self, job: str, seconds: float, now: float) -> None:
        """Add a job that takes this time at full speed."""

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """Follow a scheduler's actions, which have been carried out."""
