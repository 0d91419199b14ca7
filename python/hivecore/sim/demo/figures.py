"""The figures of a configuration."""

from dataclasses import dataclass
from typing import Annotated

from hivecore.sim import columns

__all__ = ["DemoFigures"]


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """What a tenant, or all tenants together, got from a configuration; times in seconds.

    :param jobs: their number.
    :param mean_completion: mean time from submission to end.
    :param p99_completion: its 99th percentile, interpolated linearly.
    :param mean_queueing: mean time from submission to the start of the completed run; preempted
        runs count as waiting.
    :param utilisation: useful work until the last submission, divided by the capacity of the owned
        GPUs. Useful work is GPUs times seconds at full speed, without lost work, spread evenly over
        the completed run. Jobs that share GPUs or wait for data count with the work that they get
        done.
    :param later: jobs that start later than alone: broken guarantees.
    :param max_excess: the largest such delay; 0 if there is none.
    :param ends_later: jobs that end later than alone.
    :param lost_gpu_hours: work lost by preempted runs.
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
