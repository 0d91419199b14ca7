"""Room counted node by node: what a pod surely needs, whatever the stages choose.

A *dimension* is something that stages count by node: idle GPUs, slots, processors. A pod of x units
needs x idle ones of one node. Of a node with f idle ones, pods of x1, x2, ... units can be there
together only if floor(x1 / g) + floor(x2 / g) + ... <= floor(f / g), for every g. So for every g
the sum over the pods that need a place is at most the sum over the nodes: else there is none.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.stages._cell_nodes import chain_nodes
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Dimension", "Held", "Room", "pods_of", "whole_gpus"]

#: What the pods of a job on one node give back at most, and what each needs at its next place.
Held = tuple[int, tuple[int, ...]]


class Dimension:
    """What is idle by node, and how pods count.

    :param need: what a pod of a role needs of a node at least, 0 or more.
    :param held: what is idle again at most when a pod of a role leaves.
    """

    def __init__(
        self,
        idle: dict[str, int],
        need: Callable[[Role], int],
        held: Callable[[Role, PlacedPod], int],
    ) -> None:
        self.idle, self.need, self.held = idle, need, held


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
        self.dimensions = list(_dimensions(stages, jobs))
        #: by dimension, node and job
        self.on: list[dict[str, dict[str, Held]]] = [{} for _ in self.dimensions]
        #: by job, the nodes on which it has pods
        self.nodes: dict[str, tuple[str, ...]] = {}
        for name in names:
            pods = list(pods_of(jobs[name]))
            self.nodes[name] = tuple(dict.fromkeys(pod.node for _, pod in pods if pod.node))
            for dimension, by_node in zip(self.dimensions, self.on, strict=True):
                for role, pod in pods:
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


def _dimensions(stages: Stages, jobs: Mapping[str, Live]) -> Iterator[Dimension]:
    place, devices = stages.place, stages.devices
    if isinstance(place, CellStage):
        yield _of_cells(place)
    elif place is not None:
        yield from _of_topology(place)
    if devices is not None:
        yield _of_devices(devices, jobs)


def _of_cells(place: CellStage) -> Dimension:
    idle: dict[str, int] = {}
    for name in place.part.spec.chains:
        leaves = place.part.idle_leaves(name).tolist()
        for node, count in zip(chain_nodes(place.part, name), leaves, strict=True):
            idle[node] = idle.get(node, 0) + count
    return Dimension(idle, lambda role: role.gpus, lambda role, _: role.gpus)


def _of_topology(place: TopologyStage) -> Iterator[Dimension]:
    network = place.part
    free = {node: network.free(node) for node in network.nodes}
    for resource in sorted(place.known):
        idle = {node: amounts[resource] for node, amounts in free.items()}
        need = partial(_amount, place, resource)
        yield Dimension(idle, need, lambda role, _, need=need: need(role))  # type: ignore[misc]


def _amount(place: TopologyStage, resource: str, role: Role) -> int:
    return dict(place.amounts(role)).get(resource, 0)


def _of_devices(devices: DeviceStage, jobs: Mapping[str, Live]) -> Dimension:
    """GPUs that nobody has anything of; shares of GPUs need none."""
    part = devices.part
    known_of = {
        f"{name}/{pod.role}/{pod.index}": pod.gpus
        for name, live in jobs.items()
        for _, pod in pods_of(live)
    }

    def gpus_of(owner: str) -> Iterable[int]:
        found = known_of.get(owner)
        if found is None:
            found = tuple(one.minor for one in part.allocations(owner) if one.type == "gpu")
        return found

    idle: dict[str, int] = {}
    gpus: dict[int, frozenset[int]] = {}  # nodes that are alike share an inventory
    for node in part.nodes:
        inventory = part.inventory(node)
        known = gpus.get(id(inventory))
        if known is None:
            known = gpus[id(inventory)] = frozenset(
                one.minor for one in inventory.devices if one.type == "gpu" and one.healthy
            )
        taken = {minor for owner in part.owners(node) for minor in gpus_of(owner)}
        idle[node] = len(known - taken)

    return Dimension(idle, whole_gpus, lambda _, pod: len(pod.gpus))


def whole_gpus(role: Role) -> int:
    """The GPUs of which a pod of a role needs all; 0: it shares them, or takes what there is."""
    wanted = None if role.devices is None else role.devices.need("gpu")
    if wanted is not None and (wanted.shared or wanted.every):
        return 0
    return role.gpus
