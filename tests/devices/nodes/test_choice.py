"""The twin's choice against all choices there are, on small nodes."""

import itertools
import random

from devices.cases import machine, request
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.reference.devices.choice import Choice, choose
from hivecore.reference.devices.node_state import NodeState


def keeps(selector, thing):
    """Whether its labels keep all rules, which Kubernetes writes as text."""
    pairs = dict(thing.labels)
    for rule in selector:
        text = rule if isinstance(rule, tuple) else str(rule)
        if isinstance(text, tuple):
            kept = text in thing.labels
        elif " in (" in text:
            kept = pairs.get(rule.key) in rule.values
        elif " notin (" in text:
            kept = pairs.get(rule.key) not in rule.values
        else:
            kept = (rule.key in pairs) != text.startswith("!")
        if not kept:
            return False
    return True


class Oracle:
    """What may be chosen, and how good it is, said again without the twin's words."""

    def __init__(self, node, wish, policy):
        self.node, self.asked, self.policy = node, wish, policy
        self.devices = [device for device in node.inventory.devices if device.healthy]
        self.taken = {}
        for charges in node.owners.values():
            for charge in charges:
                self.taken.setdefault((charge.type, charge.minor), []).append(charge)

    def used(self, device):
        return self.taken.get((device.type, device.minor), [])

    def siblings(self, device):
        same = [card for card in self.node.inventory.devices if card.type == device.type]
        return [
            other_device
            for other_device in same
            if other_device is device or (other_device.pcie and other_device.pcie == device.pcie)
        ]

    def need_of(self, need, device):
        have = dict(device.amounts)
        wanted = dict(need.amounts)
        if "memory" in have and "memory_ratio" in wanted:
            wanted["memory"] = wanted.pop("memory_ratio") * have["memory"] // 100
        elif "memory" in have:
            have.pop("memory_ratio", None)
        return wanted, have

    def can(self, need, device):
        wanted, have = self.need_of(need, device)
        for name, amount in wanted.items():
            used = sum(charge.amounts.get(name, 0) for charge in self.used(device))
            if name not in have or used + amount > have[name]:
                return False
        if not keeps(need.selector, device):
            return False
        if any(charge.exclusive for charge in self.used(device)):
            return False
        around = [charge for candidate in self.siblings(device) for charge in self.used(candidate)]
        if any(charge.exclusive == "pcie" for charge in around):
            return False
        if need.exclusive and (around if need.exclusive == "pcie" else self.used(device)):
            return False
        if need.vf_selector is not None:
            gone = {charge.function for charge in self.used(device)}
            left = [
                function.bus_id
                for group in device.vf_groups
                for function in group.functions
                if keeps(need.vf_selector, group) and function.bus_id not in gone
            ]
            return bool(left)
        return True

    @staticmethod
    def around(devices):
        if len(devices) == 1:
            return "device"
        for name in ("pcie", "numa", "socket"):
            places = {getattr(device, name) for device in devices}
            if len(places) == 1 and places != {None}:
                return name
        return "node"

    def in_scope(self, need, devices):
        order = ["device", "pcie", "numa", "socket", "node"]
        return need.scope is None or order.index(self.around(devices)) <= order.index(need.scope)

    def sets(self, need):
        """Every set of devices that the need alone could have."""
        able = [
            device for device in self.devices if device.type == need.type and self.can(need, device)
        ]
        if need.repeat:
            return (
                [tuple(able)]
                if sum(self.often(need, device) for device in able) >= need.count
                else []
            )
        if need.every:
            return [tuple(able)] if able and self.in_scope(need, able) else []
        sizes = [need.count]
        if need.type in self.asked.joint[1:] and need.type != "gpu":
            sizes = range(need.count, len(able) + 1)
        return [
            combination
            for size in sizes
            for combination in itertools.combinations(able, size)
            if self.in_scope(need, combination)
        ]

    def often(self, need, device):
        """How many shares of the device are free."""
        wanted, have = self.need_of(need, device)
        for charge in self.used(device):
            for name, amount in charge.amounts.items():
                have[name] = have.get(name, 0) - amount
        return min(have[name] // amount for name, amount in wanted.items())

    def feasible(self):
        """The GPU sets that have everything else beside them, by what makes them better."""
        if any(
            need.every
            and not all(
                self.can(need, device)
                for device in self.devices
                if device.type == need.type and self.could(need, device)
            )
            for need in self.asked.needs
        ):
            return []
        by_type = {need.type: self.sets(need) for need in self.asked.needs}
        if not all(by_type.values()):
            return []
        joint = [by_type.pop(type) for type in self.asked.joint]
        if not joint:
            return [True]
        good = []
        for parts in itertools.product(*joint):
            switches = [{device.pcie for device in part} for part in parts]
            if self.asked.same_pcie:
                if None in switches[0] or any(device != switches[0] for device in switches):
                    continue
                sizes = [
                    max(self.asked.need(type).count, len(switches[0]))
                    for type in self.asked.joint[1:]
                    if type != "gpu"
                ]
                others = [p for p, t in zip(parts, self.asked.joint, strict=True)][1:]
                counted = [len(p) for p in others if p[0].type != "gpu"]
                if counted != sizes:
                    continue
            good.append(parts)
        return good

    def could(self, need, device):
        wanted, have = self.need_of(need, device)
        fits = all(have.get(name, 0) >= amount for name, amount in wanted.items())
        groups = [g for g in device.vf_groups if g.functions]
        selector = need.vf_selector
        return (
            fits
            and keeps(need.selector, device)
            and (selector is None or any(keeps(selector, g) for g in groups))
        )


def is_tabled(node, wish):
    """Whether partitions have a say, which another test is about."""
    need = wish.need("gpu")
    return (
        need is not None
        and not need.shared
        and (
            wish.partition is not None
            or node.inventory.partition_policy == "honor"
            or bool(node.inventory.partition_rows())
        )
    )


def busy_node(rng, **options):
    """A node with some owners that chose by other policies."""
    node = NodeState(machine(rng, **options))
    for i in range(rng.randint(0, 5)):
        choice = choose(
            node, request(rng, node.inventory, f"owner{i}"), rng.choice(("bin-pack", "spread"))
        )
        if isinstance(choice, Choice):
            node.charge(f"owner{i}", choice.charges)
    return node


@examples(300)
@given(st.integers(0, 2**32))
def test_a_node_serves_a_request_exactly_if_some_choice_of_devices_does(seed):
    rng = random.Random(seed)
    node = busy_node(rng)
    wish = request(rng, node.inventory)
    provider = wish.isolation_provider
    if is_tabled(node, wish) or provider not in ("", node.inventory.isolation_provider):
        return
    result = choose(node, wish, rng.choice(("bin-pack", "spread")))
    assert isinstance(result, Choice) == bool(Oracle(node, wish, "").feasible())


class Key:
    """How good a choice of GPUs is, with NICs that may be anywhere (section 8.3)."""

    def __init__(self, oracle, policy):
        self.oracle, self.policy = oracle, policy

    def __call__(self, need, chosen, followers):
        busy = {True: [], False: []}
        for device in self.oracle.devices:
            if device.type == need.type:
                busy[bool(self.oracle.used(device))].append(device)
        neighbours = busy[self.policy == "spread"]
        first_of = {device.pcie or device.minor: device for device in reversed(chosen)}
        far = []
        for here in first_of.values():
            for follower in followers:
                able = [
                    card
                    for card in self.oracle.devices
                    if card.type == follower.type and self.oracle.can(follower, card)
                ]
                far.append(min(self.steps(here, other) for other in able))
        sign = -1 if self.policy == "spread" else 1
        return (
            ["device", "pcie", "numa", "socket", "node"].index(self.oracle.around(chosen)),
            (far.count(3), far.count(2), far.count(1)),
            sum(device.pcie in first_of.keys() - {None} for device in neighbours),
            sum(device.numa in {c.numa for c in chosen} - {None} for device in neighbours),
            sum(device.socket in {c.socket for c in chosen} - {None} for device in neighbours),
            sign * sum(self.left(need, device) for device in chosen),
            sorted(device.minor for device in chosen),
        )

    @staticmethod
    def steps(device, other):
        if device.pcie and device.pcie == other.pcie:
            return 0
        if device.numa is not None and device.numa == other.numa:
            return 1
        return 2 if device.socket is not None and device.socket == other.socket else 3

    def left(self, need, device):
        wanted, have = self.oracle.need_of(need, device)
        name = next((n for n in ("memory", "memory_ratio", "share") if n in have), "core")
        used = sum(charge.amounts.get(name, 0) for charge in self.oracle.used(device))
        return max(have[name] - used, 0) - wanted.get(name, 0)


@examples(300)
@given(st.integers(0, 2**32), st.sampled_from(("bin-pack", "spread")))
def test_the_chosen_devices_are_the_best_of_all_that_serve(seed, policy):
    rng = random.Random(seed)
    node = busy_node(rng)
    wish = request(rng, node.inventory)
    result = choose(node, wish, policy)
    if not isinstance(result, Choice) or not wish.needs or is_tabled(node, wish):
        return
    if any(
        need.scope not in (None, "node") for need in wish.needs if need.type in wish.joint[1:]
    ) or any(need.repeat for need in wish.needs):
        return
    oracle = Oracle(node, wish, policy)
    key = Key(oracle, policy)
    joint = [wish.need(type) for type in wish.joint]
    need = wish.need("gpu") or (joint or wish.needs)[0]
    followers = [device for device in joint if device is not need] if need in joint else []
    ours = [
        device
        for device in oracle.devices
        for c in result.charges
        if (device.type, device.minor) == c[:2]
    ]
    ours = [device for device in ours if device.type == need.type]
    if need in joint:
        choices = [parts[wish.joint.index(need.type)] for parts in oracle.feasible()]
    else:
        choices = oracle.sets(need)
    assert key(need, ours, followers) == min(key(need, device, followers) for device in choices)
