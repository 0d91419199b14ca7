"""Reads a pod's request for devices from Koordinator's resources and annotations."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.devices import DeviceNeed, DeviceRequest
from hivecore.interop.koordinator.combinations import RESOURCES, check, gpu_need
from hivecore.interop.koordinator.hints import (
    NO_HINT,
    Hint,
    Joint,
    read_hints,
    read_joint,
    read_wish,
)
from hivecore.interop.koordinator.names import ISOLATION_PROVIDER
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name, priority_of, requested

__all__ = ["read_pod"]


def read_pod(pod: Mapping[str, Any]) -> DeviceRequest | None:
    """Return a pod's request for devices; ``None`` if it asks for none.

    The request is the sum over the pod's containers, and its owner is "namespace/name". Hints for
    types that the pod does not ask for have no effect. Neither has the wish for a partition if the
    GPUs are shared.

    :param pod: the Kubernetes object as plain data; fields without a meaning here are ignored.
    :raises ValueError: the combination of resources is not in `COMBINATIONS` or breaks its rule, a
        selector has an expression that Kubernetes does not allow, or another value is out of range.
        The message has the path.
    :raises TypeError: a field has a wrong type.

    Source: Koordinator, ``deviceshare/utils.go``, ``devicehandler_*.go``. Koordinator ignores
    unknown words in hints; here they are errors.

    >>> from hivecore.interop.koordinator import read_pod
    >>> request = read_pod({
    ...     "metadata": {"name": "train", "annotations": {
    ...         "scheduling.koordinator.sh/device-joint-allocate":
    ...             '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'}},
    ...     "spec": {"containers": [
    ...         {"resources": {"limits": {"nvidia.com/gpu": 4, "koordinator.sh/rdma": 1}}}]},
    ... })
    >>> request.name, request.joint, request.same_pcie
    ('default/train', ('gpu', 'rdma'), True)
    >>> [(need.type, need.count, need.amounts) for need in request.needs]
    [('gpu', 4, (('core', 100), ('memory_ratio', 100))), ('rdma', 1, (('share', 1),))]
    """
    document = Field(as_mapping(pod, "pod"))
    requests = {
        type_: amounts
        for type_, names in RESOURCES.items()
        if (amounts := requested(document, names))
    }
    if not requests:
        return None
    hints = read_hints(document)
    with document["spec"]["containers"].named():
        needs = [
            _need(type_, amounts, hints.get(type_, NO_HINT)) for type_, amounts in requests.items()
        ]
    joint = _joint(read_joint(document), requests, hints)
    wish = read_wish(document) if "gpu" in requests and not needs[0].shared else None
    return DeviceRequest(
        owner_name(document),
        needs=needs,
        joint=joint.types,
        same_pcie=joint.same_pcie,
        partition=wish.policy if wish else None,
        bandwidth=wish.bandwidth if wish else None,
        isolation_provider=document["metadata"]["labels"][ISOLATION_PROVIDER].text(),
        priority=priority_of(document),
    )


def _need(type_: str, amounts: Mapping[str, int], hint: Hint) -> DeviceNeed:
    if type_ == "gpu":
        return gpu_need(amounts, **hint.wishes)
    check(type_, amounts)
    (amount,) = amounts.values()
    count, share, every = 1, amount, False
    if amount > 100:
        count, share = amount // 100, 100
    elif hint.strategy == "all":
        every = True
    elif hint.strategy == "count":
        count, share = amount, 100 if hint.exclusive == "device" else 1
    return DeviceNeed(type_, count, {"share": share}, every=every, **hint.wishes)  # type: ignore[arg-type]


def _joint(joint: Joint, requested: Mapping[str, object], hints: Mapping[str, Hint]) -> Joint:
    """Drop the types that leave nothing to choose."""
    types = tuple(
        type_
        for type_ in joint.types
        if type_ in requested and hints.get(type_, NO_HINT).strategy != "all"
    )
    return Joint(types, joint.same_pcie) if len(types) > 1 else Joint((), False)
