"""A cluster with device claims, step by step: an API server, and a service that hears of it.

Writes go over HTTP; what is reported is handed to the service when a test says so. `check` looks at
nothing but the API server.
"""

import asyncio
import json

from interop.extender.pods_and_kubelets import KubeScheduler
from interop.kubernetes.fake_api_server import KINDS, PROTECTION, FakeApiServer

from hivecore.dra import DraCluster, KubernetesFeatures
from hivecore.interop.extender.claim_writer import ClaimWriter
from hivecore.interop.extender.link import PodLink
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.api_server import ApiServer
from hivecore.scheduler import Scheduler

__all__ = ["ClaimCluster", "claimed", "dra"]

_FOLLOWED = "nodes", "pods", "resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims"


def claimed(**claims):
    """A pod's claims by their names in the pod; a template's name begins with "new-"."""
    kinds = {True: "resourceClaimTemplateName", False: "resourceClaimName"}
    return [{"name": claim, kinds[of.startswith("new-")]: of} for claim, of in claims.items()]


def dra():
    """A cluster of device claims with nothing in it, in which rules taint devices."""
    return DraCluster(KubernetesFeatures.of("1.36", {"DRADeviceTaintRules": True}))


class ClaimCluster(KubeScheduler):
    """Nodes and pods, the service, and what kube-scheduler and the controller of claims do."""

    def __init__(self, folder, nodes=("n0", "n1"), devices=2, scheduler=None):
        self.api = FakeApiServer().__enter__()
        self.templates = {"new-gpu": {"gpu": 1}, "new-pair": {"gpu": 2}}
        super().__init__(self._answer, nodes)
        self.seconds, self.evict_after = 0.0, 5.0
        self.path = self.api.write_kubeconfig(folder / "kubeconfig")
        self.runner = asyncio.Runner()
        self.server = self.runner.run(self._connected())
        for node in nodes:
            self.api.add_node(node)
            self.api.add_slice(node, [f"d{i}" for i in range(devices)])
        self.api.add_class("gpu")
        self.start(Scheduler(claims=dra()) if scheduler is None else scheduler)

    async def _connected(self):
        return await ApiServer.of_kubeconfig(self.path)

    def run(self, work):
        return self.runner.get_loop().run_until_complete(work)

    def close(self):
        self.run(self.server.close())
        self.runner.close()
        self.api.__exit__()

    # --- the service

    def start(self, scheduler):
        """A service that has listed everything."""
        self.scheduler = scheduler
        self.run(self._start())
        self.seen = self.api.version

    async def _start(self):
        self.service = PodService(
            self.scheduler,
            clock=lambda: 0.0,
            binder=self.server.bind,
            find_pod=self.server.find_pod,
            writer=ClaimWriter(self.server),
        )
        self.jobs = self.service.extender.jobs
        self.link = PodLink(self.service, self.server, self.evict_after)
        for kind in _FOLLOWED:
            page = self.api._list(kind, {})
            own = self._kind(KINDS[kind])
            await self.service.apply({**page, "kind": f"{own}List"})

    def _kind(self, kind):
        return f"{kind}.v1beta2" if kind == "DeviceTaintRule" else kind

    def restart(self, with_log=True):
        """Another process; without its log it knows no job."""
        saved = Scheduler.from_bytes(self.scheduler.to_bytes())
        self.start(saved if with_log else Scheduler(claims=dra()))

    def hear(self):
        """The watches tell of everything that has happened."""
        events = [
            event for kind in _FOLLOWED for event in self.api.events[kind] if event[0] > self.seen
        ]
        self.seen = self.api.version
        for _, event in sorted(events, key=lambda item: item[0]):
            item = {**event["object"], "kind": self._kind(event["object"]["kind"])}
            self.run(self.service.apply({**event, "object": item}))

    def _answer(self, path, body):
        status, text = self.run(self.service.answer(path, json.dumps(body).encode(), {}))
        return status, json.loads(text)

    # --- what happens in the cluster

    def add_pod(self, name, labels=None, priority=0, containers=(), **claims):
        meta = {"name": name, "namespace": "x", "annotations": {}, "labels": labels or {}}
        spec = {"priority": priority, "containers": list(containers)}
        spec["resourceClaims"] = claimed(**claims)
        self.api._put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def add_claimed(self, *pods, devices=1):
        """A claim and pods that share it."""
        self.api.add_claim("c", {"gpu": devices})
        for name in pods:
            self.add_pod(name, gpus="c")

    def settle(self, rounds=6, only_touched=False):
        """Everybody acts; kube-scheduler may retry only the pods that are touched."""
        for _ in range(rounds):
            self.api.control_claims(self.templates)
            self.hear()
            self.wake(self.jobs)
            for pod in self.api.all("pods"):
                is_resting = only_touched and pod["metadata"]["uid"] in self.resting
                if "nodeName" not in pod["spec"] and not is_resting:
                    self.try_pod(pod["metadata"]["name"])
            if self.jobs.claims is not None:
                self.clear()
            self.evict()

    def clear(self):
        """The service ends doubts, and takes devices off claims that need others."""
        self.run(self.link.end_doubts())
        self.run(self.link.clear_claims())

    def begin(self, name):
        """kube-scheduler binds a pod, which the API server answers later; waits for the end."""
        pod = self.api.pod(name)
        (node,) = self.filter(pod)["NodeNames"]
        path, body = "/v1/extender/bind", json.dumps(self.bind_body(pod, node)).encode()
        task = self.runner.get_loop().create_task(self.service.answer(path, body, {}))
        self.begun = task
        self.run(self.until(self.api.held.is_set))
        return lambda: self.run(asyncio.wait_for(task, 20))

    def cancel(self):
        """The request that `begin` sent is cancelled, as when the server shuts down."""
        self.begun.cancel()
        self.run(asyncio.wait([self.begun]))

    async def until(self, has_happened):
        async with asyncio.timeout(20):
            while not has_happened():
                await asyncio.sleep(0.002)

    def evict(self, seconds=100.0):
        """So much time passes, and victims that still run are evicted."""
        for passes in (0.0, seconds):
            self.seconds += passes
            while self.run(self.link.evict_victims(self.seconds)):
                pass

    def try_pod(self, name):
        """kube-scheduler tries a pod, and does not preempt for claims; whether it is bound."""
        _, bound = self.place(self.api.pod(name))
        if bound is not None:
            self.reasons[name] = bound["Error"]
        return bound is not None and not bound["Error"]

    def delete(self, *pods):
        for pod in pods:
            self.api.delete_pod(pod)

    def refuses(self, name):
        """A pod is tried when everything has been heard, and not bound."""
        self.hear()
        assert not self.try_pod(name)

    def add_gang(self, name, size, priority=0, quota=None, **more):
        """Pods that start together."""
        label = "pod-group.scheduling.sigs.k8s.io"
        labels = {f"{label}/name": name, f"{label}/min-available": str(size)}
        if quota is not None:
            labels["quota.scheduling.koordinator.sh/name"] = quota
        for i in range(size):
            self.add_pod(f"{name}-{i}", labels=labels, priority=priority, **more)

    # --- what there is

    def node_of(self, pod):
        return self.api.pod(pod)["spec"].get("nodeName")

    def devices(self, claim):
        """The devices of a claim, as node/device."""
        allocation = (self.api.claim(claim).get("status") or {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", ())
        return [f"{result['pool']}/{result['device']}" for result in results]

    def booked(self):
        """By device the names under which the scheduler has booked it."""
        results = {}
        for owner, entries in self.scheduler.claims._book.owners.items():
            for entry in entries:
                results.setdefault(f"{entry.device.pool}/{entry.device.device}", []).append(owner)
        return results

    def check(self, has_heard=True):
        """No device twice; bound pods have their claims on their nodes; the book has all of it."""
        self.scheduler.check()
        if has_heard:
            self.hear()
        holders = {}
        for claim in self.api.all("resourceclaims"):
            name, status = claim["metadata"]["name"], claim.get("status") or {}
            for device in self.devices(name):
                holders.setdefault(device, []).append(name)
            if status.get("allocation") is not None:
                assert PROTECTION in claim["metadata"]["finalizers"]
            else:
                assert not status.get("reservedFor")
        assert all(len(names) == 1 for names in holders.values()), holders
        for pod in self.api.all("pods"):
            node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
            items = pod["status"].get("resourceClaimStatuses", ())
            items = {entry["name"]: entry.get("resourceClaimName") for entry in items}
            for entry in pod["spec"].get("resourceClaims", ()) if node else ():
                name = entry.get("resourceClaimName") or items[entry["name"]]
                if name and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                    claim = self.api.claim(name)
                    assert uid in [of["uid"] for of in claim["status"]["reservedFor"]]
                    devices = self.devices(claim["metadata"]["name"])
                    assert {of.partition("/")[0] for of in devices} <= {node}
                    assert devices or not claim["spec"]["devices"]["requests"]
        if self.scheduler.claims is None:
            return holders, {}
        booked = self.booked()
        assert all(len(owners) == 1 for owners in booked.values())
        assert not has_heard or holders.keys() <= booked.keys(), (holders, booked)
        return holders, booked
