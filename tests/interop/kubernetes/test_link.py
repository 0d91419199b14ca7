"""What connects a service with a cluster, without either."""

import asyncio

from hivecore.interop.gpushare.link import GpushareLink
from hivecore.interop.gpushare.service import GpushareService
from hivecore.interop.kubernetes.pods import PodId


class Api:
    """An API server that answers nothing, and whose touches fail when it is closed."""

    def __init__(self):
        self.touching, self.closed = asyncio.Event(), asyncio.Event()

    async def request(self, *_, **__):
        await asyncio.Event().wait()

    async def touch(self, *_):
        self.touching.set()
        await self.closed.wait()
        raise RuntimeError("the session is closed")


def test_touches_that_are_under_way_at_the_end_are_ended_quietly():
    said = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))
        api = Api()
        link = GpushareLink(GpushareService("MiB", None), api)
        run = asyncio.create_task(link.run())
        await asyncio.sleep(0)
        link._meanwhile(link._touch_waiting(PodId("p", "x", "1")))
        await api.touching.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        api.closed.set()
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert said == []
