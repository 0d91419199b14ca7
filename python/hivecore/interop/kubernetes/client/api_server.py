"""Requests to the API server of Kubernetes: plain JSON in and out, over kept connections.

kubernetes_asyncio knows the credentials and how to reach the server (kubeconfig files, service
accounts, tokens that expire). Its models of objects are left out: they cost more than the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

from hivecore.interop.kubernetes.client.library import load
from hivecore.interop.kubernetes.json_text import read_json, write_json
from hivecore.interop.kubernetes.pods import PodId

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

__all__ = ["MERGE", "STRATEGIC", "ApiError", "ApiServer"]

_SECONDS = 10.0
_AT_ONCE = 16  # pods that are written; each needs a connection, whose TLS costs more than it
_QUIET = 70.0  # bookmarks come once a minute
_LONGEST_LINE = 2**22  # bytes; an object has up to 1.5 MiB, its event somewhat more
MERGE = "application/merge-patch+json"
"""The content type of a patch that names what changes."""
STRATEGIC = "application/strategic-merge-patch+json"
"""That of a patch in which entries of lists have keys; only Kubernetes' own objects take it."""


class ApiError(Exception):
    """The API server refuses; ``status`` is that of HTTP, 0: it cannot be reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiServer:
    """A connection to an API server; create it in a running event loop, and `close` it.

    Requests raise `ApiError`, with status 0 if the server cannot be reached.

    :param configuration: of kubernetes_asyncio.
    """

    def __init__(self, configuration: "Configuration") -> None:
        from aiohttp import ClientSession

        self._configuration = configuration
        self._connections = load().connections(configuration)
        self._host = str(configuration.host)
        # Its connections with their TLS, but not its session, which looks for proxies and
        # passwords in files and variables before every single request, in two threads.
        connector = self._connections.pool_manager.connector
        self._session = ClientSession(
            connector=connector, connector_owner=False, read_bufsize=_LONGEST_LINE
        )
        self._writing = asyncio.Semaphore(_AT_ONCE)
        self._options: dict[str, Any] = {
            "proxy": configuration.proxy or _proxy(self._host),
            "proxy_headers": configuration.proxy_headers,
            "server_hostname": configuration.tls_server_name,
        }

    @classmethod
    async def of_kubeconfig(cls, path: Path) -> Self:
        """The server that a kubeconfig file names.

        :raises ValueError: the file does not say.
        """
        from yaml import YAMLError

        config = load().config
        configuration = load().configuration()
        if not path.exists():  # the client would take an empty file for it
            raise ValueError(f"{path}: No such file or directory")
        try:
            await config.load_kube_config(
                config_file=str(path), client_configuration=configuration, persist_config=False
            )
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror or error}") from None
        except config.ConfigException as error:
            raise ValueError(f"{path}: {error}") from None
        except (AttributeError, LookupError, TypeError, ValueError, YAMLError) as error:
            # What the client stumbles over in a file that has another form.
            what = str(error).partition("\n")[0]
            raise ValueError(f"{path}: is no kubeconfig: {what}") from None
        return cls(configuration)

    @classmethod
    async def in_cluster(cls) -> Self:
        """The server of the cluster in which this process runs as a pod.

        :raises ValueError: it does not.
        """
        config = load().config
        configuration = load().configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException as error:
            raise ValueError(f"this is no pod of a cluster: {error}") from None
        return cls(configuration)

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()
        await self._connections.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """The JSON that is answered.

        :raises ApiError: the answer is a refusal, or there is none.
        """
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=_SECONDS)
        response = await self._send(method, path, body, query or {}, content_type, timeout)
        try:
            text = await response.read()
        except (OSError, TimeoutError, _client_error()) as error:
            raise ApiError(0, f"the API server's answer broke off: {_said(error)}") from None
        return _answer(response.status, text)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The events of a watch until it ends; a broken connection ends it too.

        :raises ApiError: it is refused.
        """
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_QUIET)
        query = {**query, "watch": "true", "allowWatchBookmarks": "true"}
        response = await self._send("GET", path, None, query, "application/json", timeout)
        try:
            if response.status != 200:
                _answer(response.status, await response.read())
            with suppress(OSError, TimeoutError, _client_error()):
                async for line in response.content:
                    if line.strip():
                        yield read_json(line)
        finally:
            response.close()

    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str],
        content_type: str,
        timeout: Any,
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            settings: Any = self._configuration.auth_settings()
            settings = await settings if isawaitable(settings) else settings
            if token := settings.get("BearerToken"):
                headers[token["key"]] = token["value"]
            return await self._session.request(
                method,
                self._host + path,
                params=query,
                headers=headers,
                data=None if body is None else write_json(body),
                timeout=timeout,
                **self._options,
            )
        except (OSError, TimeoutError, _client_error()) as error:
            raise ApiError(0, f"the API server cannot be reached: {_said(error)}") from None

    # --- pods

    async def find_pod(self, namespace: str, name: str) -> dict[str, Any]:
        """A pod.

        :raises LookupError: there is none.
        :raises ApiError: the server does not say.
        """
        try:
            pod: dict[str, Any] = await self.request("GET", _path(PodId(name, namespace)))
        except ApiError as error:
            raise (LookupError(str(error)) if error.status == 404 else error) from None
        return {"kind": "Pod", **pod}

    async def bind(self, binding: Mapping[str, Any]) -> None:
        """Bind a pod, as this ``Binding`` says; it may be bound so already.

        :raises LookupError: there is no such pod, but perhaps another one of its name.
        :raises ApiError: it cannot be bound.
        """
        pod = PodId.read(binding)
        try:
            async with self._writing:
                await self.request("POST", f"{_path(pod)}/binding", binding)
        except ApiError as error:
            if error.status == 404:
                raise LookupError(str(error)) from None
            if error.status != 409:
                raise
            await self._accept(error, pod, binding)

    async def _accept(self, refusal: ApiError, pod: PodId, binding: Mapping[str, Any]) -> None:
        """Return if a refused pod is bound as it should be; say what is wrong otherwise."""
        try:
            bound = await self.find_pod(pod.namespace, pod.name)
        except ApiError:
            raise refusal from None
        if pod.uid and bound["metadata"].get("uid") != pod.uid:
            raise LookupError(f"pod {pod.full} has another uid by now") from None
        node, wanted = binding["target"]["name"], binding["metadata"].get("annotations") or {}
        has = bound["metadata"].get("annotations") or {}
        if bound.get("spec", {}).get("nodeName") != node or not wanted.items() <= has.items():
            raise refusal

    async def evict(self, pod: PodId) -> None:
        """Evict a pod, if it is still the same; it may need its grace period to end.

        :raises ApiError: it is not evicted: 404 it does not exist, 409 it may be another one, 429 a
            disruption budget keeps it for now.
        """
        eviction: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
        }
        if pod.uid:
            eviction["deleteOptions"] = {"preconditions": {"uid": pod.uid}}
        await self.request("POST", f"{_path(pod)}/eviction", eviction)

    async def touch(self, pod: PodId, annotations: Mapping[str, str]) -> None:
        """Change annotations of a pod, if it is still the same."""
        meta = {"annotations": annotations, **({"uid": pod.uid} if pod.uid else {})}
        async with self._writing:
            await self.request("PATCH", _path(pod), {"metadata": meta}, content_type=MERGE)


def _proxy(url: str) -> str | None:
    """The proxy that variables such as HTTPS_PROXY name for this URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return None if proxy_bypass(host) else getproxies().get(parts.scheme)


def _path(pod: PodId) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace, '')}/pods/{quote(pod.name, '')}"


def _answer(status: int, text: bytes) -> Any:
    try:
        answer = read_json(text) if text else {}
    except ValueError:
        answer = {"message": text[:200].decode(errors="replace")}
    if 200 <= status < 300:
        return answer
    message = answer.get("message") if isinstance(answer, dict) else None
    raise ApiError(status, f"{message or 'no message'} (status {status})")


def _client_error() -> type[Exception]:
    from aiohttp import ClientError

    return ClientError


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
