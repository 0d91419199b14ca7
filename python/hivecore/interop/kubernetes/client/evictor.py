"""Evicts victims that kube-scheduler leaves running.

kube-scheduler preempts only where a resource is exhausted that it counts itself, and only pods of a
lower priority class. Other victims are evicted here by the Eviction API, which heeds disruption
budgets and grace periods.
"""

import asyncio
from collections.abc import Mapping
from math import inf

from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.pod_events import write_event
from hivecore.interop.kubernetes.informer import KnownPod
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.metrics import Metrics

__all__ = ["EVICT_AFTER", "Evictor"]

EVICT_AFTER = 5.0
"""Seconds from when a pod becomes a victim until it is evicted."""
_LEAST, _LONGEST = 1.0, 60.0  # seconds between two attempts to evict a pod
_AT_ONCE = 16


class Evictor:
    """Evicts pods that have been victims for a while.

    :param pods: the known pods.
    :param after: seconds until a victim is evicted.
    """

    def __init__(
        self, api: ApiServer, pods: Mapping[str, KnownPod], metrics: Metrics, after: float
    ) -> None:
        self._api, self._pods, self._metrics = api, pods, metrics
        self._after = after
        self._due: dict[str, tuple[float, float]] = {}  # victim -> when, and the pause after that

    async def evict(self, victims: Mapping[str, str], now: float) -> bool:
        """Evict some of the victims that are due; return whether there were any.

        :param victims: all of them, by identity, each with the reason.
        :param now: seconds of a clock that does not go back.
        """
        first = now + self._after, _LEAST
        known = [pod for pod in victims if pod in self._pods and not self._pods[pod].is_leaving]
        self._due = {pod: self._due.get(pod, first) for pod in known}
        due = [pod for pod, (at, _) in self._due.items() if at <= now][:_AT_ONCE]
        pods = {pod: self._pods[pod].pod_id(pod) for pod in due}  # some may end meanwhile
        await asyncio.gather(*(self._evict(i, pod, victims[i], now) for i, pod in pods.items()))
        return bool(due)

    async def _evict(self, identity: str, pod: PodId, reason: str, now: float) -> None:
        _, pause = self._due[identity]
        self._due[identity] = inf, pause
        try:
            await self._api.evict(pod)
        except ApiError as error:
            if error.status == 404:
                return
            if pause == _LEAST:
                LOG.warning("pod %s is not evicted yet (%s): %s", pod.full, reason, error)
            self._due[identity] = now + pause, min(2 * pause, _LONGEST)
            return
        self._metrics.happened("evicted_pod")
        LOG.info("pod %s is evicted: %s", pod.full, reason)
        try:
            await write_event(self._api, pod, "Evicted", reason)
        except ApiError as error:
            LOG.warning("pod %s has no event that it is evicted: %s", pod.full, error)
