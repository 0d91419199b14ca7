"""Explains why a job waits and which change would let it start, and forecasts its start."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, islice, takewhile
from operator import attrgetter

from hivecore._arguments import LONGEST
from hivecore._record import Record
from hivecore._stateful import counted
from hivecore.decisions import Refusal
from hivecore.quotas.explanation import LimitChange
from hivecore.scheduler.job import Job, Where
from hivecore.scheduler.ledger.budgets import Budgets
from hivecore.scheduler.ledger.ends import end, has_stopped, stop
from hivecore.scheduler.ledger.kinds import least_of
from hivecore.scheduler.ledger.lines import queue_of
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.losses import Losses
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import start_beside, start_in_place
from hivecore.scheduler.rounds.reservations import give_up_late, start_reserved
from hivecore.scheduler.rounds.round import decide
from hivecore.scheduler.rounds.waking import as_held, may_preempt, might_have_victims
from hivecore.scheduler.search.fewest import Fewest
from hivecore.scheduler.search.victims import find_victims
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Kind, Refused, Unit

__all__ = ["JobChange", "JobExplanation", "cheapest_ends", "explain", "first_start"]

_MOST_ENDS = 512  # jobs whose end is tried
_MOST_ALONE = 64  # jobs that are tried one by one
_MOST_KINDS = 64  # kinds of requests that may take freed resources
_MOST_NODES = 16  # nodes that are tried one by one


class JobChange(Record, frozen=True):
    """A change that would let a job start now. It was tried.

    :param kind: "share": the job runs on the GPUs of these jobs once it is its turn. "release":
        these jobs end. "limits": these limits of quotas are raised. "nodes": these nodes become
        healthy. "relax": the job gives up these wishes. "evictions": these jobs may be evicted in
        spite of limits.
    :param relaxed: for "relax": a field of `Job.where`, or "per_node".
    :param cost: for "release" the GPU-seconds that are lost; else 0.
    :param ahead: for "release", "limits" and "nodes", waiting or reserved jobs that could start
        first, one for each kind of request; a pod above `Role.min_pods` that ends waits to start
        again. Empty: the change is enough.
    :param limits_of_evictions: for "evictions", the limits that protect these jobs, line by line.
    """

    kind: str
    jobs: tuple[str, ...] = ()
    limits: tuple[LimitChange, ...] = ()
    nodes: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    cost: float = 0.0
    ahead: tuple[str, ...] = ()
    limits_of_evictions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The change, in a line."""
        if self.kind == "share":
            return f"on the GPUs of {', '.join(self.jobs)}, which would share them"
        others = ", ".join(self.ahead)
        unless = f", and {others} did not start instead" if others else ""
        if self.kind == "release":
            return f"if {', '.join(self.jobs)} ended{unless}"
        if self.kind == "limits":
            raised = [
                f"{f'{change.limit} of {change.quota}' if change.quota else 'the total'} were "
                f"{change.dimension}: {change.amount}"
                for change in self.limits
            ]
            return f"if {', '.join(raised)}{unless}"
        if self.kind == "nodes":
            return f"if {', '.join(self.nodes)} were healthy{unless}"
        if self.kind == "evictions":
            why = " and ".join(self.limits_of_evictions)
            return f"if it might evict {', '.join(self.jobs)}, but {why}"
        return f"without {', '.join(self.relaxed)}"


class JobExplanation(Record, frozen=True):
    """Why a job waits.

    :param job: its name.
    :param state: see `Scheduler.state`.
    :param refusals: the promised start that it would delay, if any, then the first stage that
        refuses, then what later stages would say otherwise. Last "queues", if the job waits behind
        a job that blocks its queue, or is not in the order of `Scheduler.reorder`. If it runs, and
        pods that have failed wait for room near the others: why they do. Empty: it runs, or would
        start with the next `Scheduler.decide`.
    :param position: the number of jobs in front in its queue.
    :param changes: changes that would let it, or the failed pods, start now, if the jobs that they
        name do not start instead. Those that take nothing from other jobs come first. None if the
        job waits for others; behind a job that blocks its queue "share" alone.
    """

    job: str
    state: str
    refusals: tuple[Refusal, ...]
    position: int
    changes: tuple[JobChange, ...]

    @property
    def reason(self) -> str:
        """Why it waits, in a line; "" if it does not."""
        return self.refusals[0].reason if self.refusals else ""

    @property
    def text(self) -> str:
        """The explanation, line by line."""
        lines = [f"{self.job} is {self.state}"]
        if self.state == "pending":
            jobs = counted(self.position, "job", unless_none=True)
            lines[0] += f", behind {jobs} of its queue" if jobs else ", first in its queue"
        lines += [f"{refusal.stage}: {refusal.reason}" for refusal in self.refusals]
        what = "it" if self.state == "pending" else "its failed pods"
        lines += [f"{what} would start {change.text}" for change in self.changes]
        return "\n".join(lines)


def explain(state: State, live: Live) -> JobExplanation:
    """Explain why a job waits; the caller holds the lock."""
    job = live.job
    if live.state != "pending":
        return _of_failed_pods(state, live)
    unit = live.units[0]
    standing = state.queues.explain(unit.name, state.microseconds)
    held = blocked = ""
    search, position = _Search(state, job, unit), standing.position
    if state.order is not None:
        if job.name not in state.order.place:
            blocked = "is not in the order given to reorder"
    elif position and state.queues.blocking(queue_of(state, job)) == "fifo":
        blocked = f"is behind {standing.ahead!r}, which waits"
    if state.order is None and not state.waiting.refusal(unit.kind):
        held = standing.reason
    refusals = tuple(search.refusals())
    # while it waits for other jobs, changes do not let it start
    others = search.missing or search.companions or state.stopping_companion(live)
    alone = refusals and not (others or search.passed_by())
    changes: tuple[JobChange, ...] = ()
    if blocked or (held and not refusals):
        if alone and state.order is None:
            changes = tuple(search.shared())
        refusals = (*refusals, Refusal("queues", "order", held or blocked))
    elif alone:
        changes = tuple(search.changes())
    return JobExplanation(job.name, live.state, refusals, position, changes)


def _of_failed_pods(state: State, live: Live) -> JobExplanation:
    """Explain why failed pods of a running job wait, the first that are refused."""
    if live.held is not None:
        names = ", ".join(map(repr, live.victims))
        refusal = Refusal("scheduler", "stops", f"its failed pods wait for {names} to stop")
        return JobExplanation(live.job.name, live.state, (refusal,), 0, ())
    for unit in live.lost if not live.for_job else ():
        search = _Search(state, live.job, unit)
        with state.stages.trial():
            tried = start_in_place(state.stages, state.jobs, unit.trial())
        if isinstance(tried, Refused):
            refusal = as_held(state, live, unit, tried).refusal
            changes = tuple(search.changes_for_failed_pods())
            return JobExplanation(live.job.name, live.state, (refusal,), 0, changes)
    return JobExplanation(live.job.name, live.state, (), 0, ())


def cheapest_ends(state: State, tenant: str | None) -> Iterator[tuple[float, str]]:
    """See `Losses.cheapest`."""
    if state.losses is None:
        state.losses = Losses(state.running, state.stages.places_by_cells)
    return state.losses.cheapest(state.now, tenant)


class _Search:
    def __init__(self, state: State, job: Job, unit: Unit) -> None:
        self.state = state
        self.stages: Stages = state.stages
        self.jobs, self.running, self.now = state.jobs, state.running, state.now
        self.job, self.unit = job, unit
        live = self.jobs[job.name]
        self.missing = state.missing(live)
        self.companions = state.companions(live)

    def refusals(self) -> Iterator[Refusal]:
        """The refusals of each stage."""
        for name in self.missing:
            yield Refusal("scheduler", "after", f"waits for {name!r} to start", name)
        known = self.jobs[self.job.name].reported
        if known is not None and known.code == "together":
            yield known
        yield from self.passed_by()
        for refused in self.stages.refusals(self.unit):
            yield as_held(self.state, self.jobs[self.job.name], self.unit, refused).refusal

    def passed_by(self) -> tuple[Refusal, ...]:
        """The refusal of a job that would delay a promised start."""
        refusal = self.state.waiting.refusal(self.unit.kind)
        if refusal is None or refusal.code != "backfill" or refusal.part not in self.state.promised:
            return ()
        start = f"{refusal.reason}, which is to start at {self.state.promised[refusal.part]:g}"
        return (refusal.replace(reason=start),)

    def _starts(self, kind: Kind | None = None) -> bool:
        with self.stages.trial():
            trial = self.unit.trial(kind)
            return isinstance(start_in_place(self.stages, self.jobs, trial), Started)

    def changes(self) -> Iterator[JobChange]:
        """Changes that work, those that take nothing from other jobs first."""
        yield from self.shared()
        yield from self._relaxed()
        yield from self._healthy()
        yield from self._raised()
        yield from self._released()
        yield from self._protected()

    def changes_for_failed_pods(self) -> Iterator[JobChange]:
        """Changes that work for pods that have failed; their job keeps its quota and wishes."""
        yield from self._healthy()
        yield from self._released()
        yield from self._protected()

    def shared(self) -> Iterator[JobChange]:
        group = self.stages.best_group(self.job)
        if group is not None:
            yield JobChange("share", jobs=tuple(group.jobs))

    def _relaxed(self) -> Iterator[JobChange]:
        for wish, job in self._with_fewer_wishes():
            if self._starts(Kind(0, job, least_of(job))):
                yield JobChange("relax", relaxed=(wish,))

    def _with_fewer_wishes(self) -> Iterator[tuple[str, Job]]:
        where = self.job.where
        usual = Where()
        for wish in Where.__struct_fields__:
            if getattr(where, wish) != getattr(usual, wish):
                less = where.replace(**{wish: getattr(usual, wish)})
                yield wish, self.job.replace(where=less)
        if self.unit.kind.is_spread:
            roles = [role.replace(per_node=None) for role in self.job.roles]
            yield "per_node", self.job.replace(roles=roles)

    def _healthy(self) -> Iterator[JobChange]:
        bad = self.stages.unhealthy()
        if not bad or not self._starts_with_healthy(bad):
            return
        alone = ((node,) for node in bad[:_MOST_NODES])
        nodes = next(filter(self._starts_with_healthy, alone), bad)
        ahead = self._ahead((), partial(self._recover, nodes))
        yield JobChange("nodes", nodes=nodes, ahead=ahead)

    def _starts_with_healthy(self, nodes: tuple[str, ...]) -> bool:
        with self.stages.trial():
            self._recover(nodes)
            return self._starts()

    def _recover(self, nodes: tuple[str, ...]) -> None:
        for node in nodes:
            self.stages.set_health(node, True)

    def _raised(self) -> Iterator[JobChange]:
        for limits in self.stages.limit_changes(self.unit):
            change = partial(self.stages.raise_limits, self.job.quota, limits)
            with self.stages.trial():
                change()
                starts = self._starts()
            if starts:
                yield JobChange("limits", limits=limits, ahead=self._ahead((), change))
                return

    def _released(self) -> Iterator[JobChange]:
        """A minimal set of jobs to end, or one job that loses less; small losses come first."""
        tenant, losses = self._only_tenant(), dict[str, float]()

        def candidates() -> Iterator[str]:
            for lost, name in islice(cheapest_ends(self.state, tenant), _MOST_ENDS):
                if name != self.job.name:
                    losses[name] = lost
                    yield name

        search = Fewest(self.unit, self._end, self.jobs)
        freed = accumulate(self.running[name].job.gpus for name in candidates())
        guess = 1 + sum(1 for _ in takewhile(self.unit.kind.gpus.__gt__, freed))
        needed = search.least(self.stages, candidates, guess)
        if not needed:
            return
        cost = sum(losses[name] for name in needed)
        least = self.unit.kind.gpus - self.stages.available(self.unit.kind)
        for name in islice(candidates(), _MOST_ALONE) if len(needed) > 1 else ():
            may_do = losses[name] < cost and self.running[name].job.gpus >= least
            if may_do and search.starts_without(self.stages, [name]):
                needed, cost = [name], losses[name]
        yield JobChange("release", jobs=tuple(needed), cost=cost, ahead=self._ahead(needed))

    def _protected(self) -> Iterator[JobChange]:
        """The jobs that it could evict without limits on evictions."""
        state = self.state
        if not state.budgets.limits or not may_preempt(state, self.jobs[self.job.name], self.unit):
            return
        with self.stages.trial():
            refused = start_in_place(self.stages, self.jobs, self.unit.trial())
        if not isinstance(refused, Refused):
            return
        budgets, state.budgets = state.budgets, Budgets({}, state.log)
        try:
            victims, _ = find_victims(state, self.unit, refused)
        finally:
            state.budgets = budgets
        evicted = [self.jobs[name] for name in victims]
        why = tuple(budgets.reasons([e for e in evicted if e.extra_of not in victims], state.now))
        if why:
            yield JobChange("evictions", jobs=tuple(victims), limits_of_evictions=why)

    def _ahead(
        self, ended: Sequence[str], change: Callable[[], None] | None = None
    ) -> tuple[str, ...]:
        """One waiting job of each kind that could start after a change, once reserved jobs have."""
        names: dict[str, None] = {}
        weak: list[str] = []
        kinds: set[int] = set()
        # a pod above the least waits again, in its old place
        extras = {name for name in ended if self.jobs[name].extra_of}
        gone = {self.job.name, *ended} - extras
        with self.state.trial():
            if change is not None:
                change()
            names |= dict.fromkeys(self._begin_round(ended))
            self.state.relief = None  # counts of before
            takes_back, behind = cache(self._takes_back), self._behind()
            for live, unit in self._waiting():
                if unit.name in behind and not self._may_pass(live):
                    continue
                number = unit.kind.number
                if live.job.name in gone or number in kinds or self.state.missing(live):
                    continue
                may_be_undone = self.state.immediate or not live.runs
                is_weak = unit.kind.is_lent or not live.job.guaranteed
                if may_be_undone and is_weak and takes_back():
                    weak.append(live.job.name)
                    continue  # a round takes back what such a unit starts on, if that is enough
                if len(kinds) == _MOST_KINDS:
                    break
                kinds.add(number)
                relief, lent = self.state.relief, live.lent
                if lent is not None and not lent.placed:
                    lent = None
                with self.stages.trial():
                    if lent is not None:
                        self.stages.vacate(lent)  # it gets its own cells instead
                        self.state.relief = None
                    tried = start_beside(self.stages, self.jobs[unit.job], unit.trial())
                    if isinstance(tried, Started) or self._may_evict(live, unit, tried):
                        names[live.job.name] = None
                if lent is not None:
                    self.state.relief = relief
        return tuple(names) or self._instead(weak, ended, change)

    def _instead(
        self, weak: Sequence[str], ended: Sequence[str], change: Callable[[], None] | None
    ) -> tuple[str, ...]:
        """Those of the opportunistic jobs that start in the round after a change, if the job that
        could take back what they start on does not.
        """
        if not weak:
            return ()
        state = self.state
        with state.trial():
            if change is not None:
                change()
            self._begin_round(ended)
            state.waiting.touch_all()
            decide(state, state.now, -1)
            if self.job.name not in self.jobs or self.jobs[self.job.name].runs:
                return ()
            return tuple(name for name in weak if name in self.jobs and self.jobs[name].runs)

    def _begin_round(self, ended: Sequence[str]) -> list[str]:
        """End jobs, and start those whose victims have stopped, as the next round does first.

        :returns: the jobs that have started on what these free, as nothing was held for them.
        """
        state = self.state
        unplaced = [live for live in state.reserved.values() if not live.units[0].placed]
        state.happens(state.now)
        for name in ended:
            live = self.jobs.get(name)  # an extra pod may have ended with its job
            if live is not None and live.extra_of and live.extra_of not in ended:
                stop(state, live)
            elif live is not None:
                end(state, live)
        start_reserved(state)
        give_up_late(state)
        return [live.job.name for live in unplaced if live.runs]

    def _behind(self) -> frozenset[str]:
        """The units behind this one in its queue, which a round offers later."""
        if self.unit.name not in self.state.queues:
            return frozenset()
        queue = queue_of(self.state, self.job)
        names = [queued.name for queued in self.state.queues if queued.tenant == queue]
        return frozenset(names[names.index(self.unit.name) :])

    def _may_pass(self, live: Live) -> bool:
        """Whether a job behind this one may evict it, or is of another quota and may reclaim."""
        job = live.job
        is_stronger = job.priority > self.job.priority or (job.guaranteed > self.job.guaranteed)
        return is_stronger or job.quota != self.job.quota

    def _takes_back(self) -> bool:
        """Whether the job may evict opportunistic jobs that start before it in the round."""
        stops = self.stages.reclaims and any(live.for_job for live in self.running.values())
        may_evict = self.state.preemption and self.job.guaranteed and not stops
        return may_evict and not self.state.budgets.limits

    def _waiting(self) -> Iterator[tuple[Live, Unit]]:
        """The units that the round may start, in order of arrival of their jobs."""
        queued = self.state.queued
        owners = {unit.owner for unit in queued.values()}
        for live in sorted([self.jobs[name] for name in owners], key=attrgetter("number")):
            for unit in live.all_units:
                if unit.name in queued:
                    yield live, unit

    def _may_evict(self, live: Live, unit: Unit, refused: Refused) -> bool:
        """Whether jobs might be evicted for a refused unit. A quick check."""
        state = self.state
        return may_preempt(state, live, unit) and might_have_victims(state, unit, refused)

    def _only_tenant(self) -> str | None:
        """The only tenant with jobs that may help if they end; ``None``: those of any tenant."""
        if not (self.stages.places_by_cells and self.job.guaranteed):
            return None
        with self.stages.trial():
            tried = start_in_place(self.stages, self.jobs, self.unit.trial())
        if not isinstance(tried, Refused) or tried.refusal.stage != "cells":
            return None
        return None if tried.cell_victims else self.job.tenant

    def _end(self, stages: Stages, names: Sequence[str]) -> None:
        for name in names:
            for unit in self.jobs[name].placed:
                stages.give_back(unit, end=True)


def first_start(state: State, live: Live) -> float | None:
    """When a job would start, in seconds, as running jobs end by estimate; ``None``: unknown."""
    with state.trial():
        _settle(state, state.now)
        while not live.runs:
            if state.jobs.get(live.job.name) is not live:
                return None  # it was rejected
            ends = [
                (max(state.now, other.since + other.job.run_time), name)
                for name, other in state.running.items()
                if other.job.run_time is not None
            ]
            now = min([state.wake_at, *(time for time, _ in ends)])
            if now > LONGEST:
                return None
            for time, name in sorted(ends):
                if time == now:
                    state.happens(now)
                    end(state, state.jobs[name])
            _settle(state, now)
        return live.since


def _settle(state: State, now: float) -> None:
    """Decide until nothing changes; victims stop at once."""
    while True:
        decide(state, now, -1)
        stopping = [live for live in state.jobs.values() if live.for_job and not live.has_stopped]
        if not stopping:
            return
        for live in stopping:
            if not live.has_stopped:  # it stopped with its job
                has_stopped(state, live)
