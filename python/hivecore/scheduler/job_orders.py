"""Orders of jobs that a caller chooses, and what it observes of storage."""

from collections.abc import Mapping, Sequence

from hivecore._arguments import as_positive
from hivecore.scheduler.job_events import JobEvents
from hivecore.scheduler.ledger.state import LATEST
from hivecore.scheduler.moves.fragments import Defragmentation, Fragments
from hivecore.scheduler.orders.ordering import Order, as_order
from hivecore.scheduler.orders.running import end_order
from hivecore.scheduler.plain import plain_record

__all__ = ["JobOrders"]


class JobOrders(JobEvents):
    """A scheduler that runs jobs in an order of the caller's, or groups them again."""

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
        """Let the next `decide` move running jobs, so that more idle GPUs are of use.

        :param goal: which idle GPUs are.
        :param seconds: how long they are to be of use: each GPU more is worth so many GPU-seconds,
            and jobs move only if that is more than their moves cost.
        :param restart_cost: seconds that a job that moves needs to stop and to start again; they
            cost its GPUs.
        :param saves: whether jobs save their work before they stop; otherwise the time since they
            started costs their GPUs as well.
        :param most_moves: how many jobs may move.
        :param most_gpu_seconds: what all moves may cost; ``None``: any amount.
        :raises ValueError: a number is out of range, no part chooses nodes, jobs run in an order of
            `reorder`, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs move whole, and those that `plan_moves` moves. All moves of the `decide` happen
        together: all these jobs stop before the first of them starts again. Moves come before the
        starts that follow from them, which are to wait for them. Quotas count a job as before;
        cells give a guaranteed job guaranteed cells; nobody is evicted. A job that moved counts as
        started now. Sets of jobs of one node are tried, at most 512 for each set that moves; a plan
        that needs jobs of two nodes to move before anything is gained is not found.

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
                    self._state.defragmentation = None
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
