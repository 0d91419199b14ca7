"""Numbered actions, for clients that read them later."""

import os
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from hivecore.interop.kubernetes.json_text import write_json
from hivecore.scheduler.log.reader import read_actions

__all__ = ["RecentActions"]

_MOST_BYTES = 64 * 1024 * 1024
_MOST_AT_ONCE = 1000  # actions in an answer
_MOST_BYTES_AT_ONCE = 4 * 1024 * 1024


class RecentActions:
    """The latest actions as JSON, numbered from 1; the oldest are dropped.

    :param most_bytes: how much JSON to keep.
    :param log: of the scheduler, from which dropped actions are read, if there is one.

    >>> from hivecore.interop.events.recent_actions import RecentActions
    >>> actions = RecentActions()
    >>> actions.add(0.0, {"action": "start", "job": "train", "pods": []})
    >>> actions.since(0)
    (b'{"number":1,"now":0.0,"action":"start","job":"train","pods":[]}', 1)
    """

    def __init__(
        self, most_bytes: int = _MOST_BYTES, log: "str | os.PathLike[str] | None" = None
    ) -> None:
        self._log = log
        self._texts: deque[bytes] = deque()
        self._bytes, self._most_bytes = 0, most_bytes
        self.last = 0
        """The number of the latest action; 0 if there is none."""

    @classmethod
    def of_log(cls, path: "str | os.PathLike[str]", most_bytes: int = _MOST_BYTES) -> Self:
        """Return the actions of the newest segment of a decision log, with their numbers.

        :raises CorruptStateError: the log is damaged.
        """
        recent = cls(most_bytes, path)
        recent.last, actions = read_actions(path)
        for now, action in actions:
            recent.add(now, action)
        return recent

    @property
    def first(self) -> int:
        """The number of the oldest kept action; `last` + 1 if there is none."""
        return self.last - len(self._texts) + 1

    def add(self, now: float, action: Mapping[str, Any]) -> None:
        """Append an action, given as plain data."""
        self.last += 1
        text = write_json({"number": self.last, "now": now, **action})
        self._texts.append(text)
        self._bytes += len(text)
        while self._bytes > self._most_bytes and len(self._texts) > 1:
            self._bytes -= len(self._texts.popleft())

    def since(self, after: int) -> tuple[bytes, int]:
        """Return actions with greater numbers as comma-separated JSON, up to the size of an answer.

        :returns: the text, and the number to pass as ``after`` next time.
        :raises LookupError: some of them are dropped.
        :raises ValueError: there is no such number yet.
        """
        if after > self.last:
            raise ValueError(f"after={after}: the last action is number {self.last}")
        skipped = after + 1 - self.first
        if skipped < 0:
            raise LookupError(f"after={after}: the oldest action that is known is {self.first}")
        texts: list[bytes] = []
        size = 0
        # A deque is fast at its ends, and clients mostly read the newest: count from the end.
        start = skipped - len(self._texts)
        for index in range(start, min(0, start + _MOST_AT_ONCE)):
            text = self._texts[index]
            size += len(text)
            if texts and size > _MOST_BYTES_AT_ONCE:
                break
            texts.append(text)
        return b",".join(texts), after + len(texts)

    def logged_since(self, after: int) -> tuple[bytes, int]:
        """As `since`, from the log.

        :raises LookupError: the log no longer has some of them.
        :raises CorruptStateError: the log is damaged.
        """
        if self._log is None:
            raise LookupError(f"after={after}: the oldest action that is known is {self.first}")
        try:
            number, actions = read_actions(self._log, after)
        except LookupError as error:
            raise LookupError(f"after{str(error).removeprefix('since')}") from None
        texts: list[bytes] = []
        size = 0
        for now, action in actions:
            number += 1
            if number > after:
                texts.append(write_json({"number": number, "now": now, **action}))
                size += len(texts[-1])
                if len(texts) == _MOST_AT_ONCE or size > _MOST_BYTES_AT_ONCE:
                    break
        return b",".join(texts), after + len(texts)
