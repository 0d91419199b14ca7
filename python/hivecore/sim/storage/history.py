"""How rates and caches went over time, taken down at each event."""

from dataclasses import dataclass

import numpy as np

from hivecore.sim.storage.workload import Floats

__all__ = ["Recorder", "StorageHistory"]


@dataclass(frozen=True, slots=True, eq=False)
class StorageHistory:
    """What was the case from each of these instants to the next; at the last one all jobs have
    ended.

    :param time: float64[instants], seconds, rising.
    :param rate_mbps: float64[instants], MB/s that all jobs read.
    :param remote_mbps: float64[instants], MB/s of remote IO, warm-ups included.
    :param busy: float64[instants], GPUs that compute, without those that wait for data.
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
    """Collects instants, and keeps few enough of them to be drawn.

    :param least: seconds between two instants that are kept.
    """

    def __init__(self, least: float = 0.0) -> None:
        self._least = least
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._cached: list[Floats] = []

    def due(self, now: float) -> bool:
        """Whether enough time is over.

        :param now: seconds, not earlier than before.
        """
        return not self._rows or now >= self._rows[-1][0] + self._least

    def note(
        self, now: float, rate: float, remote: float, busy: float, present: int, cached: Floats
    ) -> None:
        """Take down what is the case from now on.

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
        """Return all that was taken down."""
        columns = np.array(self._rows).reshape(-1, 5).T
        time, rate, remote, busy, present = columns
        cached = np.array(self._cached).reshape(columns.shape[1], -1)
        return StorageHistory(time, rate, remote, busy, present, cached)
