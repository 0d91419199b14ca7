"""Shortest job first, preemptive: by remaining time (SRTF), or by remaining GPU time (SRSF)."""

from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed, idle_nodes, place

__all__ = ["Shortest"]


class Shortest:
    """Runs the jobs with the least work left, and behind them whatever else fits.

    :param jobs: the jobs.
    :param nodes: of 8 GPUs each.
    :param by_service: count the work in GPU seconds, not in seconds.
    """

    same_event = 0.0

    def __init__(self, jobs: Jobs, nodes: int, by_service: bool) -> None:
        self.pace = jobs.solo
        self.overhead = jobs.restart
        self._iterations = jobs.iterations
        self._gpus = jobs.gpus
        self._weight = jobs.gpus if by_service else [1] * len(jobs)
        self.idle = idle_nodes(nodes)
        self._nodes_of: dict[int, tuple[int, ...]] = {}

    def first_key(self, job: int) -> float:
        """Return the work of the whole job."""
        return self.key(job, self._iterations[job], 0.0)

    def key(self, job: int, remaining: float, attained: float) -> float:
        """Return the work that is left."""
        return remaining * self.pace[job] * self._weight[job]

    def choose(self, order: list[int], key: list[float]) -> list[int]:
        """Return the jobs that fit when they are placed one after another."""
        free = self.idle.copy()
        left = sum(free)
        chosen = []
        self._nodes_of = {}
        for job in order:
            gpus = self._gpus[job]
            if gpus <= left and (nodes := place(free, gpus)):
                chosen.append(job)
                self._nodes_of[job] = nodes
                left -= gpus
                if not left:
                    break
        return chosen

    def placed(self) -> list[Placed]:
        """Return each job that runs, on its nodes."""
        return [Placed((job,), nodes) for job, nodes in self._nodes_of.items()]
