"""Running jobs in the order of what is lost when they end.

A job loses the GPU-seconds since it started. Of jobs with equally many GPUs the last to start loses
least, at any time: so there is a sorted list for each number of GPUs, and these are merged.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import merge

from hivecore.scheduler.ledger.live import Live

__all__ = ["Losses"]

#: When a job started, negated, and its name.
_Entry = tuple[float, str]


class Losses:
    """The running jobs; the lists follow when they are read.

    :param running: the jobs by name.
    :param by_tenant: whether each tenant has lists of its own.
    """

    __slots__ = ("_by_tenant", "_known", "_lists", "_running", "changed")

    def __init__(self, running: Mapping[str, Live], by_tenant: bool) -> None:
        self._running, self._by_tenant = running, by_tenant
        #: the jobs that have started or stopped since
        self.changed = set(running)
        self._lists: dict[tuple[str, int], list[_Entry]] = {}
        #: the list of each job, and its entry there
        self._known: dict[str, tuple[tuple[str, int], _Entry]] = {}

    def cheapest(self, now: float, tenant: str | None) -> Iterator[tuple[float, str]]:
        """What is lost with each job, and its name, in this order; jobs that have to stop are left
        out.

        :param tenant: the only tenant whose jobs count; ``None``: all do.
        """
        self._follow()
        lists = [
            _losses(entries, gpus, now)
            for (owner, gpus), entries in self._lists.items()
            if tenant is None or owner == tenant
        ]
        return (one for one in merge(*lists) if not self._running[one[1]].for_job)

    def _follow(self) -> None:
        for name in self.changed:
            known, live = self._known.pop(name, None), self._running.get(name)
            if known is not None:
                key, entry = known
                entries = self._lists[key]
                del entries[bisect_left(entries, entry)]
                if not entries:
                    del self._lists[key]
            if live is not None:
                key = live.job.tenant if self._by_tenant else "", live.job.gpus
                entry = -live.since if key[1] else 0.0, name
                insort(self._lists.setdefault(key, []), entry)
                self._known[name] = key, entry
        self.changed.clear()


def _losses(entries: list[_Entry], gpus: int, now: float) -> Iterator[tuple[float, str]]:
    return (((now + start) * gpus, name) for start, name in entries)
