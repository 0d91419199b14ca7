"""Jobs that run at the speeds of a world, and start over when they stop."""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from hivecore.scheduler import Action, Preempt, Start
from hivecore.sim.progress.base import Incident
from hivecore.sim.worlds import World

__all__ = ["Paced"]


class Paced:
    """The ends of running jobs; nothing fails.

    :param world: how fast jobs run; by default at full speed, whatever they share.

    Each run has a number, so that the end of a run that has stopped or changed its speed is
    recognised as outdated. Jobs that end together end in the order of submission. Cost: O(log jobs)
    for each start or change of speed.
    """

    is_kept = False

    def __init__(self, world: World | None) -> None:
        self._world = world
        self._place: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        #: (end, position of the job, number of the run, job)
        self._ends: list[tuple[float, int, int, str]] = []
        self._numbers = 0
        #: of running jobs
        self._number: dict[str, int] = {}
        #: running job -> (remaining work, since when, speed)
        self._pace: dict[str, tuple[float, float, float]] = {}

    def next_end(self, before: float = inf) -> float:
        """See `Progress`."""
        ends, number = self._ends, self._number
        while ends and number.get(ends[0][3]) != ends[0][2]:
            heappop(ends)  # the run was preempted or has changed its speed
        return ends[0][0] if ends else inf

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        return before if self._world is None else min(before, self._world.next_change())

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        names = []
        while self.next_end() == now:
            job = heappop(self._ends)[3]
            del self._number[job]
            names.append(job)
            if self._world is not None:
                self._world.end(job, now)
        return names

    def happen(self, now: float) -> Sequence[Incident]:
        """See `Progress`."""
        return ()

    def submit(self, job: str, seconds: float, now: float) -> None:
        """See `Progress`."""
        self._place[job], self._seconds[job] = len(self._place), seconds

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `Progress`."""
        for action in actions:
            if isinstance(action, Start):
                if action.job not in self._number:  # otherwise more pods join it
                    self._start(action.job, now)
            elif isinstance(action, Preempt):
                del self._number[action.job]
        if self._world is not None:
            self._world.obey(actions, now)
            self.adjust(self._world.speeds(now), now)

    def _start(self, job: str, now: float) -> None:
        seconds = self._seconds[job]
        self._pace[job] = seconds, now, 1.0
        self._push(job, now + seconds)

    def _push(self, job: str, end: float) -> None:
        self._numbers += 1
        self._number[job] = self._numbers
        if end < inf:
            heappush(self._ends, (end, self._place[job], self._numbers, job))

    def adjust(self, speeds: Mapping[str, float], now: float) -> None:
        """Change the speeds of running jobs.

        :param speeds: job -> fraction of its full speed.
        :param now: seconds.
        """
        for job, speed in speeds.items():
            left, since, before = self._pace[job]
            if speed == before:
                continue
            left -= (now - since) * before
            self._pace[job] = left, now, speed
            self._push(job, now + max(left, 0.0) / speed if speed else inf)
