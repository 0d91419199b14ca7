"""One leader among several processes, by a ``Lease`` of Kubernetes.

The holder renews the lease all the time. Another process takes it over when it has seen no renewal
for as long as the lease is valid, by its own clock: clocks need not agree. Two that try at once
cannot both succeed, as an update names the version that it changes. kubernetes_asyncio has a leader
election, too: it goes by the clock of the day, leads on until its deadline after another process
has taken over, ends at the first broken connection, and never releases a lease.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer

__all__ = ["Lease"]


class Lease:
    """A lease that this process tries to hold.

    :param identity: what tells this process from the others.
    :param seconds: how long a lease is valid without being renewed.

    A leader that cannot renew gives up after two thirds of that time, before another takes over.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        name: str,
        identity: str,
        complain: Callable[[str], object],
        seconds: int = 15,
    ) -> None:
        self._api = api
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._complain = complain
        self._seconds = seconds
        self._pause = seconds / 7.5
        self._seen: tuple[Any, ...] = ()
        self._seen_at = self._good_for = 0.0

    async def acquire(self) -> None:
        """Return when this process holds the lease."""
        while not await self._try():
            left = self._seen_at + self._good_for - monotonic()
            # As soon as the lease of a holder that is gone has run out.
            await asyncio.sleep(min(self._pause, left) if left > 0 else self._pause)

    async def hold(self) -> None:
        """Renew the lease; returns when it is lost."""
        end = monotonic() + self._seconds * 2 / 3
        while end - monotonic() > self._pause:
            await asyncio.sleep(self._pause)
            started = monotonic()
            held = await self._try_for(end - started)
            if held:
                end = started + self._seconds * 2 / 3
            elif held is False:
                return

    async def release(self) -> None:
        """Give the lease up, so that another process need not wait."""
        try:
            lease = await self._api.request("GET", f"{self._path}/{self._name}")
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.request("PUT", f"{self._path}/{self._name}", lease)
        except ApiError as error:
            self._complain(f"giving up lease {self._name}: {error}")

    async def _try_for(self, seconds: float) -> bool | None:
        """The same, but a server that does not answer is not waited for any longer."""
        try:
            async with asyncio.timeout(seconds):
                return await self._try()
        except TimeoutError:
            self._complain(f"lease {self._name}: no answer in time")
            return None

    async def _try(self) -> bool | None:
        """Whether the lease is held now; None: it is not known."""
        try:
            try:
                lease = await self._api.request("GET", f"{self._path}/{self._name}")
            except ApiError as error:
                if error.status != 404:
                    raise
                await self._api.request("POST", self._path, self._new())
                return True
            return await self._take(lease)
        except ApiError as error:
            if error.status == 409:
                return False
            self._complain(f"lease {self._name}: {error}")
            return None

    async def _take(self, lease: dict[str, Any]) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        mine = holder == self._identity
        seen = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, monotonic()
        self._good_for = spec.get("leaseDurationSeconds") or self._seconds
        if holder and not mine and monotonic() - self._seen_at < self._good_for:
            return False
        new = self._new()["spec"]
        if mine:
            new["acquireTime"] = spec.get("acquireTime")
        new["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (not mine)
        lease["spec"] = new
        await self._api.request("PUT", f"{self._path}/{self._name}", lease)
        return True

    def _new(self) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._seconds,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
