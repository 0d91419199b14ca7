"""A walk along an order: who stands first in it runs, and who runs already gives way.

The order is walked from its first entry to its last; an entry is a job, or jobs that are to share
GPUs. Who runs as the order has it stays where it is, if it can. An entry that finds no place gets
what those behind it have, of the last ones first; and if that is too little, all are placed anew in
order, on an empty cluster, if it has a place then. Both are tried on a branch first, so that nobody
moves in vain. Whoever has no place in the end does not run.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from hivecore.interleaving import interleave
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Refused, Unit
from hivecore.scheduler.orders.ordering import Order
from hivecore.scheduler.stages.transaction import Stages, Started

__all__ = ["Changes", "Walk"]

#: Jobs that share GPUs; one job has its own.
_Entry = tuple[Live, ...]
#: By running job where it is, and who shares its GPUs, itself included.
_Places = dict[str, tuple[tuple[PlacedPod, ...], tuple[str, ...]]]


def _may_be_ordered(live: Live) -> bool:
    """Whether an order may start, stop and move a job: others are left alone."""
    if live.state == "running":
        return live.job.preemptible and not live.for_job and len(live.units) == 1
    return live.state == "pending"


class Walk:
    """One walk along an order.

    :param stages: the parts, which it changes.
    :param jobs: all, by name.
    :param order: the order.
    :param is_short: whether every job wants GPUs, so that nobody starts when none are left.
    """

    def __init__(
        self, stages: Stages, jobs: Mapping[str, Live], order: Order, is_short: bool
    ) -> None:
        self._stages, self._jobs, self._is_short = stages, jobs, is_short
        self._names, self._place = order.entries, order.place
        #: those that it has looked at, by place
        self._entries: dict[int, _Entry] = {}
        #: what was committed for those that have started, by unit
        self.decisions: dict[str, tuple[tuple[str, Any], ...]] = {}
        #: why entries have no place, by the first job of each
        self.refused: dict[str, Refused] = {}
        #: the places in the order of those that hold GPUs: before the walk has come to them, after
        self._behind: dict[int, None] = {}
        self._placed: dict[int, None] = {}
        #: where those were that have left on the way
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._is_fresh = False
        #: how many GPUs are left for those to come, at most
        self._left = 0.0
        self._known: dict[Any, Refused] = {}

    def run(self, running: Iterable[Live]) -> "Changes":
        """Let run who is to run; the others have nothing afterwards.

        :param running: all that run.
        """
        lives = [live for live in running if _may_be_ordered(live)]
        before = {
            live.job.name: (live.units[0].placed, self._stages.members(live.job.name))
            for live in lives
        }
        rest = sorted(name for name in before if name not in self._place)
        others = [(self._jobs[name],) for name in rest]
        there = {self._place[name] for name in before if name in self._place}
        for other in others:
            self._vacate(other)
        for at in sorted(there):
            if self._is_as_ordered(self.entry(at)):
                self._behind[at] = None
            else:
                self._vacate(self.entry(at))
        self._count()
        self._go()
        touched = sorted(there | self._placed.keys())
        return _changes([*(self.entry(at) for at in touched), *others], before)

    def entry(self, at: int) -> _Entry:
        """The jobs of a place that may be ordered; none: they are gone, or are left alone."""
        found = self._entries.get(at)
        if found is None:
            jobs, sharing = self._jobs, self._stages.sharing
            lives = [jobs[name] for name in self._names[at] if name in jobs]
            found = tuple([live for live in lives if _may_be_ordered(live)])
            if len(found) > 1 and (sharing is None or sharing.unlike([one.job for one in found])):
                found = found[:1]  # others have these names by now
            self._entries[at] = found
        return found

    def _go(self) -> None:
        names, jobs, behind = self._names, self._jobs, self._behind
        at = 0
        while at < len(names):
            if at in behind:
                del behind[at]
                self._take(at)
            elif self._left <= 0.0 and self._is_short and not behind:
                return
            else:
                first = jobs.get(names[at][0])
                if first is None or first.units[0].kind.gpus <= self._left:
                    entry = self.entry(at)
                    if entry and self._may_start(entry) and not self._serve(at):
                        at = -1
            at += 1

    def _may_start(self, entry: _Entry) -> bool:
        """Whether the jobs run after which these are to start."""
        names = (name for live in entry for name in live.job.after)
        others = [self._jobs[name] for name in names if name in self._jobs]
        return all(
            one.units[0].placed and one.state != "reserved" and not one.has_stopped
            for one in others
        )

    def _is_as_ordered(self, entry: _Entry) -> bool:
        members = self._stages.members(entry[0].job.name)
        return len(members) == len(entry) and set(members) == {live.job.name for live in entry}

    def _count(self) -> None:
        room = self._stages.room()
        self._left = room + sum(_gpus(self.entry(at)) for at in self._behind)

    def _take(self, at: int) -> None:
        self._placed[at] = None
        self._left -= _gpus(self.entry(at))

    def _serve(self, at: int) -> bool:
        """Whether the walk goes on; else it begins again, on an empty cluster."""
        entry = self.entry(at)
        kind = self._stages.demand(entry[0].units[0])
        found: Refused | None = self._known.get(kind)
        if found is None:
            found = self._start(entry)
        if found is None:
            self._take(at)
            return True
        if kind not in self._known:
            if self._behind and self._has_place(at, []):
                found = self._start_without_those_behind(entry)
                if found is None:
                    self._take(at)
                    return True
            if not self._is_fresh and self._has_place(at, range(at)):
                self._vacate_all(self._behind)
                self._vacate_all(self._placed)
                self._is_fresh = True
                self._nodes.clear()
                self._known.clear()
                self.refused.clear()
                self._count()
                return False
            self._known[kind] = found
        assert found is not None
        self.refused[entry[0].job.name] = found
        return True

    def _start_without_those_behind(self, entry: _Entry) -> Refused | None:
        """Let the last ones leave, as many as have to."""
        found: Refused | None = None
        idle = self._left - sum(_gpus(self.entry(at)) for at in self._behind)
        for at in reversed(list(self._behind)):
            del self._behind[at]
            self._vacate(self.entry(at))
            idle += _gpus(self.entry(at))
            if idle >= _gpus(entry):
                found = self._start(entry)
                if found is None:
                    return None
        return found

    def _has_place(self, at: int, before: Sequence[int]) -> bool:
        """Whether an entry has a place without those behind it, tried on a branch.

        :param before: who gets a place before it; nobody: those that have one now keep it.
        """
        branch = self._stages.branch()
        for other in (*self._behind, *(self._placed if before else ())):
            for live in reversed(self.entry(other)):
                branch.give_back(live.units[0], end=False)
        left = self._stages.room() + sum(
            _gpus(self.entry(one)) for one in (*self._behind, *self._placed)
        )
        for other in before:
            for live in self.entry(other)[:1]:
                if live.units[0].kind.gpus <= left and isinstance(
                    branch.start(live.units[0].trial()), Started
                ):
                    left -= live.units[0].kind.gpus
        return isinstance(branch.start(self.entry(at)[0].units[0].trial()), Started)

    # --- who comes and goes

    def _start(self, entry: _Entry) -> Refused | None:
        first, *others = [live.units[0] for live in entry]
        found: Refused | Started | None = None
        if nodes := self._nodes.get(first.name):
            found = self._stages.start(first, nodes)
        if not isinstance(found, Started):
            found = self._stages.start(first)
        if not isinstance(found, Started):
            return found
        self.decisions[first.name] = found.decisions
        for unit in others:
            self._stages.share(unit, first)
        return None

    def _vacate_all(self, places: dict[int, None]) -> None:
        for at in places:
            self._vacate(self.entry(at))
        places.clear()

    def _vacate(self, entry: _Entry) -> None:
        for live in reversed(entry):
            unit = live.units[0]
            if unit.placed:
                if not self._is_fresh:
                    self._nodes[unit.name] = _nodes(unit)
                heir = self._stages.give_back(unit, end=False)
                if heir:
                    self._jobs[heir].units[0].is_placed = unit.is_placed
                unit.placed, unit.is_placed = (), False


def _gpus(entry: _Entry) -> int:
    return entry[0].units[0].kind.gpus


def _nodes(unit: Unit) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pod.node for pod in unit.placed if pod.node))


class Changes(NamedTuple):
    """What a walk has changed."""

    #: who had GPUs and has none
    stopped: list[Live]
    moves: list[Move]
    #: who runs from now on: with whom on the same GPUs, and by how many stages each is behind it
    started: list[tuple[Live, tuple[str, ...], tuple[int, ...]]]

    #: by job that had GPUs: where, and who shared them, itself included
    before: _Places

    def winner(self, name: str, order: Order) -> str:
        """For whom a job leaves what it has: the first one that starts, if that can be said."""
        started = (live.job.name for live, _, _ in self.started)
        named = (one for names in order.entries for one in names)
        return next(one for one in chain(started, self.before[name][1], named) if one != name)


def _changes(entries: Iterable[_Entry], before: _Places) -> Changes:
    """What has changed since.

    Of jobs that were together before those stay that are so still, on the same GPUs; once, as they
    may be in two groups now of which nobody can say on which GPUs they are.
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


def _offsets(live: Live, entry: _Entry, others: Sequence[str]) -> tuple[int, ...]:
    if not others:
        return ()
    stages = {one.job.name: one.job.stages for one in entry}
    return interleave([live.job.stages, *(stages[other] for other in others)]).offsets
