"""kube-scheduler's extender over a `hivecore.scheduler.Scheduler`: gangs of pods are its jobs."""
