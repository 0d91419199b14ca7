"""Gangs on idle nodes: said to be impossible exactly if no choice of devices serves all pods.

The oracle places pod after pod in every way. It knows the rules and nothing of what decides.
"""

import itertools
import random
from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceCluster,
    DeviceNeed,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
)

SCOPES = (None, None, None, "pcie", "numa", "socket")


def node(rng):
    switches = [
        {"pcie": f"p{i}", "numa": i // 2, "socket": 0} if rng.random() < 0.8 else {"pcie": f"p{i}"}
        for i in range(rng.randint(1, 3))
    ]

    def place():
        return rng.choice(switches) if rng.random() < 0.9 else {}

    gpus = [
        Device(
            "gpu",
            i,
            {"core": 100, "memory": rng.choice((100, 100, 60)), "memory_ratio": 100},
            labels=rng.choice(({}, {"ring": "a"})),
            healthy=rng.random() < 0.8,
            **place(),
        )
        for i in range(rng.randint(1, 5))
    ]
    nics = [Device("rdma", i, {"share": 100}, **place()) for i in range(rng.randint(0, 3))]
    return NodeDevices((*gpus, *nics))


def request(rng):
    wishes = {"scope": rng.choice(SCOPES)}
    if rng.random() < 0.2:
        wishes["selector"] = rng.choice(({"ring": "a"}, [LabelExpression("ring", "DoesNotExist")]))
    amounts = rng.choice(
        ({"core": 100, "memory_ratio": 100},) * 2 + ({"memory": 30}, {"memory": 45, "core": 40})
    )
    needs = [DeviceNeed("gpu", rng.choice((1, 1, 2, 2, 3)), amounts, **wishes)]
    joint = ()
    if rng.random() < 0.6:
        share = {"share": rng.choice((100, 100, 50))}
        needs.append(DeviceNeed("rdma", rng.choice((1, 1, 2)), share, scope=rng.choice(SCOPES)))
        joint = rng.choice(((), ("gpu", "rdma"), ("gpu", "rdma"), ("rdma", "gpu")))
    same = bool(joint) and rng.random() < 0.7
    if joint and not same:  # or it would be as many as there are in one of several places
        needs[1] = DeviceNeed("rdma", needs[1].count, needs[1].amounts)
    return DeviceRequest("pod", needs=needs, joint=joint, same_pcie=same)


def are_within(devices, scope):
    if scope is None or len(devices) == 1:
        return True
    order = ("pcie", "numa", "socket")
    return any(
        len({getattr(item, level) for item in devices}) == 1
        and getattr(devices[0], level) is not None
        for level in order[: order.index(scope) + 1]
    )


def most_pods(inventory, pod_request, enough):
    """How many of the pods the node holds, up to so many."""
    gpu_need, nic_need = pod_request.need("gpu"), pod_request.need("rdma")

    def slots(need, device):
        has = dict(device.amounts)
        for rule in need.selector:
            has_ring = "ring" in dict(device.labels)
            if has_ring == (isinstance(rule, LabelExpression)):
                return 0
        if dict(need.amounts).get("memory_ratio"):
            return 1
        return min(has.get(name, 0) // amount for name, amount in need.amounts)

    def choices(need, left, start, sizes):
        devices = inventory.of_type(need.type)
        able = [i for i in range(len(devices)) if left[start + i] > 0]
        for size in sizes(able):
            for chosen in itertools.combinations(able, size):
                if are_within([devices[i] for i in chosen], need.scope):
                    yield chosen

    gpus, nics = inventory.of_type("gpu"), inventory.of_type("rdma")

    def nic_choices(chosen, left):
        if nic_need is None:
            yield ()
            return
        touched = {gpus[i].pcie for i in chosen} - {None}
        if not pod_request.joint:
            sizes = [nic_need.count]
            yield from choices(nic_need, left, len(gpus), lambda able: sizes)
            return
        wanted = (
            max(nic_need.count, len(touched)) if pod_request.joint[0] == "gpu" else nic_need.count
        )
        if pod_request.same_pcie:
            if any(gpus[i].pcie is None for i in chosen):
                return
            for result in choices(nic_need, left, len(gpus), lambda able: [wanted]):
                if {nics[i].pcie for i in result} == touched:
                    yield result
            return

        def as_many_as_there_are(able):
            return [min(wanted, len(able))] if len(able) >= nic_need.count else []

        yield from choices(nic_need, left, len(gpus), as_many_as_there_are)

    @cache
    def most(left):
        best = 0
        for chosen in choices(gpu_need, left, 0, lambda able: [gpu_need.count]):
            for others in nic_choices(chosen, left):
                after = list(left)
                for i in chosen:
                    after[i] -= 1
                for i in others:
                    after[len(gpus) + i] -= 1
                best = max(best, 1 + most(tuple(after)))
                if best >= enough:
                    return best
        return best

    idle = [slots(gpu_need, item) for item in gpus]
    idle += [0 if nic_need is None else slots(nic_need, item) for item in nics]
    return min(enough, most(tuple(idle)))


@examples(1500)
@given(st.integers(0, 2**32))
def test_equal_pods_are_impossible_exactly_if_no_choice_serves_them_all(seed):
    rng = random.Random(seed)
    inventories = [node(rng) for _ in range(rng.choice((1, 1, 2)))]
    cluster = DeviceCluster({f"n{i}": item for i, item in enumerate(inventories)})
    pod_request = request(rng)
    pods = rng.randint(1, 6)
    room = sum(most_pods(item, pod_request, pods) for item in inventories)
    reason = cluster.impossible([pod_request] * pods)
    assert (room < pods) == bool(reason), (reason, room)


def whole(rng):
    """A pod of whole GPUs, on their switches with as many NICs as it takes."""
    gpus = rng.choice((1, 1, 2, 2, 3))
    scope = rng.choice(SCOPES)
    if rng.random() < 0.3:
        joint = {"joint": ("gpu", "rdma"), "same_pcie": True}
        return DeviceRequest("pod", gpus, nics=1, gpu_wishes={"scope": scope}, **joint)
    return DeviceRequest("pod", gpus, gpu_wishes={"scope": scope})


def are_held(inventories, pods):
    """Whether the nodes hold all these pods, by trying every place of every pod."""
    gpus = [(n, item) for n, node in enumerate(inventories) for item in node.of_type("gpu")]
    nics = [(n, item) for n, node in enumerate(inventories) for item in node.of_type("rdma")]

    @cache
    def held(number, idle_gpus, idle_nics):
        if number == len(pods):
            return True
        need, nic = pods[number].need("gpu"), pods[number].need("rdma")
        for chosen in itertools.combinations(sorted(idle_gpus), need.count):
            if len({gpus[i][0] for i in chosen}) > 1:
                continue
            devices = [gpus[i][1] for i in chosen]
            if not are_within(devices, need.scope):
                continue
            switches = {(gpus[i][0], gpus[i][1].pcie) for i in chosen}
            if nic is None:
                ways = [()]
            elif any(pcie is None for _, pcie in switches):
                continue
            else:
                on = [
                    [i for i in idle_nics if (nics[i][0], nics[i][1].pcie) == switch]
                    for switch in switches
                ]
                ways = itertools.product(*on)
            for others in ways:
                if held(number + 1, idle_gpus.difference(chosen), idle_nics.difference(others)):
                    return True
        return False

    return held(0, frozenset(range(len(gpus))), frozenset(range(len(nics))))


@examples(800)
@given(st.integers(0, 2**32))
def test_pods_of_several_kinds_are_impossible_exactly_if_no_choice_serves_them_all(seed):
    rng = random.Random(seed)
    inventories = [node(rng) for _ in range(rng.choice((1, 2)))]
    kinds = [whole(rng) for _ in range(rng.choice((2, 2, 3)))]
    pods = sorted((rng.choice(kinds) for _ in range(rng.randint(2, 5))), key=kinds.index)
    cluster = DeviceCluster({f"n{i}": item for i, item in enumerate(inventories)})
    assert bool(cluster.impossible(pods)) == (not are_held(inventories, pods))


def test_pods_that_fit_in_one_order_alone_are_possible_in_any_order():
    """How many NICs a joint pod gets depends on how many the pods before it have left."""
    gpus = [Device("gpu", i, {"core": 100, "memory": 100}, pcie=f"p{i}") for i in range(3)]
    nics = [Device("rdma", i, {"share": 100}, pcie=f"p{i}") for i in range(2)]
    cluster = DeviceCluster({"n": NodeDevices((*gpus, *nics))})
    wide = DeviceRequest("wide", 2, nics=1, joint=("gpu", "rdma"))
    small = DeviceRequest("small", 1, nics=1)
    outcomes = [decision.outcome for decision in cluster.schedule_many((small, wide))]
    assert outcomes == ["bind", "bind"]
    for pods in itertools.permutations((small, wide)):
        assert cluster.impossible(pods) == ""
    for pods in itertools.permutations((small, wide, small.replace(name="third"))):
        assert cluster.impossible(pods) != ""


def joint_or_alone(rng):
    """A few GPUs with NICs, which follow them to their switches, as far as there are enough."""
    amounts = rng.choice(({"core": 100, "memory_ratio": 100}, {"memory": 30}))
    needs = [DeviceNeed("gpu", rng.choice((1, 2, 2)), amounts)]
    share = {"share": rng.choice((100, 100, 50))}
    needs.append(DeviceNeed("rdma", rng.choice((1, 1, 2)), share))
    return DeviceRequest("pod", needs=needs, joint=rng.choice(((), ("gpu", "rdma"))))


@examples(400)
@given(st.integers(0, 2**32))
def test_pods_that_are_placed_one_after_the_other_in_some_order_are_possible(seed):
    rng = random.Random(seed)
    cluster = DeviceCluster({"n": node(rng)}).emptied()
    kinds = [joint_or_alone(rng) for _ in range(2)]
    pods = [rng.choice(kinds).replace(name=f"p{i}") for i in range(rng.randint(2, 4))]
    for ordered in itertools.permutations(pods):
        if all(item.outcome == "bind" for item in cluster.schedule_many(ordered)):
            for others in itertools.permutations(pods):
                assert cluster.impossible(others) == ""
            return
