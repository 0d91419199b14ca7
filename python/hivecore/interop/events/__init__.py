"""A `hivecore.scheduler.Scheduler` over HTTP: clients send events and get actions."""
