"""The changes that a walk along an order has made."""

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from hivecore.interleaving import interleave
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.orders.ordering import Order

__all__ = ["Changes", "Entry", "Places", "changes"]

#: Jobs that share GPUs; one job has its own.
Entry = tuple[Live, ...]
#: By running job its place, and the jobs on its GPUs, itself included.
Places = dict[str, tuple[tuple[PlacedPod, ...], tuple[str, ...]]]


class Changes(NamedTuple):
    """The changes of a walk."""

    #: the jobs that had GPUs and have none now
    stopped: list[Live]
    moves: list[Move]
    #: the jobs that run from now on, with the jobs on the same GPUs, and their offsets
    started: list[tuple[Live, tuple[str, ...], tuple[int, ...]]]

    #: by job that had GPUs: its place, and the jobs that shared them, itself included
    before: Places

    def winner(self, name: str, order: Order, jobs: Container[str]) -> str:
        """The job for which another job leaves: the first that starts, if there is one.

        :param jobs: the names of the known jobs.
        """
        started = [live.job.name for live, _, _ in self.started]
        named = [one for names in order.entries for one in names]
        there = (one for one in named if one in jobs)
        others = chain(started, self.before[name][1], there, named)
        return next(one for one in others if one != name)


def changes(entries: Iterable[Entry], before: Places) -> Changes:
    """The changes since ``before``.

    :param entries: all entries that have changed, in order.

    Jobs of one group that are still together on the same GPUs stay there. This holds for one of the
    new groups only, as it is not known on which GPUs two parts of a group are.
    """
    found = Changes([], [], [], before)
    stayed: set[tuple[str, ...]] = set()
    for entry in entries:
        there = [live.job.name for live in entry if live.job.name in before]
        placed = entry[0].units[0].placed if entry else ()
        if not placed:
            found.stopped.extend(live for live in entry if live.job.name in before)
            continue
        old: tuple[str, ...] = ()
        for name in there:
            pods, members = before[name]
            if not old and pods == placed and members not in stayed:
                old = members
        stayed.add(old)
        now = list(there)
        for live in entry:
            name = live.job.name
            if name in there and name not in old:
                others = tuple(other for other in there if other != name)
                offsets = _offsets(live, entry, others)
                found.moves.append(Move(name, placed, before[name][0], others, offsets))
            elif name not in there:
                others = tuple(now)
                found.started.append((live, others, _offsets(live, entry, others)))
                now.append(name)
    return found


def _offsets(live: Live, entry: Entry, others: Sequence[str]) -> tuple[int, ...]:
    if not others:
        return ()
    stages = {one.job.name: one.job.stages for one in entry}
    return _offsets_of((live.job.stages, *[stages[other] for other in others]))


@lru_cache(4096)  # jobs of few kinds come together again and again
def _offsets_of(stages: tuple[tuple[float, ...], ...]) -> tuple[int, ...]:
    return interleave(stages).offsets
