"""Whether pods can run at the same time at all: on nodes that are idle and healthy.

Pods are first placed one after the other, as a scheduler would. Where that fails it is settled how
many of them a node holds. For equal pods that follows from how often each device can serve them,
but for joint types, partitions and whole PCIe switches, where the choices are searched; so they are
for pods of several kinds. A search that takes too long counts as if there were room: what is said
to be impossible is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from hivecore._stateful import counted
from hivecore.devices._numbers import Numbers
from hivecore.devices.device import Device, VirtualFunction
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.label_expression import is_selected
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.placer import DevicePlacer
from hivecore.devices.proof import amounts_of, check_placement, template_of
from hivecore.errors import CertificateError

__all__ = ["why_impossible"]

_STEPS = 5_000  # placements that are tried, over all searches
_VECTORS = 2_000  # numbers of pods of each kind on one node
_FRONTIER = 2_000_000  # pairs of numbers of pods that are left, over all nodes
_WEIGHTS = 5

#: How many pods of each kind.
_Vector = tuple[int, ...]


class _Budget:
    """How many placements may still be tried."""

    def __init__(self) -> None:
        self.left = _STEPS


class _Machines(NamedTuple):
    """Nodes of equal inventory."""

    inventory: NodeDevices
    node: str
    """The first of them."""
    many: int


def why_impossible(
    cluster: DevicePlacer,
    requests: Sequence[DeviceRequest],
    nodes: tuple[str, ...] | None,
    per_node: int | None = None,
) -> str:
    """Why these pods do not fit together on a cluster that is idle and healthy; "": they may.

    :param per_node: how many of them a node may get; ``None``: any number.
    """
    numbers = Counter(item.replace(name="a pod").replace(priority=0) for item in requests)
    enough = len(requests)
    for request in numbers:
        decision = cluster.schedule(request, nodes=nodes)
        if decision.outcome != "bind":
            return decision.reason
        if len(requests) > 1:
            fitting = int(cluster.filter(request, nodes=nodes).fits.sum())
            enough = min(enough, fitting)
    if enough >= len(requests):  # each on a node of its own
        return ""
    pods = [item.replace(name=f"pod {i}") for i, item in enumerate(requests)]
    if per_node is None and all(
        item.outcome == "bind" for item in cluster.schedule_many(pods, nodes=nodes)
    ):
        return ""
    at_most = len(requests) if per_node is None else per_node
    kinds, budget = list(numbers), _Budget()
    machines = _machines(cluster, cluster.nodes if nodes is None else nodes)
    rooms = []
    for kind in kinds:
        fits = cluster.filter(kind, nodes=[item.node for item in machines]).fits.tolist()
        room = [
            _most(item.inventory, kind, min(numbers[kind], at_most), budget) if able else 0
            for item, able in zip(machines, fits, strict=True)
        ]
        rooms.append(room)
        total = sum(most * item.many for most, item in zip(room, machines, strict=True))
        if total < numbers[kind]:
            what = ", ".join(f"{'all' if n.every else n.count} {n.type}" for n in kind.needs)
            return (
                f"{counted(numbers[kind], 'pod')} with {what} each: idle and healthy, the nodes "
                f"have room for {total}"
            )
    if len(kinds) > 1 and not _fit(kinds, tuple(numbers.values()), machines, rooms, budget):
        return f"{len(pods)} pods of {len(kinds)} kinds do not fit together on idle, healthy nodes"
    return ""


def _machines(cluster: DevicePlacer, nodes: Iterable[str]) -> list[_Machines]:
    result: dict[Any, _Machines] = {}
    shapes: dict[int, Any] = {}  # by the identity of inventories
    numbers = Numbers()
    for name in dict.fromkeys(nodes):
        inventory = cluster.inventory(name)
        shape = shapes.get(id(inventory))
        if shape is None:
            shape = shapes[id(inventory)] = numbers.shape(inventory)
        before = result.get(shape, _Machines(inventory, name, 0))
        result[shape] = before._replace(many=before.many + 1)
    return list(result.values())


# --- equal pods on one node


def _most(inventory: NodeDevices, request: DeviceRequest, enough: int, budget: _Budget) -> int:
    """How many of these pods a node holds, as far as it matters."""
    bound = min([enough, *(_bound(inventory, need, enough) for need in request.needs)])
    bound = min(bound, _bound_of_switches(inventory, request, enough))
    if not _is_intricate(inventory, request):
        return bound
    while bound > 1 and _holds(inventory, [request] * bound, budget) is False:
        bound -= 1
    return bound


def _is_intricate(inventory: NodeDevices, request: DeviceRequest) -> bool:
    """Whether it takes a search to say how many a node holds."""
    gpus = request.need("gpu")
    in_rows = gpus is not None and not gpus.shared and not gpus.every
    in_rows &= request.partition is not None or inventory.partition_policy == "honor"
    first = _first(request)
    joint = first is not None and first.count > 1
    return in_rows or joint or any(n.exclusive == "pcie" and n.count > 1 for n in request.needs)


def _first(request: DeviceRequest) -> DeviceNeed | None:
    """What joint types are near to; ``None``: there are none."""
    if not request.joint:
        return None
    return request.need("gpu" if "gpu" in request.joint else request.joint[0])


def _slots(device: Device, need: DeviceNeed, enough: int) -> int:
    """How many pods an idle device can serve at the same time."""
    has, wanted = dict(device.amounts), amounts_of(device, need)
    if not is_selected(need.selector, device.labels):
        return 0
    slots = min([enough, *(has.get(name, 0) // wanted[name] for name in wanted if wanted[name])])
    if slots and (need.exclusive or _is_all(device, wanted)):
        slots = 1
    if need.vf_selector is None:
        return slots
    return min(slots, sum(1 for _ in _functions(device, need)))


def _is_all(device: Device, wanted: dict[str, int]) -> bool:
    has = dict(device.amounts)
    if "memory" in has:
        has.pop("memory_ratio", None)
    return has == {name: amount for name, amount in wanted.items() if amount}


def _functions(device: Device, need: DeviceNeed) -> Iterator[VirtualFunction]:
    for group in device.vf_groups:
        if need.vf_selector is not None and is_selected(need.vf_selector, group.labels):
            yield from group.functions


def _domain(device: Device, scope: str | None) -> Any:
    """What the device is in of a scope, or of a tighter one where that is not known."""
    if scope in (None, "node"):
        return None
    order = ("socket", "numa", "pcie")
    for level in order[order.index(scope) :] if scope in order else ():
        if getattr(device, level) is not None:
            return level, getattr(device, level)
    return "device", device.minor


def _bound(inventory: NodeDevices, need: DeviceNeed, enough: int) -> int:
    """How many pods the devices of one type can serve."""
    devices = inventory.of_type(need.type)
    if need.repeat:
        most = enough * need.count
        return min(enough, sum(_slots(item, need, most) for item in devices) // need.count)
    slots = {item.minor: _slots(item, need, enough) for item in devices}
    if need.every:
        return min([slots[item.minor] for item in devices if slots[item.minor]], default=0)
    domains: dict[Any, dict[Any, list[int]]] = {}
    for item in devices:
        switch = _domain(item, "pcie") if need.exclusive == "pcie" else item.minor
        domain = domains.setdefault(_domain(item, need.scope), {})
        domain.setdefault(switch, []).append(slots[item.minor])
    return min(enough, sum(_pods_of(item, need, enough) for item in domains.values()))


def _pods_of(switches: dict[Any, list[int]], need: DeviceNeed, enough: int) -> int:
    """How many pods get different devices each, by how many each device can serve."""
    slots = [item for some in switches.values() for item in some]
    most = enough
    if need.exclusive == "pcie":
        most = min(most, sum(any(some) for some in switches.values()))
    while most and sum(min(item, most) for item in slots) < need.count * most:
        most = min(most - 1, sum(min(item, most) for item in slots) // need.count)
    return most


def _bound_of_switches(inventory: NodeDevices, request: DeviceRequest, enough: int) -> int:
    """How many pods get all their joint types on one switch, where each takes one."""
    first = _first(request)
    if first is None or not request.same_pcie or first.count > 1:
        return enough
    total = 0
    for switch in {item.pcie for item in inventory.devices} - {None}:
        least = enough
        for need in map(request.need, request.joint):
            assert need is not None
            here = [item for item in inventory.of_type(need.type) if item.pcie == switch]
            slots = {item.minor: [_slots(item, need, enough)] for item in here}
            if need.exclusive == "pcie":
                slots = {0: [item for some in slots.values() for item in some]}
            least = min(least, _pods_of(slots, need, enough))
        total += least
    return min(total, enough)


# --- pods of several kinds


def _fit(
    kinds: list[DeviceRequest],
    numbers: _Vector,
    machines: list[_Machines],
    rooms: list[list[int]],
    budget: _Budget,
) -> bool:
    """Whether the pods of all kinds fit together on these nodes; also where it takes too long."""
    groups = []
    if any(need.repeat for kind in kinds for need in kind.needs):
        return True  # too many ways to try
    for i, item in enumerate(machines):
        most = [room[i] for room in rooms]
        if prod(count + 1 for count in most) > _VECTORS:
            return True
        groups.append((item.many, _vectors(item.inventory, kinds, most, budget)))
    # A node holds so much at most of pods of any weights, which settles it for many nodes.
    for weights in product(range(_WEIGHTS), repeat=len(kinds)) if len(kinds) <= 4 else ():
        room = sum(many * max(_weigh(weights, item) for item in held) for many, held in groups)
        if _weigh(weights, numbers) > room:
            return False
    left, tried = {numbers}, 0
    for many, held in groups:
        for _ in range(many):
            after = {
                tuple(max(have - got, 0) for have, got in zip(pods, item, strict=True))
                for pods in left
                for item in held
            }
            tried += len(after) ** 2
            if tried > _FRONTIER:
                return True
            left = set(_least(after))
            if not any(min(left)):
                return True
    return False


def _weigh(weights: _Vector, numbers: _Vector) -> int:
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True))


def _vectors(
    inventory: NodeDevices, kinds: list[DeviceRequest], most: list[int], budget: _Budget
) -> list[_Vector]:
    """The largest numbers of pods of each kind that a node holds together."""
    result: list[_Vector] = []
    sizes = product(*(range(item, -1, -1) for item in most))
    for vector in sorted(sizes, key=sum, reverse=True):
        if any(_covers(item, vector) for item in result):
            continue
        pods = [kind for kind, count in zip(kinds, vector, strict=True) for _ in range(count)]
        if _holds(inventory, pods, budget) is not False:
            result.append(vector)
    return result


def _covers(item: _Vector, other: _Vector) -> bool:
    return all(mine >= theirs for mine, theirs in zip(item, other, strict=True))


def _least(vectors: Iterable[_Vector]) -> list[_Vector]:
    """Those that are not more than another one."""
    result: list[_Vector] = []
    for vector in sorted(vectors, key=sum):
        if not any(_covers(vector, item) for item in result):
            result.append(vector)
    return result


# --- a search


def _holds(inventory: NodeDevices, pods: list[DeviceRequest], budget: _Budget) -> bool | None:
    """Whether a node holds these pods at the same time; ``None``: it takes too long to say."""
    if any(not _has_room(inventory, type, pods) for type in ("gpu", "rdma", "fpga", "host")):
        return False
    result = _Search(inventory, pods, budget).has_places()
    return None if budget.left <= 0 and not result else result


def _has_room(inventory: NodeDevices, type: str, pods: list[DeviceRequest]) -> bool:
    """Whether the devices of a type are enough, were they one."""
    devices = inventory.of_type(type)
    taken: Counter[str] = Counter()
    for need in (need for pod in pods if (need := pod.need(type)) is not None):
        wants = [amounts_of(item, need) for item in devices if _slots(item, need, 1)]
        for name in {name for item in devices for name, _ in item.amounts}:
            taken[name] += need.count * min((item.get(name, 0) for item in wants), default=0)
    total = Counter[str]()
    for item in devices:
        total.update(dict(item.amounts))
    return all(taken[name] <= total[name] for name in taken)


class _Search:
    """For a placement of pods on one node, one pod after the other."""

    def __init__(self, inventory: NodeDevices, pods: list[DeviceRequest], budget: _Budget) -> None:
        self.inventory, self.budget = inventory, budget
        numbers = Counter(pods)
        self.kinds, self.numbers = list(numbers), tuple(numbers.values())
        self.has_rows = inventory.links is not None or bool(inventory.partition_rows())
        # How many devices a joint type gets depends on what the pods before it have left.
        self.in_any_order = any(kind.joint and not kind.same_pcie for kind in self.kinds)
        self.failed: set[tuple[_Vector, tuple[str, ...]]] = set()

    def has_places(self) -> bool:
        """Whether all pods have places."""
        return self._places(self.numbers, ())

    def _places(self, left: _Vector, held: tuple[DeviceAllocation, ...]) -> bool:
        """Whether these pods have places, beside what others hold."""
        waiting = [i for i, number in enumerate(left) if number]
        if not waiting:
            return True
        state = left, tuple(sorted(self._state(item, held) for item in self.inventory.devices))
        if state in self.failed:
            return False
        for i in waiting if self.in_any_order else waiting[:1]:
            rest = (*left[:i], left[i] - 1, *left[i + 1 :])
            for placement in self._placements(self.kinds[i], held):
                self.budget.left -= 1
                if self.budget.left <= 0:
                    return False
                if self._is_right(self.kinds[i], placement, held) and self._places(
                    rest, (*held, *placement)
                ):
                    return True
        self.failed.add(state)
        return False

    def _is_right(
        self,
        pod: DeviceRequest,
        placement: tuple[DeviceAllocation, ...],
        held: tuple[DeviceAllocation, ...],
    ) -> bool:
        try:
            check_placement(pod, placement, self.inventory, held)
        except CertificateError:
            return False
        return True

    def _state(self, device: Device, held: tuple[DeviceAllocation, ...]) -> str:
        """The same of devices that may stand for each other."""
        here = [item for item in held if (item.type, item.minor) == (device.type, device.minor)]
        used: Counter[str] = Counter()
        for item in here:
            used.update(dict(item.amounts))
        taken = {item.function.bus_id for item in held if item.function is not None}
        groups = sorted(
            (group.labels, sum(item.bus_id not in taken for item in group.functions))
            for group in device.vf_groups
        )
        place = device.socket, device.numa, device.pcie
        own = device.minor if self.has_rows and device.type == "gpu" else -1
        closed = sorted(str(item.exclusive) for item in here)
        state = (device.type, own, place, device.labels, device.amounts, groups, closed)
        return repr((*state, sorted(used.items())))

    def _placements(
        self, pod: DeviceRequest, held: tuple[DeviceAllocation, ...]
    ) -> Iterator[tuple[DeviceAllocation, ...]]:
        """Sets of devices that could serve the pod; one for all sets that come to the same."""
        able = {need.type: self._able(need, held) for need in pod.needs}
        first = _first(pod)
        order = sorted(pod.needs, key=lambda need: need is not first)
        yield from self._chosen(pod, order, able, ())

    def _chosen(
        self,
        pod: DeviceRequest,
        needs: list[DeviceNeed],
        able: dict[str, list[tuple[Device, DeviceAllocation, Any]]],
        chosen: tuple[Any, ...],
    ) -> Iterator[tuple[DeviceAllocation, ...]]:
        if not needs:
            yield tuple(item for _, item, _ in chosen)
            return
        need, *rest = needs
        for devices in self._sets(pod, need, able[need.type], chosen):
            yield from self._chosen(pod, rest, able, (*chosen, *devices))

    def _sets(
        self, pod: DeviceRequest, need: DeviceNeed, able: list[Any], chosen: tuple[Any, ...]
    ) -> Iterator[tuple[Any, ...]]:
        if need.every:
            yield tuple(able)
            return
        first = _first(pod)
        if first is None or need is first or need.type not in pod.joint:
            yield from _subsets(able, need.count)
            return
        touched = {item.pcie for item, _, _ in chosen if item.type == first.type} - {None}
        fixed = need.type == pod.joint[0]
        domains: dict[Any, list[Any]] = {}
        for item in able:
            if not pod.same_pcie or item[0].pcie in touched:
                domains.setdefault(_domain(item[0], need.scope), []).append(item)
        for pool in domains.values():
            wanted = need.count if fixed else max(need.count, len(touched))
            yield from _subsets(pool, wanted if pod.same_pcie else min(wanted, len(pool)))

    def _able(
        self, need: DeviceNeed, held: tuple[DeviceAllocation, ...]
    ) -> list[tuple[Device, DeviceAllocation, Any]]:
        """Devices with room for the need, what each would give, and what is the same of those that
        may stand for each other.
        """
        result = []
        template = template_of(need, self.inventory) if need.type == "gpu" else ""
        taken = {item.function.bus_id for item in held if item.function is not None}
        for device in self.inventory.of_type(need.type):
            if not _slots(device, need, 1):
                continue
            here = [item for item in held if (item.type, item.minor) == (device.type, device.minor)]
            has, wanted = dict(device.amounts), amounts_of(device, need)
            used: Counter[str] = Counter()
            for item in here:
                used.update(dict(item.amounts))
            if any(used[name] + amount > has[name] for name, amount in wanted.items() if amount):
                continue
            if here and (_is_all(device, wanted) or need.exclusive):
                continue
            function = None
            if need.vf_selector is not None:
                free = [item for item in _functions(device, need) if item.bus_id not in taken]
                if not free:
                    continue
                function = min(free, key=lambda item: item.bus_id)
            given = DeviceAllocation(
                device.type, device.minor, wanted, function, need.exclusive, template or ""
            )
            result.append((device, given, self._state(device, held)))
        return result


def _subsets(able: list[Any], count: int) -> Iterator[tuple[Any, ...]]:
    """Sets of so many of these; of those that are alike the first ones."""
    groups: dict[Any, list[Any]] = {}
    for item in able:
        groups.setdefault(item[2], []).append(item)
    yield from _of_groups(list(groups.values()), count)


def _of_groups(groups: list[list[Any]], count: int) -> Iterator[tuple[Any, ...]]:
    if not count:
        yield ()
    elif groups and sum(map(len, groups)) >= count:
        for number in range(min(count, len(groups[0])), -1, -1):
            for rest in _of_groups(groups[1:], count - number):
                yield (*groups[0][:number], *rest)
