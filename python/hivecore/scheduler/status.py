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
        job starts. For a reserved job: where it will start.
    :param since: the time of its start in seconds; ``None``: it does not run.
    :param victims: for a reserved job, or failed pods of a running one, the jobs that have to stop,
        and the pods that have to leave other jobs, as "job/role/index".
    :param for_job: the job that it has to stop for; "": none.
    :param has_stopped: whether it has stopped for that job.
    :param shares: the jobs on the same GPUs with itself, the holder first; empty: it does not
        share.
    :param is_ending: whether it ends when its resources are freed.
    :param refusal: why it waits, as in the last `Wait`; ``None``: there was none since it was
        submitted or stopped.
    :param lost: failed pods, as "role/index", that wait to be placed again while the others run.
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
