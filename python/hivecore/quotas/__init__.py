"""Elastic quotas: how much each tenant may use now, and which owners are admitted or evicted."""

from hivecore.quotas.explanation import LimitChange
from hivecore.quotas.overuse_monitor import OveruseMonitor
from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_decision import QuotaDecision, QuotaGrant
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.quota_status import QuotaStatus
from hivecore.quotas.quota_tree import Limit, QuotaTree
from hivecore.quotas.rules import RuleViolation, quota_rules
from hivecore.quotas.runtime_trace import RuntimeLevel
from hivecore.quotas.usage_history import UsageHistory
from hivecore.quotas.water_fill import WaterFillRound, water_fill, water_fill_rounds

__all__ = [
    "Limit",
    "LimitChange",
    "OveruseMonitor",
    "Quota",
    "QuotaDecision",
    "QuotaGrant",
    "QuotaRequest",
    "QuotaStatus",
    "QuotaTree",
    "RuleViolation",
    "RuntimeLevel",
    "UsageHistory",
    "WaterFillRound",
    "quota_rules",
    "water_fill",
    "water_fill_rounds",
]
