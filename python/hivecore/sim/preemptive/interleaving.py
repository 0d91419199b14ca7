"""How long one iteration takes if several jobs share the same GPUs, each on another resource.

In a group all jobs do one iteration per round, in lock step. An iteration is cut into four slots:
the data stage (storage, then CPU) fills two, the GPU and the network one each, and every job is one
slot behind the job before it. So the order of the jobs matters. The recurrence, its end before the
steady state is reached, and the factors are those of the simulator that Muri's authors published.
"""

from collections.abc import Sequence
from itertools import permutations

__all__ = ["INTERFERENCE", "INTERFERENCE_UNMATCHED", "IterationTimes", "Stages", "round_time"]

#: Seconds of an iteration's data, GPU and network stage.
Stages = tuple[float, float, float]

_SLOTS = 4
_STEADY = 1e-3

#: How much longer a round takes than by its stages, by number of jobs.
INTERFERENCE = {2: 1.33 / 1.015, 3: 1.5 / 1.015, 4: 1.37 / 1.015}
#: The same for groups of jobs that were not matched.
INTERFERENCE_UNMATCHED = INTERFERENCE | {4: 1.3 / 1.015}


def round_time(order: Sequence[Stages]) -> float:
    """Return the seconds of a round of 2 to 4 jobs in this order.

    :param order: seconds of the data, GPU and network stage of each job; not all zero.

    `end[i]` is when slot i ends. A data stage that ends with a slot began two slots earlier.

    >>> round_time([(1.0, 2.0, 0.0), (2.0, 1.0, 0.0), (1.0, 0.0, 2.0)])
    5.0
    """
    jobs = len(order)
    end = [0.0]
    for i in range(2 * _SLOTS):
        net, gpu, data = (i + 1) % _SLOTS, (i + 2) % _SLOTS, (i + 3) % _SLOTS
        latest = 0.0
        if net < jobs:
            latest = max(latest, end[i] + order[net][2])
        if gpu < jobs:
            latest = max(latest, end[i] + order[gpu][1])
        if data < jobs and i > 0:
            latest = max(latest, end[i - 1] + order[data][0])
        end.append(latest)
        if i >= _SLOTS:
            this, before = latest - end[i + 1 - _SLOTS], end[i] - end[i - _SLOTS]
            if this > 0 and abs(this - before) <= _STEADY * max(abs(this), abs(before)):
                return this
    return end[2 * _SLOTS] - end[_SLOTS]


def _half_round_apart(first: Stages, second: Stages) -> float:
    """Return the seconds of a round of two jobs, one on its data while the other computes."""
    return max(first[0], second[1] + second[2]) + max(second[0], first[1] + first[2])


class IterationTimes:
    """Seconds of an iteration of any group, each mixture of profiles computed once.

    :param stages: per job.
    :param solo: per job, seconds of an iteration alone on its GPUs.
    :param worst: take the worst order of the jobs, not the best one.
    :param interference: factors by number of jobs; empty for none.
    """

    def __init__(
        self,
        stages: Sequence[Stages],
        solo: Sequence[float],
        worst: bool,
        interference: dict[int, float],
    ) -> None:
        profiles = sorted(set(stages))
        code = {profile: number for number, profile in enumerate(profiles)}
        self.profile = [code[job] for job in stages]
        self._profiles = profiles
        self._solo = solo
        self._pick = max if worst else min
        self._interference = interference
        self._known: dict[tuple[int, ...], float] = {}

    def of(self, group: Sequence[int]) -> float:
        """Return the seconds of an iteration of these jobs."""
        if len(group) == 1:
            return self._solo[group[0]]
        mixture = tuple(sorted([self.profile[job] for job in group]))
        found = self._known.get(mixture)
        if found is None:
            found = self._known[mixture] = self._compute(mixture)
        return found

    def _compute(self, mixture: tuple[int, ...]) -> float:
        stages = [self._profiles[number] for number in mixture]
        times = [round_time(order) for order in set(permutations(stages))]
        if len(stages) == 2:
            times.append(_half_round_apart(*stages))
        return self._pick(times) * self._interference.get(len(stages), 1.0)
