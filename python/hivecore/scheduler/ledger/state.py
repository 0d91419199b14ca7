"""All that a scheduler knows of jobs. The other files of this folder change it."""

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

from hivecore._arguments import LONGEST, as_float
from hivecore._common import check_interrupt
from hivecore._trial import Transaction, Trials
from hivecore.decisions import Refusal
from hivecore.errors import InvariantError
from hivecore.queues import TenantQueues
from hivecore.scheduler.actions import Action, Move, Start, Wait
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

__all__ = ["MICRO", "State"]

_Result = TypeVar("_Result")
_number = attrgetter("number")
#: Queues count microseconds.
MICRO = 1_000_000
#: The list of jobs for each state that has one.
_LISTS = {RUNNING: "running", LENT: "running", RESERVED: "reserved"}
_MOST_CHANGES = 4096  # afterwards `Losses` and `Relief` are built again


class State(Trials):
    """The jobs of a scheduler, its queues and its parts.

    :param queues: ``None``: all jobs wait in one queue.
    :param lending: whether waiting jobs may run on idle cells.
    :param immediate: whether victims stop at once.
    :param preemption: whether jobs may be evicted for others.
    :param patience: for how many seconds a job waits for its victims to stop.
    :param fragments: victims are chosen to leave few of these.
    :param backfill: number of waiting jobs of each queue that get a promised start.
    :param limits: limits on evictions.
    """

    #: parts and queues have their own locks
    _lock = nullcontext()

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
        limits: Iterable[EvictionLimit] = (),
        fragments: Fragments | None = None,
    ) -> None:
        self.stages, self.log = stages, stages.log
        self.has_queues = queues is not None
        self.queues = TenantQueues() if queues is None else queues
        #: whether queues must learn when jobs end
        self.charges_time = self.queues.charges_time
        #: the queue of units that may run on idle cells
        self.lending = TenantQueues(order="arrival") if lending else None
        self.immediate, self.preemption, self.patience = immediate, preemption, patience
        self.backfill, self.fragments = backfill, fragments
        self.budgets = Budgets(limits, self.log)
        #: when to offer all kinds again, as a limit on evictions ends
        self.wake_at = inf
        #: latest start of each job if estimates are right; see `rounds.backfill`
        self.promised: dict[str, float] = {}
        #: whether the promises are up to date
        self.are_promises_new = True
        #: promised starts that are in time as things are now, as far as that is known
        self.kept_promises: list[tuple[float, str]] = []
        self.dropped: set[str] = set()  #: jobs that lost their promise in this round
        #: whether to offer all kinds again, as the next job may get a promise
        self.may_promise = False
        self.kinds = Kinds(self.log, stages.by_stages, stages.hosts, stages.gpu_memory)
        self.waiting = Waiting(stages.lacks(), self.log)
        stages.listener = self.waiting
        #: by name, in the order of submission
        self.jobs: dict[str, Live] = {}
        #: how many of the last are not in this order, within `_rewind`
        self._put_back = 0
        #: jobs whose names look like those of a job's units, by that job
        self.like_units: dict[str, set[str]] = {}
        #: number of jobs submitted so far
        self.came = 0
        #: units that wait in a queue
        self.queued: dict[str, Unit] = {}
        #: those that wait apart from their kind while they may do less
        self.apart: dict[str, Unit] = {}
        #: jobs whose victims are stopping
        self.reserved: dict[str, Live] = {}
        #: running jobs with victims that stop for failed pods of the job
        self.replacing: dict[str, Live] = {}
        #: how much running jobs would free; None: not computed
        self.relief: Relief | None = None
        #: what is lost if running jobs end; None: not computed
        self.losses: Losses | None = None
        self.running: dict[str, Live] = {}
        #: jobs that stopped, until their reason to wait was reported
        self.unreported: dict[str, Live] = {}
        #: actions that the next decide returns
        self.outbox: list[Action] = []
        #: which job was evicted for which
        self.precedence = Precedence(self.log)
        #: the starts of jobs that began in this round; empty: they cannot be undone
        self.begun: dict[str, tuple[Start, ...]] = {}
        #: by job, the starts in this round of pods that join the job while it runs
        self.joined: dict[str, tuple[Start, ...]] = {}
        #: the same of starts that cannot be undone, as victims had left for them before
        self.kept: dict[str, tuple[Start, ...]] = {}
        #: by job, its move in this round, and the drained node that it leaves; "": none
        self.moved: dict[str, tuple[Move, str]] = {}
        #: actions of this round that were undone, with what is returned instead of each
        self.unsaid: list[tuple[Action, Action | None]] = []
        #: jobs that the outbox rejects
        self.rejected: set[str] = set()
        self.now = 0.0
        #: the seconds that new groups of jobs shall last; 0.0: keep the groups
        self.regroup_for = 0.0
        #: for each draining node, until when jobs may end there
        self.draining: dict[str, float] = {}
        #: while nodes drain, the jobs that may have pods there; None: not known
        self.on_draining: set[str] | None = None
        self.named: dict[tuple[str, int], Unit] | None = None  # see `adopting`
        #: how the next decide defragments; None: not at all
        self.defragmentation: Defragmentation | None = None
        #: the order in which jobs run; None: the queues choose
        self.order: Order | None = None

    def moment(self, now: object) -> float:
        """Check a time: it must not go back."""
        moment = now if type(now) is float else as_float(now, "now")
        if not self.now <= moment <= LONGEST:
            raise ValueError(f"now={moment!r}: allowed are {self.now!r} to 2**40 seconds")
        return moment

    def happens(self, moment: float) -> None:
        """Record an external event, at a valid time."""
        self.now = moment
        self.count_again()
        if self.precedence.order:
            self.precedence.clear()
            self.waiting.touch((OUTSIDE,))

    # --- changes

    def turn(self, live: Live, transition: str) -> None:
        """Change the state of a job; InvariantError unless `TRANSITIONS` allows it."""
        sources, target, event, reads = TRANSITIONS[transition]
        if (before := live.state) not in sources:
            raise InvariantError(f"job {live.job.name!r} is {before}: no transition {transition!r}")
        live.note(self.log)
        self.kept_promises = []
        name, live.state = live.job.name, target
        old, new = _LISTS.get(before), _LISTS.get(target)
        if old != new:
            if old is not None:
                jobs = getattr(self, old)
                self.log.keep(jobs, name)
                del jobs[name]
            if new is not None:
                jobs = getattr(self, new)
                self.log.keep(jobs, name)
                jobs[name] = live
        if self.losses is not None or self.relief is not None or self.on_draining is not None:
            self.note_change(name)
        if name in self.promised and target not in (PENDING, LENT):
            self.promise_no_more(name)
            if target == GONE:  # others may start earlier
                self.log.set(self, "are_promises_new", False)
        if reads or (reads is False and old == "running"):
            self.stages.read(name, reads)
        if target == GONE:
            self.log.note(self._bring_back, live)
            self.drop(live)
            if live.extra_of in self.jobs:
                self.jobs[live.extra_of].extras.pop(name, None)
            self.stages.go(name)
        if event and self.waiting.by_key:
            self.waiting.touch(((event, name),))

    def restart(self, live: Live, now: float) -> None:
        """Record that a running job has moved: it starts from nothing."""
        live.note(self.log)
        live.pause(now)
        self.note_change(live.job.name)
        self.count_again()
        self.outdate_promises()
        for runs in (False, True):
            self.stages.read(live.job.name, runs)

    def promise_no_more(self, name: str) -> None:
        """Withdraw a job's promised start, so that another job gets one."""
        if name in self.promised:
            left = {other: time for other, time in self.promised.items() if other != name}
            self.log.set(self, "promised", left)  # an undo keeps their order
            self.log.set(self, "may_promise", True)

    def outdate_promises(self) -> None:
        """Renew promises, as running jobs end otherwise than expected, and retry delayed jobs."""
        if self.promised:
            self.log.set(self, "are_promises_new", False)
            self.waiting.touch([("started", name) for name in self.promised])

    def note_change(self, name: str) -> None:
        """Record that a running job changed its start or pods, stops, or has stopped."""
        self.kept_promises = []
        if self.on_draining is not None:
            self.on_draining.add(name)
        if self.losses is not None:
            self.losses.changed.add(name)
            if len(self.losses.changed) > _MOST_CHANGES:
                self.losses = None
        if self.relief is not None:
            self.relief.changed.add(name)
            if len(self.relief.changed) > _MOST_CHANGES:
                self.relief = None

    def end_of(self, live: Live) -> float:
        """When a job that runs or starts now, or an extra pod of it, should end; inf if unknown."""
        whole = self.jobs[live.extra_of] if live.extra_of else live
        begun = whole.since if whole.runs else self.now
        return inf if whole.job.run_time is None else begun + whole.job.run_time

    def drain(self, node: str, by: float | None) -> None:
        """Drain a node; jobs that end by then may end there. ``None``: stop draining."""
        draining = {other: until for other, until in self.draining.items() if other != node}
        if by is not None:
            draining[node] = by
        self.log.set(self, "draining", draining)  # an undo keeps their order
        self.on_draining = None

    def count_again(self) -> None:
        """Record that resources were released."""
        if self.relief is not None:
            self.relief.is_stale = True

    def _bring_back(self, live: Live) -> None:
        """Undo the end of a job; its position is restored at the end of `_rewind`."""
        self._put(live)
        self._put_back += 1
        if live.extra_of in self.jobs:
            extras = self.jobs[live.extra_of].extras
            extras[live.job.name] = live
            _sort(extras, 1)

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
        self.jobs[live.job.name] = live
        for owner, _ in owners_of(live.job.name) if "/" in live.job.name else ():
            self.like_units.setdefault(owner, set()).add(live.job.name)

    def drop(self, live: Live) -> None:
        """Remove a job."""
        del self.jobs[live.job.name]
        for owner, _ in owners_of(live.job.name) if "/" in live.job.name else ():
            self.like_units[owner].discard(live.job.name)
            if not self.like_units[owner]:
                del self.like_units[owner]

    def name_in_use(self, job: Job) -> str:
        """Why a job cannot have its name beside the known jobs; "" if it can."""
        lending = self.lending is not None
        for owner, called in owners_of(job.name) if "/" in job.name else ():
            live = self.jobs.get(owner)
            if live is None or live.extra_of:
                continue
            if has_unit(live.job, called, lending=lending):
                return f"pods of {owner!r} may have this name"
        for name in sorted(self.like_units.get(job.name, ())):
            called = dict(owners_of(name))[job.name]
            if not self.jobs[name].extra_of and has_unit(job, called, lending=lending):
                return f"its pods may have the name of the job {name!r}"
        return ""

    def enqueue(self, unit: Unit) -> None:
        """Record that a unit is in a queue."""
        if self.log.is_on:
            self.log.keep(self.queued, unit.name)
        self.queued[unit.name] = unit

    def dequeue(self, name: str) -> Unit:
        """Record that a unit is in no queue."""
        self.log.keep(self.queued, name)
        return self.queued.pop(name)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to decide."""
        return not (
            self.reserved
            or self.replacing
            or self.regroup_for
            or self.draining
            or self.defragmentation is not None
            or self.order is not None
            or self.may_promise
            or self.outbox
            or self.queues.offers
            or self.waiting.touched
            or self.stages.is_stale
            or (self.lending is not None and self.lending.offers)
        )

    def transaction(self) -> Transaction:
        """A context that undoes all changes to jobs, queues and parts after an exception."""
        return Transaction(self)

    def keep(self, change: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call a function with this state; an exception undoes all of its changes."""
        mark = self._mark()
        try:
            result = change(self, *arguments)
            check_interrupt()
        except BaseException:
            self._rewind(mark)
            raise
        self._keep(mark)
        return result

    def _mark(self) -> tuple[Any, ...]:
        outbox = self.outbox, len(self.outbox)
        fields = self.now, self.regroup_for, self.order, self.wake_at, self.defragmentation
        begun = self.begun.copy(), self.joined.copy(), self.kept.copy()
        in_round = *begun, self.moved.copy(), [*self.unsaid], self.rejected.copy()
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
        if self._put_back:
            _sort(self.jobs, self._put_back)
            self._put_back = 0
        del self.outbox[length:]
        self.now, self.regroup_for, self.order, self.wake_at, self.defragmentation = fields
        self.begun, self.joined, self.kept, self.moved, self.unsaid, self.rejected = in_round
        self.relief, self.on_draining, self.named, self.kept_promises = None, None, None, []

    @property
    def microseconds(self) -> int:
        """The time as queues count it."""
        return int(self.now * MICRO)

    def report(self, live: Live, refusal: Refusal) -> None:
        """Let the next decide report why a job waits, if the reason is new."""
        if live.reported != refusal and not live.extra_of:
            live.note(self.log)
            live.reported = refusal
            self.outbox.append(Wait(live.job.name, refusal))

    def report_stopped(self) -> None:
        """Let decide report why stopped jobs wait, as far as that is known."""
        left = {}
        for name in self.waiting_unreported():
            live = self.jobs[name]
            refusal = self.waiting.refusal(live.units[0].kind)
            if refusal is None:
                left[name] = live
            else:
                self.report(live, refusal)
        self.log.set(self, "unreported", left)

    def waiting_unreported(self) -> list[str]:
        """Stopped jobs that wait, and whose reason was not reported yet."""
        return [
            name
            for name, live in self.unreported.items()
            if self.jobs.get(name) is live and live.state == PENDING
        ]

    def known(self, name: str) -> Live | None:
        """The job of this name; None for the name of an extra pod."""
        live = self.jobs.get(name)
        return None if live is None or live.extra_of else live

    def missing(self, live: Live) -> list[str]:
        """The jobs that must start before this one."""
        if not live.job.after or live.runs:
            return []
        return [
            name
            for name in live.job.after
            if (other := self.known(name)) is not None and (not other.runs or other.has_stopped)
        ]

    def is_ready(self, live: Live) -> bool:
        """Whether a job or its failed pods are reserved, and all victims have stopped."""
        return live.reserved is not None and all(self.jobs[it].has_stopped for it in live.victims)

    def set_held(self, live: Live, held: Unit | None) -> None:
        """Set what is held for failed pods of a job."""
        live.note(self.log)
        live.held = held
        self.log.keep(self.replacing, live.job.name)
        if held is None:
            del self.replacing[live.job.name]
        else:
            self.replacing[live.job.name] = live

    def all_reserved(self) -> list[Live]:
        """The jobs that have victims, for themselves or for failed pods."""
        return [*self.reserved.values(), *self.replacing.values()]

    def may_run_on_idle_cells(self, live: Live) -> bool:
        """Whether a job waits for idle cells, too."""
        job = live.job
        may = job.guaranteed and job.preemptible and not job.together
        return self.lending is not None and may and live.units[0].kind.gpus > 0

    def waits_alone(self, live: Live) -> bool:
        """Whether a job that has stopped waits apart from its kind."""
        # only one of its units is charged to its quota
        has_own_kind = bool(live.job.after or live.job.together or live.extra_of)
        return has_own_kind or self.may_run_on_idle_cells(live)

    def companions(self, live: Live) -> list[Live]:
        """The jobs that must start together with this one and do not run, ordered by name."""
        return [other for other in self._linked(live) if not other.runs]

    def stopping_companion(self, live: Live) -> tuple[str, ...]:
        """The jobs that must run for a job to start, up to a victim; empty: none is a victim."""
        names = [live.job.name]
        for other in self._linked(live):
            names.append(other.job.name)
            if other.for_job:
                return tuple(names)
        return ()

    def stops_of_linked(self, live: Live) -> list[Key]:
        """Keys that are touched when a linked job stops or is submitted."""
        linked = [live, *self._linked(live)]
        return [("stopped", name) for live in linked for name in live.job.together]

    def _linked(self, live: Live) -> Iterator[Live]:
        """The jobs that must run for a job to start, by its names and those of pending ones."""
        linked = {live.job.name}
        for job in (known := [live.job]):
            for name in job.together:
                other = self.known(name)
                if other is not None and name not in linked:
                    linked.add(name)
                    if not other.runs:
                        known.append(other.job)
                    yield other

    def units(self) -> Iterator[Unit]:
        """The units of all jobs, with those on idle cells."""
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
            if live.held is not None:
                self.replacing[name] = live
            for unit in live.all_units:
                if not unit.placed and (live.held is None or unit.name != live.held.name):
                    self.queued[unit.name] = unit
            first = live.units[0]
            if not first.placed and first.kind.is_alone and not self.waits_alone(live):
                self.apart[first.name] = first

    def branch(self) -> "State":
        """A copy that shares nothing."""
        branch = object.__new__(State)
        branch.__dict__.update(self.__dict__)  # what is not copied below are values
        branch.stages, branch.queues = self.stages.branch(), self.queues.copy()
        branch.log = branch.stages.log
        # empty queues are false
        branch.lending = None if self.lending is None else self.lending.copy()
        branch.promised, branch.draining = self.promised.copy(), self.draining.copy()
        branch.kinds = self.kinds.branch(branch.log)
        branch.waiting = branch.stages.listener = self.waiting.branch(branch.stages)
        branch.jobs = {name: live.copy() for name, live in self.jobs.items()}
        branch.like_units = {owner: set(names) for owner, names in self.like_units.items()}
        branch.queued, branch.apart, branch.reserved, branch.running = {}, {}, {}, {}
        branch.replacing = {}
        branch.relief = branch.losses = branch.on_draining = branch.named = None
        branch.outbox, branch.unsaid = list(self.outbox), list(self.unsaid)
        branch.rejected, branch.begun = set(self.rejected), dict(self.begun)
        branch.joined, branch.kept, branch.moved = {**self.joined}, {**self.kept}, {**self.moved}
        branch.precedence = self.precedence.branch(branch.log)
        branch.budgets = self.budgets.branch(branch.log)
        branch.unreported = {name: branch.jobs[name] for name in self.waiting_unreported()}
        branch.note_states()
        return branch


def _sort(jobs: dict[str, Live], last: int) -> None:
    """Sort jobs in the order of submission, in which all but the last ones are."""
    lives = list(jobs.values())
    back = min(map(_number, lives[-last:]), default=0)
    first = bisect(lives, back, 0, max(0, len(lives) - last), key=_number)
    for live in sorted(lives[first:], key=_number):
        name = live.job.name
        del jobs[name]
        jobs[name] = live
