"""A scheduler as an HTTP service, for clients in any language.

Requests that change the scheduler take turns; long ones run in a thread. Questions are answered on
copies. An unexpected error ends the service, because memory and log may disagree; the next start
recovers from the log.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct

from hivecore.interop.events.bodies import events_of
from hivecore.interop.events.clock import Clock
from hivecore.interop.events.metrics import SchedulerMetrics
from hivecore.interop.events.overview import plain_overview
from hivecore.interop.events.page import pages
from hivecore.interop.events.plain import plain_explanation, plain_job_status, plain_status
from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.events.rounds import Round, take
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.routes import COMMON, Call, Route, Routes
from hivecore.interop.kubernetes.serving.server import Service
from hivecore.scheduler import Job, Scheduler, SchedulerEvent, SchedulerSummary, Wait, plain_record

__all__ = ["MAX_STEP", "Fsync", "SchedulerService"]

MAX_STEP = 7 * 86400.0  # seconds
_LOOK_AFTER = 1.0  # seconds
Fsync = Literal["always", "interval", "never"]
"""When a log is flushed to disk."""

_FEW = 256  # events and new pods that are handled faster than by handing them to a thread
#: Events that take longer.
_LONG = "add_node", "drain", "remove_node", "set_quota", "set_total", "reconfigure", "update_claims"
_SMALL = 64 * 1024  # bytes of a body that are parsed faster than by handing them to a thread
_LONGEST_WAIT = 60.0  # seconds
_BRANCHES = 2  # at the same time
_REST = 20  # an overview stays valid for this multiple of its own duration


class SchedulerService(Service):
    """Serves a scheduler over HTTP.

    :param scheduler: nothing else may change it.
    :param actions: its earlier decisions, if any.
    :param clock: a monotonic clock in seconds, for events without a time.
    :param max_step: how many seconds an event may be ahead of this clock. A later event is refused,
        as it would put all following events into the past. The first time may also be today's Unix
        time.
    :param fsync: when the log is flushed to disk to survive a power cut: "always" before an answer,
        "interval" at each `look_after_log`, or "never".
    :param snapshot_every: the number of log lines after which `look_after_log` writes a snapshot; 0
        for never.

    Jobs that wait already are decided on at once.
    """

    metrics: SchedulerMetrics
    pages = pages()

    def __init__(
        self,
        scheduler: Scheduler,
        actions: RecentActions | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_step: float = MAX_STEP,
        fsync: Fsync = "never",
        snapshot_every: int = 0,
    ) -> None:
        self.broken = asyncio.Event()
        """Set when a failure must end the service."""
        self.failure: Exception | None = None
        """The failure."""
        self._scheduler = scheduler
        self._recent = RecentActions() if actions is None else actions
        self._clock, self._max_step = Clock(scheduler.now, clock), max_step
        self._fsync, self._snapshot_every = fsync, snapshot_every
        self._synced = self._tried = -1  # log lines at the last sync and the last attempt
        self._due = asyncio.Event()
        self._turn = asyncio.Lock()
        self._branches = asyncio.Semaphore(_BRANCHES)
        self._more = asyncio.Event()
        self._is_ending = False
        self._overview, self._overview_until = b"", 0.0
        self.metrics = SchedulerMetrics(self._summary)
        now = scheduler.now
        decided = [(now, action) for action in scheduler.decide(now)]
        if fsync == "always":
            scheduler.sync()
        self._note([], Round(decided, []))
        self._look()

    def end(self) -> None:
        """Answer the clients that wait for actions."""
        self._is_ending = True
        self._wake()

    async def run(self) -> None:
        """Maintain the log until the service fails; raise the failure."""
        keeping = asyncio.ensure_future(self.keep_log())
        try:
            await self.broken.wait()
        finally:
            keeping.cancel()
            self.end()
        assert self.failure is not None
        raise self.failure

    async def keep_log(self) -> None:
        """Maintain the log once a second and for snapshots, until the service fails."""
        while self.failure is None:
            with suppress(Exception):  # the service ends then
                await self.look_after_log()
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AFTER):
                    await self._due.wait()

    async def look_after_log(self) -> None:
        """Flush the log and write a snapshot, if they are due.

        :raises OSError: the log cannot be written, so the service has failed. A failed snapshot is
            retried after the same number of lines.
        """
        scheduler = self._scheduler
        if self._fsync == "interval" and scheduler.logged > self._synced:
            await self._sync_now()
        if not self._is_due():
            return
        async with self._turn:
            self._tried = scheduler.logged
            try:
                await asyncio.to_thread(scheduler.snapshot)
            except OSError as error:
                self.metrics.happened("snapshot_failed")
                LOG.warning("no snapshot of the log could be written: %s", error)
            except Exception as error:
                self._fail(error)
                raise
            else:
                self.metrics.happened("snapshot")

    def _is_due(self) -> bool:
        """Whether a snapshot is due since the last one, or the last attempt."""
        last = max(self._scheduler.log_begin, self._tried)
        return 0 < self._snapshot_every <= self._scheduler.logged - last

    # --- events

    async def _take(self, call: Call) -> dict[str, Any]:
        events, is_list = await _read(call.body)
        async with self._turn:
            if self.failure is not None:
                raise BadCall(503, f"not ready: {self.not_ready}")
            round = await self._decided(events)
            now, last = self._scheduler.now, self._recent.last
        if round.errors and not is_list:
            raise BadCall(round.errors[0].status, round.errors[0].message)
        return {"now": now, "last": last, "errors": _errors(round)}

    async def _decided(self, events: list[SchedulerEvent]) -> Round:
        """Apply events, in our turn."""
        now = self._clock.now()
        limits = self.metrics.round_took, self._latest, self._check, self._applied
        arguments = self._scheduler, events, now, *limits
        try:
            if sum(map(_size, events)) <= _FEW:
                round = take(*arguments)
            else:
                round = await asyncio.to_thread(take, *arguments)
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._is_known = False
        await self._sync()
        self._note(events, round)
        return round

    def _check(self, event: SchedulerEvent) -> None:
        """Raise ValueError if an event must not be applied here."""

    def _applied(self, event: SchedulerEvent) -> None:
        """Follow an event before anything is decided."""

    async def _sync(self) -> None:
        """Flush the log before an answer if that is promised, in our turn."""
        if self._fsync == "always" and self.failure is None:
            await self._sync_now()

    async def _sync_now(self) -> None:
        logged = self._scheduler.logged
        try:
            await asyncio.to_thread(self._scheduler.sync)
        except Exception as error:  # the state of the disk is unknown
            self._fail(error)
            raise
        self._synced = logged

    def _latest(self, now: float) -> float:
        """Return the latest time that an event may have."""
        first = time.time() if self._scheduler.now == 0.0 else now
        return max(now, first) + self._max_step

    def _fail(self, error: Exception) -> None:
        self.not_ready, self.failure = "the service has failed", error
        self.broken.set()

    def _note(self, events: list[SchedulerEvent], round: Round) -> None:
        """Number the actions and update the metrics."""
        metrics = self.metrics
        refused = {error.event for error in round.errors}
        for index, event in enumerate(events):
            metrics.happened("refused" if index in refused else event.name)
        for now, action in round.actions:
            plain = plain_record(action)
            self._recent.add(now, plain)
            metrics.decided("decide", plain["action"])
            if isinstance(action, Wait):
                metrics.refused(action.refusal.stage)
        self._clock.set(self._scheduler.now)
        if round.actions:
            self._wake()
        if self._is_due():
            self._due.set()

    # --- actions

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    async def _actions(self, call: Call) -> bytes:
        query = _ActionsQuery.read(call.query)
        if query.after == self._recent.last and query.wait and not self._is_ending:
            with suppress(TimeoutError):
                async with asyncio.timeout(query.wait):
                    await self._more.wait()
        try:
            try:
                texts, last = self._recent.since(query.after)
            except LookupError:
                texts, last = await asyncio.to_thread(self._recent.logged_since, query.after)
        except LookupError as error:
            raise BadCall(410, str(error)) from None
        except ValueError as error:
            raise BadCall(400, str(error)) from None
        return b'{"actions":[%b],"last":%d}' % (texts, last)

    # --- questions

    def _summary(self) -> SchedulerSummary:
        """Return the state; during a change, the last one that was asked for."""
        if not self._is_known and not self._turn.locked():
            self._look()
        return self._known

    def _look(self) -> None:
        self._known, self._is_known = self._scheduler.summary(), True

    async def _branch(self) -> tuple[Scheduler, float]:
        async with self._turn:
            return await asyncio.to_thread(self._scheduler.copy), self._clock.now()

    async def _status(self, call: Call) -> dict[str, Any]:
        """Return the state, no older than the last answered event."""
        if not self._is_known:
            async with self._turn:
                self._look()
        return {**plain_status(self._known), "last": self._recent.last}

    async def _overview_now(self, call: Call) -> bytes:
        """Return status and overview, at most 20 times as old as computing them takes."""
        async with self._turn:
            begun = time.perf_counter()
            if begun >= self._overview_until:
                status = plain_status(self._scheduler.summary())
                more = {**plain_overview(self._scheduler), "last": self._recent.last}
                self._overview, now = write_json({**status, **more}), time.perf_counter()
                self._overview_until = now + _REST * (now - begun)
            return self._overview

    async def _jobs(self, call: Call) -> dict[str, Any]:
        async with self._turn:
            states = {name: self._scheduler.state(name) for name in self._scheduler}
            return {"jobs": states, "last": self._recent.last}

    async def _job(self, call: Call) -> dict[str, Any]:
        job = call.name
        async with self._turn:
            if job not in self._scheduler:
                raise BadCall(404, f"there is no job {show(job)}")
            answer = plain_job_status(job, self._scheduler.status(job))
            return {**answer, "last": self._recent.last}

    async def _explain(self, call: Call) -> dict[str, Any]:
        job = call.name
        if job not in self._scheduler:
            raise BadCall(404, f"there is no job {show(job)}")
        async with self._branches:
            branch, now = await self._branch()
            try:
                branch.advance(max(now, branch.now))
            except ValueError as error:
                raise BadCall(409, str(error)) from None
            try:
                return plain_explanation(await asyncio.to_thread(branch.explain, job))
            except KeyError:
                raise BadCall(404, f"there is no job {show(job)}") from None

    async def _what_if(self, call: Call) -> dict[str, Any]:
        events, _ = await _read(call.body)
        async with self._branches:
            branch, now = await self._branch()
            round = await asyncio.to_thread(take, branch, events, now)
        actions = [{"now": now, **plain_record(action)} for now, action in round.actions]
        return {"now": branch.now, "actions": actions, "errors": _errors(round)}

    routes = Routes(
        [
            *COMMON,
            Route("GET", "/v1/actions", _actions, has_parameters=True),
            Route("POST", "/v1/events", _take),
            Route("GET", "/v1/jobs", _jobs),
            Route("GET", "/v1/overview", _overview_now),
            Route("GET", "/v1/status", _status),
            Route("POST", "/v1/what-if", _what_if),
            Route("GET", "/v1/explain/{job}", _explain),
            Route("GET", "/v1/jobs/{job}", _job),
        ]
    )


class _ActionsQuery(Struct, frozen=True):
    """The number of the last known action, and the seconds to wait for more."""

    after: int
    wait: float

    @classmethod
    def read(cls, query: Mapping[str, str]) -> "_ActionsQuery":
        for name in query:
            if name not in ("after", "wait"):
                raise BadCall(400, f"there is no parameter {show(name)}, but after and wait")
        if len(query) != len(set(query)):
            raise BadCall(400, "a parameter is there twice")
        after, wait = query.get("after", "0"), query.get("wait", "0")
        if not (after.isascii() and after.isdecimal() and len(after) <= 18):
            raise BadCall(400, f"after={show(after)}: must be the number of an action, or 0")
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", wait):
            raise BadCall(400, f"wait={show(wait)}: must be a number of seconds")
        if float(wait) > _LONGEST_WAIT:
            raise BadCall(400, f"wait={show(wait)}: at most {_LONGEST_WAIT:g} seconds")
        return cls(int(after), float(wait))


async def _read(body: bytes) -> tuple[list[SchedulerEvent], bool]:
    if len(body) <= _SMALL:
        return events_of(body)
    return await asyncio.to_thread(events_of, body)


def _size(event: SchedulerEvent) -> int:
    """Return the amount of work in an event."""
    if event.name in _LONG:
        return _FEW + 1
    pods = (
        role.pods for _, value in event.arguments if isinstance(value, Job) for role in value.roles
    )
    return 1 + sum(pods)


def _errors(round: Round) -> list[dict[str, Any]]:
    return [{"event": error.event, "Error": error.message} for error in round.errors]
