"""Converts a trace's nodes and pods for `hivecore.devices`.

Thousandths of a GPU become its memory: a GPU has "memory" 1000, and a pod takes `gpu_milli` of it,
so no share is rounded and 1000 means a whole GPU. CPU and memory of the host are a device of type
"host".
"""

from hivecore._arguments import as_int
from hivecore.devices import Device, DeviceRequest, NodeDevices
from hivecore.traces import GpuNodes, GpuPods

__all__ = ["inventories", "request_of"]

_MILLI = 1000
_MIB = 1 << 20
_NUMA_NODES = 2


def inventories(nodes: GpuNodes, gpus_per_nic: int = 0) -> list[NodeDevices]:
    """Return the inventory of each node.

    :param nodes: of a trace or generated.
    :param gpus_per_nic: 0 for no NICs, as public traces have none. Otherwise a NIC shares a PCIe
        switch with this number of GPUs, and half of the switches are in each of two NUMA nodes and
        sockets. This is the usual layout of 8-GPU machines, and an assumption: no figure that
        depends on it comes from a trace.
    :raises ValueError: a negative number.

    Equal nodes share an inventory. Cost: O(nodes).

    >>> from hivecore.traces import generate_openb_nodes
    >>> nodes = inventories(generate_openb_nodes(50, seed=0), gpus_per_nic=2)
    >>> big = next(node for node in nodes if len(node.of_type("gpu")) == 8)
    >>> [nic.numa for nic in big.of_type("rdma")]
    [0, 0, 1, 1]
    """
    each = as_int(gpus_per_nic, "gpus_per_nic", 0, 2**31 - 1)
    shapes = zip(
        nodes.gpus.tolist(),
        nodes.cpu_milli.tolist(),
        nodes.memory_mib.tolist(),
        nodes.model.tolist(),
        strict=True,
    )
    known: dict[object, NodeDevices] = {}
    inventories = []
    for shape in shapes:
        if shape not in known:
            gpus, cpu, memory, model = shape
            known[shape] = NodeDevices((_host(cpu, memory), *_cards(gpus, each)), model=model)
        inventories.append(known[shape])
    return inventories


def request_of(pods: GpuPods, row: int, name: str) -> DeviceRequest:
    """Return the request of a pod of the list.

    :param pods: of a trace or generated.
    :param row: of the pod.
    :param name: of the owner.
    :raises ValueError: the name is empty.

    Cost: O(1).

    >>> from hivecore.traces import generate_openb_pods
    >>> pods = generate_openb_pods(1, seed=0)
    >>> request = request_of(pods, 0, "pod-0")
    >>> dict(request.need("gpu").amounts)["memory"] == int(pods.gpu_milli[0])
    True
    """
    gpus = int(pods.gpus[row])
    return DeviceRequest(
        name,
        gpus=gpus,
        memory=int(pods.gpu_milli[row]) if gpus else None,
        cpu_milli=int(pods.cpu_milli[row]),
        host_memory=int(pods.memory_mib[row]) * _MIB,
        models=pods.models[row],
    )


def _host(cpu_milli: int, memory_mib: int) -> Device:
    return Device("host", 0, {"cpu": cpu_milli, "memory": memory_mib * _MIB})


def _cards(gpus: int, gpus_per_nic: int) -> list[Device]:
    amounts = {"memory": _MILLI}
    if not gpus_per_nic:
        return [Device("gpu", minor, amounts) for minor in range(gpus)]
    nics = -(-gpus // gpus_per_nic)

    def place(switch: int) -> dict[str, object]:
        numa = switch * _NUMA_NODES // nics
        return {"socket": numa, "numa": numa, "pcie": str(switch)}

    needs = [
        Device("gpu", minor, amounts, **place(minor // gpus_per_nic))  # type: ignore[arg-type]
        for minor in range(gpus)
    ]
    needs += [
        Device("rdma", switch, {"share": 100}, **place(switch))  # type: ignore[arg-type]
        for switch in range(nics)
    ]
    return needs
