"""Reservations of a cluster against twins of its nodes, and what must hold whatever is done."""

import random

import pytest
from devices.cases import machine, request
from devices.clusters import SEEDS, TriedCluster
from devices.twin import as_charges, best_of
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from profiles import examples

from hivecore.devices import DeviceCluster
from hivecore.errors import StaleDecisionError
from hivecore.reference.devices.choice import Choice, choose, choose_in
from hivecore.reference.devices.eligible import View
from hivecore.reference.devices.reservations import ReservedNode
from hivecore.reference.devices.score import node_score

POLICIES = st.sampled_from(("bin-pack", "spread"))


class Reserving(TriedCluster):
    """What is done to the cluster is done to a twin of each of its nodes."""

    known = ("twins", "reservations")

    @initialize(seed=SEEDS, nodes=st.integers(1, 3))
    def start(self, seed, nodes):
        rng = random.Random(seed)
        odd = rng.random() < 0.3
        given = {f"n{i}": machine(rng, gpus=rng.randint(3, 8), odd=odd) for i in range(nodes)}
        self.cluster = DeviceCluster(given)
        self.twins = {name: ReservedNode(inventory) for name, inventory in given.items()}
        self.count = 0
        self.reservations = {}  # name -> node
        for _ in range(rng.randint(0, 4)):
            self.reserve_one(rng, "bin-pack", rng.random() < 0.5)

    def new_request(self, rng):
        """Mostly for a node that has reservations."""
        node = rng.choice(list(self.reservations.values()) or list(self.twins))
        self.count += 1
        return request(rng, self.twins[node].inventory, f"owner{self.count}")

    def elsewhere(self, wish, policy):
        """The twins' best choice without any reservation: (node, choice) or Nones."""
        twins = self.twins.items()
        choices = ((name, View(twin), choose(twin, wish, policy)) for name, twin in twins)
        return best_of(choices, wish, policy)

    def through(self, wish, policy, names):
        """The twins' best choice through one of these: (name, choice) or Nones."""
        views = [(name, self.twins[self.reservations[name]].through(name)) for name in names]
        choices = ((name, view, choose_in(view, wish, policy)) for name, view in views)
        return best_of(choices, wish, policy)

    @rule(seed=SEEDS, policy=POLICIES, restricted=st.booleans())
    def reserve(self, seed, policy, restricted):
        self.reserve_one(random.Random(seed), policy, restricted)

    def reserve_one(self, rng, policy, restricted):
        wish = self.new_request(rng)
        decision = self.cluster.schedule(wish, policy=policy)
        node, choice = self.elsewhere(wish, policy)
        assert decision.node == (node or "")
        if node is not None:
            self.cluster.reserve(decision, restricted=restricted)
            self.twins[node].reserve(wish.name, choice.charges, restricted)
            self.reservations[wish.name] = node

    @rule(seed=SEEDS, policy=POLICIES, when=st.sampled_from(("first", "only", "last")))
    def come(self, seed, policy, when):
        rng = random.Random(seed)
        wish = self.new_request(rng)
        names = rng.sample(sorted(self.reservations), min(len(self.reservations), 2))
        name, choice = self.through(wish, policy, names)
        node, other = self.elsewhere(wish, policy)
        if when == "only" or (name and when == "first") or (node is None and name):
            node, other = self.reservations.get(name), choice
        else:
            name = None
        decision = self.cluster.schedule(wish, policy=policy, reservations=names, reserved=when)
        assert (decision.node, decision.reservation) == (node or "", name or "")
        feasibility = self.cluster.filter(wish, policy=policy, reservations=names, reserved=when)
        assert bool(feasibility.fits.any()) == (node is not None)
        if node is None:
            assert decision.outcome == "wait"
            return
        assert as_charges(decision.placement) == other.charges
        held = [
            allocation
            for owner in self.cluster.owners(node)
            if owner != name
            for allocation in self.cluster.allocations(owner)
        ]
        decision.verify(self.cluster.inventory(node), held)
        self.cluster.commit(decision)
        if name:
            self.twins[node].charge_through(name, wish.name, other.charges)
        else:
            self.twins[node].charge(wish.name, other.charges)
        with pytest.raises(StaleDecisionError):
            self.cluster.commit(decision)

    @rule(seed=SEEDS, policy=POLICIES, when=st.sampled_from(("first", "only", "last")))
    def filter(self, seed, policy, when):
        rng = random.Random(seed)
        wish = self.new_request(rng)
        names = rng.sample(sorted(self.reservations), min(len(self.reservations), 3))
        feasibility = self.cluster.filter(wish, policy=policy, reservations=names, reserved=when)
        for node, fits, score in zip(
            feasibility.nodes, feasibility.fits, feasibility.scores, strict=True
        ):
            inside = [name for name in names if self.reservations[name] == node]
            name, _ = self.through(wish, policy, inside)
            twin = self.twins[node]
            outside = isinstance(choose(twin, wish, policy), Choice) and when != "only"
            assert fits == (outside or name is not None)
            if fits:
                first = name and (when != "last" or not outside)
                view = twin.through(name) if first else View(twin)
                assert score == node_score(view, wish, policy)

    @rule(seed=SEEDS, policy=POLICIES, restricted=st.booleans())
    def reserve_after(self, seed, policy, restricted):
        rng = random.Random(seed)
        users = {user for twin in self.twins.values() for user in twin.users}
        plain = [
            (owner, node)
            for node, twin in self.twins.items()
            for owner in twin.owners
            if owner not in self.reservations and owner not in users
        ]
        if not plain:
            return
        owner, node = rng.choice(plain)
        wish = self.new_request(rng)
        choice = self.twins[node].after(wish, owner, policy)
        decision = self.cluster.reserve_after(wish, owner, policy=policy, restricted=restricted)
        assert decision.node == (node if choice else "")
        if choice:
            assert as_charges(decision.placement) == choice.charges
            self.twins[node].reserve(wish.name, choice.charges, restricted, [owner])
            self.reservations[wish.name] = node

    @rule(seed=SEEDS)
    def release(self, seed):
        rng = random.Random(seed)
        owners = [(name, node) for node, twin in self.twins.items() for name in twin.owners]
        if owners:
            name, node = rng.choice(owners)
            self.cluster.release(name)
            self.twins[node].refund(name)
            self.reservations.pop(name, None)

    @rule(seed=SEEDS)
    def flap(self, seed):
        rng = random.Random(seed)
        name = rng.choice(list(self.twins))
        device = rng.choice(self.twins[name].inventory.devices)
        self.cluster.set_health(name, not device.healthy, type=device.type, minor=device.minor)
        self.twins[name].set_inventory(self.cluster.inventory(name))

    @rule(seed=SEEDS)
    def restart(self, seed):
        """Reservations and their users are recovered in any order, and twice."""
        rng = random.Random(seed)
        restored = DeviceCluster({name: twin.inventory for name, twin in self.twins.items()})
        owners = [(node, owner) for node in self.twins for owner in self.cluster.owners(node)]
        rng.shuffle(owners)
        uses = {
            user: name
            for name in self.cluster.reservations
            for user in self.cluster.reservation(name).users
        }
        for node, owner in owners:
            for _ in range(2):
                if owner in self.reservations:
                    item = self.cluster.reservation(owner)
                    restored.recover_reservation(owner, node, item.held, restricted=item.restricted)
                else:
                    held = self.cluster.allocations(owner)
                    restored.recover(owner, node, held, reservation=uses.get(owner, ""))
        for cluster in (restored, DeviceCluster.from_bytes(self.cluster.to_bytes())):
            for _, owner in owners:
                assert sorted(cluster.allocations(owner), key=repr) == sorted(
                    self.cluster.allocations(owner), key=repr
                )
            assert cluster.reservations == self.cluster.reservations
        self.cluster = rng.choice((restored, self.cluster.copy(), cluster))

    @invariant()
    def the_state_is_sound(self):
        if not hasattr(self, "cluster"):
            return
        self.cluster.check()
        assert self.cluster.reservations == tuple(sorted(self.reservations))
        for node, twin in self.twins.items():
            assert self.cluster.owners(node) == tuple(sorted(twin.owners))
            for owner, charges in twin.owners.items():
                result = as_charges(self.cluster.allocations(owner))
                assert sorted(result, key=repr) == sorted(charges, key=repr)

    @invariant()
    def no_device_gives_more_than_it_has(self):
        if not hasattr(self, "cluster"):
            return
        for twin in self.twins.values():
            given = [charge for charges in twin.owners.values() for charge in charges]
            functions = [item.function for item in given if item.function is not None]
            assert len(set(functions)) == len(functions)
            for type, minors in twin.devices.items():
                for minor, device in minors.items():
                    used = twin.used(type, minor)
                    assert all(
                        used.get(name, 0) <= amount for name, amount in dict(device.amounts).items()
                    )


Reserving.TestCase.settings = examples(60, stateful_step_count=30)
TestReserving = Reserving.TestCase
