"""The queues of tenants, and which job is next.

Choosing a job only reads; changes are made after all plug-ins were called.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappush, heapreplace
from itertools import takewhile
from typing import Any

from hivecore._arguments import as_instance, as_int
from hivecore._trial import Transaction
from hivecore._turns import in_turn
from hivecore.queues._line import Entry, lane_of
from hivecore.queues._question import Question
from hivecore.queues._ring import ordered
from hivecore.queues._running import Run
from hivecore.queues._tenant import Tenant, place_of
from hivecore.queues.queue_ledger import (
    BY_JOB,
    FAIR,
    MOST_KIND,
    MOST_WEIGHT,
    SHIFT,
    Blocking,
    QueueLedger,
    TenantOrder,
)
from hivecore.queues.queued_job import Capacity, Departure, QueuedJob, Standing

__all__ = ["Blocking", "TenantOrder", "TenantQueues"]


class TenantQueues(QueueLedger):
    """A queue of jobs for each tenant, and which job is next.

    :param order: which tenant, or which job, is next; see below. Ties: the tenant that was named
        first.
    :param ageing: the priority that a waiting job gains per unit of time: an int or a Fraction, 0
        to 2**31 with a denominator of at most 2**31; 0 for "sjf", "srsf" and "2d-las". Ties: the
        earlier arrival.
    :param blocking: what happens behind a job that cannot leave, in queues of new tenants. "fifo":
        the jobs behind it wait. "best-effort": they pass it. "backfill": they pass it if that does
        not delay the first job that lacks capacity (EASY: it gets a reservation for when running
        jobs have released enough; if they never do, the next one that lacks capacity gets it).
        Jobs of tenants that are tried later must not delay that job either. Without a `Capacity`
        "backfill" is "fifo".
    :raises ValueError: a value is not allowed.
    :raises KeyError: a method is given an unknown name.
    :raises TypeError: an argument is of a wrong type.

    Orders by tenant:

    - "weighted": sizes in proportion to weights, among tenants with jobs; a tenant without jobs
      saves nothing. For any two tenants that always had jobs that could start, size per weight
      differs by at most one job of each over its weight.
    - "gpu-time": the same for size times run time (see `ended`), charged in advance by estimates.
      Charges per weight differ by at most one job of each, plus the errors of the estimates of
      running jobs.
    - "round-robin": a job of each tenant in turn; a tenant that cannot start a job loses its turn.
    - "key": the tenant with the lowest key (`set_key`).

    Orders by job, of all tenants: "arrival": the highest priority, then the earlier arrival. "sjf",
    "srsf" and "2d-las": the highest priority, then the least ``run_time``, the least size times
    ``run_time`` (unknown ones last in both), or the least size times ``attained``; then the earlier
    arrival.

    A tenant without a job that can leave does not block other tenants: it is not charged, and
    (except by "round-robin") is tried first until it has caught up. Times are in the caller's unit,
    0 to 2**61, and never go back. An error, also of a plug-in, changes nothing.

    Plug-ins are objects with any of ``filter(job)``, ``score(job)`` and ``pre_dequeue(job)``. A
    filter lets a job pass by ``True``, ``None``, "" or "Skip"; by ``False`` or a text, the reason,
    it waits. The job with the highest sum of scores leaves a queue (ties: the first).
    ``pre_dequeue`` is called just before a job leaves. Plug-ins and ``fits`` must not change the
    queues.

    Jobs of one kind (`QueuedJob.kind`) get the same answer: if a filter or ``fits`` refuses one,
    the call does not try others of its tenant, priority and kind. A kind that cannot leave may be
    parked until it is woken: 100,000 parked jobs cost nothing.

    Cost: push and next O(log n), n counting tenants, and the priorities and kinds of one tenant. By
    "sjf", "srsf" and "2d-las" a push costs O(jobs of its tenant, priority and kind) if jobs come
    behind it. Next costs O(log n) more for each job and tenant that is passed, O(jobs of the
    tenant) with scores, O(1) if nothing is free. Threads take turns.

    Source: KubeDL's job coordinator; start-time fair queueing (Goyal, Vin and Cheng, 1996); EASY
    backfilling (Lifka, 1995).

    >>> from hivecore.queues import QueuedJob, TenantQueues
    >>> queues = TenantQueues()
    >>> queues.set_weight("a", 2)
    >>> for i in range(3):
    ...     queues.push(QueuedJob(f"a{i}", "a", 4), now=0)
    ...     queues.push(QueuedJob(f"b{i}", "b", 4), now=0)
    >>> [queues.next(now=1).job.name for _ in range(5)]
    ['a0', 'b0', 'a1', 'a2', 'b1']
    """

    __slots__ = ()

    def push(self, job: QueuedJob, now: int) -> None:
        """Add a job to the queue of its tenant; a new tenant gets a queue.

        :raises ValueError: the name is taken.
        """
        if type(job) is not QueuedJob:
            raise TypeError(f"job must be a QueuedJob, not {type(job).__name__}")
        with self._lock:
            name, entries = job.name, self._entries
            if name in entries or name in self._running.jobs:
                raise ValueError(f"job={name!r}: there is one of this name")
            self._now = moment = self._moment(now)
            if self._running.jobs and self._running.is_due(moment):
                self._pass_time(moment)
            self._numbered = number = self._numbered + 1
            tenant = self._tenants.get(job.tenant) or self._tenant(job.tenant)
            if self._undo.is_on:
                self._log(tenant)
                self._undo.add((entries.pop, name))
            key = self._key(job, moment)
            # Entry(...) would be one more call in Python, for every job.
            entries[name] = entry = tuple.__new__(Entry, (key, number, 0, moment, job))
            if self._rank is None:
                tenant.line.push(entry)
            else:
                tenant.line.insert(entry)
            tenant.size += 1
            if tenant.size == 1:
                self._wake(tenant, False)
            elif tenant.line.shut or self._order in BY_JOB:
                self._update(tenant)

    def next(
        self,
        now: int,
        *,
        plugins: Iterable[Any] = (),
        fits: Callable[[QueuedJob], Any] | None = None,
        capacity: Capacity | None = None,
    ) -> Departure | None:
        """Take the job that starts now from its queue; ``None``: no job can start.

        :param now: the time, no earlier than that of any call before.
        :param plugins: called in this order.
        :param fits: whether a job can be placed; returns what a filter returns.
        :param capacity: what is free; without it all sizes fit.
        """
        with self._lock:
            moment = self._moment(now)
            tenant: Tenant | None
            entry: Entry | None
            passed: list[Tenant] = []
            asks = plugins != () or fits is not None or capacity is not None
            if self._running.jobs and self._running.is_due(moment):
                if asks:
                    with Transaction(self):  # an error reverses the charges
                        self._pass_time(moment)
                        return self.next(moment, plugins=plugins, fits=fits, capacity=capacity)
                self._pass_time(moment)
            if not asks:
                # Without plug-ins: the first job of the first tenant.
                if not self._ring:
                    self._now = moment
                    return None
                tenant = self._ring[0][2]
                entry = tenant.line.heads[0]
            else:
                question = Question(moment, plugins, fits, capacity)
                tenant, entry, passed = self._choose(question)
                if tenant is None or entry is None:
                    self._now = moment
                    return None
                for call in question.pre_dequeues:
                    call(entry.job)
            self._now = moment
            _, number, _, arrived, job = entry
            self._leave(entry, tenant)
            if not tenant.size:
                tenant.offers = False
            elif tenant.line.shut:
                tenant.offers = tenant.line.offers(tenant.mode == "fifo")
            self._served = number, self._clock
            size = job.size if self._order != "gpu-time" else self._start(tenant, entry)
            charge = self._charge(tenant, size, passed)
            return tuple.__new__(Departure, (job, arrived, number, charge, tenant.weight))

    @in_turn
    def peek(
        self,
        now: int,
        *,
        plugins: Iterable[Any] = (),
        fits: Callable[[QueuedJob], Any] | None = None,
        capacity: Capacity | None = None,
    ) -> QueuedJob | None:
        """The job that `next` would take. Nothing changes, and no ``pre_dequeue`` is called."""
        moment = self._moment(now)
        if self._running.is_due(moment):
            with self.trial():
                self._pass_time(moment)
                return self.peek(moment, plugins=plugins, fits=fits, capacity=capacity)
        entry = self._choose(Question(moment, plugins, fits, capacity))[1]
        return entry and entry.job

    @in_turn
    def requeue(self, departure: Departure) -> None:
        """Put back a job that could not start: at its place, and its tenant is not charged.

        :raises ValueError: another job has its name, or it did not leave these queues.

        Virtual time goes back if this job left last. By "round-robin" the turn is lost. By
        "gpu-time" what a job is charged that has `ended` stays.
        """
        as_instance(departure, "departure", Departure)
        job = departure.job
        if type(job) is not QueuedJob:
            raise TypeError(f"departure.job must be a QueuedJob, not {type(job).__name__}")
        number = as_int(departure.number, "departure.number", 1, 2**62)
        running = self._running.jobs.get(job.name)
        if job.name in self._entries or (running and running.number not in (0, number)):
            raise ValueError(f"departure={job.name!r}: there is one of this name")
        tenant = self._tenants.get(job.tenant)
        is_other = running and running.tenant != job.tenant
        if tenant is None or number > self._numbered or is_other:
            raise ValueError(f"departure={job.name!r} has not left these queues")
        arrived = as_int(departure.arrived, "departure.arrived", 0, self._now)
        charge = as_int(departure.charge, "departure.charge", 0, 2**93)
        weight = as_int(departure.weight, "departure.weight", 1, MOST_WEIGHT)
        if self._undo.is_on:
            self._log(tenant)
            self._undo.add((self._entries.pop, job.name))
        self._stamped += 1
        if self._order in FAIR:
            run = self._running.stop(job.name, number)
            if run is not None:
                charge, weight = run.size * run.paid, run.weight
            elif self._order == "gpu-time":  # it has ended, or was taken: nothing is charged
                charge = 0
            if charge and self._served[0] == number:
                self._clock = self._served[1]
            self._advance(tenant, -charge, weight)
            if tenant.offers:
                self._rejoin(tenant)
        entry = Entry(self._key(job, arrived), number, self._stamped, arrived, job)
        self._entries[job.name] = entry
        tenant.line.insert(entry)
        tenant.size += 1
        if tenant.size == 1:
            self._wake(tenant, True)
        elif tenant.line.shut or self._order in BY_JOB:
            self._update(tenant)

    @in_turn
    def ended(self, departure: Departure, now: int) -> Departure:
        """A job that `next` gave runs no more; by "gpu-time" its tenant is charged for the time.

        :returns: with which `requeue` gives it its place again, without a refund.

        Nothing happens by other orders, or if the job does not run. O(log tenants).

        >>> from hivecore.queues import QueuedJob, TenantQueues
        >>> queues = TenantQueues(order="gpu-time")
        >>> for name in ["a0", "a1", "b0", "b1", "b2"]:
        ...     queues.push(QueuedJob(name, name[0], 8, run_time=10), now=0)
        >>> [queues.next(now=0).job.name for _ in range(2)]
        ['a0', 'b0']
        >>> a1 = queues.next(now=0)
        >>> queues.ended(a1, now=5).charge  # it took half of its estimate
        0
        >>> [queues.next(now=5).job.name for _ in range(2)]
        ['b1', 'b2']
        """
        as_instance(departure, "departure", Departure)
        job = as_instance(departure.job, "departure.job", QueuedJob)
        number = as_int(departure.number, "departure.number", 1, 2**62)
        self._now = moment = self._moment(now)
        if self._running.is_due(moment):
            self._pass_time(moment)
        run = self._running.stop(job.name, number)
        if run is None:
            return departure
        tenant, ran = self._tenants[run.tenant], moment - run.since
        self._log(tenant)
        self._running.note_end(ran)
        tenant.ran, tenant.runs = tenant.ran + ran, tenant.runs + 1
        self._advance(tenant, run.size * (ran - run.paid), run.weight)
        if not tenant.size and tenant.tag < self._clock:  # it had nothing to wait with
            tenant.tag, tenant.rest = self._clock, 0
        if tenant.offers:
            self._rejoin(tenant)
        return departure._replace(charge=0)

    @in_turn
    def remove(self, name: str) -> QueuedJob:
        """Take a job out of its queue. O(log n) on average."""
        entry = self._known(name)
        tenant = self._tenants[entry.job.tenant]
        self._leave(entry, tenant)
        self._update(tenant)
        return entry.job

    @in_turn
    def take(self, name: str) -> Departure:
        """Take a job out of its queue though it is not its turn; its tenant is charged nothing.

        :returns: with which `requeue` gives it its place again.

        O(log n) on average.

        >>> from hivecore.queues import QueuedJob, TenantQueues
        >>> queues = TenantQueues()
        >>> for name in ["first", "second"]:
        ...     queues.push(QueuedJob(name, "a", 1), now=0)
        >>> queues.take("second").number
        2
        >>> len(queues)
        1
        """
        entry = self._known(name)
        tenant = self._tenants[entry.job.tenant]
        self._leave(entry, tenant)
        self._update(tenant)
        return Departure(entry.job, entry.arrived, entry.number, 0, tenant.weight)

    @in_turn
    def explain(
        self,
        name: str,
        now: int,
        *,
        plugins: Iterable[Any] = (),
        fits: Callable[[QueuedJob], Any] | None = None,
        capacity: Capacity | None = None,
    ) -> Standing:
        """Where a job stands among its tenant's, and why it waits. O(n log n) of these.

        With a capacity tenants that are tried earlier are asked as well: they may have reserved it.
        """
        entry = self._known(name)
        question = Question(self._moment(now), plugins, fits, capacity)
        tenant = self._tenants[entry.job.tenant]
        queue = self._in_order(tenant)
        place = queue.index(entry)
        ahead = queue[place - 1].job.name if place else ""
        parked = entry.job.kind in tenant.line.parked
        reason = "its kind is parked" if parked else ""
        reason = reason or question.filtered(entry.job)
        if capacity is not None and not reason:
            self._reserve_before(entry, tenant, question)
            question.blocker = None
        reason = reason or question.misfit(entry.job)
        reserved = question.reserved
        if not reason:
            leaving = list(question.candidates(tenant, self._lives))
            if not any(other is entry for other in leaving):
                blocker = question.blocker
                if blocker is None and tenant.mode == "fifo":
                    blocker = queue[len(leaving)].job  # it is parked, and those before it may leave
                elif blocker is None:  # the first of its kind was refused
                    lane = lane_of(entry.job)
                    blocker = next(other.job for other in queue if lane_of(other.job) == lane)
                reason = question.misfit(entry.job) or f"is behind {blocker.name!r}, which waits"
            else:
                question.reserved = reserved
                chosen = question.choice(tenant, self._lives)
                if chosen is not None and chosen is not entry:
                    reason = f"{chosen.job.name!r} leaves first"
        return Standing(place, ahead, reason)

    @in_turn
    def park(self, tenant: str, kind: int) -> None:
        """Offer no job of this kind by `next` and `peek` until it is woken; O(log kinds).

        :param kind: 1 to 2**61. There need not be a job of it: those that come wait, too.

        Parked jobs wait as all others do, and leave by `remove`. By "fifo" the first of them holds
        up those behind it; else they are passed over, without a reservation. A tenant none of whose
        jobs is offered is not asked, which costs nothing, and stands as if none could leave.
        Costs are amortized, for each priority that the kind has, as are those of `wake`.

        >>> from hivecore.queues import QueuedJob, TenantQueues
        >>> queues = TenantQueues()
        >>> for i in range(3):
        ...     queues.push(QueuedJob(f"large-{i}", "a", 8, kind=1), now=0)
        >>> queues.push(QueuedJob("small", "a", 1, kind=2), now=1)
        >>> queues.park("a", 1)
        >>> queues.next(now=2).job.name
        'small'
        >>> queues.wake("a", 1)
        True
        >>> queues.next(now=3).job.name
        'large-0'
        """
        known = self._named(tenant)
        number = as_int(kind, "kind", 1, MOST_KIND)
        if number not in known.line.parked:
            if self._undo.is_on:
                self._log(known)
            known.line.park(number)
            known.line.tidy(known.size, self._lives)
            self._update(known)

    @in_turn
    def wake(self, tenant: str, kind: int) -> bool:
        """Offer the jobs of a parked kind again, see ``park``; O(log kinds).

        :param kind: as in ``park``.
        :returns: whether the kind was parked. If not, nothing changes.
        :raises KeyError: there is no such tenant.
        """
        known = self._named(tenant)
        number = as_int(kind, "kind", 0, MOST_KIND)
        if number not in known.line.parked:
            return False
        if self._undo.is_on:
            self._log(known)
        known.line.wake(number)
        known.line.tidy(known.size, self._lives)
        self._update(known)
        return True

    def _choose(self, question: Question) -> tuple[Tenant | None, Entry | None, list[Tenant]]:
        passed: list[Tenant] = []
        if question.capacity is not None and question.capacity.free == 0:
            return None, None, passed
        if self._order in BY_JOB:
            return *question.first(self._in_turn(), self._lives), passed
        for tenant in self._in_turn():
            chosen = question.choice(tenant, self._lives)
            if chosen is not None:
                return tenant, chosen, passed
            passed.append(tenant)
        return None, None, passed

    def _reserve_before(self, entry: Entry, tenant: Tenant, question: Question) -> None:
        """Let the jobs in front of one reserve the capacity that they lack."""
        if self._order in BY_JOB:
            question.first(self._in_turn(), self._lives, entry)
            return
        for other in takewhile(lambda other: other is not tenant, self._in_turn()):
            question.choice(other, self._lives)

    def _in_turn(self) -> Iterator[Tenant]:
        """The tenants that offer a job, in order."""
        last: Tenant | None = None
        for entry in ordered(self._ring):
            if self._in_ring(entry) and entry[2] is not last:
                last = entry[2]
                yield last

    def _leave(self, entry: Entry, tenant: Tenant) -> None:
        if self._undo.is_on:
            self._log(tenant)
            self._died.add(id(entry))
            self._undo.add((self._entries.__setitem__, entry.job.name, entry))
        del self._entries[entry.job.name]
        tenant.size -= 1
        line = tenant.line
        heads = line.heads
        if heads and heads[0] is entry:
            line.pop(heads)
        if line.length != tenant.size:
            line.tidy(tenant.size, self._lives)

    def _start(self, tenant: Tenant, entry: Entry) -> int:
        """Note that a job runs; returns what its tenant is charged in advance."""
        job = entry.job
        of = tenant if tenant.runs else self._running
        time = job.run_time or max(1, of.ran // max(1, of.runs))
        run = Run(tenant.name, job.size, tenant.weight, self._now, time, entry.number)
        self._running.start(job.name, run)
        return job.size * time

    def _charge(self, tenant: Tenant, size: int, passed: list[Tenant]) -> int:
        charge, order = 0, self._order
        if order in FAIR:
            tag, weight = tenant.tag, tenant.weight
            if tag > self._clock:
                self._clock = int(tag)
            charge, moved = size, size << SHIFT
            if weight > 1:
                moved, tenant.rest = divmod(moved + tenant.rest, weight)
            tenant.tag = tag + moved
        elif order == "round-robin":
            turn = int(tenant.tag)
            self._clock = (turn << 40) + tenant.index + 1
            for other in passed:
                if self._undo.is_on:
                    self._log(other)
                other.tag = turn + (other.index < tenant.index)
                self._rejoin(other)
            tenant.tag = turn + 1
        elif order in BY_JOB and tenant.offers:
            tenant.tag = place_of(tenant.line.heads[0])
        ring = self._ring
        if tenant.offers and order != "key":
            if ring[0][2] is tenant:
                heapreplace(ring, (tenant.tag, tenant.index, tenant))
            else:
                heappush(ring, (tenant.tag, tenant.index, tenant))
        first = ring[0][2]
        if not first.offers or first.tag != ring[0][0] or len(ring) > len(self._tenants):
            self._tidy_ring()
        return charge
