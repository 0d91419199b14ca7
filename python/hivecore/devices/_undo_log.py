"""What undoes the changes of a trial in the books that are kept in Python, step by step."""

from collections.abc import Callable
from typing import Any

__all__ = ["UndoLog"]

_ABSENT = object()


class UndoLog:
    """The calls that undo what has happened since the first mark, in the order of the changes.

    Only while it is on is anything to be added: there are marks, and nothing is being undone.
    """

    __slots__ = ("_starts", "_steps", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._steps: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._starts: list[int] = []

    def add(self, undo: Callable[..., object], *arguments: Any) -> None:
        """One step more, before the change."""
        self._steps.append((undo, arguments))

    def keep(self, of: dict[Any, Any], *keys: Any) -> None:
        """Some entries, which may be absent, will be what they are now."""
        for key in keys:
            self._steps.append((_put, (of, key, of.get(key, _ABSENT))))

    def mark(self) -> None:
        """From now on steps are added."""
        self._starts.append(len(self._steps))
        self.is_on = True

    def rewind(self) -> None:
        """End the last mark, and undo what was done since."""
        start, self.is_on = self._starts[-1], False
        while len(self._steps) > start:
            undo, arguments = self._steps.pop()
            undo(*arguments)
        self.end()

    def end(self) -> None:
        """End the last mark; what was done since stays."""
        self._starts.pop()
        self.is_on = bool(self._starts)
        if not self.is_on:
            self._steps.clear()


def _put(of: dict[Any, Any], key: Any, value: Any) -> None:
    if value is _ABSENT:
        of.pop(key, None)
    else:
        of[key] = value
