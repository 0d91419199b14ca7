"""Reads what a gpushare pod asks for, and the annotations with what it has.

A scheduler *assumes* a pod: it writes card, amounts and time. The node's agent *assigns* it when
its containers start. Pods that are being deleted use their card until they end.
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
    """The card in a pod's annotations."""

    name: str
    node: str
    """Its node, or ""."""
    card: int
    memory: int
    """Its bytes of the card."""
    assigned: bool
    """Whether its containers have started on the card."""
    assumed_at: int
    """When the scheduler chose the card, in nanoseconds; 0 if unknown."""
    phase: str


def read_pod(pod: Mapping[str, Any], unit: Unit) -> DeviceRequest:
    """Return a pod's request for memory, all on one card; without one it asks for nothing.

    :param pod: the Kubernetes object as plain data; limits of its containers add up.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

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
    """Return the requests of the containers that use the card, in order."""
    limits = [
        container["resources"]["limits"][GPU_MEM]
        for container in pod["spec"]["containers"].entries()
    ]
    amounts = [0 if limit.value is None else limit.quantity(0, _MOST_BYTES) for limit in limits]
    return [amount for amount in amounts if amount]


def write_assignment(
    allocations: Iterable[DeviceAllocation], inventory: NodeDevices, unit: Unit, now: int
) -> dict[str, str]:
    """Return the annotations of a pod that was just given a card.

    :param allocations: the pod's only card.
    :param inventory: the devices of its node.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param now: the time in nanoseconds.
    :raises ValueError: there is not exactly one card, the node does not have it, or the bytes are
        not whole units.
    :raises TypeError: an argument has a wrong type.

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
    """Return the card that a pod has been given; ``None`` if it has none.

    :param pod: the Kubernetes object as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: an annotation is not a number, or out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.gpushare import read_assignment
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...     "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2"}}}
    >>> assignment = read_assignment(pod, "GiB")
    >>> assignment.card, assignment.memory >> 30, assignment.assigned
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
    """Return the card of a bound pod, to recover it after a restart; ``None`` if it has none.

    A pod counts from its binding until it ends, even while it is being deleted.

    :param pod: the Kubernetes object as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :raises ValueError: an annotation is not a number, or out of range.
    :raises TypeError: a field has a wrong type.

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
    assignment = read_assignment(pod, unit)
    if assignment is None:
        return None
    held = DeviceAllocation("gpu", assignment.card, {"memory": assignment.memory})
    return BoundPod(assignment.name, assignment.node, (held,))


def timed_out(
    pods: Iterable[Mapping[str, Any]], unit: Unit, now: int, patience: int
) -> tuple[str, ...]:
    """Return the owners of pods that got a card and did not start in time.

    :param pods: Kubernetes objects as plain data.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param now: the time in nanoseconds.
    :param patience: nanoseconds; a pod that was assumed at least so long ago is late.
    :returns: names in the order of the pods. A pod without a time is never late.
    :raises ValueError: a value is out of range.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.gpushare import timed_out
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...     "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "2",
    ...     "ALIYUN_COM_GPU_MEM_ASSIGNED": "false", "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "100"}}}
    >>> timed_out([pod], "GiB", 130, 30), timed_out([pod], "GiB", 130, 31)
    (('default/p',), ())
    """
    latest = as_int(now, "now", 0, _MOST_TIME) - as_int(patience, "patience", 0, _MOST_TIME)
    assignments = [read_assignment(pod, unit) for pod in as_tuple(pods, "pods")]
    return tuple(
        assignment.name
        for assignment in assignments
        if assignment
        and not assignment.assigned
        and assignment.phase in ("", "Pending")
        and 0 < assignment.assumed_at <= latest
    )
