"""Training jobs under policies that stop and restart them, or let several share GPUs.

`schedule` runs jobs on nodes of 8 GPUs under FIFO, SRTF, SRSF, Tiresias, Muri-S or Muri-L, by the
rules of the simulator that Muri's authors published, and to its last digit where `MuriOptions`
names its matching. They are orders of one `hivecore.scheduler.Scheduler`, and FIFO is its queue.
Jobs and nodes may fail meanwhile. `job_figures` turns the outcome into completion times.
"""

from hivecore.sim.preemptive.failures import JobFailure, NodeFailure, RandomFailures
from hivecore.sim.preemptive.history import Span
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.muri import MuriOptions
from hivecore.sim.preemptive.report import JobFigures, job_figures
from hivecore.sim.preemptive.schedule import JOB_POLICIES, schedule
from hivecore.sim.preemptive.training import JobOutcome

__all__ = [
    "JOB_POLICIES",
    "JobFailure",
    "JobFigures",
    "JobOutcome",
    "Jobs",
    "MuriOptions",
    "NodeFailure",
    "RandomFailures",
    "Span",
    "job_figures",
    "schedule",
]
