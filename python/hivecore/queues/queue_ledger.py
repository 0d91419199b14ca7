"""Tenants and their jobs, in the order in which they are next.

The jobs of a tenant are in a line, ordered by a key that does not change with time: ageing adds the
same to all of them. Jobs of one priority are ordered by a rank, such as the run time. Tenants whose
line offers a job are in a heap, ordered by a tag:

    weighted      start-time fair queueing: the virtual time of the tenant, which grows by size /
                  weight with each job. The virtual time V is the largest tag served so far; a
                  tenant that becomes busy starts at max(its own tag, V).
    round-robin   the number of the round in which the tenant is next
    key           the caller's key
    gpu-time      as "weighted", but growing by size * time / weight; see `_running`
    by job        "arrival", "sjf", "srsf" and "2d-las": the key of its first job that is not parked

Tags are in units of 2**-72, and the remainder is carried over. Amounts per weight are multiples of
at least 2**-62, so rounding never breaks the bound of exact tags.

A tenant whose jobs are all parked leaves the heap and keeps its tag, like a tenant without a job
that can leave.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush
from threading import RLock
from typing import Any, Literal, Self, cast

from hivecore._arguments import as_choice, as_int, as_name, as_text
from hivecore._stateful import PlainState, counted, shown
from hivecore._trial import LoggedTrials, UndoLog
from hivecore._turns import in_turn
from hivecore.errors import InvariantError
from hivecore.queues._line import Entry, Line
from hivecore.queues._ring import is_heap
from hivecore.queues._running import Running
from hivecore.queues._tenant import CHANGING, Tenant, changing_values, place_of
from hivecore.queues.queued_job import QueuedJob

__all__ = [
    "BY_JOB",
    "FAIR",
    "MOST_KIND",
    "MOST_WEIGHT",
    "SHIFT",
    "Blocking",
    "QueueLedger",
    "TenantOrder",
]

#: Which tenant is next: see `TenantQueues`.
TenantOrder = Literal[
    "weighted", "gpu-time", "round-robin", "key", "arrival", "sjf", "srsf", "2d-las"
]
#: What happens behind a job that cannot leave: see `TenantQueues`.
Blocking = Literal["fifo", "best-effort", "backfill"]

#: By order: the rank of a job among jobs of its priority, the lowest first.
_RANKS: dict[str, Callable[[QueuedJob], int]] = {
    "sjf": lambda job: _UNKNOWN if job.run_time is None else job.run_time,
    "srsf": lambda job: _UNKNOWN if job.run_time is None else job.size * job.run_time,
    "2d-las": lambda job: job.size * job.attained,
}
BY_JOB = ("arrival", *_RANKS)
#: Tags are virtual times.
FAIR = ("weighted", "gpu-time")
_ORDERS = ("weighted", "gpu-time", "round-robin", "key", *BY_JOB)
_MODES = ("fifo", "best-effort", "backfill")
_LATEST = 2**61
MOST_KIND = 2**61
MOST_WEIGHT = 2**31 - 1
SHIFT = 72
_UNKNOWN = 2**92  # no rank is higher
_PRIORITY = 100  # bits of a rank


class QueueLedger(LoggedTrials, PlainState):
    """The part of `TenantQueues` without push and next: tenants, their settings, the order of
    tenants and jobs, trials and saved states.
    """

    __slots__ = (
        *("_ageing", "_before", "_blocking", "_clock", "_died", "_entries", "_lock", "_marked"),
        *("_marks", "_now", "_numbered", "_order", "_rank", "_rate", "_ring", "_running", "_scale"),
        *("_served", "_stamped", "_tenants"),
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
        self._tenants: dict[str, Tenant] = {}
        #: tenants that offer a job, by tag
        self._ring: list[tuple[int | float, int, Tenant]] = []
        self._clock = 0  # virtual time, or the round and the last tenant in one
        #: the number of the job that left last, and the virtual time before
        self._served = 0, 0
        self._now = self._numbered = self._stamped = 0
        self._lock = RLock()
        self._undo = UndoLog()
        self._running = Running(self._undo)
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

    @in_turn
    def __len__(self) -> int:
        return len(self._entries)

    @in_turn
    def __contains__(self, name: object) -> bool:
        return name in self._entries

    @in_turn
    def __iter__(self) -> Iterator[QueuedJob]:
        """A snapshot: tenants in the order of their first naming, the jobs of each in order."""
        tenants = self._tenants.values()
        return iter([entry.job for tenant in tenants for entry in self._in_order(tenant)])

    # --- tenants

    @property
    def tenants(self) -> tuple[str, ...]:
        """All tenants that were ever named, in the order of their first naming."""
        with self._lock:
            return tuple(self._tenants)

    @in_turn
    def set_weight(self, tenant: str, weight: int) -> None:
        """Set the weight of a tenant for "weighted" and "gpu-time": 1 to 2**31 - 1, at first 1."""
        name, number = as_name(tenant, "tenant"), as_int(weight, "weight", 1, MOST_WEIGHT)
        known = self._tenant(name)
        if number != known.weight:
            if self._undo.is_on:
                self._log(known)
            known.weight, known.rest = number, 0

    @in_turn
    def set_key(self, tenant: str, value: int | float) -> None:
        """Set the key of a tenant for "key": the lowest is next; at first 0. O(log tenants)."""
        name = as_name(tenant, "tenant")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"value must be an int or a float, not {type(value).__name__}")
        if not abs(value) <= 2**63:  # NaN is not
            raise ValueError("value: allowed are -2**63 to 2**63")
        known = self._tenant(name)
        if self._undo.is_on:
            self._log(known)
        known.value = value
        if self._order == "key" and known.tag != value:
            known.tag = value
            if known.offers:
                self._rejoin(known)

    @property
    def offers(self) -> bool:
        """Whether a tenant offers a job: `next` returns one if there are no plug-ins and limits."""
        with self._lock:
            return bool(self._ring)

    @property
    def charges_time(self) -> bool:
        """Whether tenants are charged for the run time of their jobs: "gpu-time"."""
        with self._lock:
            return self._order == "gpu-time"

    @property
    def backfills(self) -> bool:
        """Whether any queue, or that of a new tenant, backfills."""
        with self._lock:
            modes = {self._blocking, *(tenant.mode for tenant in self._tenants.values())}
            return "backfill" in modes

    @in_turn
    def blocking(self, tenant: str) -> Blocking:
        """What happens behind a job that cannot leave, in the queue of a tenant."""
        known = self._tenants.get(as_name(tenant, "tenant"))
        return cast(Blocking, self._blocking if known is None else known.mode)

    @in_turn
    def set_blocking(self, tenant: str, blocking: Blocking) -> None:
        """Set what happens behind a job that cannot leave, in the queue of a tenant."""
        name, mode = as_name(tenant, "tenant"), as_choice(blocking, "blocking", _MODES)
        known = self._tenant(name)
        if self._undo.is_on:
            self._log(known)
        known.mode = mode
        self._update(known)

    @in_turn
    def parked(self, tenant: str) -> tuple[int, ...]:
        """The parked kinds of a tenant, ascending."""
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
        _require(
            not self._ring or self._in_ring(self._ring[0]),
            "the ring begins with a tenant that offers nothing",
        )
        for i, (name, tenant) in enumerate(self._tenants.items()):
            _require(tenant.name == name and tenant.index == i, f"tenant {name!r} is lost")
            _require(tenant.size == sizes[name], f"tenant {name!r}: size")
            queue = self._in_order(tenant)
            _require(len(queue) == tenant.size, f"tenant {name!r}: lost jobs")
            free = [entry.job.kind not in tenant.line.parked for entry in queue]
            offers = any(free[:1] if tenant.mode == "fifo" else free)
            _require(tenant.offers == offers, f"tenant {name!r}: what it offers")
            _require(0 <= tenant.rest < tenant.weight, f"tenant {name!r}: remainder")
            _require(tenant.mode in _MODES, f"tenant {name!r}: mode")
            _require(tenant.line.is_sound(), f"tenant {name!r}: order")
            for heap in (tenant.line.heads, tenant.line.shut):
                _require(not heap or self._lives(heap[0]), f"tenant {name!r}: the first is dead")
            if self._order == "key":
                _require(tenant.tag == tenant.value, f"tenant {name!r}: key")
            if self._order in BY_JOB and tenant.offers:
                place = place_of(tenant.line.heads[0])
                _require(tenant.tag == place, f"tenant {name!r}: its first job")
        _require(is_heap([entry[:2] for entry in self._ring]), "the ring is out of order")

    @in_turn
    def copy(self) -> Self:
        """An independent branch for what-if questions. Cost: O(jobs)."""
        branch = type(self)(ageing=self._ageing)
        branch._order, branch._rank, branch._blocking = self._order, self._rank, self._blocking
        branch._entries = self._entries.copy()
        for name, tenant in self._tenants.items():
            line = tenant.line.copy(branch._undo, branch._is_spare)
            branch._tenants[name] = tenant.copy(line)
        branch._running = self._running.copy(branch._undo)
        branch._gather_ring()
        branch._clock, branch._served, branch._now = self._clock, self._served, self._now
        branch._numbered, branch._stamped = self._numbered, self._stamped
        return branch

    def _gather_ring(self) -> None:
        tenants = self._tenants.values()
        self._ring = [(tenant.tag, tenant.index, tenant) for tenant in tenants if tenant.offers]
        heapify(self._ring)

    def _plain(self) -> dict[str, Any]:
        rate = self._ageing
        tenants = self._tenants.values()
        times: dict[str, Any] = {}
        if self._order == "gpu-time":
            times["times"] = (
                [(tenant.ran, tenant.runs) for tenant in tenants],
                self._running.plain(),
            )
        return times | {
            "settings": (self._order, rate.numerator, rate.denominator, self._blocking),
            "counts": (self._now, self._numbered, self._stamped, self._clock, *self._served),
            "tenants": [
                (
                    *(
                        tenant.name,
                        tenant.mode,
                        tenant.weight,
                        tenant.tag,
                        tenant.rest,
                        tenant.value,
                    ),
                    *sorted(tenant.line.parked),
                )
                for tenant in tenants
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
                for entry in sorted(self._entries.values(), key=lambda entry: entry[1:3])
                for job in (entry.job,)
            ],
        }

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        order, numerator, denominator, blocking = state["settings"]
        queues = cls(order=order, ageing=Fraction(numerator, denominator), blocking=blocking)
        now, numbered, stamped, clock, *served = state["counts"]
        queues._now = as_int(now, "now", 0, _LATEST)
        queues._numbered = as_int(numbered, "numbered", 0, 2**62)
        queues._stamped = as_int(stamped, "stamped", 0, 2**62)
        queues._clock = as_int(clock, "clock", -(2**200), 2**200)
        number, before = served or (0, 0)
        queues._served = (
            as_int(number, "served", 0, 2**62),
            as_int(before, "clock", -(2**200), 2**200),
        )
        for name, mode, weight, tag, rest, value, *parked in state["tenants"]:
            if name in queues._tenants:
                raise ValueError(f"tenant {name!r} is there twice")
            tenant = queues._tenant(as_name(name, "tenant"))
            tenant.mode = as_choice(mode, "mode", _MODES)
            tenant.weight = as_int(weight, "weight", 1, MOST_WEIGHT)
            tenant.rest = as_int(rest, "rest", 0, weight - 1)
            queues.set_key(name, value)
            if order != "key":
                tenant.tag = as_int(tag, "tag", -(2**200), 2**200)
            for kind in parked:
                tenant.line.park(as_int(kind, "kind", 1, MOST_KIND))
        if order == "gpu-time":
            times, running = state["times"]
            for tenant, (ran, runs) in zip(queues._tenants.values(), times, strict=True):
                tenant.ran = as_int(ran, "ran", 0, 2**124)
                tenant.runs = as_int(runs, "runs", 0, 2**62)
            queues._running.restore(running, queues._tenants, queues._now)
        for fields, resources, namespace, arrived, number, stamp in state["jobs"]:
            job = QueuedJob(*fields, resources=dict(resources), namespace=namespace)
            if job.name in queues._entries:
                raise ValueError(f"job {job.name!r} is there twice")
            tenant = queues._tenants[job.tenant]
            came = as_int(arrived, "arrived", 0, queues._now)
            place = as_int(number, "number", 1, queues._numbered)
            again = as_int(stamp, "stamp", 0, queues._stamped)
            entry = Entry(queues._key(job, came), place, again, came, job)
            queues._entries[job.name] = entry
            tenant.line.insert(entry)
            tenant.size += 1
        for tenant in queues._tenants.values():
            tenant.offers = tenant.line.offers(tenant.mode == "fifo")
        queues._gather_ring()
        return queues

    # --- trials

    def _mark(self) -> int:
        mark = self._undo.mark()
        if mark == 1:
            self._before, self._died = (self._numbered, self._stamped), set()
        counts = self._clock, self._served, self._now, self._numbered, self._stamped
        self._undo.add((self._recount, *counts))
        self._marked += 1
        self._marks.append(self._marked)
        return mark

    def _recount(
        self, clock: int, served: tuple[int, int], now: int, numbered: int, stamped: int
    ) -> None:
        self._clock, self._served, self._now = clock, served, now
        self._numbered, self._stamped = numbered, stamped

    def _rewind(self, mark: int) -> None:
        self._undo.rewind(mark)
        self._marks.pop()

    def _keep(self, mark: int) -> None:
        self._undo.end(mark)
        self._marks.pop()

    def _log(self, tenant: Tenant) -> None:
        """Remember for a trial a tenant that is about to change."""
        if self._undo.is_on and tenant.logged != self._marks[-1]:
            self._undo.add((self._restore, tenant, changing_values(tenant), tenant.line.state()))
            tenant.logged = self._marks[-1]

    def _restore(self, tenant: Tenant, values: tuple[Any, ...], line: tuple[Any, ...]) -> None:
        for name, value in zip(CHANGING, values, strict=True):
            setattr(tenant, name, value)
        tenant.line.restore(*line)
        if tenant.offers:
            self._rejoin(tenant)
        else:
            self._tidy_ring()

    def _forget(self, tenant: str) -> None:
        self._tenants.pop(tenant).offers = False  # what is left of it in the ring is litter
        self._tidy_ring()

    def _is_spare(self, entry: Entry, other: Entry) -> bool:
        """Whether an entry was dead and behind another one before the first mark."""
        is_old = other.number <= self._before[0] and other.stamp <= self._before[1]
        return is_old and not self._lives(entry) and id(entry) not in self._died

    # --- tenants and their order

    def _moment(self, now: int) -> int:
        if type(now) is int and self._now <= now <= _LATEST:
            return now
        return as_int(now, "now", self._now, _LATEST)

    def _known(self, name: str) -> Entry:
        entry = self._entries.get(as_text(name, "name"))
        if entry is None:
            raise KeyError(f"there is no job {name!r}")
        return entry

    def _named(self, tenant: str) -> Tenant:
        known = self._tenants.get(as_text(tenant, "tenant"))
        if known is None:
            raise KeyError(f"there is no tenant {tenant!r}")
        return known

    def _tenant(self, name: str) -> Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            line = Line(self._undo, self._is_spare)
            tenant = Tenant(name, len(self._tenants), self._blocking, line)
            self._tenants[name] = tenant
            if self._undo.is_on:
                self._undo.add((self._forget, name))
        return tenant

    def _key(self, job: QueuedJob, arrived: int) -> int:
        if self._rank is not None:
            return self._rank(job) - (job.priority << _PRIORITY)
        return arrived * self._rate - job.priority * self._scale

    def _lives(self, entry: Entry) -> bool:
        return self._entries.get(entry.job.name) is entry

    def _in_ring(self, entry: tuple[int | float, int, Tenant]) -> bool:
        return entry[2].offers and entry[2].tag == entry[0]

    def _in_order(self, tenant: Tenant) -> list[Entry]:
        return [entry for entry in tenant.line if self._lives(entry)]

    def _wake(self, tenant: Tenant, refunded: bool) -> None:
        """Add a tenant that has become busy to the ring.

        :param refunded: it was busy all the time: its charge was reversed, or its jobs were parked.
        """
        if self._order in FAIR:
            if not refunded and tenant.tag < self._clock:
                tenant.tag, tenant.rest = self._clock, 0
        elif self._order == "round-robin":
            turn, last = divmod(self._clock, 2**40)
            tenant.tag = turn if tenant.index >= last else turn + 1
        elif self._order in BY_JOB and tenant.line.heads:
            tenant.tag = place_of(tenant.line.heads[0])
        if tenant.line.heads:
            tenant.offers = True
            self._rejoin(tenant)

    def _update(self, tenant: Tenant) -> None:
        """Add a tenant to the ring, or remove it, after a change of its offer; its tag stays."""
        offers = tenant.line.offers(tenant.mode == "fifo")
        if offers and not tenant.offers:
            self._wake(tenant, True)
        elif tenant.offers and not offers:
            tenant.offers = False
            self._tidy_ring()
        elif offers and self._order in BY_JOB and tenant.tag != place_of(tenant.line.heads[0]):
            tenant.tag = place_of(tenant.line.heads[0])
            self._rejoin(tenant)

    def _advance(self, tenant: Tenant, amount: int, weight: int) -> None:
        """Charge a tenant an amount, which may be negative, by a weight of now or before."""
        # With the same weight the remainder comes back as it was.
        same = weight == tenant.weight
        moved, rest = divmod((tenant.rest if same else 0) + (amount << SHIFT), weight)
        if same:
            tenant.rest = rest
        tenant.tag += moved

    def _pass_time(self, moment: int) -> None:
        """Charge tenants for jobs that have run longer than was charged ("gpu-time")."""
        charged: dict[str, Tenant] = {}
        while (due := self._running.due(moment)) is not None:
            name, run = due
            if run.tenant not in charged:
                tenant = charged[run.tenant] = self._tenants[run.tenant]
                self._log(tenant)
            paid = run.paid << ((moment - run.since) // run.paid).bit_length()
            self._running.start(name, run._replace(paid=paid))
            self._advance(charged[run.tenant], run.size * (paid - run.paid), run.weight)
        for tenant in charged.values():
            if tenant.offers:
                self._rejoin(tenant)

    def _rejoin(self, tenant: Tenant) -> None:
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
            # A tenant that leaves and returns with the same tag is in it more than once.
            self._gather_ring()


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantError(what)
