"""The kernel's policies for shared GPUs against their twin."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore import _devices
from hivecore.devices import Device, DeviceRequest, NodeDevices, Task
from hivecore.devices._numbers import Numbers, healthy_masks
from hivecore.devices.device_cluster import POLICIES
from hivecore.reference.devices.fragmentation import Task as TwinTask
from hivecore.reference.devices.fragmentation import TaskMix as TwinMix
from hivecore.reference.devices.fragmentation import fragmentation
from hivecore.reference.devices.sharing import Pod, SharedNode
from hivecore.reference.devices.sharing_policies import choose

SHARING = [policy for policy in POLICIES if policy not in ("bin-pack", "spread")]
MODELS = ("T4", "A100", "V100")


class Cards:
    """Nodes of cards whose places are unknown, in the kernel and in the twin."""

    def __init__(self, rng):
        self.numbers = Numbers()
        self.kernel = _devices.DeviceKernel()
        self.twins = []
        self.owners = {}
        for node in range(rng.randint(1, 5)):
            even = rng.random() < 0.8
            count = rng.choice((0, 1, 2, 4, 8))
            sizes = [1000 if even else rng.choice((500, 1000, 2000)) for _ in range(count)]
            sick = {card for card in range(count) if rng.random() < 0.1}
            cpu, model = rng.choice((8000, 32_000, 96_000)), rng.choice(MODELS)
            self.twins.append(SharedNode(sizes, cpu, 10**6, model, sick))
            inventory = NodeDevices(
                (
                    Device("host", 0, {"cpu": cpu, "memory": 10**6}),
                    *(
                        Device("gpu", card, {"memory": size}, healthy=card not in sick)
                        for card, size in enumerate(sizes)
                    ),
                ),
                model=model,
            )
            shape = self.kernel.add_shape(*self.numbers.shape(inventory))
            self.kernel.set_node(node, shape, healthy_masks(inventory))

    def query(self, pod):
        return self.numbers.query(
            DeviceRequest(
                "pod",
                gpus=pod.cards,
                memory=pod.share if pod.cards else None,
                cpu_milli=pod.cpu,
                host_memory=pod.memory,
                models=pod.models,
            )
        )

    def tell(self, mix):
        tasks = [
            (Task(item.share, False, item.cards, item.cpu, tuple(sorted(item.models))), weight)
            for item, weight in mix.items()
        ]
        assert self.kernel.set_mix(
            [
                (
                    item.share,
                    False,
                    item.gpus,
                    item.cpu_milli,
                    map(self.numbers.model, item.models),
                    w,
                )
                for item, w in tasks
            ]
        )

    def check(self, mix):
        self.kernel.check()
        for number, node in enumerate(self.twins):
            wanted = fragmentation(node.free(), node.free_cpu, node.model, mix)
            assert self.kernel.fragmentation(number) == wanted


def a_pod(rng):
    cards = rng.choice((0, 1, 1, 1, 2, 4))
    share = rng.choice((100, 250, 500, 1000)) if cards else 0
    models = frozenset(rng.sample(MODELS, 2)) if cards and rng.random() < 0.2 else frozenset()
    return Pod(share, cards, rng.choice((1000, 4000, 12_000)), rng.choice((1, 1000)), models)


@pytest.mark.parametrize("policy", SHARING)
@examples(60)
@given(seed=st.integers(0, 2**32))
def test_a_policy_puts_every_pod_where_its_twin_does(policy, seed):
    rng = random.Random(seed)
    cards = Cards(rng)
    mix = TwinMix()
    for number in range(rng.randint(1, 20)):
        if number % 5 == 0:
            for _ in range(3):
                item = a_pod(rng)
                mix[TwinTask(item.share, item.cards, item.cpu, item.models)] += rng.randint(1, 3)
            cards.tell(mix)
        if cards.owners and rng.random() < 0.2:
            name = rng.choice(sorted(cards.owners))
            node, owner = cards.owners.pop(name)
            cards.kernel.refund(owner)
            cards.twins[node].refund(name)
        pod = a_pod(rng)
        place = choose(cards.twins, pod, policy, mix=mix, seed=seed, number=number)
        how = POLICIES.index(policy)
        plan = cards.kernel.schedule(cards.query(pod), how, None, seed, number)
        if place is None:
            assert plan is None
            continue
        taken = tuple(minor for type, minor, *_ in plan.charges if type == 0)
        assert (plan.node, taken) == place
        name = f"pod{number}"
        cards.owners[name] = plan.node, cards.kernel.commit(plan)
        cards.twins[plan.node].charge(name, pod, place.cards)
        cards.check(mix)
