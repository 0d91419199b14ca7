"""What happens to every cluster of devices beside its twins."""

import random
from copy import deepcopy
from itertools import pairwise

from devices.cases import machine, request
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hivecore.devices import DeviceCluster
from hivecore.errors import StaleDecisionError

SEEDS = st.integers(0, 2**32)


def answers(cluster, wish):
    """What a cluster says to a request."""
    decision, feasibility = cluster.schedule(wish), cluster.filter(wish)
    explanation = cluster.explain(wish)
    fields = ("outcome", "node", "placement", "reason", "impossible")
    columns = (feasibility.codes, feasibility.resolvable, feasibility.scores)
    return (
        [getattr(decision, field) for field in fields],
        feasibility.nodes,
        [column.tolist() for column in columns],
        explanation,
    )


def committed(cluster, wish, node, most):
    """How many of so many pods a node takes one after the other, and has then."""
    for pod in range(most):
        mine = wish.replace(name=f"{wish.name}/{pod}")
        if cluster.allocate(mine, node).outcome != "bind":
            return pod
    return most


def capacity(cluster, wish, node, most, other, many):
    """The same after so many other pods, -1: they do not fit; nothing has changed."""
    with cluster.trial():
        if committed(cluster, other, node, many) < many:
            return -1
        return committed(cluster, wish, node, most)


class TriedCluster(RuleBasedStateMachine):
    """A ``cluster`` in trials, and what the test knows of it: attributes that are named `known`."""

    known = ("twins",)

    def __init__(self):
        super().__init__()
        self.trials = []

    def probes(self, seed):
        rng = random.Random(seed)
        for number in range(3):
            names = self.cluster.nodes
            inventory = self.cluster.inventory(rng.choice(names)) if names else machine(rng)
            yield request(rng, inventory, f"probe{number}")

    def decision(self, seed):
        """One to bind, or None."""
        for wish in self.probes(seed):
            decision = self.cluster.schedule(wish)
            if decision.outcome == "bind":
                return decision
        return None

    @precondition(lambda self: hasattr(self, "cluster"))
    @rule(seed=SEEDS, most=st.integers(0, 5), many=st.sampled_from((0, 0, 1, 2)))
    def capacity_is_how_many_are_committed_in_turn(self, seed, most, many):
        for wish, other in pairwise(self.probes(seed)):
            capacities = self.cluster.capacity(wish, most, after=(other, many)).tolist()
            assert capacities == [
                capacity(self.cluster, wish, node, most, other, many) for node in self.cluster.nodes
            ]

    @precondition(lambda self: hasattr(self, "cluster") and len(self.trials) < 3)
    @rule(seed=SEEDS)
    def begin_a_trial(self, seed):
        early = self.decision(seed)
        branch, trial = self.cluster.copy(), self.cluster.trial()
        trial.__enter__()
        assert self.cluster.to_bytes() == branch.to_bytes()
        known = {name: deepcopy(getattr(self, name)) for name in self.known}
        self.trials.append((trial, self.cluster, branch, known, early))

    @precondition(lambda self: self.trials)
    @rule(seed=SEEDS, error=st.sampled_from((None, KeyError("inside"))))
    def end_a_trial(self, seed, error):
        inside = self.decision(seed)
        trial, self.cluster, before, known, early = self.trials.pop()
        assert not trial.__exit__(type(error), error, None)
        assert self.cluster.to_bytes() == before.to_bytes()
        vars(self).update(known)
        for wish in self.probes(seed):
            assert answers(self.cluster, wish) == answers(before, wish)
        with self.cluster.trial():
            if early is not None:
                self.cluster.commit(early)
        if inside is not None and inside._cluster is self.cluster:
            self.commit_or_refuse(inside, before)
        assert self.cluster.to_bytes() == before.to_bytes()

    def commit_or_refuse(self, decision, before):
        """A decision of a trial is carried out just where it would be decided without one."""
        with self.cluster.trial():
            try:
                self.cluster.commit(decision)
            except StaleDecisionError:
                return
            self.cluster.check()
            owners = before.owners(decision.node)
            held = [allocation for owner in owners for allocation in before.allocations(owner)]
            decision.verify(before.inventory(decision.node), held)

    def teardown(self):
        while self.trials:
            trial, self.cluster, before, _, _ = self.trials.pop()
            trial.__exit__(None, None, None)
            assert self.cluster.to_bytes() == before.to_bytes()
            self.cluster.check()


class LivingCluster(TriedCluster):
    """A ``cluster``, and ``twins``: one `NodeState` for each of its nodes, by name."""

    @rule(seed=SEEDS)
    def release(self, seed):
        rng = random.Random(seed)
        names = [name for twin in self.twins.values() for name in sorted(twin.owners)]
        if names:
            name = rng.choice(names)
            self.cluster.release(name)
            for twin in self.twins.values():
                twin.refund(name)

    @rule(seed=SEEDS)
    def restart(self, seed):
        rng = random.Random(seed)
        restored = DeviceCluster.from_bytes(self.cluster.to_bytes())
        assert restored.to_bytes() == self.cluster.to_bytes()
        owners = [(n, o) for n in self.cluster.nodes for o in self.cluster.owners(n)]
        rng.shuffle(owners)
        for node, owner in owners:  # its records say what it has, in any order, and twice
            for _ in range(2):
                restored.recover(owner, node, self.cluster.allocations(owner))
        self.cluster = restored

    @invariant()
    def the_state_is_sound(self):
        if hasattr(self, "cluster"):
            self.cluster.check()
            for name, twin in self.twins.items():
                assert set(self.cluster.owners(name)) == set(twin.owners)
