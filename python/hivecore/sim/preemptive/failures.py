"""What may go wrong while jobs run, given as data, or drawn from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from random import Random

__all__ = ["Failure", "JobFailure", "NodeFailure", "RandomFailures"]


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The process that runs a job ends, and with it all jobs that share its GPUs.

    :param time: seconds; at an instant at which the job does not run, nothing happens.
    :param job: its number in order of submission.
    """

    time: float
    job: int


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node is lost with all that runs on it, and gives no GPUs until it is back.

    :param time: seconds.
    :param node: its number, from 0.
    :param back: seconds; of several failures of one node the latest return counts.
    """

    time: float
    node: int
    back: float


Failure = JobFailure | NodeFailure


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """Failures without end, in order of time, the same each time that they are gone through.

    :param jobs: number of jobs.
    :param nodes: number of nodes.
    :param seed: equal seeds give equal failures, whatever the policy.
    :param job_mtbf: seconds that a job runs between two of its failures, on average.
    :param node_mtbf: seconds that a node is there between two of its failures, on average.
    :param repair: seconds until a node is back.
    :raises ValueError: a time that is not positive, or a repair without end.

    Times between failures are exponential. Every job fails all the time, whether it runs or not,
    and only what hits a running job has an effect; exponential times have no memory, so this is as
    if the clock of a job stood still while it waits. Cost: O(1) per failure.

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
        for name in ("job_mtbf", "node_mtbf", "repair"):
            if not getattr(self, name) > 0:
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
            # A node that is away cannot fail.
            if back[node] <= time:
                back[node] = time + self.repair
                yield NodeFailure(time, node, back[node])
