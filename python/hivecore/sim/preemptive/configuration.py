"""The scheduler that training jobs run under: nodes of 8 GPUs, and an order that is told."""

from collections.abc import Sequence

from hivecore.scheduler import Job, Role, Scheduler, Sharing
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.training import close
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.topology import NetworkTopology

__all__ = ["configure", "events_of"]

#: Storage, CPU, GPU and network, of which a trace tells the first two together.
_RESOURCES = 4


def configure(
    jobs: Jobs, nodes: int, *, by_node: bool, shares: bool
) -> tuple[Scheduler, list[Job]]:
    """Return a scheduler without jobs, and the jobs, named by their numbers.

    :param jobs: in order of submission.
    :param nodes: of 8 GPUs each.
    :param by_node: whether it matters on which nodes the GPUs of a job are: at most 8 on one, and
        more on whole ones.
    :param shares: whether jobs share GPUs.
    """
    sizes = [GPUS_PER_NODE] * nodes if by_node else [GPUS_PER_NODE * nodes]
    network = NetworkTopology([], {str(node): {} for node in range(len(sizes))})
    for node, gpus in enumerate(sizes):
        network.set_free(str(node), {"gpu": gpus})
    sharing = Sharing(_RESOURCES) if shares else None
    roles = {count: _roles(count, sizes[0]) for count in set(jobs.gpus)}
    asked = [
        Job(str(number), "all", roles[gpus], stages=_stages(stages) if shares else ())
        for number, (gpus, stages) in enumerate(zip(jobs.gpus, jobs.stages, strict=True))
    ]
    return Scheduler(topology=network, sharing=sharing, immediate=True), asked


def _roles(gpus: int, most: int) -> tuple[Role, ...]:
    whole, rest = divmod(gpus, most)
    wholes = (Role("whole", whole, gpus=most),) if whole else ()
    return (*wholes, Role("rest", 1, gpus=rest)) if rest else wholes


def _stages(stages: tuple[float, float, float]) -> tuple[float, ...]:
    return (0.0, *stages)


def events_of(submit: Sequence[float]) -> list[float]:
    """Return when jobs come, where times that differ by rounding only are the first of them.

    >>> events_of([5.0, 3e6, 3e6 + 0.002, 3e6 + 0.004])
    [5.0, 3000000.0, 3000000.0, 3000000.004]
    """
    found: list[float] = []
    for time in submit:
        found.append(found[-1] if found and close(time, found[-1]) else time)
    return found
