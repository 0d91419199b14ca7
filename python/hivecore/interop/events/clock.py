"""The time for events that have none."""

import time
from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """Counts on from the scheduler's time, or from a later time that is set.

    :param now: the start, in seconds.
    :param read: a monotonic clock, in seconds.

    >>> from hivecore.interop.events.clock import Clock
    >>> times = iter([100.0, 100.5, 101.0, 103.0])
    >>> clock = Clock(60.0, lambda: next(times))
    >>> clock.now()
    60.5
    >>> clock.set(500.0)
    >>> clock.now()
    502.0
    """

    def __init__(self, now: float, read: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._ahead = now - read()

    def now(self) -> float:
        """Return the time, rounded to microseconds."""
        return round(self._read() + self._ahead, 6)

    def set(self, now: float) -> None:
        """Advance to this time, unless it has passed."""
        self._ahead = max(self._ahead, now - self._read())
