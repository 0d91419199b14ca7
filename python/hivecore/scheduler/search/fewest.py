"""Small sets of victims, found by trials."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.moves.moving import propose_in_place
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = ["Fewest"]

_MOST_TRIES = 64
_MANY = 32  # more jobs than the trials can reduce
_Leave = Callable[[Stages, Sequence[str]], None]


class Fewest:
    """Searches for small sets of jobs that let a unit start once ``leave`` has evicted them."""

    def __init__(self, unit: Unit, leave: _Leave, jobs: Mapping[str, Live]) -> None:
        self._unit, self._leave, self._jobs = unit, leave, jobs
        #: the unit's placement in the last trial that succeeded
        self.placed: tuple[PlacedPod, ...] = ()
        self._tries = 0

    def starts_without(self, stages: Stages, names: Sequence[str]) -> bool:
        """Whether the unit starts once these jobs are evicted. Changes nothing."""
        with self._without(stages, names):
            return self._starts(stages)

    def first(self, stages: Stages, names: Iterable[str], guess: int = 1) -> list[str]:
        """The shortest sufficient prefix, of about ``guess`` jobs; empty: there is none."""
        needed: list[str] = []
        rest = iter(names)
        batch = [*islice(rest, guess)]
        with ExitStack() as undone:
            while batch and not self._starts_unless_kept(stages, batch, undone):
                needed += batch
                batch = [*islice(rest, len(needed) + 1)]
            if not batch:
                return []
            while len(batch) > 1:
                half = batch[: len(batch) // 2]
                if self._starts_unless_kept(stages, half, undone):
                    batch = half
                else:
                    needed += half
                    batch = batch[len(half) :]
            self.starts_without(stages, batch)
        return [*needed, *batch]

    def on_its_nodes(self, stages: Stages, names: Sequence[str]) -> Sequence[str]:
        """The jobs on the nodes of the last placement, if they are enough; else all given jobs."""
        nodes = {pod.node for pod in self.placed}
        fewer = [name for name in names if nodes & self._nodes(name)]
        return fewer if self.starts_without(stages, fewer) else names

    def _nodes(self, name: str) -> set[str]:
        return {pod.node for unit in self._jobs[name].placed for pod in unit.placed}

    def needed(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """A minimal subset whose eviction lets the unit start; evicting all given jobs must be
        enough. Earlier jobs are preferred. After `_MOST_TRIES` trials it need not be minimal.
        """
        return self._search(stages, lambda parts: self._needed(parts, names)) or list(names)

    def least(
        self, stages: Stages, names: Callable[[], Iterable[str]], guess: int = 1
    ) -> list[str]:
        """A minimal subset of the shortest sufficient prefix; empty if no prefix is enough."""

        def find(parts: Stages) -> list[str]:
            enough: Sequence[str] = self.first(parts, names(), guess)
            if len(enough) > _MANY:
                enough = self.on_its_nodes(parts, enough)
            return self._needed(parts, enough)

        return self._search(stages, find)

    def _search(self, stages: Stages, find: Callable[[Stages], list[str]]) -> list[str]:
        """Search without the device stage, the slowest to try, and with it if it refuses."""
        for parts in (stages.without_devices(), stages):
            if parts is None or self.starts_without(parts, ()):
                continue
            self._tries = 0
            needed = find(parts)
            if needed and self.starts_without(stages, needed):
                return needed
        return []

    def _needed(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """A minimal sufficient subset, where evicting no job is not enough."""
        if len(names) < 2:
            return list(names)
        kind = self._unit.kind
        gpus = {name: self._jobs[name].job.gpus for name in names}
        spare = stages.available(kind) + sum(gpus.values()) - kind.gpus
        sure = [name for name in names if gpus[name] > spare >= 0]  # the rest frees too little
        rest = [name for name in names if name not in sure]
        needed = self._needed_beside(stages, sure, rest) if rest else []
        return [name for name in names if name in sure or name in needed]

    def _least(self, stages: Stages, names: Sequence[str]) -> list[str]:
        """A minimal sufficient subset by trials alone: QuickXplain, U. Junker, AAAI 2004."""
        if len(names) < 2 or self._tries >= _MOST_TRIES:
            return list(names)
        first, last = names[: len(names) // 2], names[len(names) // 2 :]
        needed = self._needed_beside(stages, first, last)
        return self._needed_beside(stages, needed, first) + needed

    def _needed_beside(
        self, stages: Stages, gone: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        """A minimal sufficient subset once the jobs in ``gone`` are evicted."""
        if not gone:
            return self._least(stages, names)
        self._tries += 1
        with self._without(stages, gone):
            return [] if self._starts(stages) else self._least(stages, names)

    @contextmanager
    def _without(self, stages: Stages, names: Sequence[str]) -> Iterator[None]:
        with stages.trial():
            self._leave(stages, names)
            yield

    def _starts_unless_kept(self, stages: Stages, names: Sequence[str], undone: ExitStack) -> bool:
        """Whether the unit starts without these jobs; if not, they leave until ``undone`` ends."""
        with ExitStack() as trial:
            trial.enter_context(self._without(stages, names))
            if self._starts(stages):
                return True
            undone.push(trial.pop_all())
        return False

    def _starts(self, stages: Stages) -> bool:
        """Whether the unit starts. If so, it holds its devices until the trial ends."""
        offer = propose_in_place(stages, self._jobs, self._unit.trial())
        if isinstance(offer, Refused):
            return False
        self.placed = offer.pods()
        return True
