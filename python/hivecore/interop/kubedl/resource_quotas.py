"""Reads ResourceQuotas for the quota filter of queues."""

from math import ceil, floor

from hivecore.interop.kubedl.amounts import MOST, in_units
from hivecore.interop.kubernetes.documents import Objects, named_object, objects_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name

__all__ = ["read_resource_quotas"]


def read_resource_quotas(objects: Objects) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """Return (limits, use) by namespace, for `hivecore.queues.NamespaceQuota.set_quota`.

    :param objects: ResourceQuotas: one, several, lists of them, or YAML text.
    :return: in the order of the objects.
    :raises ValueError: the kind is another, a name is missing, or an amount is negative or not a
        quantity. The message names the object and has the path.
    :raises TypeError: a field has a wrong type.

    A limit of "requests.cpu" is one of "cpu", and so on, as Kubernetes can limit devices in no
    other way. Of several limits of a resource, the one that leaves least counts. CPUs are in
    thousandths; limits are rounded down and use up. Scopes are ignored. Source: KubeDL,
    ``plugins/quota``, which compares "requests.nvidia.com/gpu" with "nvidia.com/gpu" and so never
    limits devices.

    >>> from hivecore.interop.kubedl import read_resource_quotas
    >>> quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "rank"}}
    >>> quota["spec"] = {"hard": {"requests.nvidia.com/gpu": 8, "cpu": "1500m"}}
    >>> quota["status"] = {"used": {"requests.nvidia.com/gpu": 3}}
    >>> read_resource_quotas(quota)
    {'rank': ({'nvidia.com/gpu': 8, 'cpu': 1500}, {'nvidia.com/gpu': 3, 'cpu': 0})}
    """
    quotas: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for document in objects_of(objects, "objects"):
        with named_object(document, "ResourceQuota"):
            if document["kind"].text() != "ResourceQuota":
                raise document["kind"].error("must be ResourceQuota")
            namespace = owner_name(document).partition("/")[0]
            hard, used = quotas.setdefault(namespace, ({}, {}))
            status = document["status"]["used"]
            for key, limit in document["spec"]["hard"].items():
                resource = key.removeprefix("requests.")
                if not resource or limit.value is None:
                    continue
                most = min(MOST, floor(in_units(resource, limit.exactly())))
                taken = _used(resource, status[key])
                if resource not in hard or most - taken < hard[resource] - used[resource]:
                    hard[resource], used[resource] = most, taken
    return quotas


def _used(resource: str, field: Field) -> int:
    return 0 if field.value is None else min(MOST, ceil(in_units(resource, field.exactly())))
