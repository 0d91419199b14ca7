"""What threads were answered by an object that they share, held against what it says in the end.

Each class makes an object, has a thread take a step (`mine` is what the thread holds, `new` a
number that no thread has had), and compares in the end. Nodes, quotas and tenants come and go
meanwhile.
"""

from collections import Counter
from contextlib import suppress

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.errors import GangError, StaleDecisionError
from hivecore.gangs import Coscheduler, GangSpec
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Scheduler, Start
from hivecore.topology import NetworkTopology, TopologyRequest

NODES = [f"n{i}" for i in range(10)]
SLOTS = 4


class NodeBooks:
    """Nodes come and go, while requests are placed on them."""

    def __init__(self):
        self.decisions, self.gone = {}, []

    def use(self, nodes, rng, mine, new):
        node = rng.choice(NODES[1:])
        with suppress(KeyError, ValueError):  # another thread was faster
            self.change(nodes, rng, node)
        if mine and rng.random() < 0.5:
            with suppress(KeyError):  # a node of it has gone
                nodes.release(mine.pop(rng.randrange(len(mine))))
        allowed = [NODES[0], node] if rng.random() < 0.3 else None
        with suppress(KeyError, StaleDecisionError):
            request = self.request(rng, new)
            decision = nodes.schedule(request, nodes=allowed)
            if decision.outcome == "bind":
                self.decisions[request.name] = decision
                nodes.commit(decision)
                mine.append(request.name)


class TopologyBooks(NodeBooks):
    """A gang is where its decision says; it goes with a node of its decision, and with no other."""

    def make(self):
        network = NetworkTopology(["rack"], {name: self.labels(name) for name in NODES})
        network.set_slots([SLOTS] * len(NODES))
        return network

    @staticmethod
    def labels(node):
        return {"rack": f"r{NODES.index(node) // 3}"}

    def change(self, network, rng, node):
        if rng.random() < 0.1:
            self.gone.append((node, network.remove_node(node)))
        elif rng.random() < 0.2:
            network.add_node(node, self.labels(node), {"slots": SLOTS})
        elif rng.random() < 0.2:
            network.set_health(node, rng.random() < 0.8)
        network.free(node), network.slots("rack"), network.domain(node)

    def request(self, rng, new):
        return TopologyRequest(f"gang {new}", rng.randint(1, 6))

    def compare(self, network):
        taken = Counter()
        for name in network.owners:
            placement = self.decisions[name].placement
            assert network.placement(name) == placement
            for part in placement:
                taken[part.node] += part.pods
        for node in network.nodes:
            network.set_health(node, True)
            assert network.free(node) == {"slots": SLOTS - taken[node]}
        for node, owners in self.gone:
            for name in owners:
                assert node in [place.node for place in self.decisions[name].placement]
                assert name not in network.owners


class DeviceBooks(NodeBooks):
    """An owner has the devices of its decision, on the node of its decision."""

    INVENTORY = NodeDevices.uniform(gpus=4, nics=2)

    def make(self):
        return DeviceCluster(dict.fromkeys(NODES, self.INVENTORY))

    def change(self, cluster, rng, node):
        if rng.random() < 0.1:
            self.gone.append((node, cluster.remove_node(node)))
        elif rng.random() < 0.2:
            cluster.add_node(node, self.INVENTORY)
        elif rng.random() < 0.2:
            cluster.set_health(node, rng.random() < 0.8, type="gpu", minor=rng.randrange(4))
        cluster.owners(node), cluster.fragmentation(node=node)

    def request(self, rng, new):
        return DeviceRequest(f"pod {new}", gpus=rng.randint(1, 4))

    def compare(self, cluster):
        taken = Counter()
        for name in [name for node in cluster.nodes for name in cluster.owners(node)]:
            decision = self.decisions[name]
            assert cluster.node_of(name) == decision.node
            assert cluster.allocations(name) == decision.placement
            taken.update((decision.node, part.type, part.minor) for part in decision.placement)
        assert set(taken.values()) <= {1}
        for node, owners in self.gone:
            for name in owners:
                assert self.decisions[name].node == node and name not in cluster


class QuotaBooks:
    """A quota uses what its owners were granted, and no more than it may."""

    NAMES = tuple("abcdef")

    def __init__(self):
        self.decisions = {}

    def make(self):
        return QuotaTree([self.quota(name) for name in self.NAMES], total={"gpu": 40})

    @staticmethod
    def quota(name):
        return Quota(name, max={"gpu": 20}, min={"gpu": 4})

    def use(self, tree, rng, mine, new):
        name = rng.choice(self.NAMES)
        with suppress(KeyError, ValueError):
            if rng.random() < 0.2:
                tree.remove(name)
            elif rng.random() < 0.3:
                tree.set_quota(self.quota(name))
            tree.status(name), tree.runtime(name)
        if mine and rng.random() < 0.5:
            tree.release(mine.pop(rng.randrange(len(mine))))
        with suppress(KeyError, StaleDecisionError):
            request = QuotaRequest(f"owner {new}", name, {"gpu": rng.randint(1, 8)})
            decision = tree.schedule(request)
            if decision.outcome == "bind":
                self.decisions[request.name] = decision
                tree.commit(decision)
                mine.append(request.name)

    def compare(self, tree):
        used = Counter()
        for name in tree.owners:
            (grant,) = self.decisions[name].placement
            (request,) = [self.decisions[name].request]
            assert (tree.members(name), tree.request(name)) == (grant.members, request)
            used[grant.quota] += dict(request.amounts)["gpu"] * grant.members
        assert sum(used.values()) <= 40
        assert {name: tree.status(name).used["gpu"] for name in tree.quotas} == {
            name: used[name] for name in tree.quotas
        }


class QueueBooks:
    """A job that was pushed waits, or has left once."""

    def __init__(self):
        self.pushed, self.left = [], []

    def make(self):
        return TenantQueues()

    def use(self, queues, rng, mine, new):
        tenant = f"tenant {rng.randrange(50)}"
        job = QueuedJob(f"job {new}", tenant, rng.randint(1, 8), kind=1 + new % 3)
        self.pushed.append(job.name)
        queues.push(job, now=0)
        if rng.random() < 0.4:
            departure = queues.next(now=0)
            if departure is not None and rng.random() < 0.3:
                queues.requeue(departure)
            elif departure is not None:
                self.left.append(departure.job.name)
        elif rng.random() < 0.5:
            with suppress(KeyError):  # it has left
                self.left.append(queues.remove(job.name).name)
        queues.park(tenant, 1 + new % 3), queues.wake(tenant, rng.randint(1, 3))
        queues.set_weight(tenant, rng.randint(1, 9))
        job.name in queues, len(queues), queues.peek(now=0), list(queues)[:3]

    def compare(self, queues):
        assert len(set(self.left)) == len(self.left)
        assert sorted([*self.left, *[job.name for job in queues]]) == sorted(self.pushed)


class GangBooks:
    """A pod is released where an action says so, both pods of a gang or none."""

    def __init__(self):
        self.actions = []

    def make(self):
        return Coscheduler()

    def use(self, gangs, rng, mine, new):
        name = f"gang {new}"
        pods = [f"{name} {i}" for i in range(2)]
        for pod in pods:
            self.actions.extend(gangs.create_pod(pod, GangSpec(name, 2), now=0))
        mine.append(name)
        for pod in pods:
            if rng.random() < 0.8:
                self.actions.extend(gangs.assume_pod(pod, now=0, holds=[f"node {new % 5}"]))
            else:
                self.actions.extend(gangs.fail_pod(pod, now=0, lacks=[f"node {(new + 1) % 5}"]))
        gangs.gang(name), gangs.pod(pods[0]), gangs.deadline, len(gangs), pods[0] in gangs
        with suppress(KeyError, GangError):
            gone = mine.pop(rng.randrange(len(mine)))
            for pod in gangs.pods(gone):
                if rng.random() < 0.5:
                    self.actions.extend(gangs.bind_pod(pod, now=0))
                self.actions.extend(gangs.delete_pod(pod, now=0))
        self.actions.extend(gangs.free([f"node {new % 5}"], now=0))

    def compare(self, gangs):
        released = [action.pods for action in self.actions if action.kind == "release"]
        assert all(len(pods) == 2 for pods in released)
        flat = [pod for pods in released for pod in pods]
        assert len(set(flat)) == len(flat)
        placed = {
            pod
            for gang in gangs.gangs
            for pod in gangs.pods(gang)
            if gangs.pod(pod).state in ("released", "bound")
        }
        assert placed <= set(flat)


class SchedulerBooks:
    """A job runs on nodes that a `Start` has named, and is known until it has ended."""

    def __init__(self):
        self.starts, self.submitted, self.ended = {}, [], []

    def make(self):
        nodes = {node: TopologyBooks.labels(node) for node in NODES}
        network = NetworkTopology(["rack"], nodes)
        network.set_slots([SLOTS] * len(NODES))
        tree = QuotaTree([QuotaBooks.quota(name) for name in "abc"], total={"gpu": 40})
        return Scheduler(topology=network, quotas=tree, immediate=True)

    def use(self, scheduler, rng, mine, new):
        node = rng.choice(NODES[1:])
        with suppress(KeyError, ValueError):
            if rng.random() < 0.05:
                scheduler.remove_node(node, now=0.0)
            elif rng.random() < 0.2:
                labels = TopologyBooks.labels(node)
                scheduler.add_node(node, now=0.0, labels=labels, free={"slots": SLOTS})
            elif rng.random() < 0.1:
                scheduler.set_node(node, rng.random() < 0.8, now=0.0)
        job = Job(f"job {new}", rng.choice("abc"), rng.randint(1, 6))
        scheduler.submit(job, now=0.0)
        self.submitted.append(job.name)
        mine.append(job.name)
        for action in scheduler.decide(now=0.0):
            if isinstance(action, Start):
                self.starts.setdefault(action.job, []).append(action.pods)
        ending = mine.pop(rng.randrange(len(mine)))
        scheduler.status(ending), scheduler.now, len(scheduler), ending in scheduler
        self.ended.append(ending)
        if scheduler.state(ending) == "running" and rng.random() < 0.5:
            with suppress(ValueError):  # it has lost its node
                scheduler.finish(ending, now=0.0)
                return
        scheduler.cancel(ending, now=0.0)

    def compare(self, scheduler):
        assert sorted([*scheduler, *self.ended]) == sorted(self.submitted)
        taken = Counter()
        for job in scheduler:
            pods = scheduler.status(job).pods
            assert not pods or pods in self.starts[job]
            taken.update(pod.node for pod in pods)
        network = scheduler.topology
        for node in network.nodes:
            network.set_health(node, True)
            assert network.free(node) == {"slots": SLOTS - taken[node]}
