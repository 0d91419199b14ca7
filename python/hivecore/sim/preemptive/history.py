"""Where and when each job ran, recorded from the policy's choices."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hivecore.sim.preemptive.placement import Placed

__all__ = ["Recorder", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which the same jobs ran together on the same nodes.

    :param begin: seconds.
    :param end: seconds, later than `begin`.
    :param jobs: their numbers, ascending.
    :param nodes: the numbers of their nodes; they have all GPUs of each but the last.
    """

    begin: float
    end: float
    jobs: tuple[int, ...]
    nodes: tuple[int, ...]


class Recorder:
    """Joins what stays the same from event to event into spans, in order of their ends."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._open: dict[Placed, float] = {}

    def note(
        self, now: float, placed: Iterable[Placed], stopped: Collection[int] = frozenset()
    ) -> None:
        """Record what runs from now on.

        :param now: seconds, not earlier than before.
        :param placed: the running jobs and their nodes.
        :param stopped: jobs that a failure has stopped; their spans end even if they continue at
            once.
        """
        before, self._open = self._open, {}
        for group in placed:
            goes_on = not any(job in stopped for job in group.jobs)
            self._open[group] = before.pop(group, now) if goes_on else now
        for group, begin in before.items():
            if begin < now:
                self.spans.append(Span(begin, now, group.jobs, group.nodes))
