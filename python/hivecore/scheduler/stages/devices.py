"""Devices: chooses the GPUs, shares and NICs of each pod."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, DeviceDecision, DeviceRequest
from hivecore.devices.device import AMOUNTS
from hivecore.devices.together import why_impossible
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job, Role
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages._verdicts import Verdicts
from hivecore.scheduler.stages.stage import Audited, Offer, Rebooking, Stage
from hivecore.scheduler.stages.units import Key, Kind, Places, Refused, Unit, with_limits

__all__ = ["DeviceStage", "host_resources", "memory_of_gpus"]

_ANY = ("devices", "any")
_ONE_GPU = DeviceRequest("any", gpus=1)
_MOST_PODS = 2**31 - 1


class DeviceStage(Stage):
    """A `DeviceCluster`: each pod is an owner, named job/role/index."""

    name = "devices"
    honours = frozenset(("devices", "joint", "nodes", "resources", "per_node"))
    part: DeviceCluster
    nodes: frozenset[str]

    def __init__(
        self,
        cluster: DeviceCluster,
        hosts: frozenset[str] = frozenset(),
        gpu_memory: int | None = None,
    ) -> None:
        """:param hosts: resources that pods take from the "host" device of their node.
        :param gpu_memory: as for `gpu_amount`; ``None``: as the GPUs have now.
        """
        self.part, self.hosts = cluster, hosts
        self.gpu_memory = memory_of_gpus(cluster) if gpu_memory is None else gpu_memory
        #: the allowed nodes if no other stage chose one; empty: all
        self.usable: tuple[str, ...] = ()
        #: nodes that the placing stage does not know
        self.unplaced = frozenset[str]()
        self.forget()

    def forget(self) -> None:
        """Read the nodes again after a change."""
        self.nodes = frozenset(self.part.nodes)
        self._idle: DeviceCluster | None = None
        #: nodes in the order of placement, nodes in the order of devices, and the latter's numbers
        self._order: tuple[tuple[str, ...], tuple[str, ...], npt.NDArray[np.int64]] | None = None
        #: why requests are impossible on idle nodes, by roles and allowed nodes
        self._verdicts = Verdicts()

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why units of a kind would wait even on idle, healthy nodes; "" if they would not."""
        try:
            _ = kind.devices
        except ValueError as error:  # beyond what any device has
            return str(error.args[0])
        if growing:
            return ""
        return self._verdicts.of((kind.sizes, nodes), lambda: self._impossible(kind, nodes))

    def _impossible(self, kind: Kind, nodes: tuple[str, ...]) -> str:
        try:
            pods = [pod for pod in kind.devices if pod is not None]
            placed = [role for role, _ in kind.sizes if self.chooses_node(role)]
            most = placed[0].per_node if len(placed) == 1 else None
            reason = why_impossible(self._emptied(), pods, nodes or None, most)
            for request in () if reason else {id(pod): pod for pod in pods}.values():
                self.part.fits(request)  # the part caches the answer
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return reason

    def propose(self, offer: Offer) -> Refused | None:
        """Allocate the devices of all pods in turn, or of none."""
        part, unit, places = self.part, offer.unit, offer.places
        where = offer.nodes or self.usable or None
        requests, pods = unit.kind.devices, unit.pods
        most: dict[str, int] = {}
        if unit.kind.is_spread:
            most = {role.name: role.per_node for role, _ in unit.kind.sizes if role.per_node}
        on = offer.beside.copy() if most else None
        taken: list[DeviceDecision | None] = []
        while len(taken) < len(pods):
            i = len(taken)
            request, (role, number) = requests[i], pods[i]
            if request is None:
                taken.append(None)
                continue
            node, gpus = places[i] if places is not None else ("", ())
            if gpus or (places is None and on is None and not offer.able):
                end = i + 1
                while end < len(pods) and requests[end] is request:
                    end += 1
                if end - i == len(pods):
                    owners = unit.all_device_owners()
                else:
                    owners = [f"{unit.job}/{role}/{number}" for role, number in pods[i:end]]
                if places is None:
                    decisions = part.allocate_many(request, owners, nodes=where)
                else:
                    decisions = part.allocate_many(request, owners, places[i:end])
                decision = decisions[-1]
                if decision.outcome == "wait":
                    i += owners.index(decision.request.name)
            else:
                request = request.replace(name=f"{unit.job}/{role}/{number}")
                nodes = (node,) if node else offer.able.get(i, where)
                if on is not None and role in most and not node:
                    known = self.part.nodes if nodes is None else nodes
                    nodes = tuple(name for name in known if on[role, name] < most[role])
                decision = part.schedule(request, nodes=nodes)
                if on is not None:
                    on[role, decision.node] += 1
                decisions = (decision,)
                if decision.outcome == "bind":
                    part.commit(decision)
            if decision.refusal is not None:
                offer.taken = taken
                self.retract(offer)
                offer.refused_pod = i if node else -1
                refusal = decision.refusal
                if role in most and not node:
                    if nodes == ():
                        refusal = refusal.replace(reason="no node is left")
                    refusal = with_limits(unit.kind, refusal, self.chooses_node)
                return Refused(refusal, (_ANY,))
            taken += decisions
        offer.taken = taken
        return None

    def place(self, unit: Unit, places: Places | None = None) -> Refused | tuple[PlacedPod, ...]:
        """Allocate the devices of a plain unit (`Kind.is_plain`) at these or at the best places."""
        request, owners = unit.kind.devices[0], unit.all_device_owners()
        assert request is not None
        nodes = self.usable or None if places is None else None
        decisions = self.part.allocate_many(request, owners, places, nodes=nodes)
        if (refusal := decisions[-1].refusal) is not None:
            return Refused(refusal, (_ANY,))
        return tuple(
            [
                PlacedPod(role, number, decision.node, decision.minors, decision)
                for (role, number), decision in zip(unit.pods, decisions, strict=True)
            ]
        )

    def retract(self, offer: Offer) -> None:
        """Release the devices of the pods."""
        for decision in offer.taken:
            if decision is not None:
                self.part.release(decision.request.name)
        offer.taken = []

    def capacity(
        self,
        request: DeviceRequest,
        most: int,
        nodes: tuple[str, ...],
        after: tuple[DeviceRequest, int] | None = None,
        *,
        is_idle: bool = False,
    ) -> npt.NDArray[np.int32]:
        """How many such pods fit on each node, see `DeviceCluster.capacity`.

        :param nodes: the order of the result; 0 for unknown nodes.
        :param is_idle: count as if all nodes were idle and healthy.
        """
        known = self.part.nodes
        if self._order is None or self._order[:2] != (nodes, known):
            numbers = {node: i for i, node in enumerate(known)}
            self._order = nodes, known, np.array([numbers.get(node, -1) for node in nodes], int)
        part = self._emptied() if is_idle else self.part
        counts = part.capacity(request, most, after=after)
        return np.append(counts, np.int32(-1 if after else 0))[self._order[2]]

    def _emptied(self) -> DeviceCluster:
        """A copy of the cluster, idle and healthy."""
        if self._idle is None:
            self._idle = self.part.emptied()
        return self._idle

    def vacate(self, unit: Unit, is_placed: bool) -> None:
        """Release the devices of all pods of a unit."""
        self.part.release_many(unit.device_owners())

    def rebook(self, change: Rebooking) -> None:
        """Release the devices of pods that have left; the others keep theirs."""
        unit, now, other, taken = change
        stay = {id(pod) for pod in (*now.placed, *[before for before, _ in taken])}
        gone = () if other is not None else unit.placed
        owners = [_owner(unit, pod) for pod in gone if id(pod) not in stay]
        for owner in filter(self.part.__contains__, owners):
            self.part.release(owner)
        for before, after in taken:
            if (owner := _owner(unit, before)) in self.part:
                self.part.rename(owner, _owner(unit, after))

    def check_holds(self, unit: Unit) -> None:
        """Raise `KeyError` unless all pods that requested devices have some."""
        names = unit.device_owners()
        if not self.part.has_all(names):
            name = next(name for name in names if name not in self.part)
            raise KeyError(f"pod {name!r} has no devices any more")

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the devices to another job."""
        for pod in unit.device_owners():
            end = pod.removeprefix(unit.owner)
            self.part.rename(old + end, new + end)

    def hold(self, unit: Unit, offer: Offer, leaving: Sequence[Unit]) -> None:
        """Charge pods for the devices that victims free later; the victims are charged as well."""
        for decision in offer.taken:
            if decision is not None:
                request = decision.request
                self.part.recover(
                    request.name, decision.node, decision.placement, priority=request.priority
                )

    def adopt(self, unit: Unit) -> None:
        """Allocate the devices that pods state, and choose the others."""
        pods = list(unit.placed)
        for i, (pod, request) in enumerate(zip(pods, unit.kind.devices, strict=True)):
            if request is None:
                if pod.minors:
                    at = f"{pod.role}/{pod.index}"
                    raise ValueError(f"{at}: minors: its role requests no devices")
                continue
            name = _owner(unit, pod)
            of_pod, gpus = request.replace(name=name), pod.gpus or None
            decision = self.part.schedule(of_pod, nodes=(pod.node,), gpus=gpus)
            if decision.refusal is not None:
                at = f"{pod.role}/{pod.index} on {pod.node!r}"
                raise ValueError(f"{at}: {decision.reason}{self._holders(pod)}")
            chosen = dict(decision.minors)
            if any(chosen.get(type) != minors for type, minors in pod.minors):
                self._take(name, pod, decision)
            else:
                self.part.commit(decision)
            minors = tuple((chosen | dict(pod.minors)).items())
            pods[i] = pod.replace(minors=minors, decision=decision)
        unit.placed = tuple(pods)

    def _holders(self, pod: PlacedPod) -> str:
        """The pods that have devices of another pod, else those on its node, for a message."""
        wanted = {(type, minor) for type, minors in pod.minors for minor in minors}
        return "".join(
            f"; {owner!r} has {device.type} {device.minor}"
            for owner in self.part.owners(pod.node)
            for device in self.part.allocations(owner)
            if not wanted or (device.type, device.minor) in wanted
        )

    def _take(self, name: str, pod: PlacedPod, decision: DeviceDecision) -> None:
        """Give a pod its own devices instead of the chosen ones, which are as many."""
        own, allocations = dict(pod.minors), []
        for type in own.keys() - {device.type for device in decision.placement}:
            raise ValueError(f"{type} {own[type]}: the pod gets none")
        for type, group in groupby(decision.placement, attrgetter("type")):
            chosen = list(group)
            minors = own.get(type, tuple(device.minor for device in chosen))
            if len(minors) != len(chosen):
                raise ValueError(f"{type} {minors}: the pod gets {len(chosen)}")
            allocations += [
                device.replace(
                    minor=minor, function=device.function if device.minor == minor else None
                )
                for device, minor in zip(chosen, minors, strict=True)
            ]
        self.part.recover(name, pod.node, allocations, priority=decision.request.priority)
        used = Counter[tuple[str, int, str]]()
        for owner in self.part.owners(pod.node):
            for part in self.part.allocations(owner):
                used.update({(part.type, part.minor, key): amount for key, amount in part.amounts})
        for device in self.part.inventory(pod.node).devices:
            used.subtract({(device.type, device.minor, key): of for key, of in device.amounts})
        for (type, minor, _), excess in used.items():
            if excess > 0:
                at = f"{pod.role}/{pod.index} on {pod.node!r}"
                held = f"{type} {minor} is in use or missing{self._holders(pod)}"
                raise ValueError(f"{at}: {held}")

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release the reserved devices."""
        self.vacate(unit, False)

    def fulfil(self, unit: Unit, offer: Offer) -> Refused | None:
        """Choose the devices of each pod on its node again, as its victims have left."""
        pods: list[PlacedPod] = []
        for pod, request in zip(unit.placed, unit.kind.devices, strict=True):
            if request is None:
                pods.append(pod)
                continue
            of_pod = request.replace(name=_owner(unit, pod))
            held = self.part.allocations(of_pod.name)
            self.part.release(of_pod.name)
            gpus = pod.gpus if "cells" in offer.decisions and pod.gpus else None
            decision = self.part.schedule(of_pod, nodes=(pod.node,), gpus=gpus)
            if decision.refusal is not None:
                self.part.recover(of_pod.name, pod.node, held, priority=of_pod.priority)
                return Refused(decision.refusal, ())
            self.part.commit(decision)
            placed = pod.role, pod.index, decision.node, decision.minors, decision
            pods.append(PlacedPod(*placed, pod.claims))
        unit.placed = tuple(pods)
        return None

    def chooses_node(self, role: Role) -> bool:
        """Whether the pods of a role have devices."""
        return (
            role.gpus > 0
            or role.devices is not None
            or any(amount and resource in self.hosts for resource, amount in role.resources)
        )

    def counts(self, job: Job, resource: str) -> bool:
        """Whether nodes limit a resource."""
        return resource in self.hosts

    def released(self, kind: Kind) -> tuple[Key, ...]:
        """The key of free devices."""
        return (_ANY,)

    def still_refuses(self, kind: Kind, refusal: Refusal) -> bool:
        """Whether some pod fits on no node."""
        requests = {
            id(request): request for request in kind.devices if request is not None
        }.values()
        return not all(self.part.fits(request) for request in requests)

    def unhealthy(self) -> tuple[str, ...]:
        """Nodes that are unhealthy, at least in part."""
        return self.part.unhealthy_nodes()

    def faults(self, audited: Audited) -> Iterator[str]:
        """Pods that have devices although their unit holds none, or the reverse."""
        for unit in audited.units:
            nodes = {pod.node for pod in unit.placed if pod.node}
            owners = {owner for node in nodes for owner in self.part.owners(node)}
            for owner in unit.device_owners() if unit.placed else ():
                if (owner in owners) != (unit.name in audited.holders):
                    yield f"pod {owner!r}: its devices"

    def dimensions(self) -> tuple[Dimension]:
        """Healthy GPUs without shares, by node."""
        idle = self.part.capacity(_ONE_GPU, _MOST_PODS).tolist()
        return (Dimension(dict(zip(self.part.nodes, idle, strict=True)), _whole_gpus, _gpus),)

    def idle_gpus(self) -> dict[str, int]:
        """See `Stage`."""
        return self.dimensions()[0].idle


def _owner(unit: Unit, pod: PlacedPod) -> str:
    """The name under which a pod has devices."""
    return f"{unit.job}/{pod.role}/{pod.index}"


def _gpus(pod: PlacedPod) -> int:
    return len(pod.gpus)


def _whole_gpus(role: Role) -> int:
    """The whole GPUs of a pod of a role; 0 also if it takes all GPUs of its node."""
    need = None if role.devices is None else role.devices.need("gpu")
    return 0 if need is not None and (need.shared or need.every) else role.gpus


def memory_of_gpus(cluster: DeviceCluster) -> int:
    """The memory of each GPU in bytes; 0 if they differ."""
    bytes_of = {dict(amounts).get("memory", 0) for amounts in _amounts(cluster, "gpu")}
    return bytes_of.pop() if len(bytes_of) == 1 else 0


def host_resources(cluster: DeviceCluster, counted: Collection[str]) -> frozenset[str]:
    """The resources that pods take from the "host" device of their node.

    :param counted: resources that a network counts already.

    Without nodes, later nodes are assumed to have a host.
    """
    names = {name for amounts in _amounts(cluster, "host") for name, _ in amounts}
    return frozenset(names if cluster.nodes else AMOUNTS["host"]).difference(counted)


def _amounts(cluster: DeviceCluster, type: str) -> Iterator[tuple[tuple[str, int], ...]]:
    """What the devices of a type have; nodes with the same inventory count once."""
    inventories = {id(of): of for of in map(cluster.inventory, cluster.nodes)}
    return (device.amounts for of in inventories.values() for device in of.of_type(type))
