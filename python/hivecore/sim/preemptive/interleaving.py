"""The duration of an iteration if several jobs share GPUs, each on another resource."""

from collections.abc import Sequence

from hivecore.interleaving.rounds import interleave_as

__all__ = ["INTERFERENCE", "INTERFERENCE_UNMATCHED", "IterationTimes", "Stages"]

#: Seconds of an iteration's data, GPU and network stages.
Stages = tuple[float, float, float]

#: Measured by Muri's authors: how much longer a round takes than its stages, for 1 to 4 jobs.
INTERFERENCE = (1.0, 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015)
#: The same for groups of jobs that were not matched.
INTERFERENCE_UNMATCHED = (*INTERFERENCE[:3], 1.3 / 1.015)


class IterationTimes:
    """Seconds of an iteration of any group; each mixture of profiles is computed once.

    :param stages: per job.
    :param solo: per job, seconds of an iteration alone on its GPUs.
    :param worst: take the worst order of the jobs instead of the best.
    :param interference: factors for 1 to 4 jobs.
    """

    def __init__(
        self,
        stages: Sequence[Stages],
        solo: Sequence[float],
        worst: bool,
        interference: Sequence[float],
    ) -> None:
        profiles = sorted(set(stages))
        code = {profile: number for number, profile in enumerate(profiles)}
        self._profile = [code[job] for job in stages]
        self._profiles = profiles
        self._solo = solo
        self._worst = worst
        self._interference = interference
        self._known: dict[tuple[int, ...], float] = {}

    def of(self, group: Sequence[int]) -> float:
        """Return the seconds of an iteration of these jobs."""
        if len(group) == 1:
            return self._solo[group[0]]
        mixture = tuple(sorted([self._profile[job] for job in group]))
        seconds = self._known.get(mixture)
        if seconds is None:
            stages = [self._profiles[number] for number in mixture]
            order = interleave_as(stages, "artifact", "worst" if self._worst else "best")
            seconds = order.iteration_time * self._interference[len(mixture) - 1]
            self._known[mixture] = seconds
        return seconds
