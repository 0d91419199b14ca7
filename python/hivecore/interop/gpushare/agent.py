"""Which pod a container belongs to that a node starts: kubelet tells the node's agent only how much
memory it asks for.

Pods wait in the order in which they were given their cards; kubelet starts the containers of a pod
one after the other in the order of its spec, before those of the next pod. So a pod that has
started in part comes first, and of every pod the next container counts. Pods that kubelet starts in
another order can be taken for others that ask for as much: it does not say which they are.
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
    """What to write to the pod: with its last container it is assigned."""


def match_container(
    pods: Iterable[Mapping[str, Any]],
    node: str,
    amount: int,
    unit: Unit,
    started: Mapping[str, int],
) -> ContainerMatch | None:
    """The pod on this node of which a container that asks for so much starts next.

    Only pods count that are pending, have a card, and are not assigned. Ties: the earlier time,
    then the name. On a node with one card there is nothing to find out but the pod.

    :param pods: objects of Kubernetes as plain data, of any nodes.
    :param node: name of the agent's node.
    :param amount: what the container asks for, in the unit.
    :param unit: of ``aliyun.com/gpu-mem``.
    :param started: owner -> how many of its containers were matched before; none is 0.
    :returns: ``None``: no pod waits for such a container, which must not start then.
    :raises ValueError: something is out of range. The message has the path.
    :raises TypeError: something is of a wrong type.

    Source: gpushare's device plugin, which holds the amount of one container against that of the
    whole pod, so that pods with several of them never start.

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
    asked = as_int(amount, "amount", 1, _MOST // bytes_of(unit))
    counts = as_mapping(started, "started")
    found = []
    for pod in as_tuple(pods, "pods"):
        one = read_assignment(pod, unit)
        if one is None or one.node != here or one.assigned or one.phase not in ("", "Pending"):
            continue
        amounts = container_amounts(Field(pod))
        done = as_int(counts.get(one.name, 0), f"started[{one.name!r}]", 0, _MOST)
        if done < len(amounts) and amounts[done] == asked:
            last = done + 1 == len(amounts)
            found.append(((not done, one.assumed_at, one.name), one, last))
    if not found:
        return None
    _, one, last = min(found, key=lambda entry: entry[0])
    return ContainerMatch(one.name, one.card, {ASSIGNED: "true"} if last else {})
