"""The kernel's answers are the twin's, whatever has happened to a node before."""

import random

from devices.cases import flapped, machine, request
from devices.twin import POLICIES, Pair
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import DeviceAllocation, VirtualFunction


@examples(400)
@given(st.integers(0, 2**32))
def test_every_answer_of_a_node_is_the_twin_s(seed):
    rng = random.Random(seed)
    pair = Pair(machine(rng))
    for step in range(rng.randint(1, 12)):
        act = rng.random()
        if act < 0.15 and pair.owners:
            pair.release(rng.choice(sorted(pair.owners)))
        elif act < 0.25:
            pair.set_inventory(flapped(rng, pair.twin.inventory))
        else:
            wish = request(rng, pair.twin.inventory)
            numa = rng.choice((None, None, None, {0}, {0, 1}))
            gone = [name for name in sorted(pair.owners) if rng.random() < 0.1]
            policy = rng.choice(POLICIES)
            plan = pair.ask(wish, policy, numa, gone)
            if plan is not None and not gone:
                pair.commit(f"owner{step}", plan)
        pair.check()


def some_devices(rng, inventory):
    """Designated devices: all of their amounts, or parts of them."""
    results = []
    for device in inventory.devices:
        if rng.random() < 0.6:
            amounts = {
                name: amount if rng.random() < 0.8 else rng.randint(0, amount)
                for name, amount in device.amounts
                if name != "memory_ratio" or "memory" not in dict(device.amounts)
            }
            functions = [item.bus_id for group in device.vf_groups for item in group.functions]
            named = functions and rng.random() < 0.5
            function = VirtualFunction(rng.choice(functions)) if named else None
            results.append(DeviceAllocation(device.type, device.minor, amounts, function))
    return results


@examples(300)
@given(st.integers(0, 2**32))
def test_designated_devices_serve_what_they_serve_in_the_twin(seed):
    rng = random.Random(seed)
    pair = Pair(machine(rng))
    for step in range(rng.randint(1, 6)):
        wish = request(rng, pair.twin.inventory)
        designated = some_devices(rng, pair.twin.inventory)
        if designated:
            numa = rng.choice((None, None, {0}, {0, 1}))
            plan = pair.ask_designated(wish, rng.choice(POLICIES), designated, numa)
            if plan is not None:
                pair.commit(f"owner{step}", plan)
        pair.check()
