"""An order of jobs; `hivecore.scheduler.orders.running` runs the first jobs that fit."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from hivecore._arguments import as_name, as_tuple
from hivecore.scheduler.ledger.live import Live

__all__ = ["Order", "as_order"]


class Order:
    """Jobs in the order in which they may run. Jobs that share GPUs are one entry.

    :param entries: as `as_order` returns them.
    :param jobs: all jobs by name; a job is moved behind the jobs in its `after`.
    """

    __slots__ = ("entries", "place", "sharers")

    def __init__(self, entries: list[tuple[str, ...]], jobs: Mapping[str, Live]) -> None:
        after = {
            live.job.name: live.job.after
            for live in map(jobs.get, chain.from_iterable(entries))
            if live is not None and live.job.after
        }
        self.entries = _behind_those_before(entries, after) if after else entries
        #: position of each job's entry
        self.place = {name: at for at, names in enumerate(self.entries) for name in names}
        #: by position, the jobs that are known to be able to share GPUs
        self.sharers = {
            at: [jobs[name] for name in names]
            for at, names in enumerate(self.entries)
            if len(names) > 1 and jobs
        }


def _behind_those_before(
    entries: list[tuple[str, ...]], after: Mapping[str, Iterable[str]]
) -> list[tuple[str, ...]]:
    """The entries, each behind those with jobs that must start first."""
    here = {name for names in entries for name in names}
    ordered: list[tuple[str, ...]] = []
    held: list[tuple[tuple[str, ...], set[str]]] = []
    for entry in entries:
        first = {other for name in entry for other in after.get(name, ())}
        held.append((entry, (here & first).difference(entry, *ordered)))
        ready: tuple[str, ...] | None = entry
        while ready is not None:
            ready = next((other for other, before in held if not before), None)
            if ready is not None:
                ordered.append(ready)
                held = [
                    (other, before.difference(ready))
                    for other, before in held
                    if other is not ready
                ]
    return [*ordered, *(other for other, _ in held)]  # a cycle: these wait for one another


def as_order(value: Any) -> list[tuple[str, ...]]:
    """Check an order, and return its entries."""
    given = as_tuple(value, "order")
    entries = [(entry,) if type(entry) is str else _together(entry) for entry in given]
    names = list(chain.from_iterable(entries))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"order: job {twice!r} is named twice")
    return entries


def _together(value: Any) -> tuple[str, ...]:
    names = tuple(as_name(name, "order") for name in as_tuple(value, "order"))
    if not names:
        raise ValueError("order: an entry has no jobs")
    return names
