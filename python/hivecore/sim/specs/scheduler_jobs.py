"""The jobs of a trace as one cluster's scheduler is asked for them.

A job of more GPUs than a node has is one pod for each whole node and one for the rest. Its run time
is known to the scheduler beforehand. A tenant that is promised no cells asks for idle ones. What a
cluster does not have, such as stages or processors, is not asked for.
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
    """Return the jobs of a trace, named by their places in it.

    :param trace: any jobs.
    :param scheduler: the one to ask, with or without jobs.
    :param resources: how many stages an iteration has where jobs share GPUs; 0: they do not.
    :raises ValueError: the jobs have more stages than there are resources, or are pods that share
        GPUs, and the scheduler has no devices.

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
    """As many as there are resources: the first ones take no time where a trace tells fewer."""
    if not stages or not resources:
        return ()
    told = len(stages[0])
    if told > resources:
        raise ValueError(f"sharing has {resources} resources, and jobs have {told} stages")
    return tuple((0.0,) * (resources - told) + one for one in stages)


def _roles(trace: TraceJobs, scheduler: Scheduler) -> list[tuple[Role, ...]]:
    most = _gpus_per_node(scheduler)
    known: dict[int, tuple[Role, ...]] = {}
    found = []
    for gpus in trace.gpus.astype(int).tolist():
        if gpus not in known:
            whole, rest = divmod(gpus, most) if most else (0, gpus)
            wholes = (Role("whole", whole, gpus=most),) if whole else ()
            known[gpus] = (*wholes, Role("rest", 1, gpus=rest)) if rest else wholes
        found.append(known[gpus])
    return found


def _gpus_per_node(scheduler: Scheduler) -> int:
    """Of the largest node; 0: no part has nodes."""
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
        name for one in inventories for device in one.of_type("host") for name, _ in device.amounts
    }
    knows_models = any(one.model for one in inventories)
    columns = (pods.gpus, pods.gpu_milli, pods.cpu_milli, pods.memory_mib)
    known: dict[object, tuple[Role, ...]] = {}
    found = []
    for asked in zip(*(column.tolist() for column in columns), pods.models, strict=True):
        if asked not in known:
            gpus, milli, cpu, memory, models = asked
            known[asked] = (_role(gpus, milli, cpu, memory, models if knows_models else (), hosts),)
        found.append(known[asked])
    return found


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
