"""Orders and regroupings that the caller requests, and observations of storage."""

from collections.abc import Mapping, Sequence

from hivecore._arguments import LONGEST, as_positive
from hivecore.scheduler.job_events import JobEvents
from hivecore.scheduler.moves.fragments import Defragmentation, Fragments
from hivecore.scheduler.orders.ordering import Order, as_order
from hivecore.scheduler.orders.running import end_order
from hivecore.scheduler.plain import plain_record

__all__ = ["JobOrders"]


class JobOrders(JobEvents):
    """The calls of `Scheduler` that order, regroup or defragment jobs, and report on storage."""

    def regroup(self, now: float, seconds: float) -> None:
        """Let the next `decide` regroup the jobs that share GPUs, by moves.

        :param seconds: the expected lifetime of the new groups. Within it they must gain more than
            the restarts cost, see `Sharing`.
        :raises ValueError: there is no sharing, ``seconds`` is not positive, jobs run in an order
            of `reorder`, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The group of a reserved job that starts in this `decide` stays; the next call may change it.
        """
        lasting = as_positive(seconds, "seconds", LONGEST)
        with self._lock:
            moment = self._state.moment(now)
            if not self._state.stages.by_stages:
                raise ValueError("regroup: the scheduler has no sharing")
            if self._state.order is not None:
                raise ValueError("regroup: an order says which jobs share GPUs, see reorder")
            with self._state.transaction():
                self._state.happens(moment)
                self._state.regroup_for = lasting
            self._note("regroup", seconds=lasting)

    def defragment(
        self,
        now: float,
        goal: Fragments,
        *,
        seconds: float,
        restart_cost: float = 60.0,
        saves: bool = True,
        most_moves: int = 8,
        most_gpu_seconds: float | None = None,
    ) -> None:
        """Let the next `decide` move running jobs, so that more idle GPUs are usable.

        :param goal: which idle GPUs are usable.
        :param seconds: how long they will be usable. Each further GPU is worth so many GPU-seconds;
            jobs move only if that exceeds the cost of their moves.
        :param restart_cost: seconds for which the GPUs of a job are lost when it moves.
        :param saves: jobs save their work before they stop. Otherwise the time since they started
            is lost, too.
        :param most_moves: the most jobs that may move.
        :param most_gpu_seconds: the highest cost of all moves; ``None``: no limit.
        :raises ValueError: a number is out of range, no part chooses nodes, jobs run in an order of
            `reorder`, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        All moves of a `decide` happen together: stop all these jobs, then start them, then carry
        out the starts that follow. The jobs that `plan_moves` could move may move, but not those
        that start in this `decide`, or get failed pods back: they may move in the next call. Quotas
        count them as before, guaranteed jobs keep guaranteed cells, and no job is evicted. A moved
        job counts as started now. At most 512 sets are tried for each set that moves, each with
        jobs of one node.

        >>> from hivecore.devices import DeviceCluster, NodeDevices
        >>> from hivecore.scheduler import Fragments, Job, Scheduler
        >>> node = NodeDevices.uniform(gpus=8)
        >>> scheduler = Scheduler(devices=DeviceCluster({"n1": node, "n2": node}))
        >>> for name in ("a", "b", "c"):
        ...     scheduler.submit(Job(name, "vision", 4), now=0.0)
        >>> [action.pods[0].node for action in scheduler.decide(now=0.0)]
        ['n1', 'n1', 'n2']
        >>> scheduler.finish("a", now=60.0)
        >>> scheduler.submit(Job("whole", "vision", 8), now=60.0)
        >>> scheduler.defragment(60.0, Fragments(), seconds=3600.0)
        >>> for action in scheduler.decide(now=60.0):
        ...     print(type(action).__name__, action.job, action.pods[0].node)
        Move b n2
        Start whole n1
        """
        terms = Defragmentation(
            goal=goal,
            seconds=seconds,
            restart_cost=restart_cost,
            saves=saves,
            most_moves=most_moves,
            most_gpu_seconds=most_gpu_seconds,
        )
        with self._lock:
            moment = self._state.moment(now)
            if not self._state.stages.nodes():
                raise ValueError("defragment: no part chooses nodes")
            if self._state.order is not None:
                raise ValueError("defragment: an order says which jobs run, see reorder")
            with self._state.transaction():
                self._state.happens(moment)
                self._state.defragmentation = terms
            self._note("defragment", **(plain_record(terms) | {"goal": plain_record(goal)}))

    def reorder(self, order: Sequence[str | Sequence[str]], now: float) -> None:
        """Run jobs in this order instead of that of the queues, until the next call.

        :param order: names of jobs, the first to run first. Jobs in a nested sequence, as in
            ``["a", ("b", "c")]``, share GPUs. Empty: the queues choose again.
        :raises KeyError: there is no such job.
        :raises ValueError: a job is named twice, or starts together with others; jobs cannot share
            GPUs, see `Sharing`; idle cells are lent; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        For callers that rank jobs by attained or remaining service (Tiresias, SRTF), or group them
        (Muri). Each `decide` runs each job in turn that fits beside the jobs before it, and
        preempts running jobs that no longer fit. A job moves only if otherwise it, or an earlier
        job, would not run.

        Jobs that are not named do not run; but running jobs that are not preemptible, wait for more
        pods, or start together with others are not stopped. A job starts with its fewest pods until
        the order ends. Quotas still count. Unless victims stop at once, no job starts until all
        have stopped. `decide` ignores ``most``. A second `decide` may start more jobs, as cells and
        quotas depend on which jobs have left.

        Cost: O(named jobs), here and in each `decide`, and the parts' cost of jobs that start, stop
        or move.

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
        entries = as_order(order)
        with self._lock:
            moment = self._state.moment(now)
            if self._state.lending is not None:
                raise ValueError("order: cannot be combined with lending")
            for names in entries:
                for name in names:
                    if name in self._state.jobs and self._state.jobs[name].job.together:
                        raise ValueError(f"order: {name!r} starts together with other jobs")
                if len(names) > 1:
                    self._check_sharers(names)
                elif names[0] not in self:
                    raise KeyError(f"order: there is no job {names[0]!r}")
            with self._state.transaction():
                self._state.happens(moment)
                if entries:
                    self._state.regroup_for = 0.0
                    self._state.defragmentation = None
                    self._state.order = Order(entries, self._state.jobs)
                elif self._state.order is not None:
                    end_order(self._state)
            if self._log is not None:
                self._note(
                    "reorder", order=[names[0] if len(names) == 1 else names for names in entries]
                )

    def _check_sharers(self, names: tuple[str, ...]) -> None:
        if not self._state.stages.by_stages:
            raise ValueError("order: the scheduler has no sharing")
        reason = self._state.stages.unlike([self._live(name, "order").job for name in names])
        if reason:
            raise ValueError(f"order: {', '.join(map(repr, names))} {reason}")

    def reading_order(self) -> list[str]:
        """The jobs that read data, the shortest first, as an argument for `reorder`.

        :raises ValueError: there is no storage, or it does not allocate remote IO.

        The first job has the least time left, at the rate that earlier jobs' use of cache and
        remote IO allows. What a job has read is as reported to `observe`, or as estimated for the
        objective of the `StoragePool`. Jobs that read nothing, start together with others, or are
        reserved are left out. Ties: by arrival. Cost: one `hivecore.storage.allocate_storage` for
        all jobs. Source: SiloD (EuroSys'23).

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
        """For each job that reads data, the fraction of time with GPUs that gives all equal
        progress: max-min fairness, given the storage.

        :param gpus: GPUs of the cluster.
        :returns: the fractions by job in order of arrival, for the jobs of `reading_order`.
        :raises ValueError: there is no storage, it does not allocate remote IO, or ``gpus`` is not
            positive.

        Progress is relative to an equal share of GPUs, cache and remote IO. To let jobs take turns,
        credit each job with its fraction, charge running jobs, and pass the jobs with the highest
        credit first to `reorder`, as below. Cost: one `hivecore.storage.allocate_storage`. Source:
        SiloD (EuroSys'23); Gavel (OSDI'20), with rounds of six minutes.

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
        number = as_positive(gpus, "gpus", LONGEST)
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
        """Report the state of caches and the progress of jobs, for the next allocation of storage.

        :param cached_gb: by dataset, the GB in the cache.
        :param hit_gb: by job, the GB of its dataset that it finds cached in its current epoch, if
            that is less than all cached data: SiloD's effective cache.
        :param read_gb: by job, the GB that it has read of `Data.total_gb`.
        :param rate_mbps: by job, the MB/s that its GPUs consume now if they never wait, if that
            differs from `Data.rate_mbps`, for instance while it shares GPUs.
        :raises KeyError: there is no such dataset or job.
        :raises ValueError: a number is out of range, a job reads nothing, there is no storage, or
            the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Values that are not named stay; a dataset without a report counts as cached as allocated. A
        job that stops or ends loses its reports. Cost: O(names), or O(jobs that read) with an
        objective that depends on progress.

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
            reports = {field: amounts for field, amounts in observed._asdict().items() if amounts}
            self._note("observe", **reports)
