"""All parts composed: events in, actions out."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import IO, Self

from hivecore._arguments import as_bool, as_int, as_positive, as_tuple
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
from hivecore.scheduler.ledger.state import LATEST, State
from hivecore.scheduler.log.writer import LogWriter
from hivecore.scheduler.moves.fragments import Fragments
from hivecore.scheduler.moves.plan import Goal, MoveCost, MovePlan, plan_moves
from hivecore.scheduler.rounds.round import decide
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages.claims import as_mode
from hivecore.scheduler.stages.constraints import check_counted, check_quotas
from hivecore.scheduler.stages.devices import host_resources
from hivecore.scheduler.stages.storage import StoragePool
from hivecore.scheduler.stages.transaction import Stages
from hivecore.topology import NetworkTopology

__all__ = ["Scheduler"]


class Scheduler(JobOrders):
    """Queues, quotas, cells or a network, and devices, that decide together; each is optional.

    :param queues: choose the next job; ``None``: by priority, then by arrival. They count time in
        microseconds.
    :param quotas: limit resources by tenant or `Job.quota`; GPUs are "gpu".
    :param cells: choose the GPUs of a job by the guarantees of its tenant.
    :param topology: chooses the nodes of its pods, near to each other; not together with ``cells``.
    :param devices: choose the devices of each pod on its node. What the nodes have of "cpu" and
        "memory" as a device "host" limits `Role.resources` of these names, if no network does.
    :param claims: allocate Kubernetes' device claims, `Role.claims`: on the nodes that the other
        parts choose, else on nodes that can serve them. Ids of shares follow from names of claims.
    :param claims_mode: which devices claims get, as of `DraCluster.allocate`: with "fewest blocks"
        they begin as few cards as possible.
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
    :param backfill: to how many waiting jobs of each queue a start is promised, 0 to 1000. A job of
        the same or a lower priority starts before them only if they still start in time: 1 is EASY
        backfilling, more are conservative. It needs estimates, `Job.run_time`; see `promised`.
    :param eviction_limits: how often, and how soon, the jobs of quotas may be evicted.
    :param fragments: of sets with as many victims, equally important, that set is chosen after
        which the fewest idle GPUs are fragments; ``None``: that which loses few GPU-seconds.
    :param growing: whether nodes may be added and totals of quotas may grow: a job that needs more
        than there is waits instead of being rejected, as where a cluster is empty at first.
    :param tries: how often placement is asked for a job at most, if devices refuse.
    :param log: where to write all events and decisions: a path without a file, or a binary file
        that is open for writing; see `write_log`, `replay` and `recover`.
    :raises ValueError: ``cells`` and ``topology`` are both given, or ``lending`` without ``cells``;
        ``queues`` hold jobs or backfill; a network counts nothing, or quotas limit a resource that
        no job can request, such as "gpus"; ``claims_mode`` is unknown, or given without ``claims``;
        or a number is out of range.
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
                limits=_by_quota(eviction_limits),
                fragments=fragments,
            )
        )
        if log is not None:
            self._begin(LogWriter(log))

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

    def places(self, job: Job) -> bool:
        """Whether some part chooses nodes for a job's pods; else `submit` refuses ``where.nodes``.

        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> Scheduler().places(Job("train", "vision", [Role("worker")]))
        False
        """
        with self._lock:
            return self._state.stages.places(job)

    def spreads(self, job: Job) -> bool:
        """Whether some part limits the pods of each node where roles of a job have a limit; else
        `submit` refuses ``per_node``.

        >>> from hivecore.scheduler import Job, Role, Scheduler
        >>> Scheduler().spreads(Job("train", "vision", [Role("worker", 2, per_node=1)]))
        False
        """
        with self._lock:
            return self._state.stages.spreads(job)

    def explain(self, job: str) -> JobExplanation:
        """Why a job waits, and the changes with which it would start now; nothing changes.

        :raises KeyError: there is no such job.

        Each change is tried on the scheduler itself and undone, in O(changes).
        """
        with self._lock:
            return explain(self._state, self._live(job))

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
        """The cheapest moves found so that nodes get free or a job fits; nothing changes.

        :param goal: `FreeNodes`, `FreeDomain` or `Fit`.
        :param cost: what to minimize: the number of jobs that move, or the GPU-seconds since they
            started, which they lose if they save nothing.
        :param most_tries: the number of sets of jobs to try at most, 1 to 1,000,000.
        :raises KeyError: there is no such node, layer, domain or job.
        :raises ValueError: the job does not wait in a queue; an argument is out of range.
        :raises TypeError: an argument is of a wrong type.

        Jobs that are not ``preemptible``, have to stop, share GPUs or run on idle cells stay where
        they are. A job that moves keeps its quota; cells, network and devices accept its new place.
        With `Fit` the job can start after the moves, if no job in front of it in the queue takes
        the room. Each move is feasible when its turn comes.

        The lower bound counts GPUs, slots and other resources by node: no plan is cheaper. Sets of
        jobs that are cheaper than the plan are tried as far as ``most_tries`` allows, which raises
        the bound. Preferences of the network, devices other than GPUs, and guarantees of cells may
        make plans more expensive than the bound. Ties: the plan that is found first: first the jobs
        that have to move, then those that make room for a job without a place, by cost, GPUs and
        names. Cost: for each try about two branches and one decision a job, and a pass over the
        pods of all jobs.

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

    def promised(self, job: str) -> float | None:
        """When a waiting job starts at the latest if all estimates are right and nothing else
        happens, in seconds; ``None``: nothing is promised to it. See ``backfill``.

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
            return self._state.promised.get(self._live(job).job.name)


def _by_quota(limits: Iterable[EvictionLimit]) -> dict[str, EvictionLimit]:
    """The limits by quota.

    :raises ValueError: a quota has two.
    """
    given = as_tuple(limits, "eviction_limits")
    for one in given:
        if not isinstance(one, EvictionLimit):
            kind = type(one).__name__
            raise TypeError(f"eviction_limits must hold EvictionLimits, not {kind}")
    by_quota = {one.quota: one for one in given}
    if len(by_quota) < len(given):
        raise ValueError("eviction_limits: a quota has two")
    return by_quota


def _check_queues(queues: TenantQueues) -> None:
    if len(queues):
        raise ValueError(f"queues: hold {counted(len(queues), 'job')} already, and must be empty")
    if queues.backfills:
        raise ValueError(
            "queues: use Scheduler(backfill=...), and blocking='fifo' or 'best-effort'"
        )
