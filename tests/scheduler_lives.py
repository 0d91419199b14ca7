"""Small clusters under a scheduler, and a ledger that knows only what it was told to do.

The ledger is kept from events and actions alone: who runs where, who has to stop for whom. It
knows the inventory of the nodes and the limits of the quotas, and shares no code with any part.
"""

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    Job,
    Preempt,
    Reject,
    Role,
    Scheduler,
    SetCache,
    SetRemoteIO,
    Start,
    StoragePool,
    Wait,
    Where,
)
from hivecore.topology import NetworkTopology

NODES = tuple(f"n{i}" for i in range(4))
TENANTS = ("a", "b")
GPUS = 4
NICS = 2

#: What a scheduler may be made of.
COMPOSITIONS = {
    "queues": (),
    "quotas": ("quotas",),
    "cells": ("cells",),
    "topology": ("topology",),
    "devices": ("devices",),
    "quotas and cells": ("quotas", "cells"),
    "quotas and devices": ("quotas", "devices"),
    "topology and devices": ("topology", "devices"),
    "cells and devices": ("cells", "devices"),
    "quotas, topology and devices": ("quotas", "topology", "devices"),
    "quotas, cells and devices": ("quotas", "cells", "devices"),
    "topology and storage": ("topology", "storage"),
    "all with cells": ("quotas", "cells", "devices", "storage"),
}


def quota_tree(limit="runtime"):
    return QuotaTree(
        [
            Quota("all", max={"gpu": 16}),
            Quota("a", max={"gpu": 16}, min={"gpu": 8}, parent="all"),
            Quota("b", max={"gpu": 12}, min={"gpu": 8}, parent="all"),
        ],
        total={"gpu": 16},
        limit=limit,
    )


def cell_cluster():
    chain = Chain(["gpu", "pair", "node", "rack"], [2, 2, 2], 2, nodes=NODES)
    owned = {"a": {"c": {"rack": 1}}, "b": {"c": {"node": 1, "pair": 1}}}
    return CellCluster(ClusterSpec({"c": chain}, owned))


def network():
    labels = {node: {"rack": f"r{i // 2}"} for i, node in enumerate(NODES)}
    made = NetworkTopology(["rack"], labels)
    for node in NODES:
        made.set_free(node, {"gpu": GPUS})
    return made


def machines():
    inventory = NodeDevices.uniform(gpus=GPUS, nics=NICS, sockets=1, switches=2)
    return DeviceCluster(dict.fromkeys(NODES, inventory))


def make_scheduler(parts, *, blocking="best-effort", limit="runtime", **settings):
    return Scheduler(
        queues=TenantQueues(blocking=blocking),
        quotas=quota_tree(limit) if "quotas" in parts else None,
        cells=cell_cluster() if "cells" in parts else None,
        topology=network() if "topology" in parts else None,
        devices=machines() if "devices" in parts else None,
        storage=StoragePool(DATASETS, CACHE_GB, BANDWIDTH) if "storage" in parts else None,
        **settings,
    )


DATASETS = {"images": 100.0, "text": 40.0}
CACHE_GB, BANDWIDTH = 60.0, 500.0
DATA = {
    "": None,
    "images": Data("images", 300.0),
    "text": Data("text", 90.0, 400.0),
    "lost": Data("lost", 1.0),
}

NIC = DeviceRequest("any", gpus=2, nics=1, joint=("gpu", "rdma"))

ROLES = {
    "one": [Role("w", 1, gpus=1)],
    "two": [Role("w", 1, gpus=2)],
    "four": [Role("w", 1, gpus=4)],
    "gang": [Role("w", 2, gpus=4)],
    "pairs": [Role("w", 3, gpus=2)],
    "leader": [Role("l", 1, gpus=1), Role("w", 2, gpus=2)],
    "elastic": [Role("w", 4, gpus=2, min_pods=1)],
    "nic": [Role("w", 2, devices=NIC)],
    "huge": [Role("w", 5, gpus=4)],
}


def make_job(name, tenant, roles, **arguments):
    rack = arguments.pop("rack", False)
    where = Where(must="rack", within="rack") if rack else Where()
    return Job(name, tenant, ROLES[roles], where=where, **arguments)


class Ledger:
    """Who has what, by what was told."""

    def __init__(self, parts):
        self.parts = parts
        self.jobs = {}
        self.running = {}  # job -> its pods
        self.stopping = {}  # job -> for whom
        self.reserved = {}  # job -> whom it waits for
        self.bad = set()
        self.cached, self.io = {}, {}

    def submit(self, job):
        self.jobs[job.name] = job

    def note(self, actions, immediate):
        """What `decide` said."""
        for action in actions:
            if isinstance(action, SetCache):
                self.cached[action.dataset] = action.size
                assert 0 <= action.size <= DATASETS[action.dataset] * 1e9 * (1 + 1e-9)
                assert sum(self.cached.values()) <= CACHE_GB * 1e9 + len(DATASETS)
                continue
            assert action.job in self.jobs, f"{action.job} is unknown"
            job = self.jobs[action.job]
            if isinstance(action, Start):
                self.start(job, action.pods)
            elif isinstance(action, Preempt):
                assert action.job in self.running and action.job not in self.stopping
                assert job.preemptible and action.for_job != action.job
                self.may_preempt(self.jobs[action.for_job], job, action.why)
                if immediate:
                    del self.running[action.job]
                else:
                    self.stopping[action.job] = action.for_job
                    self.reserved.setdefault(action.for_job, set()).add(action.job)
            elif isinstance(action, SetRemoteIO):
                assert action.job in self.running
                self.io[action.job] = action.rate_mbps
            elif isinstance(action, Reject):
                assert action.job not in self.running
                del self.jobs[action.job]
            else:
                assert isinstance(action, Wait) and action.reason
                assert action.job not in self.running
        self.io = {name: rate for name, rate in self.io.items() if name in self.running}
        if actions:
            assert sum(self.io.values()) <= BANDWIDTH * (1 + 1e-9)
        readers = {name for name in self.running if self.jobs[name].data is not None}
        if "storage" in self.parts:
            assert set(self.io) <= readers

    def may_preempt(self, winner, loser, why):
        assert winner.guaranteed
        if why == "opportunistic":
            assert not loser.guaranteed
        elif why == "priority":
            assert loser.tenant == winner.tenant and loser.priority < winner.priority
        else:
            assert why == "reclaim" and "quotas" in self.parts and loser.quota != winner.quota

    def start(self, job, pods):
        before = self.running.setdefault(job.name, [])
        known = {(pod.role, pod.index) for pod in before}
        started = {(pod.role, pod.index) for pod in pods}
        assert len(started) == len(pods) and not known & started
        if not before:
            for role in job.roles:
                assert sum(name == role.name for name, _ in started) == role.min_pods
        before += pods
        for role in job.roles:
            assert sum(pod.role == role.name for pod in before) <= role.pods
        placed = {"cells", "topology", "devices"} & set(self.parts)
        for pod in pods:
            assert (pod.node in NODES and pod.node not in self.bad) if placed else not pod.node
        self.check()

    def ended(self, name):
        self.running.pop(name, None)
        self.stopping.pop(name, None)

    def check(self):
        gpus, nics, counted = {}, {}, dict.fromkeys(NODES, 0)
        for name, pods in self.running.items():
            job = self.jobs.get(name)
            for pod in pods:
                role = next(one for one in job.roles if one.name == pod.role)
                if pod.node:
                    counted[pod.node] += role.gpus
                mine = {one.minor for one in pod.devices if one.type == "gpu"}
                if "devices" in self.parts:
                    assert len(mine) == role.gpus
                    assert not pod.gpus or set(pod.gpus) == mine
                for minor in mine or pod.gpus:
                    assert gpus.setdefault((pod.node, minor), (name, pod)) == (name, pod)
                for one in pod.devices:
                    if one.type == "rdma":
                        assert nics.setdefault((pod.node, one.minor), (name, pod)) == (name, pod)
            nodes = {pod.node for pod in pods[: sum(role.min_pods for role in job.roles)]}
            if job.where.must and {"topology", "cells"} & set(self.parts):
                assert len({NODES.index(node) // 2 for node in nodes}) == 1
        assert all(count <= GPUS for count in counted.values())
        if "quotas" in self.parts:
            for tenant, most in (("a", 16), ("b", 12)):
                assert self.used(tenant) <= most
            assert self.used("a") + self.used("b") <= 16

    def used(self, tenant):
        total = 0
        for name, pods in self.running.items():
            job = self.jobs[name]
            if job.tenant == tenant:
                sizes = {role.name: role.gpus for role in job.roles}
                total += sum(sizes[pod.role] for pod in pods)
        return total
