"""A kube-scheduler extender for a `hivecore.scheduler.Scheduler`; each gang of pods is a job."""
