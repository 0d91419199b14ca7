"""Jobs of many tenants, and which of them is next.

Each tenant's jobs are in a line by a key that does not change with time: under ageing all jobs of a
line gain the same in the same time. A rank, such as the run time, counts among jobs of one
priority. Tenants whose lines offer a job are in a heap by a tag:

    weighted      start-time fair queueing. A tenant's tag is its virtual time, which its jobs move
                  on by size / weight. Virtual time, V, is the tag of who was served last, if that
                  is later; a tenant that becomes busy starts at max(its own, V).
    round-robin   the round in which it is next: of the last tenant's round for those behind it
    key           the caller's
    by job        the place of its first job that is not parked, among all jobs: "arrival", "sjf",
                  "srsf" and "2d-las", which differ in the keys of jobs

Tags count in units of 2**-72 and carry the remainder. Served amounts per weight are multiples of
2**-62 at least, so that no rounding moves one over the bound that exact tags would keep.

A tenant all of whose jobs are parked leaves the heap and keeps its tag, as if asked in vain.

Whether a job leaves is decided by reading only; what changes is done after all plug-ins spoke.
"""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from math import isfinite
from operator import attrgetter
from threading import RLock
from typing import Any, Literal, NamedTuple, Self

from hivecore._arguments import as_choice, as_int, as_name, as_text, as_tuple
from hivecore._stateful import PlainState, counted, shown
from hivecore._trial import LoggedTrials, UndoLog
from hivecore._turns import in_turn
from hivecore.errors import InvariantError
from hivecore.queues._line import Entry, Lane, Line, lane_of
from hivecore.queues._ring import is_heap, ordered
from hivecore.queues.queued_job import Capacity, Departure, QueuedJob, Standing

__all__ = ["Blocking", "TenantOrder", "TenantQueues"]

#: Which tenant is next: see `TenantQueues`.
TenantOrder = Literal["weighted", "round-robin", "key", "arrival", "sjf", "srsf", "2d-las"]
#: What a job that cannot leave means to those behind it: see `TenantQueues`.
Blocking = Literal["fifo", "best-effort", "backfill"]

#: The ranks of jobs of one priority, the lowest first, by the order that goes by them.
_RANKS: dict[str, Callable[[QueuedJob], int]] = {
    "sjf": lambda job: _UNKNOWN if job.run_time is None else job.run_time,
    "srsf": lambda job: _UNKNOWN if job.run_time is None else job.size * job.run_time,
    "2d-las": lambda job: job.size * job.attained,
}
_BY_JOB = ("arrival", *_RANKS)
_ORDERS = ("weighted", "round-robin", "key", *_BY_JOB)
_MODES = ("fifo", "best-effort", "backfill")
_LATEST = 2**61
_MOST_KIND = 2**61
_MOST_WEIGHT = 2**31 - 1
_SHIFT = 72
_UNKNOWN = 2**92  # no rank is higher
_PRIORITY = 100  # bits of a rank
_PLUGS = ("filter", "score", "pre_dequeue")


class _Tenant:
    __slots__ = (
        "index",
        "line",
        "logged",
        "mode",
        "name",
        "offers",
        "rest",
        "size",
        "tag",
        "value",
        "weight",
    )

    def __init__(self, name: str, index: int, mode: str, line: Line) -> None:
        self.name, self.index, self.mode, self.line = name, index, mode, line
        self.logged = 0  # the last mark since which it has changed
        self.size = 0  # jobs alive
        self.offers = False  # any of them: as its line says
        self.weight = 1
        self.tag: int | float = 0
        self.rest = 0  # of the tag, in parts of the weight
        self.value: int | float = 0

    def copy(self, line: Line) -> "_Tenant":
        made = _Tenant(self.name, self.index, self.mode, line)
        made.size, made.offers, made.weight = self.size, self.offers, self.weight
        made.tag, made.rest, made.value = self.tag, self.rest, self.value
        return made


#: What of a tenant changes.
_CHANGING = ("logged", "mode", "offers", "rest", "size", "tag", "value", "weight")
_values = attrgetter(*_CHANGING)


class _Reservation(NamedTuple):
    """The capacity that a job will have at some time, and what is left beside it."""

    job: str
    time: int | None
    extra: int


class _Round:
    """One question: what may leave, and what was reserved on the way."""

    __slots__ = ("capacity", "filters", "fits", "now", "pre_dequeues", "reserved", "scores")

    def __init__(self, now: int, plugins: Any, fits: Any, capacity: Any) -> None:
        self.now = now
        self.filters: list[Callable[[QueuedJob], Any]] = []
        self.scores: list[Callable[[QueuedJob], Any]] = []
        self.pre_dequeues: list[Callable[[QueuedJob], Any]] = []
        for plugin in as_tuple(plugins, "plugins"):
            found = [getattr(plugin, name, None) for name in _PLUGS]
            if not any(map(callable, found)):
                raise TypeError(f"plugins: {type(plugin).__name__} has none of {', '.join(_PLUGS)}")
            for method, into in zip(
                found, (self.filters, self.scores, self.pre_dequeues), strict=True
            ):
                if callable(method):
                    into.append(method)
        if fits is not None and not callable(fits):
            raise TypeError(f"fits must be callable, not {type(fits).__name__}")
        if capacity is not None and not isinstance(capacity, Capacity):
            raise TypeError(f"capacity must be a Capacity, not {type(capacity).__name__}")
        self.fits = fits
        self.capacity: Capacity | None = capacity
        self.reserved: _Reservation | None = None

    def filtered(self, job: QueuedJob) -> str:
        for ask in self.filters:
            reason = _reason(ask(job), "a filter holds it back")
            if reason:
                return reason
        return ""

    def misfit(self, job: QueuedJob) -> str:
        """Why it does not fit; it may be that it would delay another one."""
        return self.shortage(job) or self.unplaced(job)

    def shortage(self, job: QueuedJob) -> str:
        capacity = self.capacity
        if capacity is not None:
            if job.size > capacity.free:
                return f"needs {job.size}, and {capacity.free} are free"
            reserved = self.reserved
            if reserved is not None and reserved.time is not None and job.size > reserved.extra:
                ends = None if job.run_time is None else self.now + job.run_time
                if ends is None or ends > reserved.time:
                    return f"would delay {reserved.job!r}, reserved for {reserved.time}"
        return ""

    def unplaced(self, job: QueuedJob) -> str:
        return _reason(self.fits(job), "does not fit") if self.fits is not None else ""

    def reserve(self, job: QueuedJob) -> None:
        capacity = self.capacity
        assert capacity is not None
        free = capacity.free
        time: int | None = self.now if free >= job.size else None
        for end, size in capacity.running:
            # Whatever ends at the same time is free then, too.
            if time is not None and end > time:
                break
            free += size
            if time is None and free >= job.size:
                time = max(self.now, end)
        self.reserved = _Reservation(job.name, time, free - job.size)

    def candidates(self, tenant: _Tenant, lives: Callable[[Any], bool]) -> Iterator[Entry]:
        """The jobs of a queue that may leave, in order; those behind a blocked one as it allows."""
        refused: set[Lane] = set()
        for entry in tenant.line.offered(tenant.mode == "fifo", refused):
            if not lives(entry):
                continue
            job = entry.job
            held = self.filtered(job) if self.filters else ""
            short = self.shortage(job) if self.capacity is not None and not held else ""
            if not held and not short and not self.unplaced(job):
                yield entry
                continue
            if tenant.mode == "fifo":
                return
            if tenant.mode == "backfill" and not held and self.reserved is None:
                if self.capacity is None:
                    return
                self.reserve(job)
            if job.kind and not short:
                # The others would be told the same; sizes and run times may differ.
                refused.add(lane_of(job))

    def choice(self, tenant: _Tenant, lives: Callable[[Any], bool]) -> Entry | None:
        found = self.candidates(tenant, lives)
        if not self.scores or tenant.mode == "fifo":
            return next(found, None)
        # max keeps the first among equals.
        best: Entry | None = None
        most: Any = None
        for entry in found:
            score = sum([rate(entry.job) for rate in self.scores])
            if best is None or score > most:
                best, most = entry, score
        return best


def _reason(answer: Any, default: str) -> str:
    if answer is None or answer is True:
        return ""
    if answer is False:
        return default
    if isinstance(answer, str):
        return "" if answer == "Skip" else str.__str__(answer)
    raise TypeError(f"a filter must answer with a bool, None or a text, not {answer!r}")


class TenantQueues(LoggedTrials, PlainState):
    """A queue of jobs for each tenant, and which job is next.

    :param order: which tenant is next. "weighted": tenants get sizes in proportion to their weights
        while they have jobs; who has none saves nothing up. For any two tenants that have had jobs
        all the time, and could start them, size per weight since then differs by at most one job of
        each over its weight. "round-robin": a job per tenant in turn, in the order in which tenants
        came up; who cannot start one loses the turn. "key": the tenant with the lowest key
        (`set_key`). "arrival": the tenant whose first job is the most urgent of all, and of equals
        the one that came first. Ties: the tenant that came up first. The others are as "arrival",
        but of jobs of one priority first come those of the least ``run_time`` ("sjf"), of the least
        size times ``run_time`` ("srsf"; in both the unknown ones last), or of the least size times
        ``attained`` ("2d-las"), and of equals the one that came first.
    :param ageing: by how much of priority a job gains per unit of time: an int or a Fraction, 0 to
        2**31 with a denominator of at most 2**31; 0 for "sjf", "srsf" and "2d-las". Ties: the
        earlier arrival.
    :param blocking: of new tenants' queues. "fifo": a job that cannot leave holds up those behind.
        "best-effort": they go past it. "backfill": they go past it if that does not delay the first
        that lacks capacity (EASY: it is reserved when running jobs will have left enough).
        Jobs of tenants that are asked after it keep to the reservation, too. It needs a `Capacity`,
        without which it is "fifo".
    :raises ValueError: a value is not allowed.
    :raises TypeError: something is of a wrong type.

    A tenant of which no job can leave does not block the others: it is charged nothing and, unless
    by round robin, is asked first until it has caught up. Times are in the caller's unit, 0 to
    2**61, and never go back. After an error, that of a plug-in included, nothing has changed.

    Plug-ins are objects with any of ``filter(job)``, ``score(job)`` and ``pre_dequeue(job)``. A
    filter passes with ``True``, ``None``, "" or "Skip"; ``False`` or a text, the reason, waits.
    The highest sum of scores leaves a queue, among equals the first. ``pre_dequeue`` is called when
    a job is about to leave. Plug-ins and ``fits`` must not change the queues.

    Jobs of one kind (`QueuedJob.kind`) are answered alike: when a filter or ``fits`` has refused
    one, the others of its tenant, priority and kind are not asked by this call. A kind of which no
    job can leave may be parked until it is woken: 100,000 parked jobs cost nothing.

    Cost: push and next O(log n); by "sjf", "srsf" and "2d-las" a push O(jobs of this tenant,
    priority and kind) if others come after it; next O(log n) more for each job and tenant that is
    passed over, O(jobs of the tenant) with scores; O(1) where nothing is free. For n count the
    tenants, and the priorities and kinds of one of them. Threads take turns.

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

    __slots__ = (
        "_ageing",
        "_before",
        "_blocking",
        "_clock",
        "_died",
        "_entries",
        "_lock",
        "_marked",
        "_marks",
        "_now",
        "_numbered",
        "_order",
        "_rank",
        "_rate",
        "_ring",
        "_scale",
        "_stamped",
        "_tenants",
    )
    _SAVED_AS = b"HVTQ", 1

    def __init__(
        self,
        *,
        order: TenantOrder = "weighted",
        ageing: int | Fraction = 0,
        blocking: Blocking = "best-effort",
    ) -> None:
        self._order = as_choice(order, "order", _ORDERS)
        self._rank = _RANKS.get(self._order)
        self._blocking = as_choice(blocking, "blocking", _MODES)
        if isinstance(ageing, bool) or not isinstance(ageing, (int, Fraction)):
            raise TypeError(f"ageing must be an int or a Fraction, not {type(ageing).__name__}")
        self._ageing = Fraction(ageing)
        if not 0 <= self._ageing <= 2**31 or self._ageing.denominator > 2**31:
            raise ValueError("ageing: allowed are 0 to 2**31, in parts of at most 2**31")
        if self._ageing and self._rank is not None:
            raise ValueError(f"ageing: has no meaning for the order {order!r}")
        self._rate, self._scale = self._ageing.as_integer_ratio()
        self._entries: dict[str, Entry] = {}
        self._tenants: dict[str, _Tenant] = {}
        #: tenants that offer a job, by tag
        self._ring: list[tuple[int | float, int, _Tenant]] = []
        self._clock = 0  # virtual time, or the round and the last tenant in one
        self._now = self._numbered = self._stamped = 0
        self._lock = RLock()
        self._undo = UndoLog()
        #: the numbers of the marks, each used once
        self._marks: list[int] = []
        self._marked = 0
        #: how many were numbered and stamped before the first mark
        self._before = 0, 0
        #: ids of the entries that have died since then
        self._died: set[int] = set()

    @in_turn
    def __repr__(self) -> str:
        tenants = counted(len(self._tenants), "tenant")
        return shown(self, tenants, counted(len(self._entries), "job"), f"order={self._order!r}")

    # --- jobs

    def push(self, job: QueuedJob, now: int) -> None:
        """Put a job into its tenant's queue, which is made if there is none.

        :raises ValueError: there is a job of this name.
        """
        if type(job) is not QueuedJob:
            raise TypeError(f"job must be a QueuedJob, not {type(job).__name__}")
        with self._lock:
            name, entries = job.name, self._entries
            if name in entries:
                raise ValueError(f"job={name!r}: there is one of this name")
            self._now = moment = self._moment(now)
            self._numbered = number = self._numbered + 1
            tenant = self._tenants.get(job.tenant) or self._tenant(job.tenant)
            if self._undo.is_on:
                self._log(tenant)
                self._undo.add((entries.pop, name))
            key = self._key(job, moment)
            # Entry(...) would be a call in Python more, and this is called for every job.
            entries[name] = entry = tuple.__new__(Entry, (key, number, 0, moment, job))
            if self._rank is None:
                tenant.line.push(entry)
            else:
                tenant.line.insert(entry)
            tenant.size += 1
            if tenant.size == 1:
                self._wake(tenant, False)
            elif tenant.line.shut or self._order in _BY_JOB:
                self._update(tenant)

    def next(
        self,
        now: int,
        *,
        plugins: Iterable[Any] = (),
        fits: Callable[[QueuedJob], Any] | None = None,
        capacity: Capacity | None = None,
    ) -> Departure | None:
        """The job that starts now, taken from its queue; ``None``: none can.

        :param plugins: in the order in which they are asked.
        :param fits: whether there is a place for a job; answers as a filter does.
        :param capacity: what is free; without it all sizes fit.
        """
        with self._lock:
            moment = self._moment(now)
            tenant: _Tenant | None
            entry: Entry | None
            passed: list[_Tenant] = []
            if plugins == () and fits is None and capacity is None:
                # Nobody has to be asked: the first of the first.
                if not self._ring:
                    self._now = moment
                    return None
                tenant = self._ring[0][2]
                entry = tenant.line.heads[0]
            else:
                asked = _Round(moment, plugins, fits, capacity)
                tenant, entry, passed = self._choose(asked)
                if tenant is None or entry is None:
                    self._now = moment
                    return None
                for call in asked.pre_dequeues:
                    call(entry.job)
            self._now = moment
            _, number, _, arrived, job = entry
            self._leave(entry, tenant)
            if not tenant.size:
                tenant.offers = False
            elif tenant.line.shut:
                tenant.offers = tenant.line.offers(tenant.mode == "fifo")
            charge = self._charge(tenant, job.size, passed)
            return Departure(job, arrived, number, charge, tenant.weight)

    @in_turn
    def peek(
        self,
        now: int,
        *,
        plugins: Iterable[Any] = (),
        fits: Callable[[QueuedJob], Any] | None = None,
        capacity: Capacity | None = None,
    ) -> QueuedJob | None:
        """The job that `next` would give. Nothing changes, and no ``pre_dequeue`` is called."""
        entry = self._choose(_Round(self._moment(now), plugins, fits, capacity))[1]
        return entry and entry.job

    @in_turn
    def requeue(self, departure: Departure) -> None:
        """A job could not be started: it has its place again, and its tenant is not charged.

        :raises ValueError: its name is in a queue, or it cannot be of these queues.

        By round robin the turn is not given back.
        """
        if not isinstance(departure, Departure):
            raise TypeError(f"departure must be a Departure, not {type(departure).__name__}")
        job = departure.job
        if type(job) is not QueuedJob:
            raise TypeError(f"departure.job must be a QueuedJob, not {type(job).__name__}")
        if job.name in self._entries:
            raise ValueError(f"departure={job.name!r}: there is one of this name")
        tenant = self._tenants.get(job.tenant)
        number = as_int(departure.number, "departure.number", 1, 2**62)
        if tenant is None or number > self._numbered:
            raise ValueError(f"departure={job.name!r} has not left these queues")
        arrived = as_int(departure.arrived, "departure.arrived", 0, self._now)
        charge = as_int(departure.charge, "departure.charge", 0, 2**31)
        weight = as_int(departure.weight, "departure.weight", 1, _MOST_WEIGHT)
        if self._undo.is_on:
            self._log(tenant)
            self._undo.add((self._entries.pop, job.name))
        self._stamped += 1
        if self._order == "weighted":
            # At the weight of then; with the same one the remainder comes back as it was.
            same = weight == tenant.weight
            amount = (tenant.rest if same else 0) - (charge << _SHIFT)
            moved, rest = divmod(amount, weight)
            if same:
                tenant.rest = rest
            tenant.tag += moved
            if tenant.offers:
                self._rejoin(tenant)
        entry = Entry(self._key(job, arrived), number, self._stamped, arrived, job)
        self._entries[job.name] = entry
        tenant.line.insert(entry)
        tenant.size += 1
        if tenant.size == 1:
            self._wake(tenant, True)
        elif tenant.line.shut or self._order in _BY_JOB:
            self._update(tenant)

    @in_turn
    def remove(self, name: str) -> QueuedJob:
        """Take a job out of its queue. O(log n) on average.

        :raises KeyError: no queue has it.
        """
        entry = self._known(name)
        tenant = self._tenants[entry.job.tenant]
        self._leave(entry, tenant)
        self._update(tenant)
        return entry.job

    @in_turn
    def take(self, name: str) -> Departure:
        """Take a job out of its queue though it is not its turn; its tenant is charged nothing.

        :returns: with which `requeue` gives it its place again.
        :raises KeyError: no queue has it.

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

        :raises KeyError: no queue has it.
        """
        entry = self._known(name)
        asked = _Round(self._moment(now), plugins, fits, capacity)
        tenant = self._tenants[entry.job.tenant]
        queue = self._in_order(tenant)
        place = queue.index(entry)
        ahead = queue[place - 1].job.name if place else ""
        parked = entry.job.kind in tenant.line.parked
        reason = "its kind is parked" if parked else ""
        reason = reason or asked.filtered(entry.job) or asked.misfit(entry.job)
        if not reason:
            leaving = list(asked.candidates(tenant, self._lives))
            if not any(one is entry for one in leaving):
                if tenant.mode == "fifo":
                    blocker = queue[len(leaving)].job  # those before it may leave
                else:
                    kinds = tenant.line.parked
                    blocker = next(one.job for one in queue if one.job.kind not in kinds)
                reason = asked.misfit(entry.job) or f"is behind {blocker.name!r}, which waits"
            else:
                asked.reserved = None
                chosen = asked.choice(tenant, self._lives)
                if chosen is not None and chosen is not entry:
                    reason = f"{chosen.job.name!r} leaves first"
        return Standing(place, ahead, reason)

    @in_turn
    def __len__(self) -> int:
        return len(self._entries)

    @in_turn
    def __contains__(self, name: object) -> bool:
        return name in self._entries

    @in_turn
    def __iter__(self) -> Iterator[QueuedJob]:
        """A snapshot: tenants in the order in which they came up, each one's jobs in order."""
        tenants = self._tenants.values()
        return iter([entry.job for tenant in tenants for entry in self._in_order(tenant)])

    # --- tenants

    @property
    def tenants(self) -> tuple[str, ...]:
        """All tenants that ever were named, in the order in which they came up."""
        with self._lock:
            return tuple(self._tenants)

    @in_turn
    def set_weight(self, tenant: str, weight: int) -> None:
        """Say how much a tenant gets, by "weighted": 1 to 2**31 - 1, from now on; at first 1."""
        name, number = as_name(tenant, "tenant"), as_int(weight, "weight", 1, _MOST_WEIGHT)
        found = self._tenant(name)
        if number != found.weight:
            if self._undo.is_on:
                self._log(found)
            found.weight, found.rest = number, 0

    @in_turn
    def set_key(self, tenant: str, value: int | float) -> None:
        """Set a tenant's key, by "key": the lowest is next; at first 0. O(log tenants)."""
        name = as_name(tenant, "tenant")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"value must be an int or a float, not {type(value).__name__}")
        if not isfinite(value) or abs(value) > 2**63:
            raise ValueError("value: allowed are -2**63 to 2**63")
        found = self._tenant(name)
        if self._undo.is_on:
            self._log(found)
        found.value = value
        if self._order == "key" and found.tag != value:
            found.tag = value
            if found.offers:
                self._rejoin(found)

    @property
    def offers(self) -> bool:
        """Whether some tenant offers a job: `next` has one, if nobody but the queues is asked."""
        with self._lock:
            return bool(self._ring)

    @property
    def backfills(self) -> bool:
        """Whether jobs backfill, be it in the queue of one tenant or in new ones."""
        with self._lock:
            modes = {self._blocking, *(one.mode for one in self._tenants.values())}
            return "backfill" in modes

    @in_turn
    def set_blocking(self, tenant: str, blocking: Blocking) -> None:
        """Set what a job that cannot leave means to those behind it in a tenant's queue."""
        name, mode = as_name(tenant, "tenant"), as_choice(blocking, "blocking", _MODES)
        found = self._tenant(name)
        if self._undo.is_on:
            self._log(found)
        found.mode = mode
        self._update(found)

    # --- kinds

    @in_turn
    def park(self, tenant: str, kind: int) -> None:
        """Offer no job of this kind by `next` and `peek` until it is woken; O(log kinds).

        :param kind: 1 to 2**61. There need not be a job of it: those that come wait, too.
        :raises KeyError: the tenant was never named.

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
        found = self._named(tenant)
        number = as_int(kind, "kind", 1, _MOST_KIND)
        if number not in found.line.parked:
            if self._undo.is_on:
                self._log(found)
            found.line.park(number)
            found.line.tidy(found.size, self._lives)
            self._update(found)

    @in_turn
    def wake(self, tenant: str, kind: int) -> bool:
        """Offer a kind's jobs again, and say whether it was parked. O(log kinds).

        :raises KeyError: the tenant was never named.
        """
        found = self._named(tenant)
        number = as_int(kind, "kind", 0, _MOST_KIND)
        if number not in found.line.parked:
            return False
        if self._undo.is_on:
            self._log(found)
        found.line.wake(number)
        found.line.tidy(found.size, self._lives)
        self._update(found)
        return True

    @in_turn
    def parked(self, tenant: str) -> tuple[int, ...]:
        """The kinds of a tenant that are parked, in ascending order.

        :raises KeyError: the tenant was never named.
        """
        return tuple(sorted(self._named(tenant).line.parked))

    # --- state

    @in_turn
    def check(self) -> None:
        """Audit every invariant; raises `InvariantError`. O(n log n)."""
        sizes = dict.fromkeys(self._tenants, 0)
        for name, entry in self._entries.items():
            _require(name == entry.job.name, f"job {entry.job.name!r} is known as {name!r}")
            sizes[entry.job.tenant] += 1
            _require(entry.key == self._key(entry.job, entry.arrived), f"job {name!r}: key")
            _require(0 < entry.number <= self._numbered, f"job {name!r}: number")
            _require(0 <= entry.arrived <= self._now, f"job {name!r}: arrived")
            _require(0 <= entry.stamp <= self._stamped, f"job {name!r}: stamp")
        ring = [entry[2] for entry in self._ring if self._in_ring(entry)]
        offering = [tenant.index for tenant in self._tenants.values() if tenant.offers]
        _require({tenant.index for tenant in ring} == set(offering), "the ring lacks tenants")
        _require(not self._ring or self._in_ring(self._ring[0]), "the ring begins with nobody")
        for i, (name, tenant) in enumerate(self._tenants.items()):
            _require(tenant.name == name and tenant.index == i, f"tenant {name!r} is lost")
            _require(tenant.size == sizes[name], f"tenant {name!r}: size")
            queue = self._in_order(tenant)
            _require(len(queue) == tenant.size, f"tenant {name!r}: lost jobs")
            free = [one.job.kind not in tenant.line.parked for one in queue]
            offers = any(free[:1] if tenant.mode == "fifo" else free)
            _require(tenant.offers == offers, f"tenant {name!r}: what it offers")
            _require(0 <= tenant.rest < tenant.weight, f"tenant {name!r}: remainder")
            _require(tenant.mode in _MODES, f"tenant {name!r}: mode")
            _require(tenant.line.is_sound(), f"tenant {name!r}: order")
            for heap in (tenant.line.heads, tenant.line.shut):
                _require(not heap or self._lives(heap[0]), f"tenant {name!r}: the first is dead")
            if self._order == "key":
                _require(tenant.tag == tenant.value, f"tenant {name!r}: key")
            if self._order in _BY_JOB and tenant.offers:
                _require(tenant.tag == _place(tenant), f"tenant {name!r}: its first job")
        _require(is_heap([entry[:2] for entry in self._ring]), "the ring is out of order")

    @in_turn
    def copy(self) -> Self:
        """An independent what-if branch. Cost: O(jobs), of which all is shared but the order."""
        made = type(self)(ageing=self._ageing)
        made._order, made._rank, made._blocking = self._order, self._rank, self._blocking
        made._entries = self._entries.copy()
        for name, tenant in self._tenants.items():
            line = tenant.line.copy(made._undo, made._is_spare)
            made._tenants[name] = tenant.copy(line)
        made._gather_ring()
        made._clock, made._now = self._clock, self._now
        made._numbered, made._stamped = self._numbered, self._stamped
        return made

    def _gather_ring(self) -> None:
        tenants = self._tenants.values()
        self._ring = [(one.tag, one.index, one) for one in tenants if one.offers]
        heapify(self._ring)

    def _plain(self) -> dict[str, Any]:
        rate = self._ageing
        return {
            "settings": (self._order, rate.numerator, rate.denominator, self._blocking),
            "counts": (self._now, self._numbered, self._stamped, self._clock),
            "tenants": [
                (
                    *(one.name, one.mode, one.weight, one.tag, one.rest, one.value),
                    *sorted(one.line.parked),
                )
                for one in self._tenants.values()
            ],
            "jobs": [
                (
                    (
                        *(job.name, job.tenant, job.size, job.priority),
                        *(job.run_time, job.kind, job.attained),
                    ),
                    job.resources,
                    job.namespace,
                    entry.arrived,
                    entry.number,
                    entry.stamp,
                )
                for entry in sorted(self._entries.values(), key=lambda one: one[1:3])
                for job in (entry.job,)
            ],
        }

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        order, numerator, denominator, blocking = state["settings"]
        made = cls(order=order, ageing=Fraction(numerator, denominator), blocking=blocking)
        now, numbered, stamped, clock = state["counts"]
        made._now = as_int(now, "now", 0, _LATEST)
        made._numbered = as_int(numbered, "numbered", 0, 2**62)
        made._stamped = as_int(stamped, "stamped", 0, 2**62)
        made._clock = as_int(clock, "clock", -(2**200), 2**200)
        for name, mode, weight, tag, rest, value, *parked in state["tenants"]:
            if name in made._tenants:
                raise ValueError(f"tenant {name!r} is there twice")
            tenant = made._tenant(as_name(name, "tenant"))
            tenant.mode = as_choice(mode, "mode", _MODES)
            tenant.weight = as_int(weight, "weight", 1, _MOST_WEIGHT)
            tenant.rest = as_int(rest, "rest", 0, weight - 1)
            made.set_key(name, value)
            if order != "key":
                tenant.tag = as_int(tag, "tag", -(2**200), 2**200)
            for kind in parked:
                tenant.line.park(as_int(kind, "kind", 1, _MOST_KIND))
        for fields, resources, namespace, arrived, number, stamp in state["jobs"]:
            job = QueuedJob(*fields, resources=dict(resources), namespace=namespace)
            if job.name in made._entries:
                raise ValueError(f"job {job.name!r} is there twice")
            tenant = made._tenants[job.tenant]
            came = as_int(arrived, "arrived", 0, made._now)
            place = as_int(number, "number", 1, made._numbered)
            again = as_int(stamp, "stamp", 0, made._stamped)
            entry = Entry(made._key(job, came), place, again, came, job)
            made._entries[job.name] = entry
            tenant.line.insert(entry)
            tenant.size += 1
        for tenant in made._tenants.values():
            tenant.offers = tenant.line.offers(tenant.mode == "fifo")
        made._gather_ring()
        return made

    # --- trials

    def _mark(self) -> int:
        mark = self._undo.mark()
        if mark == 1:
            self._before, self._died = (self._numbered, self._stamped), set()
        self._undo.add((self._recount, self._clock, self._now, self._numbered, self._stamped))
        self._marked += 1
        self._marks.append(self._marked)
        return mark

    def _recount(self, clock: int, now: int, numbered: int, stamped: int) -> None:
        self._clock, self._now, self._numbered, self._stamped = clock, now, numbered, stamped

    def _rewind(self, mark: int) -> None:
        self._undo.rewind(mark)
        self._marks.pop()

    def _keep(self, mark: int) -> None:
        self._undo.end(mark)
        self._marks.pop()

    def _log(self, tenant: _Tenant) -> None:
        """Let a trial restore a tenant that is about to change."""
        if self._undo.is_on and tenant.logged != self._marks[-1]:
            self._undo.add((self._restore, tenant, _values(tenant), tenant.line.state()))
            tenant.logged = self._marks[-1]

    def _restore(self, tenant: _Tenant, values: tuple[Any, ...], line: tuple[Any, ...]) -> None:
        for name, value in zip(_CHANGING, values, strict=True):
            setattr(tenant, name, value)
        tenant.line.restore(*line)
        if tenant.offers:
            self._rejoin(tenant)
        else:
            self._tidy_ring()

    def _forget(self, tenant: str) -> None:
        del self._tenants[tenant]
        self._gather_ring()

    def _is_spare(self, entry: Entry, other: Entry) -> bool:
        """Whether an entry was dead and behind another one before the first mark."""
        is_old = other.number <= self._before[0] and other.stamp <= self._before[1]
        return is_old and not self._lives(entry) and id(entry) not in self._died

    # --- what they have in common

    def _moment(self, now: int) -> int:
        if type(now) is int and self._now <= now <= _LATEST:
            return now
        return as_int(now, "now", self._now, _LATEST)

    def _known(self, name: str) -> Entry:
        entry = self._entries.get(as_text(name, "name"))
        if entry is None:
            raise KeyError(f"there is no job {name!r}")
        return entry

    def _named(self, tenant: str) -> _Tenant:
        found = self._tenants.get(as_text(tenant, "tenant"))
        if found is None:
            raise KeyError(f"there is no tenant {tenant!r}")
        return found

    def _tenant(self, name: str) -> _Tenant:
        found = self._tenants.get(name)
        if found is None:
            line = Line(self._undo, self._is_spare)
            found = _Tenant(name, len(self._tenants), self._blocking, line)
            self._tenants[name] = found
            if self._undo.is_on:
                self._undo.add((self._forget, name))
        return found

    def _key(self, job: QueuedJob, arrived: int) -> int:
        if self._rank is not None:
            return self._rank(job) - (job.priority << _PRIORITY)
        return arrived * self._rate - job.priority * self._scale

    def _lives(self, entry: Entry) -> bool:
        return self._entries.get(entry.job.name) is entry

    def _in_ring(self, entry: tuple[int | float, int, _Tenant]) -> bool:
        return entry[2].offers and entry[2].tag == entry[0]

    def _in_order(self, tenant: _Tenant) -> list[Entry]:
        return [entry for entry in tenant.line if self._lives(entry)]

    def _wake(self, tenant: _Tenant, refunded: bool) -> None:
        """A tenant has become busy. One that has its charge back, or whose jobs were parked, has
        been busy all the time.
        """
        if self._order == "weighted":
            if not refunded and tenant.tag < self._clock:
                tenant.tag, tenant.rest = self._clock, 0
        elif self._order == "round-robin":
            turn, last = divmod(self._clock, 2**40)
            tenant.tag = turn if tenant.index >= last else turn + 1
        elif self._order in _BY_JOB and tenant.line.heads:
            tenant.tag = _place(tenant)
        if tenant.line.heads:
            tenant.offers = True
            self._rejoin(tenant)

    def _update(self, tenant: _Tenant) -> None:
        """What a tenant offers may have changed: it is in the ring while that is anything.

        Meanwhile its tag stays, as if it was asked and no job could leave.
        """
        offers = tenant.line.offers(tenant.mode == "fifo")
        if offers and not tenant.offers:
            self._wake(tenant, True)
        elif tenant.offers and not offers:
            tenant.offers = False
            self._tidy_ring()
        elif offers and self._order in _BY_JOB and tenant.tag != _place(tenant):
            tenant.tag = _place(tenant)
            self._rejoin(tenant)

    def _rejoin(self, tenant: _Tenant) -> None:
        ring = self._ring
        heappush(ring, (tenant.tag, tenant.index, tenant))
        first = ring[0][2]
        if not first.offers or first.tag != ring[0][0] or len(ring) > len(self._tenants):
            self._tidy_ring()

    def _tidy_ring(self) -> None:
        ring = self._ring
        while ring and not (ring[0][2].offers and ring[0][2].tag == ring[0][0]):
            heappop(ring)
        if len(ring) > 2 * len(self._tenants) + 16:
            # Who comes and goes at the same tag is in it more than once.
            self._gather_ring()

    def _choose(self, asked: _Round) -> tuple[_Tenant | None, Entry | None, list[_Tenant]]:
        passed: list[_Tenant] = []
        if asked.capacity is not None and asked.capacity.free == 0:
            return None, None, passed
        for entry in ordered(self._ring):
            tenant = entry[2]
            if not self._in_ring(entry) or (passed and tenant is passed[-1]):
                continue
            found = asked.choice(tenant, self._lives)
            if found is not None:
                return tenant, found, passed
            passed.append(tenant)
        return None, None, passed

    def _leave(self, entry: Entry, tenant: _Tenant) -> None:
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

    def _charge(self, tenant: _Tenant, size: int, passed: list[_Tenant]) -> int:
        charge, order = 0, self._order
        if order == "weighted":
            tag, weight = tenant.tag, tenant.weight
            if tag > self._clock:
                self._clock = int(tag)
            charge, moved = size, size << _SHIFT
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
        elif order in _BY_JOB and tenant.offers:
            tenant.tag = _place(tenant)
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


def _place(tenant: _Tenant) -> int:
    """Of its first job among all, as one number."""
    first = tenant.line.heads[0]
    return (first.key << 62) + first.number


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantError(what)
