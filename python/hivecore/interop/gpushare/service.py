"""gpushare's extender as a service."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare.extender import Extender
from hivecore.interop.gpushare.names import Unit
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.serving.metrics import Metrics

__all__ = ["GpushareService"]

_VERBS = tuple(f"/gpushare-scheduler/{verb}" for verb in ("filter", "bind", "watch"))


class GpushareService:
    """Answers kube-scheduler over HTTP for an `Extender` of its own.

    :param binder: is given the object that binds a pod, and raises what is the answer's error.
        ``None``: somebody else binds pods.
    """

    not_ready = ""

    def __init__(
        self, unit: Unit, binder: Callable[[dict[str, Any]], Awaitable[object]] | None
    ) -> None:
        loop = asyncio.get_running_loop()

        def bind(binding: dict[str, Any]) -> None:
            assert binder is not None

            async def sent() -> None:
                await binder(binding)

            asyncio.run_coroutine_threadsafe(sent(), loop).result()

        self._extender = Extender(DeviceCluster(), unit, None if binder is None else bind)
        self.metrics = Metrics(_VERBS)

    def method(self, path: str) -> str | None:
        """The HTTP method of a path: see `Extender.method`."""
        return self._extender.method(path)

    async def answer(
        self, path: str, body: bytes, query: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status, and JSON: see `Extender.handle`; no path has a query."""
        status, found = await asyncio.to_thread(self._extender.handle, path, body)
        return status, write_json(found)
