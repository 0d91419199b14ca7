"""Random nodes and requests for mode "koordinator", and a node of its kernel beside its twin."""

from dataclasses import replace

from devices_cases import LABELS, MEMORY, machine, selector

from hivecore import _devices
from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)
from hivecore.devices._koordinator import as_quirks, raw_query, raw_shape
from hivecore.devices._numbers import Numbers, healthy_masks
from hivecore.devices.device import TYPES
from hivecore.devices.feasibility import CODES
from hivecore.reference.devices.koordinator import Failure, Restriction, allocate, score_node
from hivecore.reference.devices.koordinator.node_view import has_place
from hivecore.reference.devices.node_state import Charge, NodeState

POLICIES = {"bin-pack": "most_allocated", "spread": "least_allocated"}
COMPUTED = Restriction(preemptible={})  # the view of filters, though nothing is taken back


def odd_machine(random):
    """A node as of `machine`, with more of what Koordinator looks at and odder devices."""
    found = machine(random, gpus=random.choice((0, 1, 2, 4, 6, 8, 8, 8)))
    devices = [*found.devices, *_more(random, found)]
    odd = random.random() < 0.3
    for i, device in enumerate(devices):
        if odd and random.random() < 0.3:
            names = random.sample([name for name, _ in device.amounts], len(device.amounts) // 2)
            amounts = {name: amount for name, amount in device.amounts if name not in names}
            devices[i] = device = device.replace(amounts=amounts)
        if odd and random.random() < 0.1:
            lost = random.choice(({"pcie": None}, {"pcie": None, "numa": None}))
            devices[i] = device.replace(**lost)
    partitions = found.partitions
    if random.random() < 0.15:
        octet = PartitionTable.of_model("H100", "minor")
        partitions = PartitionTable(
            tuple(replace(row, score=random.choice((1, 1, 1, 2))) for row in octet.partitions)
        )
    elif random.random() < 0.3:
        minors = [gpu.minor for gpu in found.of_type("gpu")] + [3, 7, 90]
        rows = {
            frozenset(random.sample(sorted(set(minors)), random.choice((1, 2, 2, 3))))
            for _ in range(6)
        }
        partitions = PartitionTable(
            tuple(
                Partition(tuple(row), random.randint(0, 2), random.choice((None, 100, 200)))
                for row in sorted(rows, key=sorted)
            )
        )
    return replace(
        found,
        devices=tuple(devices),
        partitions=partitions,
        partition_policy=random.choice(
            ("honor", "prefer") if partitions else ("prefer",) * 9 + ("honor",)
        ),
        secondary_well_planned=random.random() < 0.2,
        vendor=random.choice(("", "", "nvidia", "other")),
    )


def _more(random, found):
    """FPGAs and further NICs, where other devices are."""
    places = [device for device in found.devices if device.pcie is not None]
    for type in ("rdma", "fpga"):
        first = len(found.of_type(type))
        for minor in range(first, first + random.choice((0, 0, 2, 4)) * bool(places)):
            near = random.choice(places)
            names = [f"{type}{minor}.{i}" for i in range(random.choice((0, 0, 2)))]
            yield Device(
                type,
                minor,
                {"share": 100},
                socket=near.socket,
                numa=near.numa,
                pcie=near.pcie,
                labels=random.choice(LABELS),
                vf_groups=[VirtualFunctionGroup(names, random.choice(LABELS))] if names else [],
            )


def silent_machine(random):
    """A node whose GPUs report only some of what they have, and leave others without a limit."""
    names = ("core", "memory", "memory_ratio", "npu_core")
    of_all = random.sample(names, random.randint(1, 3))
    devices = []
    for minor in range(random.randint(1, 4)):
        reported = of_all if random.random() < 0.7 else random.sample(names, random.randint(0, 3))
        amounts = {name: MEMORY if name == "memory" else 100 for name in reported}
        place = {"numa": minor // 2, "pcie": str(minor // 2)} if random.random() < 0.9 else {}
        healthy = random.random() < 0.9
        devices.append(Device("gpu", minor, amounts, healthy=healthy, **place))
    return NodeDevices(tuple(devices))


def silent_request(random, inventory, name="new"):
    """A request of one or two amounts of GPUs, whether or not they are reported."""
    shares = (
        {"core": random.choice((1, 50, 100))},
        {"memory": random.choice((1, 5, 500, MEMORY))},
        {"memory_ratio": random.choice((1, 50, 100))},
        {"npu_core": random.choice((1, 50, 100))},
        {"core": 100, "memory_ratio": 100},
        {"core": 50, "memory": 5},
    )
    exclusive = random.choice((None, None, "pcie"))
    rules = random.choice(({}, {}, {}, LABELS[1], selector(random)))
    need = DeviceNeed(
        "gpu",
        random.choice((1, 1, 2)),
        random.choice(shares),
        exclusive=exclusive,
        selector=rules,
        scope=random.choice((None, None, "pcie")),
    )
    return DeviceRequest(name, needs=[need])


def crowded_machine(random):
    """A small node of which some devices are ill or taken, so that few go together."""
    devices = []
    switches = random.choice((2, 3, 4))
    for type, most in (("gpu", 6), ("rdma", 6), ("fpga", 5)):
        amounts = {"core": 100, "memory": MEMORY, "memory_ratio": 100}
        unplaced = random.choice((0, 0, 0, 0, 0.3))
        healthy = random.choice((1, 0.9, 0.6))
        for minor in range(random.randint(2, most)):
            switch = random.randrange(switches)
            place = {"numa": switch // 2, "pcie": str(switch)}
            devices.append(
                Device(
                    type,
                    minor,
                    amounts if type == "gpu" else {"share": 100},
                    healthy=random.random() < healthy,
                    **({} if random.random() < unplaced else place),
                )
            )
    rows = {frozenset(random.sample(range(6), random.choice((1, 2, 2, 3)))) for _ in range(12)}
    table = PartitionTable(
        tuple(Partition(tuple(row), random.choice((1, 1, 2))) for row in sorted(rows, key=sorted))
    )
    partitions = random.choice((None, None, table))
    policy = "prefer" if partitions is None else random.choice(("prefer", "honor"))
    return NodeDevices(tuple(devices), partitions, policy)


def crowded_request(random, inventory, name="new"):
    """A request of devices on the very same switches."""
    shares = {"core": 100, "memory_ratio": 100}, {"core": 40, "memory_ratio": 40}
    scope = random.choice((None, None, None, None, "pcie", "numa", "node"))
    gpus = DeviceNeed("gpu", random.choice((1, 1, 2, 3)), random.choice(shares), scope=scope)
    share = {"share": random.choice((1, 1, 1, 40))}
    needs = [gpus, DeviceNeed("rdma", random.choice((1, 1, 2, 3, 4)), share)]
    if random.random() < 0.4:
        needs.append(DeviceNeed("fpga", random.choice((1, 2, 3)), share))
    types = random.sample([need.type for need in needs], len(needs))
    return DeviceRequest(name, needs=needs, joint=types, same_pcie=True)


def wide_machine(random):
    """A node of so many devices that their sets take several words."""
    found = NodeDevices.uniform(
        random.choice((60, 65, 130)),
        gpu_memory=MEMORY,
        nics=random.choice((16, 70)),
        functions=1,
        sockets=2,
        switches=random.choice((2, 16)),
    )
    rows = {frozenset(random.sample(range(140), random.choice((1, 2, 4)))) for _ in range(60)}
    table = PartitionTable(
        tuple(Partition(tuple(row), random.randint(0, 2)) for row in sorted(rows, key=sorted))
    )
    return replace(found, partitions=random.choice((None, table)))


def koordinator_request(random, inventory, name="new"):
    """A request that Koordinator knows; mostly of what there is, and often of types together."""
    there = {type: len(inventory.of_type(type)) for type in ("gpu", "rdma", "fpga")}
    if random.random() < 0.03:
        there = dict.fromkeys(there, 1)
    needs = []
    if there["gpu"] and random.random() < 0.85:
        shares = (
            {"core": 100, "memory_ratio": 100},
            {"core": 100, "memory_ratio": 100},
            {"core": random.randint(1, 100), "memory_ratio": random.randint(1, 99)},
            {"core": random.randint(1, 100), "memory": random.randint(1, MEMORY)},
            {"memory": random.randint(1, 60)},
            {"memory_ratio": random.randint(1, 100)},
            {"core": 50},
            {"npu_core": 1, "memory_ratio": 50},
        )
        count = min(random.choice((1, 1, 1, 2, 2, 3, 4, 4, 8)), there["gpu"])
        needs.append(
            _need(random, "gpu", count, random.choices(shares, (9, 9, 6, 6, 3, 3, 1, 1))[0])
        )
    for type, wanted in (("rdma", 0.6), ("fpga", 0.4)):
        if there[type] and random.random() < wanted:
            share = {"share": random.choice((1, 1, 50, 100))}
            count = min(random.choice((1, 1, 1, 2, 3)), there[type])
            needs.append(_need(random, type, count, share))
    if not needs and any(there.values()) and random.random() < 0.95:
        return koordinator_request(random, inventory, name)
    types = [need.type for need in needs]
    joint = random.sample(types, len(types)) if random.random() < 0.7 else []
    joint.sort(key=lambda type: random.random() < 0.7 and type != "gpu")
    whole = any(need.type == "gpu" and not need.shared for need in needs)
    return DeviceRequest(
        name,
        needs=needs,
        joint=joint,
        same_pcie=bool(joint) and random.random() < 0.7,
        partition=random.choice((None,) * 6 + ("restricted", "best-effort")) if whole else None,
        bandwidth=random.choice((None,) * 8 + (150,)) if whole else None,
        isolation_provider=random.choice(("",) * 20 + ("HAMi-core",)),
    )


def _need(random, type, count, amounts):
    every = type != "gpu" and random.random() < 0.1
    return DeviceNeed(
        type,
        1 if every else count,
        amounts,
        every=every,
        selector=random.choice(({},) * 12 + (LABELS[1], selector(random))),
        vf_selector=random.choice((None,) * 4 + ({}, selector(random))) if type == "rdma" else None,
        exclusive=random.choice((None,) * 6 + ("device", "pcie")),
        scope=random.choice((None,) * 8 + ("device", "pcie", "pcie", "numa", "numa", "node")),
    )


def early_owners(random, inventory):
    """What some owners have before: shares of devices, or of some that are not there."""
    busy = random.choice((0, 0.1, 0.4, 0.4))
    for i, device in enumerate(inventory.devices):
        if device.type == "host" or random.random() >= busy:
            continue
        minor = device.minor if random.random() < 0.95 else random.choice((3, 7, 90))
        percent = random.choice((1, 30, 50, 100, 100))
        amounts = {"share": percent}
        if device.type == "gpu":
            memory = percent * dict(device.amounts).get("memory", 0) // 100
            amounts = {"core": percent, "memory": memory, "memory_ratio": percent}
        names = [one.bus_id for group in device.vf_groups for one in group.functions]
        function = random.choice(names) if names and random.random() < 0.5 else None
        yield f"early{i}", (Charge(device.type, minor, amounts, function),)


def flapped(random, inventory):
    """The inventory with some other healthy devices, or with some that are gone."""
    devices = [
        device.replace(healthy=random.random() < 0.8) if random.random() < 0.3 else device
        for device in inventory.devices
    ]
    while random.random() < 0.4 and devices:
        devices.remove(random.choice(devices))
    return replace(inventory, devices=tuple(devices))


def answer(state, asked, policy, quirks, numa=None):
    """The twin's: of the filter, and of the reservation that follows it."""
    computed = COMPUTED._replace(numa=None if numa is None else frozenset(numa))
    filtered = allocate(state, asked, computed, None, quirks)
    if isinstance(filtered, Failure):
        return filtered
    reserving = computed._replace(reserving=True)
    return allocate(state, asked, reserving, POLICIES[policy], quirks)


def points(state, asked, policy, quirks):
    """The twin's score of a node."""
    return score_node(state, asked, POLICIES[policy], COMPUTED, quirks)


def code_of(failure):
    """The code of the kernel for a failure of the twin."""
    return "koordinator: " + failure.code.replace("_", " ")


def in_order(charges):
    """Charges as they are compared: by type and minor, names of 0 left out."""
    return sorted(
        (
            TYPES.index(one.type),
            one.minor,
            sorted(pair for pair in one.amounts.items() if pair[1]),
            one.function,
            one.template,
        )
        for one in charges
    )


class KoordinatorPair:
    """One node in both; what is asked of it must have the same answer."""

    def __init__(self, inventory, quirks):
        self.quirks = frozenset(quirks)
        self.numbers = Numbers()
        self.kernel = _devices.DeviceKernel(as_quirks(self.quirks))
        self.owners = {}
        self.twin = NodeState(inventory)
        self.set_inventory(inventory)

    def set_inventory(self, inventory):
        shape = self.kernel.add_shape(*raw_shape(self.numbers, inventory))
        self.kernel.set_node(0, shape, healthy_masks(inventory))
        self.twin.set_inventory(inventory)

    def visible(self, numa):
        if numa is None:
            return None
        return [
            sum(
                1 << i
                for i, one in enumerate(self.twin.inventory.of_type(type))
                if has_place(one) and (one.numa is None or one.numa in numa)
            )
            for type in TYPES
        ]

    def ask(self, asked, policy, numa=None, without=()):
        """The twin's answer, after comparing it with the kernel's."""
        state = self.twin.copy()
        for name in without:
            state.refund(name)
        expected = answer(state, asked, policy, self.quirks, numa)
        query = raw_query(self.numbers, asked)
        number = list(POLICIES).index(policy)
        gone = [self.owners[name] for name in without]
        code, type, plan = self.kernel.examine(query, number, 0, self.visible(numa), gone)
        if isinstance(expected, Failure):
            assert CODES[code] == code_of(expected)
        else:
            assert CODES[code] == "fits"
            assert in_order(self.named(plan.charges)) == in_order(expected)
        if numa is None and not without:
            codes, types, resolvable, scores = self.kernel.filter(query, number)
            assert (codes[0], types[0]) == (code, type)
            if isinstance(expected, Failure):
                assert resolvable[0] == expected.resolvable
                assert self.kernel.schedule(query, number) is None
            else:
                assert scores[0] == points(state, asked, policy, self.quirks)
                assert self.kernel.schedule(query, number).charges == plan.charges
        return expected, plan, query

    def named(self, charges):
        return [
            Charge(
                one.type,
                one.minor,
                dict(one.amounts),
                one.function and one.function.bus_id,
                template=one.template,
            )
            for one in self.numbers.allocations(charges, None)
        ]

    def commit(self, name, expected, plan, query):
        self.owners[name] = self.kernel.commit(plan, query)
        assert self.owners[name] >= 0
        self.twin.charge(name, expected)

    def charge(self, name, charges):
        """An owner that the records tell of, whatever there is."""
        amounts = [
            (TYPES.index(one.type), one.minor, self.amounts(one), self.function(one), 0, -1)
            for one in charges
        ]
        self.owners[name] = self.kernel.charge(0, amounts)
        self.twin.charge(name, charges)

    def amounts(self, charge):
        order = ("core", "memory", "memory_ratio", "npu_core", "npu_cpu", "npu_dvpp")
        names = order if charge.type == "gpu" else ("share",)
        return [charge.amounts.get(name, 0) for name in names]

    def function(self, charge):
        if charge.function is None:
            return -1
        numbers = self.numbers.functions
        return numbers.setdefault(charge.function, len(numbers))

    def release(self, name):
        self.kernel.refund(self.owners.pop(name))
        self.twin.refund(name)

    def check(self):
        self.kernel.check()
