"""Devices: the very GPUs, NICs and shares that each pod of a unit gets."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, Self

from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, DeviceDecision
from hivecore.devices.device import AMOUNTS
from hivecore.devices.together import why_impossible
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.lifecycle.units import Key, Kind, Places, Unit
from hivecore.scheduler.stages.stage import Stage

__all__ = ["DeviceStage", "Taken", "host_resources"]

_ANY = ("devices", "any")
_MOST_VERDICTS = 4096  # that are remembered


class Taken(NamedTuple):
    """What the pods of a unit have, or why one of them gets nothing: then none has anything."""

    decisions: list[DeviceDecision | None]
    refusal: Refusal | None
    pod: int
    """The one that gets nothing."""


class DeviceStage(Stage):
    """A `DeviceCluster`: each pod is an owner, named job/role/index."""

    name = "devices"
    honours = frozenset(("devices", "joint", "nodes", "resources"))
    part: DeviceCluster

    #: of idle nodes: why what pods ask for is impossible, by the roles and the nodes allowed
    _verdicts: dict[tuple[Any, tuple[str, ...]], str]

    def __init__(self, cluster: DeviceCluster, hosts: frozenset[str] = frozenset()) -> None:
        """:param hosts: the resources of roles that pods take from the "host" of their node."""
        self.part, self.hosts = cluster, hosts
        self.forget()

    def forget(self) -> None:
        """There are other nodes now."""
        self.nodes = frozenset(self.part.nodes)

    def branch(self) -> Self:
        """An adapter of a copy."""
        made = object.__new__(type(self))
        made.part, made.hosts, made.nodes = self.part.copy(), self.hosts, self.nodes
        return made

    def emptied(self) -> Self:
        """An adapter of the same cluster, empty and healthy."""
        made = object.__new__(type(self))
        made.part, made.hosts, made.nodes = self.part.emptied(), self.hosts, self.nodes
        made._verdicts = {}
        return made

    def impossible(self, kind: Kind, empty: "DeviceStage", nodes: tuple[str, ...]) -> str:
        """Why units of this kind would wait on idle, healthy nodes, too; "": they would not.

        :param empty: the same nodes, idle and healthy.
        :param nodes: the only ones to use; none: all.
        """
        asked = kind.sizes, nodes
        reason = empty._verdicts.get(asked)
        if reason is None:
            if len(empty._verdicts) >= _MOST_VERDICTS:
                empty._verdicts.clear()
            reason = empty._verdicts[asked] = self._impossible(kind, empty, nodes)
        return reason

    def _impossible(self, kind: Kind, empty: "DeviceStage", nodes: tuple[str, ...]) -> str:
        try:
            pods = [one for one in kind.devices if one is not None]
            reason = why_impossible(empty.part, pods, nodes or None)
            for request in () if reason else {id(one): one for one in pods}.values():
                self.part.fits(request)  # which remembers what it will be asked again
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return reason

    def take(self, unit: Unit, places: Places | None, allowed: tuple[str, ...]) -> Taken:
        """Give all pods their devices, or none.

        :param places: node and GPUs of each pod, as far as they are chosen; None: nothing is.
        :param allowed: the only nodes to use where nothing is chosen; none: all.
        """
        taken: list[DeviceDecision | None] = []
        try:
            return self._take(unit, places, allowed, taken)
        except BaseException:
            self.give_back([one.request.name for one in taken if one is not None])
            raise

    def _take(
        self,
        unit: Unit,
        places: Places | None,
        allowed: tuple[str, ...],
        taken: list[DeviceDecision | None],
    ) -> Taken:
        """The same; what is taken stands in ``taken``."""
        part, where = self.part, allowed or None
        for i, (request, (role, number)) in enumerate(
            zip(unit.kind.devices, unit.pods, strict=True)
        ):
            if request is None:
                taken.append(None)
                continue
            mine = request.replace(name=f"{unit.owner}/{role}/{number}")
            node, gpus = places[i] if places is not None else ("", ())
            if not node:
                decision = part.schedule(mine, nodes=where)
            elif gpus:
                decision = part.schedule(mine, nodes=(node,), gpus=gpus)
            else:
                decision = part.schedule(mine, nodes=(node,))
            if decision.outcome != "bind":
                self.give_back([one.request.name for one in taken if one is not None])
                return Taken([], decision.refusal, i)
            part.commit(decision)
            taken.append(decision)
        return Taken(taken, None, -1)

    def hold(self, taken: Iterable[DeviceDecision | None]) -> None:
        """Charge pods for what they get when others have left, who are charged still.

        :param taken: of each pod, in a trial in which these have left.
        """
        for one in taken:
            if one is not None:
                request = one.request
                self.part.recover(request.name, one.node, one.placement, priority=request.priority)

    def fulfil(self, unit: Unit, gpus_are_chosen: bool) -> Taken:
        """Decide anew on the devices of each pod of a unit for which they were held, on its node.

        :param gpus_are_chosen: cells say which GPUs.
        """
        taken: list[DeviceDecision | None] = []
        for i, (pod, request) in enumerate(zip(unit.placed, unit.kind.devices, strict=True)):
            if request is None:
                taken.append(None)
                continue
            mine = request.replace(name=f"{unit.owner}/{pod.role}/{pod.index}")
            held = self.part.allocations(mine.name)
            self.part.release(mine.name)
            gpus = pod.gpus if gpus_are_chosen and pod.gpus else None
            decision = self.part.schedule(mine, nodes=(pod.node,), gpus=gpus)
            if decision.outcome != "bind":
                self.part.recover(mine.name, pod.node, held, priority=mine.priority)
                return Taken([], decision.refusal, i)
            self.part.commit(decision)
            taken.append(decision)
        return Taken(taken, None, -1)

    def chooses_node(self, role: Role) -> bool:
        """Whether the pods of a role have devices."""
        return (
            role.gpus > 0
            or role.devices is not None
            or any(amount and resource in self.hosts for resource, amount in role.resources)
        )

    def counts(self, job: Job, resource: str) -> bool:
        """Whether nodes have so much of a resource, and no more."""
        return resource in self.hosts

    def give_back(self, pods: Iterable[str]) -> None:
        """The end of what pods have."""
        for name in pods:
            self.part.release(name)

    def fitting(self, kind: Kind) -> set[str]:
        """The nodes on which some pod of this kind could run now."""
        found: set[str] = set()
        for request in {id(one): one for one in kind.devices if one is not None}.values():
            found.update(self.part.filter(request).fitting)
        return found

    def waits_for(self) -> tuple[Key, ...]:
        """What has to happen before a refused unit is worth another try."""
        return (_ANY,)

    def touched_by_release(self, kind: Kind) -> Iterator[Key]:
        """What happens when a unit gives back what it has."""
        yield _ANY

    def may_start(self, kind: Kind) -> bool:
        """Whether a waiting unit is worth a try: whether there is a node for its largest pods."""
        requests = {id(one): one for one in kind.devices if one is not None}.values()
        return all(self.part.fits(one) for one in requests)

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that are marked so, at least in part."""
        return self.part.unhealthy_nodes()

    def knows(self, node: str) -> bool:
        """Whether it has such a node."""
        return node in self.nodes


def host_resources(cluster: DeviceCluster, counted: Collection[str]) -> frozenset[str]:
    """The resources of roles that pods are to take from the "host" of their node.

    :param counted: those that a network counts already.

    Nodes that are to come are taken to have a host where there are none yet.
    """
    inventories = {id(of): of for of in map(cluster.inventory, cluster.nodes)}
    names = {
        name
        for inventory in inventories.values()
        for host in inventory.of_type("host")
        for name, _ in host.amounts
    }
    return frozenset(names if inventories else AMOUNTS["host"]).difference(counted)
