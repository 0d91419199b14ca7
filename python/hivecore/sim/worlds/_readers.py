"""What the worlds of storage have in common: who reads now, and at most how fast."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore.scheduler import Action, Data, Job, Preempt, Start
from hivecore.sim.worlds.base import World
from hivecore.storage import StorageJobs, ration_remote_io

__all__ = ["Floats", "Indices", "Readers", "share_out"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
MB = 1000.0  # per GB


class Readers(ABC):
    """Jobs with `Job.data` that never go faster than their GPUs let them.

    A row of the columns is a job that reads something; `running` are those that run, rising.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        datasets_gb: Mapping[str, float],
        bandwidth_mbps: float,
        gpus: World,
    ) -> None:
        readers = [(job.name, job.data) for job in jobs if job.data is not None]
        codes = {name: code for code, name in enumerate(datasets_gb)}
        self.codes, self.sizes = codes, np.array(list(datasets_gb.values())) * MB
        self.row = {name: row for row, (name, _) in enumerate(readers)}
        self.names = [name for name, _ in readers]
        self.dataset = np.array([_code(data, codes) for _, data in readers], dtype=np.int64)
        self.rate = np.array([data.rate_mbps for _, data in readers])
        self.size = self.sizes[self.dataset]
        self.bandwidth = bandwidth_mbps
        #: as shares of full speed: that of the GPUs, and what was said last
        self.pace, self.told = np.ones(len(readers)), np.ones(len(readers))
        self.running: Indices = np.empty(0, dtype=np.int64)
        self.is_stale = False
        self._gpus = gpus
        self._runs: dict[int, None] = {}

    def __copy__(self) -> Self:
        return deepcopy(self)

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `World`."""
        self._gpus.obey(actions, now)
        for action in actions:
            if isinstance(action, Start | Preempt) and action.job in self.row:
                row = self.row[action.job]
                if isinstance(action, Preempt):
                    self._leave(row)
                elif row not in self._runs:
                    self._runs[row] = None
                    self.pace[row] = self.told[row] = 1.0
                    self.is_stale = True

    def end(self, job: str, now: float) -> None:
        """See `World`."""
        self._gpus.end(job, now)
        if job in self.row:
            self._leave(self.row[job])

    def _leave(self, row: int) -> None:
        del self._runs[row]
        self.is_stale = True

    def speeds(self, now: float) -> Mapping[str, float]:
        """See `World`."""
        found = dict(self._gpus.speeds(now))
        for name in [name for name in found if name in self.row]:
            self.pace[self.row[name]] = found.pop(name)
            self.is_stale = True
        self.pass_time(now)
        if self.is_stale:
            self.is_stale = False
            self.running = running = np.array(sorted(self._runs), dtype=np.int64)
            speed = self.reached(running, self.rate[running] * self.pace[running])
            speed = np.minimum(speed / self.rate[running], self.pace[running])
            others = np.flatnonzero(speed != self.told[running])
            self.told[running] = speed
            found |= zip(
                [self.names[row] for row in running[others].tolist()],
                speed[others].tolist(),
                strict=True,
            )
        return found

    def next_change(self) -> float:
        """See `World`."""
        return min(self._gpus.next_change(), self.next_epoch())

    def pass_time(self, now: float) -> None:  # noqa: B027
        """Bring up to date what moves by itself."""

    def next_epoch(self) -> float:
        """When rates will be others by themselves; inf: never."""
        return inf

    @abstractmethod
    def reached(self, running: Indices, full: Floats) -> Floats:
        """MB/s at which those that run read from now on, if they could read so much."""


def _code(data: Data, codes: Mapping[str, int]) -> int:
    if data.dataset not in codes:
        raise ValueError(f"datasets_gb: there is no {data.dataset!r}")
    return codes[data.dataset]


def share_out(wanted: Floats, bandwidth: float) -> Floats:
    """Remote IO in MB/s for each: all the same, but nobody more than it wants."""
    if float(wanted.sum()) <= bandwidth:
        return wanted
    jobs = StorageJobs(dataset=np.zeros(len(wanted), dtype=np.int64), rate_mbps=wanted)
    return ration_remote_io(jobs, [1.0], [0.0], bandwidth, "maxmin_io").remote_io_mbps
