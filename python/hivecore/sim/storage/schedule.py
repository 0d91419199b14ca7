"""Jobs on storage, under the named policies and under any scheduler."""

from collections.abc import Sequence

import numpy as np

from hivecore._arguments import as_choice, as_instance
from hivecore._sim import FluidClock
from hivecore.queues import TenantQueues
from hivecore.scheduler import Data, Job, Role, Scheduler, StoragePool
from hivecore.sim.simulate import simulate
from hivecore.sim.storage.caches import Allotted, SharedLru
from hivecore.sim.storage.history import Recorder
from hivecore.sim.storage.orders import Fifo
from hivecore.sim.storage.ranked import Ranked, StorageOutcome
from hivecore.sim.storage.reading import Reading
from hivecore.sim.storage.rules import Rules, rules_of, rules_of_pool
from hivecore.sim.storage.workload import MB, StorageCluster, StorageWorkload
from hivecore.sim.worlds import World
from hivecore.topology import NetworkTopology

__all__ = ["reading_from", "run_through", "schedule_storage"]

_SHRINKS = ("random", "read_first")


def schedule_storage(
    work: StorageWorkload,
    cluster: StorageCluster,
    policy: str | Rules = "fifo",
    storage: str = "silod",
    *,
    warm_up: bool = False,
    shrink: str = "random",
    lazy: bool = True,
    record: bool = False,
) -> StorageOutcome:
    """Return what becomes of jobs that share GPUs, cache and remote IO, by the fluid model.

    :param work: the jobs.
    :param cluster: what they share.
    :param policy: one of `GPU_POLICIES`, or your own rules.
    :param storage: one of `STORAGE_SYSTEMS`, if `policy` is a name.
    :param warm_up: whether spare remote IO fills the caches of jobs that run or wait. The cache of
        "alluxio" holds only what jobs have read; nor do ``shrink`` and ``lazy`` change it.
    :param shrink: what a cache gives up first: "random" items, or with "read_first" those that all
        of its jobs have read in their epochs.
    :param lazy: whether a cache above its quota keeps its contents until the room is needed.
    :param record: whether the outcome has a history.
    :raises ValueError: a name is unknown, a job is larger than the cluster, or no job makes
        progress.

    See `reading` and `hivecore.reference.sim` for the model. Deterministic. Ties: the job that came
    first, and its dataset. Cost: see `Reading`.

    A job of three epochs over 100 GB with 50 GB of cache first reads at 40 MB/s, and at 80 MB/s
    from its second epoch on:

    >>> import numpy as np
    >>> from hivecore.traces import StorageTrace
    >>> trace = StorageTrace(*map(np.array, (["a"], ["x"], [100.0], [300.0], [114.0], [1], [0.0])))
    >>> cluster = StorageCluster(gpus=1, cache_gb=50.0, bandwidth_mbps=40.0)
    >>> schedule_storage(StorageWorkload.of(trace), cluster).end.tolist()
    [5000.0]
    """
    as_instance(work, "work", StorageWorkload)
    as_choice(shrink, "shrink", _SHRINKS)
    rules = rules_of(policy, storage, warm_up) if isinstance(policy, str) else policy
    contents = _amounts(work, cluster, rules, shrink, lazy)
    return run_through(work, cluster, rules, contents, record)


def reading_from(
    pool: StoragePool,
    jobs: Sequence[Job],
    seconds: Sequence[float],
    scheduler: Scheduler | None = None,
    gpus: World | None = None,
) -> Reading:
    """Return the progress of jobs that read through a cache, for `hivecore.sim.simulate`.

    :param pool: the cache, the remote IO and the datasets that the jobs share.
    :param jobs: all that may run, in order of submission. Jobs without `Job.data` never wait for
        data.
    :param seconds: duration of each at full speed.
    :param scheduler: has this pool as its storage and allots the cache, given what is cached;
        remote IO follows the objective, given what jobs find cached in their epochs. With ``None``
        nothing is allotted: all jobs share an LRU cache and a fair network.
    :param gpus: how fast jobs run that never wait for data; by default at full speed.
    :raises ValueError: a job reads an unknown dataset, or the pool has no remote IO.

    Stopped jobs start over. Remote IO in `SetRemoteIO` assumes full caches; while caches fill, jobs
    get other amounts. See `schedule_storage` for the model.

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Data, Job, Scheduler, StoragePool
    >>> from hivecore.sim import simulate
    >>> jobs = [Job("first", "a", 8, data=Data("images", 100.0))]  # 60 GB in 600 seconds
    >>> quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    >>> pool = StoragePool({"images": 20.0}, cache_gb=10.0, bandwidth_mbps=25.0)
    >>> scheduler = Scheduler(quotas=quotas, storage=pool, immediate=True)
    >>> progress = reading_from(pool, jobs, [600], scheduler)
    >>> end = simulate(scheduler, jobs, [0], [600], progress=progress).end
    >>> end.round(3).tolist()  # 800 s, then 400 s, and 400 s
    [1600.0]
    """
    as_instance(pool, "pool", StoragePool)
    if pool.bandwidth_mbps is None:
        raise ValueError("pool: bandwidth_mbps is missing, without which no job can read")
    work = StorageWorkload.of_jobs(jobs, seconds, dict(pool.datasets_gb))
    cluster = StorageCluster(max(len(work), 1), pool.cache_gb, pool.bandwidth_mbps)
    unmanaged = Rules(Fifo(), SharedLru(), "maxmin_io")
    rules = unmanaged if scheduler is None else rules_of_pool(pool)
    return Reading(work, cluster, rules, _amounts(work, cluster, rules), scheduler, gpus)


def _amounts(
    work: StorageWorkload,
    cluster: StorageCluster,
    rules: Rules,
    shrink: str = "random",
    lazy: bool = True,
) -> FluidClock:
    """Return empty caches as amounts: per dataset, per job, or one LRU cache."""
    size, cache_of = work.size_mb, work.dataset
    if rules.cache.private:
        size, cache_of = work.size_mb[work.dataset], np.arange(len(work))
    shared = cache_of, work.total_mb, cluster.cache_mb, cluster.bandwidth_mbps
    if rules.cache.lru and cluster.cache_mb:
        return FluidClock(size, *shared, io_mode=rules.io_mode, policy="lru")
    return FluidClock(
        size,
        *shared,
        io_mode=rules.io_mode,
        shrink=shrink,
        lazy=lazy,
        private=rules.cache.private,
        warm_up=rules.warm_up,
    )


def run_through(
    work: StorageWorkload, cluster: StorageCluster, rules: Rules, contents: FluidClock, record: bool
) -> StorageOutcome:
    """Return what becomes of jobs that read through these caches.

    :param work: the jobs.
    :param cluster: what they share.
    :param rules: what they get.
    :param contents: empty caches.
    :param record: whether the outcome has a history.
    :raises ValueError: a job is larger than the cluster, or no job makes progress.
    """
    largest = int(work.gpus.max(initial=0))
    if largest > cluster.gpus:
        raise ValueError(f"a job of {largest} GPUs does not fit on {cluster.gpus} GPUs")
    network, pool = None, None
    if not rules.order.takes_turns:  # otherwise no job waits for GPUs
        network = NetworkTopology([], {"all": {}})
        network.set_free("all", {"gpu": cluster.gpus})
    if isinstance(rules.cache, Allotted):
        pool = rules.cache.pool(work, cluster)
    queues = TenantQueues(blocking="fifo")
    scheduler = Scheduler(queues=queues, topology=network, storage=pool, immediate=True)
    recorder = Recorder() if record else None
    progress = Ranked(work, cluster, rules, contents, scheduler, recorder=recorder)
    submit, ones = work.submit.tolist(), [1.0] * len(work)
    jobs = _jobs(work, has_data=pool is not None)
    simulate(scheduler, jobs, submit, ones, order=progress.order, progress=progress)
    return progress.outcome()


def _jobs(work: StorageWorkload, has_data: bool) -> list[Job]:
    """Return the jobs for the scheduler, named by number."""
    roles = {gpus: (Role("worker", 1, gpus=gpus),) for gpus in set(work.gpus.tolist())}
    columns = work.gpus, work.dataset, work.rate_mbps, work.total_mb / MB
    return [
        Job(
            str(job),
            "all",
            roles[gpus],
            data=Data(work.names[code], rate, total) if has_data else None,
        )
        for job, (gpus, code, rate, total) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        )
    ]
