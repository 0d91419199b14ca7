"""A decision's check accepts what keeps every rule and rejects whatever breaks one."""

import copy
import random
from functools import cache

import pytest
from devices.cases import machine, request
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
    PartitionTable,
    VirtualFunction,
)
from hivecore.devices.device_cluster import POLICIES
from hivecore.devices.proof import check_placement
from hivecore.errors import CertificateError
from hivecore.reference.devices.choice import scope_of
from hivecore.reference.devices.eligible import View, charge_of
from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import Charge, NodeState

SCOPES = ("device", "pcie", "numa", "socket", "node")
SEEDS = st.integers(0, 2**32)


class Case:
    """What a check is given: a decision of a random node, to be changed in one place."""

    def __init__(self, rng, wanted=None, inventory=None, owners=3):
        self.rng = rng
        self.inventory = inventory or machine(rng)
        cluster = DeviceCluster({"n": self.inventory})
        for i in range(rng.randint(0, owners)):
            cluster.allocate(request(rng, self.inventory, f"o{i}"), "n")
        self.wanted = wanted or request(rng, self.inventory)
        self.held = [
            allocation for name in cluster.owners("n") for allocation in cluster.allocations(name)
        ]
        policy = rng.choice(("bin-pack", "spread"))
        self.decision = cluster.schedule(self.wanted, policy=policy)
        self.placement = list(self.decision.placement)

    def another(self, rng):
        """The same case, to be changed by these draws."""
        case = copy.copy(self)
        case.rng, case.placement, case.held = rng, [*self.placement], [*self.held]
        return case

    def check(self):
        check_placement(self.wanted, self.placement, self.inventory, self.held)

    def device(self, allocation):
        devices = self.inventory.devices
        return next(d for d in devices if (d.type, d.minor) == (allocation.type, allocation.minor))

    def with_device(self, allocation, **changes):
        """The inventory with another device in the place of one that was given."""
        was = self.device(allocation)
        devices = [d.replace(**changes) if d is was else d for d in self.inventory.devices]
        self.inventory = self.inventory.replace(devices=tuple(devices))

    def give(self, allocation, **changes):
        """Another allocation in the place of one."""
        self.placement[self.placement.index(allocation)] = allocation.replace(**changes)


# --- one rule after another is broken; each returns whether it could be


def twice(case, allocation):
    case.placement.append(allocation)
    return "given twice"


def of_a_type_that_was_not_asked_for(case, allocation):
    unasked = {"gpu", "rdma", "fpga"} - {need.type for need in case.wanted.needs}
    if unasked:
        case.placement.append(DeviceAllocation(min(unasked), 0, {}))
    return unasked and "was not asked for"


def not_there(case, allocation):
    case.give(allocation, minor=997)
    return "997: is not there"


def unhealthy(case, allocation):
    case.with_device(allocation, healthy=False)
    return "is unhealthy"


def without_its_labels(case, allocation):
    case.with_device(allocation, labels={})
    selector = case.wanted.need(allocation.type).selector
    return not selects(selector, ()) and "lacks the label|labels do not match"


def with_labels_that_are_not_wanted(case, allocation):
    selector = case.wanted.need(allocation.type).selector
    unwanted = {
        rule.key: rule.values[0] if rule.values else "any"
        for rule in selector
        if isinstance(rule, LabelExpression) and rule.operator in ("NotIn", "DoesNotExist")
    }
    case.with_device(allocation, labels=unwanted)
    return unwanted and "lacks the label|labels do not match"


def less_than_asked(case, allocation):
    name, amount = case.rng.choice(allocation.amounts)
    case.give(allocation, amounts=dict(allocation.amounts) | {name: amount - 1})
    if case.wanted.need(allocation.type).repeat:
        return "gives too|shares instead of"
    return f"gives too little {name}"


def more_than_asked(case, allocation):
    name, amount = case.rng.choice(allocation.amounts)
    case.give(allocation, amounts=dict(allocation.amounts) | {name: amount + 1})
    return f"gives too much|has too little {name}"


def something_else_besides(case, allocation):
    names = {"gpu": "npu_core", "rdma": "share", "fpga": "share", "host": "memory"}
    if names[allocation.type] in dict(allocation.amounts):
        return False
    case.give(allocation, amounts=dict(allocation.amounts) | {names[allocation.type]: 1})
    return "gives too much|has too little"


def beyond_what_is_free(case, allocation):
    name, amount = case.rng.choice(allocation.amounts)
    left = dict(case.device(allocation).amounts)[name] - amount
    case.held.append(DeviceAllocation(allocation.type, allocation.minor, {name: left + 1}))
    return f"has too little {name}|exclusive was asked for|PCIe switch is used"


def beyond_what_percents_leave(case, allocation):
    has = dict(case.device(allocation).amounts)
    if (
        allocation.type != "gpu"
        or not dict(allocation.amounts).get("memory")
        or has.get("memory", 0) < 100
    ):
        return False
    case.held.append(DeviceAllocation("gpu", allocation.minor, {"memory_ratio": 100}))
    return "has too little memory|exclusive was asked for|PCIe switch is used"


def with_a_function_that_is_taken(case, allocation):
    if allocation.function is None:
        return False
    case.held.append(DeviceAllocation(allocation.type, 996, {}, allocation.function))
    return "virtual function .* is taken"


def with_a_function_of_others(case, allocation):
    if allocation.function is None:
        return False
    case.give(allocation, function=VirtualFunction("no such address"))
    return "no virtual function as asked for"


def without_its_function(case, allocation):
    if allocation.function is None:
        return False
    case.give(allocation, function=None)
    return "no virtual function as asked for"


def with_a_function_for_nothing(case, allocation):
    if case.wanted.need(allocation.type).vf_selector is not None:
        return False
    case.give(allocation, function=VirtualFunction("v"))
    return "virtual function that was not asked for"


def on_a_device_that_another_owner_has_alone(case, allocation):
    how = case.rng.choice(("device", "pcie"))
    case.held.append(DeviceAllocation(allocation.type, allocation.minor, {}, None, how))
    return "exclusive|PCIe switch is taken"


def on_a_switch_that_another_owner_has_alone(case, allocation):
    switch = case.device(allocation).pcie
    others = [d for d in case.inventory.of_type(allocation.type) if d.pcie == switch]
    others.remove(case.device(allocation))
    if switch is None or not others:
        return False
    case.held.append(DeviceAllocation(allocation.type, others[0].minor, {}, None, "pcie"))
    return "PCIe switch is|exclusive"


def alone_on_a_used_device(case, allocation):
    if case.wanted.need(allocation.type).exclusive is None:
        return False
    case.held.append(DeviceAllocation(allocation.type, allocation.minor, {}))
    return "exclusive was asked for|PCIe switch is used"


def with_another_right_to_be_alone(case, allocation):
    case.give(allocation, exclusive="device" if allocation.exclusive is None else None)
    return "exclusive, which the request"


def one_too_few(case, allocation):
    case.placement.remove(allocation)
    return "instead of|of .* to|not on the same PCIe|no partition"


def one_too_many(case, allocation):
    free = {d.minor for d in case.inventory.of_type(allocation.type) if d.healthy}
    free -= {
        other.minor for other in (*case.placement, *case.held) if other.type == allocation.type
    }
    need = case.wanted.need(allocation.type)
    if not free or case.wanted.joint or need.every or need.vf_selector is not None:
        return False
    minor = min(free)
    spare = next(d for d in case.inventory.of_type(allocation.type) if d.minor == minor)
    if not selects(need.selector, spare.labels):
        return False
    amounts = charge_of(need, spare)
    if any(dict(spare.amounts).get(name, 0) < amount for name, amount in amounts.items()):
        return False
    case.placement.append(
        DeviceAllocation(allocation.type, minor, amounts, None, allocation.exclusive)
    )
    return "instead of|switch is|not within|no partition"


def in_a_wider_scope(case, allocation):
    need = case.wanted.need(allocation.type)
    if need.scope in (None, "node") or sum(o.type == allocation.type for o in case.placement) < 2:
        return False
    case.with_device(allocation, pcie=None, numa=None, socket=None)
    return f"not within one {need.scope}"


def on_another_switch(case, allocation):
    if not case.wanted.same_pcie or allocation.type not in case.wanted.joint:
        return False
    scoped = any(case.wanted.need(type).scope not in (None, "node") for type in case.wanted.joint)
    if scoped:
        return False
    case.with_device(allocation, pcie="elsewhere", numa=None, socket=None)
    return "not on the same PCIe switches|of .* to"


def on_a_node_of_another_model(case, allocation):
    case.inventory = case.inventory.replace(model="another")
    return case.wanted.models and case.wanted.need("gpu") and "another model|no partition"


def on_a_node_of_another_isolation_provider(case, allocation):
    gpu = case.wanted.need("gpu")
    case.inventory = case.inventory.replace(isolation_provider="another")
    return (
        gpu is not None
        and gpu.shared
        and case.wanted.isolation_provider
        and "another isolation provider"
    )


BROKEN = [
    twice,
    of_a_type_that_was_not_asked_for,
    not_there,
    unhealthy,
    without_its_labels,
    with_labels_that_are_not_wanted,
    less_than_asked,
    more_than_asked,
    something_else_besides,
    beyond_what_is_free,
    beyond_what_percents_leave,
    with_a_function_that_is_taken,
    with_a_function_of_others,
    without_its_function,
    with_a_function_for_nothing,
    on_a_device_that_another_owner_has_alone,
    on_a_switch_that_another_owner_has_alone,
    alone_on_a_used_device,
    with_another_right_to_be_alone,
    one_too_few,
    one_too_many,
    in_a_wider_scope,
    on_another_switch,
    on_a_node_of_another_model,
    on_a_node_of_another_isolation_provider,
]


@cache
def decided(seed):
    """A random case, in which what was decided is accepted."""
    case = Case(random.Random(seed))
    if case.placement:
        case.check()
    return case


@pytest.mark.parametrize("broken", BROKEN, ids=lambda rule: rule.__name__)
def test_a_placement_is_rejected_that_is(broken):
    """Over seeds, as hypothesis would give up on rules that few requests can break."""
    rejected = 0
    for seed in range(2500):
        case = decided(seed).another(random.Random(seed))
        if not case.placement:
            continue
        item = case.rng.choice(case.placement)
        rule = broken(case, item)
        if not rule:
            continue
        with pytest.raises(CertificateError, match=rule):
            case.check()
        rejected += 1
        if rejected == 25:
            return
    assert rejected >= 5


# --- partitions and all of a type, where the random cases are too few


def fabric(rng, **request_fields):
    pairs = PartitionTable.of_sets([range(4), (0, 1), (2, 3)])
    amounts = {"core": 100, "memory_ratio": 100}
    gpus = tuple(Device("gpu", i, amounts) for i in range(4))
    wish = DeviceRequest("x", gpus=2, **request_fields)
    inventory = NodeDevices(gpus, pairs, partition_policy="honor")
    case = Case(rng, wish, inventory, owners=0)
    case.check()
    return case


@examples(20)
@given(SEEDS)
def test_gpus_that_are_no_partition_are_rejected(seed):
    case = fabric(random.Random(seed))
    case.give(case.placement[1], minor=case.rng.choice((2, 3)))
    with pytest.raises(CertificateError, match=r"the GPUs \[0, [23]\] are no partition"):
        case.check()


@examples(20)
@given(SEEDS)
def test_a_partition_with_another_owner_in_it_is_rejected(seed):
    case = fabric(random.Random(seed))
    case.held.append(DeviceAllocation("gpu", case.rng.choice((0, 1)), {}))
    with pytest.raises(CertificateError, match="another owner uses GPUs of the partition"):
        case.check()


def test_a_partition_of_a_lesser_score_or_bandwidth_is_rejected():
    rows = PartitionTable.of_sets([(0, 1), (2, 3)]).partitions
    case = fabric(random.Random(0), partition="restricted")
    table = PartitionTable((rows[0], rows[1].replace(score=2)))
    case.inventory = case.inventory.replace(partitions=table)
    with pytest.raises(CertificateError, match="not of the best score"):
        case.check()
    case.wanted = case.wanted.replace(partition="best-effort", bandwidth=10)
    for bandwidth in (None, 9):
        table = PartitionTable((rows[0].replace(bandwidth=bandwidth), rows[1]))
        case.inventory = case.inventory.replace(partitions=table)
        with pytest.raises(CertificateError, match="too little bandwidth"):
            case.check()
    table = PartitionTable((rows[0].replace(bandwidth=10), rows[1]))
    case.inventory = case.inventory.replace(partitions=table)
    case.check()


def test_all_of_a_type_are_all_that_match():
    inventory = NodeDevices.uniform(nics=4)
    case = Case(random.Random(0), DeviceRequest("x", nics="all"), inventory, owners=0)
    case.check()
    for gone in case.placement:
        rest = [allocation for allocation in case.placement if allocation != gone]
        with pytest.raises(CertificateError, match=r"rdma: .* instead of"):
            check_placement(case.wanted, rest, inventory, ())
    sick = inventory.with_health([inventory.devices[3]], False)
    check_placement(case.wanted, case.placement[:3], sick, ())
    with pytest.raises(CertificateError, match="rdma"):
        check_placement(case.wanted, (), NodeDevices(()), ())


def test_a_decision_to_wait_is_nothing_to_check():
    case = Case(random.Random(0), DeviceRequest("x", gpus=9), NodeDevices.uniform(gpus=1))
    with pytest.raises(ValueError, match="'bind', not 'wait'"):
        case.decision.verify(case.inventory)


# --- every policy


@pytest.mark.parametrize("policy", POLICIES)
@examples(150)
@given(seed=SEEDS)
def test_every_policy_keeps_the_rules_and_serves_what_any_other_does(policy, seed):
    rng = random.Random(seed)
    kinds = [machine(rng) for _ in range(2)]
    cluster = DeviceCluster({f"n{i}": rng.choice(kinds) for i in range(3)}, seed=seed)
    for i in range(8):
        wish = request(rng, rng.choice(kinds), f"o{i}")
        decision = cluster.schedule(wish, policy=policy)
        feasibility = cluster.filter(wish)
        assert cluster.filter(wish, policy=policy).codes.tolist() == feasibility.codes.tolist()
        assert (decision.outcome == "bind") == feasibility.fits.any()
        if decision.outcome == "bind":
            owners = cluster.owners(decision.node)
            held = [allocation for owner in owners for allocation in cluster.allocations(owner)]
            decision.verify(cluster.inventory(decision.node), held)
            cluster.commit(decision)
            cluster.check()


# --- any placement at all


def allowed(node, wanted, placement):
    """Whether the twin's rules allow it, said by their words and not by the check's."""
    view = View(node)
    given_, shares = {}, 0
    for allocation in placement:
        need = wanted.need(allocation.type)
        device = node.devices.get(allocation.type, {}).get(allocation.minor)
        if need is None or device is None or device not in view.eligible(need):
            return False
        functions = [None]
        if need.vf_selector is not None:
            functions = view.functions(device, need.vf_selector)
        charge = charge_of(need, device)
        if need.repeat:
            times = dict(allocation.amounts).get("memory", 0) // charge["memory"]
            shares += times
            charge = {name: times * amount for name, amount in charge.items()}
            free = view.free(device)
            if any(free[name] < amount for name, amount in charge.items()):
                return False
        same = dict(allocation.amounts) == {n: a for n, a in charge.items() if a}
        function = allocation.function and allocation.function.bus_id
        if not same or function not in functions or allocation.exclusive != need.exclusive:
            return False
        given_.setdefault(allocation.type, []).append(device)
    gpu = wanted.need("gpu")
    if gpu is not None:
        provider = wanted.isolation_provider if gpu.shared else ""
        if provider not in ("", node.inventory.isolation_provider):
            return False
        if wanted.models and node.inventory.model not in wanted.models:
            return False
    if gpu is not None and gpu.repeat and shares != gpu.count:
        return False
    return all(counts(view, wanted, need, given_) for need in wanted.needs) and fabric_allows(
        view, wanted, given_.get("gpu", [])
    )


def counts(view, wanted, need, given_):
    devices = given_.get(need.type, [])
    if len({device.minor for device in devices}) != len(devices) or not devices:
        return False
    if need.scope is not None and scope_of(devices) > SCOPES.index(need.scope):
        return False
    if need.repeat:
        return True
    if need.every:
        wanted = [d for d in view.healthy(need.type) if view.matches(d, need)]
        return sum(view.has_functions(d, need) for d in wanted) == len(devices)
    joint = wanted.joint
    driver = "gpu" if "gpu" in joint else (joint or [None])[0]
    most = need.count
    if need.type in joint:
        switches = {item.pcie for item in given_.get(driver, [])}
        if wanted.same_pcie and (None in switches or {d.pcie for d in devices} != switches):
            return False
        if need.type not in (driver, joint[0]):
            most = max(most, len(switches - {None}))
    return need.count <= len(devices) <= most


def fabric_allows(view, wanted, gpus):
    need, inventory = wanted.need("gpu"), view.node.inventory
    asks = wanted.partition is not None or inventory.partition_policy == "honor"
    if need is None or need.shared or need.every or not asks:
        return True
    rows = [row for row in inventory.partition_rows() if len(row.members) == need.count]
    best = max((row.score for row in rows), default=0)
    return any(
        set(row.members) == {gpu.minor for gpu in gpus}
        and not any(map(view.in_use, gpus))
        and (wanted.partition != "restricted" or row.score == best)
        and (wanted.bandwidth is None or (row.bandwidth or -1) >= wanted.bandwidth)
        for row in rows
    )


def shuffled(case, rng):
    """The placement with some other devices, functions and amounts, or some more or less."""
    results = []
    for allocation in case.placement:
        change = rng.random()
        if change < 0.15:
            continue
        others = case.inventory.of_type(allocation.type)
        if change < 0.6:
            device = rng.choice(others)
            amounts = charge_of(case.wanted.need(allocation.type), device)
            names = [f.bus_id for group in device.vf_groups for f in group.functions]
            function = VirtualFunction(rng.choice(names)) if allocation.function and names else None
            allocation = DeviceAllocation(
                allocation.type, device.minor, amounts, function, allocation.exclusive
            )
        results.append(allocation)
        if change > 0.95:
            device = rng.choice(others)
            amounts = charge_of(case.wanted.need(allocation.type), device)
            results.append(
                DeviceAllocation(allocation.type, device.minor, amounts, None, allocation.exclusive)
            )
    return results


@examples(500)
@given(SEEDS)
def test_any_placement_is_accepted_exactly_if_the_rules_allow_it(seed):
    rng = random.Random(seed)
    case = Case(rng)
    assume(case.placement)
    node = NodeState(case.inventory)
    for i, allocation in enumerate(case.held):
        function = allocation.function and allocation.function.bus_id
        charge = Charge(
            allocation.type,
            allocation.minor,
            dict(allocation.amounts),
            function,
            allocation.exclusive,
        )
        node.charge(f"o{i}", (charge,))
    for _ in range(8):
        placement = shuffled(case, rng)
        try:
            check_placement(case.wanted, placement, case.inventory, case.held)
            accepted = True
        except CertificateError:
            accepted = False
        assert accepted == allowed(node, case.wanted, placement), placement
