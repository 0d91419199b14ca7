"""Figures per tenant and policy, and findings in plain sentences.

Delays and excess are in seconds. Excess is a job's start minus its start in the private cluster. A
policy may also start jobs earlier, so the mean over all jobs says little about guarantees; excess
is reported for the jobs that start later.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from hivecore._stateful import counted
from hivecore.sim import columns
from hivecore.sim.figures import percentile
from hivecore.sim.replay import TOLERANCE, Replay
from hivecore.sim.workload import GPUS_PER_NODE, Workload

__all__ = ["Figures", "figures_of", "findings", "summarize"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a tenant, or all tenants together, got from a policy.

    :param tenant: its name, or None for all tenants.
    :param nodes: owned nodes of 8 GPUs.
    :param jobs: replayed jobs; without any, all figures but ``nodes`` are 0.
    :param mean_delay: mean seconds from submission to start.
    :param p99_delay: the 99th percentile of these seconds, interpolated linearly.
    :param max_delay: the most of these seconds.
    :param later: jobs that start later than in the private cluster.
    :param mean_excess: by how many seconds these start later, on average; 0 if there are none.
    :param max_excess: by how many seconds one of them starts later at most.
    :param utilisation: mean fraction of the owned GPUs used by the jobs' final runs during
        `Workload.window`; above 1 with borrowed cells.
    """

    tenant: str | None
    nodes: Annotated[int, columns.count()]
    jobs: Annotated[int, columns.count()]
    mean_delay: Annotated[float, columns.time("mean\ndelay")]
    p99_delay: Annotated[float, columns.time("p99\ndelay")]
    max_delay: Annotated[float, columns.time("max\ndelay")]
    later: Annotated[int, columns.count("jobs\nlater")]
    mean_excess: Annotated[float, columns.time("mean\nexcess")]
    max_excess: Annotated[float, columns.time("max\nexcess")]
    utilisation: Annotated[float, columns.share("GPUs\nused")]


def summarize(replay: Replay, policy: str) -> tuple[Figures, ...]:
    """Return the figures of each tenant, then those of all tenants together.

    :param replay: outcome of a replay.
    :param policy: a replayed policy.
    :raises KeyError: the policy was not replayed.

    Cost: O(tenants jobs).

    >>> from hivecore.sim import Workload, replay
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 30], [8, 8])
    >>> everyone = summarize(replay(Workload.of(trace, {"x": 1}), ["quota"]), "quota")[-1]
    >>> everyone.mean_delay, everyone.max_delay, everyone.later
    (30.0, 60.0, 0)
    """
    trace = replay.work.trace
    everyone = np.ones(trace.jobs, dtype=np.bool_)
    figures = [
        _figures(replay, policy, trace.tenant == code, name, replay.work.nodes[code])
        for code, name in enumerate(trace.tenants)
    ]
    return (*figures, _figures(replay, policy, everyone, None, sum(replay.work.nodes)))


def _figures(
    replay: Replay, policy: str, own: npt.NDArray[np.bool_], tenant: str | None, nodes: int
) -> Figures:
    private = replay.runs["private"].start
    start, gpus = replay.runs[policy].start, nodes * GPUS_PER_NODE
    return figures_of(replay.work, start, private, own, tenant, gpus)


def figures_of(
    work: Workload,
    start: npt.NDArray[np.float64],
    private: npt.NDArray[np.float64],
    own: npt.NDArray[np.bool_],
    tenant: str | None,
    gpus: int,
) -> Figures:
    """Return the figures of some jobs, wherever they ran.

    :param work: all jobs.
    :param start: float64[jobs], seconds, start of the completed run.
    :param private: float64[jobs], the same in the private clusters.
    :param own: bool[jobs], which jobs count.
    :param tenant: see `Figures`.
    :param gpus: the GPUs that they had together.

    Cost: O(jobs).
    """
    nodes = gpus // GPUS_PER_NODE
    if not own.any():
        return Figures(tenant, nodes, 0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0)
    trace, window = work.trace, work.window
    delay = (start - trace.submit)[own]
    excess = (start - private)[own]
    excess = excess[excess > TOLERANCE]
    in_window = np.clip(window - start[own], 0.0, trace.duration[own])
    return Figures(
        tenant=tenant,
        nodes=nodes,
        jobs=len(delay),
        mean_delay=float(delay.mean()),
        p99_delay=percentile(delay, 99),
        max_delay=float(delay.max()),
        later=len(excess),
        mean_excess=float(excess.mean()) if len(excess) else 0.0,
        max_excess=float(excess.max()) if len(excess) else 0.0,
        utilisation=float(trace.gpus[own] @ in_window) / (gpus * window),
    )


def findings(replay: Replay) -> list[str]:
    """Return sentences that compare each policy with the private clusters.

    :param replay: outcome of a replay.
    :returns: one for each policy, one for jobs that borrowed idle cells, and one on mean delays.

    >>> from hivecore.sim import Workload, replay
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 30], [8, 8])
    >>> for sentence in findings(replay(Workload.of(trace, {"x": 1}), ["quota"])):
    ...     print(sentence)
    quota starts no job later than its private cluster does (2 jobs compared).
    Mean queueing delay over all jobs: private 0.5 min, quota 0.5 min.
    """
    sentences = []
    for policy, run in replay.runs.items():
        if policy != "private":
            sentences.append(_finding(replay, policy))
        if lent := run.borrowing:
            sentences.append(
                f"Opportunistic jobs did {lent.gpu_hours:,.0f} GPU-hours on idle cells; "
                f"{lent.promotions:,} runs were promoted to their tenant's own cells, "
                f"{lent.preemptions:,} were preempted and lost "
                f"{lent.lost_gpu_hours:,.0f} GPU-hours."
            )
    means = [f"{policy} {replay.delay(policy).mean() / 60:,.1f} min" for policy in replay.runs]
    return [*sentences, f"Mean queueing delay over all jobs: {', '.join(means)}."]


def _finding(replay: Replay, policy: str) -> str:
    *tenants, everyone = summarize(replay, policy)
    if not everyone.later:
        compared = f"{counted(everyone.jobs, 'job')} compared"
        return f"{policy} starts no job later than its private cluster does ({compared})."
    harmed = [
        f"{each.later:,} of {counted(each.jobs, 'job')} of {each.tenant} "
        f"(mean {each.mean_excess / 60:,.0f} min, max {each.max_excess / 60:,.0f} min)"
        for each in sorted(tenants, key=lambda each: -each.later)
        if each.later
    ]
    sentence = (
        f"{policy} starts {everyone.later:,} of {counted(everyone.jobs, 'job')} later than their "
        f"private clusters do: {', '.join(harmed)}."
    )
    if replay.runs[policy].borrowing:
        sentence += (
            " Jobs that ran on idle cells leave their queues earlier, so that a tenant's own cells "
            "are cut up in another way: a job of whole nodes, and those behind it, may wait though "
            "as many of its tenant's GPUs are free, on parts of nodes."
        )
    return sentence
