"""Jobs that may share GPUs, with times and values of groups."""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from hivecore.reference.interleaving.rounds import FOUR, Row, efficiency_of, interleave, total

__all__ = ["Candidates", "Node"]

#: A group of job numbers.
Node = list[int]


class Candidates:
    """Jobs, with times and values of groups."""

    def __init__(
        self,
        rows: Sequence[Row],
        model: str,
        order: str,
        interference: Sequence[float],
        solo: Sequence[float],
        priorities: Sequence[float],
        max_slowdown: float,
        memory: Sequence[int],
        gpu_memory: float,
    ) -> None:
        self.rows = rows
        self.slots = len(rows[0]) if model == "barrier" else FOUR
        self._model, self._order = model, order
        self._interference = interference
        self._solo = solo
        self._priorities, self._max_slowdown = priorities, max_slowdown * (1 + 1e-12)  # rounding
        self._memory, self._gpu_memory = memory, gpu_memory
        self.has_slowdown_limit = max_slowdown < inf  # priorities matter only then
        self._limited = gpu_memory < inf or max_slowdown < inf
        profiles = {row: number for number, row in enumerate(sorted(set(rows)))}
        self._profile = [profiles[row] for row in rows]
        self._profiles = list(profiles)
        self._busy = [total(row) for row in rows]
        self._type = [(row, solo[job], memory[job], job) for job, row in enumerate(rows)]
        self._times: dict[tuple[int, ...], float] = {}
        self._efficiency: dict[tuple[int, ...], float] = {}

    def by_type(self, node: Node) -> Node:
        """Return the group ordered by type of job, so that sums do not depend on
        the order of jobs.
        """
        return sorted(node, key=self._type.__getitem__)

    def kind(self, node: Node) -> tuple[tuple[Row, float, int], ...]:
        """Return the types of the jobs, in the order of the jobs."""
        return tuple([self._type[job][:3] for job in node])

    def time(self, node: Node) -> float:
        """Return the duration of a round, which does not depend on the order of the jobs."""
        if len(node) == 1:
            return self._solo[node[0]]
        mixture = tuple(sorted([self._profile[job] for job in node]))
        round_time = self._times.get(mixture)
        if round_time is None:
            rows = tuple(self._profiles[number] for number in mixture)
            time = _round_time(rows, self._model, self._order)
            round_time = self._times[mixture] = time * self._interference[len(node) - 1]
        return round_time

    def is_allowed(self, node: Node) -> bool:
        """Whether the jobs fit into memory, and the most urgent one is not slowed down too much."""
        if not self._limited:
            return True
        urgent = min(node, key=lambda job: (self._priorities[job], job))
        return (
            sum(self._memory[job] for job in node) <= self._gpu_memory
            and self.time(node) <= self._max_slowdown * self._solo[urgent]
        )

    def efficiency(self, node: Node) -> float:
        """Return the fraction of time in which the resources are busy."""
        key = tuple([self._profile[job] for job in node]) if len(node) > 1 else (-1, *node)
        efficiency = self._efficiency.get(key)
        if efficiency is None:
            busy = total([self._busy[job] for job in node])
            efficiency = efficiency_of(busy, self.time(node), self.slots, self._model)
            self._efficiency[key] = efficiency
        return efficiency

    def progress(self, node: Node) -> float:
        """Return the group's progress in jobs: 1 for a single job."""
        return total([self._solo[job] for job in node]) / self.time(node)


@lru_cache(maxsize=2**16)
def _round_time(rows: tuple[Row, ...], model: str, order: str) -> float:
    return interleave(rows, model, order)[1]
