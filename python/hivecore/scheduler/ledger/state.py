"""All that a scheduler knows of jobs; the files beside this one change it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from math import inf
from typing import Any, TypeVar

from hivecore._arguments import as_float
from hivecore._trial import Transaction, Trials
from hivecore.decisions import Refusal
from hivecore.errors import InvariantError
from hivecore.queues import TenantQueues
from hivecore.scheduler.actions import Action, Start, Wait
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.budgets import Budgets
from hivecore.scheduler.ledger.kinds import Kinds
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.losses import Losses
from hivecore.scheduler.ledger.precedence import OUTSIDE, Precedence
from hivecore.scheduler.ledger.transitions import (
    GONE,
    LENT,
    PENDING,
    RESERVED,
    RUNNING,
    TRANSITIONS,
)
from hivecore.scheduler.ledger.waiting import Waiting
from hivecore.scheduler.moves.fragments import Defragmentation, Fragments
from hivecore.scheduler.orders.ordering import Order
from hivecore.scheduler.search.bound import Relief
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Key, Unit, has_unit, owners_of

__all__ = ["LATEST", "MICRO", "State"]

_Result = TypeVar("_Result")
#: The latest time that there is, in seconds.
LATEST = 2.0**40
#: Queues count microseconds.
MICRO = 1_000_000
#: By state the list of the jobs in it; the jobs in other states are not listed.
_LISTS = {RUNNING: "running", LENT: "running", RESERVED: "reserved"}
_MOST_CHANGES = 4096  # before `Losses` are listed again


class State(Trials):
    """The jobs of a scheduler, its queues and its parts.

    :param queues: ``None``: all jobs wait in one queue.
    :param lending: whether jobs that wait may meanwhile run on idle cells.
    :param immediate: whether victims stop at once.
    :param preemption: whether jobs may be evicted for others.
    :param patience: for how many seconds a job waits for its victims to stop.
    :param fragments: what victims are to leave few of.
    :param backfill: to how many waiting jobs of each queue a start is promised.
    :param limits: by quota how often, and how soon, its jobs may be evicted.
    """

    #: the parts and queues have locks of their own
    _lock = nullcontext()

    __slots__ = (
        "apart",
        "are_promises_new",
        "backfill",
        "begun",
        "budgets",
        "came",
        "charges_time",
        "defragmentation",
        "draining",
        "fragments",
        "has_queues",
        "immediate",
        "jobs",
        "kinds",
        "lending",
        "like_units",
        "log",
        "losses",
        "may_promise",
        "now",
        "order",
        "outbox",
        "patience",
        "precedence",
        "preemption",
        "promised",
        "queued",
        "queues",
        "regroup_for",
        "rejected",
        "relief",
        "reserved",
        "running",
        "stages",
        "unsaid",
        "untold",
        "waiting",
        "wake_at",
    )

    def __init__(
        self,
        stages: Stages,
        queues: TenantQueues | None,
        *,
        lending: bool,
        immediate: bool,
        preemption: bool,
        patience: float = inf,
        backfill: int = 0,
        limits: Mapping[str, EvictionLimit] | None = None,
        fragments: Fragments | None = None,
    ) -> None:
        self.stages, self.log = stages, stages.log
        self.has_queues = queues is not None
        self.queues = TenantQueues() if queues is None else queues
        #: whether the queues are to be told when jobs end
        self.charges_time = self.queues.charges_time
        #: the units that may run on idle cells meanwhile
        self.lending = TenantQueues(order="arrival") if lending else None
        self.immediate, self.preemption, self.patience = immediate, preemption, patience
        self.backfill, self.fragments = backfill, fragments
        self.budgets = Budgets(limits or {}, self.log)
        #: when all kinds are to be offered again, as more jobs may be evicted then
        self.wake_at = inf
        #: by job when it starts at the latest, if estimates are right; see `rounds.backfill`
        self.promised: dict[str, float] = {}
        #: whether nothing has happened since that might change it
        self.are_promises_new = True
        #: whether all kinds are to be offered again, as the next job may get a promise
        self.may_promise = False
        self.kinds = Kinds(self.log, stages.by_stages, stages.hosts, stages.gpu_memory)
        self.waiting = Waiting(stages.lacks(), self.log)
        stages.listener = self.waiting
        self.jobs: dict[str, Live] = {}
        #: the jobs whose names units of a job might have, by the name of that job
        self.like_units: dict[str, set[str]] = {}
        #: how many have come
        self.came = 0
        #: the units that wait in a queue
        self.queued: dict[str, Unit] = {}
        #: of these, units that wait by themselves until they may do as much as equal ones
        self.apart: dict[str, Unit] = {}
        #: the jobs whose victims have to stop
        self.reserved: dict[str, Live] = {}
        #: the most that running jobs would free; None: not counted
        self.relief: Relief | None = None
        #: what is lost when running jobs end; None: not listed
        self.losses: Losses | None = None
        self.running: dict[str, Live] = {}
        #: the jobs that have stopped, until the reason for which they wait was returned
        self.untold: dict[str, Live] = {}
        #: the actions that the next decide returns
        self.outbox: list[Action] = []
        #: which job was evicted for which
        self.precedence = Precedence(self.log)
        #: by job, its start in this round, while it can be undone without others
        self.begun: dict[str, Start] = {}
        #: the starts in this round that are not returned: their jobs were evicted
        self.unsaid: list[Start] = []
        #: the jobs that the outbox rejects
        self.rejected: set[str] = set()
        self.now = 0.0
        #: for how many seconds new groups of jobs are to last; 0.0: groups stay
        self.regroup_for = 0.0
        #: by node that is drained the time until which jobs may end there
        self.draining: dict[str, float] = {}
        #: by which terms the next decide moves jobs; None: none moves
        self.defragmentation: Defragmentation | None = None
        #: the order in which jobs run; None: the queues choose
        self.order: Order | None = None

    def moment(self, now: object) -> float:
        """Check a time: it does not go back."""
        moment = now if type(now) is float else as_float(now, "now")
        if not self.now <= moment <= LATEST:
            raise ValueError(f"now={moment!r}: allowed are {self.now!r} to 2**40 seconds")
        return moment

    def happens(self, moment: float) -> None:
        """Note an external event, at a time that is checked."""
        self.now = moment
        if self.relief is not None:
            self.relief.is_stale = True
        if self.precedence.order:
            self.precedence.clear()
            self.waiting.touch((OUTSIDE,))

    # --- changes

    def turn(self, live: Live, transition: str) -> None:
        """Change the state of a job; see `TRANSITIONS`.

        :raises InvariantError: it is in a state from which there is no such transition.
        """
        step, name, before = TRANSITIONS[transition], live.job.name, live.state
        if before not in step.sources:
            raise InvariantError(f"job {name!r} is {before}: no transition {transition!r}")
        live.note(self.log)
        live.state = step.target
        old, new = _LISTS.get(before), _LISTS.get(step.target)
        if old != new:
            if old is not None:
                jobs = getattr(self, old)
                self.log.keep(jobs, name)
                del jobs[name]
            if new is not None:
                jobs = getattr(self, new)
                self.log.keep(jobs, name)
                jobs[name] = live
        if self.losses is not None or self.relief is not None:
            self.note_change(name)
        if name in self.promised and step.target not in (PENDING, LENT):
            self.promise_no_more(name)
        if step.reads or (step.reads is False and old == "running"):
            self.stages.read(name, step.reads)
        if step.target == GONE:
            self.log.note(self._bring_back, live)
            self.drop(live)
            if live.extra_of in self.jobs:
                self.jobs[live.extra_of].extras.pop(name, None)
            self.stages.go(name)
        if step.event and self.waiting.by_key:
            self.waiting.touch(((step.event, name),))

    def restart(self, live: Live, now: float) -> None:
        """A running job has stopped and starts again elsewhere: it begins from nothing."""
        live.note(self.log)
        live.pause(now)
        self.note_change(live.job.name)
        self.count_again()
        self.outdate_promises()
        for runs in (False, True):
            self.stages.read(live.job.name, runs)

    def promise_no_more(self, name: str) -> None:
        """Take back what was promised to a job, so that another job gets a promise."""
        if name in self.promised:
            left = {other: time for other, time in self.promised.items() if other != name}
            self.log.set(self, "promised", left)  # an undo keeps their order
            self.log.set(self, "may_promise", True)

    def outdate_promises(self) -> None:
        """Running jobs end at other times, or are elsewhere: compute promises again, and try jobs
        again that would have delayed these.
        """
        if self.promised:
            self.log.set(self, "are_promises_new", False)
            self.waiting.touch([("started", name) for name in self.promised])

    def note_change(self, name: str) -> None:
        """Note that a running job has another start or other pods, has to stop, or has stopped."""
        if self.losses is not None:
            self.losses.changed.add(name)
            if len(self.losses.changed) > _MOST_CHANGES:
                self.losses = None
        if self.relief is not None:
            self.relief.changed.add(name)
            if len(self.relief.changed) > _MOST_CHANGES:
                self.relief = None

    def end_of(self, live: Live) -> float:
        """When a job that runs, or would start now, ends by its estimate; inf: it is not known.
        Pods above the least end with their job.
        """
        whole = self.jobs[live.extra_of] if live.extra_of else live
        begun = whole.since if whole.runs else self.now
        return inf if whole.job.run_time is None else begun + whole.job.run_time

    def drain(self, node: str, by: float | None) -> None:
        """Let jobs leave a node; a time: those that end until then may end there; ``None``: let
        them stay.
        """
        draining = {other: until for other, until in self.draining.items() if other != node}
        if by is not None:
            draining[node] = by
        self.log.set(self, "draining", draining)  # an undo keeps their order

    def count_again(self) -> None:
        """Note that a job has given something back."""
        if self.relief is not None:
            self.relief.is_stale = True

    def _bring_back(self, live: Live) -> None:
        """A job is known again, at its place among those that have come."""
        self._put(live)
        _sort(self.jobs)
        if live.extra_of in self.jobs:
            extras = self.jobs[live.extra_of].extras
            extras[live.job.name] = live
            _sort(extras)

    def add(self, live: Live) -> None:
        """Add a job."""
        if self.log.is_on:
            self.log.add((self.drop, live))
        self.came += 1
        live.number = self.came
        self._put(live)
        if self.waiting.by_key:
            self.waiting.touch((("stopped", live.job.name),))

    def _put(self, live: Live) -> None:
        """A job is known by its name."""
        self.jobs[live.job.name] = live
        for owner, _ in owners_of(live.job.name) if "/" in live.job.name else ():
            self.like_units.setdefault(owner, set()).add(live.job.name)

    def drop(self, live: Live) -> None:
        """Its name is free."""
        del self.jobs[live.job.name]
        for owner, _ in owners_of(live.job.name) if "/" in live.job.name else ():
            self.like_units[owner].discard(live.job.name)
            if not self.like_units[owner]:
                del self.like_units[owner]

    def name_in_use(self, job: Job) -> str:
        """Why a job cannot have its name beside those that are known; "": it can."""
        lending = self.lending is not None
        for owner, called in owners_of(job.name) if "/" in job.name else ():
            live = self.jobs.get(owner)
            if (
                live is not None
                and not live.extra_of
                and has_unit(live.job, called, lending=lending)
            ):
                return f"pods of {owner!r} may have this name"
        for name in sorted(self.like_units.get(job.name, ())):
            called = dict(owners_of(name))[job.name]
            if not self.jobs[name].extra_of and has_unit(job, called, lending=lending):
                return f"its pods may have the name of the job {name!r}"
        return ""

    def enqueue(self, unit: Unit) -> None:
        """Note that a unit is in a queue."""
        if self.log.is_on:
            self.log.keep(self.queued, unit.name)
        self.queued[unit.name] = unit

    def dequeue(self, name: str) -> Unit:
        """Note that a unit is in no queue."""
        self.log.keep(self.queued, name)
        return self.queued.pop(name)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to decide."""
        if (
            self.reserved
            or self.regroup_for
            or self.draining
            or self.defragmentation is not None
            or self.order is not None
            or self.may_promise
            or self.outbox
        ):
            return False
        if self.queues.offers or self.waiting.touched or self.stages.is_stale:
            return False
        return self.lending is None or not self.lending.offers

    def transaction(self) -> Transaction:
        """A trial whose changes to jobs, queues and parts stay unless an exception ends it."""
        return Transaction(self)

    def keep(self, change: Callable[..., _Result], *arguments: Any) -> _Result:
        """What a function of this state returns; an error undoes all of its changes."""
        mark = self._mark()
        try:
            result = change(self, *arguments)
        except BaseException:
            self._rewind(mark)
            raise
        self._keep(mark)
        return result

    def _mark(self) -> tuple[Any, ...]:
        outbox = self.outbox, len(self.outbox)
        fields = self.now, self.regroup_for, self.order, self.wake_at, self.defragmentation
        in_round = self.begun.copy(), [*self.unsaid], self.rejected.copy()
        parts, queues = self.stages.mark(), []
        for queue in (self.queues, self.lending):
            if queue is not None:
                queue._lock.__enter__()
                queues.append((queue, queue._mark()))
        return parts, queues, outbox, fields, in_round

    def _keep(self, mark: tuple[Any, ...]) -> None:
        parts, queues, *_ = mark
        for queue, its in queues:
            queue._keep(its)
            queue._lock.__exit__(None, None, None)
        self.stages.keep(parts)

    def _rewind(self, mark: tuple[Any, ...]) -> None:
        parts, queues, (self.outbox, length), fields, in_round = mark
        for queue, its in queues:
            queue._rewind(its)
            queue._lock.__exit__(None, None, None)
        self.stages.rewind(parts)
        del self.outbox[length:]
        self.now, self.regroup_for, self.order, self.wake_at, self.defragmentation = fields
        self.begun, self.unsaid, self.rejected = in_round
        self.relief = None

    @property
    def microseconds(self) -> int:
        """The time as queues count it."""
        return int(self.now * MICRO)

    def tell(self, live: Live, refusal: Refusal) -> None:
        """Let the next decide return why a job waits, if the reason is new."""
        if live.told != refusal and not live.extra_of:
            live.note(self.log)
            live.told = refusal
            self.outbox.append(Wait(live.job.name, refusal))

    def tell_stopped(self) -> None:
        """Let decide return why jobs wait that have stopped, as far as that is known."""
        left = {}
        for name in self.waiting_untold():
            live = self.jobs[name]
            refusal = self.waiting.refusal(live.units[0].kind)
            if refusal is None:
                left[name] = live
            else:
                self.tell(live, refusal)
        self.log.set(self, "untold", left)

    def waiting_untold(self) -> list[str]:
        """The jobs that have stopped, and wait for a reason that was not returned."""
        return [
            name
            for name, live in self.untold.items()
            if self.jobs.get(name) is live and live.state == PENDING
        ]

    def missing(self, live: Live) -> list[str]:
        """The jobs that have to start before a job may."""
        if not live.job.after or live.runs:
            return []
        return [
            name
            for name in live.job.after
            if (other := self.jobs.get(name)) is not None and (not other.runs or other.has_stopped)
        ]

    def may_run_on_idle_cells(self, live: Live) -> bool:
        """Whether a job waits for idle cells as well."""
        job = live.job
        may = job.guaranteed and job.preemptible and not job.together
        return self.lending is not None and may and live.units[0].kind.gpus > 0

    def waits_alone(self, live: Live) -> bool:
        """Whether a job that has stopped waits by itself, not with equal ones."""
        starts_with_others = live.job.after or live.job.together
        # Another unit of the job, on idle cells, is charged to its quota or not.
        has_own_kind = bool(starts_with_others or live.extra_of)
        return has_own_kind or self.may_run_on_idle_cells(live)

    def companions(self, live: Live) -> list[Live]:
        """The jobs that do not run and have to start together with a job, in the order of names."""
        if not live.job.together:
            return []
        return [*self._linked(live, lambda other: not other.runs)]

    def stopping_companion(self, live: Live) -> tuple[str, ...]:
        """Jobs that have to run for a job to start, up to a job that has to stop; empty: none
        has to.
        """
        names = [live.job.name]
        for other in self._linked(live, lambda _: True) if live.job.together else ():
            names.append(other.job.name)
            if other.for_job:
                return tuple(names)
        return ()

    def stops_of_linked(self, live: Live) -> list[Key]:
        """The keys that are touched when a job stops, or comes, to which a job is linked."""
        linked = [live, *self._linked(live, lambda _: True)]
        return [("stopped", name) for one in linked for name in one.job.together]

    def _linked(self, live: Live, counts: Callable[[Live], bool]) -> Iterator[Live]:
        """The jobs that have to start together with a job, directly or through others."""
        linked = {live.job.name}
        for job in (known := [live.job]):
            for name in job.together:
                other = self.jobs.get(name)
                if other is not None and name not in linked and counts(other):
                    linked.add(name)
                    known.append(other.job)
                    yield other

    def units(self) -> Iterator[Unit]:
        """The units of all jobs, those on idle cells included."""
        for live in self.jobs.values():
            yield from live.all_units

    def note_states(self) -> None:
        """List jobs by state, and queued units, after jobs were read or copied."""
        for name, live in self.jobs.items():
            if live.extra_of:
                self.jobs[live.extra_of].extras[name] = live
            if live.state in _LISTS:
                getattr(self, _LISTS[live.state])[name] = live
            if live.state == RESERVED:
                continue
            for unit in live.all_units:
                if not unit.placed:
                    self.queued[unit.name] = unit
            first = live.units[0]
            if not first.placed and first.kind.is_alone and not self.waits_alone(live):
                self.apart[first.name] = first

    def branch(self) -> "State":
        """A copy that shares nothing."""
        branch = object.__new__(State)
        branch.stages, branch.queues = self.stages.branch(), self.queues.copy()
        branch.log, branch.has_queues = branch.stages.log, self.has_queues
        branch.charges_time = self.charges_time
        # Empty queues are false.
        branch.lending = None if self.lending is None else self.lending.copy()
        branch.immediate, branch.preemption = self.immediate, self.preemption
        branch.patience, branch.fragments = self.patience, self.fragments
        branch.backfill, branch.are_promises_new = self.backfill, self.are_promises_new
        branch.promised, branch.may_promise = self.promised.copy(), self.may_promise
        branch.kinds = self.kinds.branch(branch.log)
        branch.waiting = branch.stages.listener = self.waiting.branch(branch.stages)
        branch.came = self.came
        branch.jobs = {name: live.copy() for name, live in self.jobs.items()}
        branch.like_units = {owner: set(names) for owner, names in self.like_units.items()}
        branch.queued, branch.apart, branch.reserved, branch.running = {}, {}, {}, {}
        branch.relief = branch.losses = None
        branch.outbox, branch.rejected = list(self.outbox), set(self.rejected)
        branch.begun, branch.unsaid = dict(self.begun), list(self.unsaid)
        branch.precedence = self.precedence.branch(branch.log)
        branch.now, branch.regroup_for, branch.order = self.now, self.regroup_for, self.order
        branch.draining = self.draining.copy()
        branch.budgets, branch.wake_at = self.budgets.branch(branch.log), self.wake_at
        branch.defragmentation = self.defragmentation
        branch.untold = {name: branch.jobs[name] for name in self.waiting_untold()}
        branch.note_states()
        return branch


def _sort(jobs: dict[str, Live]) -> None:
    """Put jobs into the order in which they came."""
    ordered = sorted(jobs.items(), key=lambda pair: pair[1].number)
    jobs.clear()
    jobs.update(ordered)
