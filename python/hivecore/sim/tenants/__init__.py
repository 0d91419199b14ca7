"""Reports and commands for replays of tenants: `tenants_report` and `sweep_report`."""

from hivecore.sim.tenants.report import sweep_report, tenants_report

__all__ = ["sweep_report", "tenants_report"]
