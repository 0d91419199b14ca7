"""Objects of Koordinator's elastic quotas for the tests."""

import json

__all__ = ["K", "elastic_quota", "node", "pod"]

K = "quota.scheduling.koordinator.sh"


def elastic_quota(
    name, most, least=None, *, parent=None, labels=None, notes=None, namespace="ns", **metadata
):
    """An ElasticQuota; labels and annotations go by what follows the prefix, values as JSON."""
    of = {f"{K}/{key}": value for key, value in (labels or {}).items()}
    if parent is not None:
        of[f"{K}/parent"] = parent
    texts = {f"{K}/{key}": json.dumps(value) for key, value in (notes or {}).items()}
    spec = {"max": most} if least is None else {"max": most, "min": least}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": of,
            "annotations": texts,
            **metadata,
        },
        "spec": spec,
    }


def pod(name, requests, *, quota=None, labels=None, namespace="ns", status=None, **spec):
    """A Pod with a container for each of the requests."""
    many = requests if isinstance(requests, list) else [requests]
    own = {f"{K}/name": quota} if quota else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {**own, **(labels or {})}},
        "spec": {"containers": [{"resources": {"requests": entry}} for entry in many], **spec},
        "status": status,
    }


def node(name, allocatable, **metadata):
    """A Node that can allocate this."""
    return {
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"allocatable": allocatable},
    }
