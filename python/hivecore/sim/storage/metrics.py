"""What an outcome comes to: completion times, use of GPUs and of remote storage, fairness."""

from dataclasses import dataclass

import numpy as np

from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.workload import StorageCluster, StorageWorkload

__all__ = ["StorageFigures", "storage_figures"]

_MB_PER_TB = 1e6


@dataclass(frozen=True, slots=True)
class StorageFigures:
    """Figures over all jobs, times in seconds. A job's completion time counts from submission.

    :param mean_completion: mean completion time.
    :param median_completion: of the sorted completion times the one at place floor(jobs / 2).
    :param p99_completion: likewise, at place floor(0.99 jobs), from 0.
    :param makespan: end of the last job, counted from time 0.
    :param rate_mbps: MB/s that all jobs read together, on average until the last one ended.
    :param busy: share of the GPU time until then in which GPUs compute and do not wait for data.
    :param remote_tb: TB of 10^6 MB from remote storage, warm-ups included.
    :param hits: share of what jobs read that did not come from there. Below 0 if warm-ups brought
        more than was ever read.
    :param fairness_min: of all jobs the least ratio of what a job read to what it would have read
        in the same time with an equal share of GPUs, cache and remote IO.
    :param fairness_mean: the mean of that ratio.
    :param events: instants at which rates changed.
    :param decisions: instants at which the scheduler decided.
    """

    mean_completion: float
    median_completion: float
    p99_completion: float
    makespan: float
    rate_mbps: float
    busy: float
    remote_tb: float
    hits: float
    fairness_min: float
    fairness_mean: float
    events: int
    decisions: int


def storage_figures(
    work: StorageWorkload, cluster: StorageCluster, outcome: StorageOutcome
) -> StorageFigures:
    """Return the figures of an outcome.

    :param work: the jobs.
    :param cluster: what they shared.
    :param outcome: of these jobs on it.

    Equal shares are those of the jobs that run or wait at each moment, see
    `Situation.equal_rates`. Cost: O(jobs log jobs).
    """
    times = np.sort(outcome.end - work.submit)
    makespan = float(outcome.end.max())
    # A job may be too short for the clock: then it would have read nothing.
    ones = np.ones_like(work.total_mb)
    fairness = np.divide(work.total_mb, outcome.fair_mb, out=ones, where=outcome.fair_mb > 0)
    return StorageFigures(
        mean_completion=float(times.mean()),
        median_completion=float(times[len(times) // 2]),
        p99_completion=float(times[int(0.99 * len(times))]),
        makespan=makespan,
        rate_mbps=outcome.read_mb / makespan,
        busy=outcome.busy / (cluster.gpus * makespan),
        remote_tb=outcome.remote_mb / _MB_PER_TB,
        hits=1.0 - outcome.remote_mb / outcome.read_mb,
        fairness_min=float(fairness.min()),
        fairness_mean=float(fairness.mean()),
        events=outcome.events,
        decisions=outcome.decisions,
    )
