"""A small API server of Kubernetes, with what can go wrong: for tests of what talks to one.

It keeps nodes, pods, PodGroups and leases, each change with the next resource version; lists come
in pages; a watch starts at a version and sends bookmarks, or 410 where the version is compacted.
`down`, `drop_watches`, `compact`, `doubled` and `late` are the ways in which it fails.

Of device claims the status is a part of its own; what it may say is checked as Kubernetes does.
`control_claims` is what Kubernetes' controller of claims does: it makes the claims of templates,
takes ended pods off claims, and with the last one the devices, and deletes what it has made.
"""

import asyncio
import copy
import json
import threading
from collections import deque
from contextlib import contextmanager, suppress
from itertools import takewhile

from aiohttp import web

__all__ = ["FakeApiServer"]

#: What resources of these APIs are called here beside others of the same name.
PREFIXES = {
    "/apis/scheduling.x-k8s.io/v1alpha1/": "x-",
    "/apis/scheduling.k8s.io/v1alpha1/": "k8s-",
    "/apis/scheduling.k8s.io/v1alpha2/": "k8s-",
    "/apis/scheduling.k8s.io/v1alpha3/": "v1alpha3-",
}
KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "events": "Event",
    "configmaps": "ConfigMap",
    "leases": "Lease",
    "podgroups": "PodGroup",
    "x-podgroups": "PodGroup",
    "k8s-podgroups": "PodGroup",
    "k8s-workloads": "Workload",
    "resourceslices": "ResourceSlice",
    "deviceclasses": "DeviceClass",
    "devicetaintrules": "DeviceTaintRule",
    "resourceclaims": "ResourceClaim",
}
OF_CLAIMS = "/apis/resource.k8s.io"
VERSIONS = {
    "leases": "coordination.k8s.io/v1",
    "podgroups": "scheduling.sigs.k8s.io/v1alpha1",
    "x-podgroups": "scheduling.x-k8s.io/v1alpha1",
    "k8s-podgroups": "scheduling.k8s.io/v1alpha2",
    "k8s-workloads": "scheduling.k8s.io/v1alpha1",
    **dict.fromkeys(("resourceslices", "deviceclasses", "resourceclaims"), "resource.k8s.io/v1"),
    "devicetaintrules": "resource.k8s.io/v1beta2",
}
GROUPS = ("/apis/coordination.k8s.io", "/apis/scheduling.sigs.k8s.io", OF_CLAIMS)
PROTECTION = "resource.kubernetes.io/delete-protection"
ENDED = ("Succeeded", "Failed")


class Refused(Exception):
    def __init__(self, status, message, reason=""):
        super().__init__(message)
        self.status, self.reason = status, reason


def merged(old, patch):
    """A JSON merge patch, applied."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


def with_conditions(old, patch):
    """A patch of conditions by their types, as one of all of them; each needs its time."""
    known = {
        condition["type"]: condition for condition in old.get("status", {}).get("conditions", ())
    }
    for condition in patch["status"]["conditions"]:
        known[condition["type"]] = {**known.get(condition["type"], {}), **condition}
        assert known[condition["type"]]["lastTransitionTime"]
    return {"status": {"conditions": list(known.values())}}


class FakeApiServer:
    """In a thread; `requests` are the (method, path) of everything that was asked."""

    def __init__(self, page=500, has_pod_groups=True):
        self.has_pod_groups = has_pod_groups
        self.statuses = {"nodes", "pods", "resourceclaims"}  # whose status is a part of its own
        self.objects = {kind: {} for kind in KINDS}
        self.version = 100
        self.events = {kind: deque() for kind in KINDS}
        self.compacted = dict.fromkeys(KINDS, 0)
        self.requests = []
        self.touches = []
        self.bindings = []
        self.evicted = []
        self.protected = set()  # pods that a disruption budget keeps
        self.grace = False  # whether evicted pods stay until a test deletes them
        self.refuse = None  # request -> the status of a failure, or 0
        self.gate = None  # (method, path, event): such requests are carried out when it is set
        self.held = threading.Event()  # set when one of them waits
        self.later = False  # whether refused writes are carried out when `deliver` is called
        self._waiting = []
        self.doubled = False
        self.late = 0.0
        self.binding_seconds = 0.0
        self.down = False
        self.page = page
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._watches = set()
        self._loop, self._news = None, {kind: set() for kind in KINDS}  # of each watch
        self._serial = 0

    # --- the cluster, by hand

    def add_node(self, name, ready=True, **resources):
        amounts = {"cpu": "96", "memory": "500Gi", "pods": "250", **resources}
        return self._put(
            "nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {},
                "status": {
                    "capacity": amounts,
                    "allocatable": dict(amounts),
                    "conditions": [{"type": "Ready", "status": str(ready)}],
                },
            },
        )

    def set_ready(self, name, ready):
        with self._lock:
            node = copy.deepcopy(self.objects["nodes"]["", name])
            node["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
            self._put("nodes", node)

    def add_pod(self, name, annotations=None, namespace="x", spec=None, priority=0):
        pod = {
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c"}], "priority": priority, **(spec or {})},
            "status": {"phase": "Pending"},
        }
        return self._put("pods", pod)

    def add_pod_group(self, name, min_member, namespace="x", kind="podgroups"):
        meta = {"name": name, "namespace": namespace}
        policy = {"gang": {"minCount": min_member}}
        spec = {
            "k8s-podgroups": {"schedulingPolicy": policy},
            "k8s-workloads": {"podGroups": [{"name": "workers", "policy": policy}]},
        }.get(kind, {"minMember": min_member})
        return self._put(kind, {"metadata": meta, "spec": spec})

    def set_phase(self, name, phase, namespace="x"):
        with self._lock:
            pod = copy.deepcopy(self.objects["pods"][namespace, name])
            pod["status"]["phase"] = phase
            self._put("pods", pod)

    def add_slice(self, node, devices, driver="gpu.x", **more):
        """The slice of a node, with devices of these names, or as they are given."""
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        named = [{"name": device} if isinstance(device, str) else device for device in devices]
        spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": named, **more}
        return self._put("resourceslices", {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})

    def add_class(self, name):
        self._put("deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": []}})

    def add_claim(self, name, requests, namespace="x", **metadata):
        """A claim for so many devices of each class."""
        requests = [
            {"name": of, "exactly": {"deviceClassName": of, "count": count}}
            for of, count in requests.items()
        ]
        meta = {"name": name, "namespace": namespace, **metadata}
        return self._put(
            "resourceclaims", {"metadata": meta, "spec": {"devices": {"requests": requests}}}
        )

    def claim(self, name, namespace="x"):
        return self.objects["resourceclaims"].get((namespace, name))

    def control_claims(self, templates=()):
        """One round of the controller of claims; templates by name, as of `add_claim`."""
        with self._lock:
            pods = {pod["metadata"]["uid"]: pod for pod in self.all("pods")}
            alive = {uid for uid, pod in pods.items() if pod["status"]["phase"] not in ENDED}
            for claim in copy.deepcopy(self.all("resourceclaims")):
                self._control(claim, alive)
            for uid in sorted(alive):
                self._expand(copy.deepcopy(pods[uid]), dict(templates))

    def _control(self, claim, alive):
        status, meta = claim.get("status", {}), claim["metadata"]
        reserved = status.get("reservedFor", [])
        kept = [pod for pod in reserved if pod["uid"] in alive]
        if len(kept) < len(reserved):
            status["reservedFor"] = kept
            if not kept:
                claim["status"] = {}
                meta["finalizers"].remove(PROTECTION)
            self._put("resourceclaims", claim)
        owners = [owner["uid"] for owner in meta.get("ownerReferences", ())]
        if not kept and owners and not alive.intersection(owners):
            self.delete("resourceclaims", meta["name"], meta["namespace"])

    def _expand(self, pod, templates):
        meta, statuses = pod["metadata"], []
        for entry in pod["spec"].get("resourceClaims", ()):
            if (template := templates.get(entry.get("resourceClaimTemplateName"))) is not None:
                owner = {
                    "kind": "Pod",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                }
                name = f"{meta['name']}-{entry['name']}-{meta['uid'][-6:]}"
                statuses.append({"name": entry["name"], "resourceClaimName": name})
                if self.claim(name, meta["namespace"]) is None:
                    own = {"ownerReferences": [{"apiVersion": "v1", **owner}]}
                    self.add_claim(name, template, meta["namespace"], **own)
        if statuses and "resourceClaimStatuses" not in pod["status"]:
            pod["status"]["resourceClaimStatuses"] = statuses
            self._put("pods", pod)

    def delete(self, kind, name, namespace=""):
        with self._lock:
            object = self.objects[kind].pop((namespace, name), None)
            if object is not None:
                self._note(kind, "DELETED", object)

    def delete_pod(self, name, namespace="x"):
        self.delete("pods", name, namespace)

    def pod(self, name, namespace="x"):
        return self.objects["pods"].get((namespace, name))

    def all(self, kind):
        with self._lock:
            return list(self.objects[kind].values())

    def wait(self, version, seconds):
        """Wait until something has changed since this version, or so long; the version now."""
        with self._lock:
            self._changed.wait_for(lambda: self.version != version, seconds)
            return self.version

    def _put(self, kind, object):
        with self._lock:
            meta = object["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            known = self.objects[kind].get(key)
            if known is None:
                self._serial += 1
                meta.setdefault("uid", f"uid-{self._serial:06d}")
            else:
                meta["uid"] = known["metadata"]["uid"]
            self.objects[kind][key] = object
            self._note(kind, "ADDED" if known is None else "MODIFIED", object)
            return object

    def _note(self, kind, type_, object):
        self.version += 1
        # A version of its own also for a deletion, and no object that is changed later.
        object = {
            **object,
            "metadata": {**object["metadata"], "resourceVersion": str(self.version)},
        }
        key = (object["metadata"].get("namespace", ""), object["metadata"]["name"])
        if type_ != "DELETED":
            self.objects[kind][key] = object
        object = {"kind": KINDS[kind], "apiVersion": VERSIONS.get(kind, "v1"), **object}
        self.events[kind].append((self.version, {"type": type_, "object": object}))
        self._changed.notify_all()
        self._tell(kind)

    def _tell(self, kind):
        """Wake those that watch."""
        if self._news[kind]:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(lambda: [each.set() for each in self._news[kind]])

    # --- failures

    def compact(self):
        """Forget what happened: watches that start before now get 410."""
        with self._lock:
            for kind in KINDS:
                self.events[kind].clear()
                self.compacted[kind] = self.version
                self._tell(kind)

    def drop_watches(self):
        """Break every connection that is open."""
        for transport in list(self._watches):
            self._loop.call_soon_threadsafe(transport.abort)

    @contextmanager
    def away(self):
        """No request is answered."""
        self.down = True
        self.drop_watches()
        try:
            yield
        finally:
            self.down = False

    # --- HTTP

    def __enter__(self):
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(20)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(20)

    def _run(self, started):
        async def main():
            self._loop = asyncio.get_running_loop()
            self._end = asyncio.Event()
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            started.set()
            await self._end.wait()
            self.drop_watches()
            server = runner.server
            await runner.cleanup()
            await asyncio.sleep(0.01)  # connections that are accepted meanwhile are closed, too
            await server.shutdown(0.1)

        asyncio.run(main())

    def write_kubeconfig(self, path):
        """A kubeconfig file for this server."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {"token": "secret"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return path

    async def _handle(self, request):
        if self.down:
            request.transport.abort()
            return web.Response(status=500)
        self.requests.append((request.method, request.path))
        await request.read()
        try:
            if self.gate is not None and (request.method, request.path) == self.gate[:2]:
                self.held.set()
                while not self.gate[2].is_set():
                    await asyncio.sleep(0.002)
            if self.refuse is not None and (status := self.refuse(request)):
                if self.later and status >= 500 and request.method == "PUT":
                    self._waiting.append(request)
                raise Refused(status, "made up")
            return await self._answer(request)
        except Refused as error:
            status = {"kind": "Status", "status": "Failure", "message": str(error)}
            return web.json_response({**status, "code": error.status}, status=error.status)

    def deliver(self):
        """Carry out the writes that came late."""

        async def answer(requests):
            for request in requests:
                with suppress(Refused):
                    await self._answer(request)

        waiting, self._waiting = self._waiting, []
        asyncio.run_coroutine_threadsafe(answer(waiting), self._loop).result(20)

    async def _answer(self, request):
        assert request.headers["Authorization"] == "Bearer secret"
        path, prefix = request.path, ""
        for start, called in PREFIXES.items():
            if path.startswith(start):
                path, prefix = path.removeprefix(start), called
        for group in GROUPS:
            path = path.removeprefix(group)
        if (("/v1beta2/" in path) != ("devicetaintrules" in path)) or "/v1alpha3/" in path:
            raise Refused(404, "no such version")
        versions = ("v1", "v1alpha1", "v1beta2")
        parts = [part for part in path.split("/") if part not in ("", "api", *versions)]
        namespace = ""
        if parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        kind, rest = prefix + parts[0], parts[1:]
        is_missing = kind.endswith(("podgroups", "workloads")) and not self.has_pod_groups
        if kind not in KINDS or is_missing:
            raise Refused(404, "no such kind")
        if not rest and request.method == "GET":
            if request.query.get("watch") == "true":
                return await self._watch(request, kind)
            return web.json_response(self._list(kind, request.query))
        body = json.loads(await request.read() or b"null")
        if not rest:
            return web.json_response(self._create(kind, namespace, body), status=201)
        if rest[1:] == ["binding"] and self.binding_seconds:
            await asyncio.sleep(self.binding_seconds)
        is_strategic = "strategic" in request.headers["Content-Type"]
        return self._one(request.method, kind, namespace, rest, body, is_strategic)

    def _list(self, kind, query):
        with self._lock:
            items = sorted(self.objects[kind].values(), key=lambda o: o["metadata"]["name"])
            version, start = str(self.version), 0
            if token := query.get("continue"):
                version, start = token.split("-")
                if int(version) < self.compacted[kind]:
                    raise Refused(410, "the continue token is too old")
                start = int(start)
            size = min(int(query.get("limit", 10**9)), self.page)
            meta = {"resourceVersion": version}
            if start + size < len(items):
                meta["continue"] = f"{version}-{start + size}"
            return {
                "kind": f"{KINDS[kind]}List",
                "apiVersion": VERSIONS.get(kind, "v1"),
                "metadata": meta,
                "items": items[start : start + size],
            }

    def _since(self, kind, version):
        newest = takewhile(lambda event: event[0] > version, reversed(self.events[kind]))
        return [event for _, event in newest][::-1]

    async def _watch(self, request, kind):
        version = int(request.query["resourceVersion"])
        if version < self.compacted[kind]:
            raise Refused(410, "too old resource version")
        response = web.StreamResponse()
        await response.prepare(request)
        self._watches.add(request.transport)
        news = asyncio.Event()
        self._news[kind].add(news)
        try:
            while not self.down:
                news.clear()
                with self._lock:
                    if version < self.compacted[kind]:
                        gone = {"kind": "Status", "code": 410, "message": "too old"}
                        await response.write(
                            json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
                        )
                        return response
                    events = self._since(kind, version)
                    version = self.version
                if events and self.late:
                    await asyncio.sleep(self.late)
                if self.doubled:
                    # Again, and those before the last one after it.
                    events = [*events, *reversed(events)]
                for event in events:
                    await response.write(json.dumps(event).encode() + b"\n")
                if not events:
                    with suppress(TimeoutError):  # nothing tells it that the server is down
                        await asyncio.wait_for(news.wait(), 0.1)
                    continue
                bookmark = {"kind": KINDS[kind], "metadata": {"resourceVersion": str(version)}}
                await response.write(
                    json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n"
                )
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._watches.discard(request.transport)
            self._news[kind].discard(news)
        return response

    def _create(self, kind, namespace, body):
        with self._lock:
            if (namespace, body["metadata"]["name"]) in self.objects[kind]:
                raise Refused(409, "already exists")
            return self._put(kind, body)

    def _one(self, method, kind, namespace, rest, body, is_strategic=False):
        with self._lock:
            key = (namespace, rest[0])
            object = self.objects[kind].get(key)
            if object is None:
                raise Refused(404, f"{kind} {rest[0]!r} not found")
            if method == "GET":
                return web.json_response(object)
            new = copy.deepcopy(object)
            uid = (body.get("metadata") or {}).get("uid")
            if uid and uid != object["metadata"]["uid"]:
                raise Refused(409, "the uid in the precondition is another one")
            if rest[1:] == ["eviction"]:
                return web.json_response(self._evict(new, body), status=201)
            if rest[1:] == ["binding"]:
                self._bind(new, body)
            elif method == "PATCH":
                if rest[1:] == ["status"] and kind not in self.statuses:
                    raise Refused(404, f"{kind} have no status")
                if is_strategic:
                    body = with_conditions(new, body)
                new = merged(new, body)
                if kind == "pods":
                    self.touches.append(new["metadata"]["name"])
            elif method == "PUT":
                version = body["metadata"].get("resourceVersion")
                if version != object["metadata"]["resourceVersion"]:
                    raise Refused(409, "the object has been modified")
                new = self._claim(object, body, rest[1:]) if kind == "resourceclaims" else body
            else:
                raise Refused(405, method)
            self._put(kind, new)
            return web.json_response(self.objects[kind][key], status=201)

    def _claim(self, claim, body, part):
        """A claim, or its status, as it is changed."""
        old = claim.get("status", {})
        if part != ["status"]:
            if body["spec"] != claim["spec"]:
                raise Refused(422, "spec: field is immutable")
            return {**body, "status": old}
        new = body.get("status", {})
        reserved, before = new.get("reservedFor", []), old.get("reservedFor", [])
        uids = [user["uid"] for user in reserved]
        if not all(user.get("resource") and user.get("name") and user["uid"] for user in reserved):
            raise Refused(422, "reservedFor: resource, name and uid are needed")
        if len(set(uids)) < len(uids) or len(uids) > 256:
            raise Refused(422, "reservedFor: a uid is there twice, or there are too many")
        if reserved and new.get("allocation") is None:
            raise Refused(422, "reservedFor: not without an allocation")
        if old.get("allocation") and new.get("allocation") not in (None, old["allocation"]):
            raise Refused(422, "allocation: field is immutable")
        if claim["metadata"].get("deletionTimestamp") and any(
            user not in before for user in reserved
        ):
            raise Refused(422, "reservedFor: not while the claim is being deleted")
        if new.get("allocation") and PROTECTION not in claim["metadata"].get("finalizers", ()):
            raise Refused(422, "a claim with devices needs its finalizer first")
        if not new.get("allocation"):
            new = {key: of for key, of in new.items() if key != "devices"}
        return {**claim, "status": new}

    def _evict(self, pod, body):
        meta = pod["metadata"]
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["metadata"] == {"name": meta["name"], "namespace": meta["namespace"]}
        if body["deleteOptions"]["preconditions"]["uid"] != meta["uid"]:
            raise Refused(409, "the uid in the precondition is another one")
        if meta["name"] in self.protected:
            raise Refused(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        self.evicted.append(meta["name"])
        if self.grace:
            meta["deletionTimestamp"] = "2026-01-01T00:00:30Z"
            self._put("pods", pod)
        else:
            self.delete_pod(meta["name"], meta["namespace"])
        return {"kind": "Status", "status": "Success"}

    def _bind(self, pod, body):
        if pod["spec"].get("nodeName"):
            raise Refused(409, f"pod is already assigned to node {pod['spec']['nodeName']}")
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        self.bindings.append((pod["metadata"]["name"], body["target"]["name"]))
