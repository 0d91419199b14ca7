"""A cluster of mode "koordinator" against one twin per node."""

import pickle
import random

import pytest
from device_clusters import SEEDS, LivingCluster
from devices_twin import as_charges
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from koordinator_twin import (
    POLICIES,
    answer,
    code_of,
    early_owners,
    flapped,
    in_order,
    koordinator_request,
    odd_machine,
    points,
)
from profiles import examples

from hivecore.devices import DeviceAllocation, DeviceCluster, VirtualFunction
from hivecore.devices._koordinator import QUIRKS
from hivecore.devices.feasibility import CODES
from hivecore.errors import StaleDecisionError
from hivecore.reference.devices.koordinator import Failure, normalised
from hivecore.reference.devices.node_state import NodeState

ASKED = st.sampled_from((*POLICIES, None))


def as_allocations(charges):
    return [
        DeviceAllocation(
            one.type,
            one.minor,
            one.amounts,
            None if one.function is None else VirtualFunction(one.function),
        )
        for one in charges
    ]


class ClusterAndTwins(LivingCluster):
    """What is done to the cluster is done to a twin of each of its nodes."""

    @initialize(seed=SEEDS, nodes=st.integers(0, 4), quirks=st.sets(st.sampled_from(QUIRKS)))
    def start(self, seed, nodes, quirks):
        rng = random.Random(seed)
        kinds = [odd_machine(rng) for _ in range(2)]
        given = {f"n{i}": rng.choice(kinds) for i in range(nodes)}
        self.quirks = frozenset(rng.choice((QUIRKS, quirks)))
        self.policy = rng.choice((*POLICIES, None))
        self.cluster = DeviceCluster(
            given, mode="koordinator", policy=self.policy, quirks=sorted(self.quirks)
        )
        self.twins = {name: NodeState(inventory) for name, inventory in given.items()}
        self.count = 0
        for name, inventory in given.items():
            for owner, charges in early_owners(rng, inventory):
                self.cluster.recover(f"{name}.{owner}", name, as_allocations(charges))
                self.twins[name].charge(f"{name}.{owner}", charges)

    def a_request(self, rng, name):
        inventories = [self.twins[name].inventory for name in self.cluster.nodes]
        return koordinator_request(rng, rng.choice(inventories or [odd_machine(rng)]), name)

    def name(self):
        self.count += 1
        return f"owner{self.count}"

    def answers(self, asked, policy):
        """By node, in their order: what it gives, or why not; and its score."""
        policy = policy or self.policy or "spread"
        found = {
            name: answer(self.twins[name], asked, policy, self.quirks)
            for name in self.cluster.nodes
        }
        served = [name for name in found if not isinstance(found[name], Failure)]
        scores = [points(self.twins[name], asked, policy, self.quirks) for name in served]
        return found, dict(zip(served, normalised(scores), strict=True))

    @rule(seed=SEEDS, policy=ASKED, many=st.integers(1, 3))
    def schedule(self, seed, policy, many):
        asked = self.a_request(random.Random(seed), self.name())
        for _ in range(many):
            asked = asked.replace(name=self.name())
            found, scores = self.answers(asked, policy)
            decision = self.cluster.schedule(asked, policy=policy)
            if not scores:
                assert decision.outcome == "wait"
                codes = [code_of(one) for one in found.values()]
                assert dict(decision.counts) == {code: codes.count(code) for code in codes}
                continue
            best = max(scores, key=scores.get)  # the first of equals
            assert decision.node == best
            assert in_order(as_charges(decision.placement)) == in_order(found[best])
            self.cluster.commit(decision)
            self.twins[best].charge(asked.name, found[best])
            with pytest.raises(StaleDecisionError):
                self.cluster.commit(decision)

    @rule(seed=SEEDS, policy=ASKED)
    def schedule_many_is_one_after_another(self, seed, policy):
        rng = random.Random(seed)
        asked = [self.a_request(rng, self.name()) for _ in range(3)]
        before = self.cluster.to_bytes()
        together = self.cluster.schedule_many(asked, policy=policy)
        assert self.cluster.to_bytes() == before
        branch = self.cluster.copy()
        for one, decision in zip(asked, together, strict=True):
            alone = branch.allocate(one, decision.node, policy=policy) if decision.node else None
            assert alone is None or alone.placement == decision.placement
        bound = [decision for decision in together if decision.outcome == "bind"]
        other = self.cluster.copy()
        other.commit_many(pickle.loads(pickle.dumps(bound)))
        assert other.to_bytes() == branch.to_bytes()

    @rule(seed=SEEDS, policy=ASKED)
    def filter(self, seed, policy):
        asked = self.a_request(random.Random(seed), "new")
        expected, points = self.answers(asked, policy)
        found = self.cluster.filter(asked, policy=policy)
        assert found.nodes == tuple(expected)
        for i, (name, one) in enumerate(expected.items()):
            assert found.scores[i] == points.get(name, 0)
            if isinstance(one, Failure):
                assert (CODES[found.codes[i]], found.resolvable[i]) == (
                    code_of(one),
                    one.resolvable,
                )
            else:
                assert found.fits[i]

    @rule(seed=SEEDS, policy=ASKED, numa=st.sets(st.integers(0, 3)))
    def allocate_on_numa_nodes(self, seed, policy, numa):
        rng = random.Random(seed)
        if not self.cluster.nodes:
            return
        asked = self.a_request(rng, self.name())
        node = rng.choice(self.cluster.nodes)
        named = policy or self.policy or "spread"
        expected = answer(self.twins[node], asked, named, self.quirks, numa)
        decision = self.cluster.allocate(asked, node, policy=policy, numa=numa)
        if isinstance(expected, Failure):
            assert decision.counts == ((code_of(expected), 1),)
        else:
            assert in_order(as_charges(decision.placement)) == in_order(expected)
            self.twins[node].charge(asked.name, expected)

    @rule(seed=SEEDS)
    def change_an_inventory(self, seed):
        rng = random.Random(seed)
        if self.cluster.nodes:
            name = rng.choice(self.cluster.nodes)
            inventory = flapped(rng, self.twins[name].inventory)
            inventory = odd_machine(rng) if rng.random() < 0.2 else inventory
            self.cluster.set_inventory(name, inventory)
            self.twins[name].set_inventory(inventory)

    @rule(seed=SEEDS)
    def change_nodes(self, seed):
        rng = random.Random(seed)
        if self.cluster.nodes and rng.random() < 0.5:
            name = rng.choice(self.cluster.nodes)
            assert self.cluster.remove_node(name) == tuple(sorted(self.twins.pop(name).owners))
            return
        name, inventory = self.name(), odd_machine(rng)
        self.cluster.add_node(name, inventory)
        self.twins[name] = NodeState(inventory)

    @rule(seed=SEEDS)
    def explain(self, seed):
        asked = self.a_request(random.Random(seed), "new")
        found = self.cluster.explain(asked)
        assert (found.outcome == "bind") == self.cluster.fits(asked)
        for change in found.changes:
            branch = self.cluster.copy()
            for owner in change.owners:
                branch.release(owner)
            for node in change.nodes:
                branch.set_health(node, True)
            assert branch.fits(change.request)


ClusterAndTwins.TestCase.settings = examples(60, stateful_step_count=25)
TestClusterAndTwins = ClusterAndTwins.TestCase
