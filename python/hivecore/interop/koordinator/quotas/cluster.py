"""A cluster's elastic quotas with the pods in them and the nodes below them."""

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
    """What the objects of a cluster say.

    :param quotas: as they are declared.
    :param tree: these with the pods in them, each an owner "namespace/name".
    :param free: the names of pods that belong to no quota, sorted.
    :param nodes: how many nodes there are.
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
    """The quotas, pods and nodes of a cluster as a tree: as a scheduler finds them at its start.

    :param objects: of the kinds ElasticQuota, Pod and Node as plain data: several, a List, or YAML
        text. Others are not looked at.
    :param total: what the default tree has; ``None``: what the nodes can allocate, if there are
        any.
    :param pods_in_parents: as of `pod_quota`.
    :param options: of `hivecore.quotas.QuotaTree`.
    :raises ValueError: as of `read_elastic_quotas` and `quota_request_of`; a node or a pod is there
        twice; quotas do not go together.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: it is text, and PyYAML is not there.

    A pod that has a node runs, in the order of starting times; one that has none is pending; one
    that has ended is nothing. Nodes that are being deleted do not count. Of the nodes only
    resources count that a quota has a maximum of. Source: Koordinator,
    ``pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go``.

    >>> from hivecore.interop.koordinator import read_quota_cluster
    >>> found = read_quota_cluster([
    ...     {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "32"}}},
    ...     {"kind": "ElasticQuota", "metadata": {"name": "lab"}, "spec": {"max": {"cpu": 40}}},
    ...     {"kind": "Pod",
    ...      "metadata": {"name": "p", "labels": {"quota.scheduling.koordinator.sh/name": "lab"}},
    ...      "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": 2}}}]}},
    ... ])
    >>> status = found.tree.status("lab")
    >>> found.tree.total(), status.used, status.runtime
    ({'cpu': 32000}, {'cpu': 2000}, {'cpu': 2000})
    """
    documents = objects_of(objects, "objects")
    quotas = quotas_among(documents)
    resources = {dimension for one in quotas.quotas for dimension, _ in one.max}
    nodes = [one for one in documents if one["kind"].text() == "Node"]
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
    for _, request in sorted(running, key=lambda one: one[0]):
        tree.recover(request, 1)
    tree.submit_many(pending)
    return QuotaCluster(quotas, tree, tuple(sorted(free)), len(nodes))


def _moment(since: object) -> float:
    """A time as a number to sort by; what is no time comes first.

    YAML makes a time of one that is not in quotes.
    """
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            return -inf
    if not isinstance(since, datetime):
        return -inf
    return (since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp()


def _allocatable(nodes: Iterable[Field], resources: set[str]) -> dict[str, int]:
    """What the nodes have in all of these resources."""
    found: dict[str, int] = {}
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
                    found[resource] = found.get(resource, 0) + amount
    return found
