"""Random machines, owners and requests for the tests of devices.

Each is drawn from a `random.Random`, so that hypothesis only has to draw its seed, and a case can
be drawn again by it. Machines are small enough for brute force, and as odd as inventories can be.
"""

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)


def selector(random):
    """Labels, or rules of every kind about them."""
    if random.random() < 0.5:
        return random.choice(LABELS[:3])
    rules = [
        ("ring", random.choice("ab")),
        LabelExpression("ring", "In", random.choice((["a"], ["a", "b"], ["b", "c"]))),
        LabelExpression("ring", "NotIn", random.choice((["a"], ["a", "b"], ["c"]))),
        LabelExpression(random.choice(("ring", "kind", "none")), "Exists"),
        LabelExpression(random.choice(("ring", "kind", "none")), "DoesNotExist"),
    ]
    return random.sample(rules, random.choice((1, 1, 2)))


LABELS = ({}, {"ring": "a"}, {"ring": "b"}, {"ring": "a", "kind": "fast"})
MEMORY = 1000


def machine(random, *, gpus=None, odd=True):
    """A node: sockets, NUMA nodes, switches, GPUs and NICs on them."""
    gpus = random.randint(0, 8) if gpus is None else gpus
    nics = random.choice((0, 1, 2, 4))
    sockets = random.choice((1, 1, 2))
    numas = sockets * random.choice((1, 2))
    switches = numas * random.choice((1, 2))
    modules = random.sample(range(1, gpus + 1), gpus)
    mixed = odd and random.random() < 0.2

    def place(i, of):
        if odd and random.random() < 0.04:
            return {}
        switch = i * switches // of if random.random() < 0.7 else random.randrange(switches)
        numa = switch * numas // switches
        return {"pcie": f"p{switch}", "numa": numa, "socket": numa * sockets // numas}

    unplaced = odd and random.random() < 0.1
    devices = []
    for i in range(gpus):
        memory = MEMORY * random.choice((1, 2, 3)) // 2 if mixed else MEMORY
        amounts = {"core": 100, "memory": memory, "memory_ratio": 100}
        if odd and random.random() < 0.03:
            amounts = random.choice(({}, {"memory_ratio": 100}, {"core": 100, "memory": memory}))
        devices.append(
            Device(
                "gpu",
                i * (3 if mixed else 1),
                amounts,
                healthy=random.random() < 0.95,
                module_id=modules[i],
                labels=random.choice(LABELS) if odd else {},
                **({} if unplaced else place(i, gpus)),
            )
        )
    for i in range(nics):
        groups = [
            VirtualFunctionGroup(
                [f"{i:02}:{group}.{vf}" for vf in range(random.randint(0, 3))],
                random.choice(LABELS),
            )
            for group in range(random.choice((0, 1, 2)))
        ]
        devices.append(
            Device(
                "rdma",
                i,
                {"share": 100},
                healthy=random.random() < 0.95,
                labels=random.choice(LABELS),
                vf_groups=groups,
                **place(i, nics),
            )
        )
    if random.random() < 0.2:
        devices.append(Device("fpga", 0, {"share": 100}, **place(0, 1)))
    if random.random() < 0.3:
        devices.append(Device("host", 0, {"cpu": 64_000, "memory": 10**6}))
    if odd and random.random() < 0.2:
        devices = without_places(random, devices)
    random.shuffle(devices)
    return NodeDevices(
        tuple(devices),
        partitions=partitions(random, gpus) if random.random() < 0.25 else None,
        partition_policy=random.choice(("honor", "prefer", "prefer")),
        model=random.choice(("", "V100", "V100", "H100")),
        isolation_provider=random.choice(("", "HAMi-core")),
    )


def without_places(random, devices):
    """The same devices where the NUMA node or socket of some switches and NUMA nodes is unknown."""
    forgotten = {
        place: random.choice(({}, {"numa": None}, {"socket": None}, {"numa": None, "socket": None}))
        for place in sorted({(device.numa, device.socket) for device in devices}, key=str)
    }
    return [device.replace(**forgotten[device.numa, device.socket]) for device in devices]


def partitions(random, gpus):
    """A table of some sets of GPUs, in one of the two ways to number them."""
    numbers = random.choice(("minor", "module"))
    first = numbers == "module"
    sets = {
        tuple(sorted(random.sample(range(first, first + 8), size)))
        for size in (1, 2, 2, 2, 4, 4, 8)
        for _ in range(2)
    }
    rows = [
        Partition(members, random.choice((1, 1, 2)), random.choice((None, 100, 200)))
        for members in sorted(sets)
    ]
    return PartitionTable(tuple(rows), numbers)


def flapped(random, inventory):
    """The inventory with some other healthy devices, or with some that are gone."""
    devices = [
        device.replace(healthy=random.random() < 0.8) if random.random() < 0.3 else device
        for device in inventory.devices
    ]
    while random.random() < 0.4 and devices:
        devices.remove(random.choice(devices))
    return inventory.replace(devices=tuple(devices))


def request(random, inventory, name="new"):
    """A request for GPUs, NICs, both, or something else, mostly of what the inventory has."""
    present = {type: len(inventory.of_type(type)) for type in ("gpu", "rdma", "fpga", "host")}
    if random.random() < 0.05:
        present = dict.fromkeys(present, 1)
    wishes = {
        "selector": selector(random) if random.random() < 0.3 else {},
        "exclusive": random.choice((None,) * 8 + ("device", "pcie")),
        "scope": random.choice((None,) * 5 + ("device", "pcie", "numa", "socket", "node")),
        "preferred_scope": random.choice((None, None, None, "pcie", "numa")),
    }
    gpus = min(random.choice((0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 8)), present["gpu"])
    share = {}
    if gpus and random.random() < 0.4:
        share = random.choice(
            (
                {"memory": random.randint(1, MEMORY)},
                {"memory": random.randint(1, MEMORY), "core": random.randint(0, 100)},
                {"memory_percent": random.randint(1, 100)},
                {"memory_percent": random.randint(1, 99), "core": random.randint(0, 100)},
            )
        )
    if "memory" in share and random.random() < 0.4:
        gpus = random.choice((gpus, gpus + 1, 2 * gpus))
        share["memory"] = random.randint(1, MEMORY)
        wishes = {"selector": wishes["selector"], "repeat": True}
    nics = random.choice((0, 0, 1, 1, 2, 3, "all")) if present["rdma"] else 0
    nic_wishes = {"vf_selector": random.choice((None,) * 6 + ({}, selector(random)))}
    if random.random() < 0.15:
        nic_wishes["selector"] = selector(random)
    nic_wishes["scope"] = random.choice((None,) * 6 + ("device", "pcie", "numa", "socket"))
    if random.random() < 0.1:
        nic_wishes["exclusive"] = random.choice(("device", "pcie"))
    joint = random.choice(
        ((), ("gpu", "rdma"), ("gpu", "rdma"), ("rdma", "gpu"), ("gpu", "fpga", "rdma"))
    )
    needs = []
    if present["host"] and random.random() < 0.3:
        needs.append(DeviceNeed("host", 1, {"cpu": random.randint(1, 40_000), "memory": 1000}))
    whole = gpus and (not share or share == {"memory_percent": 100})
    return DeviceRequest(
        name,
        gpus=gpus,
        **share,
        nics=nics,
        nic_percent=random.choice((100, 100, 50, 1)),
        fpgas=random.choice((0, 0, 1)) if present["fpga"] else 0,
        gpu_wishes=wishes if gpus else {},
        nic_wishes=nic_wishes,
        needs=needs,
        joint=() if wishes.get("repeat") else joint,
        same_pcie=bool(joint) and not wishes.get("repeat") and random.random() < 0.5,
        partition=random.choice((None, None, "restricted", "best-effort")) if whole else None,
        bandwidth=random.choice((None, None, 150)) if whole else None,
        isolation_provider=random.choice(("", "", "", "HAMi-core")),
        models=random.choice(((),) * 12 + (("V100", "H100"),)),
        priority=random.randint(0, 3),
    )
