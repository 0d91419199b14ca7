"""The policies by name."""

from hivecore.sim.preemptive.events import Outcome, run
from hivecore.sim.preemptive.fifo import run_fifo
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.muri import Muri, MuriOptions
from hivecore.sim.preemptive.shortest import Shortest
from hivecore.sim.preemptive.tiresias import run_tiresias
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["JOB_POLICIES", "schedule"]

#: First in first out, shortest remaining time and service, Tiresias, and the two forms of Muri.
JOB_POLICIES = ("fifo", "srtf", "srsf", "tiresias", "muri-s", "muri-l")
_DEFAULTS = MuriOptions()


def schedule(jobs: Jobs, policy: str, nodes: int = 8, muri: MuriOptions = _DEFAULTS) -> Outcome:
    """Return what becomes of training jobs on a cluster under a policy.

    :param jobs: the jobs.
    :param policy: a name among `JOB_POLICIES`.
    :param nodes: of 8 GPUs each.
    :param muri: options of "muri-s" and "muri-l".
    :raises ValueError: an unknown policy, or a job that is larger than the cluster.

    Deterministic. Cost: see `events.run`; for Muri also the matchings at each event.

    >>> jobs = Jobs([0.0, 10.0], [8, 8], [300.0, 20.0], [1.0, 1.0],
    ...             [(0.5, 0.25, 0.25)] * 2, [300.0, 20.0], [0.0, 0.0])
    >>> schedule(jobs, "fifo", nodes=1).end, schedule(jobs, "srtf", nodes=1).end
    ([300.0, 320.0], [320.0, 30.0])
    """
    largest = max(jobs.gpus, default=0)
    if largest > GPUS_PER_NODE * nodes:
        raise ValueError(f"a job of {largest} GPUs does not fit on {nodes} nodes of 8 GPUs")
    if policy == "fifo":
        return run_fifo(jobs, nodes)
    if policy in ("srtf", "srsf"):
        return run(jobs, Shortest(jobs, nodes, by_service=policy == "srsf"))
    if policy == "tiresias":
        return run_tiresias(jobs, nodes)
    if policy in ("muri-s", "muri-l"):
        return run(jobs, Muri(jobs, nodes, policy == "muri-l", muri))
    raise ValueError(f"policy must be one of {', '.join(JOB_POLICIES)}, not {policy!r}")
