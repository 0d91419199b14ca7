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

    def __init__(self, node, asked, policy):
        self.node, self.asked, self.policy = node, asked, policy
        self.devices = [one for one in node.inventory.devices if one.healthy]
        self.taken = {}
        for charges in node.owners.values():
            for charge in charges:
                self.taken.setdefault((charge.type, charge.minor), []).append(charge)

    def used(self, device):
        return self.taken.get((device.type, device.minor), [])

    def siblings(self, device):
        same = [one for one in self.node.inventory.devices if one.type == device.type]
        return [one for one in same if one is device or (one.pcie and one.pcie == device.pcie)]

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
        around = [charge for one in self.siblings(device) for charge in self.used(one)]
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
            places = {getattr(one, name) for one in devices}
            if len(places) == 1 and places != {None}:
                return name
        return "node"

    def in_scope(self, need, devices):
        order = ["device", "pcie", "numa", "socket", "node"]
        return need.scope is None or order.index(self.around(devices)) <= order.index(need.scope)

    def sets(self, need):
        """Every set of devices that the need alone could have."""
        able = [one for one in self.devices if one.type == need.type and self.can(need, one)]
        if need.repeat:
            return [tuple(able)] if sum(self.often(need, one) for one in able) >= need.count else []
        if need.every:
            return [tuple(able)] if able and self.in_scope(need, able) else []
        sizes = [need.count]
        if need.type in self.asked.joint[1:] and need.type != "gpu":
            sizes = range(need.count, len(able) + 1)
        return [
            found
            for size in sizes
            for found in itertools.combinations(able, size)
            if self.in_scope(need, found)
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
                self.can(need, one)
                for one in self.devices
                if one.type == need.type and self.could(need, one)
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
            switches = [{one.pcie for one in part} for part in parts]
            if self.asked.same_pcie:
                if None in switches[0] or any(one != switches[0] for one in switches):
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


def is_tabled(node, asked):
    """Whether partitions have a say, which another test is about."""
    need = asked.need("gpu")
    return (
        need is not None
        and not need.shared
        and (
            asked.partition is not None
            or node.inventory.partition_policy == "honor"
            or bool(node.inventory.partition_rows())
        )
    )


def busy_node(rng, **options):
    """A node with some owners that chose by other policies."""
    node = NodeState(machine(rng, **options))
    for i in range(rng.randint(0, 5)):
        made = choose(
            node, request(rng, node.inventory, f"owner{i}"), rng.choice(("bin-pack", "spread"))
        )
        if isinstance(made, Choice):
            node.charge(f"owner{i}", made.charges)
    return node


@examples(300)
@given(st.integers(0, 2**32))
def test_a_node_serves_a_request_exactly_if_some_choice_of_devices_does(seed):
    rng = random.Random(seed)
    node = busy_node(rng)
    asked = request(rng, node.inventory)
    provider = asked.isolation_provider
    if is_tabled(node, asked) or provider not in ("", node.inventory.isolation_provider):
        return
    found = choose(node, asked, rng.choice(("bin-pack", "spread")))
    assert isinstance(found, Choice) == bool(Oracle(node, asked, "").feasible())


class Key:
    """How good a choice of GPUs is, with NICs that may be anywhere (section 8.3)."""

    def __init__(self, oracle, policy):
        self.oracle, self.policy = oracle, policy

    def __call__(self, need, chosen, followers):
        busy = {True: [], False: []}
        for one in self.oracle.devices:
            if one.type == need.type:
                busy[bool(self.oracle.used(one))].append(one)
        neighbours = busy[self.policy == "spread"]
        places = {one.pcie or one.minor for one in chosen}
        far = []
        for place in places:
            here = next(one for one in chosen if (one.pcie or one.minor) == place)
            for follower in followers:
                able = [
                    one
                    for one in self.oracle.devices
                    if one.type == follower.type and self.oracle.can(follower, one)
                ]
                far.append(min(self.steps(here, other) for other in able))
        sign = -1 if self.policy == "spread" else 1
        return (
            ["device", "pcie", "numa", "socket", "node"].index(self.oracle.around(chosen)),
            (far.count(3), far.count(2), far.count(1)),
            len([one for one in neighbours if one.pcie in places - {None}]),
            len([one for one in neighbours if one.numa in {c.numa for c in chosen} - {None}]),
            len([one for one in neighbours if one.socket in {c.socket for c in chosen} - {None}]),
            sign * sum(self.left(need, one) for one in chosen),
            sorted(one.minor for one in chosen),
        )

    @staticmethod
    def steps(one, other):
        if one.pcie and one.pcie == other.pcie:
            return 0
        if one.numa is not None and one.numa == other.numa:
            return 1
        return 2 if one.socket is not None and one.socket == other.socket else 3

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
    asked = request(rng, node.inventory)
    found = choose(node, asked, policy)
    if not isinstance(found, Choice) or not asked.needs or is_tabled(node, asked):
        return
    if any(
        need.scope not in (None, "node") for need in asked.needs if need.type in asked.joint[1:]
    ) or any(need.repeat for need in asked.needs):
        return
    oracle = Oracle(node, asked, policy)
    key = Key(oracle, policy)
    joint = [asked.need(type) for type in asked.joint]
    need = asked.need("gpu") or (joint or asked.needs)[0]
    followers = [one for one in joint if one is not need] if need in joint else []
    ours = [one for one in oracle.devices for c in found.charges if (one.type, one.minor) == c[:2]]
    ours = [one for one in ours if one.type == need.type]
    if need in joint:
        choices = [parts[asked.joint.index(need.type)] for parts in oracle.feasible()]
    else:
        choices = oracle.sets(need)
    assert key(need, ours, followers) == min(key(need, one, followers) for one in choices)
