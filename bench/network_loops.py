"""Jobs of several tenants under quotas, in a network, on the GPUs of its nodes.

Nodes of 8 GPUs and 4 NICs are in racks of 8, four racks to a block. Each tenant may hold as many
GPUs as it owns, anywhere, and has a FIFO queue. `on_network` is a `Scheduler` of quotas, topology
and devices; `Network` has the same parts, called by hand in the loop of `tenant_loops`.
"""

from hivecore.devices import DeviceCluster, DeviceDecision, DeviceRequest, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler
from hivecore.sim import Workload
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.topology import NetworkTopology, TopologyRequest

__all__ = ["Network", "jobs_on_network", "on_network"]

_RACK, _BLOCK = 8, 32


def on_network(work: Workload) -> Scheduler:
    """A scheduler without jobs for a workload's tenants."""
    quotas, network, devices = _parts(work)
    queues = TenantQueues(order="arrival", blocking="fifo")
    return Scheduler(
        queues=queues,
        quotas=quotas,
        topology=network,
        devices=devices,
        preemption=False,
        immediate=True,
    )


def jobs_on_network(work: Workload) -> list[Job]:
    """The jobs of a workload, named by their rows; a large one has pods of 8 GPUs."""
    roles: dict[int, tuple[Role]] = {}
    jobs = []
    tenants = work.trace.tenants
    for row, (tenant, held) in enumerate(
        zip(work.trace.tenant.tolist(), work.held.tolist(), strict=True)
    ):
        if held not in roles:
            roles[held] = (Role("pod", *_shape(held)),)
        jobs.append(Job(str(row), tenants[tenant], roles[held]))
    return jobs


class Network:
    """The parts by hand."""

    shared = True

    def __init__(self, work: Workload) -> None:
        self.quotas, self.network, self.devices = _parts(work)
        names = work.trace.tenants
        self.tenant = [names[tenant] for tenant in work.trace.tenant.tolist()]
        self.shape = [_shape(held) for held in work.held.tolist()]
        self.asked: set[int] = set()
        self.pods: dict[int, list[DeviceDecision]] = {}
        self.kinds = {gpus: DeviceRequest("pod", gpus=gpus) for _, gpus in self.shape}

    def try_start(self, job: int) -> bool:
        name, (pods, gpus) = str(job), self.shape[job]
        if job not in self.asked:
            self.asked.add(job)
            self.quotas.submit(QuotaRequest(name, self.tenant[job], {"gpu": pods * gpus}))
        admitted = self.quotas.schedule(name)
        if admitted.outcome != "bind":
            return False
        placed = self.network.schedule(TopologyRequest(name, pods, amounts={"gpu": gpus}))
        if placed.outcome != "bind":
            return False
        taken = []
        for index, node in enumerate(placed.ranks):
            request = self.kinds[gpus].replace(name=f"{name}/{index}")
            decision = self.devices.schedule(request, nodes=(node,))
            self.devices.commit(decision)
            taken.append(decision)
        self.quotas.commit(admitted)
        self.network.commit(placed)
        self.pods[job] = taken
        return True

    def finish(self, job: int) -> None:
        for decision in self.pods.pop(job):
            self.devices.release(decision.request.name)
        self.network.release(str(job))
        self.quotas.release(str(job))


def _shape(held: int) -> tuple[int, int]:
    """Pods, and GPUs of each."""
    return -(-held // GPUS_PER_NODE), min(held, GPUS_PER_NODE)


def _parts(work: Workload) -> tuple[QuotaTree, NetworkTopology, DeviceCluster]:
    names = [f"n{number}" for number in range(sum(work.nodes))]
    network = NetworkTopology(
        ["block", "rack"],
        {
            name: {"block": f"b{number // _BLOCK}", "rack": f"r{number // _RACK}"}
            for number, name in enumerate(names)
        },
    )
    for name in names:
        network.set_free(name, {"gpu": GPUS_PER_NODE})
    node = NodeDevices.uniform(gpus=GPUS_PER_NODE, nics=4, sockets=2, switches=4)
    devices = DeviceCluster(dict.fromkeys(names, node))
    owned = {
        name: {"gpu": GPUS_PER_NODE * nodes}
        for name, nodes in zip(work.trace.tenants, work.nodes, strict=True)
    }
    quotas = [Quota(name, min=amount, max=amount) for name, amount in owned.items()]
    total = {"gpu": GPUS_PER_NODE * len(names)}
    return QuotaTree(quotas, total=total), network, devices
