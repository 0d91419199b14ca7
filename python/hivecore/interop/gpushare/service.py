"""gpushare's extender as a service."""

from collections.abc import Awaitable, Callable
from typing import Any

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare.extender import Extender
from hivecore.interop.gpushare.names import Unit
from hivecore.interop.kubernetes.serving.extenders import ExtenderService
from hivecore.interop.kubernetes.serving.metrics import Metrics

__all__ = ["GpushareService"]


class GpushareService(ExtenderService):
    """Answers kube-scheduler over HTTP for an `Extender` of its own.

    :param binder: is given the object that binds a pod, and raises what is the answer's error.
        ``None``: others bind pods.
    """

    routes = Extender.routes

    def __init__(
        self, unit: Unit, binder: Callable[[dict[str, Any]], Awaitable[object]] | None
    ) -> None:
        super().__init__(Extender(DeviceCluster(), unit), binder)
        self.extender.binds = binder is not None
        self.metrics = Metrics(self.routes.posted)
