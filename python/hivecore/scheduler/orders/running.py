"""Runs jobs in a given order: the first jobs run, and later ones leave for them if need be.

A walk visits the entries in order; an entry is a job, or jobs that share GPUs. A running job keeps
its place if it can. If jobs shall share GPUs with other jobs than before, the first stays and the
others join it. An entry without room takes that of later entries, the last ones first. If that is
not enough, but the entry would fit if all entries were placed again on an empty cluster, this is
done. Changes that might not be reversible are tried first, so no job moves without need. An entry
that does not fit does not run.

To skip entries that cannot fit, the walk counts idle GPUs and those of entries not visited yet.
Both counts are upper bounds.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from hivecore._thousandths import counted
from hivecore.interleaving import interleave
from hivecore.scheduler.actions import Move, PlacedPod, Start
from hivecore.scheduler.ledger.ends import end_extras, keep_first, reject_if_impossible
from hivecore.scheduler.ledger.lines import requeue, take_off
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.orders.ordering import Order
from hivecore.scheduler.rounds.starts import (
    expect_joining,
    leaving_action,
    mark_stopping,
    runs_now,
)
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Refused

__all__ = ["end_order", "run_in_order"]

#: Jobs that share GPUs, or a single job.
_Entry = tuple[Live, ...]
#: For each running job, its pods and all jobs on its GPUs, itself included.
_Before = dict[str, tuple[tuple[PlacedPod, ...], tuple[str, ...]]]
_Decisions = tuple[tuple[str, Any], ...]
#: For each unit, its old or new pods; the decisions, if this walk made them.
_Places = dict[str, tuple[tuple[PlacedPod, ...], _Decisions]]


def end_order(state: State) -> None:
    """Let the queues choose jobs again, and let pods join running jobs again."""
    state.order = None
    state.waiting.touch_all()
    for live in [*state.jobs.values()]:
        if live.state == "running" and not live.for_job and len(live.units) == 1:
            expect_joining(state, live)


def run_in_order(state: State, order: Order) -> None:
    """Run the first jobs of the order."""
    if order.place.keys().isdisjoint(state.jobs.keys()):
        return  # all jobs have left
    if not state.immediate and _have_to_stop(state, order):
        return
    walk = _Walk(state.stages, state.jobs, order, state.kinds.all_want_gpus)
    changes = walk.run(state.running.values())
    gone = {live.job.name for live in changes.stopped}
    # Extra pods come first: they must release their places before their jobs end them.
    for live in sorted(changes.stopped, key=lambda live: not live.extra_of):
        if live.extra_of not in gone:
            winner = changes.winner(live.job.name, order, state.jobs)
            pods, _ = changes.before[live.job.name]
            state.outbox.append(leaving_action(live, winner, "order", pods))
        live.note(state.log)
        live.pause(state.now)
        requeue(state, live.units[0])
        state.turn(live, "stop")
        end_extras(state, live)
        keep_first(state, live)
        reject_if_impossible(state, live)
    for move in changes.moves:
        state.outbox.append(move)
        moved = state.jobs[move.job]
        moved.note(state.log)
        state.restart(moved, state.now)
    for live, sharers, offsets in changes.started:
        unit = live.units[0]
        take_off(state, unit)
        decisions = walk.decisions.get(unit.name, ())
        state.outbox.append(Start(live.job.name, unit.placed, sharers, offsets, decisions))
        runs_now(state, live)
    for name, refused in walk.refused.items():
        waits = state.jobs.get(name)
        # Only once, as the reason depends on which jobs ran during this walk.
        if waits is not None and waits.reported is None:
            state.report(waits, refused.refusal)


def _have_to_stop(state: State, order: Order) -> bool:
    """Ask jobs to stop that lose or change their place. Returns whether there are any."""
    if any(live.for_job for live in state.running.values()):
        return True
    jobs = {name: live.copy() for name, live in state.jobs.items()}
    with state.stages.trial():
        walk = _Walk(state.stages, jobs, order, state.kinds.all_want_gpus)
        changes = walk.run([jobs[name] for name in state.running])
    names = [live.job.name for live in changes.stopped] + [move.job for move in changes.moves]
    for name in names:
        winner = changes.winner(name, order, state.jobs)
        if state.jobs[name].extra_of not in names:  # extra pods leave with their job
            state.outbox.append(leaving_action(state.jobs[name], winner, "order"))
        mark_stopping(state, state.jobs[name], winner)
    return bool(names)


class _Changes(NamedTuple):
    """The changes that a walk makes."""

    #: jobs that lost their GPUs
    stopped: list[Live]
    moves: list[Move]
    #: jobs that start, with the jobs that share their GPUs, and the offsets
    started: list[tuple[Live, tuple[str, ...], tuple[int, ...]]]
    before: _Before

    def winner(self, name: str, order: Order, jobs: Container[str]) -> str:
        """The job for which a job leaves: if possible the first of these that starts."""
        started = [live.job.name for live, _, _ in self.started]
        named = [other for names in order.entries for other in names]
        known = (other for other in named if other in jobs)
        others = chain(started, self.before[name][1], known, named)
        return next(other for other in others if other != name)


def _changes(entries: Iterable[_Entry], before: _Before) -> _Changes:
    """What has changed since ``before``.

    :param entries: changed entries in order.

    Jobs that shared GPUs and still do stay there. If a group is split, only its first part stays,
    since the walk does not know on which GPUs the other parts are.
    """
    changes = _Changes([], [], [], before)
    stayed: set[tuple[str, ...]] = set()
    for entry in entries:
        held = [live.job.name for live in entry if live.job.name in before]
        placed = entry[0].units[0].placed if entry else ()
        if not placed:
            changes.stopped.extend(live for live in entry if live.job.name in before)
            continue
        groups = (before[name][1] for name in held if before[name][0] == placed)
        old = next((members for members in groups if members not in stayed), ())
        stayed.add(old)
        now = list(held)
        stages = {live.job.name: live.job.stages for live in entry}
        for live in entry:
            name = live.job.name
            if name in old and name in held:
                continue
            others = tuple(other for other in (held if name in held else now) if other != name)
            offsets = (
                _offsets((stages[name], *[stages[other] for other in others])) if others else ()
            )
            if name in held:
                changes.moves.append(Move(name, placed, before[name][0], others, offsets))
            else:
                changes.started.append((live, others, offsets))
                now.append(name)
    return changes


@lru_cache(4096)  # the same few kinds of jobs share GPUs often
def _offsets(stages: tuple[tuple[float, ...], ...]) -> tuple[int, ...]:
    return interleave(stages).offsets


def _may_be_ordered(live: Live) -> bool:
    """Whether an order may start, stop and move a job. An order ignores other jobs."""
    if live.job.together:
        return False
    if live.state == "running":
        return live.job.preemptible and not live.for_job and len(live.units) == 1
    return live.state == "pending"


class _Walk:
    """One walk along an order, on these stages; ``is_short``: all jobs need GPUs."""

    def __init__(
        self, stages: Stages, jobs: Mapping[str, Live], order: Order, is_short: bool
    ) -> None:
        self._stages, self._jobs, self._is_short = stages, jobs, is_short
        self._names, self._place, self._sharers = order.entries, order.place, order.sharers
        #: visited entries by position
        self._entries: dict[int, _Entry] = {}
        #: committed decisions by unit
        self.decisions: dict[str, _Decisions] = {}
        #: refusals, by the first job of each entry
        self.refused: dict[str, Refused] = {}
        #: GPUs of entries by position: of those not visited yet, and of the others
        self._behind: dict[int, int] = {}
        self._placed: dict[int, int] = {}
        #: positions of entries that started, left, or changed the jobs that they share GPUs with
        self._touched: set[int] = set()
        #: old places of units that left; after a restart on an empty cluster, their new places
        self._was: _Places = {}
        self._is_fresh = False
        #: upper bounds for idle GPUs, and for those of entries not visited yet
        self._idle, self._held = 0.0, 0
        self._known: dict[Any, Refused] = {}

    def run(self, running: Iterable[Live]) -> _Changes:
        """Start and stop jobs as the order says; ``running`` are all jobs that run."""
        stages, entries = self._stages, self._entries
        before: _Before = {}
        places: set[int] = set()
        rest: list[str] = []
        for live in running:
            if _may_be_ordered(live):
                name = live.job.name
                before[name] = live.units[0].placed, stages.members(name)
                at = self._place.get(name)
                if at is None:
                    rest.append(name)
                else:
                    places.add(at)
                    if not stages.by_stages:
                        entries[at] = (live,)
        others = [(self._jobs[name],) for name in sorted(rest)]
        for other in others:
            self._vacate(other)
        for at in sorted(places):
            if not stages.by_stages or self._stays(at):
                self._behind[at] = _gpus(entries[at])
            else:
                self._vacate_at(at)
        self._held = sum(self._behind.values())
        self._idle = self._room()
        self._go()
        return _changes([*map(self._entry, sorted(self._touched)), *others], before)

    def _entry(self, at: int) -> _Entry:
        """The jobs of an entry that the order may start and stop."""
        entry = self._entries.get(at)
        if entry is None:
            jobs = self._jobs
            lives = [jobs[name] for name in self._names[at] if name in jobs]
            entry = tuple([live for live in lives if _may_be_ordered(live)])
            are_others = len(entry) > 1 and lives != self._sharers.get(at)
            if are_others and self._stages.unlike([live.job for live in entry]):
                entry = entry[:1]  # the names belong to other jobs by now
            self._entries[at] = entry
        return entry

    def _room(self) -> float:
        room = self._stages.room()
        return inf if isinstance(room, float) else counted(room, True)

    def _go(self) -> None:
        names, jobs, behind = self._names, self._jobs, self._behind
        at, count = 0, len(names)
        left = self._idle + self._held
        while at < count:
            if at in behind:
                gpus = self._placed[at] = behind.pop(at)
                self._held -= gpus
                left -= gpus
            elif left <= 0.0 and self._is_short and not behind:
                return
            else:
                first = jobs.get(names[at][0])
                if first is None or _gpus_of(first) <= left:
                    entry = self._entry(at)
                    if entry and self._may_start(entry) and not self._serve(at, entry):
                        at = -1
                    left = self._idle + self._held
            at += 1

    def _may_start(self, entry: _Entry) -> bool:
        """Whether all jobs run that must start before these."""
        names = [name for live in entry for name in live.job.after]
        others = [self._jobs[name] for name in names if name in self._jobs]
        return all(
            live.units[0].placed and live.state != "reserved" and not live.has_stopped
            for live in others
            if not live.extra_of
        )

    def _stays(self, at: int) -> bool:
        """Whether an entry keeps its GPUs. If so, other jobs leave them, and its own jobs join."""
        entry = self._entry(at)
        holder = next((live.units[0] for live in entry if live.units[0].placed), None)
        if holder is None:
            return False  # an earlier entry has its GPUs
        members = self._stages.members(holder.name)
        leaving = [(self._jobs[name],) for name in members if self._jobs[name] not in entry]
        joining = [live for live in entry if live.job.name not in members]
        if not leaving and not joining:
            return True
        if not all(_may_be_ordered(live) for (live,) in leaving):
            return False
        if joining and not (self._stages.is_open(holder.name) and self._may_start(tuple(joining))):
            return False
        self._touched.add(at)
        for other in (*leaving, *((live,) for live in joining)):
            self._vacate(other)
        for live in joining:
            live.units[0].note(self._stages.log)
            self._stages.share(live.units[0], holder)
        return True

    def _serve(self, at: int, entry: _Entry) -> bool:
        """Start an entry if possible; False: begin the walk again on an empty cluster."""
        kind = self._stages.demand(entry[0].units[0])
        refused = self._known.get(kind)
        if refused is None:
            refused = self._start_somewhere(at, entry)
            if refused is None:
                self._placed[at] = _gpus(entry)
                return True
            places = None if self._is_fresh else self._place_for(at, range(at))
            if places is not None:
                self._begin_again(places)
                return False
            self._known[kind] = refused
        self.refused[entry[0].job.name] = refused
        return True

    def _start_somewhere(self, at: int, entry: _Entry) -> Refused | None:
        """Start an entry on idle GPUs, or those of later entries; else return the refusal."""
        refused: Refused | None = None
        if _gpus(entry) <= self._idle:
            refused = self._start(at, entry)
            if refused is None:
                return None
        if self._behind and (self._stages.puts_back or self._place_for(at, []) is not None):
            return self._start_without_those_behind(at, entry)
        return refused or self._start(at, entry)

    def _start_without_those_behind(self, at: int, entry: _Entry) -> Refused | None:
        """Start an entry after as few of the last entries as possible have left; or none leaves."""
        refused: Refused | None = None
        left: list[int] = []
        for other in reversed(list(self._behind)):
            self._held -= self._behind.pop(other)
            self._vacate_at(other)
            left.append(other)
            if _gpus(entry) <= self._idle:
                refused = self._start(at, entry)
                if refused is None:
                    return None
        if self._stages.puts_back:
            for other in reversed(left):
                self._start(other, self._entry(other))
                gpus = self._behind[other] = _gpus(self._entry(other))
                self._held += gpus
        return refused or self._start(at, entry)

    def _place_for(self, at: int, before: Sequence[int]) -> _Places | None:
        """The places of earlier entries with which this entry fits if all later entries leave; None
        if there are none. Changes nothing.

        :param before: entries to place before it; empty: entries keep their places.
        """
        left = self._idle + self._held + sum(self._placed.values())
        places: _Places = {}
        with self._stages.trial():
            for other in (*self._behind, *(self._placed if before else ())):
                for live in reversed(self._entry(other)):
                    self._stages.give_back(live.units[0], end=False)
            for other in before:
                for live in self._entry(other)[:1]:
                    trial = live.units[0].trial()
                    if _gpus_of(live) <= left:
                        started = self._stages.start(trial)
                        if isinstance(started, Started):
                            left -= _gpus_of(live)
                            places[trial.name] = trial.placed, started.decisions
            last = self._stages.start(self._entry(at)[0].units[0].trial())
        return places if isinstance(last, Started) else None

    def _begin_again(self, places: _Places) -> None:
        """Evict all jobs and walk again, with these new places of earlier entries."""
        for at in (*self._behind, *self._placed):
            self._vacate_at(at)
        self._behind.clear()
        self._placed.clear()
        self._known.clear()
        self.refused.clear()
        self._was = places if self._stages.puts_back else {}
        self._is_fresh = True
        self._idle, self._held = self._room(), 0

    # --- start and evict units

    def _start(self, at: int, entry: _Entry) -> Refused | None:
        first, *others = [live.units[0] for live in entry]
        for unit in (first, *others):
            unit.note(self._stages.log)
        placed, decisions = self._was.get(first.name, ((), ()))
        if not placed or not self._stages.put_back(first, placed):
            started = self._stages.start(first)
            if not isinstance(started, Started):
                return started
            decisions = started.decisions
        self.decisions[first.name] = decisions
        for unit in others:
            self._stages.share(unit, first)
        self._touched.add(at)
        self._idle -= _gpus(entry)
        return None

    def _vacate_at(self, at: int) -> None:
        entry = self._entry(at)
        self._touched.add(at)
        self._vacate(entry)
        self._idle += _gpus(entry)

    def _vacate(self, entry: _Entry) -> None:
        for live in reversed(entry):
            unit = live.units[0]
            if unit.placed:
                if not self._is_fresh:
                    self._was[unit.name] = unit.placed, ()
                heir = self._stages.give_back(unit, end=False)
                if heir:
                    self._jobs[heir].units[0].note(self._stages.log)
                    self._jobs[heir].units[0].is_placed = unit.is_placed
                unit.note(self._stages.log)
                unit.placed, unit.is_placed = (), False


def _gpus(entry: _Entry) -> int:
    return _gpus_of(entry[0])


def _gpus_of(live: Live) -> int:
    """GPUs in thousandths."""
    return counted(live.units[0].kind.amounts.get("gpu", 0), True)
