"""Without whom of many a unit starts, when as few as possible leave; found on branches."""

from collections.abc import Callable, Sequence

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.stages.transaction import Stages, Started

__all__ = ["Fewest"]

_MOST_TRIES = 64
_Leave = Callable[[Stages, Sequence[str]], None]


class Fewest:
    """Looks for those who have to leave for a unit.

    :param leave: lets jobs leave on a branch.
    """

    def __init__(self, unit: Unit, leave: _Leave) -> None:
        self._unit, self._leave = unit, leave
        #: where it was when it started last
        self.placed: tuple[PlacedPod, ...] = ()
        self._tries = 0

    def starts_without(self, branch: Stages, names: Sequence[str]) -> bool:
        """Whether it starts when these have left; the branch stays as it is."""
        return self._starts(self._without(branch, names))

    def first(self, branch: Stages, names: Sequence[str]) -> list[str]:
        """The shortest run of the first of these that is enough; none: all are too few."""
        found: list[str] = []
        some: Sequence[str] = names[:1]
        while some and not self._starts(ahead := self._without(branch, some)):
            branch = ahead  # who is refused changes nothing
            found += some
            some = names[len(found) : 2 * len(found) + 1]
        if not some:
            return []
        while len(some) > 1:
            half = some[: len(some) // 2]
            if self._starts(ahead := self._without(branch, half)):
                some = half
            else:
                branch = ahead
                found += half
                some = some[len(half) :]
        self.starts_without(branch, some)
        return [*found, *some]

    def needed(self, branch: Stages, names: Sequence[str]) -> list[str]:
        """Those of whom nobody can stay, when it starts without all of these; rather the first ones
        than the last, and more where that takes too many tries.
        """
        return self._found(branch, lambda stages: self._needed(stages, names)) or list(names)

    def least(self, branch: Stages, names: Sequence[str]) -> list[str]:
        """The same of the shortest run of the first of these that is enough, if one is."""
        return self._found(branch, lambda stages: self._needed(stages, self.first(stages, names)))

    def _found(self, branch: Stages, find: Callable[[Stages], list[str]]) -> list[str]:
        """What is found without devices, which cost most to try, if it is enough with them."""
        for stages in (branch.without_devices(), branch):
            if stages is None or self.starts_without(stages, ()):
                continue
            self._tries = 0
            found = find(stages)
            if found and self.starts_without(branch, found):
                return found
        return []

    def _needed(self, branch: Stages, names: Sequence[str]) -> list[str]:
        """Those of whom nobody can stay, where it does not start without their leaving.

        Source: QuickXplain, U. Junker, AAAI 2004.
        """
        if len(names) < 2 or self._tries >= _MOST_TRIES:
            return list(names)
        first, last = names[: len(names) // 2], names[len(names) // 2 :]
        found = self._needed_beside(branch, first, last)
        return self._needed_beside(branch, found, first) + found

    def _needed_beside(
        self, branch: Stages, gone: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        """Those of whom nobody can stay when others have left."""
        if not gone:
            return self._needed(branch, names)
        ahead = self._without(branch, gone)
        self._tries += 1
        if self._starts(ahead):  # else it is what it was
            return []
        return self._needed(ahead, names)

    def _without(self, branch: Stages, names: Sequence[str]) -> Stages:
        ahead = branch.branch()
        self._leave(ahead, names)
        return ahead

    def _starts(self, branch: Stages) -> bool:
        trial = self._unit.trial()
        if not isinstance(branch.start(trial), Started):
            return False
        self.placed = trial.placed
        return True
