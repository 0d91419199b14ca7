"""What a simulation needs from the world in which its jobs run."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hivecore.scheduler import Action

__all__ = ["World"]


class World(Protocol):
    """How fast jobs run. It is notified of all events in order, with times in seconds."""

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """Follow a scheduler's actions, which have been carried out."""

    def end(self, job: str, now: float) -> None:
        """Remove a running job that has completed."""

    def speeds(self, now: float) -> Mapping[str, float]:
        """Return job -> its new speed, for running jobs whose speed changes now.

        Speeds are fractions of the speed alone, 0.0 to 1.0. A new job runs at 1.0 unless it is
        included.
        """

    def next_change(self) -> float:
        """Return when speeds change without a job that comes, starts or ends; inf for never."""
