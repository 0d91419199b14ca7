"""The state of a quota tree, as a table and as a picture."""

from hivecore.sim.quotas.report import quota_findings, quota_report, quota_rows
from hivecore.sim.quotas.row import QuotaRow

__all__ = ["QuotaRow", "quota_findings", "quota_report", "quota_rows"]
