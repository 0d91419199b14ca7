"""Services behind HTTP, in a thread or as `hivecore serve` in a process of its own."""

import asyncio
import json
import queue
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager

import httpx

from hivecore.interop.kubernetes.serving.server import HttpServer, Listening

__all__ = ["PLAIN", "Command", "at_once", "served", "until"]

#: of clients without TLS: by default each one reads all authorities that the system trusts
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def served(make_service, max_body=20_000, **options):
    """The URL of a server in another thread; `options` are more of `Listening`."""
    result = queue.Queue()

    async def main():
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        listening = Listening("127.0.0.1", 0, max_body, **options)
        async with HttpServer(make_service(), listening) as server:
            url = await server.listen()
            result.put((url, lambda: loop.call_soon_threadsafe(end.set)))
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    url, end = result.get(timeout=20)
    try:
        yield url
    finally:
        end()
        thread.join()


def at_once(*calls):
    """Make the calls in a thread each, and wait for their ends."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def until(holds, seconds=60):
    """Wait for something that comes about by itself."""
    end, pause = time.monotonic() + seconds, 0.002
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.05)  # what asks a server keeps it from its work


class Command:
    """`hivecore serve` in a process that can be killed and started again, and a client of it."""

    program = ("-m", "hivecore", "serve")

    def __init__(self, *options):
        self.options = [*map(str, options)]
        self.client = httpx.Client(timeout=20, verify=PLAIN)
        self.errors = tempfile.TemporaryFile("ab+")  # noqa: SIM115

    def start(self):
        command = [sys.executable, *self.program, "--port", "0", *self.options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        return self

    def listening(self):
        line = self.process.stdout.readline()
        self.url = re.fullmatch(r"hivecore listens on (https?://127\.0\.0\.1:\d+)\n", line)[1]
        self.client.base_url = self.url
        return self

    def get(self, path):
        return self.client.get(path)

    def post(self, path, body):
        answer = self.client.post(path, json=body)
        return answer.status_code, answer.json()

    def said(self):
        """What is on standard error."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def logged(self):
        return [json.loads(line) for line in self.said().splitlines() if line[:1] == "{"]

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        status = self.process.wait(20)
        self.process.stdout.close()
        return status

    def __enter__(self):
        return self.start().listening()

    def __exit__(self, *_):
        self.end()
        self.errors.close()
        self.client.close()
