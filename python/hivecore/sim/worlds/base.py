"""What a simulation asks of the world in which its jobs run."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hivecore.scheduler import Action

__all__ = ["World"]


class World(Protocol):
    """How fast jobs run. It is told all that happens, each with its time in seconds, in order."""

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """A scheduler has said this, and it was done."""

    def end(self, job: str, now: float) -> None:
        """A running job has completed."""

    def speeds(self, now: float) -> Mapping[str, float]:
        """How fast the running jobs go from now on whose speed is another one, as a share of that
        which they have alone: 0.0 to 1.0. One that starts goes at 1.0 until it is said here.
        """

    def next_change(self) -> float:
        """When speeds will be others though no job comes, starts or ends; inf: never."""
