"""Failures during a run, given as data or drawn from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from random import Random

from hivecore._arguments import MOST_SEED, as_float, as_int

__all__ = ["Failure", "JobFailure", "NodeFailure", "RandomFailures"]

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job's process ends, and with it all jobs that share its GPUs.

    :param time: seconds; nothing happens if the job does not run then.
    :param job: its number in order of submission.
    """

    time: float
    job: int


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node is lost with all its jobs, and has no GPUs until it is back.

    :param time: seconds.
    :param node: its number, from 0.
    :param back: seconds; of several failures of a node, the latest return counts.
    """

    time: float
    node: int
    back: float


Failure = JobFailure | NodeFailure


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """An endless sequence of failures in order of time; each iteration is the same.

    :param jobs: number of jobs.
    :param nodes: number of nodes.
    :param seed: equal seeds give equal failures, whatever the policy.
    :param job_mtbf: mean seconds of a job's run between failures.
    :param node_mtbf: mean seconds between failures of a node.
    :param repair: seconds until a node is back.
    :raises ValueError: a time is not positive, the repair is infinite, or a number is negative.
    :raises TypeError: an argument has a wrong type.

    Times between failures are exponential. Failures are drawn for all jobs, but affect only running
    ones. As exponential times have no memory, this is as if a job's clock stood still while it
    waits. Cost: O(1) per failure.

    >>> failures = iter(RandomFailures(jobs=3, nodes=2, seed=0, job_mtbf=3600.0))
    >>> first, second = next(failures), next(failures)
    >>> 0 < first.time < second.time, first.job in range(3)
    (True, True)
    """

    jobs: int
    nodes: int
    seed: int
    job_mtbf: float = inf
    node_mtbf: float = inf
    repair: float = 3600.0

    def __post_init__(self) -> None:
        as_int(self.jobs, "jobs", 0, _MOST)
        as_int(self.nodes, "nodes", 0, _MOST)
        as_int(self.seed, "seed", 0, MOST_SEED)
        for name in ("job_mtbf", "node_mtbf", "repair"):
            if not as_float(getattr(self, name), name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.repair == inf:
            raise ValueError("repair must be finite")

    def __iter__(self) -> Iterator[Failure]:
        random = Random(self.seed)
        rate_of_jobs, rate_of_nodes = self.jobs / self.job_mtbf, self.nodes / self.node_mtbf
        rate = rate_of_jobs + rate_of_nodes
        time, back = 0.0, [0.0] * self.nodes
        while rate > 0:
            time += random.expovariate(rate)
            if random.random() * rate < rate_of_jobs:
                yield JobFailure(time, random.randrange(self.jobs))
                continue
            node = random.randrange(self.nodes)
            # A lost node cannot fail.
            if back[node] <= time:
                back[node] = time + self.repair
                yield NodeFailure(time, node, back[node])
