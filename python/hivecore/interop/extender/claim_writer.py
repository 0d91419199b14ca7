"""Writes the devices of claims into their status before a pod is bound, and removes them again.

As in kube-scheduler, a claim first gets the finalizer that keeps it while it has devices, then its
devices and the pod that uses them. Each update names the version that it changes, so that of two
writers the second notices the first. When a pod ends, Kubernetes' claim controller removes it from
the claim, and with the last pod the devices.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from hivecore.interop.extender.claims import MOST_CONSUMERS, ClaimWrite, has_same_devices
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId

__all__ = ["ClaimTakenError", "ClaimWriter"]

_FINALIZER = "resource.kubernetes.io/delete-protection"
_OF_PODS = "allocation", "reservedFor"
_TRIES = 2  # another writer may come between reading and writing


class ClaimTakenError(Exception):
    """A claim has other devices than it should have, or none.

    :param claim: as the API server has it.
    """

    def __init__(self, claim: dict[str, Any], message: str) -> None:
        super().__init__(f"the claim {show(_name_of(claim))} {message}")
        self.claim = claim


class ClaimWriter:
    """Writes claims, one update of a claim at a time."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._locks = WeakValueDictionary[str, asyncio.Lock]()

    async def reserve(self, write: ClaimWrite, pod: PodId) -> dict[str, Any]:
        """Give a claim its devices if it has none, add the pod, and return the claim.

        :raises ClaimTakenError: it has other devices, or lost those that it had.
        :raises ApiError: it cannot be written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            status = claim.setdefault("status", {})
            self._check(claim, write)
            consumers = status.setdefault("reservedFor", [])
            if not any(consumer.get("uid") == pod.uid for consumer in consumers):
                if len(consumers) >= MOST_CONSUMERS:
                    raise ClaimTakenError(claim, f"has {MOST_CONSUMERS} pods already")
                consumers.append({"resource": "pods", "name": pod.name, "uid": pod.uid})
            elif status.get("allocation"):
                return claim
            if not status.get("allocation"):
                claim = await self._protect(claim, write.claim)
                claim["status"] = {**status, "allocation": write.allocation}
            return await self._put(claim, write.claim, "/status")

        claim: dict[str, Any] = await self._changed(write.claim, change)
        return claim

    async def clear(self, name: str, is_stale: Callable[[], bool]) -> dict[str, Any] | None:
        """Remove devices and pods from a claim and return it; ``None`` if it is in use.

        :param is_stale: whether the claim still should be cleared.
        :raises ApiError: it cannot be written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            status = claim.get("status") or {}
            kept = {key: of for key, of in status.items() if key not in _OF_PODS}
            return await self._put({**claim, "status": kept}, name, "/status")

        claim: dict[str, Any] | None = await self._changed(name, change, is_stale)
        return claim

    def _check(self, claim: dict[str, Any], write: ClaimWrite) -> None:
        """Refuse a claim whose state has changed."""
        meta, given = claim["metadata"], claim["status"].get("allocation")
        if meta.get("uid") != write.uid:
            raise ClaimTakenError(claim, "is another one by now")
        if meta.get("deletionTimestamp"):
            raise ClaimTakenError(claim, "is being deleted")
        if not given and write.is_given:
            raise ClaimTakenError(claim, "has lost its devices")
        if given and not has_same_devices(given, write.allocation):
            raise ClaimTakenError(claim, "has got other devices")

    async def _protect(self, claim: dict[str, Any], name: str) -> dict[str, Any]:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if _FINALIZER in finalizers:
            return claim
        finalizers.append(_FINALIZER)
        return await self._put(claim, name)

    async def _changed(
        self,
        name: str,
        change: Callable[[dict[str, Any]], Any],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Any:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        async with lock:
            for tried in range(1, _TRIES + 1):
                if not is_wanted():
                    return None
                try:
                    return await change(await self._api.request("GET", _path(name)))
                except ApiError as error:
                    if error.status != 409 or tried == _TRIES:
                        raise

    async def _put(self, claim: dict[str, Any], name: str, part: str = "") -> dict[str, Any]:
        updated: dict[str, Any] = await self._api.request("PUT", _path(name) + part, claim)
        return updated


def _name_of(claim: dict[str, Any]) -> str:
    return f"{claim['metadata'].get('namespace')}/{claim['metadata'].get('name')}"


def _path(name: str) -> str:
    namespace, _, own = name.partition("/")
    claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, '')}/resourceclaims"
    return f"{claims}/{quote(own, '')}"
