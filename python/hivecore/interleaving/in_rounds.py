"""Groups by rounds of matchings and a local search: one call of the kernel."""

from hivecore import _interleaving
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import Groups

__all__ = ["FULL_SEARCH", "MOST_IN_MATRIX", "NO_SEARCH", "group_in_rounds"]

NO_SEARCH = 0
FULL_SEARCH = 2**63 - 1
MOST_IN_MATRIX = 4096
"""Groups of a bucket; for more, weights are not stored where they can be computed quickly."""


def group_in_rounds(
    jobs: Candidates,
    capacity: int,
    gain: bool,
    effort: int,
    start: Groups,
    *,
    least_waste_first: bool = True,
) -> list[list[int]]:
    """The groups; arguments are the checked ones of `group_jobs`.

    :param effort: how many orders of jobs a local search after the rounds may try.
    :param least_waste_first: which matched groups merge first; if not, those of the first bucket.
    """
    starts, members = _interleaving.group(
        jobs.durations,
        jobs.gpus,
        jobs.solo,
        jobs.rank,
        jobs.memory,
        jobs.model,
        jobs.best,
        jobs.factors,
        jobs.gpu_memory,
        jobs.max_slowdown,
        gain,
        capacity,
        least_waste_first,
        effort,
        *start,
        MOST_IN_MATRIX,
    )
    return Groups(starts, members).lists()
