"""The status of a job."""

from hivecore._record import Record
from hivecore.decisions import Refusal
from hivecore.scheduler.actions import PlacedPod

__all__ = ["JobStatus"]


class JobStatus(Record, frozen=True):
    """The status of a job.

    :param state: "pending", "reserved" (its victims have to stop first), "running", or "lent" (it
        runs on idle cells).
    :param pods: the pods that hold resources. A victim that has stopped holds them until the other
        job starts. If it is reserved: the places at which it is to start.
    :param since: the time of its start, in seconds; ``None``: it does not run.
    :param victims: the jobs that have to stop for it, while it is reserved, and the pods by which
        others have to shrink, as "job/role/index".
    :param for_job: the job for which it has to stop; "": it does not have to.
    :param has_stopped: whether it has stopped for that job.
    :param shares: the jobs on the same GPUs, itself among them, the holder first; none: it shares
        with no job.
    :param is_ending: whether the scheduler forgets it when its resources are freed.
    :param refusal: why it waits, as in the last `Wait`; ``None``: there was none since it came or
        stopped.
    :param lost: the pods that have failed, as "role/index", and wait to be placed again while the
        others run.
    """

    state: str
    pods: tuple[PlacedPod, ...] = ()
    since: float | None = None
    victims: tuple[str, ...] = ()
    for_job: str = ""
    has_stopped: bool = False
    is_ending: bool = False
    shares: tuple[str, ...] = ()
    refusal: Refusal | None = None
    lost: tuple[str, ...] = ()
