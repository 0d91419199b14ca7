"""What Kubernetes reports of pods and nodes, applied to a scheduler.

HiveD watches Kubernetes itself; here somebody passes on what a watch says, such as
``kubectl get pods,nodes -A --watch --output-watch-events -o json``. After a restart the lists of
nodes and pods do as well: bound pods are recovered from their annotations, in any order.
"""

from collections.abc import Mapping
from typing import Any

from hivecore.interop.hived.pods import RequestError
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.annotations import BIND_INFO, SPEC, read_bind_info, read_spec
from hivecore.interop.kubernetes.messages import show

__all__ = ["apply_events"]

_TYPES = ("ADDED", "MODIFIED", "DELETED")


def apply_events(scheduler: HivedScheduler, events: Any) -> list[str]:
    """Apply a watch event, or a list of nodes or pods; returns what could not be applied.

    A node is healthy if it is ready and schedulable. A pod that is deleted or has ended is
    forgotten; one that is bound and has HiveD's annotations is recovered if it is not known yet.
    Everything else has no effect, but every object must say its ``kind``, or its list for all.

    >>> from hivecore.interop.hived import HivedScheduler
    >>> scheduler = HivedScheduler({
    ...     "physicalCluster": {
    ...         "cellTypes": {"V100-NODE": {"childCellType": "V100", "childCellNumber": 4,
    ...                                     "isNodeLevel": True}},
    ...         "physicalCells": [{"cellType": "V100-NODE", "cellAddress": "node-0"}],
    ...     },
    ... })
    >>> node = {"kind": "Node", "metadata": {"name": "node-0"}, "spec": {"unschedulable": True}}
    >>> apply_events(scheduler, {"type": "MODIFIED", "object": node})
    []
    >>> scheduler.status()["physicalCluster"][0]["cellHealthiness"]
    'Bad'
    """
    if not isinstance(events, Mapping):
        return [f"an event or a list of nodes or pods must be an object, not {show(events)}"]
    kind = events.get("kind")
    if isinstance(kind, str) and kind.endswith("List"):
        items = events.get("items")
        if not isinstance(items, (list, tuple)):
            return [f"items must be a list, not {show(items)}"]
        found = [_apply(scheduler, "ADDED", item, kind.removesuffix("List")) for item in items]
        return [f"items[{i}]: {mistake}" for i, mistake in enumerate(found) if mistake]
    type_ = events.get("type")
    if type_ in ("BOOKMARK", "ERROR"):
        return []
    if type_ not in _TYPES:
        return [f"type={show(type_)}: allowed are {', '.join(_TYPES)}"]
    mistake = _apply(scheduler, type_, events.get("object"), "")
    return [mistake] if mistake else []


def _apply(scheduler: HivedScheduler, type_: str, item: Any, kind: str) -> str:
    """Apply one event; the mistake, if there is one."""
    meta = _mapping(item, "metadata")
    kind = item.get("kind") or kind if isinstance(item, Mapping) else ""
    name = meta.get("name")
    if not isinstance(name, str) or not name:
        return "a pod or a node with metadata.name is needed"
    if not isinstance(kind, str) or not kind:
        return f"object {show(name)}: kind={show(kind or None)}: 'Pod' or 'Node' is needed"
    if kind == "Node":
        scheduler.set_node(name, type_ != "DELETED" and _is_healthy(item))
    elif kind == "Pod":
        try:
            _apply_pod(scheduler, type_, item, meta)
        except RequestError as error:
            return f"pod {show(name)}: {error}"
    return ""


def _is_healthy(node: Any) -> bool:
    if _mapping(node, "spec").get("unschedulable") is True:
        return False
    conditions = _mapping(node, "status").get("conditions")
    return any(
        isinstance(one, Mapping) and one.get("type") == "Ready" and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, (list, tuple)) else ())
    )


def _apply_pod(
    scheduler: HivedScheduler, type_: str, pod: Mapping[str, Any], meta: Mapping[str, Any]
) -> None:
    ended = _mapping(pod, "status").get("phase") in ("Succeeded", "Failed")
    if type_ == "DELETED" or ended:
        scheduler.delete(pod)
        return
    annotations = _mapping(meta, "annotations")
    spec, info = annotations.get(SPEC), annotations.get(BIND_INFO)
    bound = _mapping(pod, "spec").get("nodeName")
    if bound and isinstance(spec, str) and isinstance(info, str):
        scheduler.recover(pod, read_spec(spec), read_bind_info(info))


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
