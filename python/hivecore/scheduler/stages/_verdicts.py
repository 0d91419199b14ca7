"""Verdicts on kinds of units: each is found once, and a bounded number of them is remembered."""

from collections.abc import Callable, Hashable

__all__ = ["Verdicts"]


class Verdicts:
    """Why units are impossible, by what that depends on; "": they are not."""

    _MOST = 4096  # that are remembered

    def __init__(self) -> None:
        self._known: dict[Hashable, str] = {}

    def of(self, key: Hashable, find: Callable[[], str]) -> str:
        """The verdict of a key, which is found if it is not known."""
        reason = self._known.get(key)
        if reason is None:
            if len(self._known) >= self._MOST:
                self._known.clear()
            reason = self._known[key] = find()
        return reason

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()
