"""How a tree of quotas stands, as a table and as a picture."""

from hivecore.sim.quotas.report import QuotaRow, quota_findings, quota_report, quota_rows

__all__ = ["QuotaRow", "quota_findings", "quota_report", "quota_rows"]
