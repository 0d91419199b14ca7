"""What a pod of gpushare asks for, and the annotations that say what it has.

A scheduler *assumes* a pod: it writes card, amounts and time. The node's agent *assigns* it, when
its containers start. Pods that are being deleted still use their card until they have ended.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hivecore._arguments import as_int, as_mapping, as_tuple
from hivecore.devices import DeviceAllocation, DeviceRequest, NodeDevices
from hivecore.interop.gpushare.names import (
    ASSIGNED,
    ASSUME_TIME,
    CARD_MEMORY,
    GPU_MEM,
    INDEX,
    POD_MEMORY,
    Unit,
    bytes_of,
)
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import BoundPod, has_ended, node_of, owner_name

__all__ = [
    "Assignment",
    "container_amounts",
    "read_assignment",
    "read_bound_pod",
    "read_pod",
    "timed_out",
    "write_assignment",
]

_MOST_BYTES = 2**48
_MOST_ID = 2**31 - 1
_MOST_TIME = 2**63 - 1


class Assignment(NamedTuple):
    """The card of a pod, as its annotations say."""

    name: str
    node: str
    """Where it is bound; "": nowhere."""
    card: int
    memory: int
    """Bytes that it has of the card."""
    assigned: bool
    """Whether its containers have the card already."""
    assumed_at: int
    """When the scheduler chose, in nanoseconds; 0: not known."""
    phase: str


def read_pod(pod: Mapping[str, Any], unit: Unit) -> DeviceRequest:
    """The memory that a pod asks for, all of it on one card; without any it needs nothing.

    :param pod: the object of Kubernetes as plain data; limits of its containers add up.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: something is out of range. The message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import read_pod
    >>> pod = {"metadata": {"name": "p"}, "spec": {"containers": [
    ...     {"resources": {"limits": {"aliyun.com/gpu-mem": 8138}}}]}}
    >>> read_pod(pod, "MiB").needs[0].amounts == (("memory", 8138 << 20),)
    True
    """
    scale = bytes_of(unit)
    document = Field(as_mapping(pod, "pod"))
    memory = sum(container_amounts(document))
    if not memory:
        return DeviceRequest(owner_name(document))
    if memory * scale > _MOST_BYTES:
        raise document["spec"]["containers"].error(f"{GPU_MEM}={memory} {unit} are too many")
    return DeviceRequest(owner_name(document), 1, memory=memory * scale)


def container_amounts(pod: Field) -> list[int]:
    """What the containers that have a part of the card ask for, in their order."""
    limits = [one["resources"]["limits"][GPU_MEM] for one in pod["spec"]["containers"].entries()]
    amounts = [0 if one.value is None else one.quantity(0, _MOST_BYTES) for one in limits]
    return [amount for amount in amounts if amount]


def write_assignment(
    allocations: Iterable[DeviceAllocation], inventory: NodeDevices, unit: Unit, now: int
) -> dict[str, str]:
    """The annotations of a pod that was just given a card.

    :param allocations: what the pod has: one card.
    :param inventory: of its node.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param now: the time in nanoseconds.
    :raises ValueError: it is not one card, the node does not have it, or the bytes are not whole
        units.
    :raises TypeError: an argument is of a wrong type.

    Source: gpushare-scheduler-extender, ``PatchPodAnnotationSpec``.

    >>> from hivecore.devices import Device, DeviceAllocation, NodeDevices
    >>> from hivecore.interop.gpushare import write_assignment
    >>> node = NodeDevices([Device("gpu", 1, {"memory": 16 << 30})])
    >>> write_assignment([DeviceAllocation("gpu", 1, {"memory": 2 << 30})], node, "GiB", 7)
    {'ALIYUN_COM_GPU_MEM_IDX': '1', 'ALIYUN_COM_GPU_MEM_DEV': '16', 'ALIYUN_COM_GPU_MEM_POD': '2',
     'ALIYUN_COM_GPU_MEM_ASSIGNED': 'false', 'ALIYUN_COM_GPU_MEM_ASSUME_TIME': '7'}
    """
    scale = bytes_of(unit)
    time = as_int(now, "now", 0, _MOST_TIME)
    given = as_tuple(allocations, "allocations")
    for allocation in given:
        if not isinstance(allocation, DeviceAllocation):
            kind = type(allocation).__name__
            raise TypeError(f"allocations must hold DeviceAllocation, not {kind}")
    if len(given) != 1 or given[0].type != "gpu":
        raise ValueError(f"allocations: {len(given)} of them, a pod has one card")
    memory, rest = divmod(dict(given[0].amounts).get("memory", 0), scale)
    if rest or not memory:
        raise ValueError(f"allocations: the memory is no whole number of {unit}, at least 1")
    for card in inventory.of_type("gpu"):
        if card.minor == given[0].minor:
            return {
                INDEX: str(card.minor),
                CARD_MEMORY: str(dict(card.amounts).get("memory", 0) // scale),
                POD_MEMORY: str(memory),
                ASSIGNED: "false",
                ASSUME_TIME: str(time),
            }
    raise ValueError(f"allocations: the node has no card {given[0].minor}")


def read_assignment(pod: Mapping[str, Any], unit: Unit) -> Assignment | None:
    """The card that a pod has been given; ``None``: it has none.

    :param pod: the object of Kubernetes as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: an annotation is no number, or out of range. The message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import read_assignment
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...     "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2"}}}
    >>> found = read_assignment(pod, "GiB")
    >>> found.card, found.memory >> 30, found.assigned
    (1, 2, False)
    """
    scale = bytes_of(unit)
    document = Field(as_mapping(pod, "pod"))
    annotations = document["metadata"]["annotations"]
    if annotations[INDEX].absent or annotations[POD_MEMORY].absent:
        return None
    memory = annotations[POD_MEMORY].integer_text(0, _MOST_BYTES // scale)
    if not memory:
        return None
    time = annotations[ASSUME_TIME]
    return Assignment(
        owner_name(document),
        node_of(document),
        annotations[INDEX].integer_text(0, _MOST_ID),
        memory * scale,
        annotations[ASSIGNED].text() == "true",
        0 if time.absent else time.integer_text(0, _MOST_TIME),
        document["status"]["phase"].text(),
    )


def read_bound_pod(pod: Mapping[str, Any], unit: Unit) -> BoundPod | None:
    """What a restart has to recover of this pod; ``None``: nothing.

    A pod counts while it is bound to a node and has not ended, also while it is being deleted.

    :param pod: the object of Kubernetes as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: an annotation is no number, or out of range.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import read_bound_pod
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...            "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2"}},
    ...        "spec": {"nodeName": "n1"}}
    >>> read_bound_pod(pod, "GiB").allocations[0].minor
    1
    """
    document = Field(as_mapping(pod, "pod"))
    if not node_of(document) or has_ended(document):
        return None
    found = read_assignment(pod, unit)
    if found is None:
        return None
    held = DeviceAllocation("gpu", found.card, {"memory": found.memory})
    return BoundPod(found.name, found.node, (held,))


def timed_out(
    pods: Iterable[Mapping[str, Any]], unit: Unit, now: int, patience: int
) -> tuple[str, ...]:
    """The owners among pods that got a card and did not start in time.

    :param pods: objects of Kubernetes as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param now: the time in nanoseconds.
    :param patience: nanoseconds; a pod that was assumed so long ago, or longer, is late.
    :returns: their names, in the order of the pods. Those of which the time is not known are none.
    :raises ValueError: something is out of range.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import timed_out
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...     "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2",
    ...     "ALIYUN_COM_GPU_MEM_ASSIGNED": "false", "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "100"}}}
    >>> timed_out([pod], "GiB", 130, 30), timed_out([pod], "GiB", 130, 31)
    (('default/p',), ())
    """
    latest = as_int(now, "now", 0, _MOST_TIME) - as_int(patience, "patience", 0, _MOST_TIME)
    found = [read_assignment(pod, unit) for pod in as_tuple(pods, "pods")]
    return tuple(
        one.name
        for one in found
        if one
        and not one.assigned
        and one.phase in ("", "Pending")
        and 0 < one.assumed_at <= latest
    )
