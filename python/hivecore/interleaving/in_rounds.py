"""Groups by rounds of matchings, and by a local search after them: one call of the kernel."""

from hivecore import _interleaving
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import Groups

__all__ = ["group_in_rounds"]


def group_in_rounds(
    jobs: Candidates, capacity: int, gain: bool, merge_order: str, locally: bool, start: Groups
) -> list[list[int]]:
    """The groups; arguments are those of `group_jobs`, checked."""
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
        merge_order == "waste",
        locally,
        *start,
    )
    return Groups(starts, members).lists()
