"""All parts composed: events in, actions out."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from threading import RLock
from typing import IO, Any, Self

from hivecore._arguments import (
    as_bool,
    as_dict,
    as_int,
    as_name,
    as_positive,
    as_text,
    as_tuple,
)
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful, counted, shown
from hivecore._thousandths import AmountsLike, as_fractions
from hivecore.cells import CellCluster, ClusterSpec, Reconfiguration
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler.actions import Action, Move, Reject
from hivecore.scheduler.explanation import JobExplanation, explain, first_start
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.audit import check
from hivecore.scheduler.ledger.changes import hold_nothing, hold_on_good_nodes, renew, stop_on
from hivecore.scheduler.ledger.ends import end, ends_alone, give_back, has_stopped, stop
from hivecore.scheduler.ledger.lines import offer_idle_cells, push, queue_of, requeue
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.saved import pack, unpack
from hivecore.scheduler.ledger.state import LATEST, State
from hivecore.scheduler.log.outbox import Outbox
from hivecore.scheduler.log.reader import read_actions
from hivecore.scheduler.log.writer import LogWriter
from hivecore.scheduler.moves.moving import carry_out, may_move
from hivecore.scheduler.moves.plan import Goal, MoveCost, MovePlan, plan_moves
from hivecore.scheduler.orders.ordering import Order, as_order
from hivecore.scheduler.orders.running import end_order
from hivecore.scheduler.plain import (
    action_of_plain,
    plain_record,
)
from hivecore.scheduler.rounds.reservations import give_up_late
from hivecore.scheduler.rounds.round import decide
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages.constraints import check_counted, check_names, check_quotas
from hivecore.scheduler.stages.devices import host_resources
from hivecore.scheduler.stages.storage import StoragePool
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Kind
from hivecore.scheduler.status import JobStatus
from hivecore.scheduler.summary import SchedulerSummary, tenants_of
from hivecore.topology import NetworkTopology

__all__ = ["Scheduler"]


class Scheduler(Stateful):
    """Queues, quotas, cells or a network, and devices, that decide together; each is optional.

    :param queues: choose the next job; ``None``: by priority, then by arrival. They count time in
        microseconds.
    :param quotas: limit resources by tenant or `Job.quota`; GPUs are "gpu".
    :param cells: choose the GPUs of a job by the guarantees of its tenant.
    :param topology: chooses the nodes of its pods, near to each other; not together with ``cells``.
    :param devices: choose the devices of each pod on its node. What the nodes have of "cpu" and
        "memory" as a device "host" limits `Role.resources` of these names, if no network does.
    :param storage: the cache and the remote IO of jobs with `Job.data`; they are allocated again
        whenever the running jobs have changed.
    :param lending: whether jobs that wait for the cells of their tenants may meanwhile run on idle
        cells, as opportunistic jobs do, until a tenant needs its cells back or their own cells are
        free. It needs ``cells``.
    :param sharing: the terms on which a job with `Job.stages` joins a running job on its GPUs, if
        none are idle for it; this comes before eviction.
    :param immediate: whether victims stop at once; otherwise their resources, and what else the job
        needs for which they leave, are held until `stopped` was called for all of them.
    :param preemption: whether jobs may be evicted for others.
    :param reservation_seconds: how long a job waits for its victims to stop; then nothing is held
        for it any more, and it may start elsewhere, but they still have to stop. `advance` and
        `decide` check this. ``None``: without end.
    :param growing: whether nodes may be added and totals of quotas may grow: a job that needs more
        than there is waits instead of being rejected, as where a cluster is empty at first.
    :param tries: how often placement is asked for a job at most, if devices refuse.
    :param log: where to write all events and decisions: a path without a file, or a binary file
        that is open for writing; see `write_log`, `replay` and `recover`.
    :raises ValueError: ``cells`` and ``topology`` are both given, or ``lending`` without ``cells``;
        ``queues`` hold jobs or backfill; a network counts nothing, or quotas limit a resource that
        no job can request, such as "gpus"; or a number is out of range.
    :raises TypeError: an argument is of a wrong type.
    :raises FileExistsError: there is a log already.
    :raises OSError: the log cannot be written.

    It calls no other system, never sleeps and reads no clock: the caller reports events with the
    time ``now`` in seconds, which never goes back, and carries out what `decide` returns. The parts
    are used, not copied: the caller may read them. A node that only some parts know is unhealthy
    there until `add_node` adds it to the others.

    A job starts when all parts accept it; otherwise nothing changes. A waiting job is tried again
    only when something has changed that its refusal names. `decide` and events are transactions:
    after an error all is as before. Calls of several threads take turns. Do not call the scheduler
    inside of ``part.trial()``: if another thread decides, both wait for each other without end.

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler
    >>> quotas = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=quotas)
    >>> scheduler.submit(Job("train", "vision", 6), now=0.0)
    >>> scheduler.submit(Job("tune", "vision", 4), now=0.0)
    >>> for action in scheduler.decide(now=0.0):
    ...     print(action.job, getattr(action, "reason", "starts"))
    train starts
    tune runtime of 'vision' is exceeded (gpu: 6 used + 4 asked > 8)
    >>> scheduler.finish("train", now=60.0)
    >>> [action.job for action in scheduler.decide(now=60.0)]
    ['tune']
    """

    def __init__(
        self,
        *,
        queues: TenantQueues | None = None,
        quotas: QuotaTree | None = None,
        cells: CellCluster | None = None,
        topology: NetworkTopology | None = None,
        devices: DeviceCluster | None = None,
        storage: StoragePool | None = None,
        lending: bool = False,
        sharing: Sharing | None = None,
        immediate: bool = False,
        preemption: bool = True,
        reservation_seconds: float | None = None,
        growing: bool = False,
        tries: int = 4,
        log: str | os.PathLike[str] | IO[bytes] | None = None,
    ) -> None:
        for name, part, kind in (
            ("queues", queues, TenantQueues),
            ("quotas", quotas, QuotaTree),
            ("cells", cells, CellCluster),
            ("topology", topology, NetworkTopology),
            ("devices", devices, DeviceCluster),
            ("storage", storage, StoragePool),
            ("sharing", sharing, Sharing),
        ):
            if part is not None and not isinstance(part, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {type(part).__name__}")
        if cells is not None and topology is not None:
            raise ValueError("topology: cells place the pods already")
        if as_bool(lending, "lending") and cells is None:
            raise ValueError("lending: there are no cells")
        if queues is not None:
            _check_queues(queues)
        if quotas is not None:
            check_quotas(quotas)
        if topology is not None and topology.nodes:
            check_counted(topology.resources, "topology")
        hosts: frozenset[str] = frozenset()
        if devices is not None:
            hosts = host_resources(devices, () if topology is None else topology.resources)
        may_grow = as_bool(growing, "growing")
        number = as_int(tries, "tries", 1, 1000)
        patience = inf
        if reservation_seconds is not None:
            patience = as_positive(reservation_seconds, "reservation_seconds", LATEST)
        stages = Stages.of(
            quotas, cells, topology, devices, storage, number, sharing, may_grow, hosts
        )
        stages.shun_missing(stages.nodes())
        stages.note_health()
        self._adopt(
            State(
                stages,
                queues,
                lending=lending,
                immediate=as_bool(immediate, "immediate"),
                preemption=as_bool(preemption, "preemption"),
                patience=patience,
            )
        )
        if log is not None:
            self._begin(LogWriter(log))

    def _adopt(self, state: State) -> None:
        self._state, self._lock = state, RLock()
        self._outbox = Outbox()
        self._log: LogWriter | None = None
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

    # --- events

    def submit(self, job: Job, now: float) -> None:
        """A job arrives.

        :raises ValueError: there is a job of this name, or the next `decide` rejects such a job; no
            part enforces a constraint of the job; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        A job that could not run on the empty, healthy cluster is rejected by the next `decide`.
        Constraints are all of `Where` but ``prefer``, `Role.resources`, `Role.devices` beyond whole
        GPUs, and a `Job.quota` that is not its tenant's. Other fields without a part are ignored.
        """
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {type(job).__name__}")
        with self._lock:
            state = self._state
            moment = state.moment(now)
            if job.name in state.jobs or job.name in state.rejected:
                raise ValueError(f"job={job.name!r}: there is one of this name")
            kind = self._submit(state, job, moment)
            if self._log is not None:
                self._logged += 1
                self._log.submit(job, kind.number, moment)

    def _submit(self, state: State, job: Job, moment: float) -> Kind:
        """Let a job wait, or reject it."""
        kind = state.kinds.enforced(job)
        if kind is None:
            if not self._is_rerun and (reason := state.stages.unenforced(job)):
                raise ValueError(f"job={job.name!r}: {reason}")
            kind = state.kinds.of(job)
            if not self._is_rerun:
                state.kinds.note_enforced(kind)
        reason = state.kinds.impossible(kind, state.stages.impossible)
        if reason:
            state.happens(moment)
            state.outbox.append(Reject(job.name, reason))
            state.rejected.add(job.name)
            return kind
        live, before = Live.submitted(job, kind), state.now
        state.add(live)
        try:  # which costs less than a transaction
            state.stages.submit(live.units[0])
            state.now = moment
            try:
                push(state, live.units[0])
            except BaseException:
                state.stages.withdraw(live.units[0])
                raise
        except BaseException:
            state.now = before
            del state.jobs[job.name]
            raise
        state.happens(moment)
        state.stages.come(job)
        offer_idle_cells(state, live)
        refusal = state.waiting.refusal(kind)
        if refusal is not None:
            state.tell(live, refusal)
        return kind

    def _note(self, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._logged += 1
            self._log.event(event, self._state.now, fields)

    def finish(self, job: str, now: float) -> None:
        """A running job has ended.

        :raises KeyError: there is no such job.
        :raises ValueError: it does not run, or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._state.moment(now)
            if not live.runs:
                raise ValueError(f"job={job!r}: it is {live.state}, not running")
            if ends_alone(self._state, live):
                self._state.stages.check_holds(live.units[0])
                self._state.happens(moment)
                end(self._state, live)
            else:
                with self._state.transaction():
                    self._state.happens(moment)
                    end(self._state, live)
            self._note("finish", job=job)

    def cancel(self, job: str, now: float) -> None:
        """Remove a job, whether it runs or waits.

        :raises KeyError: there is no such job.
        :raises ValueError: the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._state.moment(now)
            with self._state.transaction():
                self._state.happens(moment)
                end(self._state, live)
            self._note("cancel", job=job)

    def fail(self, job: str, now: float, pod: str | None = None) -> None:
        """A running job has failed: it waits again, at its old place in the queue.

        :param pod: "role/index" of a pod that has failed. If it has joined its job later, it alone
            waits again, and the others run on. ``None``: the whole job.
        :raises KeyError: there is no such job, or it has no such pod.
        :raises ValueError: it does not run, or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._state.moment(now)
            if not live.runs:
                raise ValueError(f"job={job!r}: it is {live.state}, not running")
            unit = None
            if pod is not None:
                name = as_text(pod, "pod")
                unit = live.unit_of(name)
                if unit is None:
                    raise KeyError(f"pod={pod!r}: job {job!r} runs no such pod")
            with self._state.transaction():
                self._state.happens(moment)
                if live.for_job:
                    has_stopped(self._state, live)
                elif unit is None or unit in (live.units[0], live.lent):
                    stop(self._state, live)
                else:
                    give_back(self._state, unit, end=False)
                    requeue(self._state, unit)
            self._note("fail", job=job, pod=pod)

    def stopped(self, job: str, now: float) -> None:
        """A job that `decide` preempted has stopped.

        :raises KeyError: there is no such job.
        :raises ValueError: it does not have to stop, or has stopped already; or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._state.moment(now)
            if not live.for_job or live.has_stopped:
                raise ValueError(f"job={job!r}: it was not to stop")
            with self._state.transaction():
                self._state.now = moment
                has_stopped(self._state, live)
            self._note("stopped", job=job)

    def move(self, moves: Move | Iterable[Move], now: float) -> None:
        """Jobs have stopped and continue elsewhere, as a plan of `plan_moves` says.

        :param moves: a move, or those of a step of a plan: all jobs stop before the first starts
            again.
        :raises KeyError: there is no such job.
        :raises ValueError: a job does not run, is not preemptible, has to stop, or is named twice;
            there are no moves; or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        :raises StaleDecisionError: something has changed since the plan was made, so that a job is
            not where its move says, or would not get what it says.

        The jobs count as started now. Their quotas do not change.
        """
        given = (moves,) if isinstance(moves, Move) else as_tuple(moves, "moves")
        with self._lock:
            moment = self._state.moment(now)
            lives = [self._movable(one) for one in given]
            if not lives or len({live.job.name for live in lives}) < len(lives):
                raise ValueError("moves: must be of one job at least, and of each but once")
            with self._state.transaction():
                for live in lives:
                    live.note(self._state.log)
                    for unit in live.units:
                        unit.note(self._state.log)
                carry_out(self._state.stages.without_quotas(), lives, given)
                self._state.happens(moment)
                for live in lives:
                    self._state.restart(live, moment)
            self._note("move", moves=[plain_record(one) for one in given])

    def _movable(self, move: Move) -> Live:
        if not isinstance(move, Move):
            raise TypeError(f"moves must hold Moves, not {type(move).__name__}")
        live = self._live(move.job)
        if not may_move(self._state.stages, live):
            raise ValueError(f"moves: job {move.job!r} does not run, has to stop, or has to stay")
        return live

    def set_node(self, node: str, healthy: bool, now: float) -> None:
        """A node fails or recovers; jobs that run there stay until they `fail` or end.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        node, healthy = as_text(node, "node"), as_bool(healthy, "healthy")
        with self._lock:
            moment = self._state.moment(now)
            with self._changing(moment):
                self._state.stages.set_health(node, healthy)
                if not healthy:
                    hold_on_good_nodes(self._state, (node,))
                self._state.waiting.touch_all()
            self._note("set_node", node=node, healthy=healthy)

    def add_node(
        self,
        node: str,
        now: float,
        *,
        labels: Mapping[str, str] | None = None,
        free: AmountsLike | None = None,
        inventory: NodeDevices | None = None,
    ) -> None:
        """Add a node, perhaps again; all waiting jobs are tried again.

        :param labels: with a network: the name of its domain in each layer, as of
            `NetworkTopology.add_node`; ``None``: it has none.
        :param free: with a network: what is free on it, by resource, such as {"gpu": 8} or
            {"slots": 8}; ``None``: nothing.
        :param inventory: with devices: its devices.
        :raises KeyError: the cells have no such node: `reconfigure` them first.
        :raises ValueError: the node exists, no part has nodes, an argument is missing for a part or
            is for a part that the scheduler does not have; a network would count nothing; or the
            time goes back.
        :raises TypeError: an argument is of a wrong type.

        Cells keep the nodes of their specification: a removed node is made healthy again. Totals of
        quotas do not change, see `set_total`.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> from hivecore.topology import NetworkTopology
        >>> scheduler = Scheduler(topology=NetworkTopology(["rack"], {}), growing=True)
        >>> scheduler.add_node("n1", now=5.0, labels={"rack": "r0"}, free={"slots": 1})
        >>> scheduler.submit(Job("train", "vision", 1), now=5.0)
        >>> scheduler.decide(now=5.0)[0].pods[0].node
        'n1'
        """
        node = as_name(node, "node")
        labels = None if labels is None else as_dict(labels, "labels")
        free = None if free is None else dict(as_fractions(free, "free", 0, 2**62))
        with self._lock:
            moment = self._state.moment(now)
            topology = self.topology
            if topology is not None and not self._is_rerun:
                check_counted({*topology.resources, *(free or ())}, "free")
            with self._changing(moment):
                self._state.stages.add_node(node, labels, free, inventory)
                renew(self._state)
            told = {
                "labels": labels and dict(labels),
                "free": free,
                "inventory": inventory and plain_record(inventory),
            }
            told = {name: value for name, value in told.items() if value is not None}
            self._note("add_node", node=node, **told)

    def remove_node(self, node: str, now: float) -> None:
        """A node is gone, with all pods on it.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that started with a pod there have failed: they wait again, at their old places. A pod
        that has joined its job later waits by itself. The next `decide` returns `Stop` for their
        pods elsewhere, holds nothing, and expects no `stopped`. A job for which others have to
        leave that node waits again, too. A job that can never start without the node is rejected.

        Owners in a network or in devices that the scheduler does not know are gone as well. In
        cells guarantees stay as they are: the node is bad until `add_node`.
        """
        node = as_text(node, "node")
        with self._lock:
            moment = self._state.moment(now)
            self._state.stages.knowing(node)
            with self._changing(moment):
                stop_on(self._state, node)
                self._state.stages.remove_node(node)
                renew(self._state)
            self._note("remove_node", node=node)

    def set_quota(self, quota: Quota, now: float) -> None:
        """Change the limits or the parent of a quota, or add a quota.

        :raises KeyError: its parent is missing.
        :raises ValueError: as of `QuotaTree.set_quota`; no job can request a resource, such as
            "gpus"; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay, whatever the limits are: what exceeds a runtime is reclaimed when a job
        waits that is entitled to it. A waiting job that requests more than it can ever get now is
        rejected by the next `decide`.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Scheduler
        >>> quota = Quota("vision", max={"gpu": 8})
        >>> scheduler = Scheduler(quotas=QuotaTree([quota], total={"gpu": 16}))
        >>> for name in ("train", "tune"):
        ...     scheduler.submit(Job(name, "vision", 8), now=0.0)
        >>> [type(action).__name__ for action in scheduler.decide(now=0.0)]
        ['Start', 'Wait']
        >>> scheduler.set_quota(quota.replace(max={"gpu": 16}), now=5.0)
        >>> [action.job for action in scheduler.decide(now=5.0)]
        ['tune']
        """
        with self._lock:
            moment = self._state.moment(now)
            tree = self._tree("quota")
            if not self._is_rerun and isinstance(quota, Quota):
                check_names(dict(quota.max), f"quota={quota.name!r}")
            with self._changing(moment):
                tree.set_quota(quota)
                hold_nothing(self._state)
                renew(self._state)
            self._note("set_quota", quota=plain_record(quota))

    def set_total(
        self, total: AmountsLike, now: float, *, tree: str = "", carved: bool = False
    ) -> None:
        """Change the total of a tree of quotas, such as when nodes are added.

        :param total: by dimension; what is not named is 0.
        :param tree: its name; a new tree if there is none.
        :param carved: whether the total is taken off that of the default tree.
        :raises ValueError: as of `QuotaTree.set_total`; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay, as with `set_quota`.
        """
        with self._lock:
            moment = self._state.moment(now)
            given = dict(as_fractions(total, "total", 0, 2**62))
            quotas = self._tree("total")
            with self._changing(moment):
                quotas.set_total(given, tree=tree, carved=carved)
                hold_nothing(self._state)
                renew(self._state)
            more = {"tree": tree, "carved": carved}
            self._note("set_total", total=given, **{name: one for name, one in more.items() if one})

    def _tree(self, argument: str) -> QuotaTree:
        tree = self._state.stages.find(QuotaTree)
        if tree is None:
            raise ValueError(f"{argument}: there are no quotas")
        return tree

    def reconfigure(self, spec: ClusterSpec, now: float) -> Reconfiguration:
        """Change the specification of the cells, and the guarantees of tenants.

        :returns: what has changed for running jobs, by their names in the cells.
        :raises InfeasibleAssignmentError: the tenants' cells do not fit.
        :raises ValueError: as of `CellCluster.reconfigure`; there are no cells; or the time goes
            back.
        :raises TypeError: an argument is of a wrong type.

        All running jobs stay where they are. A job whose guarantee no longer exists runs on as an
        opportunistic job, as in HiveD. A waiting job that requests what does not exist is rejected
        by the next `decide`; so is a running job when it has to wait again. Nodes and GPUs that
        devices do not have are bad until `add_node`.
        """
        with self._lock:
            moment = self._state.moment(now)
            cells = self.cells
            if cells is None:
                raise ValueError("spec: there are no cells")
            with self._changing(moment):
                hold_nothing(self._state)
                changes = cells.reconfigure(spec)
                self._state.stages.forget()
                self._state.stages.shun_missing(cells.nodes)
                renew(self._state)
            self._note("reconfigure", spec=plain_record(spec))
            return changes

    def regroup(self, now: float, seconds: float) -> None:
        """Let the next `decide` group the jobs that share GPUs again, by moves.

        :param seconds: how long the new groups are to last; in that time they have to bring more
            than the restarts of the jobs that move cost, see `Sharing`.
        :raises ValueError: there is no sharing, ``seconds`` is not above 0, jobs run in an order of
            `reorder`, or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        lasting = as_positive(seconds, "seconds", LATEST)
        with self._lock:
            moment = self._state.moment(now)
            if not self._state.stages.by_stages:
                raise ValueError("regroup: jobs share GPUs only where sharing was given")
            if self._state.order is not None:
                raise ValueError("regroup: an order says who shares GPUs, see reorder")
            with self._state.transaction():
                self._state.happens(moment)
                self._state.regroup_for = lasting
            self._note("regroup", seconds=lasting)

    def reorder(self, order: Sequence[str | Sequence[str]], now: float) -> None:
        """Run jobs in this order, not by the queues, until the next call.

        :param order: names of jobs that run or wait, the first of which comes first. Names that
            stand together, as in ``["a", ("b", "c")]``, are of jobs that are to share GPUs. An
            empty order: the queues choose again.
        :raises KeyError: there is no such job.
        :raises ValueError: a job is named twice, or starts together with others; jobs that are to
            share GPUs cannot, see `Sharing`; idle cells are lent; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The caller ranks the jobs by attained or remaining service (Tiresias, SRTF), or groups them
        (Muri), as often as it likes. Each `decide` then runs each job in turn that fits beside the
        jobs before it. A running job that does not fit elsewhere is preempted for jobs before it. A
        job moves only if a job before it, or the job itself, would not run otherwise.

        A job that is not named does not run. Jobs that are not preemptible, wait for more pods or
        start together with others are left alone. A job starts with the fewest pods that it can,
        and gets no more until the order ends. Quotas still count. Unless victims stop at once, no
        job starts until all have stopped. `decide` ignores ``most`` meanwhile. What cells and
        quotas allow depends on the jobs that have left, so a second `decide` may start more jobs.

        Cost: O(jobs named), here and for each `decide`, and that of the parts for jobs that start,
        stop or move.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Scheduler
        >>> quotas = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> scheduler = Scheduler(quotas=quotas, immediate=True)
        >>> scheduler.submit(Job("long", "vision", 8), now=0.0)
        >>> started = scheduler.decide(now=0.0)
        >>> scheduler.submit(Job("short", "vision", 2), now=60.0)
        >>> scheduler.reorder(["short", "long"], now=60.0)
        >>> [(type(one).__name__, one.job) for one in scheduler.decide(now=60.0)][:2]
        [('Preempt', 'long'), ('Start', 'short')]
        """
        asked = as_order(order)
        with self._lock:
            moment = self._state.moment(now)
            if self._state.lending is not None:
                raise ValueError("order: jobs run on idle cells here, which is an order of its own")
            for names in asked:
                for name in names:
                    if name in self._state.jobs and self._state.jobs[name].job.together:
                        raise ValueError(f"order: {name!r} starts together with other jobs")
                if len(names) > 1:
                    self._check_sharers(names)
                elif names[0] not in self._state.jobs:
                    raise KeyError(f"there is no job {names[0]!r}")
            with self._state.transaction():
                self._state.happens(moment)
                if asked:
                    self._state.regroup_for = 0.0
                    self._state.order = Order(asked, self._state.jobs)
                elif self._state.order is not None:
                    end_order(self._state)
            if self._log is not None:
                self._note(
                    "reorder", order=[names[0] if len(names) == 1 else names for names in asked]
                )

    def _check_sharers(self, names: tuple[str, ...]) -> None:
        if not self._state.stages.by_stages:
            raise ValueError("order: jobs share GPUs only where sharing was given")
        reason = self._state.stages.unlike([self._live(name).job for name in names])
        if reason:
            raise ValueError(f"order: {', '.join(map(repr, names))} {reason}")

    def reading_order(self) -> list[str]:
        """The jobs that read data, for `reorder`: the shortest first, given the storage.

        :raises ValueError: there is no storage, or it does not allocate remote IO.

        The first job has the least time left, at the rate that the cache and remote IO left by the
        jobs before it allow. What a job has read is as `observe` was told, or as the objective of
        the `StoragePool` has followed it. Jobs that read nothing, start together with others, or
        wait for victims are left out. Ties: by arrival. Cost: that of
        `hivecore.storage.allocate_storage` for all jobs.
        Source: SiloD (EuroSys'23).

        >>> from hivecore.scheduler import Data, Job, Scheduler, StoragePool
        >>> pool = StoragePool({"images": 100.0, "text": 90.0}, cache_gb=0.0, bandwidth_mbps=50.0)
        >>> scheduler = Scheduler(storage=pool)
        >>> scheduler.submit(Job("fast", "all", 1, data=Data("images", 200.0, 60.0)), now=0.0)
        >>> scheduler.submit(Job("slow", "all", 1, data=Data("text", 40.0, 40.0)), now=0.0)
        >>> scheduler.reading_order()  # 1,000 s; and 1,200 s for want of remote IO, not 300 s
        ['slow', 'fast']
        """
        with self._lock:
            names = self._state.stages.reading_order(self._state.now)
            return [name for name in names if self._may_be_ordered(name)]

    def reading_shares(self, gpus: float) -> dict[str, float]:
        """The share of time for which each job that reads data needs its GPUs, so that all progress
        alike: max-min fairness, given the storage.

        :param gpus: of the cluster.
        :returns: by job, as of `reading_order`, in order of arrival.
        :raises ValueError: there is no storage, it does not allocate remote IO, or ``gpus`` is not
            positive.

        Alike is relative to an equal share of GPUs, cache and remote IO. A caller that lets jobs
        take turns credits each job with its share, charges those that run, and gives `reorder` the
        greatest credit first, as below. Cost: that of `hivecore.storage.allocate_storage`.
        Source: SiloD (EuroSys'23); Gavel (OSDI'20), whose rounds take six minutes.

        >>> from hivecore.scheduler import Data, Job, Scheduler, StoragePool
        >>> pool = StoragePool({"images": 100.0}, cache_gb=100.0, bandwidth_mbps=50.0)
        >>> scheduler = Scheduler(storage=pool, immediate=True)
        >>> for name in "abc":
        ...     scheduler.submit(Job(name, "all", 8, data=Data("images", 200.0)), now=0.0)
        >>> credit = dict.fromkeys(scheduler, 0.0)
        >>> for name, share in scheduler.reading_shares(gpus=16).items():
        ...     credit[name] += share
        >>> [round(share, 3) for share in credit.values()]
        [0.667, 0.667, 0.667]
        >>> scheduler.reorder(sorted(credit, key=credit.get, reverse=True), now=0.0)
        """
        number = as_positive(gpus, "gpus", LATEST)
        with self._lock:
            jobs = self._state.jobs
            shares = self._state.stages.reading_shares(
                lambda name: max(1, jobs[name].units[0].kind.gpus), number
            )
            return {name: share for name, share in shares.items() if self._may_be_ordered(name)}

    def _may_be_ordered(self, name: str) -> bool:
        live = self._state.jobs[name]
        return live.state != "reserved" and not live.job.together

    def observe(
        self,
        now: float,
        *,
        cached_gb: Mapping[str, float] | None = None,
        hit_gb: Mapping[str, float] | None = None,
        read_gb: Mapping[str, float] | None = None,
        rate_mbps: Mapping[str, float] | None = None,
    ) -> None:
        """Report the state of the caches and the progress of jobs, by which the next `decide`
        allocates storage.

        :param cached_gb: by dataset: GB of it in the cache.
        :param hit_gb: by job: GB of its dataset that it finds cached in its current epoch, if that
            is not all that is cached: SiloD's effective cache.
        :param read_gb: by job: GB that it has read of its `Data.total_gb`.
        :param rate_mbps: by job: MB/s that its GPUs consume now when they never wait, if that is
            not `Data.rate_mbps`, such as while it shares them.
        :raises KeyError: there is no such dataset or job.
        :raises ValueError: a number is out of range, a job reads nothing, there is no storage, or
            the time goes back.
        :raises TypeError: an argument is of a wrong type.

        What is not named is as before: without a report a cache counts as full, as far as it may
        be. A job that stops or ends loses its reports. Cost: O(names).

        >>> from hivecore.scheduler import Data, Job, Scheduler, StoragePool
        >>> pool = StoragePool({"images": 100.0, "text": 90.0}, cache_gb=100.0, bandwidth_mbps=90.0)
        >>> scheduler = Scheduler(storage=pool)
        >>> for name, rate in (("images", 80.0), ("text", 50.0)):
        ...     scheduler.submit(Job(name, "all", 1, data=Data(name, rate)), now=0.0)
        >>> scheduler.decide(now=0.0)[2:]  # as if all images were cached already
        [SetCache(dataset='images', size=100000000000), SetRemoteIO(job='text', rate_mbps=50.0)]
        >>> scheduler.observe(now=0.0, cached_gb={"images": 0.0})
        >>> for action in scheduler.decide(now=0.0):
        ...     print(action)
        SetRemoteIO(job='text', rate_mbps=10.0)
        SetRemoteIO(job='images', rate_mbps=80.0)
        """
        given = {"cached_gb": cached_gb, "hit_gb": hit_gb, "read_gb": read_gb}
        with self._lock:
            moment = self._state.moment(now)
            amounts = {**given, "rate_mbps": rate_mbps}
            observed = self._state.stages.observe(amounts, self._live, moment)
            self._state.now = moment
            told = {field: amounts for field, amounts in observed._asdict().items() if amounts}
            self._note("observe", **told)

    def advance(self, now: float) -> None:
        """Time has passed: give up jobs that have waited too long for their victims.

        :raises ValueError: it goes back.
        """
        with self._lock:
            moment = self._state.moment(now)
            with self._state.transaction():
                self._state.now = moment
                give_up_late(self._state)
            self._note("advance")

    def touch(self) -> None:
        """A part was changed from outside: all waiting jobs are tried again, or rejected."""
        with self._lock:
            with self._changing(self._state.now):
                renew(self._state)
            if self._log is not None:
                self._logged += 1
                self._log.state("state", self.to_bytes())

    # --- actions

    def decide(self, now: float, most: int | None = None) -> list[Action]:
        """The actions to carry out now, in their order.

        :param most: the number of attempts to start a job or a pod at most; ``None``: until none
            can start.
        :raises ValueError: the time goes back, or ``most`` is not positive.
        :raises OSError: the log cannot be written. The decisions are kept, and the next call that
            can write the log returns them before its own.

        After another error all is as before; if a part raised it while it decided on a job, a note
        names the part. Cost: that of the parts for each job that is tried; O(1) if nothing has
        happened.
        """
        left = -1 if most is None else as_int(most, "most", 1, 2**62)
        with self._lock:
            moment = self._state.moment(now)
            log = self._log
            if log is not None and log.is_behind:
                log.flush()
            actions = decide(self._state, moment, left)
            self._outbox.pending += actions
            if log is not None:
                self._logged += 1
                log.decided(moment, most, actions)
            return self._outbox.deliver()

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
            return len(self._state.jobs)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._state.jobs

    def __iter__(self) -> Iterator[str]:
        """A snapshot of the names of jobs, in order of arrival."""
        with self._lock:
            return iter(list(self._state.jobs))

    def state(self, job: str) -> str:
        """The state of a job: "pending", "reserved" (its victims have to stop), "running", or
        "lent" (it runs on idle cells until cells of its tenant are free for it).

        :raises KeyError: there is no such job.
        """
        with self._lock:
            return self._live(job).state

    def status(self, job: str) -> JobStatus:
        """The state of a job, and what it holds.

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
            live = self._live(job)
            shares = self._state.stages.members(job)
            return JobStatus(
                live.state,
                tuple(pod for unit in live.placed for pod in unit.placed),
                live.since if live.runs else None,
                live.victims,
                live.for_job,
                live.has_stopped,
                live.is_ending,
                shares if len(shares) > 1 else (),
                live.told,
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

    # --- questions

    def explain(self, job: str) -> JobExplanation:
        """Why a job waits, and the changes with which it would start now; nothing changes.

        :raises KeyError: there is no such job.

        Each change is tried on the scheduler itself and undone, in O(changes).
        """
        with self._lock:
            state, live = self._state, self._live(job)
            unit = live.units[0] if live.state == "pending" else None
            if unit is None:
                return explain(self, live.job, None, 0)
            standing = state.queues.explain(unit.name, state.microseconds)
            held = ""
            if state.order is not None:
                if job not in state.order.place:
                    held = "is not named in the order that was told"
            elif not state.waiting.refusal(unit.kind):
                held = standing.reason
            return explain(self, live.job, unit, standing.position, held)

    @contextmanager
    def what_if(self) -> Iterator[Self]:
        """A copy for experiments; the scheduler itself does not change.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> scheduler = Scheduler()
        >>> with scheduler.what_if() as branch:
        ...     branch.submit(Job("probe", "vision", 8), now=0.0)
        ...     actions = branch.decide(now=0.0)
        >>> actions[0].job, "probe" in scheduler
        ('probe', False)
        """
        yield self.copy()

    def plan_moves(self, goal: Goal, *, cost: MoveCost = "jobs", most_tries: int = 64) -> MovePlan:
        """The jobs to move so that nodes get free or a job fits, see `plan_moves`."""
        return plan_moves(self, goal, cost=cost, most_tries=most_tries)

    def forecast(self, job: str) -> float | None:
        """When a job would start if no other job came, running jobs ended by their estimates, and
        victims stopped at once.

        :returns: the time, in seconds; ``None``: it would not, or not before a job ends that has no
            estimate.
        :raises KeyError: there is no such job.

        All of it happens on the scheduler itself and is undone. Cost: a decision after each end.
        """
        with self._lock:
            live = self._live(job)
            return live.since if live.runs else first_start(self._state, live)

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

    def counted(self, job: Job) -> frozenset[str]:
        """The resources of a job's roles that some part limits; `submit` refuses others.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> quotas = QuotaTree([Quota("vision", max={"cpu": 64})], total={"cpu": 64})
        >>> role = Role("worker", resources={"cpu": 8, "disk": 1})
        >>> sorted(Scheduler(quotas=quotas).counted(Job("train", "vision", [role])))
        ['cpu']
        """
        with self._lock:
            return self._state.stages.counted(job)

    # --- shared by the calls

    @contextmanager
    def _changing(self, moment: float) -> Iterator[None]:
        """A transaction in which the parts themselves change."""
        try:
            with self._state.transaction():
                self._state.happens(moment)
                yield
        except BaseException:
            self._state.stages.forget()
            raise

    def _live(self, name: str) -> Live:
        live = self._state.jobs.get(as_text(name, "job"))
        if live is None:
            raise KeyError(f"there is no job {name!r}")
        return live


def _check_queues(queues: TenantQueues) -> None:
    if len(queues):
        raise ValueError(f"queues: hold {counted(len(queues), 'job')} already, and must be empty")
    if queues.backfills:
        raise ValueError(
            "queues: a scheduler cannot backfill; use blocking='fifo' or 'best-effort'"
        )
