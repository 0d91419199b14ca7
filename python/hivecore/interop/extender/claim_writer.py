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

from hivecore.interop.extender.claim_conditions import timed
from hivecore.interop.extender.claim_writes import ClaimWrite
from hivecore.interop.extender.claims import FINALIZER, MOST_CONSUMERS, has_same_devices
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId

__all__ = ["ClaimInDoubtError", "ClaimTakenError", "ClaimWriter"]

_OF_PODS = "allocation", "reservedFor"
_TIMED_OUT = 408
_TRIES = 2  # another writer may come between reading and writing


class ClaimTakenError(Exception):
    """A claim has other devices than it should have, or none.

    :param claim: as the API server has it.
    """

    def __init__(self, claim: dict[str, Any], message: str) -> None:
        super().__init__(f"the claim {show(_name_of(claim))} {message}")
        self.claim = claim


class ClaimInDoubtError(ApiError):
    """The answer does not say whether a claim gets its devices; it may get them later.

    :param claim: the version of it that was changed.
    """

    def __init__(self, claim: dict[str, Any], error: ApiError) -> None:
        super().__init__(error.status, str(error))
        self.claim = claim


class ClaimWriter:
    """Writes claims, one update of a claim at a time."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._clearing: dict[str, str] = {}  # claim -> the version that may still lose its devices

    async def reserve(self, write: ClaimWrite, pod: PodId) -> dict[str, Any]:
        """Give a claim its devices if it has none, add the pod, and return the claim.

        :raises ClaimTakenError: it has other devices, or lost those that it had.
        :raises ClaimInDoubtError: it may get its devices later.
        :raises ApiError: it cannot be written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            status = claim.get("status") or {}
            given, consumers = status.get("allocation"), list(status.get("reservedFor") or ())
            self._check(claim, write)
            if not any(consumer.get("uid") == pod.uid for consumer in consumers):
                if len(consumers) >= MOST_CONSUMERS:
                    raise ClaimTakenError(claim, f"has {MOST_CONSUMERS} pods already")
                consumers.append({"resource": "pods", "name": pod.name, "uid": pod.uid})
            elif given:
                return claim
            status = {**status, "reservedFor": consumers}
            if given:
                return await self._put({**claim, "status": status}, write.claim, "/status")
            claim = await self._protect(claim, write.claim)
            status["allocation"] = timed(write.allocation)
            try:
                return await self._put({**claim, "status": status}, write.claim, "/status")
            except ApiError as error:
                if not _is_final(error):
                    raise ClaimInDoubtError(claim, error) from None
                raise

        claim: dict[str, Any] = await self._changed(write.claim, change)
        return claim

    async def clear(self, name: str, is_stale: Callable[[], bool]) -> dict[str, Any] | None:
        """Remove devices and pods from a claim and return it; ``None`` if it is in use.

        :param is_stale: whether the claim still should be cleared.
        :raises ApiError: it cannot be written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            return await self._clear(claim, name)

        claim: dict[str, Any] | None = await self._changed(name, change, is_stale)
        return claim

    async def give_up(self, name: str, is_waiting: Callable[[str], bool]) -> dict[str, Any]:
        """Remove devices that do not become ready from a claim, unless pods use it; return it.

        :param is_waiting: whether the pod with a uid waits to be bound.
        :raises ApiError: it cannot be written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            consumers = (claim.get("status") or {}).get("reservedFor") or ()
            if not all(is_waiting(consumer.get("uid", "")) for consumer in consumers):
                return claim
            return await self._clear(claim, name)

        claim: dict[str, Any] = await self._changed(name, change)
        return claim

    async def outdate(self, name: str, is_wanted: Callable[[], bool]) -> dict[str, Any] | None:
        """Give a claim without devices another version, so that no write in doubt can arrive.

        :param is_wanted: whether this is still needed.
        :returns: the claim; ``None`` if it is not needed.
        :raises ApiError: it cannot be read or written.
        """

        async def change(claim: dict[str, Any]) -> dict[str, Any]:
            meta = claim["metadata"]
            finalizers = meta.get("finalizers", [])
            if (claim.get("status") or {}).get("allocation") or FINALIZER not in finalizers:
                return claim  # the write has arrived, or the claim has changed since
            kept = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            return await self._put({**claim, "metadata": {**meta, "finalizers": kept}}, name)

        claim: dict[str, Any] | None = await self._changed(name, change, is_wanted)
        return claim

    def _check(self, claim: dict[str, Any], write: ClaimWrite) -> None:
        """Refuse a claim whose state has changed."""
        meta, given = claim["metadata"], (claim.get("status") or {}).get("allocation")
        if meta.get("uid") != write.uid:
            raise ClaimTakenError(claim, "is another one by now")
        if meta.get("deletionTimestamp"):
            raise ClaimTakenError(claim, "is being deleted")
        if not given and write.is_given:
            raise ClaimTakenError(claim, "has lost its devices")
        if given and not has_same_devices(given, write.allocation):
            raise ClaimTakenError(claim, "has got other devices")
        if self._clearing.get(write.claim) == meta["resourceVersion"]:
            raise ClaimTakenError(claim, "may still lose its devices")

    async def _clear(self, claim: dict[str, Any], name: str) -> dict[str, Any]:
        """Remove devices and pods. The API server removes what drivers said of the devices."""
        status = claim.get("status") or {}
        kept = {key: of for key, of in status.items() if key not in _OF_PODS}
        try:
            cleared = await self._put({**claim, "status": kept}, name, "/status")
        except ApiError as error:
            if not _is_final(error):
                self._clearing[name] = claim["metadata"]["resourceVersion"]
            raise
        self._clearing.pop(name, None)
        return cleared

    async def _protect(self, claim: dict[str, Any], name: str) -> dict[str, Any]:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if FINALIZER in finalizers:
            return claim
        finalizers.append(FINALIZER)
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


def _is_final(error: ApiError) -> bool:
    """Whether a request that failed has certainly changed nothing, and never will."""
    return 400 <= error.status < 500 and error.status != _TIMED_OUT


def _name_of(claim: dict[str, Any]) -> str:
    return f"{claim['metadata'].get('namespace')}/{claim['metadata'].get('name')}"


def _path(name: str) -> str:
    namespace, _, own = name.partition("/")
    claims = f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, '')}/resourceclaims"
    return f"{claims}/{quote(own, '')}"
