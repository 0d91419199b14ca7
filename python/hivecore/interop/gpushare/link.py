"""Connects gpushare's extender with a Kubernetes cluster."""

import asyncio

from hivecore.interop.gpushare.service import GpushareService
from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.interop.kubernetes.client.link import ClusterLink
from hivecore.interop.kubernetes.pods import PodId

__all__ = ["GpushareLink"]

_PATHS = {
    "Node": "/api/v1/nodes",
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",  # of unhealthy cards
    "Pod": "/api/v1/pods",
}
_LEAST = 1.0  # seconds between two touches of a pod


class GpushareLink(ClusterLink):
    """Follows nodes, pods and unhealthy cards, and touches pods for which a card is free."""

    _service: GpushareService
    _gone = 404, 409, 422  # there is another pod of its name

    def __init__(self, service: GpushareService, api: ApiServer) -> None:
        super().__init__(service, api, _PATHS)

    async def _touch(self) -> None:
        service = self._service
        while True:
            await service.changed.wait()
            service.changed.clear()
            for name, pod in list(service.waiting.items()):
                if service.extender.may_fit(name):
                    self._meanwhile(self._touch_waiting(pod))
            await asyncio.sleep(_LEAST)

    async def _touch_waiting(self, pod: PodId) -> None:
        waiting = self._service.waiting
        if not await self._touch_in_turn(pod) and waiting.get(pod.full) == pod:
            del waiting[pod.full]
