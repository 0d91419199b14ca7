"""Which of many jobs have to leave so that a unit starts, as few as possible; found by trials."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.stages.transaction import Stages, Started

__all__ = ["Fewest"]

_MOST_TRIES = 64
_Leave = Callable[[Stages, Sequence[str]], None]


class Fewest:
    """Looks for the jobs that have to leave for a unit.

    :param leave: lets jobs leave.
    """

    def __init__(self, unit: Unit, leave: _Leave) -> None:
        self._unit, self._leave = unit, leave
        #: where it was when it started last
        self.placed: tuple[PlacedPod, ...] = ()
        self._tries = 0

    def starts_without(self, stages: Stages, names: Sequence[str]) -> bool:
        """Whether it starts when these have left; nothing changes."""
        with self._without(stages, names):
            return self._starts(stages)

    def first(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """The shortest run of the first of these that is enough; none: all are too few."""
        found: list[str] = []
        some: Sequence[str] = names[:1]
        with ExitStack() as undone:
            while some and not self._starts_unless_kept(stages, some, undone):
                found += some
                some = names[len(found) : 2 * len(found) + 1]
            if not some:
                return []
            while len(some) > 1:
                half = some[: len(some) // 2]
                if self._starts_unless_kept(stages, half, undone):
                    some = half
                else:
                    found += half
                    some = some[len(half) :]
            self.starts_without(stages, some)
        return [*found, *some]

    def needed(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """Those that cannot stay, when it starts without all of these; rather the first ones
        than the last, and more where that takes too many tries.
        """
        return self._found(stages, lambda parts: self._needed(parts, names)) or list(names)

    def least(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """The same of the shortest run of the first of these that is enough, if one is."""
        return self._found(stages, lambda parts: self._needed(parts, self.first(parts, names)))

    def _found(self, stages: Stages, find: Callable[[Stages], list[str]]) -> list[str]:
        """What is found without devices, which cost most to try, if it is enough with them."""
        for parts in (stages.without_devices(), stages):
            if parts is None or self.starts_without(parts, ()):
                continue
            self._tries = 0
            found = find(parts)
            if found and self.starts_without(stages, found):
                return found
        return []

    def _needed(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """Those that cannot stay, where it does not start without their leaving.

        Source: QuickXplain, U. Junker, AAAI 2004.
        """
        if len(names) < 2 or self._tries >= _MOST_TRIES:
            return list(names)
        first, last = names[: len(names) // 2], names[len(names) // 2 :]
        found = self._needed_beside(stages, first, last)
        return self._needed_beside(stages, found, first) + found

    def _needed_beside(
        self, stages: Stages, gone: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        """Those that cannot stay when others have left."""
        if not gone:
            return self._needed(stages, names)
        self._tries += 1
        if self.starts_without(stages, gone):
            return []
        with self._without(stages, gone):
            return self._needed(stages, names)

    @contextmanager
    def _without(self, stages: Stages, names: Sequence[str]) -> Iterator[None]:
        """A trial in which these have left."""
        with stages.trial():
            self._leave(stages, names)
            yield

    def _starts_unless_kept(self, stages: Stages, names: Sequence[str], undone: ExitStack) -> bool:
        """Whether it starts when these have left; if not, they stay away until ``undone`` ends."""
        with ExitStack() as trial:
            trial.enter_context(self._without(stages, names))
            if self._starts(stages):
                return True
            undone.push(trial.pop_all())
        return False

    def _starts(self, stages: Stages) -> bool:
        """Whether it starts; if so it has, until the trial ends."""
        trial = self._unit.trial()
        if not isinstance(stages.start(trial), Started):
            return False
        self.placed = trial.placed
        return True
