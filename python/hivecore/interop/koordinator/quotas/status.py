"""What Koordinator writes on an ElasticQuota: how the quota stands."""

from typing import Any

from hivecore.interop.koordinator.quotas.amounts import json_resources, write_amount
from hivecore.interop.koordinator.quotas.names import (
    CHILD_REQUEST,
    NON_PREEMPTIBLE_REQUEST,
    NON_PREEMPTIBLE_USED,
    REQUEST,
    RUNTIME,
)
from hivecore.quotas import QuotaTree

__all__ = ["elastic_quota_status"]


def elastic_quota_status(tree: QuotaTree, name: str) -> dict[str, Any]:
    """The part of an ElasticQuota that tells how it stands, for a merge patch of the object.

    Annotations have what it may use (``runtime``), what is asked for (``request``, at least the
    minimum if it does not lend, and ``child-request``, without that), and of this what cannot be
    preempted (``non-preemptible-request``, ``non-preemptible-used``); the status has what is used.

    :param tree: where the quota is.
    :param name: the quota.
    :raises KeyError: there is no such quota.
    :raises TypeError: ``tree`` is no QuotaTree.

    The annotations ``guaranteed`` and ``allocated``, of an option of Koordinator's, are not
    written. Cost: O(owners + quotas). Source: Koordinator,
    ``pkg/scheduler/plugins/elasticquota/controller.go``.

    >>> from hivecore.interop.koordinator import elastic_quota_status
    >>> from hivecore.quotas import Quota, QuotaRequest, QuotaTree
    >>> tree = QuotaTree([Quota("lab", max={"cpu": 8000})], total={"cpu": 6000})
    >>> tree.recover(QuotaRequest("train", "lab", {"cpu": 1500}, count=5), 2)
    >>> patch = elastic_quota_status(tree, "lab")
    >>> patch["metadata"]["annotations"]["quota.scheduling.koordinator.sh/runtime"]
    '{"cpu":"6"}'
    >>> patch["status"]
    {'used': {'cpu': '3'}}
    """
    if not isinstance(tree, QuotaTree):
        raise TypeError(f"tree must be a QuotaTree, not {type(tree).__name__}")
    status = tree.status(name)
    dimensions = status.runtime
    own, firm = dict.fromkeys(dimensions, 0), dict.fromkeys(dimensions, 0)
    below = {name}
    for one in tree.quotas:  # parents before their children
        parent = tree.quota(one).parent
        if parent in below:
            below.add(one)
        if parent == name:
            _add(own, tree.status(one).limited_request)
    for owner in tree.owners:
        request = tree.request(owner)
        if request.quota in below:
            mine = dict(tree.quota(request.quota).max)
            amounts = {key: request.count * n for key, n in request.amounts if key in mine}
            if request.quota == name:
                _add(own, amounts)
            if not request.preemptible:
                _add(firm, amounts)
    annotations = {
        RUNTIME: status.runtime,
        REQUEST: status.request,
        CHILD_REQUEST: own,
        NON_PREEMPTIBLE_REQUEST: firm,
        NON_PREEMPTIBLE_USED: status.non_preemptible,
    }
    return {
        "metadata": {
            "annotations": {key: json_resources(value) for key, value in annotations.items()}
        },
        "status": {"used": {key: write_amount(key, status.used[key]) for key in status.used}},
    }


def _add(sums: dict[str, int], amounts: dict[str, int]) -> None:
    for dimension in sums.keys() & amounts.keys():
        sums[dimension] += amounts[dimension]
