"""Elastic quotas: what each tenant may use now, who is admitted, who has to give back."""

from hivecore.quotas.quota import Quota
from hivecore.quotas.quota_decision import QuotaDecision, QuotaGrant
from hivecore.quotas.quota_request import QuotaRequest
from hivecore.quotas.quota_status import QuotaStatus
from hivecore.quotas.quota_tree import Limit, QuotaTree
from hivecore.quotas.rules import RuleViolation, quota_rules
from hivecore.quotas.water_fill import WaterFillRound, water_fill, water_fill_rounds

__all__ = [
    "Limit",
    "Quota",
    "QuotaDecision",
    "QuotaGrant",
    "QuotaRequest",
    "QuotaStatus",
    "QuotaTree",
    "RuleViolation",
    "WaterFillRound",
    "quota_rules",
    "water_fill",
    "water_fill_rounds",
]
