"""gpushare's extender as an HTTP service."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare.extender import Extender
from hivecore.interop.gpushare.names import Unit
from hivecore.interop.gpushare.pods import container_amounts
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.recent import Recent
from hivecore.interop.kubernetes.serving.extenders import ExtenderService
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.metrics import Metrics
from hivecore.interop.kubernetes.serving.replies import Reply

__all__ = ["GpushareService"]

_WATCH = "/gpushare-scheduler/watch"
_UNLISTED = f"a NodeList and a PodList have not been posted to {_WATCH} yet"


class GpushareService(ExtenderService):
    """Answers kube-scheduler over HTTP for an `Extender` of its own.

    It is ready once all nodes and pods have been listed; before that, a card in use may seem free.

    :param binder: sends Binding objects; what it raises becomes the answer's error. ``None`` leaves
        binding to others.
    :param find_pod: looks up a pod that is missing in a list, as in `ExtenderService`.
    """

    extender: Extender
    routes = Extender.routes
    learning = (_WATCH,)

    def __init__(
        self,
        unit: Unit,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
    ) -> None:
        super().__init__(Extender(DeviceCluster(), unit), binder, find_pod)
        self.extender.binds = binder is not None
        self.metrics = Metrics(self.routes.posted)
        self.not_ready = _UNLISTED
        self.waiting = Recent[str, PodId]()
        """Pods for which no card was free, by name."""
        self.changed = asyncio.Event()
        """Set when resources may have become free."""
        self._gains = 0

    async def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list; return what could not be applied."""
        mistakes = await super().apply(events)
        if isinstance(events, dict) and events.get("kind") == "PodList":
            await self._look_up()
        self._learnt()
        return mistakes

    def is_ours(self, pod: dict[str, Any]) -> bool:
        """Whether kube-scheduler should call the extender for a pod."""
        try:
            return bool(container_amounts(Field(pod)))
        except (TypeError, ValueError):
            return True

    async def _look_up(self) -> None:
        """Look up pods with cards that are missing in a list, if that is possible."""
        for owner in self.extender.doubtful:
            await self._look_at(owner)

    async def _look_at(self, owner: str) -> None:
        """Apply what Kubernetes says of a pod now, if that is possible."""
        if self._find_pod is None:
            return
        namespace, _, name = owner.partition("/")
        type_, pod = "ADDED", dict[str, Any](kind="Pod")
        try:
            pod = await self._find_pod(namespace, name)
        except LookupError:
            type_, pod["metadata"] = "DELETED", {"name": name, "namespace": namespace}
        except Exception as error:
            LOG.warning("looking up the pod %s: %s", owner, error)
            return
        self.extender.apply({"type": type_, "object": pod})

    async def _sent(self, reply: Reply, error: Exception | None) -> None:
        if error is not None and reply.pod is not None:
            await self._look_at(reply.pod.full)  # it may be bound all the same, and has its card
        await super()._sent(reply, error)

    async def _answer(self, path: str, body: bytes, query: Any) -> tuple[int, Any]:
        try:
            return await super()._answer(path, body, query)
        finally:
            self._learnt()

    async def _begin(self, path: str, body: bytes) -> Reply:
        gains = self.extender.gains
        reply = await super()._begin(path, body)
        self._gains = min(self._gains, gains)  # later ones are of use to this pod, too
        return reply

    def _learnt(self) -> None:
        if self.not_ready == _UNLISTED and self.extender.is_informed:
            self.not_ready = ""
        if self._gains != self.extender.gains:
            self._gains = self.extender.gains
            self.changed.set()

    def _answered(self, reply: Reply) -> None:
        if reply.pod is not None:
            self.waiting.pop(reply.pod.full, None)
            if reply.outcome == "wait":
                self.waiting[reply.pod.full] = reply.pod
