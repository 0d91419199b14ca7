"""A pod whose GPUs somebody else has chosen: the rest is found beside them."""

import copy
import pickle
import random

import pytest
from profiles import seeds

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices

INVENTORY = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)


def cluster():
    return DeviceCluster(dict.fromkeys(("n0", "n1"), INVENTORY))


def test_nics_are_chosen_beside_the_gpus():
    request = DeviceRequest("pod", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    decision = cluster().schedule(request, nodes=("n1",), gpus=(5, 4))
    assert decision.node == "n1" and decision.minors == (("gpu", (4, 5)), ("rdma", (2,)))


@pytest.mark.parametrize("seed", seeds(60))
def test_it_is_served_whenever_it_would_be_if_the_other_gpus_were_broken(seed):
    rng = random.Random(seed)
    made = cluster()
    for i in range(rng.randint(0, 4)):
        made.allocate(DeviceRequest(f"o{i}", gpus=rng.randint(0, 2), nics=rng.randint(1, 2)), "n0")
    gpus = rng.sample(range(8), rng.randint(1, 8))
    request = DeviceRequest(
        "pod",
        gpus=rng.randint(1, len(gpus)),
        nics=rng.choice([0, 0, 1, 2]),
        joint=("gpu", "rdma") if rng.random() < 0.5 else (),
    )
    other = made.copy()
    for minor in set(range(8)) - set(gpus):
        other.set_health("n0", False, type="gpu", minor=minor)
    before = made.to_bytes()
    decision = made.schedule(request, nodes=("n0",), gpus=gpus)
    expected = other.schedule(request, nodes=("n0",))
    assert made.to_bytes() == before
    assert decision.outcome == expected.outcome
    if decision.outcome == "bind":
        assert set(dict(decision.minors)["gpu"]) <= set(gpus)
        held = [one for owner in made.owners("n0") for one in made.allocations(owner)]
        decision.verify(INVENTORY, held)
        made.commit(decision)
        made.check()


def test_minors_are_those_of_the_placement_copied_or_not():
    request = DeviceRequest("pod", gpus=3, nics=2)
    for decision in (
        cluster().schedule(request),
        cluster().schedule(DeviceRequest("pod", gpus=9)),
    ):
        by_type = {}
        for one in decision.placement:
            by_type.setdefault(one.type, []).append(one.minor)
        expected = tuple((type, tuple(sorted(minors))) for type, minors in by_type.items())
        assert decision.minors == expected
        assert pickle.loads(pickle.dumps(decision)).minors == expected
        assert copy.copy(decision).minors == expected


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"gpus": (0,)}, ValueError, "gpus: only with one node"),
        ({"gpus": (0,), "nodes": ("n0", "n1")}, ValueError, "gpus: only with one node"),
        ({"gpus": (0,), "nodes": ("n0",), "preemptible": ["x"]}, ValueError, "gpus"),
        ({"gpus": (0,), "nodes": ("n0",), "reserved": "last"}, ValueError, "gpus"),
        ({"gpus": (8,), "nodes": ("n0",)}, KeyError, "node 'n0' has no GPU 8"),
        ({"gpus": ("0",), "nodes": ("n0",)}, TypeError, "gpus must be an integer"),
        ({"gpus": 3, "nodes": ("n0",)}, TypeError, "gpus must be a sequence"),
        ({"gpus": (-1,), "nodes": ("n0",)}, (KeyError, ValueError), "-1"),
    ],
)
def test_bad_choices_are_named(arguments, error, message):
    made = cluster()
    made.allocate(DeviceRequest("x", gpus=1), "n0")
    with pytest.raises(error, match=message):
        made.schedule(DeviceRequest("pod", gpus=1), **arguments)
