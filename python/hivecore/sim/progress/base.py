"""What a simulation asks of the object that keeps the progress of its jobs."""

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


Incident = JobFails | NodeChanges


class Progress(Protocol):
    """What jobs have done and when they are done. It is told all that happens, each with its time
    in seconds, in order; at each instant the methods are called in the order in which they stand
    here.
    """

    #: Whether jobs that stop keep what they have done, so that they go on from there.
    is_kept: bool

    def next_end(self, before: float) -> float:
        """When the next job completes, if that is not after the next submission, ``before``, and
        nothing else happens until then; else it may be inf.
        """

    def next_change(self, before: float) -> float:
        """When something else happens by itself, or something is to be decided on; ``before``:
        nothing does until then.
        """

    def completed(self, now: float) -> Sequence[str]:
        """The jobs that complete at this instant, which is that of `next_end`, and run no more."""

    def happen(self, now: float) -> Sequence[Incident]:
        """What happens by itself at this instant, in order."""

    def submit(self, job: str, seconds: float, now: float) -> None:
        """A job has come that takes so long when nothing slows it."""

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """A scheduler has said this, and it was done."""
