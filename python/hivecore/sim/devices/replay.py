"""Replays pods one after the other; each is placed or refused, and none ends.

A policy is a `Scheduler` that has only devices. Each pod is a job, cancelled if it does not start
at once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_int
from hivecore.devices import DeviceCluster, DeviceRequest, TaskMix
from hivecore.devices.device_cluster import Policy
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.sim.devices.arrivals import arrivals
from hivecore.sim.devices.inventories import inventories, request_of
from hivecore.traces import GpuNodes, GpuPods

__all__ = ["SHARING_POLICIES", "DeviceReplay", "replay_devices"]

#: `DeviceCluster`'s policies for shared GPUs: FGD and those it was compared with.
SHARING_POLICIES: tuple[Policy, ...] = (
    "random",
    "worst-fit",
    "dot-product",
    "clustering",
    "packing",
    "best-fit",
    "fgd",
)

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceReplay:
    """The outcome of a replay.

    :param policy: its name.
    :param seed: of the order of nodes and pods.
    :param capacity_milli: thousandths of a GPU in the cluster.
    :param order: int64[nodes], rows of the nodes in the order that breaks ties.
    :param rows: int64[arrivals], the pod's row in the list.
    :param node: int64[arrivals], the pod's node as a row; -1 if it was refused.
    :param arrived: int64[arrivals], thousandths of a GPU requested so far.
    :param allocated: int64[arrivals], thousandths of a GPU allocated so far.
    :param sampled: int64[samples], arrivals after which fragmentation was measured: the last one in
        each percent of the load.
    :param fragmented: float64[samples], thousandths of idle GPUs that the list's pods cannot use:
        `DeviceCluster.fragmentation`.
    """

    policy: str
    seed: int
    capacity_milli: int
    order: _Integers
    rows: _Integers
    node: _Integers
    arrived: _Integers
    allocated: _Integers
    sampled: _Integers
    fragmented: _Floats

    @property
    def load(self) -> _Floats:
        """float64[samples], requested GPUs divided by the capacity."""
        return self.arrived[self.sampled] / self.capacity_milli

    @property
    def allocation(self) -> _Floats:
        """float64[samples], allocated GPUs divided by the capacity."""
        return self.allocated[self.sampled] / self.capacity_milli

    @property
    def fragmentation(self) -> _Floats:
        """float64[samples], the fragmented part of idle GPUs; 0 where none was idle."""
        idle = self.capacity_milli - self.allocated[self.sampled]
        return self.fragmented / np.maximum(idle, 1)

    def at(self, load: float) -> int:
        """Return the last sample with at most this load, or the first sample.

        :param load: divided by the capacity.
        """
        return max(int(np.searchsorted(self.load, load, side="right")) - 1, 0)


def replay_devices(
    nodes: GpuNodes,
    pods: GpuPods,
    policy: Policy,
    seed: int,
    *,
    load: float = 1.3,
) -> DeviceReplay:
    """Return how many GPUs a policy of `DeviceCluster` allocates as more and more pods arrive.

    :param nodes: the cluster; the seed shuffles their order, which breaks ties.
    :param pods: the list that `arrivals` draws from, and the task mix of "fgd".
    :param policy: see `DeviceCluster`.
    :param seed: equal seeds give equal replays; "random" uses it with the pod's name.
    :param load: see `arrivals`.
    :raises ValueError: an argument is out of range, the policy is unknown, or there is no GPU or
        pod.

    A refused pod does not come again. Cost: O(arrivals) placements. Source: FGD's simulator (USENIX
    ATC'23), which also shuffles the nodes.

    >>> from hivecore.traces import generate_openb_nodes, generate_openb_pods
    >>> nodes, pods = generate_openb_nodes(5, seed=0), generate_openb_pods(30, seed=0)
    >>> run = replay_devices(nodes, pods, "best-fit", 0)
    >>> bool((run.allocated <= run.arrived).all()), int(run.node.min())
    (True, -1)
    """
    number = as_int(seed, "seed", 0, 2**63 - 1)
    capacity = nodes.gpu_milli
    if not capacity:
        raise ValueError("nodes: none of them has a GPU")
    rows = arrivals(pods, capacity, load, number)
    if not len(rows):
        raise ValueError(f"load={load}: the first pod asks for more already")
    order = np.random.default_rng((number, 1)).permutation(len(nodes))
    requests, kinds = _requests(pods)
    roles = [(Role("pod", devices=request),) for request in requests]
    cluster = DeviceCluster(
        {str(place): inventory for place, inventory in enumerate(inventories(nodes.select(order)))},
        policy=policy,
        mix=TaskMix.of(requests[kind] for kind in kinds),
        seed=number,
    )
    scheduler = Scheduler(devices=cluster, preemption=False)
    arrived = np.cumsum(pods.total_milli[rows])
    percents = arrived * 100 // capacity
    sampled = np.flatnonzero(np.diff(percents, append=percents[-1] + 1))
    sampling = set(sampled.tolist())
    places = np.full(len(rows), -1)
    fragmented = []
    for arrival, row in enumerate(rows.tolist()):
        places[arrival] = _node_of(scheduler, Job(str(arrival), "anybody", roles[kinds[row]]))
        if arrival in sampling:
            fragmented.append(cluster.fragmentation())
    placed = places >= 0
    return DeviceReplay(
        policy=policy,
        seed=number,
        capacity_milli=capacity,
        order=order,
        rows=rows,
        node=np.where(placed, order[places], -1),
        arrived=arrived,
        allocated=np.cumsum(np.where(placed, pods.total_milli[rows], 0)),
        sampled=sampled,
        fragmented=np.array(fragmented),
    )


def _node_of(scheduler: Scheduler, job: Job) -> int:
    """Return the node that a job gets at once; otherwise -1, and the job is removed."""
    scheduler.submit(job, scheduler.now)
    for action in scheduler.decide(scheduler.now):
        if isinstance(action, Start):
            return int(action.pods[0].node)
    if job.name in scheduler:  # a job that no node could ever serve is removed already
        scheduler.cancel(job.name, scheduler.now)
    return -1


def _requests(pods: GpuPods) -> tuple[list[DeviceRequest], list[int]]:
    """Return a request for each kind of pod, and the kind of each pod; there are few kinds."""
    columns = (pods.gpus, pods.gpu_milli, pods.cpu_milli, pods.memory_mib)
    contents = zip(*(column.tolist() for column in columns), pods.models, strict=True)
    known: dict[object, int] = {}
    requests: list[DeviceRequest] = []
    kinds = []
    for row, content in enumerate(contents):
        if content not in known:
            known[content] = len(requests)
            requests.append(request_of(pods, row, "pod"))
        kinds.append(known[content])
    return requests, kinds
