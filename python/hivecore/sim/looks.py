"""Where a simulation is, told now and then."""

from collections.abc import Callable

from hivecore.sim.simulate import Watch

__all__ = ["Told", "looks"]

#: What is told how many jobs have been submitted so far.
Told = Callable[[int], None]
_LOOKS = 200


def looks(told: Told | None, last: float) -> Watch | None:
    """Return what watches `simulate` and tells it, if there is something to tell; until `last`."""
    if told is None:
        return None

    def look(now: float, come: int) -> float:
        told(come)
        return now + max(last / _LOOKS, 1.0)

    return look
