"""What a pod asks of a node's devices, in Koordinator's resources and annotations."""

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
    """What the pod asks of a node's devices; ``None``: it asks for none.

    Amounts are those of the whole pod: its containers add up. The owner is called
    "namespace/name". Hints of types that are not asked for have no effect, nor has the wish for a
    partition where GPUs are shared.

    :param pod: the object of Kubernetes as plain data; what has no meaning here is not looked at.
    :raises ValueError: what is asked for together is none of `COMBINATIONS`, or breaks its rule; an
        expression of a selector is none of Kubernetes; something else is out of range. The message
        has the path.
    :raises TypeError: something is of a wrong type.

    Source: Koordinator, ``deviceshare/utils.go``, ``devicehandler_*.go``. There, words of hints
    that nobody knows have no effect; here they are refused.

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
    asked = {
        type_: amounts
        for type_, names in RESOURCES.items()
        if (amounts := requested(document, names))
    }
    if not asked:
        return None
    hints = read_hints(document)
    with document["spec"]["containers"].named():
        needs = [
            _need(type_, amounts, hints.get(type_, NO_HINT)) for type_, amounts in asked.items()
        ]
    joint = _joint(read_joint(document), asked, hints)
    wish = read_wish(document) if "gpu" in asked and not needs[0].shared else None
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


def _need(type_: str, asked: Mapping[str, int], hint: Hint) -> DeviceNeed:
    if type_ == "gpu":
        return gpu_need(asked, **hint.wishes)
    check(type_, asked)
    (amount,) = asked.values()
    count, share, every = 1, amount, False
    if amount > 100:
        count, share = amount // 100, 100
    elif hint.strategy == "all":
        every = True
    elif hint.strategy == "count":
        count, share = amount, 100 if hint.exclusive == "device" else 1
    return DeviceNeed(type_, count, {"share": share}, every=every, **hint.wishes)  # type: ignore[arg-type]


def _joint(joint: Joint, asked: Mapping[str, object], hints: Mapping[str, Hint]) -> Joint:
    """Without the types of which there is nothing to choose."""
    types = tuple(
        type_
        for type_ in joint.types
        if type_ in asked and hints.get(type_, NO_HINT).strategy != "all"
    )
    return Joint(types, joint.same_pcie) if len(types) > 1 else Joint((), False)
