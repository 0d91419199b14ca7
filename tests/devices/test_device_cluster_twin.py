"""A cluster against one twin per node, and every decision against the rules."""

import pickle
import random

import pytest
from devices.cases import machine, request
from devices.clusters import SEEDS, LivingCluster
from devices.twin import as_charges, best_of
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from profiles import examples

from hivecore.devices import DeviceCluster
from hivecore.errors import StaleDecisionError
from hivecore.reference.devices.choice import CODES, Choice, capacity, choose
from hivecore.reference.devices.eligible import View
from hivecore.reference.devices.node_state import NodeState
from hivecore.reference.devices.score import node_score

POLICIES = st.sampled_from(("bin-pack", "spread"))


class ClusterAndTwins(LivingCluster):
    """What is done to the cluster is done to a twin of each of its nodes."""

    known = ("twins", "order")

    @initialize(seed=SEEDS, nodes=st.integers(0, 4))
    def start(self, seed, nodes):
        rng = random.Random(seed)
        kinds = [machine(rng) for _ in range(2)]
        given = {f"n{i}": rng.choice(kinds) for i in range(nodes)}
        self.cluster = DeviceCluster(given)
        self.twins = {name: NodeState(inventory) for name, inventory in given.items()}
        self.order = list(given)
        self.count = 0

    def held(self, node, but=None):
        return [
            allocation
            for owner in self.cluster.owners(node)
            if owner != but
            for allocation in self.cluster.allocations(owner)
        ]

    def best(self, wish, policy):
        """The twins' answer: (node, choice) or None."""
        twins = [(name, self.twins[name]) for name in self.order if name]
        choices = ((name, View(twin), choose(twin, wish, policy)) for name, twin in twins)
        return best_of(choices, wish, policy)

    @rule(seed=SEEDS, policy=POLICIES, many=st.integers(1, 3))
    def schedule(self, seed, policy, many):
        rng = random.Random(seed)
        inventory = rng.choice([twin.inventory for twin in self.twins.values()] or [machine(rng)])
        wish = request(rng, inventory, f"owner{self.count}")
        for _ in range(many):
            wish = wish.replace(name=f"owner{self.count}")
            self.count += 1
            node, choice = self.best(wish, policy)
            decision = self.cluster.schedule(wish, policy=policy)
            assert decision.node == (node or "")
            if node is None:
                assert decision.outcome == "wait"
                continue
            assert as_charges(decision.placement) == choice.charges
            decision.verify(self.cluster.inventory(node), self.held(node))
            self.cluster.commit(decision)
            self.twins[node].charge(wish.name, choice.charges)
            with pytest.raises(StaleDecisionError):
                self.cluster.commit(decision)

    @rule(seed=SEEDS, policy=POLICIES, most=st.integers(0, 4))
    def capacity_is_that_of_the_twins(self, seed, policy, most):
        for wish in self.probes(seed):
            capacities = self.cluster.capacity(wish, most, policy=policy, nodes=sorted(self.twins))
            ours = [capacity(self.twins[name], wish, most, policy) for name in sorted(self.twins)]
            assert capacities.tolist() == ours

    @rule(seed=SEEDS, policy=POLICIES)
    def schedule_many_is_one_after_another(self, seed, policy):
        rng = random.Random(seed)
        if not self.twins:
            return
        inventory = rng.choice([twin.inventory for twin in self.twins.values()])
        wish = [request(rng, inventory, f"gang{self.count}.{i}") for i in range(3)]
        before = self.cluster.to_bytes()
        together = self.cluster.schedule_many(wish, policy=policy)
        assert self.cluster.to_bytes() == before
        branch = self.cluster.copy()
        for item, decision in zip(wish, together, strict=True):
            alone = branch.schedule(item, policy=policy)
            assert (alone.node, alone.placement) == (decision.node, decision.placement)
            if alone.outcome == "bind":
                branch.commit(alone)
        bound = [decision for decision in together if decision.outcome == "bind"]
        other = self.cluster.copy()
        other.commit_many(pickle.loads(pickle.dumps(bound)))
        assert other.to_bytes() == branch.to_bytes()

    @rule(seed=SEEDS, policy=POLICIES)
    def filter(self, seed, policy):
        rng = random.Random(seed)
        if not self.twins:
            return
        inventory = rng.choice([twin.inventory for twin in self.twins.values()])
        wish = request(rng, inventory)
        feasibility = self.cluster.filter(wish, policy=policy)
        for i, name in enumerate(feasibility.nodes):
            choice = choose(self.twins[name], wish, policy)
            if isinstance(choice, Choice):
                assert feasibility.fits[i]
                assert feasibility.scores[i] == node_score(View(self.twins[name]), wish, policy)
            else:
                assert CODES[feasibility.codes[i]] == choice.code
                assert feasibility.resolvable[i] == choice.resolvable

    @rule(seed=SEEDS)
    def flap(self, seed):
        rng = random.Random(seed)
        names = [name for name in self.order if name and self.twins[name].inventory.devices]
        if names:
            name = rng.choice(names)
            device = rng.choice(self.twins[name].inventory.devices)
            self.cluster.set_health(name, not device.healthy, type=device.type, minor=device.minor)
            self.twins[name].set_inventory(self.cluster.inventory(name))

    @rule(seed=SEEDS)
    def change_nodes(self, seed):
        rng = random.Random(seed)
        names = [name for name in self.order if name]
        if names and rng.random() < 0.5:
            name = rng.choice(names)
            assert self.cluster.remove_node(name) == tuple(sorted(self.twins.pop(name).owners))
            self.order[self.order.index(name)] = None
            return
        name, inventory = f"m{self.count}", machine(rng)
        self.count += 1
        self.cluster.add_node(name, inventory)
        self.twins[name] = NodeState(inventory)
        if None in self.order:
            self.order[self.order.index(None)] = name
        else:
            self.order.append(name)


ClusterAndTwins.TestCase.settings = examples(60, stateful_step_count=25)
TestClusterAndTwins = ClusterAndTwins.TestCase
