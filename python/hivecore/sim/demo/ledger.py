"""A world that records when each job ran, and which GPUs were held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.scheduler import Action, Job, PlacedPod, Preempt, Promote, Start
from hivecore.sim.worlds import World

__all__ = ["Books", "Floats", "Indices", "Ledger"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Books:
    """All runs, including lost ones, and all GPUs that were held.

    :param job: int64[runs], the row of each job.
    :param runs: float64[runs, 2], start and end in seconds.
    :param holder: int64[held], the row of the first job there.
    :param node: int64[held], node number.
    :param gpus: int64[held], number of GPUs of the node.
    :param held: float64[held, 2], start and end in seconds. Jobs that share GPUs hold them once.
    """

    job: Indices
    runs: Floats
    holder: Indices
    node: Indices
    gpus: Indices
    held: Floats


class _Group(NamedTuple):
    """Jobs on the same GPUs, and their lines in the books."""

    jobs: set[str]
    lines: list[int]


class Ledger:
    """A world that passes calls on to another one, and records starts, ends and GPUs in use.

    :param world: the other one.
    :param jobs: all that may run; pods of a job are alike, start together and do not move.
    :param nodes: node name -> number.
    """

    def __init__(self, world: World, jobs: Sequence[Job], nodes: Mapping[str, int]) -> None:
        self._world, self._nodes = world, nodes
        self._row = {job.name: row for row, job in enumerate(jobs)}
        self._per_pod = {job.name: job.roles[0].gpus for job in jobs}
        self._run: dict[str, int] = {}
        self._group: dict[str, _Group] = {}
        #: (job, start, end); (holder, node, GPUs, start, end)
        self._runs: list[tuple[int, float, float]] = []
        self._held: list[tuple[int, int, int, float, float]] = []

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `World`."""
        self._world.obey(actions, now)
        for action in actions:
            if isinstance(action, Start):
                self._begin(action, now)
            elif isinstance(action, Preempt):
                self._leave(action.job, now)
            elif isinstance(action, Promote):
                lines = self._group[action.job].lines
                self._close(lines, now)
                lines[:] = self._hold(action.job, action.pods, now)

    def end(self, job: str, now: float) -> None:
        """See `World`."""
        self._world.end(job, now)
        self._leave(job, now)

    def speeds(self, now: float) -> Mapping[str, float]:
        """See `World`."""
        return self._world.speeds(now)

    def next_change(self) -> float:
        """See `World`."""
        return self._world.next_change()

    def _begin(self, start: Start, now: float) -> None:
        name = start.job
        self._run[name] = len(self._runs)
        self._runs.append((self._row[name], now, now))
        if start.shares_with:
            group = self._group[start.shares_with[0]]
            group.jobs.add(name)
        else:
            group = _Group({name}, self._hold(name, start.pods, now))
        self._group[name] = group

    def _hold(self, name: str, pods: Sequence[PlacedPod], now: float) -> list[int]:
        first = len(self._held)
        row, gpus = self._row[name], self._per_pod[name]
        self._held += [(row, self._nodes[pod.node], gpus, now, now) for pod in pods]
        return list(range(first, len(self._held)))

    def _leave(self, name: str, now: float) -> None:
        at = self._run.pop(name)
        self._runs[at] = (*self._runs[at][:2], now)
        group = self._group.pop(name)
        group.jobs.remove(name)
        if not group.jobs:
            self._close(group.lines, now)

    def _close(self, lines: Sequence[int], now: float) -> None:
        for line in lines:
            self._held[line] = (*self._held[line][:4], now)

    def books(self) -> Books:
        """Return the record, once no job runs."""
        runs = np.array(self._runs, dtype=np.float64).reshape(-1, 3)
        held = np.array(self._held, dtype=np.float64).reshape(-1, 5)
        return Books(
            runs[:, 0].astype(np.int64),
            runs[:, 1:],
            held[:, 0].astype(np.int64),
            held[:, 1].astype(np.int64),
            held[:, 2].astype(np.int64),
            held[:, 3:],
        )
