"""HiveD's extender as a service."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from hivecore.interop.hived.serving.extender import Extender
from hivecore.interop.kubernetes.calls import FilterReply
from hivecore.interop.kubernetes.serving.extenders import ExtenderService
from hivecore.interop.kubernetes.serving.metrics import Metrics
from hivecore.interop.kubernetes.serving.replies import Reply

__all__ = ["HivedService"]


class HivedService(ExtenderService):
    """Answers kube-scheduler over HTTP for an `Extender`.

    :param binder: as of `ExtenderService`; so is ``find_pod``.
    """

    extender: Extender
    routes = Extender.routes

    def __init__(
        self,
        extender: Extender,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
    ) -> None:
        super().__init__(extender, binder, find_pod)
        extender.binds = binder is not None
        self.changed = asyncio.Event()
        """Set when something may have become free, or pods may be due."""
        self._gains = 0
        self._sending: set[asyncio.Task[None]] = set()
        self.metrics = Metrics(self.routes.posted)
        text = "Pods that asked and could not be bound"
        waiting = extender.waiting
        self.metrics.add_gauge("hivecore_waiting_pods", text, (), lambda: [((), len(waiting))])
        text = "Leaf cells (GPUs) in use, by virtual cluster"
        labels = "virtual_cluster", "guaranteed"
        self.metrics.add_gauge("hivecore_leaf_cells", text, labels, self._used)

    def _used(self) -> Iterator[tuple[tuple[str, ...], float]]:
        for vc, (sure, unsure) in self.extender.scheduler.used_leaf_cells().items():
            yield (vc, "true"), sure
            yield (vc, "false"), unsure

    async def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list; returns what could not be applied."""
        mistakes = await super().apply(events)
        self.look_for_gains()
        return mistakes

    def look_for_gains(self) -> None:
        """Notice that something may have become free."""
        gains = self.extender.gains
        if gains != self._gains:
            self._gains = gains
            self.changed.set()

    def _answered(self, reply: Reply) -> None:
        waiting = self.extender.waiting
        if waiting.is_sooner:
            waiting.is_sooner = False
            self.changed.set()
        self.look_for_gains()

    async def _bind(self, reply: Reply) -> None:
        """Bind a pod; where kube-scheduler does not get it bound, it need not wait for that."""
        if not isinstance(reply.answer, FilterReply):
            await super()._bind(reply)
            return
        self.metrics.happened("forced_bind")
        task = asyncio.get_running_loop().create_task(super()._bind(reply))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
