"""A bounded cache of verdicts on kinds of units."""

from collections.abc import Callable, Hashable

__all__ = ["Verdicts"]


class Verdicts:
    """Why units are impossible, by what that depends on; "": they are possible."""

    _MOST = 4096  # cached verdicts

    def __init__(self) -> None:
        self._known: dict[Hashable, str] = {}

    def of(self, key: Hashable, find: Callable[[], str]) -> str:
        """The verdict for a key, computed once."""
        reason = self._known.get(key)
        if reason is None:
            if len(self._known) >= self._MOST:
                self._known.clear()
            reason = self._known[key] = find()
        return reason

    def clear(self) -> None:
        """Forget all verdicts."""
        self._known.clear()
