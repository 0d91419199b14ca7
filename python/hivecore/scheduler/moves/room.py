"""Room by node: what is idle, and what would be if jobs left."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Held", "Room", "pods_of"]

#: What the pods of a job on a node give back at most, and what each needs at its next place.
Held = tuple[int, tuple[int, ...]]


def pods_of(live: Live) -> Iterator[tuple[Role, PlacedPod]]:
    """The pods of a job that run, each with its role."""
    roles = {role.name: role for role in live.job.roles}
    for unit in live.placed:
        for pod in unit.placed:
            yield roles[pod.role], pod


class Room:
    """What is idle, and what would be if jobs left.

    :param jobs: all that there are.
    :param names: of those that may move.
    """

    def __init__(self, stages: Stages, jobs: Mapping[str, Live], names: Iterable[str]) -> None:
        pods = [pod for live in jobs.values() for _, pod in pods_of(live)]
        self.dimensions = stages.dimensions(pods)
        #: by dimension, node and job
        self.on: list[dict[str, dict[str, Held]]] = [{} for _ in self.dimensions]
        #: by job, the nodes on which it has pods
        self.nodes: dict[str, tuple[str, ...]] = {}
        for name in names:
            mine = list(pods_of(jobs[name]))
            self.nodes[name] = tuple(dict.fromkeys(pod.node for _, pod in mine if pod.node))
            for dimension, by_node in zip(self.dimensions, self.on, strict=True):
                for role, pod in mine:
                    if pod.node:
                        held, needs = by_node.setdefault(pod.node, {}).get(name, (0, ()))
                        more = dimension.held(role, pod)
                        need = dimension.need(role)
                        again = (*needs, need) if need else needs
                        by_node[pod.node][name] = (held + more, again)

    def needs(self, at: int, units: Iterable[Unit]) -> list[int]:
        """What each pod of units needs, of those that need something."""
        need = self.dimensions[at].need
        sizes = (role for unit in units for role, pods in unit.kind.sizes for _ in range(pods))
        return [amount for role in sizes if (amount := need(role))]

    def idle(self, at: int, node: str, gone: Collection[str]) -> int:
        """What is idle on a node when jobs have left."""
        found = self.dimensions[at].idle.get(node, 0)
        held = self.on[at].get(node)
        if held and gone:
            found += sum(held[name][0] for name in gone if name in held)
        return found
