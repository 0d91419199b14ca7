"""The ResourceQuota of a namespace, in the units of jobs."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name

__all__ = ["read_resource_quota"]

_REQUESTS = "requests."
_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def read_resource_quota(
    record: Mapping[str, Any],
) -> tuple[str, dict[str, int], dict[str, int]]:
    """The namespace, what is allowed and what is used, in thousandths, for
    `hivecore.queues.NamespaceQuota.set_quota`.

    :param record: the object of kind ResourceQuota as plain data.
    :raises ValueError: an amount is none, or is negative; the message names the object and has the
        path.
    :raises TypeError: something is of a wrong type.

    "requests.nvidia.com/gpu" and "nvidia.com/gpu" are the same resource, as in Kubernetes; KubeDL
    does not see the first, which is the only way to limit GPUs. Of two limits the lower one counts.
    Limits of limits and of objects are not read.

    >>> from hivecore.interop.kubedl import read_resource_quota
    >>> record = {
    ...     "metadata": {"name": "gpus", "namespace": "ml"},
    ...     "spec": {"hard": {"requests.nvidia.com/gpu": "8", "cpu": "1500m"}},
    ...     "status": {"used": {"requests.nvidia.com/gpu": "2"}},
    ... }
    >>> read_resource_quota(record)
    ('ml', {'cpu': 1500, 'nvidia.com/gpu': 8000}, {'nvidia.com/gpu': 2000})
    """
    document = Field(as_mapping(record, "record"))
    with named_object(document, "ResourceQuota"):
        hard = _amounts(document["spec"]["hard"], min)
        used = _amounts(document["status"]["used"], max)
        namespace = owner_name(document).partition("/")[0]
    return (
        namespace,
        {name: floor(1000 * amount) for name, amount in sorted(hard.items())},
        {name: ceil(1000 * amount) for name, amount in sorted(used.items()) if name in hard},
    )


def _amounts(field: Field, of_two: Any) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for key, entry in field.items():
        name = key.removeprefix(_REQUESTS)
        if not (name in _RESOURCES or name.startswith("hugepages-") or "/" in name):
            continue
        if name.startswith("count/"):
            continue
        amount = entry.exactly()
        found[name] = of_two(found[name], amount) if name in found else amount
    return found
