"""The scheduler: events in, actions out."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import IO, Self

from hivecore._arguments import LONGEST, as_bool, as_instance, as_int, as_positive
from hivecore._stateful import counted
from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.dra import DraCluster
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import Action
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.explanation import JobExplanation, explain, first_start
from hivecore.scheduler.job import Job
from hivecore.scheduler.job_orders import JobOrders
from hivecore.scheduler.ledger.budgets import by_quota
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.log.writer import LogWriter
from hivecore.scheduler.moves.fragments import Fragments
from hivecore.scheduler.moves.plan import Goal, MoveCost, MovePlan, plan_moves
from hivecore.scheduler.rounds.backfill import renew
from hivecore.scheduler.rounds.round import decide
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages.cells import check_chains
from hivecore.scheduler.stages.claims import as_mode
from hivecore.scheduler.stages.constraints import (
    check_counted,
    check_limits,
    check_quotas,
    offered_by,
)
from hivecore.scheduler.stages.devices import host_resources
from hivecore.scheduler.stages.storage import StoragePool
from hivecore.scheduler.stages.transaction import Stages
from hivecore.topology import NetworkTopology

__all__ = ["Scheduler"]


class Scheduler(JobOrders):
    """Decides which jobs start, where, and which they evict. Each part is optional.

    :param queues: choose the next job; ``None``: by priority, then by arrival. They count time in
        microseconds.
    :param quotas: limit resources of tenants or of `Job.quota`; GPUs are "gpu".
    :param cells: choose the GPUs of a job by the guarantees of its tenant.
    :param topology: chooses nodes near each other. Cannot be combined with ``cells``.
    :param devices: choose the devices of each pod on its node. "cpu" and "memory" of a "host"
        device limit these `Role.resources`, unless a network does.
    :param claims: allocate `Role.claims`, Kubernetes' device claims, on the nodes that other parts
        choose, or else on nodes that can serve them. Ids of shares are derived from claim names.
    :param claims_mode: how claims choose devices, see `DraCluster.allocate`; "fewest blocks" starts
        to use as few cards as possible.
    :param storage: cache and remote IO of jobs with `Job.data`, allocated again whenever the
        running jobs change.
    :param lending: jobs that wait for their tenant's cells may run on idle cells, as opportunistic
        jobs do, until a tenant needs its cells or their own become free. Needs ``cells``.
    :param sharing: when a job with `Job.stages` may join a running job on its GPUs, if no idle GPUs
        fit; tried before eviction.
    :param immediate: victims stop at once. Otherwise everything that the preempting job needs is
        held for it until `stopped` was called for all of its victims.
    :param preemption: whether jobs may be evicted for others.
    :param reservation_seconds: how long a job waits for its victims. After that nothing is held for
        it, and it may start elsewhere; the victims still have to stop. Checked by `advance` and
        `decide`. ``None``: no limit.
    :param backfill: how many waiting jobs of each queue get a promised start, 0 to 1000. Jobs of
        the same or lower priority must not delay them. 1 is EASY backfilling, more is conservative.
        Needs `Job.run_time`; see `promised`.
    :param eviction_limits: how soon and how often the jobs of quotas may be evicted.
    :param fragments: among sets of as many and as important victims, choose the one that leaves the
        fewest fragments; ``None``: the one that loses the fewest GPU-seconds.
    :param growing: nodes may be added and totals may grow, so a job that exceeds the cluster waits
        instead of being rejected; for instance if the cluster is empty at first.
    :param tries: how often placement is tried for a job if devices refuse.
    :param log: where to write all events and decisions: the path of a new file, or a binary file
        open for writing; see `write_log`, `replay` and `recover`.
    :raises ValueError: ``cells`` and ``topology`` are both given, or ``lending`` without ``cells``;
        two chains of ``cells`` have the same GPU of a node; ``queues`` contain jobs or backfill; a
        network counts nothing, or quotas limit a resource that no job can request, such as "gpus";
        an eviction limit is for an unknown quota; ``claims_mode`` is unknown, or given without
        ``claims``; or a number is out of range.
    :raises TypeError: an argument is of a wrong type.
    :raises FileExistsError: the log exists already.
    :raises OSError: the log cannot be written.

    The scheduler calls no other system, never sleeps, and reads no clock. The caller reports events
    with the time ``now`` in seconds, which never goes back, and carries out the actions of
    `decide`. Parts are not copied, and may be read. A node that only some parts know is unhealthy
    there, until `add_node` adds it to the others.

    A job starts if all parts accept it; otherwise nothing changes. A waiting job is tried again
    only after a change that its refusal names. `decide` and events are transactions: an error
    changes nothing. Calls of several threads take turns. Do not call the scheduler inside of
    ``part.trial()``: it deadlocks if another thread decides.

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
        claims: DraCluster | None = None,
        claims_mode: str = "first",
        storage: StoragePool | None = None,
        lending: bool = False,
        sharing: Sharing | None = None,
        immediate: bool = False,
        preemption: bool = True,
        reservation_seconds: float | None = None,
        backfill: int = 0,
        eviction_limits: Iterable[EvictionLimit] = (),
        fragments: Fragments | None = None,
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
            ("claims", claims, DraCluster),
            ("storage", storage, StoragePool),
            ("sharing", sharing, Sharing),
            ("fragments", fragments, Fragments),
        ):
            if part is not None and not isinstance(part, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {type(part).__name__}")
        if cells is not None and topology is not None:
            raise ValueError("topology: cells place the pods already")
        if as_bool(lending, "lending") and cells is None:
            raise ValueError("lending: there are no cells")
        if cells is not None:
            check_chains(cells.spec, "cells")
        if queues is not None:
            _check_queues(queues)
        if quotas is not None:
            check_quotas(quotas, offered_by(devices, topology, cells))
        limits = by_quota(eviction_limits)
        check_limits(limits, quotas, "eviction_limits")
        if topology is not None and topology.nodes:
            check_counted(topology.resources, "topology")
        hosts: frozenset[str] = frozenset()
        if devices is not None:
            hosts = host_resources(devices, () if topology is None else topology.resources)
        may_grow = as_bool(growing, "growing")
        number = as_int(tries, "tries", 1, 1000)
        patience = inf
        if reservation_seconds is not None:
            patience = as_positive(reservation_seconds, "reservation_seconds", LONGEST)
        parts = quotas, cells, topology, devices, storage
        mode = as_mode(claims_mode, claims)
        stages = Stages.of(
            *parts, number, sharing, may_grow, hosts, claims=claims, claims_mode=mode
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
                backfill=as_int(backfill, "backfill", 0, 1000),
                limits=limits.values(),
                fragments=fragments,
            )
        )
        if log is not None:
            self._begin(LogWriter(log))

    def decide(self, now: float, most: int | None = None) -> list[Action]:
        """Return the actions to carry out now, in order.

        :param most: the most attempts to start a job or pod; ``None``: until no more can start.
        :raises ValueError: the time goes back, or ``most`` is not positive.
        :raises OSError: the log cannot be written. The decisions stand; the next call that can
            write the log returns them first.

        Another error changes nothing, nor does Ctrl-C, which waits until its changes can be undone;
        if it comes after the decisions, these stand, and the next call returns them first. If a
        part raised the error while deciding on a job, a note names the part. Cost: that of the
        parts for each job tried; O(1) if nothing has happened and no promised start is overdue.
        """
        left = -1 if most is None else as_int(most, "most", 1, 2**62)
        delivered: list[Action] = []
        try:
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
                delivered = self._outbox.deliver()
        except KeyboardInterrupt:
            with self._lock:
                self._outbox.take_back(delivered)
            raise
        return delivered

    def counted(self, job: Job) -> frozenset[str]:
        """The resources of a job's roles that some part limits. `submit` refuses a job with others.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> quotas = QuotaTree([Quota("vision", max={"cpu": 64})], total={"cpu": 64})
        >>> role = Role("worker", resources={"cpu": 8, "disk": 1})
        >>> sorted(Scheduler(quotas=quotas).counted(Job("train", "vision", [role])))
        ['cpu']
        """
        as_instance(job, "job", Job)
        with self._lock:
            return self._state.stages.counted(job)

    def places(self, job: Job) -> bool:
        """Whether some part chooses nodes for a job's pods. Otherwise `submit` refuses
        ``where.nodes``.

        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> Scheduler().places(Job("train", "vision", [Role("worker")]))
        False
        """
        as_instance(job, "job", Job)
        with self._lock:
            return self._state.stages.places(job)

    def spreads(self, job: Job) -> bool:
        """Whether some part limits the pods per node of a job's roles. Otherwise `submit` refuses
        ``per_node``.

        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> Scheduler().spreads(Job("train", "vision", [Role("worker", 2, per_node=1)]))
        False
        """
        as_instance(job, "job", Job)
        with self._lock:
            return self._state.stages.spreads(job)

    def explain(self, job: str) -> JobExplanation:
        """Explain why a job waits, and which changes would let it start now. Changes nothing.

        :raises KeyError: there is no such job.

        Each change is tried on the scheduler itself and undone, in O(changes).
        """
        with self._lock:
            return explain(self._state, self._live(job))

    @contextmanager
    def what_if(self) -> Iterator[Self]:
        """A context with a copy for experiments.

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
        """Plan the cheapest moves that free nodes or let a job fit. Changes nothing.

        :param goal: `FreeNodes`, `FreeDomain` or `Fit`.
        :param cost: what to minimize: the number of moved jobs, or the GPU-seconds since they
            started, which are lost unless they save their work.
        :param most_tries: the most sets of jobs to try, 1 to 1,000,000.
        :raises KeyError: there is no such node, layer, domain or job.
        :raises ValueError: the job does not wait in a queue, or an argument is out of range.
        :raises TypeError: an argument is of a wrong type.

        Jobs stay that are not ``preemptible``, have to stop, share GPUs, or run on idle cells.
        Moved jobs keep their quotas. After the moves of `Fit` the job can start, unless a job in
        front of it takes the room. Each step is feasible after the steps before it.

        No plan costs less than the lower bound, which counts resources on each node. Preferences of
        the network, devices other than GPUs and guarantees of cells may make plans more expensive.
        Ties: the plan found first. Cost of a try: two to five branches, a few decisions for each
        job, and a pass over all pods.

        >>> from hivecore.scheduler import FreeNodes, Job, Scheduler
        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology(["rack"], {node: {"rack": "r1"} for node in ("n1", "n2")})
        >>> network.set_free("n1", {"gpu": 8}); network.set_free("n2", {"gpu": 8})
        >>> scheduler = Scheduler(topology=network)
        >>> scheduler.submit(Job("train", "vision", 4), now=0.0)
        >>> [pod.node for action in scheduler.decide(now=0.0) for pod in action.pods]
        ['n1']
        >>> plan = scheduler.plan_moves(FreeNodes(["n1"]))
        >>> [(move.job, move.pods[0].node) for move in plan.moves], plan.cost, plan.optimal
        ([('train', 'n2')], 1, True)
        """
        with self._lock:
            return plan_moves(self._state, goal, cost, most_tries)

    def forecast(self, job: str) -> float | None:
        """Forecast when a job starts if no other job arrives, running jobs end by their estimates,
        and victims stop at once.

        :returns: the time in seconds, of a running job that at which it started; ``None``: never,
            or only after a job without an estimate ends.
        :raises KeyError: there is no such job.

        Runs on the scheduler itself, and is undone. Cost: one decision for each end of a job.
        """
        with self._lock:
            live = self._live(job)
            return live.since if live.runs else first_start(self._state, live)

    def promised(self, job: str) -> float | None:
        """The latest start of a waiting job in seconds, if estimates are right and nothing else
        happens; ``None``: nothing was promised. See ``backfill``.

        :raises KeyError: there is no such job.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Scheduler
        >>> quotas = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
        >>> scheduler = Scheduler(quotas=quotas, backfill=1)
        >>> for name, gpus, time in (("now", 6, 60), ("next", 8, 60), ("long", 2, 90)):
        ...     scheduler.submit(Job(name, "vision", gpus, run_time=time), now=0.0)
        >>> scheduler.submit(Job("short", "vision", 2, run_time=50), now=0.0)
        >>> started, *waiting = scheduler.decide(now=0.0)
        >>> [scheduler.state(name) for name in ("now", "next", "long", "short")]
        ['running', 'pending', 'pending', 'running']
        >>> scheduler.promised("next")
        60.0
        """
        with self._lock:
            state, name = self._state, self._live(job).job.name
            if state.are_promises_new:
                return state.promised.get(name)
            with state.trial():
                renew(state)
                return state.promised.get(name)


def _check_queues(queues: TenantQueues) -> None:
    if len(queues):
        raise ValueError(f"queues: must be empty, and hold {counted(len(queues), 'job')}")
    if queues.backfills:
        raise ValueError(
            "queues: use Scheduler(backfill=...), and blocking='fifo' or 'best-effort'"
        )
