"""The time of a scheduler, for events that do not say when they happen."""

import time
from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """Seconds that go on from where the scheduler is; from a later time if that is set.

    :param now: where it begins.
    :param read: a clock that never goes back, in seconds.

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
        """The time, to the microsecond."""
        return round(self._read() + self._ahead, 6)

    def set(self, now: float) -> None:
        """It is this late at least."""
        self._ahead = max(self._ahead, now - self._read())
