"""What jobs have done, and when they are done: to be given to `hivecore.sim.simulate`."""

from hivecore.sim.progress.base import Incident, JobFails, NodeChanges, Progress

__all__ = ["Incident", "JobFails", "NodeChanges", "Progress"]
