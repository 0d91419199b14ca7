"""Nodes whose GPUs are shared by rules, and requests of shares that may be of their templates."""

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    ShareTemplate,
    ShareTemplates,
)

GIB = 1 << 30

#: The templates of an Ascend 310P, as Koordinator's tests have them.
ASCEND = {
    "vir01": {"memory": 3 * GIB, "npu_core": 1, "npu_cpu": 1, "npu_dvpp": 12},
    "vir02": {"memory": 6 * GIB, "npu_core": 2, "npu_cpu": 2, "npu_dvpp": 25},
    "vir02_1c": {"memory": 6 * GIB, "npu_core": 2, "npu_cpu": 1, "npu_dvpp": 25},
    "vir04": {"memory": 12 * GIB, "npu_core": 4, "npu_cpu": 4, "npu_dvpp": 50},
    "vir04_3c": {"memory": 12 * GIB, "npu_core": 4, "npu_cpu": 3, "npu_dvpp": 50},
    "vir04_3c_ndvpp": {"memory": 12 * GIB, "npu_core": 4, "npu_cpu": 3},
    "vir04_4c_dvpp": {"memory": 12 * GIB, "npu_core": 4, "npu_cpu": 4, "npu_dvpp": 100},
}
NPU = {"memory": 24 * GIB, "memory_ratio": 100, "npu_core": 8, "npu_cpu": 7, "npu_dvpp": 100}


def templates_of(rows, matched=("npu_core",)):
    return ShareTemplates([ShareTemplate(name, row) for name, row in rows.items()], matched)


def npus(count, rows=ASCEND, **facts):
    """NPUs, two on a switch, four on a socket."""
    devices = [
        Device("gpu", i, NPU, pcie=str(i // 2), numa=i // 4, socket=i // 4) for i in range(count)
    ]
    return NodeDevices(tuple(devices), templates=templates_of(rows), **facts)


def share(name, amounts, gpus=1, **options):
    """A request of shares of GPUs alone."""
    return DeviceRequest(name, needs=[DeviceNeed("gpu", gpus, amounts)], **options)


# --- drawn

SMALL = (
    {"memory": 100, "npu_core": 1},
    {"memory": 100, "npu_core": 1, "npu_cpu": 1},
    {"memory": 400, "npu_core": 2},
    {"memory_ratio": 40, "npu_core": 2},
    {"memory_ratio": 50, "core": 50},
    {"memory": 100},
)
MATCHED = (("npu_core",), ("npu_core",), ("npu_core", "core"), ("memory",), ())


def with_rules(random, inventory):
    """The node with some NPUs among its GPUs, and some way to share them."""
    devices = tuple(
        device.replace(amounts={**dict(device.amounts), "npu_core": 8, "npu_cpu": 7})
        if device.type == "gpu" and random.random() < 0.9
        else device
        for device in inventory.devices
    )
    # The same amounts may have several names.
    rows = {f"t{i}": random.choice(SMALL) for i in range(random.choice((0, 1, 3, 3, 5)))}
    templates = templates_of(rows, random.choice(MATCHED))
    return inventory.replace(
        devices=devices,
        templates=random.choice((None, templates, templates, templates, templates)),
        shareable=random.random() < 0.9,
    )


def some_share(random, inventory, name="new"):
    """A request of shares of GPUs, or whole ones, sometimes with NICs near to them."""
    amounts = random.choice((*SMALL, {"memory_ratio": 100, "npu_core": 8}))
    needs = [DeviceNeed("gpu", random.choice((1, 1, 2)), amounts)]
    joint = ()
    if inventory.of_type("rdma") and random.random() < 0.4:
        needs.append(DeviceNeed("rdma", 1, {"share": random.choice((1, 100))}))
        joint = random.choice(((), ("gpu", "rdma"), ("rdma", "gpu")))
    return DeviceRequest(
        name,
        needs=needs,
        joint=joint,
        same_pcie=bool(joint) and random.random() < 0.5,
        isolation_provider=random.choice(("", "", "", "HAMi-core")),
    )
