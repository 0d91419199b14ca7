"""Running jobs whose tenants are charged for the time that they run.

A job is charged in advance: for its estimate, or for as long as jobs of its tenant have run on
average. Whenever it has run for as long as was charged, twice that is charged. At its end the
charge becomes what it really was.
"""

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Self

from hivecore._arguments import as_int, as_name
from hivecore._trial import UndoLog

__all__ = ["Run", "Running"]

_MOST = 2**124


class Run(NamedTuple):
    """A running job.

    :param number: in the order of arrival; 0: unknown, as in states of earlier releases.
    :param tenant: the name of its tenant.
    :param weight: of the tenant when the job started.
    :param since: when that was.
    :param paid: the time for which it is charged.
    """

    tenant: str
    size: int
    weight: int
    since: int
    paid: int
    number: int = 0

    @property
    def end(self) -> int:
        """When it has run for as long as is charged."""
        return self.since + self.paid


class Running:
    """The running jobs by name, and when more of them is to be charged."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self.jobs: dict[str, Run] = {}
        #: their ends by name; an entry of a job that has another end by now means nothing
        self._due: list[tuple[int, str]] = []
        #: how long all jobs ran that have ended, and how many
        self.ran = self.runs = 0

    def start(self, name: str, run: Run) -> None:
        """A job starts, or is charged for longer."""
        self._undo.keep(self.jobs, name)
        self.jobs[name] = run
        heappush(self._due, (run.end, name))

    def stop(self, name: str, number: int) -> Run | None:
        """Forget a job; ``None``: it does not run, though another one of its name may."""
        run = self.jobs.get(name)
        if run is None or run.number not in (0, number):
            return None
        self._undo.keep(self.jobs, name)
        return self.jobs.pop(name)

    def is_due(self, now: int) -> bool:
        """Whether a job may have run for as long as is charged."""
        if len(self._due) > 2 * len(self.jobs) + 16 and not self._undo.is_on:
            self._due = [(run.end, name) for name, run in self.jobs.items()]
            heapify(self._due)
        return bool(self._due) and self._due[0][0] <= now

    def due(self, now: int) -> tuple[str, Run] | None:
        """A job that has run for as long as is charged; ``None``: none has."""
        while self._due and self._due[0][0] <= now:
            end, name = entry = heappop(self._due)
            self._undo.note(heappush, self._due, entry)
            run = self.jobs.get(name)
            if run is not None and run.end == end:
                return name, run
        return None

    def note_end(self, ran: int) -> None:
        """A job that has run for so long has ended."""
        self._undo.set(self, "ran", self.ran + ran)
        self._undo.set(self, "runs", self.runs + 1)

    def copy(self, undo: UndoLog) -> Self:
        """An equal, independent object."""
        branch = type(self)(undo)
        branch.jobs, branch._due = self.jobs.copy(), self._due.copy()
        branch.ran, branch.runs = self.ran, self.runs
        return branch

    def plain(self) -> list[Any]:
        """The state as plain data."""
        return [self.ran, self.runs, [(name, *run) for name, run in sorted(self.jobs.items())]]

    def restore(self, state: list[Any], tenants: object, now: int) -> None:
        """Restore the state from plain data."""
        ran, runs, jobs = state
        self.ran, self.runs = as_int(ran, "ran", 0, _MOST), as_int(runs, "runs", 0, 2**62)
        for name, tenant, size, weight, since, paid, *number in jobs:
            if tenant not in tenants or name in self.jobs:  # type: ignore[operator]
                raise ValueError(f"job {name!r} cannot run")
            run = Run(
                tenant,
                as_int(size, "size", 1, 2**31),
                as_int(weight, "weight", 1, 2**31),
                as_int(since, "since", 0, now),
                as_int(paid, "paid", 1, 2**63),
                *[as_int(each, "number", 0, 2**62) for each in number],
            )
            self.start(as_name(name, "name"), run)
