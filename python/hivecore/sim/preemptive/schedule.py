"""The policies by name."""

from collections.abc import Iterable

from hivecore._arguments import as_instance, as_int
from hivecore._stateful import counted
from hivecore.sim.preemptive.configuration import configure, configure_queue, events_of
from hivecore.sim.preemptive.failures import Failure
from hivecore.sim.preemptive.fifo import Fifo
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.muri import Muri, MuriOptions
from hivecore.sim.preemptive.shortest import Shortest
from hivecore.sim.preemptive.tiresias import Tiresias, of_jobs
from hivecore.sim.preemptive.training import JobOutcome, Policy, Training
from hivecore.sim.simulate import simulate
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["JOB_POLICIES", "schedule"]

_MURI = ("muri-s", "muri-l", "muri-exact-s", "muri-exact-l")
#: First in first out, shortest remaining time and service, Tiresias, the two forms of Muri, and
#: these with the best groups.
JOB_POLICIES = ("fifo", "srtf", "srsf", "tiresias", *_MURI)
_DEFAULTS = MuriOptions()
_MOST_NODES = 100_000


def schedule(
    jobs: Jobs,
    policy: str,
    nodes: int = 8,
    muri: MuriOptions = _DEFAULTS,
    failures: Iterable[Failure] = (),
    report_interval: float = 360.0,
    record: bool = False,
) -> JobOutcome:
    """Return what becomes of training jobs on a cluster under a policy.

    :param jobs: the jobs.
    :param policy: one of `JOB_POLICIES`.
    :param nodes: of 8 GPUs each.
    :param muri: options of the policies whose names begin with "muri".
    :param failures: `JobFailure` and `NodeFailure` in order of time, possibly endless.
    :param report_interval: seconds, positive; the default is that of the Muri authors' testbed.
    :param record: whether the outcome has a history.
    :raises ValueError: the policy is unknown, a job is larger than the cluster, a failure is
        impossible, or failures are so frequent that no job makes progress. "tiresias" counts GPUs
        without nodes: it accepts no `NodeFailure` and records nothing.

    A job failure stops the job and all jobs that share its GPUs; a node failure stops all jobs on
    the node. They lose the work since their last report: jobs report whenever the policy chooses,
    and every `report_interval` between choices. Then they wait like other jobs, with the priority
    of their remaining work, and may run again at once. Their time on GPUs counts in full, also as
    attained service. The policy chooses again at failures of running jobs and nodes, and when nodes
    return. A failure has no effect on a job that does not run, or that ends at that instant.

    If all sizes are powers of two, jobs run as if each event placed all of them again on the first
    nodes that can hold them; but they stay where they are if that harms no other job, and node
    failures hit them there. Under "fifo", jobs stay on the first nodes that can hold them when they
    start; only failures cause restarts, and only of the jobs that they stop.

    Deterministic. Cost: see `simulate` and `Training`; for Muri also the matchings at each event.

    >>> jobs = Jobs([0.0, 10.0], [8, 8], [300.0, 20.0], [1.0, 1.0],
    ...             [(0.5, 0.25, 0.25)] * 2, [300.0, 20.0], [0.0, 0.0])
    >>> schedule(jobs, "fifo", nodes=1).end, schedule(jobs, "srtf", nodes=1).end
    ([300.0, 320.0], [320.0, 30.0])
    >>> from hivecore.sim.preemptive import JobFailure
    >>> failures = [JobFailure(time=290.0, job=0)]  # after reports at 0, at 10 and at 210
    >>> schedule(jobs, "fifo", nodes=1, failures=failures, report_interval=200.0).end
    [380.0, 400.0]
    """
    largest = max(as_instance(jobs, "jobs", Jobs).gpus, default=0)
    as_int(nodes, "nodes", 1, _MOST_NODES)
    if largest > GPUS_PER_NODE * nodes:
        raise ValueError(
            f"a job of {largest} GPUs does not fit on {counted(nodes, 'node')} of 8 GPUs"
        )
    if not report_interval > 0:
        raise ValueError(f"report_interval must be positive, not {report_interval}")
    ones = [1.0] * len(jobs)
    if policy == "fifo":
        queue = Fifo(jobs, nodes, failures, report_interval, record)
        simulate(*configure_queue(jobs, nodes), jobs.submit, ones, progress=queue)
        return queue.outcome()
    counts_only = policy == "tiresias"
    if counts_only:
        if record:
            raise ValueError("tiresias places no job on a node, so that nothing can be recorded")
        failures = of_jobs(failures)
    chosen = _policy(jobs, policy, nodes, muri)
    submit = events_of(jobs.submit) if chosen.same_event or not counts_only else jobs.submit
    progress = Training(jobs, chosen, failures, report_interval, record)
    scheduler, requests = configure(jobs, nodes, by_node=not counts_only, shares=policy in _MURI)
    simulate(scheduler, requests, submit, ones, order=progress.order, progress=progress)
    return progress.outcome()


def _policy(jobs: Jobs, policy: str, nodes: int, muri: MuriOptions) -> Policy:
    if policy in ("srtf", "srsf"):
        return Shortest(jobs, nodes, by_service=policy == "srsf")
    if policy in _MURI:
        return Muri(jobs, nodes, policy.endswith("l"), muri, exact="exact" in policy)
    if policy == "tiresias":
        return Tiresias(jobs, GPUS_PER_NODE * nodes)
    raise ValueError(f"policy must be one of {', '.join(JOB_POLICIES)}, not {policy!r}")
