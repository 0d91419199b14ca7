"""A cluster's elastic quotas with its pods and nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

from hivecore.interop.koordinator.quotas.amounts import read_resources
from hivecore.interop.koordinator.quotas.elastic_quotas import ElasticQuotas, quotas_among
from hivecore.interop.koordinator.quotas.pods import quota_request_of
from hivecore.interop.kubernetes.documents import Objects, named_object, objects_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import has_ended, node_of, owner_name
from hivecore.quotas import QuotaRequest, QuotaTree

__all__ = ["QuotaCluster", "read_quota_cluster"]


@dataclass(frozen=True, slots=True)
class QuotaCluster:
    """The quotas, pods and nodes of a cluster.

    :param quotas: as declared.
    :param tree: the quotas in use by the pods; each pod is an owner "namespace/name".
    :param free: sorted names of pods without a quota.
    :param nodes: the number of nodes.
    """

    quotas: ElasticQuotas
    tree: QuotaTree
    free: tuple[str, ...]
    nodes: int


def read_quota_cluster(
    objects: Objects,
    *,
    total: Mapping[str, int] | None = None,
    pods_in_parents: bool = False,
    **options: Any,
) -> QuotaCluster:
    """Return the quotas of a cluster as a tree in which its pods run or wait.

    :param objects: ElasticQuota, Pod and Node objects as plain data: several, a List, or YAML text.
        Other kinds are ignored.
    :param total: what the default tree has; by default what the nodes can allocate, if there are
        nodes.
    :param pods_in_parents: as in `pod_quota`.
    :param options: of `hivecore.quotas.QuotaTree`.
    :raises ValueError: as in `read_elastic_quotas` and `quota_request_of`; a node or a pod is
        listed twice; quotas contradict each other.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is needed to read text.

    Pods with a node run, in the order of their starting times; pods without a node are pending;
    pods that have ended are ignored, as are nodes that are being deleted. Of the nodes, only
    resources count for which a quota has a maximum. Source: Koordinator,
    ``pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go``.

    >>> from hivecore.interop.koordinator import read_quota_cluster
    >>> cluster = read_quota_cluster([
    ...     {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "32"}}},
    ...     {"kind": "ElasticQuota", "metadata": {"name": "lab"}, "spec": {"max": {"cpu": 40}}},
    ...     {"kind": "Pod",
    ...      "metadata": {"name": "p", "labels": {"quota.scheduling.koordinator.sh/name": "lab"}},
    ...      "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": 2}}}]}},
    ... ])
    >>> status = cluster.tree.status("lab")
    >>> cluster.tree.total(), status.used, status.runtime
    ({'cpu': 32000}, {'cpu': 2000}, {'cpu': 2000})
    """
    documents = objects_of(objects, "objects")
    quotas = quotas_among(documents)
    resources = {dimension for quota in quotas.quotas for dimension, _ in quota.max}
    nodes = [document for document in documents if document["kind"].text() == "Node"]
    has = _allocatable(nodes, resources)
    if total is None and nodes:
        total = has
    tree = quotas.tree(total, **options)
    running: list[tuple[float, QuotaRequest]] = []
    pending: list[QuotaRequest] = []
    free: list[str] = []
    seen: set[str] = set()
    for document in documents:
        if document["kind"].text() != "Pod":
            continue
        with named_object(document, "Pod"):
            if has_ended(document):
                continue
            name = owner_name(document)
            if name in seen:
                raise document["metadata"]["name"].error(f"{name!r} is there twice")
            seen.add(name)
            bound, since = node_of(document), document["status"]["startTime"].value
        request = quota_request_of(document.value, quotas, pods_in_parents=pods_in_parents)
        if request is None:
            free.append(name)
        elif bound:
            running.append((_moment(since), request))
        else:
            pending.append(request)
    for _, request in sorted(running, key=lambda pair: pair[0]):
        tree.recover(request, 1)
    tree.submit_many(pending)
    return QuotaCluster(quotas, tree, tuple(sorted(free)), len(nodes))


def _moment(since: object) -> float:
    """Return a time, a text or what YAML makes of it, as a sort key; others come first."""
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            return -inf
    if not isinstance(since, datetime):
        return -inf
    return (since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp()


def _allocatable(nodes: Iterable[Field], resources: set[str]) -> dict[str, int]:
    """Return the sum of these resources over all nodes."""
    amounts: dict[str, int] = {}
    seen: set[str] = set()
    for node in nodes:
        with named_object(node, "Node"):
            name = node["metadata"]["name"].name()
            if name in seen:
                raise node["metadata"]["name"].error(f"{name!r} is there twice")
            seen.add(name)
            if "deletionTimestamp" in node["metadata"]:
                continue
            for resource, amount in read_resources(node["status"]["allocatable"]).items():
                if resource in resources:
                    amounts[resource] = amounts.get(resource, 0) + amount
    return amounts
