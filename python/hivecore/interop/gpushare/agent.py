"""Finds the pod of a container that a node starts: kubelet only gives the agent its memory.

Pods wait in the order in which they got their cards. kubelet starts a pod's containers one by one,
in the order of its spec, before those of the next pod. So a partly started pod comes first, and its
next container counts. If kubelet starts pods in another order, pods with equal requests can be
confused.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hivecore._arguments import as_int, as_mapping, as_text, as_tuple
from hivecore.interop.gpushare.names import ASSIGNED, Unit, bytes_of
from hivecore.interop.gpushare.pods import container_amounts, read_assignment
from hivecore.interop.kubernetes.fields import Field

__all__ = ["ContainerMatch", "match_container"]

_MOST = 2**48


class ContainerMatch(NamedTuple):
    """The pod of a container that starts."""

    name: str
    card: int
    annotations: dict[str, str]
    """What to write to the pod, which is assigned with its last container."""


def match_container(
    pods: Iterable[Mapping[str, Any]],
    node: str,
    amount: int,
    unit: Unit,
    started: Mapping[str, int],
) -> ContainerMatch | None:
    """Return the pod on this node whose next container asks for this amount.

    Candidates are pending, have a card and are not yet assigned; the earliest wins, then the lowest
    name.

    :param pods: Kubernetes objects as plain data, of any nodes.
    :param node: the agent's node.
    :param amount: the container's request, in the unit.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param started: owner -> the number of its containers matched so far, at least 1.
    :returns: ``None`` if no pod waits for such a container, which must not start then.
    :raises ValueError: a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

    Source: gpushare's device plugin. It compares a container's amount with that of the whole pod,
    so that pods with several such containers never start.

    >>> from hivecore.interop.gpushare import match_container
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...            "ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "5"}},
    ...        "spec": {"nodeName": "n1", "containers": [
    ...            {"resources": {"limits": {"aliyun.com/gpu-mem": 2}}},
    ...            {"resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}}
    >>> match_container([pod], "n1", 2, "GiB", {})
    ContainerMatch(name='default/p', card=1, annotations={})
    >>> match_container([pod], "n1", 3, "GiB", {"default/p": 1}).annotations
    {'ALIYUN_COM_GPU_MEM_ASSIGNED': 'true'}
    """
    here = as_text(node, "node")
    wanted = as_int(amount, "amount", 1, _MOST // bytes_of(unit))
    counts = as_mapping(started, "started")
    candidates = []
    for pod in as_tuple(pods, "pods"):
        assignment = read_assignment(pod, unit)
        if (
            assignment is None
            or assignment.node != here
            or assignment.assigned
            or assignment.phase not in ("", "Pending")
        ):
            continue
        amounts = container_amounts(Field(pod))
        done = as_int(counts.get(assignment.name, 0), f"started[{assignment.name!r}]", 0, _MOST)
        if done < len(amounts) and amounts[done] == wanted:
            last = done + 1 == len(amounts)
            candidates.append(
                ((not done, assignment.assumed_at, assignment.name), assignment, last)
            )
    if not candidates:
        return None
    _, assignment, last = min(candidates, key=lambda entry: entry[0])
    return ContainerMatch(assignment.name, assignment.card, {ASSIGNED: "true"} if last else {})
