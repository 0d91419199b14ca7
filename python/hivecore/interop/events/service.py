"""A scheduler as a service: clients that send events and carry out the actions need no Python.

Requests that change the scheduler take turns; what takes long is given to a thread meanwhile.
Questions are answered on branches. An unforeseen error ends the service: what is in memory may not
be what the log says, and the next start takes up what the log says.
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
"""When a log is synchronised with the disk."""

_FEW = 256  # events and pods to come that take less time than to hand them to a thread
#: Events that take longer than others.
_LONG = "add_node", "drain", "remove_node", "set_quota", "set_total", "reconfigure", "update_claims"
_SMALL = 64 * 1024  # bytes of a body that do
_LONGEST_WAIT = 60.0  # seconds
_BRANCHES = 2  # at a time
_REST = 20  # an overview is given again for so many times as long as it took


class SchedulerService(Service):
    """Answers over HTTP for a scheduler.

    :param scheduler: must not be changed by others.
    :param actions: those that it has decided before; ``None``: none.
    :param clock: for events that do not say when they happen; it never goes back, in seconds.
    :param max_step: how many seconds an event may be ahead of this clock. An event that is later is
        refused, for all events that come after it would be in the past. As long as no time has
        been given yet, the time may also be that of today in Unix time.
    :param fsync: when the log is synchronised with the disk, which is what a power cut leaves:
        "always" before an answer, "interval" by each `look_after_log`, "never".
    :param snapshot_every: after how many lines of the log `look_after_log` writes a snapshot;
        0: never.

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
        """Set when something has failed and the service must not go on."""
        self.failure: Exception | None = None
        """What has failed then."""
        self._scheduler = scheduler
        self._recent = RecentActions() if actions is None else actions
        self._clock, self._max_step = Clock(scheduler.now, clock), max_step
        self._fsync, self._snapshot_every = fsync, snapshot_every
        self._synced = self._tried = -1  # the last lines of the log by then
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
        self._known, self._is_known = scheduler.summary(), True

    def end(self) -> None:
        """Answer the clients that wait for actions."""
        self._is_ending = True
        self._wake()

    async def run(self) -> None:
        """Look after the log until the service fails; raises what has failed."""
        keeping = asyncio.ensure_future(self.keep_log())
        try:
            await self.broken.wait()
        finally:
            keeping.cancel()
            self.end()
        assert self.failure is not None
        raise self.failure

    async def keep_log(self) -> None:
        """Look after the log when a snapshot is due and once a second, until the service fails."""
        while self.failure is None:
            with suppress(Exception):  # the service ends then
                await self.look_after_log()
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AFTER):
                    await self._due.wait()

    async def look_after_log(self) -> None:
        """Synchronise the log with the disk and write a snapshot, if it is time to.

        :raises OSError: the disk refuses the log; the service has failed. Without a snapshot it
            goes on, and tries again after as many lines.
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
        """Whether the log has so many lines more than at the last snapshot, or the last try."""
        last = max(self._scheduler.log_begin, self._tried)
        return 0 < self._snapshot_every <= self._scheduler.logged - last

    # --- events

    async def _take(self, call: Call) -> dict[str, Any]:
        events, is_list = await _read(call.body)
        async with self._turn:
            if self.failure is not None:
                raise BadCall(503, f"not ready: {self.not_ready}")
            found = await self._decided(events)
            now, last = self._scheduler.now, self._recent.last
        if found.errors and not is_list:
            raise BadCall(found.errors[0].status, found.errors[0].message)
        return {"now": now, "last": last, "errors": _errors(found)}

    async def _decided(self, events: list[SchedulerEvent]) -> Round:
        """Take events; it is our turn."""
        now = self._clock.now()
        arguments = self._scheduler, events, now, self.metrics.round_took, self._latest
        self._is_known = False
        try:
            if sum(map(_size, events)) <= _FEW:
                found = take(*arguments)
            else:
                found = await asyncio.to_thread(take, *arguments)
        except Exception as error:
            self._fail(error)
            raise
        await self._sync()
        self._note(events, found)
        return found

    async def _sync(self) -> None:
        """Have the log on the disk before an answer, if that is promised; it is our turn."""
        if self._fsync == "always" and self.failure is None:
            await self._sync_now()

    async def _sync_now(self) -> None:
        logged = self._scheduler.logged
        try:
            await asyncio.to_thread(self._scheduler.sync)
        except Exception as error:  # what the disk has is not known any more
            self._fail(error)
            raise
        self._synced = logged

    def _latest(self, now: float) -> float:
        """The latest time that an event may have now."""
        first = time.time() if self._scheduler.now == 0.0 else now
        return max(now, first) + self._max_step

    def _fail(self, error: Exception) -> None:
        self.not_ready, self.failure = "the service has failed", error
        self.broken.set()

    def _note(self, events: list[SchedulerEvent], found: Round) -> None:
        """Number the actions, and count."""
        metrics = self.metrics
        refused = {error.event for error in found.errors}
        for index, event in enumerate(events):
            metrics.happened("refused" if index in refused else event.name)
        for now, action in found.actions:
            plain = plain_record(action)
            self._recent.add(now, plain)
            metrics.decided("decide", plain["action"])
            if isinstance(action, Wait):
                metrics.refused(action.refusal.stage)
        self._clock.set(self._scheduler.now)
        if found.actions:
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
        """The state now; while a request changes it, the state before."""
        if not self._is_known and not self._turn.locked():
            self._known, self._is_known = self._scheduler.summary(), True
        return self._known

    async def _branch(self) -> tuple[Scheduler, float]:
        async with self._turn:
            return await asyncio.to_thread(self._scheduler.copy), self._clock.now()

    async def _status(self, call: Call) -> dict[str, Any]:
        return {**plain_status(self._summary()), "last": self._recent.last}

    async def _overview_now(self, call: Call) -> bytes:
        """The status and all that the page shows, at most 20 times as old as computing it takes."""
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
            found = plain_job_status(job, self._scheduler.status(job))
            return {**found, "last": self._recent.last}

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
            found = await asyncio.to_thread(take, branch, events, now)
        actions = [{"now": now, **plain_record(action)} for now, action in found.actions]
        return {"now": branch.now, "actions": actions, "errors": _errors(found)}

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
    """The number of the last action that is known, and how many seconds to wait for more."""

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
    """How much work an event is."""
    if event.name in _LONG:
        return _FEW + 1
    pods = (role.pods for _, one in event.arguments if isinstance(one, Job) for role in one.roles)
    return 1 + sum(pods)


def _errors(found: Round) -> list[dict[str, Any]]:
    return [{"event": error.event, "Error": error.message} for error in found.errors]
