"""Training jobs under policies that stop and restart them, or let several share GPUs.

`schedule` runs jobs on nodes of 8 GPUs under FIFO, SRTF, SRSF, Tiresias, Muri-S or Muri-L, by the
rules of the Muri authors' published simulator, and to the last digit with its matching
(`MuriOptions`). FIFO is a queue, the other policies are orders of a `hivecore.scheduler.Scheduler`.
Jobs and nodes may fail. `job_figures` returns completion times.
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
