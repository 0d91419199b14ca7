"""What Koordinator's admission webhook adds to a pod before any scheduler sees it."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.interop.koordinator.names import CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED
from hivecore.interop.kubernetes.fields import Field

__all__ = ["with_default_shared"]

_MOST = 2**63 - 1


def with_default_shared(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with ``koordinator.sh/gpu.shared`` in every container that shares GPUs.

    ``koordinator.sh/gpu`` becomes as much gpu-core and gpu-memory-ratio. A container without
    gpu.shared gets a GPU for every 100 of its gpu-memory-ratio, else of its gpu-core, if that is a
    multiple above 100; else 1. Whole NPUs (npu-core with gpu-memory-ratio) stay as they are: there
    is no such request with gpu.shared.

    :param pod: the object of Kubernetes as plain data; it is not changed, and what is equal in the
        answer is shared with it.
    :raises TypeError: something that is read is of a wrong type.
    :raises ValueError: something that is read is no amount.

    Source: Koordinator, ``webhook/pod/mutating/device_resource_spec.go``, which adds it to whole
    NPUs as well, and its scheduler refuses them then.

    >>> from hivecore.interop.koordinator import with_default_shared
    >>> pod = {"spec": {"containers": [{"resources": {"limits": {"koordinator.sh/gpu": "200"}}}]}}
    >>> with_default_shared(pod)["spec"]["containers"][0]["resources"]["limits"]
    {'koordinator.sh/gpu-core': '200', 'koordinator.sh/gpu-memory-ratio': '200',
     'koordinator.sh/gpu.shared': '2'}
    """
    made = dict(as_mapping(pod, "pod"))
    containers = Field(made)["spec"]["containers"].entries()
    if containers:
        made["spec"] = {**made["spec"], "containers": [_container(one) for one in containers]}
    return made


def _container(container: Field) -> Any:
    both = container["resources"]
    parts = {part: dict(both[part].items()) for part in ("limits", "requests")}
    asked = {name: field for part in parts.values() for name, field in part.items()}
    if not {GPU, CORE, MEMORY, RATIO, SHARED} & asked.keys():
        return container.value
    amounts = {name: asked[name].quantity(0, _MOST) for name in (GPU, CORE, RATIO) if name in asked}
    added: dict[str, str] = {}
    if GPU in amounts:
        amounts[CORE] = amounts[RATIO] = amounts.pop(GPU)
        added = {CORE: str(amounts[CORE]), RATIO: str(amounts[RATIO])}
    if SHARED not in asked and not (NPU_CORE in asked and RATIO in amounts):
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
