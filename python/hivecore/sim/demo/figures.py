"""What a configuration brought, in figures."""

from dataclasses import dataclass
from typing import Annotated

from hivecore.sim import columns

__all__ = ["DemoFigures"]


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """What one tenant, or all of them, got from one configuration; times in seconds.

    :param jobs: how many.
    :param mean_completion: from submission to end, mean over all jobs.
    :param p99_completion: the 99th percentile of it, interpolated linearly.
    :param mean_queueing: from submission to the begin of the run that was completed: runs that were
        preempted count as waiting.
    :param utilisation: useful work until the last submission / what the owned GPUs could have done.
        Useful is what a job does that it does not lose: GPUs times seconds at full speed, spread
        evenly over the run that it completed. Jobs that share GPUs count each with its own work,
        those that wait for data with what they get done.
    :param later: jobs that start later than alone: broken guarantees.
    :param max_excess: by how much, at most; 0 if none does.
    :param ends_later: jobs that end later than alone.
    :param lost_gpu_hours: work that preempted runs lost.
    """

    jobs: Annotated[int, columns.count()]
    mean_completion: Annotated[float, columns.time("mean\ncompletion")]
    p99_completion: Annotated[float, columns.time("p99\ncompletion")]
    mean_queueing: Annotated[float, columns.time("mean\nqueueing")]
    utilisation: Annotated[float, columns.share("useful\nwork")]
    later: Annotated[int, columns.count("start\nlater")]
    max_excess: Annotated[float, columns.time("by up\nto")]
    ends_later: Annotated[int, columns.count("end\nlater")]
    lost_gpu_hours: Annotated[float, columns.Column()]
