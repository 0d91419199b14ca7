"""Nodes with places that are known in part: a request is served exactly if some choice serves it.

The oracle tries every choice of devices. It knows the rules and nothing of kernel and twin.
"""

import itertools
import random

from devices.twin import Pair
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import Device, DeviceNeed, DeviceRequest, NodeDevices

SCOPES = ("device", "pcie", "numa", "socket", "node")
TYPES = ("gpu", "rdma", "fpga")


def node_with_unknown_places(rng):
    """GPUs, NICs and FPGAs on a few switches; of each switch or device some places are unknown."""
    switches = []
    for i in range(rng.randint(1, 4)):
        numa = rng.choice((None, 0, 1))
        socket = None if numa is None and rng.random() < 0.5 else rng.choice((None, 0))
        switches.append({"pcie": f"p{i}", "numa": numa, "socket": socket})
    sockets = {numa: rng.choice((None, 0, 1)) for numa in (0, 1, 2)}
    for place in switches:
        if place["numa"] is not None:
            place["socket"] = sockets[place["numa"]]

    def place():
        if rng.random() < 0.6:
            return rng.choice(switches)
        numa = rng.choice((None, None, 0, 1, 2))
        if numa is None:
            return {"socket": rng.choice((None, None, 0))}
        return {"numa": numa, "socket": sockets[numa]}

    devices = []
    for type, most in zip(TYPES, (4, 4, 2), strict=True):
        amounts = {"core": 100, "memory": 100} if type == "gpu" else {"share": 100}
        for minor in range(rng.randint(0 if type == "fpga" else 1, most)):
            healthy = rng.random() < 0.9
            devices.append(Device(type, minor, amounts, healthy=healthy, **place()))
    return NodeDevices(tuple(devices))


def request(rng, inventory):
    scopes = (None, *SCOPES)
    needs = []
    for type in TYPES:
        present = len(inventory.of_type(type))
        if present and rng.random() < 0.85:
            amounts = {"core": 100, "memory_ratio": 100} if type == "gpu" else {"share": 100}
            count = min(rng.choice((1, 1, 1, 2, 2, 3)), present)
            needs.append(DeviceNeed(type, count, amounts, scope=rng.choice(scopes)))
    joint = rng.sample(TYPES, rng.choice((0, 2, 2, 3)))
    return DeviceRequest(
        "new", needs=needs, joint=joint, same_pcie=bool(joint) and rng.random() < 0.4
    )


def are_within(devices, scope):
    """Whether the devices are in one domain of this scope, or of a tighter one."""
    if scope in (None, "node") or len(devices) == 1:
        return True
    for level in SCOPES[1 : SCOPES.index(scope) + 1]:
        places = [getattr(device, level) for device in devices]
        if None not in places and len(set(places)) == 1:
            return True
    return False


def is_possible(pod_request, idle):
    """Whether some choice of idle devices, by type, keeps all rules of the request."""
    choices = {}
    for need in pod_request.needs:
        first = "gpu" if "gpu" in pod_request.joint else (*pod_request.joint, "")[0]
        follows = need.type in pod_request.joint[1:] and need.type != first
        sizes = range(need.count, len(idle[need.type]) + 1) if follows else [need.count]
        choices[need.type] = [
            chosen
            for size in sizes
            for chosen in itertools.combinations(idle[need.type], size)
            if are_within(chosen, need.scope)
        ]
    if not all(choices.values()):
        return False
    if not pod_request.same_pcie:
        return True
    for parts in itertools.product(*(choices[type] for type in pod_request.joint)):
        switches = [{item.pcie for item in part} for part in parts]
        if None not in switches[0] and all(item == switches[0] for item in switches):
            return True
    return False


@examples(1500)
@given(st.integers(0, 2**32))
def test_a_request_is_served_exactly_if_some_choice_of_devices_serves_it(seed):
    rng = random.Random(seed)
    inventory = node_with_unknown_places(rng)
    pair = Pair(inventory)
    taken = set()
    for step in range(3):
        pod_request = request(rng, inventory)
        idle = {
            type: [
                item
                for item in inventory.of_type(type)
                if item.healthy and (type, item.minor) not in taken
            ]
            for type in TYPES
        }
        plan = pair.ask(pod_request, rng.choice(("bin-pack", "spread")))
        assert (plan is not None) == is_possible(pod_request, idle), pod_request
        if plan is not None:
            pair.commit(f"owner{step}", plan)
            taken |= {(TYPES[type], minor) for type, minor, *_ in plan.charges}
