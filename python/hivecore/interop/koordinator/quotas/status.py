"""Writes the state of a quota on its ElasticQuota object."""

from typing import Any

from hivecore._thousandths import Amount, exact
from hivecore.interop.koordinator.quotas.amounts import json_resources, write_amount
from hivecore.interop.koordinator.quotas.names import (
    CHILD_REQUEST,
    NON_PREEMPTIBLE_REQUEST,
    NON_PREEMPTIBLE_USED,
    REQUEST,
    RUNTIME,
)
from hivecore.quotas import QuotaStatus, QuotaTree

_Vector = dict[str, Amount]

__all__ = ["elastic_quota_status", "elastic_quota_statuses"]


def elastic_quota_status(tree: QuotaTree, name: str) -> dict[str, Any]:
    """Return a merge patch with the state of a quota.

    The annotations are ``runtime`` (what the quota may use), ``request`` (what its pods ask for, at
    least the minimum if it does not lend), ``child-request`` (the same without the minimum),
    ``non-preemptible-request`` and ``non-preemptible-used``. The status has ``used``.

    :param tree: the tree of the quota.
    :param name: the quota.
    :raises KeyError: there is no such quota.
    :raises TypeError: ``tree`` is not a QuotaTree.

    ``guaranteed`` and ``allocated``, which an option of Koordinator adds, are not written. Cost: as
    for `elastic_quota_statuses`. Source: Koordinator,
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
    _check_tree(tree)
    status = tree.status(name)
    own, firm = _sums(tree)
    return _patch(status, own[name], firm[name])


def elastic_quota_statuses(tree: QuotaTree) -> dict[str, dict[str, Any]]:
    """Return `elastic_quota_status` of all quotas, by name.

    :param tree: the tree of the quotas.
    :raises TypeError: ``tree`` is not a QuotaTree.

    Cost: O(owners + quotas) times the depth of the tree.

    >>> from hivecore.interop.koordinator import elastic_quota_statuses
    >>> from hivecore.quotas import Quota, QuotaTree
    >>> tree = QuotaTree([Quota("lab", max={"cpu": 8000})], total={"cpu": 6000})
    >>> elastic_quota_statuses(tree)["lab"]["status"]
    {'used': {'cpu': '0'}}
    """
    _check_tree(tree)
    own, firm = _sums(tree)
    return {name: _patch(tree.status(name), own[name], firm[name]) for name in tree.quotas}


def _check_tree(tree: object) -> None:
    if not isinstance(tree, QuotaTree):
        raise TypeError(f"tree must be a QuotaTree, not {type(tree).__name__}")


def _sums(tree: QuotaTree) -> tuple[dict[str, _Vector], dict[str, _Vector]]:
    """Return each quota's request without its minimum, and the non-preemptible part of it."""
    quotas = {name: tree.quota(name) for name in tree.quotas}
    own: dict[str, _Vector] = {
        name: dict.fromkeys(dict(quota.max), 0) for name, quota in quotas.items()
    }
    firm = {name: dict(zeros) for name, zeros in own.items()}
    for name, quota in quotas.items():
        if quota.parent:
            _add(own[quota.parent], tree.status(name).limited_request)
    for owner in tree.owners:
        request = tree.request(owner)
        managed = own[request.quota]
        amounts: _Vector = {key: request.count * n for key, n in request.amounts if key in managed}
        _add(managed, amounts)
        name = "" if request.preemptible else request.quota
        while name:
            _add(firm[name], amounts)
            name = quotas[name].parent
    return own, firm


def _patch(status: QuotaStatus, own: _Vector, firm: _Vector) -> dict[str, Any]:
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


def _add(sums: _Vector, amounts: _Vector) -> None:
    for dimension in sums.keys() & amounts.keys():
        sums[dimension] = exact(sums[dimension] + amounts[dimension])
