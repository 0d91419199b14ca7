"""What `repr` says of the objects with a state."""

import copy
import re
from threading import RLock

import numpy as np
import pytest

from hivecore.caching import UniformCache
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import Device, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.gangs import Coscheduler, GangSpec
from hivecore.interleaving import Grouper, GroupingCache, group_jobs
from hivecore.matching import Matcher
from hivecore.queues import NamespaceQuota, QueuedJob, TenantQueues
from hivecore.quotas import OveruseMonitor, Quota, QuotaRequest, QuotaTree, UsageHistory
from hivecore.scheduler import Job, Scheduler, Sharing
from hivecore.topology import NetworkTopology, TopologyRequest


def cells():
    chains = {"A": Chain(["gpu", "node"], [8], 4), "B": Chain(["gpu", "node"], [4], 1)}
    subject = CellCluster(ClusterSpec(chains, {"t": {"A": {"node": 2}}}))
    return subject, AffinityGroup("g", "t", [(1, 8)])


def busy_cells():
    subject, group = cells()
    subject.commit(subject.schedule(group))
    return subject


def devices():
    inventory = NodeDevices.uniform(8, nics=2)
    other = NodeDevices((Device("host", 0, {"cpu": 64}),))
    subject = DeviceCluster({"n1": inventory, "n2": inventory, "n3": other})
    subject.remove_node("n1")
    subject.commit(subject.schedule(DeviceRequest("pod", gpus=1)))
    return subject


def quotas(count=12, **total):
    names = [f"q{i}" for i in range(count)]
    dimensions = total or {"gpu": 96}
    given = [Quota(name, max=dimensions) for name in names]
    return QuotaTree(given, total=dimensions)


def busy_quotas():
    subject = quotas(2)
    subject.submit(QuotaRequest("job", "q0", {"gpu": 8}))
    return subject


def network():
    labels = {f"n{i}": {"spine": "s", "rack": f"r{i // 2}"} for i in range(4)}
    subject = NetworkTopology(["spine", "rack"], labels)
    subject.set_slots([1] * 4)
    subject.commit(subject.schedule(TopologyRequest("job", 2)))
    return subject


def queues():
    subject = TenantQueues(order="round-robin")
    for name, tenant in (("a", "x"), ("b", "x"), ("c", "y")):
        subject.push(QueuedJob(name, tenant, 1), now=0)
    return subject


def gangs():
    subject = Coscheduler()
    subject.define_gang(GangSpec("g", 2), now=0)
    subject.create_pod("p", "g", now=0)
    return subject


def scheduler():
    subject = Scheduler(quotas=quotas(1), sharing=Sharing(2))
    subject.submit(Job("job", "q0", 8), now=0.0)
    subject.decide(now=2.5)
    return subject


def cache():
    subject = UniformCache(1000)
    subject.add_dataset("d", 10, 10)
    subject.attach("j", "d")
    return subject


def grouper():
    subject = Grouper(capacity=8, resources=2)
    subject.add("j", [2.0, 1.0], gpus=1)
    return subject


def grouping_cache():
    subject = GroupingCache()
    group_jobs([[2, 1], [3, 1]], [1, 1], 1, method="exact", cache=subject)
    return subject


def matcher():
    subject = Matcher(np.array([[np.nan, 1.0, 2.0], [1.0, np.nan, 3.0], [2.0, 3.0, np.nan]]))
    subject.remove_vertex(0)
    return subject


def namespaces():
    subject = NamespaceQuota()
    subject.set_quota("team-a", {"gpu": 4})
    return subject


def history():
    subject = UsageHistory(half_life=3600)
    subject.record("vision", 0, 64)
    return subject


TEXTS = [
    (lambda: cells()[0], "CellCluster(2 chains, 36 leaves, 1 tenant)"),
    (busy_cells, "CellCluster(2 chains, 36 leaves, 1 tenant, 1 group)"),
    (devices, "DeviceCluster(2 nodes, 8 gpu, 2 rdma, 1 host, 1 owner)"),
    (lambda: DeviceCluster({}), "DeviceCluster(0 nodes)"),
    (quotas, "QuotaTree(12 quotas, 96 gpu)"),
    (busy_quotas, "QuotaTree(2 quotas, 96 gpu, 1 owner)"),
    (QuotaTree, "QuotaTree(0 quotas)"),
    (
        lambda: quotas(1, a=1, b=2, c=3, d=4, e=5),
        "QuotaTree(1 quota, 1 a, 2 b, 3 c, 4 d, ...)",
    ),
    (network, "NetworkTopology(4 nodes, spine > rack, 1 owner)"),
    (lambda: NetworkTopology([], {"n": {}}), "NetworkTopology(1 node)"),
    (queues, "TenantQueues(2 tenants, 3 jobs, order='round-robin')"),
    (namespaces, "NamespaceQuota(1 namespace)"),
    (gangs, "Coscheduler(1 gang, 1 pod)"),
    (scheduler, "Scheduler(quotas, sharing, 1 job, at 2.5 s)"),
    (Scheduler, "Scheduler(0 jobs, at 0 s)"),
    (matcher, "Matcher(2 vertices)"),
    (grouper, "Grouper(1 job, capacity=8)"),
    (grouping_cache, "GroupingCache(1 set of terms)"),
    (lambda: OveruseMonitor(60), "OveruseMonitor(delay=60)"),
    (history, "UsageHistory(half_life=3600, 1 quota)"),
    (cache, "UniformCache(capacity=1000, used=0, datasets=1, jobs=1)"),
]


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_the_text_of_an_object_names_its_class_and_its_contents(make, text):
    subject = make()
    assert repr(subject) == str(subject) == text
    if not isinstance(subject, GroupingCache):
        assert repr(copy.copy(subject)) == text


class WatchedLock:
    """A lock that counts how often a thread takes it."""

    def __init__(self):
        self.lock, self.taken = RLock(), 0

    def __enter__(self):
        self.taken += 1
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


@pytest.mark.parametrize(
    "make",
    [busy_cells, devices, quotas, network, queues, namespaces, gangs, scheduler, matcher, grouper],
)
def test_the_text_is_made_under_the_lock_of_the_object(make):
    subject = make()
    subject._lock = WatchedLock()
    repr(subject)
    assert subject._lock.taken > 0


def test_the_text_of_a_derived_class_has_its_own_name():
    class Mine(QuotaTree):
        pass

    assert re.fullmatch(r"Mine\(0 quotas\)", repr(Mine()))
