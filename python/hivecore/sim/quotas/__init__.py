"""How a tree of quotas stands, as a table and as a picture."""

from hivecore.sim.quotas.picture import save_quota_picture
from hivecore.sim.quotas.rows import QuotaRow, quota_rows
from hivecore.sim.quotas.table import quota_table

__all__ = ["QuotaRow", "quota_rows", "quota_table", "save_quota_picture"]
