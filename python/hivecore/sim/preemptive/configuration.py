"""The schedulers for training jobs: nodes of 8 GPUs, and an order or a queue."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy.typing as npt

from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Role, Scheduler, Sharing
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.training import close
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.topology import (
    NetworkTopology,
    TopologyDecision,
    TopologyRequest,
    TopologyRole,
)

__all__ = ["configure", "configure_queue", "events_of"]

#: Storage, CPU, GPU and network; a trace gives the first two together.
_RESOURCES = 4


def configure(
    jobs: Jobs, nodes: int, *, by_node: bool, shares: bool
) -> tuple[Scheduler, list[Job]]:
    """Return a scheduler without jobs for an order, and the jobs, named by number.

    :param jobs: in order of submission.
    :param nodes: of 8 GPUs each.
    :param by_node: whether nodes matter: at most 8 GPUs are on one node, more on whole nodes.
    :param shares: whether jobs share GPUs.
    """
    sizes = [GPUS_PER_NODE] * nodes if by_node else [GPUS_PER_NODE * nodes]
    sharing = Sharing(_RESOURCES) if shares else None
    scheduler = Scheduler(topology=_idle(NetworkTopology, sizes), sharing=sharing, immediate=True)
    return scheduler, _asked(jobs, sizes[0], shares)


def configure_queue(jobs: Jobs, nodes: int) -> tuple[Scheduler, list[Job]]:
    """Return a scheduler without jobs for a FIFO queue, and the jobs, named by number.

    Each job starts on the first nodes that can hold it.


    :param jobs: in order of submission.
    :param nodes: of 8 GPUs each.
    """
    network = _idle(_FirstNodes, [GPUS_PER_NODE] * nodes)
    queues = TenantQueues(blocking="fifo")
    scheduler = Scheduler(queues=queues, topology=network, immediate=True, preemption=False)
    return scheduler, _asked(jobs, GPUS_PER_NODE, shares=False)


class _FirstNodes(NetworkTopology):
    """A network in which later nodes cost more."""

    def schedule(
        self,
        request: TopologyRequest,
        *,
        nodes: Iterable[str] | None = None,
        most: npt.ArrayLike | None = None,
        work: int = 2**28,
    ) -> TopologyDecision:
        """See `NetworkTopology`."""
        alike = _at_rising_costs(request.pods, request.amounts, request.role, self.nodes)
        return super().schedule(alike.replace(name=request.name), nodes=nodes, most=most, work=work)


@lru_cache(1024)
def _at_rising_costs(
    pods: int,
    amounts: tuple[tuple[str, int], ...],
    role: TopologyRole | None,
    nodes: tuple[str, ...],
) -> TopologyRequest:
    cost = {node: at for at, node in enumerate(nodes)}
    return TopologyRequest("anybody", pods, amounts=amounts, cost=cost, role=role)


def _idle(network: type[NetworkTopology], sizes: Sequence[int]) -> NetworkTopology:
    topology = network([], {str(node): {} for node in range(len(sizes))})
    for node, gpus in enumerate(sizes):
        topology.set_free(str(node), {"gpu": gpus})
    return topology


def _asked(jobs: Jobs, most: int, shares: bool) -> list[Job]:
    roles = {count: _roles(count, most) for count in set(jobs.gpus)}
    return [
        Job(str(number), "all", roles[gpus], stages=_stages(stages) if shares else ())
        for number, (gpus, stages) in enumerate(zip(jobs.gpus, jobs.stages, strict=True))
    ]


def _roles(gpus: int, most: int) -> tuple[Role, ...]:
    whole, rest = divmod(gpus, most)
    wholes = (Role("whole", whole, gpus=most),) if whole else ()
    return (*wholes, Role("rest", 1, gpus=rest)) if rest else wholes


def _stages(stages: tuple[float, float, float]) -> tuple[float, ...]:
    return (0.0, *stages)


def events_of(submit: Sequence[float]) -> list[float]:
    """Return the submission times, with times that differ only by rounding made equal.

    >>> events_of([5.0, 3e6, 3e6 + 0.002, 3e6 + 0.004])
    [5.0, 3000000.0, 3000000.0, 3000000.004]
    """
    times: list[float] = []
    for time in submit:
        times.append(times[-1] if times and close(time, times[-1]) else time)
    return times
