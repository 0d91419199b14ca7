"""Completes a pod as Koordinator's admission webhook does before any scheduler sees it."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.interop.koordinator.names import CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED
from hivecore.interop.kubernetes.fields import Field

__all__ = ["with_default_shared"]

_MOST = 2**63 - 1


def with_default_shared(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with ``koordinator.sh/gpu.shared`` in every container that shares GPUs.

    ``koordinator.sh/gpu`` is split into gpu-core and gpu-memory-ratio. If gpu.shared is missing, it
    is gpu-memory-ratio (or else gpu-core) divided by 100 for a multiple above 100, else 1. Requests
    for whole NPUs (npu-core with gpu-memory-ratio) stay as they are, as they cannot have
    gpu.shared.

    :param pod: the Kubernetes object as plain data. It is not changed; the result shares its
        unchanged parts.
    :raises TypeError: a field has a wrong type.
    :raises ValueError: a field is not a quantity.

    Source: Koordinator, ``webhook/pod/mutating/device_resource_spec.go``. Koordinator adds
    gpu.shared to whole NPUs as well, and then its scheduler refuses them.

    >>> from hivecore.interop.koordinator import with_default_shared
    >>> pod = {"spec": {"containers": [{"resources": {"limits": {"koordinator.sh/gpu": "200"}}}]}}
    >>> with_default_shared(pod)["spec"]["containers"][0]["resources"]["limits"]
    {'koordinator.sh/gpu-core': '200', 'koordinator.sh/gpu-memory-ratio': '200',
     'koordinator.sh/gpu.shared': '2'}
    """
    completed = dict(as_mapping(pod, "pod"))
    containers = Field(completed)["spec"]["containers"].entries()
    if containers:
        completed["spec"] = {
            **completed["spec"],
            "containers": [_container(container) for container in containers],
        }
    return completed


def _container(container: Field) -> Any:
    both = container["resources"]
    parts = {part: dict(both[part].items()) for part in ("limits", "requests")}
    requests = {name: field for part in parts.values() for name, field in part.items()}
    if not {GPU, CORE, MEMORY, RATIO, SHARED} & requests.keys():
        return container.value
    amounts = {
        name: requests[name].quantity(0, _MOST) for name in (GPU, CORE, RATIO) if name in requests
    }
    added: dict[str, str] = {}
    if GPU in amounts:
        amounts[CORE] = amounts[RATIO] = amounts.pop(GPU)
        added = {CORE: str(amounts[CORE]), RATIO: str(amounts[RATIO])}
    if SHARED not in requests and not (NPU_CORE in requests and RATIO in amounts):
        percent = amounts.get(RATIO, amounts.get(CORE, 0))
        whole = percent > 100 and percent % 100 == 0
        added[SHARED] = str(percent // 100 if whole else 1)
    if not added:
        return container.value
    kept = {
        part: {name: field.value for name, field in fields.items() if name != GPU}
        for part, fields in parts.items()
        if fields or part == "limits"
    }
    resources = {part: {**values, **added} for part, values in kept.items()}
    return {**container.value, "resources": {**both.value, **resources}}
