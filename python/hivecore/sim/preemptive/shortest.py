"""Shortest job first, preemptive: by remaining time (SRTF) or remaining GPU time (SRSF)."""

from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import idle_nodes
from hivecore.sim.preemptive.ranked import Ranked

__all__ = ["Shortest"]


class Shortest(Ranked):
    """Runs the jobs with the least remaining work, and after them whatever else fits.

    :param jobs: the jobs.
    :param nodes: of 8 GPUs each.
    :param by_service: count work in GPU seconds instead of seconds.
    """

    def __init__(self, jobs: Jobs, nodes: int, by_service: bool) -> None:
        self._iterations, self._solo = jobs.iterations, jobs.solo
        self._weight = jobs.gpus if by_service else [1] * len(jobs)
        super().__init__(jobs, idle_nodes(nodes))

    def first_key(self, job: int) -> float:
        """Return the work of the whole job: seconds alone, times its weight."""
        return self.key(job, self._iterations[job], 0.0)

    def key(self, job: int, remaining: float, attained: float) -> float:
        """Return the remaining work, so that the job with the least is first."""
        return remaining * self._solo[job] * self._weight[job]
