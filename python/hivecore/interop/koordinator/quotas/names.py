"""Koordinator's labels, annotations and reserved names of quotas.

Source: Koordinator, ``apis/extension/elastic_quota.go``.
"""

__all__ = [
    "ALLOW_LENT",
    "API_VERSION",
    "CHILD_REQUEST",
    "DEFAULT_QUOTA",
    "IGNORE_DEFAULT_TREE",
    "IS_PARENT",
    "IS_ROOT",
    "KIND",
    "NAMESPACES",
    "NON_PREEMPTIBLE_REQUEST",
    "NON_PREEMPTIBLE_USED",
    "PARENT",
    "PREEMPTIBLE",
    "QUOTA_NAME",
    "REQUEST",
    "ROOT_QUOTA",
    "RUNTIME",
    "SHARED_WEIGHT",
    "SYSTEM_QUOTA",
    "TOTAL_RESOURCE",
    "TREE_ID",
]

API_VERSION = "scheduling.sigs.k8s.io/v1alpha1"
KIND = "ElasticQuota"

ROOT_QUOTA = "koordinator-root-quota"
SYSTEM_QUOTA = "koordinator-system-quota"
DEFAULT_QUOTA = "koordinator-default-quota"

_QUOTA = "quota.scheduling.koordinator.sh"

# Labels of quotas.
PARENT = f"{_QUOTA}/parent"
IS_PARENT = f"{_QUOTA}/is-parent"
IS_ROOT = f"{_QUOTA}/is-root"
TREE_ID = f"{_QUOTA}/tree-id"
ALLOW_LENT = f"{_QUOTA}/allow-lent-resource"
IGNORE_DEFAULT_TREE = f"{_QUOTA}/ignore-default-tree"

# Labels of pods.
QUOTA_NAME = f"{_QUOTA}/name"
PREEMPTIBLE = f"{_QUOTA}/preemptible"

# Annotations of quotas, written by people.
SHARED_WEIGHT = f"{_QUOTA}/shared-weight"
TOTAL_RESOURCE = f"{_QUOTA}/total-resource"
NAMESPACES = f"{_QUOTA}/namespaces"

# Annotations of quotas, written by the scheduler.
RUNTIME = f"{_QUOTA}/runtime"
REQUEST = f"{_QUOTA}/request"
CHILD_REQUEST = f"{_QUOTA}/child-request"
NON_PREEMPTIBLE_REQUEST = f"{_QUOTA}/non-preemptible-request"
NON_PREEMPTIBLE_USED = f"{_QUOTA}/non-preemptible-used"
