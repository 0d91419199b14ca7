"""What kube-scheduler does with an extender, in short: for tests that need its requests.

One pod after another is tried: nodes that have the resource left are sent to *filter*, binds run
side by side. Where no node is left it preempts: if pods of a lower priority hold the resource,
*preempt* is asked, and the victims of the first node that is named are deleted after their grace
period. A pod that could not be placed is tried again when a node has changed, a bound pod is gone,
or the pod itself has changed, and after an error in a while.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from interop.servers import PLAIN

__all__ = ["LEAF_CELL", "FakeKubeScheduler", "bound"]

LEAF_CELL = "hivecore.io/leaf-cell"


def bound(api):
    """Pod -> node."""
    pods = api.all("pods")
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if "nodeName" in p["spec"]}


class FakeKubeScheduler:
    """Runs in a thread of its own, beside a `FakeApiServer`.

    :param url: answers where the extender is now.
    :param grace: seconds from the eviction of a pod to its end.
    :param root: of the extender's verbs.
    :ivar errors: pod -> the last ``Error``.
    :ivar failures: pod -> the last ``FailedNodes``.
    """

    def __init__(self, api, url, grace=0.0, backoff=0.1, root="/v1/extender"):
        self.api = api
        self._url, self._root = url, root
        self._grace, self._backoff = grace, backoff
        self.errors, self.failures, self.preempted = {}, {}, []
        self._waiting = {}  # uid -> what was seen when it failed, and until when it rests
        self._assumed = {}
        self._nominated = {}
        self._leaving = set()
        self._end = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self._client = httpx.Client(timeout=20, verify=PLAIN)

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(20)
        self._pool.shutdown()
        self._client.close()

    def _run(self):
        while not self._end.is_set():
            version = self.api.version
            tried = [self._try(pod) for pod in self._due()]
            if not tried:  # a pod may have rested long enough
                self.api.wait(version, 0.01)

    # --- the queue

    def _due(self):
        pods = self.api.all("pods")
        mark = (
            tuple(sorted(n["metadata"]["resourceVersion"] for n in self.api.all("nodes"))),
            frozenset(
                pod["metadata"]["uid"]
                for pod in pods
                if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending"
            ),
        )
        pending = []
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if pod["spec"].get("nodeName") or uid in self._assumed:
                continue
            seen, nodes, bound, until = self._waiting.get(uid, (None, None, frozenset(), 0))
            now = (str(pod["metadata"]["annotations"]), mark[0])
            if (seen, nodes) != now or bound - mark[1] or 0 < until < time.monotonic():
                pending.append((pod, (*now, mark[1])))
        pending.sort(key=lambda entry: (-entry[0]["spec"]["priority"], entry[0]["metadata"]["uid"]))
        return pending

    def _try(self, due):
        pod, mark = due
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        self._waiting[uid] = (*mark, 0)
        nominated = self._nominated.get(uid)
        fitting = self._fitting(pod)
        names = []
        try:
            for nodes in ([nominated], fitting) if nominated in fitting else (fitting,):
                if nodes and not names:
                    shown = {**pod, "status": {**pod["status"], "nominatedNodeName": nominated}}
                    answer = self._ask("filter", {"Pod": shown, "Nodes": None, "NodeNames": nodes})
                    names = answer["NodeNames"] or []
                    self.failures[name] = answer["FailedNodes"]
                    if not set(names) <= set(nodes):
                        raise RuntimeError(f"{names} are not of {nodes}")
            if names:
                self._assumed[uid] = names[0], pod
                self._pool.submit(self._bind, pod, names[0], mark)
                return True
            self._preempt(pod)
        except (RuntimeError, httpx.HTTPError) as error:
            self.errors[name] = str(error)
            self._waiting[uid] = (*mark, time.monotonic() + self._backoff)
        return True

    def _ask(self, verb, body):
        answer = self._client.post(f"{self._url()}{self._root}/{verb}", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"status {answer.status_code}")
        said = answer.json()
        if said.get("Error"):
            raise RuntimeError(said["Error"])
        return said

    def _bind(self, pod, node, mark):
        meta = pod["metadata"]
        try:
            body = {"PodName": meta["name"], "PodNamespace": meta["namespace"]}
            self._ask("bind", {**body, "PodUID": meta["uid"], "Node": node})
        except (RuntimeError, httpx.HTTPError) as error:
            self.errors[meta["name"]] = str(error)
            self._waiting[meta["uid"]] = (*mark, time.monotonic() + self._backoff)
        del self._assumed[meta["uid"]]

    # --- the resource

    def _holders(self):
        """Node -> the pods that hold the resource there, by uid."""
        ended = ("Succeeded", "Failed")
        pods = [p for p in self.api.all("pods") if p["status"]["phase"] not in ended]
        pods = {pod["metadata"]["uid"]: pod for pod in pods}
        held = {}
        for uid, pod in pods.items():
            if node := pod["spec"].get("nodeName"):
                held.setdefault(node, {})[uid] = pod
        for uid, (node, pod) in list(self._assumed.items()):
            if uid in pods:
                held.setdefault(node, {})[uid] = pod
        return held

    def _fitting(self, pod, without_below=None):
        fitting, holders = [], self._holders()
        for node in self.api.all("nodes"):
            if node["status"]["conditions"][0]["status"] != "True":
                continue
            name = node["metadata"]["name"]
            free = int(node["status"]["allocatable"].get(LEAF_CELL, 0))
            for other in holders.get(name, {}).values():
                if without_below is None or other["spec"]["priority"] >= without_below:
                    free -= asked_of(other)
            if free >= asked_of(pod):
                fitting.append(name)
        return sorted(fitting)

    def _preempt(self, pod):
        priority = pod["spec"]["priority"]
        nodes = set(self._fitting(pod, priority)) - set(self._fitting(pod))
        victims, holders = {}, self._holders()
        for name in sorted(nodes):
            held = holders.get(name, {})
            uids = [u for u, p in held.items() if p["spec"]["priority"] < priority]
            victims[name] = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        if not victims:
            return
        # Pods that wait for victims of theirs to go preempt no more.
        uid = pod["metadata"]["uid"]
        before = self._nominated.get(uid)
        if before and self._leaving & set(holders.get(before, ())):
            return
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        answer = self._ask("preempt", body)["NodeNameToMetaVictims"]
        for node, victims in list(answer.items())[:1]:
            self._nominated[uid] = node
            for victim in victims["Pods"]:
                self._evict(victim["UID"])

    def _evict(self, uid):
        if uid in self._leaving:
            return
        self._leaving.add(uid)
        self.preempted.append(uid)

        def end():
            for pod in self.api.all("pods"):
                if pod["metadata"]["uid"] == uid:
                    self.api.delete_pod(pod["metadata"]["name"], pod["metadata"]["namespace"])

        threading.Timer(self._grace, end).start()


def asked_of(pod):
    """Leaf cells that a pod asks for."""
    return sum(
        int(container.get("resources", {}).get("requests", {}).get(LEAF_CELL, 0))
        for container in pod["spec"]["containers"]
    )
