"""What caches hold while jobs read: what the simulator asks of it."""

from collections.abc import Sequence
from typing import Protocol

from hivecore.sim.storage.workload import Floats, Indices

__all__ = ["Contents"]


class Contents(Protocol):
    """What caches hold, and how far jobs are, such as `FluidClock`."""

    @property
    def now(self) -> float:
        """Seconds since the begin."""

    @property
    def events(self) -> int:
        """How many times rates have been set."""

    @property
    def fetched(self) -> float:
        """MB that have come from remote storage, warm-ups included."""

    @property
    def warming(self) -> float:
        """MB/s of remote IO that went into warm-ups in the last step."""

    @property
    def rates(self) -> Floats:
        """MB/s at which each running job read in the last step."""

    @property
    def misses(self) -> Floats:
        """The share of that which came from remote storage."""

    @property
    def cached(self) -> Floats:
        """MB in each cache."""

    @property
    def last_use(self) -> Floats:
        """Seconds at which a job last read through each cache."""

    @property
    def left(self) -> Floats:
        """MB that each job has yet to read."""

    def allocate(
        self,
        jobs: Indices,
        rates: Floats,
        quota: Floats,
        reclaim: Indices,
        wanted: Indices,
        again: Sequence[int] = ...,
        *,
        reference: Floats | None,
    ) -> None:
        """Take over what was decided."""

    def advance(self, until: float, events: int = ..., /) -> Indices:
        """Let time pass until then, or until jobs end; return those. Stop after so many events."""
