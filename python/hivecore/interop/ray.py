"""Turns a job's start into the bundles of a Ray placement group."""

from hivecore._arguments import as_instance, as_name
from hivecore.scheduler import Start

__all__ = ["bundles"]


def bundles(
    start: Start, *, label: str = "ray.io/node-id"
) -> tuple[list[dict[str, float]], list[dict[str, str]]]:
    """Return ``bundles`` and ``bundle_label_selector`` of ``ray.util.placement_group``.

    :param start: a scheduler's action; each pod becomes a bundle, in order.
    :param label: the label of Ray's nodes with the names that the scheduler uses.
    :raises ValueError: a pod has no node, or its GPUs are unknown.
    :raises TypeError: an argument has a wrong type.

    The scheduler must have devices, so that the number of each pod's GPUs is known. Ray itself
    chooses which GPUs of the node a pod gets.

    >>> from hivecore.interop.ray import bundles
    >>> from hivecore.scheduler import PlacedPod, Start
    >>> bundles(Start("train", [PlacedPod("worker", 0, "n1", (("gpu", (0, 1)),))]))
    ([{'GPU': 2.0}], [{'ray.io/node-id': 'n1'}])
    """
    as_instance(start, "start", Start)
    label = as_name(label, "label")
    for pod in start.pods:
        if not pod.node or not pod.gpus:
            raise ValueError(f"start: pod {pod.role}/{pod.index} has no node or no known GPUs")
    return (
        [{"GPU": float(len(pod.gpus))} for pod in start.pods],
        [{label: pod.node} for pod in start.pods],
    )
