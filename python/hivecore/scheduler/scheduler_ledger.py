"""The jobs and parts of a scheduler, what it has told, its log, and its saved state."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import IO, Any, Self

from hivecore._arguments import as_text
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.dra import DraCluster
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import Action
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.audit import check
from hivecore.scheduler.ledger.lines import queue_of
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.saved import pack, unpack
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.log.outbox import Outbox
from hivecore.scheduler.log.reader import read_actions
from hivecore.scheduler.log.writer import LogWriter
from hivecore.scheduler.plain import action_of_plain
from hivecore.scheduler.status import JobStatus
from hivecore.scheduler.summary import SchedulerSummary, tenants_of
from hivecore.topology import NetworkTopology

__all__ = ["SchedulerLedger"]


class SchedulerLedger(Stateful):
    """What a `Scheduler` holds, to be read, written to a log, copied and saved."""

    _state: State
    _log: LogWriter | None

    # --- the log

    def write_log(self, log: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write all events and decisions from now on.

        :param log: the path of a new file, or a binary file that is open for writing. A file that
            is opened here is locked as long as it is written. A file of the caller's is written to
            and flushed, never truncated or closed.
        :raises ValueError: it writes one already.
        :raises FileExistsError: there is a file with content, other than the torn first line of a
            log.
        :raises BlockingIOError: another scheduler writes this log.
        :raises OSError: it cannot be written; then there is no log.

        The numbers of `actions` begin with the log.
        """
        with self._lock:
            if self._log is not None:
                raise ValueError("log: it writes one already")
            self._begin(LogWriter(log))

    def close(self) -> None:
        """Write no log any more, and close its file if it was opened here."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def snapshot(self) -> None:
        """Begin a new segment of the log with the state as it is now, by which `recover` starts.

        :raises ValueError: it writes no log, or into a file of the caller's.
        :raises OSError: a file cannot be written, or has no second name where the file system has
            no hard links; the log goes on where it was.

        The newest segment keeps the name of the log; the one before gets the number of its first
        line as an ending, such as ``decisions.log.000000001500``. Whatever reads a log reads all of
        its segments that are there. The old ones may be removed, the oldest first.

        Cost: that of `to_bytes`, and of waiting for the disk.
        """
        with self._lock:
            if self._log is None:
                raise ValueError("snapshot: there is no log")
            self._log.snapshot(self.to_bytes(), self._outbox.last + len(self._outbox.pending))

    def sync(self) -> None:
        """Have all that was decided so far on the disk, so that a power cut leaves it.

        :raises OSError: the disk refuses it. What it has of the log is not known then: a scheduler
            that goes on by the log has to be recovered from it.

        Without a log it does nothing. Other calls may go on meanwhile.
        """
        with self._lock:
            if self._log is None:
                return
            descriptor = self._log.descriptor()
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @property
    def log_begin(self) -> int:
        """The number with which the newest segment of its log begins; -1: it has none."""
        with self._lock:
            return -1 if self._log is None else self._log.first

    @property
    def logged(self) -> int:
        """The number of the last line of its log; -1: it has none."""
        with self._lock:
            return self._logged

    # --- what it has told

    def actions(self, since: int = 0) -> list[Action]:
        """The actions that `decide` has returned after the action of a number.

        :param since: the number, counted from 1 since the log began, or since the scheduler was
            made where there is none; 0: all actions.
        :raises LookupError: the first of these is not known any more. Known are the last 10,000,
            and those in the segments of a log that is written to a path.
        :raises ValueError: there is no action of this number yet.

        After `recover` a caller that has stored the number of the last action that it has carried
        out gets the rest here. The numbers are those of `hivecore serve`.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> scheduler = Scheduler()
        >>> for name in ("first", "second"):
        ...     scheduler.submit(Job(name, "vision", 8), now=0.0)
        ...     _ = scheduler.decide(now=0.0)
        >>> [action.job for action in scheduler.actions(since=1)], scheduler.last_action
        (['second'], 2)
        """
        with self._lock:
            try:
                return self._outbox.since(since)
            except LookupError:
                path = None if self._log is None else self._log.path
                if path is None:
                    raise
                before, logged = read_actions(path, since)
                return [action_of_plain(one) for _, one in logged][since - before :]

    @property
    def last_action(self) -> int:
        """The number of the last action that `decide` has returned; 0: there was none."""
        with self._lock:
            return self._outbox.last

    # --- what there is

    def check(self) -> None:
        """Audit every invariant of all parts, and that they agree with one another.

        :raises InvariantError: an invariant is broken. Cost: that of the parts, and O(jobs).
        """
        with self._lock:
            check(self._state)

    def __repr__(self) -> str:
        with self._lock:
            return shown(
                self,
                *(stage.name for stage in self._state.stages.all),
                counted(len(self._state.jobs), "job"),
                f"at {self._state.now:g} s",
            )

    @property
    def queues(self) -> TenantQueues:
        """Its queues, to be read."""
        with self._lock:
            return self._state.queues

    @property
    def quotas(self) -> QuotaTree | None:
        """Its quotas. After a change to a part call `touch`."""
        with self._lock:
            return self._state.stages.find(QuotaTree)

    @property
    def cells(self) -> CellCluster | None:
        """Its cells."""
        with self._lock:
            return self._state.stages.find(CellCluster)

    @property
    def topology(self) -> NetworkTopology | None:
        """Its network."""
        with self._lock:
            return self._state.stages.find(NetworkTopology)

    @property
    def devices(self) -> DeviceCluster | None:
        """Its devices."""
        with self._lock:
            return self._state.stages.find(DeviceCluster)

    @property
    def claims(self) -> DraCluster | None:
        """Its device claims."""
        with self._lock:
            return self._state.stages.find(DraCluster)

    @property
    def claims_mode(self) -> str:
        """Which devices claims get, as of `DraCluster.allocate`; "first" without claims."""
        with self._lock:
            return self._state.stages.claims_mode

    @property
    def gpu_memory(self) -> int | None:
        """How many bytes of a GPU a share of its memory is a part of, in quotas and in a network.

        What each GPU had when the scheduler was made; 0: GPUs differed, or there were none; a share
        of bytes then counts as a whole GPU. ``None``: cells place pods, and give whole GPUs.
        """
        with self._lock:
            return self._state.stages.gpu_memory

    @property
    def immediate(self) -> bool:
        """Whether victims stop at once."""
        with self._lock:
            return self._state.immediate

    @property
    def eviction_limits(self) -> tuple[EvictionLimit, ...]:
        """How often, and how soon, the jobs of quotas may be evicted."""
        with self._lock:
            return tuple(self._state.budgets.limits.values())

    @property
    def has_order(self) -> bool:
        """Whether jobs run in an order of `reorder`."""
        with self._lock:
            return self._state.order is not None

    @property
    def now(self) -> float:
        """The time of the last event or decision, in seconds."""
        with self._lock:
            return self._state.now

    def __len__(self) -> int:
        """The number of jobs."""
        with self._lock:
            return sum(not live.extra_of for live in self._state.jobs.values())

    def __contains__(self, name: object) -> bool:
        with self._lock:
            live = self._state.jobs.get(name)  # type: ignore[call-overload]
            return live is not None and not live.extra_of

    def __iter__(self) -> Iterator[str]:
        """A snapshot of the names of jobs, in order of arrival."""
        with self._lock:
            jobs = self._state.jobs.items()
            return iter([name for name, live in jobs if not live.extra_of])

    def state(self, job: str) -> str:
        """The state of a job: "pending", "reserved" (its victims have to stop), "running", or
        "lent" (it runs on idle cells until cells of its tenant are free for it).

        :raises KeyError: there is no such job.
        """
        with self._lock:
            return self._live(job).state

    def status(self, job: str) -> JobStatus:
        """The state of a job, and what it holds.

        :param job: its name; or "job/role/index" of a pod above `Role.min_pods` of an elastic role,
            which comes and leaves by itself.
        :raises KeyError: there is no such job.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> scheduler = Scheduler()
        >>> scheduler.submit(Job("train", "vision", 8), now=0.0)
        >>> scheduler.status("train").pods
        ()
        >>> started = scheduler.decide(now=5.0)
        >>> scheduler.status("train").since, len(scheduler.status("train").pods)
        (5.0, 1)
        """
        with self._lock:
            live = self._state.jobs.get(as_text(job, "job")) or self._live(job)
            shares = self._state.stages.members(job)
            return JobStatus(
                live.state,
                tuple(pod for unit in live.all_placed for pod in unit.placed),
                live.since if live.runs else None,
                live.victims,
                live.for_job,
                live.has_stopped,
                live.is_ending,
                shares if len(shares) > 1 else (),
                live.told,
                tuple(f"{role}/{i}" for unit in live.lost for role, i in unit.pods),
            )

    def job(self, name: str) -> Job:
        """A job as it was submitted.

        :raises KeyError: there is no such job.
        """
        with self._lock:
            return self._live(name).job

    def summary(self) -> SchedulerSummary:
        """Jobs by tenant and state, the queues, and unhealthy nodes. Cost: O(jobs + nodes).

        >>> from hivecore.scheduler import Job, Scheduler
        >>> scheduler = Scheduler()
        >>> scheduler.submit(Job("train", "vision", 8), now=0.0)
        >>> scheduler.summary().tenants[0].pending
        1
        """
        with self._lock:
            queued: dict[str, int] = {}
            for unit in self._state.queued.values():
                if unit.kind.is_lent:  # the job waits in its queue, too
                    continue
                queue = queue_of(self._state, unit.kind.job)
                queued[queue] = queued.get(queue, 0) + 1
            return SchedulerSummary(
                self._state.now,
                tenants_of(self._state.jobs.values(), self._holds),
                tuple(sorted(queued.items())),
                self._state.stages.unhealthy(),
            )

    def _holds(self, job: str) -> bool:
        return self._state.stages.holds(job)

    # --- all of it

    def copy(self) -> Self:
        """An independent copy that writes no log.

        Cost: that of the parts, and O(jobs).
        """
        with self._lock:
            made = object.__new__(type(self))
            made._adopt(self._state.branch())
            made._outbox.pending = list(self._outbox.pending)
            return made

    def to_bytes(self) -> bytes:
        """The state, with that of all parts, for ``from_bytes``."""
        with self._lock:
            return seal(b"HVSC", 2, pack(self._state, self._logged, self._outbox.pending))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The scheduler whose ``to_bytes`` gave these bytes, with parts of its own.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HVSC", 2, data)
        with corrupt_if_it_fails():
            made = object.__new__(cls)
            state, logged, pending = unpack(payload)
            made._adopt(state)
            made._logged, made._outbox.pending = logged, pending
            made.check()
        return made

    # --- shared by the calls

    def _adopt(self, state: State) -> None:
        self._state, self._lock = state, RLock()
        self._outbox = Outbox()
        self._log = None
        self._logged = -1
        #: whether it replays a log, of which an earlier release may have accepted the jobs
        self._is_rerun = False

    def _begin(self, log: LogWriter) -> None:
        """Write all events and decisions from now on into a new log."""
        with self._lock:
            before = self._logged, self._outbox
            self._logged, self._outbox = 0, Outbox()
            self._outbox.pending = before[1].pending
            try:
                log.state("begin", self.to_bytes())
            except BaseException:
                self._logged, self._outbox = before
                log.abandon()
                raise
            self._log = log

    def _go_on(self, log: LogWriter, number: int) -> None:
        """Continue a log whose last line has this number."""
        with self._lock:
            self._log, self._logged = log, number

    def _note(self, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._logged += 1
            self._log.event(event, self._state.now, fields)

    @contextmanager
    def _changing(self, moment: float) -> Iterator[None]:
        """A transaction in which the parts themselves change."""
        try:
            with self._state.transaction():
                self._state.happens(moment)
                self._state.log.set(self._state, "are_promises_new", False)
                yield
        except BaseException:
            self._state.stages.forget()
            raise

    def _live(self, name: str) -> Live:
        live = self._state.jobs.get(as_text(name, "job"))
        if live is None or live.extra_of:
            raise KeyError(f"there is no job {name!r}")
        return live
