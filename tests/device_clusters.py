"""What happens to every cluster of devices beside its twins, whatever the mode."""

import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hivecore.devices import DeviceCluster

SEEDS = st.integers(0, 2**32)


class LivingCluster(RuleBasedStateMachine):
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
