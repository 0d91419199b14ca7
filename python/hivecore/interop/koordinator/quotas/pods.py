"""Reads a pod's quota and its request."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_bool, as_mapping, as_name
from hivecore.interop.koordinator.gangs.pods import read_gang_pod
from hivecore.interop.koordinator.quotas.amounts import in_units
from hivecore.interop.koordinator.quotas.elastic_quotas import ElasticQuotas
from hivecore.interop.koordinator.quotas.names import (
    DEFAULT_QUOTA,
    PREEMPTIBLE,
    QUOTA_NAME,
)
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name, pod_requests, pods_of, priority_of
from hivecore.quotas import QuotaRequest

__all__ = ["pod_quota", "quota_request_of"]


def pod_quota(
    pod: Mapping[str, Any], quotas: ElasticQuotas, *, pods_in_parents: bool = False
) -> str | None:
    """Return the quota that a pod belongs to; ``None`` if it has none and no limit.

    The first that applies: the quota in its label (``koordinator-default-quota`` if that does not
    exist); the quota with the name of its namespace, inside that namespace; the quota whose
    annotation lists its namespace; ``koordinator-default-quota``.

    :param pod: the Kubernetes object as plain data.
    :param pods_in_parents: whether parents may have pods.
    :raises ValueError: the quota is a parent; the message names the pod.
    :raises TypeError: a field has a wrong type.

    Source: Koordinator, ``pkg/webhook/elasticquota/pod_check.go``. Pods of ``kube-system`` belong
    to ``koordinator-system-quota`` only if its namespaces say so.

    >>> from hivecore.interop.koordinator import ElasticQuotas, pod_quota
    >>> from hivecore.quotas import Quota
    >>> quotas = ElasticQuotas((Quota("vision", max={"cpu": 8000}),), namespaces={"img": "vision"})
    >>> pod_quota({"metadata": {"name": "p", "namespace": "img"}}, quotas)
    'vision'
    """
    _check_quotas(quotas)
    allowed = as_bool(pods_in_parents, "pods_in_parents")
    document = Field(as_mapping(pod, "pod"))
    with named_object(document, "Pod"):
        return _quota_of(document, quotas, allowed)


def _quota_of(pod: Field, quotas: ElasticQuotas, pods_in_parents: bool) -> str | None:
    metadata = pod["metadata"]
    label = metadata["labels"][QUOTA_NAME]
    if label.absent:
        name = quotas.namespaces.get(metadata["namespace"].text() or "default", "")
    else:
        name = label.text()
    if name not in quotas.by_name:
        name = DEFAULT_QUOTA
    if name not in quotas.by_name:
        return None
    if name in quotas.parents and not pods_in_parents:
        raise (metadata["namespace"] if label.absent else label).error(
            f"quota {name!r} is a parent, and parents have no pods"
        )
    return name


def quota_request_of(
    pods: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    quotas: ElasticQuotas,
    *,
    name: str | None = None,
    min_count: int | None = None,
    pods_in_parents: bool = False,
) -> QuotaRequest | None:
    """Return what a pod, or pods that start together, ask of their quota; ``None`` without a quota.

    :param pods: a Pod object as plain data, or several equal ones, which become one owner.
    :param name: the owner; by default "namespace/name" of a single pod, or "namespace/gang" of
        several.
    :param min_count: the number of pods with which it can start; by default all.
    :param pods_in_parents: as in `pod_quota`.
    :raises ValueError: the pods differ or have no gang in common, the quota is a parent, or a value
        is out of range. The message names the pod and has the path.
    :raises TypeError: a field has a wrong type.

    A pod's request is the sum of its containers, or of an init container if that needs more, plus
    the pod's overhead. Sums are rounded up to whole units (thousandths of a core for ``cpu``).
    Resources without a maximum in the quota are left out. Source: Koordinator, ``PodRequests``,
    ``IsPodNonPreemptible``.

    >>> from hivecore.interop.koordinator import ElasticQuotas, quota_request_of
    >>> from hivecore.quotas import Quota
    >>> quotas = ElasticQuotas((Quota("vision", max={"cpu": 8000}),))
    >>> pod = {
    ...     "metadata": {"name": "p", "labels": {"quota.scheduling.koordinator.sh/name": "vision"}},
    ...     "spec": {"priority": 5, "containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
    ... }
    >>> request = quota_request_of(pod, quotas)
    >>> request.name, request.quota, request.amounts, request.priority
    ('default/p', 'vision', (('cpu', 500),), 5)
    """
    _check_quotas(quotas)
    allowed = as_bool(pods_in_parents, "pods_in_parents")
    alone = isinstance(pods, Mapping)
    documents = [Field(pod) for pod in pods_of(pods)]
    facts = [_facts(document, quotas, allowed) for document in documents]
    for document, fact in zip(documents, facts, strict=True):
        for what, value in fact.items():
            if value != facts[0][what]:
                with named_object(document, "Pod"):
                    raise ValueError(f"its {what} is not that of the first pod")
    quota = facts[0]["quota"]
    if name is None:
        with named_object(documents[0], "Pod"):
            name = owner_name(documents[0]) if alone else _gang_name(documents)
    if quota is None:
        return None
    with named_object(documents[0], "Pod"):
        return QuotaRequest(
            as_name(name, "name"),
            quota,
            facts[0]["request"],
            count=len(documents),
            min_count=min_count,
            priority=facts[0]["priority"],
            preemptible=facts[0]["preemptible label"],
        )


def _facts(pod: Field, quotas: ElasticQuotas, pods_in_parents: bool) -> dict[str, Any]:
    """Return what pods of one owner must have in common, by the words of messages."""
    with named_object(pod, "Pod"):
        name = _quota_of(pod, quotas, pods_in_parents)
        managed = dict(quotas.by_name[name].max) if name is not None else {}
        requests = {
            k: in_units(k, amount) for k, amount in pod_requests(pod).items() if k in managed
        }
        return {
            "quota": name,
            "request": requests,
            "priority": priority_of(pod),
            "preemptible label": pod["metadata"]["labels"][PREEMPTIBLE].text() != "false",
        }


def _gang_name(pods: list[Field]) -> str:
    names = {member and member.gang for member in (read_gang_pod(pod.value) for pod in pods)}
    name = names.pop()
    if names or not name:
        raise ValueError("the pods are of no one gang: give the owner a name")
    return name


def _check_quotas(quotas: object) -> None:
    if not isinstance(quotas, ElasticQuotas):
        raise TypeError(f"quotas must be ElasticQuotas, not {type(quotas).__name__}")
