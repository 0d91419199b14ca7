"""An extender that decides nothing, at once: the first node that is offered passes.

    python bench/null_extender.py PORT

kube-scheduler binds the pods itself. What it loses with this one is the price of any extender.
"""

import asyncio
import sys
from typing import Any

_NAMES = b'"NodeNames":["'
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class NullExtender(asyncio.Protocol):
    """A kept connection of kube-scheduler, which sends one request after the other."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, _, body = self.data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if length and len(body) >= int(length):
            answer = b'{"NodeNames":["%s"]}' % body.partition(_NAMES)[2].partition(b'"')[0]
            self.transport.write(_HEAD % len(answer) + answer)
            self.data = b""


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(NullExtender, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
