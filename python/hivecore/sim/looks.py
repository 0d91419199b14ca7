"""Reports the progress of a simulation from time to time."""

from collections.abc import Callable

from hivecore.sim.simulate import Watch

__all__ = ["Notify", "looks"]

#: Called with the number of jobs submitted so far.
Notify = Callable[[int], None]
_LOOKS = 200


def looks(notify: Notify | None, last: float) -> Watch | None:
    """Return a watch for `simulate` that calls ``notify`` with the number of arrived jobs.

    :param last: the time of the last arrival: there are about 200 calls until then.
    """
    if notify is None:
        return None

    def look(now: float, come: int) -> float:
        notify(come)
        return now + max(last / _LOOKS, 1.0)

    return look
