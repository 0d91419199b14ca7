"""Storage that does what a scheduler says, with so much cache and remote IO for each (SiloD).

A uniform cache never evicts within the room of a dataset: it keeps what is read until the room is
full, and what it holds at the begin of an epoch is what it serves in that epoch (SiloD's delayed
effectiveness). A job that reads at f and finds c of its d GB cached reads at min(f, b / (1 - c/d)).
"""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from hivecore.scheduler import Action, Job, SetCache, SetRemoteIO
from hivecore.sim.worlds._readers import Floats, Indices, Readers, share_out
from hivecore.sim.worlds.base import World
from hivecore.storage import throughput

__all__ = ["AllottedStorage"]

_ROUNDING = 1e-9  # of a dataset
_BYTE = 1e-6  # in MB: what actions tell is in whole bytes


class AllottedStorage(Readers):
    """Jobs that read have the cache and the remote IO that `SetCache` and `SetRemoteIO` say.

    :param jobs: all that may run. Those without `Job.data` never wait for any.
    :param datasets_gb: the size of each dataset, by name.
    :param bandwidth_mbps: of remote IO, in MB/s.
    :param gpus: how fast jobs run that never wait for data.
    :raises ValueError: a job reads what is not there.

    Every job reads its whole dataset once in each epoch, in a new random order. Room that a dataset
    loses is emptied at once, of random items. A scheduler allots remote IO for caches that are
    full: what is to be cached but is not there yet is read beside that, and where the bandwidth
    does not suffice then, all share it max-min fairly. What other jobs bring into the cache counts
    for a job from its next epoch on; and within an epoch a job brings in all that is not there,
    even if room for it comes late. Cost: numpy operations on the running jobs for each that starts
    or ends, and for each epoch in which a cache fills. Source: SiloD (EuroSys'23).

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Data, Job, Scheduler, StoragePool
    >>> from hivecore.sim import simulate
    >>> from hivecore.sim.worlds import InterleavedGpus
    >>> jobs = [Job("one", "a", 8, data=Data("images", 100.0))]  # 60 GB in 600 seconds
    >>> quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    >>> pool = StoragePool({"images": 20.0}, cache_gb=10.0, bandwidth_mbps=25.0)
    >>> scheduler = Scheduler(quotas=quotas, storage=pool, immediate=True)
    >>> world = AllottedStorage(jobs, {"images": 20.0}, 25.0, InterleavedGpus(jobs))
    >>> simulate(scheduler, jobs, [0], [600], world).end.tolist()  # 800 s, then 400 s, and 400 s
    [1600.0]
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        datasets_gb: Mapping[str, float],
        bandwidth_mbps: float,
        gpus: World,
    ) -> None:
        super().__init__(jobs, datasets_gb, bandwidth_mbps, gpus)
        count = len(self.names)
        #: MB of each dataset that may be, and are, in the cache
        self._room, self._held = np.zeros(len(self.sizes)), np.zeros(len(self.sizes))
        #: by job: MB/s of remote IO, MB of its epoch that are cached, and read, MB/s it reads now
        self._remote_io = np.zeros(count)
        self._cached, self._read, self._rate = np.zeros(count), np.zeros(count), np.zeros(count)
        self._since = -inf
        self._next = inf

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `World`."""
        if actions:
            self.pass_time(now)
        before = set(self._runs)
        super().obey(actions, now)
        for action in actions:
            if isinstance(action, SetCache):
                self._set_room(self.codes[action.dataset], action.size / 1e6)
            elif isinstance(action, SetRemoteIO) and action.job in self.row:
                self._remote_io[self.row[action.job]] = action.rate_mbps
                self.is_stale = True
        for row in self._runs.keys() - before:
            self._cached[row], self._read[row] = self._held[self.dataset[row]], 0.0

    def end(self, job: str, now: float) -> None:
        """See `World`."""
        self.pass_time(now)
        super().end(job, now)

    def _set_room(self, code: int, room: float) -> None:
        self.is_stale = True
        self._room[code], held = room, self._held[code]
        if held > room:
            self._held[code] = room
            self._cached[self.dataset == code] *= room / held

    def pass_time(self, now: float) -> None:
        """Read on; at the end of an epoch more may be cached."""
        passed, self._since = now - self._since, now
        running = self.running
        if not len(running) or not passed:
            return
        size, dataset = self.size[running], self.dataset[running]
        unread = size - self._read[running]
        after = unread - self._rate[running] * passed
        ends = after <= _ROUNDING * size
        # Of what is not cached each reader leaves as much as of all that it has yet to read.
        left = np.where(ends, 0.0, after / unread)
        absent = self.sizes - self._held
        np.multiply.at(absent, dataset, left)
        grown = np.minimum(self.sizes - absent, np.maximum(self._room, self._held))
        self._held = np.maximum(self._held, grown)
        self._read[running] = np.where(ends, np.maximum(-after, 0.0) % size, size - after)
        ended = running[ends]
        self._cached[ended] = self._held[self.dataset[ended]]
        self.is_stale |= now >= self._next

    def next_epoch(self) -> float:
        """When an epoch ends after which more is cached."""
        return self._next

    def reached(self, running: Indices, full: Floats) -> Floats:
        """MB/s with what is allotted, and what the caches serve by now."""
        size, cached = self.size[running], self._cached[running]
        room = np.minimum(self._room[self.dataset[running]], size)
        cached = np.where(size - cached <= _BYTE, size, cached)
        missed = 1.0 - cached / size
        filling = np.maximum(room - cached, 0.0) / size
        wanted = np.minimum(full * missed, self._remote_io[running] + full * filling)
        granted = share_out(wanted, self.bandwidth)
        rates = np.asarray(throughput(full, granted, cached, size))
        self._rate[running] = rates
        grows = (filling > _ROUNDING) & (rates > 0.0)
        left = (size - self._read[running])[grows] / rates[grows]
        self._next = self._since + float(left.min(initial=inf))
        return rates
