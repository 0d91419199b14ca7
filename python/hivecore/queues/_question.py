"""What may leave the queues: plug-ins, places, capacity and what is reserved of it."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from heapq import heappop, heappush, heapreplace
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from hivecore._arguments import as_tuple
from hivecore.queues._line import Entry, Lane, lane_of
from hivecore.queues._tenant import Tenant, place_of
from hivecore.queues.queued_job import Capacity, QueuedJob

__all__ = ["Question"]

_PLUGS = ("filter", "score", "pre_dequeue")


class _Reservation(NamedTuple):
    """The capacity that a job will have at some time, and what is left beside it."""

    job: str
    time: int
    extra: int


class Question:
    """One question: what may leave, and what was reserved on the way."""

    __slots__ = (
        *("blocker", "capacity", "filters", "fits", "most", "now", "pre_dequeues", "reserved"),
        "scores",
    )

    def __init__(self, now: int, plugins: Any, fits: Any, capacity: Any) -> None:
        self.now = now
        self.filters: list[Callable[[QueuedJob], Any]] = []
        self.scores: list[Callable[[QueuedJob], Any]] = []
        self.pre_dequeues: list[Callable[[QueuedJob], Any]] = []
        for plugin in as_tuple(plugins, "plugins"):
            methods = [getattr(plugin, name, None) for name in _PLUGS]
            if not any(map(callable, methods)):
                raise TypeError(f"plugins: {type(plugin).__name__} has none of {', '.join(_PLUGS)}")
            for method, into in zip(
                methods, (self.filters, self.scores, self.pre_dequeues), strict=True
            ):
                if callable(method):
                    into.append(method)
        if fits is not None and not callable(fits):
            raise TypeError(f"fits must be callable, not {type(fits).__name__}")
        if capacity is not None and not isinstance(capacity, Capacity):
            raise TypeError(f"capacity must be a Capacity, not {type(capacity).__name__}")
        self.fits = fits
        self.capacity: Capacity | None = capacity
        #: what is free when all running jobs have ended
        self.most = 0
        if capacity is not None:
            self.most = capacity.free + sum([size for _, size in capacity.running])
        self.reserved: _Reservation | None = None
        #: a job behind which no other of its tenant may leave
        self.blocker: QueuedJob | None = None

    def filtered(self, job: QueuedJob) -> str:
        """Why a filter holds it back; "": none does."""
        for ask in self.filters:
            reason = _reason(ask(job), "a filter holds it back")
            if reason:
                return reason
        return ""

    def misfit(self, job: QueuedJob) -> str:
        """Why it does not fit; it may be that it would delay another one."""
        return self.shortage(job) or self.unplaced(job)

    def shortage(self, job: QueuedJob) -> str:
        """Why the capacity does not allow it."""
        capacity = self.capacity
        if capacity is not None:
            if job.size > capacity.free:
                return f"needs {job.size}, and {capacity.free} are free"
            reserved = self.reserved
            if reserved is not None and job.size > reserved.extra:
                ends = None if job.run_time is None else self.now + job.run_time
                if ends is None or ends > reserved.time:
                    return f"would delay {reserved.job!r}, reserved for {reserved.time}"
        return ""

    def unplaced(self, job: QueuedJob) -> str:
        """Why it has no place."""
        return _reason(self.fits(job), "does not fit") if self.fits is not None else ""

    def reserve(self, job: QueuedJob) -> None:
        """Reserve the capacity that it will have first, if it will have enough."""
        capacity = self.capacity
        assert capacity is not None
        if job.size > self.most:
            return
        free = capacity.free
        time: int | None = self.now if free >= job.size else None
        for end, size in capacity.running:
            # Whatever ends at the same time is free then, too.
            if time is not None and end > time:
                break
            free += size
            if time is None and free >= job.size:
                time = max(self.now, end)
        assert time is not None
        self.reserved = _Reservation(job.name, time, free - job.size)

    def admits(self, tenant: Tenant, job: QueuedJob, refused: set[Lane]) -> bool | None:
        """Whether a job may leave; ``None``: nor may those behind it.

        :param refused: gets the queue of the line if no other job of it is to be tried.
        """
        held = self.filtered(job) if self.filters else ""
        short = self.shortage(job) if self.capacity is not None and not held else ""
        if not held and not short and not self.unplaced(job):
            return True
        easy = tenant.mode == "backfill" and not held and self.reserved is None
        if tenant.mode == "fifo" or (easy and self.capacity is None):
            self.blocker = job
            return None
        if easy:
            self.reserve(job)
        if job.kind and not short:
            # The others would get the same answer; sizes and run times may differ.
            refused.add(lane_of(job))
        return False

    def candidates(self, tenant: Tenant, lives: Callable[[Any], bool]) -> Iterator[Entry]:
        """The jobs of a queue that may leave, in order; those behind a blocked one as it allows."""
        refused: set[Lane] = set()
        return self._admitted(tenant, _walk(tenant, lives, refused), refused)

    def _admitted(
        self, tenant: Tenant, entries: Iterator[Entry], refused: set[Lane]
    ) -> Iterator[Entry]:
        for entry in entries:
            answer = self.admits(tenant, entry.job, refused)
            if answer:
                yield entry
            elif answer is None:
                return

    def first(
        self,
        tenants: Iterator[Tenant],
        lives: Callable[[Any], bool],
        until: Entry | None = None,
    ) -> tuple[Tenant | None, Entry | None]:
        """The first job of these tenants that may leave, before ``until``, and its tenant."""
        # The next job of each tenant that was begun, with its place and what follows it.
        ahead: list[tuple[int, int, Entry, Tenant, set[Lane], Iterator[Entry]]] = []
        coming = next(tenants, None)
        while coming is not None or ahead:
            if coming is not None and (not ahead or coming.tag < ahead[0][0]):
                refused: set[Lane] = set()
                rest = _walk(coming, lives, refused)
                entry = next(rest)
                heappush(ahead, (place_of(entry), coming.index, entry, coming, refused, rest))
                coming = next(tenants, None)
                continue
            _, index, entry, tenant, refused, rest = ahead[0]
            if entry is until:
                break
            answer = self.admits(tenant, entry.job, refused)
            if answer:
                candidates = chain([entry], self._admitted(tenant, rest, refused))
                return tenant, self._best(tenant, candidates)
            follower = None if answer is None else next(rest, None)
            if follower is None:
                heappop(ahead)
            else:
                after = place_of(follower), index, follower, tenant, refused, rest
                heapreplace(ahead, after)
        return None, None

    def choice(self, tenant: Tenant, lives: Callable[[Any], bool]) -> Entry | None:
        """The job of a queue that leaves."""
        return self._best(tenant, self.candidates(tenant, lives))

    def _best(self, tenant: Tenant, candidates: Iterator[Entry]) -> Entry | None:
        if not self.scores or tenant.mode == "fifo":
            return next(candidates, None)
        # max keeps the first among equals.
        best: Entry | None = None
        most: Any = None
        for entry in candidates:
            score = sum([_score(rate, entry.job) for rate in self.scores])
            if score != score:
                raise ValueError(f"scores of job {entry.job.name!r}: their sum is not a number")
            if best is None or score > most:
                best, most = entry, score
        return best


def _walk(tenant: Tenant, lives: Callable[[Any], bool], refused: set[Lane]) -> Iterator[Entry]:
    """What a tenant offers, in order."""
    return filter(lives, tenant.line.offered(tenant.mode == "fifo", refused))


def _score(rate: Callable[[QueuedJob], Any], job: QueuedJob) -> Any:
    score = rate(job)
    if not isinstance(score, Real | Decimal | np.bool_):
        raise TypeError(f"score of job {job.name!r} must be a number, not {type(score).__name__}")
    if isinstance(score, np.generic):
        score = score.item()  # a sum has no bounds
    elif isinstance(score, Decimal):
        score = Fraction(score) if score.is_finite() else float("nan" if score.is_nan() else score)
    if score != score:
        raise ValueError(f"score of job {job.name!r}: must be a number, not NaN")
    return score


def _reason(answer: Any, default: str) -> str:
    if isinstance(answer, np.bool_):
        answer = bool(answer)
    if answer is None or answer is True:
        return ""
    if answer is False:
        return default
    if isinstance(answer, str):
        return "" if answer == "Skip" else str.__str__(answer)
    raise TypeError(f"a filter must answer with a bool, None or a text, not {answer!r}")
