"""All parts composed: events in, actions out."""

import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import IO, Any, Self

from hivecore._arguments import (
    as_amounts,
    as_bool,
    as_dict,
    as_float,
    as_int,
    as_name,
    as_text,
    as_tuple,
)
from hivecore._sealed import corrupt_if_it_fails, seal, unseal
from hivecore._stateful import Stateful
from hivecore.cells import CellCluster, ClusterSpec, Reconfiguration
from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.errors import InvariantError
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler.actions import Action, Move, Preempt, Promote, Reject, Start, Stop, Wait
from hivecore.scheduler.explanation import JobExplanation, explain
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.audit import check_sharing, check_units, check_waiting
from hivecore.scheduler.lifecycle.kinds import Kinds
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.saved import (
    joined,
    live_of_plain,
    plain_live,
    split,
)
from hivecore.scheduler.lifecycle.units import Kind, Refused, Unit
from hivecore.scheduler.lifecycle.waiting import Waiting
from hivecore.scheduler.log import LogWriter
from hivecore.scheduler.moves import Goal, MoveCost, MovePlan, plan_moves
from hivecore.scheduler.moves.moving import carry_out, may_move
from hivecore.scheduler.orders.ordering import Order, as_order
from hivecore.scheduler.orders.walk import Walk
from hivecore.scheduler.plain import (
    action_of_plain,
    plain_action,
    plain_node,
    plain_quota,
    plain_spec,
)
from hivecore.scheduler.preemption.holding import fulfil, hold, let_go
from hivecore.scheduler.preemption.relief import Relief
from hivecore.scheduler.preemption.victims import NAME_NOBODY, Victims, find_victims, might_leave
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages._moving import move_jobs
from hivecore.scheduler.stages.nodes import (
    add_node,
    check_removal,
    remove_node,
    set_health,
    shun_missing,
)
from hivecore.scheduler.stages.sharing import Joined, SharingStage
from hivecore.scheduler.stages.storage import StoragePool, StorageStage
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.status import JobStatus
from hivecore.scheduler.summary import SchedulerSummary, tenants_of
from hivecore.topology import NetworkTopology

__all__ = ["Scheduler"]

_MICRO = 1_000_000
_PARTS: dict[str, Any] = {
    "quotas": QuotaTree,
    "cells": CellCluster,
    "topology": NetworkTopology,
    "devices": DeviceCluster,
}
_LATEST = 2.0**40


class Scheduler(Stateful):
    """Queues, quotas, cells or a network, and devices, that decide together; each is optional.

    :param queues: which job is next; ``None``: by priority, then by arrival. They count time in
        microseconds.
    :param quotas: how much of what each may use, by tenant or `Job.quota`; "gpu" are GPUs.
    :param cells: which GPUs a job gets, by what its tenant is promised.
    :param topology: on which nodes its pods are, near to each other; not together with ``cells``.
    :param devices: which devices of its node each pod gets.
    :param storage: the cache and the remote IO that jobs with `Job.data` share; they are shared out
        anew whenever the running ones have changed.
    :param lending: whether jobs that wait for the cells of their tenants may meanwhile run on idle
        ones, as opportunistic jobs do: they leave for whoever is promised these cells, or are
        promoted when it is their turn to have cells of their own. It needs ``cells``.
    :param sharing: on which terms a job with `Job.stages` joins a running one on its GPUs when it
        finds none of its own, before anybody has to leave for it.
    :param immediate: whether victims stop at once; else their resources, and whatever else is
        needed by whom they leave for, are held until `stopped` has come for all of them.
    :param preemption: whether anybody may have to leave for others.
    :param tries: how often a placement that devices refuse is asked for again without the nodes.
    :param log: where to write all that it is told and says: a path without a file, or a binary file
        that is open for writing; see `replay` and `recover`.
    :raises ValueError: ``cells`` and ``topology`` are both given, or ``lending`` without ``cells``.
    :raises TypeError: an argument is of a wrong type.
    :raises FileExistsError: there is a log already.

    It calls nobody, never sleeps and reads no clock: the caller tells it what has happened, by
    events with the time ``now`` in seconds, which never goes back, and does what `decide` says. The
    parts are used, not copied: the caller may read them.

    A job starts when all parts agree, or nothing has changed. One that waits is tried again only
    when something has changed that its refusal names. After an error nothing has changed. Calls of
    several threads take turns.

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
        self._has_queues = queues is not None
        self._queues = TenantQueues() if queues is None else queues
        #: those that may run on idle cells meanwhile
        self._lending = TenantQueues(order="arrival") if lending else None
        number = as_int(tries, "tries", 1, 1000)
        self._stages = Stages.of(quotas, cells, topology, devices, storage, number, sharing)
        self._immediate = as_bool(immediate, "immediate")
        self._preemption = as_bool(preemption, "preemption")
        self._kinds = Kinds(by_stages=sharing is not None)
        self._waiting = Waiting(self._stages.lacks())
        self._jobs: dict[str, Live] = {}
        #: the units that wait in a queue
        self._queued: dict[str, Unit] = {}
        #: the jobs for which others have to stop
        self._reserved: dict[str, Live] = {}
        #: what those who run would leave at most; None: not counted since somebody has left
        self._relief: Relief | None = None
        self._running: dict[str, Live] = {}
        #: what is to be told by the next decide
        self._outbox: list[Action] = []
        #: who is rejected by that
        self._rejected: set[str] = set()
        self._now = 0.0
        #: for how many seconds jobs that share GPUs are to be grouped anew; 0.0: they are not
        self._regroup_for = 0.0
        #: who runs; None: the queues say it
        self._order: Order | None = None
        self._lock = RLock()
        self._log: LogWriter | None = None
        self._logged = -1
        if log is not None:
            self._write_to(LogWriter(log))

    def _write_to(self, log: LogWriter, number: int | None = None) -> None:
        """Write all that it is told and says from now on into a log.

        :param number: that of the last line that is there already; ``None``: the log begins now.
        """
        with self._lock:
            self._log, self._logged = log, -1 if number is None else number
            if number is None:
                self._logged = 0
                log.state("begin", self.to_bytes())

    def write_log(self, log: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write all that it is told and says from now on; see ``log`` of the constructor.

        :raises ValueError: it writes one already.
        :raises FileExistsError: there is a file.
        """
        with self._lock:
            if self._log is not None:
                raise ValueError("log: it writes one already")
            self._write_to(LogWriter(log))

    def close(self) -> None:
        """Write no log any more, and close its file if it was opened here."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    @property
    def logged(self) -> int:
        """The number of the last line of its log; -1: it has none."""
        return self._logged

    # --- events

    def submit(self, job: Job, now: float) -> None:
        """A job comes.

        :raises ValueError: there is one of this name, or there was one that is rejected by the
            next `decide`; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        One that could not run on the empty, healthy cluster is not kept: `decide` says `Reject`.
        """
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {type(job).__name__}")
        with self._lock:
            moment = self._moment(now)
            if job.name in self._jobs or job.name in self._rejected:
                raise ValueError(f"job={job.name!r}: there is one of this name")
            kind = self._kinds.of(job)
            reason = self._kinds.impossible(kind, self._stages.impossible)
            if reason:
                self._now = moment
                self._outbox.append(Reject(job.name, reason))
                self._rejected.add(job.name)
                self._note_submit(job)
                return
            live = Live.submitted(job, kind)
            unit = live.units[0]
            if self._stages.quotas is not None:
                self._stages.quotas.submit(unit)
            self._now = moment
            self._jobs[job.name] = live
            self._push(unit)
            self._offer_idle_cells(live)
            if self._waiting:
                self._waiting.touch(self._stages.touched_by_request())
            refusal = self._waiting.refusal(kind)
            if refusal is not None:
                self._tell(live, refusal)
            self._note_submit(job)

    def _note_submit(self, job: Job) -> None:
        if self._log is not None:
            self._logged += 1
            self._log.submit(job, self._now)

    def _note_job(self, event: str, job: str) -> None:
        if self._log is not None:
            self._logged += 1
            self._log.of_job(event, job, self._now)

    def _note(self, event: str, **fields: Any) -> None:
        if self._log is not None:
            self._logged += 1
            self._log.event(event, self._now, **fields)

    def finish(self, job: str, now: float) -> None:
        """A running job has ended.

        :raises KeyError: there is no such job.
        :raises ValueError: it does not run, or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._moment(now)
            if not live.runs:
                raise ValueError(f"job={job!r}: it is {live.state}, not running")
            self._now = moment
            self._end(live)
            self._note_job("finish", job)

    def cancel(self, job: str, now: float) -> None:
        """A job is not wanted any more, whether it runs or waits.

        :raises KeyError: there is no such job.
        :raises ValueError: the time goes back.
        """
        with self._lock:
            live = self._live(job)
            self._now = self._moment(now)
            self._end(live)
            self._note_job("cancel", job)

    def fail(self, job: str, now: float, pod: str | None = None) -> None:
        """A running job has failed: it waits again, at its old place.

        :param pod: "role/index" of a pod that has failed. If it has joined its job later, it waits
            again by itself, and the others go on. ``None``: all of it.
        :raises KeyError: there is no such job, or it has no such pod.
        :raises ValueError: it does not run, or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._moment(now)
            if not live.runs:
                raise ValueError(f"job={job!r}: it is {live.state}, not running")
            unit = None
            if pod is not None:
                name = as_text(pod, "pod")
                unit = live.unit_of(name)
                if unit is None:
                    raise KeyError(f"pod={pod!r}: job {job!r} runs no such pod")
            self._now = moment
            if live.for_job:
                self._has_stopped(live)
            elif unit is None or unit in (live.units[0], live.lent):
                self._stop(live)
            else:
                self._give_back(unit, end=False)
                self._requeue(unit)
            self._note("fail", job=job, pod=pod)

    def stopped(self, job: str, now: float) -> None:
        """A job that `decide` said to preempt has stopped.

        :raises KeyError: there is no such job.
        :raises ValueError: it was not told to, or has stopped already; or the time goes back.
        """
        with self._lock:
            live = self._live(job)
            moment = self._moment(now)
            if not live.for_job or live.has_stopped:
                raise ValueError(f"job={job!r}: it was not to stop")
            self._now = moment
            self._has_stopped(live)
            self._note_job("stopped", job)

    def move(self, moves: Move | Iterable[Move], now: float) -> None:
        """Jobs have stopped where they were and go on elsewhere, as `plan_moves` has found.

        :param moves: a move, or those of one step of a plan: all of them stop before the first one
            starts again.
        :raises KeyError: there is no such job.
        :raises ValueError: one does not run, may not be made to leave, or has to stop; one is named
            twice; there is none; or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        :raises StaleDecisionError: something has changed since the plan was made, so that a job is
            not where its move says, or would not get what it says.

        The jobs count as started now. Their quotas see nothing of it.
        """
        given = (moves,) if isinstance(moves, Move) else as_tuple(moves, "moves")
        with self._lock:
            moment = self._moment(now)
            lives = [self._movable(one) for one in given]
            if not lives or len({live.job.name for live in lives}) < len(lives):
                raise ValueError("moves: must be of one job at least, and of each but once")
            stages = self._stages.without_quotas()
            carry_out(stages.branch(), [live.copy() for live in lives], given)
            carry_out(stages, lives, given)
            self._now = moment
            for live in lives:
                live.since = moment
                for unit in live.units:
                    if unit.placed and self._waiting:
                        self._waiting.touch(self._stages.touched_by_release(unit.kind))
            self._note("move", moves=[plain_action(one) for one in given])

    def _movable(self, move: Move) -> Live:
        if not isinstance(move, Move):
            raise TypeError(f"moves must hold Moves, not {type(move).__name__}")
        live = self._live(move.job)
        if not may_move(self._stages, live):
            raise ValueError(f"moves: job {move.job!r} does not run, has to stop, or has to stay")
        return live

    def set_node(self, node: str, healthy: bool, now: float) -> None:
        """A node is lost, or back; jobs that run there stay until they `fail` or end.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        node, healthy = as_text(node, "node"), as_bool(healthy, "healthy")
        with self._lock:
            moment = self._moment(now)
            set_health(self._stages, node, healthy)
            self._now = moment
            if not healthy:
                self._hold_on_good_nodes((node,))
            self._waiting.touch_all()
            self._note("set_node", node=node, healthy=healthy)

    def add_node(
        self,
        node: str,
        now: float,
        *,
        labels: Mapping[str, str] | None = None,
        free: Mapping[str, int] | None = None,
        inventory: NodeDevices | None = None,
    ) -> None:
        """A node comes, or is there again; whoever waits is tried again.

        :param labels: with a network: the name of its domain in each layer, as of
            `NetworkTopology.add_node`; ``None``: it has none.
        :param free: with a network: what is free on it, by resource, such as {"gpu": 8} or
            {"slots": 8}; ``None``: nothing.
        :param inventory: with devices: what it has.
        :raises KeyError: the cells have no such node: `reconfigure` them first.
        :raises ValueError: it is there already, no part has nodes, a part is not told what it has
            to know, or something is told for a part that is not there; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Cells have the nodes of their specification for ever: this makes one of them healthy that
        has gone. Quotas share out what they are told, see `set_total`.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology(["rack"], {"n0": {"rack": "r0"}})
        >>> scheduler = Scheduler(topology=network)
        >>> scheduler.add_node("n1", now=5.0, labels={"rack": "r0"}, free={"slots": 1})
        >>> scheduler.submit(Job("train", "vision", 1), now=5.0)
        >>> scheduler.decide(now=5.0)[0].pods[0].node
        'n1'
        """
        node = as_name(node, "node")
        labels = None if labels is None else as_dict(labels, "labels")
        free = None if free is None else as_dict(free, "free")
        with self._lock:
            moment = self._moment(now)
            add_node(self._stages, node, labels, free, inventory)
            self._now = moment
            self._renewed()
            self._note("add_node", **plain_node(node, labels, free, inventory))

    def remove_node(self, node: str, now: float) -> None:
        """A node is gone, with all pods on it.

        :raises KeyError: no part knows the node.
        :raises ValueError: a network has no other one, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that start with a pod there have failed: they wait again, at their old places. A pod
        that has joined its job later waits again by itself. The next `decide` says with `Stop` what
        still runs of them elsewhere, and has to stop; nothing is held for that, and no `stopped` is
        asked for. A job for which others have to leave that node waits again, too. Who can never
        start without the node is told by `Reject`.

        Owners in a network or in devices that the scheduler does not know are gone as well. Cells
        go on to promise what they have promised: the node is bad for them until `add_node`.
        """
        node = as_text(node, "node")
        with self._lock:
            moment = self._moment(now)
            check_removal(self._stages, node)
            self._now = moment
            self._stop_on(node)
            remove_node(self._stages, node)
            self._renewed()
            self._note("remove_node", node=node)

    def set_quota(self, quota: Quota, now: float) -> None:
        """A quota has other limits or another parent from now on, or there is a new one.

        :raises KeyError: its parent is missing.
        :raises ValueError: as of `QuotaTree.set_quota`; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that run stay, whatever the limits are: what is used beyond a runtime is taken back
        when somebody asks for it who is entitled to it. One that waits, and asks for more than it
        can ever have now, is rejected by the next `decide`.

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
            moment = self._moment(now)
            self._tree("quota").set_quota(quota)
            self._now = moment
            self._hold_nothing()
            self._renewed()
            self._note("set_quota", quota=plain_quota(quota))

    def set_total(
        self, total: Mapping[str, int], now: float, *, tree: str = "", carved: bool = False
    ) -> None:
        """A tree of quotas has more or less to share out from now on, such as when nodes came.

        :param total: by dimension; what is not named is 0.
        :param tree: which; a new one if need be.
        :param carved: it is taken off what the default tree has.
        :raises ValueError: as of `QuotaTree.set_total`; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that run stay, as with `set_quota`.
        """
        with self._lock:
            moment = self._moment(now)
            given = dict(as_amounts(total, "total", 0, 2**62))
            self._tree("total").set_total(given, tree=tree, carved=carved)
            self._now = moment
            self._hold_nothing()
            self._renewed()
            more = {"tree": tree, "carved": carved}
            self._note("set_total", total=given, **{name: one for name, one in more.items() if one})

    def _tree(self, argument: str) -> QuotaTree:
        if self._stages.quotas is None:
            raise ValueError(f"{argument}: there are no quotas")
        return self._stages.quotas.part

    def reconfigure(self, spec: ClusterSpec, now: float) -> Reconfiguration:
        """The cells are made of something else, or are promised to others, from now on.

        :returns: what has changed for those that run, by the names that cells have for them.
        :raises InfeasibleAssignmentError: the tenants' cells do not fit.
        :raises ValueError: as of `CellCluster.reconfigure`; there are no cells; or the time goes
            back.
        :raises TypeError: an argument is of a wrong type.

        All jobs that run go on where they are. One whose guarantee cannot be had any more goes on
        opportunistically, as HiveD has it: whoever is promised these cells may take them back. One
        that waits, and asks for what there is no more, is rejected by the next `decide`; so is one
        that runs, when it has to wait again. Nodes and GPUs that devices do not have are bad until
        `add_node`.
        """
        with self._lock:
            moment = self._moment(now)
            cells = self.cells
            if cells is None:
                raise ValueError("spec: there are no cells")
            if self._reserved:
                cells.copy().reconfigure(spec)  # or it is refused here
                self._hold_nothing()
            changes = cells.reconfigure(spec)
            self._now = moment
            shun_missing(self._stages, cells.nodes)
            self._renewed()
            self._note("reconfigure", spec=plain_spec(spec))
            return changes

    def _renewed(self) -> None:
        """The parts are made of something else now: who waits is tried again, or rejected."""
        self._stages.forget()
        if self._reserved:
            self._hold_on_good_nodes(self._stages.unhealthy())
        self._kinds.forget_impossible()
        for live in list(self._jobs.values()):
            if self._jobs.get(live.job.name) is live and not live.runs:
                self._reject_if_impossible(live)
        self._waiting.renew(self._stages.lacks())
        self._waiting.touch_all()

    def _reject_if_impossible(self, live: Live) -> None:
        """One that waits could never start since something has changed: it is not kept."""
        reason = self._kinds.impossible(live.units[0].kind, self._stages.impossible)
        if reason:
            self._end_waiting(live)
            self._forget(live)
            self._outbox.append(Reject(live.job.name, reason))
            self._rejected.add(live.job.name)

    def _stop_on(self, node: str) -> None:
        """All that runs on a node has failed."""
        there = [live for live in self._jobs.values() if _on(live.placed, node)]
        gone = {live.job.name for live in there}
        for live in list(self._reserved.values()):
            if live in there or gone.intersection(live.victims):
                self._let_go(live)
                self._wait_again(live)
        for live in there:
            units = _on(live.placed, node)
            if not units or self._jobs.get(live.job.name) is not live:
                continue  # it had stopped already, and was held
            is_all = live.for_job or any(unit in (live.units[0], live.lent) for unit in units)
            units = list(live.placed) if is_all else units
            pods = tuple(pod for unit in units for pod in unit.placed)
            self._outbox.append(Stop(live.job.name, pods, node))
            if live.for_job:
                self._has_stopped(live)
            elif is_all:
                self._stop(live)
            else:
                for unit in units:
                    self._give_back(unit, end=False)
                    self._requeue(unit)

    def regroup(self, now: float, seconds: float) -> None:
        """Jobs that share GPUs are to be grouped anew: the next `decide` says who moves.

        :param seconds: how long the new groups are to last; they have to bring more in that time
            than the restarts of those who move cost, see `Sharing`.
        :raises ValueError: there is no sharing, ``seconds`` is not above 0, jobs run in an order of
            `reorder`, or the time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        lasting = self._seconds(seconds)
        with self._lock:
            moment = self._moment(now)
            if self._stages.sharing is None:
                raise ValueError("regroup: jobs share GPUs only where sharing was given")
            if self._order is not None:
                raise ValueError("regroup: an order says who shares GPUs, see reorder")
            self._now, self._regroup_for = moment, lasting
            self._note("regroup", seconds=lasting)

    def reorder(self, order: Sequence[str | Sequence[str]], now: float) -> None:
        """From now on jobs run in this order, not by the queues, until another one is told.

        :param order: names of jobs that run or wait, the first of which comes first. Names that
            stand together, as in ``["a", ("b", "c")]``, are of jobs that are to share GPUs. An
            empty one: the queues say again who is next.
        :raises KeyError: there is no such job.
        :raises ValueError: a job is named twice; jobs that are to share GPUs cannot, see `Sharing`;
            there are idle cells to be lent; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        This is for schedulers that share time, too: the caller ranks the jobs by what they have
        attained or still need (Tiresias, SRTF), or groups them (Muri), as often as it likes, and
        each `decide` lets run, one after the other, who finds a place beside those before it.
        Who runs already gives way to those before it, and is preempted if it finds no other place.
        Nobody moves unless somebody before it, or it itself, would not run otherwise.

        Who is not named does not run. Who may not be preempted is left alone, and so is who has
        started with fewer pods than it wants. Quotas count as ever. Unless victims stop at once,
        nobody starts until all have stopped. `decide` pays no heed to ``most`` meanwhile.
        What cells and quotas allow depends on who has left before, so with them a second `decide`
        may still find somebody to start.

        Cost: O(jobs named), here and for each `decide`, and that of the parts for those who come,
        go or move.

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
            moment = self._moment(now)
            if self._lending is not None:
                raise ValueError("order: jobs run on idle cells here, which is an order of its own")
            for names in asked:
                if len(names) > 1:
                    self._check_sharers(names)
                elif names[0] not in self._jobs:
                    raise KeyError(f"there is no job {names[0]!r}")
            if asked:
                self._regroup_for = 0.0
            elif self._order is not None:
                self._waiting.touch_all()
            self._now, self._order = moment, Order(asked, self._jobs) if asked else None
            if self._log is not None:
                self._note(
                    "reorder", order=[names[0] if len(names) == 1 else names for names in asked]
                )

    def _check_sharers(self, names: tuple[str, ...]) -> None:
        sharing = self._stages.sharing
        if sharing is None:
            raise ValueError("order: jobs share GPUs only where sharing was given")
        reason = sharing.unlike([self._live(name).job for name in names])
        if reason:
            raise ValueError(f"order: {', '.join(map(repr, names))} {reason}")

    def advance(self, now: float) -> None:
        """Time has passed.

        :raises ValueError: it goes back.
        """
        with self._lock:
            self._now = self._moment(now)
            self._note("advance")

    def touch(self) -> None:
        """A part was changed by somebody else: whoever waits is tried again, or rejected."""
        with self._lock:
            self._renewed()
            if self._log is not None:
                self._logged += 1
                self._log.state("state", self.to_bytes())

    # --- actions

    def decide(self, now: float, most: int | None = None) -> list[Action]:
        """What is to be done now, in the order in which it holds.

        :param most: how many attempts to start something there may be; ``None``: until nobody can
            start.
        :raises ValueError: the time goes back, or ``most`` is not positive.
        """
        left = -1 if most is None else as_int(most, "most", 1, 2**62)
        with self._lock:
            self._now = self._moment(now)
            moment = int(self._now * _MICRO)
            self._stages.begin_round()
            if self._reserved:
                self._start_reserved()
            if self._regroup_for:
                self._move_jobs()
            self._relief = None
            if self._order is not None:
                self._run_in_order(self._order)
                left = 0
            while left:
                self._wake()
                departure = self._queues.next(moment)
                if departure is None and self._lending is not None:
                    departure = self._lending.next(moment)
                if departure is None:
                    break
                left -= 1
                unit = self._queued.pop(departure.job.name)
                unit.departure = departure
                self._offer(unit)
            self._allot()
            actions, self._outbox = self._outbox, []
            self._rejected.clear()
            if self._log is not None:
                self._logged += 1
                self._log.decided(self._now, most, actions)
            return actions

    def _move_jobs(self) -> None:
        """Jobs that share GPUs change places if that is worth it."""
        units = {unit.name: unit for unit in self._units() if unit.placed}
        for move in move_jobs(self._stages, units, self._regroup_for):
            self._outbox.append(move)
            self._waiting.touch(self._stages.touched_by_release(units[move.job].kind))
        self._regroup_for = 0.0

    # --- an order from outside

    def _run_in_order(self, order: Order) -> None:
        """Those run who stand first in the order."""
        if order.place.keys().isdisjoint(self._jobs):
            return  # all are gone
        if not self._immediate and self._have_to_stop(order):
            return
        walk = Walk(self._stages, self._jobs, order, self._kinds.all_want_gpus)
        found = walk.run(self._running.values())
        for live in found.stopped:
            name = live.job.name
            self._outbox.append(Preempt(name, found.winner(name, order), "order"))
            self._requeue(live.units[0])
            del self._running[name]
            live.state = "pending"
            self._reject_if_impossible(live)
        for move in found.moves:
            self._outbox.append(move)
            self._jobs[move.job].since = self._now
        for live, sharers, offsets in found.started:
            unit = live.units[0]
            self._take_off(unit)
            decisions = walk.decisions.get(unit.name, ())
            self._outbox.append(Start(live.job.name, unit.placed, sharers, offsets, decisions))
            self._runs_now(live)
        for name, refused in walk.refused.items():
            waits = self._jobs.get(name)
            # Once: the reason is that of the moment when its turn came, beside whoever ran then.
            if waits is not None and waits.told is None:
                self._tell(waits, refused.refusal)

    def _have_to_stop(self, order: Order) -> bool:
        """Tell those to stop who have no place, or another one; whether anybody has to."""
        if any(live.for_job for live in self._running.values()):
            return True
        stages, jobs = self._stages.branch(), {name: one.copy() for name, one in self._jobs.items()}
        walk = Walk(stages, jobs, order, self._kinds.all_want_gpus)
        found = walk.run([jobs[name] for name in self._running])
        names = [live.job.name for live in found.stopped] + [move.job for move in found.moves]
        for name in names:
            winner = found.winner(name, order)
            self._outbox.append(Preempt(name, winner, "order"))
            self._jobs[name].for_job = winner
            self._stages.told_to_stop(name)
        return bool(names)

    def _allot(self) -> None:
        """Share out cache and remote IO if other jobs run now."""
        storage = self._stages.storage
        if storage is not None and storage.is_stale:
            readers = (
                live.job for live in self._jobs.values() if live.runs and not live.has_stopped
            )
            self._outbox += storage.allot(readers, self._now)

    def _offer(self, unit: Unit) -> None:
        """A unit that has left its queue starts, or goes back."""
        live = self._jobs[unit.owner]
        missing = self._missing(live)
        if missing:
            refusal = Refusal("scheduler", "after", f"waits for {missing!r} to start", missing)
            self._wait(live, unit, Refused(refusal, (("started", missing),)))
            return
        if unit is live.lent:
            self._lend(live, unit)
            return
        if live.state == "lent":
            self._promote(live, unit)
            return
        known = self._stages.known_refusal(unit.kind)
        refused = known or self._stages.start(unit)
        if isinstance(refused, Started):
            self._started(live, unit, refused)
            return
        joined = self._stages.join(unit)
        if joined is not None:
            self._started(live, unit, Started(()), joined)
            return
        victims: Victims = {}
        if known is None and self._may_preempt(live, unit) and self._might_help(unit, refused):
            victims = find_victims(self._stages, self._jobs, unit, refused, self._now)
        if not victims:
            self._wait(live, unit, self._stages.note_refusal(unit.kind, refused))
            return
        if self._immediate:
            self._started(live, unit, self._start_without(victims, live, unit))
            return
        self._tell_to_leave(victims, live)
        live.state, live.victims = "reserved", tuple(victims)
        self._reserved[live.job.name] = live
        self._waiting.leave(unit.kind, unit.name)
        self._lend_no_more(live)
        for name in victims:
            self._jobs[name].for_job = live.job.name
            self._stages.told_to_stop(name)
            self._expect_no_more(self._jobs[name])
        leaving = self._leaving(live)
        hold(self._stages, unit, leaving)
        for one in leaving:  # it may be more than the unit takes
            self._waiting.touch(self._stages.touched_by_release(one.kind))

    def _leaving(self, live: Live) -> list[Unit]:
        """What those have who have to stop for a job."""
        return [unit for name in live.victims for unit in self._jobs[name].placed]

    def _tell_to_leave(self, victims: Victims, live: Live) -> None:
        self._outbox += [Preempt(name, live.job.name, why) for name, why in victims.items()]

    def _start_without(self, victims: Victims, live: Live, unit: Unit) -> Started:
        """Let others stop at once, and a unit start that then can."""
        self._tell_to_leave(victims, live)
        for name in victims:
            self._stop(self._jobs[name])
        found = self._stages.start(unit)
        if not isinstance(found, Started):
            raise InvariantError(f"job {live.job.name!r} does not start without {list(victims)}")
        return found

    # --- idle cells

    def _offer_idle_cells(self, live: Live) -> None:
        """While a job waits for its tenant's cells it also waits for idle ones."""
        job = live.job
        may = job.guaranteed and job.preemptible and live.units[0].kind.gpus
        if self._lending is not None and may:
            self._push(live.may_be_lent(self._kinds))

    def _lend(self, live: Live, unit: Unit) -> None:
        """A job starts on idle cells, or waits for these, too."""
        found = self._stages.start(unit)
        if not isinstance(found, Started):
            self._wait(live, unit, found)
            return
        self._waiting.leave(unit.kind, unit.name)
        live.state, live.since, live.told, live.units[0].has_quota = "lent", self._now, None, True
        self._running[live.job.name] = live
        self._outbox.append(Start(live.job.name, unit.placed, decisions=found.decisions, lent=True))
        self._waiting.touch((("started", live.job.name),))

    def _promote(self, live: Live, unit: Unit) -> None:
        """One that runs on idle cells gets those of its tenant, if these are not in use."""
        lent = live.lent
        assert lent is not None
        victims = self._promotion(live, unit, lent)
        if isinstance(victims, Refused):
            self._wait(live, unit, victims)
            return
        self._relief = None
        self._stages.vacate(lent)
        lent.placed, lent.is_placed = (), False
        found = self._start_without(victims, live, unit)
        unit.has_quota = False
        self._waiting.leave(unit.kind, unit.name)
        self._waiting.touch(self._stages.touched_by_release(lent.kind))
        live.lent = None
        self._outbox.append(Promote(live.job.name, unit.placed, found.decisions))
        live.state = "running"
        self._expect_joining(live)

    def _promotion(self, live: Live, unit: Unit, lent: Unit) -> Refused | Victims:
        """Who else has to leave at once so that a job has cells of its own, or why it stays on idle
        ones.
        """
        name = live.job.name
        if live.for_job:
            refusal = Refusal("scheduler", "stops", f"has to stop for {live.for_job!r}")
            return Refused(refusal, (("stopped", name),))
        if self._stages.devices is None:
            refused = self._stages.not_placed(unit)
            if refused is None:
                return {}
            if not refused.cell_victims:
                return refused
        branch = self._stages.branch()
        branch.vacate(lent)
        found = branch.start(unit.trial())
        if isinstance(found, Started):
            return {}
        may_evict = self._immediate and self._preemption
        victims = may_evict and find_victims(branch, self._jobs, unit, found, self._now)
        return victims or found

    def _lend_no_more(self, live: Live) -> None:
        """A job has what it waited for, or waits no more: it is lent nothing."""
        if live.lent is not None:
            self._take_off(live.lent)
            live.lent = None

    def _missing(self, live: Live) -> str:
        """A job that has to start first; "": there is none."""
        for name in live.job.after:
            other = self._jobs.get(name)
            if other is not None and (not other.runs or other.has_stopped):
                return name
        return ""

    def _started(
        self, live: Live, unit: Unit, started: Started, joined: Joined | None = None
    ) -> None:
        if live.state != "reserved":
            self._waiting.leave(unit.kind, unit.name)
        others, offsets = ((), ()) if joined is None else (joined.others, joined.offsets)
        decisions = started.decisions
        self._outbox.append(Start(live.job.name, unit.placed, others, offsets, decisions))
        self._waiting.touch(self._stages.touched_by_sharing(unit.kind))
        if unit is live.units[0]:
            self._lend_no_more(live)
            self._runs_now(live)

    def _runs_now(self, live: Live) -> None:
        live.state, live.since, live.told, live.victims = "running", self._now, None, ()
        self._running[live.job.name] = live
        self._waiting.touch((("started", live.job.name),))
        self._expect_joining(live)

    def _expect_joining(self, live: Live) -> None:
        """The other pods of a job wait to join it."""
        units = live.joining(self._kinds)
        for joining in units:
            if self._stages.quotas is not None:
                self._stages.quotas.submit(joining)
            self._push(joining)
        if units:  # what they ask for moves what others may use
            self._waiting.touch(self._stages.touched_by_request())

    def _wait(self, live: Live, unit: Unit, refused: Refused) -> None:
        """It has its place in the queue again, and waits with all of its kind."""
        kind = unit.kind
        departure = unit.departure
        assert departure is not None
        queues = self._line(kind)
        queues.requeue(departure)
        self._queued[unit.name] = unit
        queues.park(departure.job.tenant, kind.number)
        self._waiting.park(kind, refused.refusal, refused.keys)
        if unit is live.units[0] and not live.runs:
            self._tell(live, refused.refusal)

    def _tell(self, live: Live, refusal: Refusal) -> None:
        if live.told != refusal:
            live.told = refusal
            self._outbox.append(Wait(live.job.name, refusal))

    def _wake(self) -> None:
        able = self._stages.able_to_share
        for kind in self._waiting.woken(self._still_refused, able):
            self._line(kind).wake(self._queue_of(kind.job), kind.number)

    def _still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        again = self._stages.still_refused(kind, refusal, name)
        if again is None or refusal.stage not in NAME_NOBODY:
            return again
        unit = self._queued[name]
        # What is idle is too little, but perhaps not with what others would leave.
        may = self._may_preempt(self._jobs[unit.owner], unit)
        return None if may and self._might_help(unit, again) else again

    def _might_help(self, unit: Unit, refused: Refused) -> bool:
        """Whether a unit might start if others left, at a glance."""
        if refused.refusal.stage not in NAME_NOBODY:
            return True
        if self._relief is None:
            by_quota, others = self._stages.quotas is not None, self._running.values()
            if not any(might_leave(one, unit.kind.job, by_quota) for one in others):
                return False
            self._relief = Relief(self._stages, others)
        return not self._relief.is_too_little(unit.kind)

    def _may_preempt(self, live: Live, unit: Unit) -> bool:
        return self._preemption and live.job.guaranteed and unit is live.units[0]

    # --- ends

    def _end(self, live: Live) -> None:
        """A job is gone for good."""
        if not live.runs:
            self._end_waiting(live)
        elif live.for_job:
            live.is_ending = True
            if not live.has_stopped:
                self._has_stopped(live)
            return
        else:
            self._give_back_all(live, end=True)
        self._forget(live)

    def _end_waiting(self, live: Live) -> None:
        """A job that waits asks for nothing any more."""
        if live.state == "reserved":
            self._let_go(live)
            self._stages.withdraw(live.units[0])
            self._waiting.touch(self._stages.touched_by_request())
        else:
            self._lend_no_more(live)
            self._withdraw(live.units[0])

    def _forget(self, live: Live) -> None:
        name = live.job.name
        del self._jobs[name]
        self._running.pop(name, None)
        # What was not told yet of a job that is gone is not told any more.
        kept = [a for a in self._outbox if not (isinstance(a, (Start, Wait)) and a.job == name)]
        self._outbox = kept
        self._waiting.touch((("started", name),))

    def _stop(self, live: Live) -> None:
        """A running job waits again."""
        lent = live.lent
        if lent is None:
            self._give_back_all(live, end=False)
            self._requeue(live.units[0])
            self._offer_idle_cells(live)
        else:
            self._give_back(lent, end=False)
            live.units[0].has_quota = False
            self._requeue(lent)
            self._waiting.touch((("stopped", live.job.name),))
        del self._running[live.job.name]
        live.state, live.for_job, live.has_stopped = "pending", "", False
        refusal = self._waiting.refusal(live.units[0].kind)
        if refusal is not None and refusal.code != "stops":
            self._tell(live, refusal)
        self._reject_if_impossible(live)

    def _expect_no_more(self, live: Live) -> None:
        """No more pods join a job."""
        for unit in live.units[1:]:
            if not unit.placed:
                self._withdraw(unit)
        live.units = [live.units[0], *[unit for unit in live.units[1:] if unit.placed]]

    def _give_back_all(self, live: Live, end: bool) -> None:
        if live.lent is not None:
            self._give_back(live.lent, end=end)
            self._take_off(live.units[0])
            return
        self._expect_no_more(live)
        first, *joined = live.units
        for unit in reversed(joined):
            self._give_back(unit, end=True)
        live.units = [first]
        self._give_back(first, end=end)

    def _give_back(self, unit: Unit, *, end: bool) -> None:
        self._relief = None
        heir = self._stages.give_back(unit, end=end)
        if heir:
            self._jobs[heir].units[0].is_placed = unit.is_placed
        unit.placed, unit.is_placed = (), False
        if self._waiting:
            self._waiting.touch(self._stages.touched_by_release(unit.kind))

    def _has_stopped(self, live: Live) -> None:
        """A victim has stopped: what it has is held until all have."""
        live.has_stopped = True
        for unit in live.placed:
            self._stages.reads_no_more(unit)
        mine = self._jobs.get(live.for_job)
        # The other one may be gone, and its name somebody else's by now.
        if mine is None or live.job.name not in mine.victims:
            self._leave(live)

    def _start_reserved(self) -> None:
        """Those for whom all have stopped start, or wait again if something else has happened."""
        ready = [live for live in self._reserved.values() if self._is_ready(live)]
        for live in sorted(ready, key=_arrival):
            del self._reserved[live.job.name]
            for victim in live.victims:
                self._leave(self._jobs[victim])
            unit, live.victims = live.units[0], ()
            found: Started | Refused | None = None
            if self._order is None and not self._missing(live):
                start = fulfil if unit.placed else Stages.start
                found = start(self._stages, unit)
            if isinstance(found, Started):
                self._started(live, unit, found)
            else:
                self._hold_no_more(live)
                self._wait_again(live)

    def _wait_again(self, live: Live) -> None:
        """A job for which others were to stop goes back to its queue."""
        live.state, live.victims = "pending", ()
        self._requeue(live.units[0])
        self._offer_idle_cells(live)

    def _is_ready(self, live: Live) -> bool:
        return all(self._jobs[name].has_stopped for name in live.victims)

    def _let_go(self, live: Live) -> None:
        """Somebody for whom others have to leave is gone."""
        self._hold_no_more(live)
        del self._reserved[live.job.name]
        for name in live.victims:
            if self._jobs[name].has_stopped:
                self._leave(self._jobs[name])

    def _hold_no_more(self, live: Live) -> None:
        """What is held for a job is not any more; if nothing else happens, it is decided anew on it
        when all have stopped.
        """
        unit = live.units[0]
        if unit.placed:
            let_go(self._stages, unit, self._leaving(live))
            self._waiting.touch(self._stages.touched_by_release(unit.kind))

    def _hold_on_good_nodes(self, bad: Container[str]) -> None:
        """Hold nothing for jobs that could not start there."""
        for live in self._reserved.values():
            if any(pod.node in bad for pod in live.units[0].placed):
                self._hold_no_more(live)

    def _hold_nothing(self) -> None:
        """What was found for those for whom others have to stop need not be so any more."""
        for live in self._reserved.values():
            self._hold_no_more(live)

    def _leave(self, live: Live) -> None:
        if live.is_ending:
            self._give_back_all(live, end=True)
            self._forget(live)
        else:
            self._stop(live)

    # --- queues

    def _queue_of(self, job: Job) -> str:
        return job.tenant if self._has_queues else "all"

    def _line(self, kind: Kind) -> TenantQueues:
        """Where units of a kind wait."""
        if not kind.is_lent:
            return self._queues
        assert self._lending is not None
        return self._lending

    def _push(self, unit: Unit) -> None:
        self._line(unit.kind).push(self._queued_job(unit), int(self._now * _MICRO))
        self._queued[unit.name] = unit
        self._waiting.add(unit.kind, unit.name)

    def _queued_job(self, unit: Unit, job: Job | None = None) -> QueuedJob:
        kind = unit.kind
        job = self._jobs[unit.owner].job if job is None else job
        run_time = None if job.run_time is None else max(1, int(job.run_time * _MICRO))
        return QueuedJob(
            unit.name,
            self._queue_of(job),
            max(1, kind.gpus),
            job.priority,
            run_time,
            kind=kind.number,
        )

    def _requeue(self, unit: Unit) -> None:
        """Put one that was stopped back at its old place; it is of a kind of its own then: what it
        may borrow is not what others may.
        """
        departure = unit.departure
        assert departure is not None
        if not unit.kind.is_lent:
            unit.kind = self._kinds.alone(unit.kind)
        self._line(unit.kind).requeue(departure._replace(job=self._queued_job(unit)))
        self._queued[unit.name] = unit
        self._waiting.add(unit.kind, unit.name)

    def _withdraw(self, unit: Unit) -> None:
        """A unit that waits in a queue is not wanted any more."""
        self._take_off(unit)
        self._stages.withdraw(unit)
        self._waiting.touch(self._stages.touched_by_request())

    def _take_off(self, unit: Unit) -> None:
        kind, line = unit.kind, self._line(unit.kind)
        unit.departure = line.take(unit.name)
        del self._queued[unit.name]
        if self._waiting.leave(kind, unit.name):
            line.wake(self._queue_of(kind.job), kind.number)

    # --- what there is

    def check(self) -> None:
        """Audit every invariant of all parts, and what they say of one another.

        :raises InvariantError: one is broken. Cost: that of the parts' own, and O(jobs).
        """
        with self._lock:
            self._queues.check()
            if self._lending is not None:
                self._lending.check()
            for stage in self._stages.all:
                stage.part.check()
            check_units(self._stages, self._jobs.values(), self._queued, self._waiting)
            check_waiting([self._queues, self._lending], self._waiting, self._queued)
            if self._stages.sharing is not None:
                check_sharing(self._stages.sharing, self._jobs.values())

    @property
    def queues(self) -> TenantQueues:
        """Its queues, to be read."""
        return self._queues

    @property
    def quotas(self) -> QuotaTree | None:
        """Its quotas; who changes them calls `touch`. So for all parts."""
        return None if self._stages.quotas is None else self._stages.quotas.part

    @property
    def cells(self) -> CellCluster | None:
        """Its cells."""
        part = None if self._stages.place is None else self._stages.place.part
        return part if isinstance(part, CellCluster) else None

    @property
    def topology(self) -> NetworkTopology | None:
        """Its network."""
        part = None if self._stages.place is None else self._stages.place.part
        return part if isinstance(part, NetworkTopology) else None

    @property
    def devices(self) -> DeviceCluster | None:
        """Its devices."""
        return None if self._stages.devices is None else self._stages.devices.part

    @property
    def immediate(self) -> bool:
        """Whether victims stop at once."""
        return self._immediate

    @property
    def now(self) -> float:
        """The time that was told last, in seconds."""
        return self._now

    def __len__(self) -> int:
        """How many jobs it knows."""
        return len(self._jobs)

    def __contains__(self, name: object) -> bool:
        return name in self._jobs

    def __iter__(self) -> Iterator[str]:
        """A snapshot of the names, in the order in which they came."""
        with self._lock:
            return iter(list(self._jobs))

    def state(self, job: str) -> str:
        """What has become of a job: "pending", "reserved" (others are to stop for it), "running",
        or "lent" (it runs on idle cells until its tenant's own are free for it).

        :raises KeyError: there is no such job.
        """
        with self._lock:
            return self._live(job).state

    def status(self, job: str) -> JobStatus:
        """How a job stands, and what it holds.

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
            shares = self._stages.members(job)
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
            for unit in self._queued.values():
                if unit.kind.is_lent:  # the job waits in its queue, too
                    continue
                queue = self._queue_of(unit.kind.job)
                queued[queue] = queued.get(queue, 0) + 1
            return SchedulerSummary(
                self._now,
                tenants_of(self._jobs.values(), self._holds),
                tuple(sorted(queued.items())),
                self._stages.unhealthy(),
            )

    def _holds(self, job: str) -> bool:
        return self._stages.members(job)[0] == job

    # --- questions

    def explain(self, job: str) -> JobExplanation:
        """Why a job waits, and what would let it start now; nothing changes.

        :raises KeyError: there is no such job.

        Each change was tried on a branch, so it costs some of these.
        """
        with self._lock:
            live = self._live(job)
            unit = live.units[0] if live.state == "pending" else None
            position = 0
            if unit is not None:
                position = self._queues.explain(unit.name, int(self._now * _MICRO)).position
            return explain(self, live.job, unit, position)

    @contextmanager
    def what_if(self) -> Iterator[Self]:
        """A branch to try things on; what is done there is forgotten at the end.

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
        """Which jobs to move so that nodes get free or a job fits, see `plan_moves`."""
        return plan_moves(self, goal, cost=cost, most_tries=most_tries)

    def forecast(self, job: str) -> float | None:
        """When a job would start if nobody else came and running jobs ended by their estimates.

        :returns: the time, in seconds; ``None``: it would not, or not before a job ends that has no
            estimate.
        :raises KeyError: there is no such job.

        Cost: that of a branch, and of deciding after each of these ends.
        """
        with self._lock:
            live = self._live(job)
            if live.runs:
                return live.since
            branch = self.copy()
        branch._immediate = True
        return branch._first_start(job)

    def _first_start(self, job: str) -> float | None:
        """On a branch whose running jobs end by their estimates."""
        self.decide(self._now)
        while not self._jobs[job].runs:
            ends = [
                (max(self._now, live.since + live.job.run_time), name)
                for name, live in self._jobs.items()
                if live.runs and live.job.run_time is not None
            ]
            if not ends:
                return None
            now = min(ends)[0]
            for end, name in sorted(ends):
                if end == now:
                    self._end_now(name, now)
            self.decide(now)
        return self._jobs[job].since

    def _end_now(self, name: str, now: float) -> None:
        """Of a branch: who has to stop for others has stopped by now."""
        live = self._jobs[name]
        if live.for_job:
            self.stopped(name, now)
        else:
            self.finish(name, now)

    # --- all of it

    def copy(self) -> Self:
        """A branch that shares nothing, and writes no log: what if?

        Cost: that of the parts, and O(jobs).
        """
        with self._lock:
            made = self._blank(self._stages.branch(), self._queues.copy())
            # An empty one is false.
            made._lending = None if self._lending is None else self._lending.copy()
            made._kinds = self._kinds.branch()
            made._waiting = self._waiting.branch(made.quotas)
            made._jobs = {name: live.copy() for name, live in self._jobs.items()}
            made._outbox, made._rejected = list(self._outbox), set(self._rejected)
            made._now, made._regroup_for = self._now, self._regroup_for
            made._order = self._order
            made._note_states()
            return made

    def _blank(self, stages: Stages, queues: TenantQueues) -> Self:
        """One with the same settings, without jobs."""
        made = object.__new__(type(self))
        made._has_queues, made._queues, made._stages = self._has_queues, queues, stages
        made._immediate, made._preemption = self._immediate, self._preemption
        made._jobs = {}
        made._reserved, made._running = {}, {}
        made._queued, made._outbox, made._now, made._lock = {}, [], 0.0, RLock()
        made._rejected, made._relief = set(), None
        made._log, made._logged, made._regroup_for = None, -1, 0.0
        made._order = None
        return made

    def _note_states(self) -> None:
        for name, live in self._jobs.items():
            if live.state == "reserved":
                self._reserved[name] = live
            elif live.runs:
                self._running[name] = live
            for unit in live.all_units:
                if not unit.placed and live.state != "reserved":
                    self._queued[unit.name] = unit

    def to_bytes(self) -> bytes:
        """The state, with that of all parts, for ``from_bytes``."""
        with self._lock:
            state = {
                "settings": [
                    self._has_queues,
                    self._immediate,
                    self._preemption,
                    self._stages.tries,
                ],
                "lending": self._lending is not None,
                "storage": None if self._stages.storage is None else self._stages.storage.plain(),
                "parts": [stage.name for stage in self._stages.all],
                "now": self._now,
                "logged": self._logged,
                "kinds": self._kinds.numbered,
                "waiting": self._waiting.plain(),
                "outbox": [plain_action(action) for action in self._outbox],
                "jobs": [plain_live(live) for live in self._jobs.values()],
            }
            if self._order is not None:
                state["order"] = self._order.entries
            if self._stages.sharing is not None:
                state["sharing"] = self._stages.sharing.plain()
                state["regroup_for"] = self._regroup_for
            text = json.dumps(state, separators=(",", ":")).encode()
            parts = [stage.part.to_bytes() for stage in self._stages.all]
            if self._lending is not None:
                parts.append(self._lending.to_bytes())
            return seal(b"HVSC", 2, joined([text, self._queues.to_bytes(), *parts]))

    def _units(self) -> Iterator[Unit]:
        for live in self._jobs.values():
            yield from live.all_units

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The scheduler whose ``to_bytes`` gave these bytes, with parts of its own.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HVSC", 2, data)
        with corrupt_if_it_fails():
            text, queues, *parts = split(payload)
            state = json.loads(text)
            has_queues, immediate, preemption, tries = state["settings"]
            lending = TenantQueues.from_bytes(parts.pop()) if state["lending"] else None
            kinds = ("quotas", "cells", "topology", "devices")
            if len(parts) != len(state["parts"]) or set(state["parts"]) - set(kinds):
                raise ValueError("parts")
            read: dict[str, Any] = {
                name: _PARTS[name].from_bytes(part)
                for name, part in zip(state["parts"], parts, strict=True)
            }
            storage = None
            if state["storage"] is not None:
                storage = StorageStage.of_plain(state["storage"])
            sharing = state.get("sharing")
            made = cls(
                queues=TenantQueues.from_bytes(queues),
                storage=None if storage is None else storage.pool,
                lending=lending is not None,
                sharing=None if sharing is None else SharingStage.terms_of_plain(sharing),
                immediate=immediate,
                preemption=preemption,
                tries=tries,
                **read,
            )
            made._stages.storage, made._lending = storage, lending
            made._restore(state, as_bool(has_queues, "has_queues"))
            made.check()
        return made

    def _restore(self, state: dict[str, Any], has_queues: bool) -> None:
        self._has_queues = has_queues
        self._now = self._moment(state["now"])
        self._logged = as_int(state["logged"], "logged", -1, 2**62)
        for one in state["jobs"]:
            live = live_of_plain(one, self._kinds, self._queued_job)
            if live.job.name in self._jobs:
                raise ValueError(f"job {live.job.name!r} is there twice")
            self._jobs[live.job.name] = live
        self._kinds.numbered = as_int(state["kinds"], "kinds", 0, 2**61)
        kinds = {unit.kind.number: unit.kind for unit in self._units()}
        self._waiting.restore(state["waiting"], kinds)
        self._outbox = [action_of_plain(action) for action in state["outbox"]]
        if self._stages.sharing is not None:
            running = {unit.name: unit for unit in self._units() if unit.placed}
            self._stages.sharing.restore(state["sharing"], running)
            self._stages.note_health()
            lasting = as_float(state["regroup_for"], "regroup_for")
            self._regroup_for = self._seconds(lasting) if lasting else 0.0
        asked = as_order(state.get("order", []))
        self._order = Order(asked, {}) if asked else None  # as it was sorted then
        self._rejected = {one.job for one in self._outbox if isinstance(one, Reject)}
        self._note_states()

    # --- what they have in common

    def _moment(self, now: Any) -> float:
        moment = as_float(now, "now")
        if not self._now <= moment <= _LATEST:
            raise ValueError(f"now={moment!r}: allowed are {self._now!r} to 2**40 seconds")
        return moment

    @staticmethod
    def _seconds(value: Any) -> float:
        seconds = as_float(value, "seconds")
        if not 0.0 < seconds <= _LATEST:
            raise ValueError(f"seconds={seconds!r}: allowed is what is above 0, up to 2**40")
        return seconds

    def _live(self, name: str) -> Live:
        live = self._jobs.get(as_text(name, "job"))
        if live is None:
            raise KeyError(f"there is no job {name!r}")
        return live


def _on(units: Iterable[Unit], node: str) -> list[Unit]:
    """Those that have a pod on a node."""
    return [unit for unit in units if any(pod.node == node for pod in unit.placed)]


def _arrival(live: Live) -> int:
    """The place of a job among all that have left their queues, when it is in none."""
    departure = live.units[0].departure
    return 0 if departure is None else departure.number
