"""Queues of tenants: which job is next."""

from hivecore.queues.namespace_quota import NamespaceQuota
from hivecore.queues.queued_job import Capacity, Departure, QueuedJob, Standing
from hivecore.queues.tenant_queues import Blocking, TenantOrder, TenantQueues

__all__ = [
    "Blocking",
    "Capacity",
    "Departure",
    "NamespaceQuota",
    "QueuedJob",
    "Standing",
    "TenantOrder",
    "TenantQueues",
]
