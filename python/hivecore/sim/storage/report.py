"""Figures of jobs that share storage: completion times, use of GPUs and remote IO, fairness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hivecore.sim import columns
from hivecore.sim.figures import mean, percentile
from hivecore.sim.report import Report
from hivecore.sim.storage.pictures import storage_pictures
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.workload import StorageCluster, StorageWorkload

__all__ = ["StorageFigures", "storage_figures", "storage_report"]

_MB_PER_TB = 1e6


@dataclass(frozen=True, slots=True)
class StorageFigures:
    """Figures over all jobs, times in seconds. Completion times count from submission.

    :param mean_completion: mean completion time.
    :param median_completion: their median.
    :param p99_completion: their 99th percentile; both are interpolated linearly.
    :param makespan: end of the last job, from time 0.
    :param rate_mbps: mean MB/s that all jobs read together, until the last one ended.
    :param busy: fraction of the GPU time until then in which GPUs compute.
    :param remote_tb: TB of 10^6 MB from remote storage, including warm-ups.
    :param hits: fraction of the reads that did not come from there; negative if warm-ups loaded
        more than was read.
    :param fairness_min: the least ratio, over jobs, of what a job read to what it would have read
        in the same time with an equal share of GPUs, cache and remote IO.
    :param fairness_mean: the mean of that ratio.
    :param events: instants at which rates changed.
    :param decisions: instants at which the scheduler decided.
    """

    mean_completion: Annotated[float, columns.time("mean\ntime", show=columns.hours)]
    median_completion: Annotated[float, columns.time("median\ntime", show=columns.hours)]
    p99_completion: Annotated[float, columns.time("p99\ntime", show=columns.hours)]
    makespan: Annotated[float, columns.time("make-\nspan", show=columns.hours)]
    rate_mbps: Annotated[float, columns.Column("read\nMB/s", "{:,.0f}")]
    busy: Annotated[float, columns.share("GPUs\nbusy")]
    remote_tb: Annotated[float, columns.Column("remote\nTB", columns.short)]
    hits: Annotated[float, columns.share("hits")]
    fairness_min: Annotated[float, columns.Column("least\nfair", "{:.2f}")]
    fairness_mean: Annotated[float, columns.Column("mean\nfair", "{:.2f}")]
    events: Annotated[int, columns.count()]
    decisions: Annotated[int, columns.count()]


def storage_figures(
    work: StorageWorkload, cluster: StorageCluster, outcome: StorageOutcome
) -> StorageFigures:
    """Return the figures of an outcome.

    :param work: the jobs.
    :param cluster: what they shared.
    :param outcome: of these jobs on it.

    Equal shares are those of the jobs that run or wait at each moment, see `Situation.equal_rates`.
    Cost: O(jobs log jobs).
    """
    times = np.sort(outcome.end - work.submit)  # so that sums do not depend on the order of jobs
    makespan = float(outcome.end.max())
    # A job shorter than the clock's resolution would have read nothing.
    ones = np.ones_like(work.total_mb)
    fairness = np.divide(work.total_mb, outcome.fair_mb, out=ones, where=outcome.fair_mb > 0)
    return StorageFigures(
        mean_completion=mean(times),
        median_completion=percentile(times, 50),
        p99_completion=percentile(times, 99),
        makespan=makespan,
        rate_mbps=outcome.read_mb / makespan,
        busy=outcome.busy / (cluster.gpus * makespan),
        remote_tb=outcome.remote_mb / _MB_PER_TB,
        hits=1.0 - outcome.remote_mb / outcome.read_mb,
        fairness_min=float(fairness.min()),
        fairness_mean=mean(fairness),
        events=outcome.events,
        decisions=outcome.decisions,
    )


def storage_report(
    work: StorageWorkload,
    cluster: StorageCluster,
    outcomes: Mapping[tuple[str, str], StorageOutcome],
    findings: Sequence[str] = (),
) -> Report:
    """Return a report with a row per GPU policy and storage system.

    Recorded outcomes have pictures of their history.
    """
    figures = {names: storage_figures(work, cluster, each) for names, each in outcomes.items()}
    policies: dict[str, dict[str, Any]] = {}
    for (policy, system), each in figures.items():
        policies.setdefault(policy, {})[system] = columns.as_json(each)
    return Report(
        "Jobs that share storage, times in hours",
        [columns.label("policy", once=True), columns.label("storage"), *columns.of(StorageFigures)],
        [(*names, *columns.values(each)) for names, each in figures.items()],
        [
            "time: from submission to end; busy: computing, not waiting for data",
            "fair: what a job read, over what it would have read with an equal share",
        ],
        findings,
        "hivecore.storage/2",
        {"policies": policies},
        storage_pictures(work, cluster, outcomes),
    )
