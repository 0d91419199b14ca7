"""A `hivecore.scheduler.Scheduler` over HTTP: events in, actions out."""
