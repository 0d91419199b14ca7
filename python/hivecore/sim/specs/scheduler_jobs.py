"""Turns a trace's jobs into requests to a cluster's scheduler.

A job of more GPUs than a node has becomes a pod for each whole node and a pod for the rest. The
scheduler knows its run time in advance. The jobs of a tenant without own cells ask for idle ones.
Requests omit what a cluster does not have, such as stages or CPUs.
"""

from collections.abc import Iterable

from hivecore.devices import DeviceRequest
from hivecore.scheduler import Job, Role, Scheduler
from hivecore.sim.specs.trace_jobs import TraceJobs
from hivecore.traces import GpuPods

__all__ = ["scheduler_jobs"]

_MIB = 1 << 20
_WHOLE = 1000  # thousandths


def scheduler_jobs(trace: TraceJobs, scheduler: Scheduler, resources: int = 0) -> list[Job]:
    """Return the jobs of a trace, named by their positions in it.

    :param trace: any jobs.
    :param scheduler: to submit them to, with or without jobs.
    :param resources: the number of an iteration's stages if jobs share GPUs, otherwise 0.
    :raises ValueError: jobs have more stages than there are resources, share GPUs although the
        scheduler has no devices, or request more GPUs than a `Job` can.

    Cost: O(jobs).

    >>> from hivecore.cells import CellCluster, Chain, ClusterSpec
    >>> from hivecore.traces import Trace
    >>> spec = ClusterSpec({"c": Chain(["gpu", "node"], [8], 4)}, {"x": {"c": {"node": 2}}})
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [20, 4])
    >>> first, second = scheduler_jobs(TraceJobs.of(trace), Scheduler(cells=CellCluster(spec)))
    >>> [(role.pods, role.gpus) for role in first.roles], first.guaranteed, second.guaranteed
    ([(2, 8), (1, 4)], True, False)
    """
    roles = _roles_of_pods(trace.pods, scheduler) if trace.pods else _roles(trace, scheduler)
    weak = _without_cells(scheduler, set(trace.tenant))
    stages = _stages(trace.stages, resources)
    return [
        Job(
            str(row),
            tenant,
            roles[row],
            guaranteed=tenant not in weak,
            run_time=duration,
            stages=stages[row] if stages else (),
            data=trace.data[row] if trace.data else None,
        )
        for row, (tenant, duration) in enumerate(
            zip(trace.tenant, trace.duration.tolist(), strict=True)
        )
    ]


def _without_cells(scheduler: Scheduler, tenants: set[str]) -> set[str]:
    if scheduler.cells is None:
        return set()
    spec = scheduler.cells.spec
    promised = {
        name
        for name, chains in spec.virtual_clusters.items()
        if any(number for levels in chains.values() for number in levels.values())
    }
    return tenants.difference(promised, spec.pinned_cells)


def _stages(stages: tuple[tuple[float, ...], ...], resources: int) -> tuple[tuple[float, ...], ...]:
    """Return a stage for each resource; if the trace has fewer, the first ones take no time."""
    if not stages or not resources:
        return ()
    given = len(stages[0])
    if given > resources:
        raise ValueError(f"sharing has {resources} resources, and jobs have {given} stages")
    return tuple((0.0,) * (resources - given) + stage for stage in stages)


def _roles(trace: TraceJobs, scheduler: Scheduler) -> list[tuple[Role, ...]]:
    most = _gpus_per_node(scheduler)
    known: dict[int, tuple[Role, ...]] = {}
    roles = []
    for row, gpus in enumerate(trace.gpus.astype(int).tolist()):
        if gpus not in known:
            whole, rest = divmod(gpus, most) if most else (0, gpus)
            try:
                wholes = (Role("whole", whole, gpus=most),) if whole else ()
                known[gpus] = (*wholes, Role("rest", 1, gpus=rest)) if rest else wholes
            except ValueError as error:
                raise ValueError(
                    f"job {row} of {trace.tenant[row]!r} requests {gpus:,} GPUs: {error}"
                ) from None
        roles.append(known[gpus])
    return roles


def _gpus_per_node(scheduler: Scheduler) -> int:
    """Return the GPUs of the largest node; 0 if no part has nodes."""
    if scheduler.devices is not None:
        devices = scheduler.devices
        nodes = [len(devices.inventory(node).of_type("gpu")) for node in devices.nodes]
    elif scheduler.cells is not None:
        chains = scheduler.cells.spec.chains.values()
        nodes = [
            chain.leaves_per_cell()[chain.levels.index(str(chain.node_level))] for chain in chains
        ]
    elif scheduler.topology is not None:
        network = scheduler.topology
        nodes = [int(network.free(node).get("gpu", 0)) for node in network.nodes]
    else:
        nodes = []
    return max(nodes, default=0)


def _roles_of_pods(pods: GpuPods, scheduler: Scheduler) -> list[tuple[Role, ...]]:
    devices = scheduler.devices
    if devices is None:
        raise ValueError("pods that share GPUs need devices")
    inventories = {devices.inventory(node) for node in devices.nodes}
    hosts = {
        name
        for inventory in inventories
        for device in inventory.of_type("host")
        for name, _ in device.amounts
    }
    knows_models = any(inventory.model for inventory in inventories)
    columns = (pods.gpus, pods.gpu_milli, pods.cpu_milli, pods.memory_mib)
    known: dict[object, tuple[Role, ...]] = {}
    roles = []
    for row in zip(*(column.tolist() for column in columns), pods.models, strict=True):
        if row not in known:
            gpus, milli, cpu, memory, models = row
            known[row] = (_role(gpus, milli, cpu, memory, models if knows_models else (), hosts),)
        roles.append(known[row])
    return roles


def _role(
    gpus: int, milli: int, cpu: int, memory: int, models: Iterable[str], hosts: set[str]
) -> Role:
    cpus = cpu if "cpu" in hosts else 0
    bytes_ = memory * _MIB if "memory" in hosts else 0
    if not (gpus or cpus or bytes_):
        return Role("pod", gpus=0)
    share = -(-milli // 10) if gpus and milli < _WHOLE else None
    return Role(
        "pod",
        devices=DeviceRequest(
            "pod",
            gpus=gpus,
            memory_percent=share,
            cpu_milli=cpus,
            host_memory=bytes_,
            models=models if gpus else (),
        ),
    )
