"""Templates and nodes that are not shared: the kernel answers as its twins, and proofs agree."""

import pickle
import random

import pytest
from devices.cases import flapped, machine, request
from devices.sharing.share_cases import some_share, with_rules
from devices.twin import POLICIES, Pair
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import DeviceCluster
from hivecore.devices.proof import check_placement
from hivecore.errors import CertificateError

SEEDS = st.integers(0, 2**32)


@examples(300)
@given(SEEDS)
def test_every_answer_is_the_twin_s(seed):
    rng = random.Random(seed)
    pair = Pair(with_rules(rng, machine(rng)))
    for step in range(rng.randint(1, 10)):
        act = rng.random()
        if act < 0.1 and pair.owners:
            pair.release(rng.choice(sorted(pair.owners)))
        elif act < 0.2:
            pair.set_inventory(with_rules(rng, flapped(rng, pair.twin.inventory)))
        else:
            wish = rng.choice((some_share, some_share, request))(rng, pair.twin.inventory)
            gone = [name for name in sorted(pair.owners) if rng.random() < 0.1]
            plan = pair.ask(wish, rng.choice(POLICIES), rng.choice((None, None, {0})), gone)
            if plan is not None and not gone:
                pair.commit(f"owner{step}", plan)
        pair.check()


@examples(300)
@given(SEEDS)
def test_what_is_given_is_proved_kept_and_saved_and_no_other_template_would_be(seed):
    rng = random.Random(seed)
    inventory = with_rules(rng, machine(rng, gpus=4))
    cluster = DeviceCluster({"n": inventory})
    for i in range(4):
        wish = some_share(rng, inventory, f"o{i}")
        held = [
            allocation for name in cluster.owners("n") for allocation in cluster.allocations(name)
        ]
        decision = cluster.schedule(wish)
        if decision.outcome == "wait":
            continue
        decision.verify(inventory, held)
        at = rng.randrange(len(decision.placement))
        forged = list(decision.placement)
        other = "other" if forged[at].type == "gpu" else ""
        if other:
            forged[at] = forged[at].replace(template=other)
            with pytest.raises(CertificateError, match="template"):
                check_placement(wish, forged, inventory, held)
        cluster.commit(pickle.loads(pickle.dumps(decision)))
        assert cluster.allocations(wish.name) == decision.placement
    for other in (DeviceCluster.from_bytes(cluster.to_bytes()), cluster.copy()):
        assert other.to_bytes() == cluster.to_bytes()
        assert other.inventory("n") == inventory
        for name in cluster.owners("n"):
            assert other.allocations(name) == cluster.allocations(name)
