"""A list of objects and its changes, followed for as long as the process lives.

First all objects are listed, page by page, then their changes are watched from the version of that
list on. A watch ends often and goes on from the last version seen; when the server no longer has
it (410 Gone) everything is listed again.
"""

import asyncio
import random
from collections.abc import Callable
from time import monotonic
from typing import Any

from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer

__all__ = ["Reflector"]

_PAGE = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_MISSING_PAUSE = 60.0  # a kind that is not installed may be later
_MOST_FAILURES = 8  # of watches that fail with something else than 410 before a new list


class Reflector:
    """Follows the objects of one kind.

    :param path: of the list, such as ``/api/v1/pods``.
    :param kind: of the objects.
    :param apply: is given every page, as a list with its kind, and every event, each with the kind
        of its object.
    :param complain: is called with a sentence on what went wrong; it goes on by itself.
    :param is_optional: the cluster need not have this kind, or allow to list it: then there are no
        objects of it.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        kind: str,
        apply: Callable[[dict[str, Any]], object],
        complain: Callable[[str], object],
        *,
        is_optional: bool = False,
    ) -> None:
        self._api = api
        self.path = path
        self._kind = kind
        self._apply = apply
        self._complain = complain
        self._is_optional = is_optional
        self.listed = asyncio.Event()
        """Set after the first list."""
        self.heard = monotonic()
        """When something was heard last; a watch says something at least once a minute."""
        self.lists = 0
        """How often everything was listed."""

    async def run(self) -> None:
        """Follow for ever."""
        pause = _FIRST_PAUSE
        while True:
            try:
                version = await self._list()
                pause = _FIRST_PAUSE
                await self._watch(version)
            except ApiError as error:
                if self._is_optional and error.status in (403, 404):
                    self._take_page({})
                    self.listed.set()
                    pause = _MISSING_PAUSE
                if error.status != 410 and not (self._is_optional and error.status == 404):
                    self._complain(f"listing {self.path}: {error}")
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _list(self) -> str:
        """List everything; its version."""
        query = {"limit": str(_PAGE)}
        while True:
            page = await self._api.request("GET", self.path, query=query)
            meta = self._take_page(page)
            if not meta.get("continue"):
                self.lists += 1
                self.listed.set()
                return str(meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]
            await asyncio.sleep(0)

    def _take_page(self, page: dict[str, Any]) -> dict[str, Any]:
        """Pass on a page of a list; its metadata."""
        self.heard = monotonic()
        self._apply({**page, "kind": f"{self._kind}List", "items": page.get("items") or []})
        return page.get("metadata") or {}

    async def _watch(self, version: str) -> None:
        """Follow the changes since a version until the server no longer has it."""
        failures = 0
        while failures < _MOST_FAILURES:
            before = version
            query = {"resourceVersion": version, "timeoutSeconds": str(random.randint(240, 480))}
            try:
                async for event in self._api.watch(self.path, query):
                    self.heard = monotonic()
                    item = event.get("object") or {}
                    if event.get("type") == "ERROR":
                        raise ApiError(int(item.get("code") or 0), str(item.get("message")))
                    version = (item.get("metadata") or {}).get("resourceVersion", version)
                    if event.get("type") != "BOOKMARK":
                        self._apply({**event, "object": {**item, "kind": self._kind}})
            except ApiError as error:
                if error.status == 410:
                    return
                self._complain(f"watching {self.path}: {error}")
            except ValueError as error:
                self._complain(f"watching {self.path}: {error}")
            # A server that is away is tried again and again; it may still know the version.
            failures = 0 if version != before else failures + 1
            pause = min(_FIRST_PAUSE * 2**failures, _LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1))
