"""Twin of method "exact" of `hivecore.interleaving.group_jobs`, which finds the best grouping.

It tries all groupings, so it is for a dozen jobs at most.
"""

from functools import cache
from itertools import combinations

from hivecore.reference.interleaving.candidates import Candidates

__all__ = ["best_value"]


def best_value(
    jobs: Candidates,
    gpus: list[int],
    capacity: int,
    largest: int,
    gain: bool,
    optional: frozenset[int] = frozenset(),
) -> tuple[int, float]:
    """Return the number of GPUs for groups, and the greatest value of groups that need no more.

    :param capacity: GPUs; if no grouping needs so few, the least possible number.
    :param optional: jobs that may be left out.
    """
    value = jobs.progress if gain else jobs.efficiency

    @cache
    def best(left: frozenset[int]) -> dict[int, float]:
        """Return GPUs -> the best value of groups of these jobs."""
        if not left:
            return {0: 0.0}
        first = min(left)
        values: dict[int, float] = dict(best(left - {first})) if first in optional else {}
        others = [job for job in left if gpus[job] == gpus[first] and job != first]
        for size in range(min(largest, len(others) + 1)):
            for partners in combinations(others, size):
                group = jobs.by_type([first, *partners])
                if len(group) > 1 and not jobs.is_allowed(group):
                    continue
                worth = value(group) * gpus[first]
                for needed, rest in best(left.difference(group)).items():
                    total = needed + gpus[first]
                    values[total] = max(values.get(total, rest + worth), rest + worth)
        return values

    values = best(frozenset(range(len(gpus))))
    room = max(capacity, min(values))
    return room, max(worth for needed, worth in values.items() if needed <= room)
