"""Nodes and pods of a trace as `hivecore.devices` has them.

Thousandths of a GPU are its memory: a GPU has "memory" 1000, a pod takes `gpu_milli` of it. So no
share is rounded, and whole GPUs are those of 1000. CPU and memory of the host are a device of type
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
    :param gpus_per_nic: 0: no NICs, as public traces tell of none. Otherwise there is one for every
        so many GPUs, on one PCIe switch with them, and the switches are halved among two NUMA
        nodes, each with a socket. That is how 8-GPU machines are built, and an assumption here: no
        figure that depends on it is one of a trace.
    :raises ValueError: a negative number.

    Equal nodes have one inventory together. Cost: O(nodes).

    >>> from hivecore.traces import generate_openb_nodes
    >>> found = inventories(generate_openb_nodes(50, seed=0), gpus_per_nic=2)
    >>> big = next(node for node in found if len(node.of_type("gpu")) == 8)
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
    found = []
    for shape in shapes:
        if shape not in known:
            gpus, cpu, memory, model = shape
            known[shape] = NodeDevices((_host(cpu, memory), *_cards(gpus, each)), model=model)
        found.append(known[shape])
    return found


def request_of(pods: GpuPods, row: int, name: str) -> DeviceRequest:
    """Return what one pod of the list asks for.

    :param pods: of a trace or generated.
    :param row: of the pod.
    :param name: of the owner that it will be.
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

    found = [
        Device("gpu", minor, amounts, **place(minor // gpus_per_nic))  # type: ignore[arg-type]
        for minor in range(gpus)
    ]
    found += [
        Device("rdma", switch, {"share": 100}, **place(switch))  # type: ignore[arg-type]
        for switch in range(nics)
    ]
    return found
