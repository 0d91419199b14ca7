"""What a scheduler holds: jobs, parts, delivered actions, log, and saved state."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Self

from hivecore._arguments import as_text
from hivecore._common import InterruptLock
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
    """The calls of `Scheduler` that read its state, write its log, copy and save it."""

    _state: State
    _log: LogWriter | None

    # --- the log

    def write_log(self, log: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write all events and decisions from now on to a log.

        :param log: the path of a new file, or a binary file open for writing. A file opened here is
            locked while it is written. The caller's file is only written to and flushed, never
            truncated or closed.
        :raises ValueError: the scheduler writes a log already.
        :raises FileExistsError: the file has content, other than a torn first line of a log, or
            there are older segments of a log beside it.
        :raises BlockingIOError: another scheduler writes to this log.
        :raises OSError: the file cannot be written; then there is no log.

        `actions` are numbered from the beginning of the log.
        """
        with self._lock:
            if self._log is not None:
                raise ValueError("log: the scheduler writes a log already")
            self._begin(LogWriter(log))

    def close(self) -> None:
        """Stop writing the log, and close its file if it was opened here."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def snapshot(self) -> None:
        """Begin a new segment of the log with the present state, where `recover` starts.

        :raises ValueError: there is no log, or the caller opened its file.
        :raises OSError: a file cannot be written, or the file system has no hard links; the log
            continues in the old segment.

        The newest segment keeps the name of the log. The one before gets the number of its first
        line as a suffix, such as ``decisions.log.000000001500``. Readers read all segments that
        exist. Old ones may be removed, the oldest first.

        Cost: `to_bytes`, and waiting for the disk.
        """
        with self._lock:
            if self._log is None:
                raise ValueError("snapshot: there is no log")
            self._log.snapshot(self.to_bytes(), self._outbox.last + len(self._outbox.pending))

    def sync(self) -> None:
        """Wait until the disk has everything decided so far, so that it survives a power cut.

        :raises OSError: the disk fails. What it has of the log is then unknown: recover the
            scheduler from the log before continuing it.

        Does nothing without a log. Other calls may continue meanwhile.
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
        """The number of the first line of the newest log segment; -1: there is no log."""
        with self._lock:
            return -1 if self._log is None else self._log.first

    @property
    def logged(self) -> int:
        """The number of the last line of the log; -1: there is no log."""
        with self._lock:
            return self._logged

    # --- delivered actions

    def actions(self, since: int = 0) -> list[Action]:
        """The actions that `decide` returned after the action with a given number.

        :param since: the number, counted from 1 since the log began, or since the scheduler was
            created if there is no log; 0: all actions.
        :raises LookupError: some of these actions are no longer known. The last 10,000 are known,
            and those in the segments of a log with a path.
        :raises ValueError: there is no action with this number yet.

        After `recover`, a caller that stored the number of the last action that it carried out gets
        the rest here. The numbers are those of `hivecore serve`.

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
                return [action_of_plain(action) for _, action in logged][since - before :]

    @property
    def last_action(self) -> int:
        """The number of the last action that `decide` returned; 0: none."""
        with self._lock:
            return self._outbox.last

    # --- the present state

    def check(self) -> None:
        """Audit the invariants of all parts, and that they agree with each other.

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
        """The queues, for reading."""
        with self._lock:
            return self._state.queues

    @property
    def quotas(self) -> QuotaTree | None:
        """The quotas; ``None``: there are none. Call `touch` after changing a part."""
        with self._lock:
            return self._state.stages.find(QuotaTree)

    @property
    def cells(self) -> CellCluster | None:
        """The cells; ``None``: there are none."""
        with self._lock:
            return self._state.stages.find(CellCluster)

    @property
    def topology(self) -> NetworkTopology | None:
        """The network; ``None``: there is none."""
        with self._lock:
            return self._state.stages.find(NetworkTopology)

    @property
    def devices(self) -> DeviceCluster | None:
        """The devices; ``None``: there are none."""
        with self._lock:
            return self._state.stages.find(DeviceCluster)

    @property
    def claims(self) -> DraCluster | None:
        """The cluster of device claims; ``None``: there is none."""
        with self._lock:
            return self._state.stages.find(DraCluster)

    @property
    def claims_mode(self) -> str:
        """How claims choose devices, see `DraCluster.allocate`; "first" without claims."""
        with self._lock:
            return self._state.stages.claims_mode

    @property
    def gpu_memory(self) -> int | None:
        """The memory of a GPU in bytes, by which quotas and a network count shares given in bytes.

        It is taken from the GPUs when the scheduler is created. 0: GPUs differ, or there are none;
        a share in bytes then counts as a whole GPU. ``None``: cells place pods, on whole GPUs.
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
        """How soon and how often the jobs of quotas may be evicted."""
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
        "lent" (it runs on idle cells until its tenant's cells are free for it).

        :raises KeyError: there is no such job.
        """
        with self._lock:
            return self._live(job).state

    def status(self, job: str) -> JobStatus:
        """The state of a job, and its resources.

        :param job: its name; or "job/role/index" of a pod above `Role.min_pods` of an elastic role.
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
                live.reported,
                tuple(f"{role}/{i}" for unit in live.lost for role, i in unit.pods),
            )

    def job(self, name: str) -> Job:
        """A job as it was submitted, or amended since.

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
                tuple(sorted(self._state.draining)),
            )

    def _holds(self, job: str) -> bool:
        return self._state.stages.holds(job)

    # --- the whole state

    def copy(self) -> Self:
        """An independent copy that writes no log.

        Cost: that of the parts, and O(jobs).
        """
        with self._lock:
            copied = object.__new__(type(self))
            copied._adopt(self._state.branch())
            copied._outbox.pending = list(self._outbox.pending)
            return copied

    def to_bytes(self) -> bytes:
        """The state with all parts, for ``from_bytes``."""
        with self._lock:
            return seal(b"HVSC", 2, pack(self._state, self._logged, self._outbox.pending))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A scheduler from the result of ``to_bytes``, with its own parts.

        :raises CorruptStateError: the bytes are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HVSC", 2, data)
        with corrupt_if_it_fails():
            scheduler = object.__new__(cls)
            state, logged, pending = unpack(payload)
            scheduler._adopt(state)
            scheduler._logged, scheduler._outbox.pending = logged, pending
            scheduler.check()
        return scheduler

    # --- shared by the calls

    def _adopt(self, state: State) -> None:
        self._state, self._lock = state, InterruptLock()
        self._outbox = Outbox()
        self._log = None
        self._logged = -1
        #: whether it replays a log; an earlier release may have accepted its jobs
        self._is_rerun = False

    def _begin(self, log: LogWriter) -> None:
        """Write all events and decisions from now on to a new log."""
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

    def _live(self, name: str, argument: str = "job") -> Live:
        live = self._state.jobs.get(as_text(name, argument))
        if live is None or live.extra_of:
            where = "" if argument == "job" else f"{argument}: "
            raise KeyError(f"{where}there is no job {name!r}")
        return live
