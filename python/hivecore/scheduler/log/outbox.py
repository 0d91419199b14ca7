"""The actions that a scheduler has decided, numbered."""

from collections import deque
from itertools import islice

from hivecore._arguments import as_int
from hivecore.scheduler.actions import Action

__all__ = ["Outbox"]

_MOST = 10_000


class Outbox:
    """The latest actions, numbered from 1, and those that no call has returned yet.

    :param last: number of the last action so far.

    Numbers count from the beginning of the log, or of the scheduler if there is no log.
    """

    __slots__ = ("_kept", "last", "pending")

    def __init__(self, last: int = 0) -> None:
        self._kept: deque[Action] = deque(maxlen=_MOST)
        self.last = last
        """The number of the latest action that was returned."""
        self.pending: list[Action] = []
        """What was decided by calls that have raised since."""

    def deliver(self) -> list[Action]:
        """Number the pending actions, and return them."""
        actions, self.pending = self.pending, []
        self._kept.extend(actions)
        self.last += len(actions)
        return actions

    def take_back(self, actions: list[Action]) -> None:
        """Let the next call return what did not arrive, unless later actions were returned."""
        if actions and self._kept and self._kept[-1] is actions[-1]:
            for _ in actions:
                self._kept.pop()
            self.last -= len(actions)
            self.pending = [*actions, *self.pending]

    def since(self, number: int) -> list[Action]:
        """Actions with greater numbers.

        :raises LookupError: some of them are no longer kept.
        :raises ValueError: the number is greater than that of the last action.
        """
        after = as_int(number, "since", 0, 2**62)
        if after > self.last:
            raise ValueError(f"since={after}: the last action is number {self.last}")
        first = self.last - len(self._kept) + 1
        if after + 1 < first:
            raise LookupError(f"since={after}: the oldest known action is {first}")
        return list(islice(self._kept, after + 1 - first, None))
