"""Events of pods, as `kubectl describe pod` shows them."""

import time
from datetime import UTC, datetime

from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.pods import PodId

__all__ = ["now", "write_event"]

_LONGEST = 1000  # characters of an event's message
_LONGEST_NAME = 230  # characters of a pod's name in that of an event


async def write_event(
    api: ApiServer, pod: PodId, reason: str, message: str, is_warning: bool = False
) -> None:
    """Write an event of a pod.

    :param reason: in a word, as "Evicted".
    :raises ApiError: it is not written.
    """
    at = now()
    about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace}
    name = f"{pod.name[:_LONGEST_NAME]}.{time.time_ns():x}"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": {**about, "uid": pod.uid},
        "reason": reason,
        "message": message[:_LONGEST],
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": "hivecore"},
        **{"firstTimestamp": at, "lastTimestamp": at, "count": 1},
    }
    await api.request("POST", f"/api/v1/namespaces/{pod.namespace}/events", event)


def now() -> str:
    """The time of day, as Kubernetes writes it."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
