"""Backfilling: waiting jobs get promised starts, which later jobs must not delay.

A waiting job is promised the earliest time at which it can start if running jobs end by their
estimates. A job that is no more important may start before that if all promised jobs still start in
time, since it ends before, or uses what they do not need. One promise is EASY backfilling, many are
conservative backfilling.

Promises are renewed when a job ended earlier or later than estimated, a promised job was cancelled,
the cluster changed, a more important job started, one ahead in a strict queue started, a job
started that could evict the promised one, which would borrow, or requests have changed what quotas
allow. All of these can delay them; an earlier end can do so only if there are several, as jobs then
get other places. Jobs that were refused because of a promise are retried if it is delayed; not if
another job has just started, even where they would now get other nodes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby, islice
from math import inf
from operator import itemgetter
from typing import Self

from hivecore.decisions import Refusal
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.lines import (
    came,
    displaced_by,
    park,
    queue_of,
    wait,
    wait_by_itself,
    wake_kind,
)
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import leave, start_beside
from hivecore.scheduler.search.fewest import Fewest
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import FREED, Refused, Unit

__all__ = [
    "has_overdue",
    "has_to_keep_promises",
    "offer_like",
    "outdate_less_important",
    "pass_by",
    "promise",
    "promise_broken",
    "renew",
    "renew_broken",
    "retry_overdue",
]

#: ends of jobs at which a start after earlier promises is tried
_MOST_TIMES = 256
#: jobs of a kind that are offered singly, as they may delay no promised job
_MOST_ABLE = 64

_Promise = tuple[float, str]


def has_to_keep_promises(state: State, live: Live) -> bool:
    """Whether a job as important as this was promised a start."""
    return bool(state.promised) and any(_promises_beside(state, live))


def _promises_beside(state: State, live: Live) -> Iterator[_Promise]:
    """Promises that a job must not break."""
    for name, time in state.promised.items():
        other = state.jobs[name]
        is_as_important = other is not live and other.job.priority >= live.job.priority
        if is_as_important and not _waits_behind(state, other, live):
            yield time, name


def _waits_behind(state: State, other: Live, live: Live) -> bool:
    """Whether a waiting job cannot pass an offered one, as both are in a queue in strict order."""
    queue = queue_of(state, live.job)
    is_strict = not live.runs and state.queues.blocking(queue) == "fifo"
    return is_strict and queue_of(state, other.job) == queue


def promise_broken(state: State, live: Live, unit: Unit) -> str:
    """The name of a job that would start later than promised if a unit started now; "" if none."""
    if not state.promised:
        return ""
    first = min(_promises_beside(state, live), default=None)
    if first is None:  # the job may break all promises
        state.log.set(state, "are_promises_new", False)
        return ""
    if not state.are_promises_new or has_overdue(state, state.now):
        renew(state)
    delayed = _delayed(state, live, unit)
    if delayed and not _are_kept(state, sorted(_promises_beside(state, live))):
        renew(state)  # requests have changed what quotas allow
        delayed = _delayed(state, live, unit)
    return delayed


def _delayed(state: State, live: Live, unit: Unit) -> str:
    """The name of a job that would start later than promised if a unit started now; "" if none."""
    promises = sorted(_promises_beside(state, live))
    if not promises or state.end_of(live) <= promises[0][0]:
        return ""
    trial = unit.trial()
    with state.stages.trial():
        if (unit is live.units[0] or unit is live.lent) and not live.extra_of:
            _leave_idle_cells(state.stages, live)
            started = state.stages.start(trial)
        else:
            started = start_beside(state.stages, state.jobs[unit.job], trial)
        if not isinstance(started, Started):
            return ""
        beside = state.end_of(live), trial
        delayed = _broken(state, promises, beside)
        may_reclaim = state.preemption and state.stages.may_exceed and not _borrows(started)
        if not (delayed and may_reclaim):
            return delayed
        delayed = _broken(state, promises, beside, live.job.quota)
    if not delayed:
        state.log.set(state, "are_promises_new", False)
    return delayed


def _are_kept(state: State, promises: list[_Promise]) -> bool:
    """Whether these jobs can start when promised; known until something changes."""
    if state.kept_promises != promises:
        if _broken(state, promises):
            return False
        state.kept_promises = promises
    return True


def _borrows(started: Started) -> bool:
    """Whether a unit has started beyond what its quota is entitled to."""
    return any(part.borrows for stage, part in started.decisions if stage == QuotaStage.name)


def renew(state: State) -> None:
    """Renew all promises, earlier or later, those of more important jobs before the others."""
    state.log.set(state, "are_promises_new", True)
    promises: list[_Promise] = []
    by_priority = sorted(_in_time(state), key=lambda entry: -_priority(state, entry))
    for _, group in groupby(by_priority, lambda entry: _priority(state, entry)):
        known = list(group)
        new = [entry for entry in known if entry[1] not in {name for _, name in promises}]
        kept = sorted([*promises, *new])
        if not _broken(state, kept):
            promises = kept
        for _, name in known:
            promises = _renewed(state, state.jobs[name], promises)
    before = state.promised
    state.log.set(state, "promised", {name: time for time, name in promises})
    if dropped := before.keys() - state.promised.keys():
        state.log.set(state, "may_promise", True)
        state.dropped |= dropped
    _retry_delayed(state, before)


def _renewed(state: State, live: Live, promises: list[_Promise]) -> list[_Promise]:
    """The promises, with the earliest start of a job and of those that start together with it."""
    # a reserved job starts once its victims have gone, whatever is promised
    companions = (other for other in state.companions(live) if other.state != "reserved")
    lives = [live, *companions]
    names = {live.job.name for live in lives}
    others = [entry for entry in promises if entry[1] not in names]
    known = [time for time, name in promises if name in names]
    until = max(known) if len(known) == len(names) else inf  # they keep that time otherwise
    time = _earliest(state, lives, others, until)
    return promises if time is None else sorted([*others, *((time, name) for name in names)])


def _priority(state: State, promise: _Promise) -> int:
    return state.jobs[promise[1]].job.priority


def _importance(state: State, promised: Iterable[str]) -> dict[str, int]:
    """The priorities of promised jobs, or of more important ones that start together with them."""
    importance = {name: state.jobs[name].job.priority for name in promised}
    for name in promised:
        live = state.jobs[name]
        for other in state.companions(live) if live.job.together else ():
            known = importance.get(other.job.name, live.job.priority)
            importance[other.job.name] = max(known, live.job.priority)
    return importance


def _in_time(state: State) -> list[_Promise]:
    """All promises in order; overdue ones are for now."""
    return sorted((max(time, state.now), name) for name, time in state.promised.items())


def has_overdue(state: State, now: float) -> bool:
    """Whether the time of a promised start has passed, as running jobs end later than estimated."""
    return bool(state.promised) and min(state.promised.values()) < now


def retry_overdue(state: State) -> None:
    """Retry jobs that would have delayed starts now overdue, before later jobs pass them."""
    late = [("started", name) for name, time in state.promised.items() if time < state.now]
    state.waiting.touch(late)


def renew_broken(state: State) -> None:
    """If new jobs break promises that others wait for, renew these and retry the others."""
    is_waited_for = any(("started", name) in state.waiting.by_key for name in state.promised)
    if is_waited_for and not _are_kept(state, _in_time(state)):
        renew(state)


def _retry_delayed(state: State, before: Mapping[str, float]) -> None:
    """Retry jobs that would have delayed starts which are promised no more, or only for later."""
    after = state.promised
    late = [name for name, time in before.items() if max(time, state.now) < after.get(name, inf)]
    state.waiting.touch([("started", name) for name in late])


def promise(state: State, live: Live) -> None:
    """Promise a start to a refused job and its companions, unless its queue has enough promises."""
    lives = [live, *state.companions(live)]
    names = {member.job.name for member in lives}
    waits = any(member.state == "reserved" or {*state.missing(member)} - names for member in lives)
    # a promise that was given in this round and could not be kept is not given again
    if live.job.name in state.promised or live.job.name in state.dropped or waits:
        return
    promised = {other: time for other, time in state.promised.items() if other not in names}
    behind = [name for name in promised if _waits_behind(state, state.jobs[name], live)]
    for other in behind:
        del promised[other]
    if (displaced := displaced_by(state, live.job, promised)) is None:
        return
    promised.pop(displaced, None)
    importance = _importance(state, promised)
    ahead = [
        (max(time, state.now), other)
        for other, time in promised.items()
        if importance[other] >= live.job.priority
    ]
    is_ahead_of_others = len(ahead) < len(promised)
    time = _earliest(state, lives, ahead)
    # a companion keeps an earlier promise, or groups would take it from each other for ever
    if any(state.promised.get(name, inf) < (inf if time is None else time) for name in names):
        return
    if time is not None:
        promised |= dict.fromkeys(sorted(names), time)
    elif not behind:  # another job keeps its promise
        return
    before = state.promised
    state.log.set(state, "promised", promised)
    if is_ahead_of_others:
        state.outdate_promises()
    _retry_delayed(state, before)


def outdate_less_important(state: State, live: Live) -> None:
    """Outdate promises to jobs that are less important than one that starts."""
    if any(state.jobs[name].job.priority < live.job.priority for name in state.promised):
        state.log.set(state, "are_promises_new", False)


def offer_like(state: State, live: Live, unit: Unit) -> None:
    """Offer the next job of a kind after a promised one was refused: it may get a promise, too."""
    kind, refused = unit.kind, state.waiting.refused(unit.kind)
    if refused is None or kind.is_alone or state.waiting.is_only(kind):
        return
    if live.job.name in state.promised and displaced_by(state, live.job) is not None:
        for like in [state.queued[name] for name in state.waiting.names(kind)]:
            if like.owner in state.promised:
                wait_by_itself(state, like)
                park(state, like.kind, refused)
        if state.waiting.refusal(kind) is not None:
            wake_kind(state, kind)


def _end(now: float, job: Job) -> float:
    return inf if job.run_time is None else now + job.run_time


def _ends(state: State) -> list[tuple[float, str]]:
    """Estimated ends of running jobs in order, without victims."""
    now = state.now
    return sorted(
        (max(now, end), name)
        for name, live in state.running.items()
        if not live.for_job and (end := state.end_of(live)) < inf
    )


def _earliest(
    state: State, lives: Sequence[Live], promises: list[_Promise], until: float = inf
) -> float | None:
    """When jobs can start together before a time, with all promises kept; ``None``: unknown."""
    names = {live.job.name for live in lives}
    ends = [end for end in _ends(state) if end[1] not in names]
    alone = (_earliest_alone(state, live, ends) for live in lives)
    firsts = [time for time in alone if time is not None]
    if len(firsts) < len(lives):
        return None
    first = max(firsts)
    if len(lives) == 1 and not promises:
        return first
    times = {state.now, *(time for time, _ in ends)}
    times |= {_end(time, state.jobs[name].job) for time, name in promises}
    course, later = _Course(state), sorted(promises)
    with state.stages.trial():
        for time in islice(sorted(time for time in times if first <= time < until), _MOST_TIMES):
            earlier = bisect_left(later, (time, ""))
            if course.broken(later[:earlier]):
                return None
            del later[:earlier]
            course.end_until(time)
            with state.stages.trial():
                if not course.copy().broken(sorted([*later, *((time, name) for name in names)])):
                    return time
    return None


def _earliest_alone(state: State, live: Live, ends: Sequence[tuple[float, str]]) -> float | None:
    """When a job can start, without promises."""

    def end(stages: Stages, names: Sequence[str]) -> None:
        for name in names:
            leave(stages, state.jobs[name])

    search = Fewest(live.units[0], end, state.jobs)
    with state.stages.trial():
        _leave_idle_cells(state.stages, live)
        if search.starts_without(state.stages, ()):
            return state.now
        ended = search.first(state.stages, [name for _, name in ends])
        return ends[len(ended) - 1][0] if ended else None


def _leave_idle_cells(stages: Stages, live: Live) -> None:
    """Release the idle cells that a job runs on, as it will get others."""
    if live.lent is not None and live.lent.placed:
        stages.vacate(live.lent)


def _broken(
    state: State,
    promises: list[_Promise],
    beside: tuple[float, Unit] | None = None,
    quota: str | None = None,
) -> str:
    """The first job that cannot start when promised, if others run to their ends; "" if none.

    :param beside: when another unit ends, and the unit, which holds its resources.
    :param quota: the quota of that unit, if it could evict jobs of others that borrow: these may be
        delayed.
    """
    course = _Course(state)
    if beside is not None:
        course.add(*beside)
    with state.stages.trial():
        return course.broken(promises, quota)


class _Course:
    """What happens in a trial, if running jobs run to their ends."""

    def __init__(self, state: State) -> None:
        self.state = state
        #: times and names; of a unit of which the job does not run yet, the unit
        self.ends: list[tuple[float, str, Unit | None]] = [(*end, None) for end in _ends(state)]
        self.ended: set[str] = set()

    def copy(self) -> Self:
        """A copy for a trial within the trial."""
        course = copy(self)
        course.ends, course.ended = self.ends.copy(), self.ended.copy()
        return course

    def add(self, end: float, unit: Unit) -> None:
        """Add a unit that holds its resources."""
        self._drop(unit.name)  # it left idle cells
        insort(self.ends, (end, unit.name, unit))

    def _drop(self, name: str) -> None:
        self.ends = [end for end in self.ends if end[1] != name]

    def broken(self, promises: list[_Promise], quota: str | None = None) -> str:
        """Start jobs when promised, in this order. The first that cannot start; "" if all can."""
        stages = self.state.stages
        for time, name in promises:
            live = self.state.jobs[name]
            self.end_until(time)
            if name in self.ended:  # on idle cells
                continue
            if name in self.state.running:
                self._drop(name)
            _leave_idle_cells(stages, live)
            waiting = live.units[0].trial()
            if not isinstance(stages.start(waiting), Started):
                if quota is None or live.job.quota == quota or not stages.borrows(waiting):
                    return name
                continue
            insort(self.ends, (_end(time, live.job), name, waiting))
        return ""

    def end_until(self, time: float) -> None:
        """Let running jobs end that end at or before a time."""
        while self.ends and self.ends[0][0] <= time:
            _, name, unit = self.ends.pop(0)
            if unit is not None:
                self.state.stages.give_back(unit, end=False)
                continue
            leave(self.state.stages, self.state.jobs[name])
            self.ended.add(name)


def pass_by(state: State, live: Live, unit: Unit, name: str) -> None:
    """Let a unit wait that would delay a promised job, with all units of its kind. Those with
    promises, and those that end before the promised start, are offered singly.
    """
    refusal = Refusal("scheduler", "backfill", f"would delay {name!r}", name)
    if (unit is live.units[0] or unit is live.lent) and not unit.kind.is_alone:
        until = state.promised[name]
        likes = [state.queued[like] for like in state.waiting.names(unit.kind) if like != unit.name]
        able = [
            (state.jobs[like.owner].number, like)
            for like in likes
            if like.owner in state.promised or state.end_of(state.jobs[like.owner]) <= until
        ]
        for _, like in sorted(able, key=itemgetter(0))[:_MOST_ABLE]:
            wait_by_itself(state, like)
    wait(state, live, unit, Refused(refusal, (FREED, ("started", name), came(unit.kind))))
