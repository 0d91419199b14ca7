"""Ray: the bundles of a placement group that put the pods of a job where a scheduler decided."""

from hivecore._arguments import as_instance, as_name
from hivecore.scheduler import Start

__all__ = ["bundles"]


def bundles(
    start: Start, *, label: str = "ray.io/node-id"
) -> tuple[list[dict[str, float]], list[dict[str, str]]]:
    """What ``ray.util.placement_group(bundles=..., bundle_label_selector=...)`` takes.

    :param start: what a scheduler decided; a bundle for each of its pods, in their order.
    :param label: the label of Ray's nodes that holds the names that the scheduler knows.
    :raises ValueError: a pod has no node or no GPUs that are known.
    :raises TypeError: an argument is of a wrong type.

    The pods are to have devices, so that the GPUs of each are known; which GPUs of a node it gets
    is Ray's choice all the same.

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
