"""Replays of tenants, shown: `tenants_report` and `sweep_report`, and their commands."""

from hivecore.sim.tenants.report import sweep_report, tenants_report

__all__ = ["sweep_report", "tenants_report"]
