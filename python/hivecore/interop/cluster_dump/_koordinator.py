"""Reads Koordinator's ElasticQuotas."""

from collections.abc import Mapping
from typing import Any

from hivecore.interop.cluster_dump._objects import Dump
from hivecore.interop.cluster_dump._queues import Queues, filled
from hivecore.interop.koordinator import pod_quota, read_elastic_quotas
from hivecore.quotas import Quota

__all__ = ["ELASTIC_QUOTA", "read_koordinator"]

ELASTIC_QUOTA = "ElasticQuota.scheduling.sigs.k8s.io"


def read_koordinator(dump: Dump, total: Mapping[str, int]) -> Queues:
    """Return the quotas and their namespaces.

    :param total: the resources of the nodes.
    """
    objects = [item.value for item in dump.kinds[ELASTIC_QUOTA]]
    elastic = read_elastic_quotas(objects)
    for quota in elastic.quotas:
        if quota.tree:
            dump.remark("ElasticQuota", quota.name, "its tree is read as a part of the default one")
    quotas = [_renamed(dump, quota) for quota in elastic.quotas]
    names = dict.fromkeys(name for quota in quotas for name, _ in quota.max)
    users = {quota.name: quota.name for quota in quotas} | dict(elastic.namespaces)
    return Queues(
        "Koordinator",
        quotas,
        filled(total, names),
        limit="runtime",
        users=users,
        of_pod=lambda pod: pod_quota(pod, elastic, pods_in_parents=True),
    )


def _renamed(dump: Dump, quota: Quota) -> Quota:
    def renamed(amounts: Any) -> dict[str, Any]:
        return {dump.named(name): amount for name, amount in amounts}

    weight = None if quota.weight is None else renamed(quota.weight)
    return quota.replace(max=renamed(quota.max), min=renamed(quota.min), weight=weight, tree="")
