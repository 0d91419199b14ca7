"""The progress of jobs, for `hivecore.sim.simulate`."""

from hivecore.sim.progress.base import Incident, JobFails, NodeChanges, Progress

__all__ = ["Incident", "JobFails", "NodeChanges", "Progress"]
