"""Long random lives of clusters, of all policies, without twins: what clusters promise whatever
happens. A step is one call that changes or asks something.
"""

import random
from collections import Counter

import pytest
from devices.cases import machine, request
from profiles import seeds

from hivecore.devices import DeviceAllocation, DeviceCluster, NodeDevices
from hivecore.devices.device_cluster import POLICIES
from hivecore.errors import StaleDecisionError

STEPS = 500


class Life:
    """One cluster and what is known of it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        nodes = {f"n{i}": machine(rng) for i in range(rng.randint(1, 6))}
        self.cluster = DeviceCluster(nodes, policy=rng.choice(POLICIES), seed=seed)
        self.count = 0
        self.old = []  # decisions
        self.depth = 0  # of trials

    def names(self):
        return [owner for node in self.cluster.nodes for owner in self.cluster.owners(node)]

    def request(self):
        """A request, mostly for what a node has."""
        rng, nodes = self.rng, self.cluster.nodes
        inventory = self.cluster.inventory(rng.choice(nodes)) if nodes else machine(rng)
        self.count += 1
        return request(rng, inventory, f"o{self.count}")

    def step(self):
        self.rng.choice(self.acts)(self, self.rng, self.cluster)

    def come(self, rng, cluster):
        item = self.request()
        ways = {"policy": rng.choice((None, *POLICIES))}
        if cluster.reservations and rng.random() < 0.7:
            count = rng.randint(1, len(cluster.reservations))
            ways["reservations"] = rng.sample(cluster.reservations, count)
            ways["reserved"] = rng.choice(("first", "only", "last"))
        decision = cluster.schedule(item, **ways)
        if decision.outcome == "bind":
            if rng.random() < 0.1:
                self.old.append(decision)
            elif not decision.reservation and rng.random() < 0.2:
                cluster.reserve(decision, restricted=rng.random() < 0.5)
            else:
                cluster.commit(decision)

    def come_late(self, rng, cluster):
        if self.old:
            try:
                cluster.commit(self.old.pop(rng.randrange(len(self.old))))
            except StaleDecisionError:
                cluster.check()

    def follow(self, rng, cluster):
        names = [
            name
            for name in self.names()
            if name not in cluster._owners.through and name not in cluster.reservations
        ]
        if names:
            cluster.reserve_after(self.request(), rng.choice(names), restricted=rng.random() < 0.5)

    def come_together(self, rng, cluster):
        gang = [self.request() for _ in range(rng.randint(1, 4))]
        result = cluster.schedule_many(gang, reservations=cluster.reservations[:2])
        cluster.commit_many(item for item in result if item.outcome == "bind")

    def preempt(self, rng, cluster):
        decision = cluster.schedule(self.request(), preemptible=self.names()[:6])
        for victim in decision.victims:
            cluster.release(victim)

    def leave(self, rng, cluster):
        names = self.names()
        for name in rng.sample(names, min(len(names), 2)):
            cluster.release(name)

    def ask(self, rng, cluster):
        item = self.request()
        cluster.filter(item, policy=rng.choice(POLICIES), reservations=cluster.reservations)
        if rng.random() < 0.2:
            cluster.explain(item)
        if cluster.nodes:
            cluster.numa_hints(item, rng.choice(cluster.nodes))
        cluster.fragmentation()

    def settle_on(self, rng, cluster):
        if cluster.nodes:
            numa = rng.choice((None, [0], [1], [0, 1, 2, 3]))
            cluster.allocate(self.request(), rng.choice(cluster.nodes), numa=numa)

    def recover(self, rng, cluster):
        if not cluster.nodes:
            return
        node, self.count = rng.choice(cluster.nodes), self.count + 1
        minors = rng.sample(range(12), rng.randint(0, 3))
        most = 2**48 if rng.random() < 0.1 else 1000
        given = [
            DeviceAllocation(
                "gpu",
                minor,
                {"core": rng.randint(0, 100), "memory": rng.randint(1, most)},
                exclusive=rng.choice((None, None, "device", "pcie")),
            )
            for minor in minors
        ]
        through = rng.choice(("", "", "o1", f"o{self.count + 1}"))
        named = f"o{self.count}"
        try:
            if rng.random() < 0.3:
                cluster.recover_reservation(named, node, given, restricted=rng.random() < 0.5)
            else:
                cluster.recover(named, node, given, reservation=through)
        except ValueError as error:  # records that contradict each other
            assert any(word in str(error) for word in ("uses", "is none on", "itself"))

    def change(self, rng, cluster):
        nodes = cluster.nodes
        if not nodes or rng.random() < 0.2:
            self.count += 1
            empty = rng.random() < 0.1
            cluster.add_node(f"m{self.count}", NodeDevices(()) if empty else machine(rng))
        elif rng.random() < 0.3:
            cluster.set_inventory(rng.choice(nodes), machine(rng))
        elif rng.random() < 0.3:
            cluster.remove_node(rng.choice(nodes))
        else:
            node = rng.choice(nodes)
            cluster.set_health(node, rng.random() < 0.6)

    def branch(self, rng, cluster):
        if rng.random() < 0.5:
            self.cluster = cluster.copy()
            self.old.clear()
        else:
            self.cluster = DeviceCluster.from_bytes(cluster.to_bytes())
            self.old.clear()

    def rename(self, rng, cluster):
        names = [name for name in self.names() if name not in cluster.reservations]
        if names:
            self.count += 1
            cluster.rename(rng.choice(names), f"o{self.count}")

    def try_out(self, rng, cluster):
        """Some steps in a trial, which may have trials of their own."""
        before, old, depth = cluster.copy(), list(self.old), self.depth
        if depth == 3:
            return
        self.depth += 1
        with pytest.raises(ZeroDivisionError), cluster.trial():
            for _ in range(rng.randint(1, 12)):
                self.step()
            cluster.check()
            raise ZeroDivisionError
        late = [item for item in self.old if item not in old and item._cluster is cluster]
        self.cluster, self.old, self.depth = cluster, old + late, depth
        assert cluster.to_bytes() == before.to_bytes()
        self.check()
        for _ in range(2):
            assert self.answer(cluster) == self.answer(before)

    def answer(self, cluster):
        rng = random.Random(self.count)
        inventory = cluster.inventory(cluster.nodes[0]) if cluster.nodes else machine(rng)
        explanation = cluster.explain(request(rng, inventory, "probe"))
        named = [cluster.reservation(name) for name in cluster.reservations]
        return explanation, cluster.fragmentation(), cluster.unhealthy_nodes(), named

    acts = (come,) * 6 + (leave,) * 3 + (ask, ask, change, settle_on, come_together, preempt)
    acts += (come_late, follow, recover, branch, rename, try_out)

    def check(self):
        cluster = self.cluster
        cluster.check()
        owners = self.names()
        assert len(owners) == len(set(owners)) == len(cluster)
        inventories = {node: cluster.inventory(node) for node in cluster.nodes}
        bad = [
            n for n, has in inventories.items() if not all(device.healthy for device in has.devices)
        ]
        assert cluster.unhealthy_nodes() == tuple(bad)
        for name in cluster.reservations:
            result = cluster.reservation(name)
            sums = Counter()
            for owner in (name, *result.users):
                assert cluster.node_of(owner) == result.node
                for allocation in cluster.allocations(owner):
                    sums.update(
                        {(allocation.type, allocation.minor, k): v for k, v in allocation.amounts}
                    )
            for allocation in result.held:
                for amount, value in allocation.amounts:
                    assert sums[allocation.type, allocation.minor, amount] >= value


@pytest.mark.parametrize("seed", seeds(4))
def test_a_cluster_keeps_its_promises_whatever_happens(seed):
    life = Life(seed)
    for step in range(STEPS):
        life.step()
        if step % 25 == 0:
            life.check()
    life.check()
