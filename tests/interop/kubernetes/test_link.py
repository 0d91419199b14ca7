"""What connects a service with a cluster, without either."""

import asyncio

import pytest

from hivecore.interop.gpushare.link import GpushareLink
from hivecore.interop.gpushare.service import GpushareService
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.evictor import Evictor
from hivecore.interop.kubernetes.informer import KnownPod
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.metrics import Metrics


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


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_waiting_pod_is_dropped_if_another_one_has_its_name(status):
    earlier, later = PodId("p", "x", "1"), PodId("p", "x", "2")
    service = GpushareService("MiB", None)

    class Server(Api):
        async def touch(self, pod, _):
            raise ApiError(status, "it is gone")

    async def left(waiting):
        service.waiting["x/p"] = waiting
        await GpushareLink(service, Server())._touch_waiting(earlier)
        return dict(service.waiting)

    assert asyncio.run(left(earlier)) == {}
    assert asyncio.run(left(later)) == {"x/p": later}


@pytest.mark.parametrize("notes", [{}, None, {"card": "1"}, {"card": "0", "more": "x"}])
def test_a_pod_that_another_scheduler_has_bound_is_not_taken_as_bound(notes):
    class Server(ApiServer):
        def __init__(self):
            self._writing = asyncio.Semaphore(16)

        async def request(self, method, *_, **__):
            if method == "POST":
                raise ApiError(409, "is bound already")
            return {"metadata": {"uid": "1", "annotations": notes}, "spec": {"nodeName": "n"}}

    meta = {"name": "p", "namespace": "x", "uid": "1", "annotations": {"card": "0"}}
    work = Server().bind({"metadata": meta, "target": {"name": "n"}})
    if notes and notes["card"] == "0":
        asyncio.run(work)
    else:
        with pytest.raises(ApiError, match="is bound already"):
            asyncio.run(work)


class SlowServer(ApiServer):
    """Counts the requests that are under way at once."""

    def __init__(self):
        self._writing = asyncio.Semaphore(16)
        self.now = self.most = self.all = 0

    async def request(self, *_, **__):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        self.all += 1


def test_pods_share_few_connections():
    async def main():
        server = SlowServer()
        pods = [PodId(f"p{i}", "x", "") for i in range(60)]
        bindings = [
            {"metadata": {"name": pod.name, "namespace": "x"}, "target": {"name": "n"}}
            for pod in pods
        ]
        await asyncio.gather(*map(server.bind, bindings), *(server.touch(pod, {}) for pod in pods))
        return server.most, server.all

    assert asyncio.run(main()) == (16, 120)


class Listed(GpushareLink):
    """Knows all objects of its cluster."""

    async def listed(self):
        pass


@pytest.mark.parametrize(("asks_others", "touches"), [(True, 1), (False, 100)])
def test_unasked_pods_are_left_alone_once_kube_scheduler_asks_about_others(asks_others, touches):
    touched = []

    class Asking(Api):
        async def touch(self, pod, _):
            touched.append(pod)
            service.note_asked("x/other" if asks_others else pod.full)
            await asyncio.sleep(0.001)

    service = GpushareService("MiB", None)

    async def main():
        work = asyncio.create_task(Listed(service, Asking())._touch_unasked())
        await asyncio.sleep(0)
        service.unasked.update({f"x/p{i}": PodId(f"p{i}", "x", "") for i in range(100)})
        await asyncio.sleep(0.2)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(main())
    assert len(touched) == touches


def test_a_victim_that_ends_just_before_it_is_evicted_does_no_harm():
    class Server(ApiServer):
        def __init__(self):
            self.evicted = []

        async def request(self, *_, **__):
            pass

        async def evict(self, pod):
            self.evicted.append(pod.full)

    async def main():
        api, pods = Server(), {"1": KnownPod("x/p", 7)}
        evictor = Evictor(api, pods, Metrics(()), 0.0)
        asyncio.get_running_loop().call_soon(pods.clear)
        assert await evictor.evict({"1": "it has to stop"}, 5.0)
        return api.evicted

    assert asyncio.run(main()) == ["x/p"]
