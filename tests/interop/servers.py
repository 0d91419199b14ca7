"""A service behind HTTP, for as long as a test needs it."""

import asyncio
import queue
import threading
from contextlib import contextmanager

from hivecore.interop.kubernetes.serving.server import HttpServer, Listening

__all__ = ["served"]


@contextmanager
def served(make_service, max_body, **options):
    """The URL of a server that runs in another thread.

    :param options: more of `Listening`.
    """
    found = queue.Queue()

    async def main():
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        listening = Listening("127.0.0.1", 0, max_body, **options)
        async with HttpServer(make_service(), listening) as server:
            url = await server.listen()
            found.put((url, lambda: loop.call_soon_threadsafe(end.set)))
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    url, end = found.get(timeout=20)
    try:
        yield url
    finally:
        end()
        thread.join()
