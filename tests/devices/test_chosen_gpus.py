"""A pod whose GPUs another scheduler has chosen: its other devices are chosen beside them."""

import copy
import pickle
import random

import pytest
from profiles import seeds

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.devices.device_ledger import POLICIES

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
    devices = cluster()
    for i in range(rng.randint(0, 4)):
        devices.allocate(
            DeviceRequest(f"o{i}", gpus=rng.randint(0, 2), nics=rng.randint(1, 2)), "n0"
        )
    gpus = rng.sample(range(8), rng.randint(1, 8))
    request = DeviceRequest(
        "pod",
        gpus=rng.randint(1, len(gpus)),
        nics=rng.choice([0, 0, 1, 2]),
        joint=("gpu", "rdma") if rng.random() < 0.5 else (),
    )
    other = devices.copy()
    for minor in set(range(8)) - set(gpus):
        other.set_health("n0", False, type="gpu", minor=minor)
    before = devices.to_bytes()
    decision = devices.schedule(request, nodes=("n0",), gpus=gpus)
    expected = other.schedule(request, nodes=("n0",))
    assert devices.to_bytes() == before
    assert decision.outcome == expected.outcome
    if decision.outcome == "bind":
        assert set(dict(decision.minors)["gpu"]) <= set(gpus)
        held = [
            allocation
            for owner in devices.owners("n0")
            for allocation in devices.allocations(owner)
        ]
        decision.verify(INVENTORY, held)
        devices.commit(decision)
        devices.check()


def test_minors_are_those_of_the_placement_copied_or_not():
    request = DeviceRequest("pod", gpus=3, nics=2)
    for decision in (
        cluster().schedule(request),
        cluster().schedule(DeviceRequest("pod", gpus=9)),
    ):
        by_type = {}
        for allocation in decision.placement:
            by_type.setdefault(allocation.type, []).append(allocation.minor)
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
    devices = cluster()
    devices.allocate(DeviceRequest("x", gpus=1), "n0")
    with pytest.raises(error, match=message):
        devices.schedule(DeviceRequest("pod", gpus=1), **arguments)


def random_wish(rng):
    """Requests of pods that are alike, and the places of four of them."""
    gpus = rng.choice([1, 2, 4])
    nics = rng.choice([0, 0, 1, 2])
    joint = ("gpu", "rdma") if nics and rng.random() < 0.5 else ()
    request = DeviceRequest("any", gpus=gpus, nics=nics, joint=joint)
    return request, [
        (rng.choice(["n0", "n1"]), tuple(rng.sample(range(8), rng.randint(gpus, gpus + 1))))
        for _ in range(4)
    ]


@pytest.mark.parametrize("policy", ["bin-pack", "spread", "fgd"])
@pytest.mark.parametrize("seed", seeds(30))
def test_pods_that_are_alike_get_what_each_would_get_in_turn(seed, policy):
    rng = random.Random(seed)
    devices = DeviceCluster(dict.fromkeys(("n0", "n1"), INVENTORY), policy=policy)
    for turn in range(12):
        request, places = random_wish(rng)
        owners = [f"{turn}/{i}" for i in range(4)]
        expected, one_by_one = [], devices.copy()
        for owner, (node, gpus) in zip(owners, places, strict=True):
            pod = request.replace(name=owner)
            expected.append(one_by_one.schedule(pod, nodes=(node,), gpus=gpus))
            if expected[-1].outcome != "bind":
                break
            one_by_one.commit(expected[-1])
        before = devices.to_bytes()
        decisions = devices.allocate_many(request, owners, places)
        devices.check()
        answers = [
            (decision.request, decision.node, decision.minors, decision.reason, decision.impossible)
            for decision in expected
        ]
        if expected[-1].outcome != "bind":
            answers = answers[-1:]
            assert devices.to_bytes() == before
        elif policy != "fgd":  # which learns from one pod after the other
            assert devices.to_bytes() == one_by_one.to_bytes()
        assert answers == [
            (decision.request, decision.node, decision.minors, decision.reason, decision.impossible)
            for decision in decisions
        ]
        for owner in owners:
            if owner in devices and rng.random() < 0.7:
                devices.release(owner)
        if rng.random() < 0.3:  # what was chosen before does not hold any more
            devices.set_health(rng.choice(["n0", "n1"]), rng.random() < 0.6, type="gpu", minor=1)


def answers_of(decisions):
    return [
        (
            *(decision.request, decision.node, decision.minors),
            *(decision.counts, decision.reason, decision.impossible),
        )
        for decision in decisions
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", seeds(12))
def test_pods_that_are_alike_get_the_best_nodes_in_turn(seed, policy):
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(4)]
    devices = DeviceCluster(dict.fromkeys(names, INVENTORY), policy=policy, seed=seed)
    for turn in range(16):
        request, _ = random_wish(rng)
        owners = [f"{turn}/{i}" for i in range(rng.randint(1, 5))]
        nodes = rng.choice([None, None, rng.sample(names, rng.randint(0, 3))])
        expected, one_by_one = [], devices.copy()
        for owner in owners:
            expected.append(one_by_one.schedule(request.replace(name=owner), nodes=nodes))
            if expected[-1].outcome != "bind":
                break
            one_by_one.commit(expected[-1])
        is_served, before = expected[-1].outcome == "bind", devices.to_bytes()
        with devices.trial():
            decisions = devices.allocate_many(request, owners, nodes=nodes)
            devices.check()
            assert answers_of(decisions) == answers_of(expected if is_served else expected[-1:])
        if policy != "fgd":  # which goes by all pods that came
            assert devices.to_bytes() == before
        again = devices.allocate_many(request, owners, nodes=nodes)
        devices.check()
        if policy == "fgd":
            continue
        assert answers_of(again) == answers_of(decisions)
        assert devices.to_bytes() == (one_by_one.to_bytes() if is_served else before)
        for decision in again if is_served else ():
            held = [
                allocation
                for other in devices.owners(decision.node)
                if other not in owners[owners.index(decision.request.name) :]
                for allocation in devices.allocations(other)
            ]
            decision.verify(INVENTORY, held)
        gone = [owner for owner in owners if owner in devices and rng.random() < 0.7]
        with devices.trial():
            devices.release_many(gone)
            devices.check()
        assert all(owner in devices for owner in gone)
        devices.release_many(gone)
        devices.check()
        if rng.random() < 0.3:  # what was chosen before does not hold any more
            devices.set_health(rng.choice(names), rng.random() < 0.6, type="gpu", minor=1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("owners", "options", "error", "message"),
    [
        (["a", "a"], {}, ValueError, "named twice"),
        (["a", "old"], {}, ValueError, "has devices already"),
        (["a", ""], {}, ValueError, "must not be empty"),
        (["a", 1], {}, TypeError, "must be a string"),
        (["a"], {"nodes": ["n9"]}, KeyError, "n9"),
        (["a"], {"nodes": ["n0"], "places": [("n0", (0,))]}, ValueError, "not together"),
        ("a", {}, TypeError, "owners"),
    ],
)
def test_pods_for_the_best_nodes_are_refused_as_a_whole_where_an_argument_is_wrong(
    owners, options, error, message, policy
):
    devices = DeviceCluster(dict.fromkeys(("n0", "n1"), INVENTORY), policy=policy)
    devices.allocate(DeviceRequest("old", gpus=1), "n1")
    before = [(owner, devices.allocations(owner)) for owner in devices.owners("n1")]
    with pytest.raises(error, match=message):
        devices.allocate_many(DeviceRequest("any", gpus=1), owners, **options)
    assert [(owner, devices.allocations(owner)) for owner in devices.owners("n1")] == before
    assert len(devices) == 1
    devices.check()


def test_no_pods_get_nothing_and_a_cluster_without_nodes_says_so():
    request = DeviceRequest("any", gpus=1)
    assert cluster().allocate_many(request, []) == ()
    (decision,) = DeviceCluster().allocate_many(request, ["a", "b"])
    assert (decision.outcome, decision.request.name) == ("wait", "a")
    assert decision.reason == "there are no nodes"


@pytest.mark.parametrize(
    ("owners", "places", "error", "message"),
    [
        (["a"], [], ValueError, "places: must be"),
        (["a"], [("n0",)], ValueError, "places: must be"),
        (["a", "a"], [("n0", (0,)), ("n0", (1,))], ValueError, "named twice"),
        (["a", "old"], [("n0", (0,)), ("n0", (1,))], ValueError, "has devices already"),
        ([""], [("n0", (0,))], ValueError, "owners must not be empty"),
        ([1], [("n0", (0,))], TypeError, "owners must be a string"),
        (["a"], [("n9", (0,))], KeyError, "n9"),
        (["a", "b"], [("n0", (0,)), ("n0", (9,))], KeyError, "no GPU 9"),
        (["a"], [("n0", (0.5,))], TypeError, "gpus"),
        (["a"], [("n0", 3)], TypeError, "gpus"),
        (["a"], 7, TypeError, "places"),
    ],
)
def test_pods_that_are_alike_are_refused_as_a_whole_where_an_argument_is_wrong(
    owners, places, error, message
):
    devices = cluster()
    devices.allocate(DeviceRequest("old", gpus=1), "n1")
    before = devices.to_bytes()
    with pytest.raises(error, match=message):
        devices.allocate_many(DeviceRequest("any", gpus=1), owners, places)
    assert devices.to_bytes() == before


def test_several_owners_are_released_together_or_not_at_all():
    devices = cluster()
    devices.allocate_many(DeviceRequest("any", gpus=1), ["a", "b"], [("n0", (0,)), ("n1", (5,))])
    before = devices.to_bytes()
    assert devices.has_all(["a", "b"]) and devices.has_all([]) and not devices.has_all(["a", "c"])
    with pytest.raises(KeyError, match="'c'"):
        devices.release_many(["a", "c"])
    with pytest.raises(TypeError, match="names must be a sequence"):
        devices.release_many("a")
    assert devices.to_bytes() == before
    devices.release_many(["a", "b", "a"])
    assert len(devices) == 0
    devices.check()
