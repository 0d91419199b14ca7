"""A small cluster of Kubernetes without a network: pods, nodes, and what kube-scheduler does.

The service is notified of all events as by a watch, by POST /v1/watch. `pump` tries
every pod that waits, in turn, until nothing changes: filter with all nodes, bind where one is
left, else preempt; victims are deleted.
"""

import asyncio
import itertools
import json

from scheduler.lives import NODES

from hivecore.interop.extender.service import PodService

__all__ = [
    "GANG",
    "HIVED",
    "Cluster",
    "KubeScheduler",
    "World",
    "hived_gang",
    "hived_pod",
    "koordinator_pod",
]

HIVED = "hivedscheduler.microsoft.com"
GANG = "pod-group.scheduling.sigs.k8s.io"
_UIDS = itertools.count(1)


def hived_pod(name, vc, gpus, group=None, members=None, priority=0, **more):
    """A pod of HiveD's; `members` are (pods, GPUs) of each kind of pods of its group."""
    spec = {"virtualCluster": vc, "leafCellNumber": gpus, "priority": priority, **more}
    if group is not None:
        named = [{"podNumber": pods, "leafCellNumber": each} for pods, each in members]
        spec["affinityGroup"] = {"name": group, "members": named}
    return _pod(name, {f"{HIVED}/pod-scheduling-spec": json.dumps(spec)}, {}, {})


def hived_gang(name, size, gpus=4, vc="a", priority=0):
    """Pods of one group, all alike."""
    return [hived_pod(f"{name}-{i}", vc, gpus, name, [(size, gpus)], priority) for i in range(size)]


def koordinator_pod(name, quota, gpus, gang=None, least=1, priority=0, **labels):
    """A pod with Koordinator's labels."""
    labels = {"quota.scheduling.koordinator.sh/name": quota, **labels}
    if gang is not None:
        labels |= {f"{GANG}/name": gang, f"{GANG}/min-available": str(least)}
    built = _pod(name, {}, labels, {"nvidia.com/gpu": gpus} if gpus else {})
    built["spec"]["priority"] = priority
    return built


def _pod(name, annotations, labels, limits):
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "x",
            "uid": f"uid-{next(_UIDS)}",
            "annotations": annotations,
            "labels": labels,
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }


def _node(name, ready=True):
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


class KubeScheduler:
    """Asks about pods.

    :param ask: (path, body) -> (status, answer).
    :ivar reasons: pod -> why it was not placed when it was tried last.
    :ivar resting: the uids of pods that were refused, and not touched since.
    """

    def __init__(self, ask, nodes):
        self.ask, self.nodes, self.reasons, self.resting = ask, nodes, {}, set()

    def verb(self, verb, body):
        status, answer = self.ask(f"/v1/extender/{verb}", body)
        assert status == 200, answer
        return answer

    def filter(self, pod, nodes=None, times=1):
        """What the last one of so many questions about these nodes is answered."""
        names = list(self.nodes if nodes is None else nodes)
        for _ in range(times):
            answer = self.verb("filter", {"Pod": pod, "NodeNames": names})
        return answer

    def place(self, pod):
        """Try a pod: the answer to filter, and that to bind if a node is left."""
        answer = self.filter(pod)
        nodes, failed = answer["NodeNames"] or [], answer["FailedNodes"] or {}
        reason = answer["Error"] or next(iter(failed.values()), "")
        self.reasons[pod["metadata"]["name"]] = reason
        assert set(nodes) <= set(self.nodes)
        if not nodes:
            self.resting.add(pod["metadata"]["uid"])
        return answer, self.bind(pod, nodes[0]) if nodes else None

    def wake(self, jobs):
        """The service touches pods that it refused."""
        woken, jobs.woken = jobs.woken, {}
        for job in woken:
            self.resting -= {pod.identity for pod in jobs.refused_of(job)}

    def bind(self, pod, node):
        return self.verb("bind", self.bind_body(pod, node))

    def bind_body(self, pod, node):
        meta = pod["metadata"]
        named = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
        return {**named, "Node": node}


class Cluster(KubeScheduler):
    """Pods and nodes, and a scheduler that asks."""

    def __init__(self, ask, nodes, watches=True):
        super().__init__(ask, nodes)
        self.watches, self.pods, self.evicted = watches, {}, []

    # --- what happens

    def create(self, *pods):
        for pod in pods:
            self.pods[pod["metadata"]["uid"]] = pod
            self.watch("ADDED", pod)

    def run(self, *pods, grace=False):
        """Create pods, and try all that wait."""
        self.create(*pods)
        self.pump(grace=grace)

    def delete(self, *names):
        for pod in list(self.pods.values()):
            if pod["metadata"]["name"] in names:
                del self.pods[pod["metadata"]["uid"]]
                self.watch("DELETED", pod)

    def end(self, name):
        pod = self.pod(name)
        pod["status"]["phase"] = "Succeeded"
        self.watch("MODIFIED", pod)

    def set_ready(self, node, ready):
        self.watch("MODIFIED", _node(node, ready))

    def list_nodes(self, *names):
        """All nodes, which are ready, as one list."""
        page = {"kind": "NodeList", "metadata": {}, "items": [_node(name) for name in names]}
        assert self.ask("/v1/watch", page) == (200, {})

    def watch(self, type_, item):
        if self.watches:
            status, answer = self.ask("/v1/watch", {"type": type_, "object": item})
            assert status == 200, answer

    def appear(self, *pods):
        """Pods that were there before the service, as one list."""
        self.pods = {pod["metadata"]["uid"]: pod for pod in pods}
        assert self.listed() == (200, {})

    def listed(self):
        """All pods as one list."""
        page = {"kind": "PodList", "metadata": {}, "items": list(self.pods.values())}
        return self.ask("/v1/watch", page)

    # --- what there is

    def pod(self, name):
        (result,) = [p for p in self.pods.values() if p["metadata"]["name"] == name]
        return result

    def bound(self):
        """Pod -> node, of those that have not ended."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods.values()
            if "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending"
        }

    def gpus(self):
        """(node, GPU) -> pods, by HiveD's annotation."""
        results = {}
        for name, node in self.bound().items():
            annotations = self.pod(name)["metadata"]["annotations"]
            for gpu in annotations[f"{HIVED}/pod-leaf-cell-isolation"].split(","):
                results.setdefault((node, int(gpu)), []).append(name)
        return results

    # --- kube-scheduler

    def pump(self, rounds=50, grace=False, touched_by=None):
        """Try all pods that wait until nothing changes.

        :param grace: whether victims stay where they are for now.
        :param touched_by: the jobs of the service, if only pods are tried that it touches.
        """
        for _ in range(rounds):
            before = self.bound(), len(self.evicted), dict(self.reasons)
            for pod in list(self.pods.values()):
                if touched_by is not None:
                    self.wake(touched_by)
                    if pod["metadata"]["uid"] in self.resting:
                        continue
                if "nodeName" not in pod["spec"] and pod["metadata"]["uid"] in self.pods:
                    self._try(pod, grace)
            if before == (self.bound(), len(self.evicted), self.reasons):
                return
        raise AssertionError("there is no end to it")

    def _try(self, pod, grace):
        answer, bound = self.place(pod)
        if bound is None and not answer["Error"]:
            self._preempt(pod, grace)

    def bind(self, pod, node):
        answer = super().bind(pod, node)
        assert answer["Error"] == "", answer
        target = answer["Binding"]
        pod["spec"]["nodeName"] = target["target"]["name"]
        pod["metadata"]["annotations"].update(target["metadata"]["annotations"])
        self.watch("MODIFIED", pod)
        return answer

    def _preempt(self, pod, grace):
        victims = {node: {"Pods": []} for node in self.nodes}
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        answer = self.verb("preempt", body)["NodeNameToMetaVictims"]
        assert len(answer) <= 1
        for node, result in answer.items():
            for entry in result["Pods"]:
                victim = self.pods[entry["UID"]]
                assert victim["spec"]["nodeName"] == node
                if entry["UID"] not in self.evicted:
                    self.evicted.append(entry["UID"])
                if not grace:
                    self.delete(victim["metadata"]["name"])
                    self.resting.clear()  # kube-scheduler sees by itself that a pod has gone


class World:
    """A service in a loop of its own, and a cluster that asks it; time stands still."""

    def __init__(self, scheduler, watches=True, **options):
        self.scheduler, self.time = scheduler, 0.0
        self.runner = asyncio.Runner()
        self.service = self.runner.run(self.made(options))
        self.cluster = Cluster(self.ask, NODES, watches)

    async def made(self, options):
        options = {"others_bind": True, **options}
        return PodService(self.scheduler, clock=lambda: self.time, **options)

    def ask(self, path, body=b""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        # Without the signals of `run`, which take longer than the service.
        answer = self.service.answer(path, data, {})
        status, text = self.runner.get_loop().run_until_complete(answer)
        return status, json.loads(text)

    def states(self):
        return {name: self.scheduler.state(name) for name in self.scheduler}
