"""Running jobs sorted by what is lost if they end.

A job loses the GPU-seconds since it started. Among jobs with equally many GPUs, the latest to start
always loses least. So jobs are sorted by start for each number of GPUs, and the lists are merged.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import merge

from hivecore.scheduler.ledger.live import Live

__all__ = ["Losses"]

#: start, negated, and name of a job
_Entry = tuple[float, str]


class Losses:
    """Lists of the running jobs, of each tenant if wanted, updated when they are read."""

    __slots__ = ("_by_tenant", "_known", "_lists", "_running", "changed")

    def __init__(self, running: Mapping[str, Live], by_tenant: bool) -> None:
        self._running, self._by_tenant = running, by_tenant
        #: jobs that started or stopped since the last update
        self.changed = set(running)
        self._lists: dict[tuple[str, int], list[_Entry]] = {}
        #: the list of each job, and its entry there
        self._known: dict[str, tuple[tuple[str, int], _Entry]] = {}

    def cheapest(self, now: float, tenant: str | None) -> Iterator[tuple[float, str]]:
        """Pairs of loss and job, of one or all tenants, the smallest first; no victims."""
        self._follow()
        lists = [
            _losses(entries, gpus, now)
            for (owner, gpus), entries in self._lists.items()
            if tenant is None or owner == tenant
        ]
        return (entry for entry in merge(*lists) if not self._running[entry[1]].for_job)

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
