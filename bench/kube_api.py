"""A minimal Kubernetes API server, which adds as little load as possible.

It has a list of nodes and one of pods, written before the measurement, accepts bindings and
patches, and sends given events to its watchers.
"""

import asyncio
import json
from typing import Any

__all__ = ["KubeApi"]


class KubeApi:
    """Lists, watches and bindings, in the loop of the caller.

    :param nodes, pods: the lists, as plain data.
    """

    def __init__(self, nodes: list[Any], pods: list[Any]) -> None:
        self.lists = {
            kind: json.dumps(
                {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": items}
            ).encode()
            for kind, items in (("Node", nodes), ("Pod", pods))
        }
        self.version = 1
        self.bindings = self.lookups = 0
        self.pods: dict[bytes, bytes] = {}
        self.watchers: dict[str, list[asyncio.Transport]] = {"Node": [], "Pod": []}

    async def listen(self) -> int:
        """Start listening; return the port."""
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    def kubeconfig(self, port: int) -> str:
        """Return a kubeconfig for it."""
        return json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )

    def tell(self, type_: bytes, name: bytes, pod: bytes) -> None:
        """Send an event of a pod whose version is written VERSION."""
        self.version += 1
        if type_ == b"DELETED":
            self.pods.pop(name, None)
        else:
            self.pods[name] = pod
        text = b'{"type":"%s","object":%s}\n' % (type_, pod)
        text = text.replace(b"VERSION", b"%d" % self.version)
        for transport in self.watchers["Pod"]:
            transport.write(b"%x\r\n%s\r\n" % (len(text), text))


class _Connection(asyncio.Protocol):
    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        while True:
            head, end, rest = self.data.partition(b"\r\n\r\n")
            if not end:
                return
            length = 0
            if b"ontent-" in head:
                low = head.lower()
                if b"content-length:" in low:
                    length = int(low.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(rest) < length:
                return
            self.data = rest[length:]
            self.answer(head.split(b" ", 2))

    def answer(self, line: list[bytes]) -> None:
        api, (method, path) = self.api, line[:2]
        kind = "Node" if path.startswith(b"/api/v1/nodes") else "Pod"
        if method == b"POST":
            api.bindings += 1
            self.send(b"201 Created", b'{"kind":"Status"}')
        elif method == b"PATCH":
            self.send(b"200 OK", b"{}")
        elif b"watch=true" in path:
            self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            api.watchers[kind].append(self.transport)
        elif path.partition(b"?")[0].endswith(b"s"):
            self.send(b"200 OK", api.lists[kind])
        elif (pod := api.pods.get(path.rpartition(b"/")[2])) is not None:
            api.lookups += 1
            self.send(b"200 OK", pod.replace(b"VERSION", b"%d" % api.version))
        else:
            self.send(b"404 Not Found", b'{"message":"no such pod"}')

    def send(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)
