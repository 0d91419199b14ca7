"""Jobs go at the speeds that a world says, and begin again when they stop."""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from hivecore.scheduler import Action, Preempt, Start
from hivecore.sim.progress.base import Incident
from hivecore.sim.worlds import World

__all__ = ["Paced"]


class Paced:
    """The ends of running jobs; nothing fails.

    :param world: how fast jobs run; ``None``: at full speed, whatever they share.

    A run is known by a number, so that the end of one that has stopped, or goes at another speed by
    now, is recognized when its time has come. Jobs that end together end in the order in which they
    came. Cost: O(log jobs) for each that starts or changes its speed.
    """

    is_kept = False

    def __init__(self, world: World | None) -> None:
        self._world = world
        self._place: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        #: of the runs: when they end, the place of the job, the number of the run, and the job
        self._ends: list[tuple[float, int, int, str]] = []
        self._numbers = 0
        #: by running job
        self._number: dict[str, int] = {}
        #: of running jobs in a world: what is left, since when, and how fast it goes
        self._pace: dict[str, tuple[float, float, float]] = {}

    def next_end(self, before: float = inf) -> float:
        """See `Progress`."""
        ends, number = self._ends, self._number
        while ends and number.get(ends[0][3]) != ends[0][2]:
            heappop(ends)  # of a run that was preempted, or goes at another speed now
        return ends[0][0] if ends else inf

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        return before if self._world is None else min(before, self._world.next_change())

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        found = []
        while self.next_end() == now:
            job = heappop(self._ends)[3]
            del self._number[job]
            found.append(job)
            if self._world is not None:
                self._world.end(job, now)
        return found

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
                if action.job not in self._number:  # else more pods join it
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
        """Let running jobs go at other speeds, as shares of their own.

        :param speeds: by job.
        :param now: seconds.
        """
        for job, speed in speeds.items():
            left, since, before = self._pace[job]
            if speed == before:
                continue
            left -= (now - since) * before
            self._pace[job] = left, now, speed
            self._push(job, now + max(left, 0.0) / speed if speed else inf)
