"""Rates and caches over time, recorded at each event."""

from dataclasses import dataclass

import numpy as np

from hivecore.sim.storage.workload import Floats

__all__ = ["Recorder", "StorageHistory"]


@dataclass(frozen=True, slots=True, eq=False)
class StorageHistory:
    """The state between successive instants; at the last one all jobs have ended.

    :param time: float64[instants], seconds, ascending.
    :param rate_mbps: float64[instants], MB/s that all jobs read.
    :param remote_mbps: float64[instants], MB/s of remote IO, including warm-ups.
    :param busy: float64[instants], GPUs that compute and do not wait for data.
    :param present: int64[instants], jobs that run or wait.
    :param cached_gb: float64[instants, datasets], GB of each dataset in the cache.
    """

    time: Floats
    rate_mbps: Floats
    remote_mbps: Floats
    busy: Floats
    present: Floats
    cached_gb: Floats


class Recorder:
    """Records instants, few enough to be drawn.

    :param least: the least seconds between recorded instants.
    """

    def __init__(self, least: float = 0.0) -> None:
        self._least = least
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._cached: list[Floats] = []

    def due(self, now: float) -> bool:
        """Whether the next instant should be recorded.

        :param now: seconds, not earlier than before.
        """
        return not self._rows or now >= self._rows[-1][0] + self._least

    def note(
        self, now: float, rate: float, remote: float, busy: float, present: int, cached: Floats
    ) -> None:
        """Record the state from now on.

        :param now: seconds, not earlier than before.
        :param rate: MB/s.
        :param remote: MB/s.
        :param busy: GPUs.
        :param present: jobs.
        :param cached: float64[datasets], MB.
        """
        if self._rows and self._rows[-1][0] == now:
            self._rows.pop()
            self._cached.pop()
        self._rows.append((now, rate, remote, busy, float(present)))
        self._cached.append(cached / 1000.0)

    def history(self) -> StorageHistory:
        """Return what was recorded."""
        columns = np.array(self._rows).reshape(-1, 5).T
        time, rate, remote, busy, present = columns
        cached = np.array(self._cached).reshape(columns.shape[1], -1)
        return StorageHistory(time, rate, remote, busy, present, cached)
