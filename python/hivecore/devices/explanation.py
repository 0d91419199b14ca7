"""Why a request waits, what is missing where it nearly fits, and who would have to leave.

A node can serve the request if all its owners leave, or never (`Feasibility.resolvable`). On each
node of the first kind owners are thought away by rising priority until it fits; then, the most
important first, those are taken back without whom it fits as well. What is left is irreducible:
each of them is needed. The most important of them has the lowest priority that will do, but they
need not hold the least: four pods with a GPU each may be named where one with two would do. So on
the nodes that got by with the lowest priority all sets are searched for one that holds less, by
branch and bound: as nobody's leaving is in the way of the request, what does not fit without an
owner and all who are undecided never will. The search ends after so many questions to the kernel;
the best set that was found until then is named.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.decisions import Change, Explanation, Refusal
from hivecore.devices.device import TYPES, Device
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.feasibility import CODES, REASONS, count_codes
from hivecore.devices.node_devices import NodeDevices

if TYPE_CHECKING:
    from hivecore.devices.device_cluster import DeviceCluster, Policy

__all__ = ["DeviceExplanation", "NodeShortage", "explain"]

_SHORTAGES = 3  # nodes that are described
_TRIED = 256  # nodes whose owners are thought away
_QUESTIONS = 10_000  # in search of a cheaper set

#: (priority, what it holds, name) of an owner.
_Owner = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class NodeShortage:
    """What a node lacks.

    :param node: its name.
    :param code: why it cannot serve the request, of `Feasibility`'s codes.
    :param type: the type of device that it is about.
    :param detail: what is there, and what is missing, in a line.
    """

    node: str
    code: str
    type: str
    detail: str


@dataclass(frozen=True, slots=True)
class DeviceExplanation(Explanation):
    """Why a request would be served now or not.

    :param counts: how many nodes cannot serve it for which code, the most hopeful code last.
    :param shortages: of the nodes that come nearest, three at most, what they lack.

    ``changes`` names the cheapest owners to release on one node: those whose highest priority is
    the lowest, then those that hold least, counted in hundredths of devices; of equals those on the
    node that was added first. None of them can be left out. Up to 256 nodes are looked at, those
    that come nearest first; where a search of 10,000 steps does not settle who holds least, the
    least that was found is named.
    """

    counts: tuple[tuple[str, int], ...]
    shortages: tuple[NodeShortage, ...]


def explain(
    cluster: "DeviceCluster", request: DeviceRequest, policy: "Policy"
) -> DeviceExplanation:
    """What `DeviceCluster.explain` answers; it is the caller's turn."""
    decision = cluster.schedule(request, policy=policy)
    if decision.outcome == "bind":
        return DeviceExplanation("bind", "", (), (), (), ())
    query, number = cluster._query(request), cluster._policy_number(policy)
    numbers = np.array(sorted(cluster._nodes.values()), dtype=np.int64)
    codes, types, resolvable, _ = cluster._core.filter(query, number, numbers)
    order = np.lexsort((numbers, -codes, ~resolvable))
    shortages = tuple(
        _shortage(cluster, request, int(numbers[i]), CODES[codes[i]], TYPES[types[i]])
        for i in order[:_SHORTAGES]
    )
    refusals = tuple(
        Refusal("devices", one.code, f"{REASONS[one.code]}: {one.detail}", one.node)
        for one in shortages
    )
    candidates = [int(numbers[i]) for i in order[:_TRIED] if resolvable[i]]
    cheapest = _Search(cluster, query, number).cheapest(candidates)
    changes: tuple[Change, ...] = ()
    if cheapest:
        names = tuple(name for _, _, name in cheapest)
        changes = (Change("release", names, _cost(cheapest), (), request),)
    return DeviceExplanation(
        "wait", decision.reason, refusals, changes, count_codes(codes), shortages
    )


class _Search:
    """For the cheapest owners without whom one of some nodes serves a request."""

    def __init__(self, cluster: "DeviceCluster", query: Any, policy: int) -> None:
        self.cluster, self.query, self.policy = cluster, query, policy
        self.left = _QUESTIONS

    def cheapest(self, nodes: list[int]) -> list[_Owner]:
        """By rising priority; empty: there are none."""
        found = []
        for node in nodes:
            owners = self._owners(node)
            gone = self._first_to_fit(node, owners)
            if gone:
                found.append((gone[-1][0], _cost(gone), node, gone, owners))
        if not found:
            return []
        priority, cost, at, best, _ = min(found)
        for own_priority, _, node, _, owners in sorted(found):
            if own_priority == priority:
                able = [owner for owner in owners if owner[0] <= priority]
                # Of equal costs the first node counts.
                cheaper = self._cheaper(node, able, cost + (node < at))
                if cheaper:
                    best, cost, at = self._needed(node, cheaper), _cost(cheaper), node
        return best

    def _owners(self, node: int) -> list[_Owner]:
        cluster = self.cluster
        return sorted(
            (cluster._priorities.get(name, 0), _held(cluster._core, cluster._owners[name]), name)
            for name in cluster._owners_on(node)
        )

    def _fits_without(self, node: int, gone: list[_Owner]) -> bool:
        owners = [self.cluster._owners[name] for _, _, name in gone]
        core = self.cluster._core
        return bool(core.examine(self.query, self.policy, node, None, owners)[0] == 0)

    def _first_to_fit(self, node: int, owners: list[_Owner]) -> list[_Owner]:
        for number in range(1, len(owners) + 1):
            if self._fits_without(node, owners[:number]):
                return self._needed(node, owners[:number])
        return []

    def _needed(self, node: int, gone: list[_Owner]) -> list[_Owner]:
        """Those who are left when as many as can stay, the most important first."""
        left = list(gone)
        for one in sorted(gone, key=lambda owner: (-owner[0], -owner[1], owner[2])):
            rest = [owner for owner in left if owner != one]
            if self._fits_without(node, rest):
                left = rest
        return sorted(left)

    def _cheaper(self, node: int, owners: list[_Owner], limit: int) -> list[_Owner]:
        """The owners without whom it fits that hold least, if that is below the limit."""
        best: list[_Owner] = []
        large_first = sorted(owners, key=lambda owner: (-owner[1], owner[0], owner[2]))
        # (gone, undecided, whether the last decision was that somebody leaves)
        open_: list[tuple[list[_Owner], list[_Owner], bool]] = [([], large_first, False)]
        while open_ and self.left > 0:
            gone, undecided, has_left = open_.pop()
            if _cost(gone) >= limit:
                continue
            self.left -= 1
            if has_left:
                if self._fits_without(node, gone):
                    best, limit = gone, _cost(gone)
                    continue
            elif not self._fits_without(node, gone + undecided):
                continue
            if undecided:
                first, *rest = undecided
                open_.append((gone, rest, False))
                open_.append(([*gone, first], rest, True))
        return best


def _cost(owners: list[_Owner]) -> int:
    return sum(held for _, held, _ in owners)


def _held(core: Any, owner: int) -> int:
    """In hundredths of devices; where a percentage is not known, a device counts as whole."""
    held = 0
    for type, _, amounts, _, _ in core.charges_of(owner):
        if TYPES[type] != "host":
            held += amounts[0] if amounts[0] else 100
    return held


def _shortage(
    cluster: "DeviceCluster", request: DeviceRequest, node: int, code: str, type: str
) -> NodeShortage:
    name = cluster._names[node] or ""
    inventory = cluster._inventory(node)
    held = [
        one
        for owner in cluster._core.owners(node)
        for one in cluster._numbers.allocations(cluster._core.charges_of(owner), None)
    ]
    detail = _detail(request, inventory, held, code, type)
    return NodeShortage(name, code, type, detail)


def _detail(
    request: DeviceRequest,
    inventory: NodeDevices,
    held: list[DeviceAllocation],
    code: str,
    type: str,
) -> str:
    need = request.need(type)
    assert need is not None
    wanted = f"{'all' if need.every else need.count} {type}"
    healthy = [device for device in inventory.of_type(type) if device.healthy]
    used = {one.minor for one in held if one.type == type}
    idle = [device for device in healthy if device.minor not in used]
    if code in ("no devices", "no match", "no functions"):
        return f"{wanted} wanted, {len(healthy)} healthy there"
    if code == "model":
        return f"one of {', '.join(request.models)} wanted, it has {inventory.model!r}"
    if code == "isolation":
        return f"{request.isolation_provider!r} wanted, it has {inventory.isolation_provider!r}"
    if code == "capacity" and type == "gpu" and need.shared:
        amounts = ", ".join(f"{name} {amount}" for name, amount in need.amounts)
        roomy = [device for device in healthy if _has_free(device, held, need)]
        return f"{wanted} with {amounts} wanted, {len(roomy)} of {len(healthy)} have it free"
    if code == "capacity":
        return f"{wanted} wanted, {len(idle)} of {len(healthy)} idle"
    if code == "partition":
        rows = sum(len(row.members) == need.count for row in inventory.partition_rows())
        return f"one of {rows} partitions of {need.count} wanted, idle are {_minors(idle)}"
    places = sorted({str(device.pcie) for device in idle})
    if code == "scope":
        return f"{wanted} in one {need.scope} wanted, idle are {len(idle)} on switches {places}"
    others = sorted(
        {
            str(device.pcie)
            for other in request.joint
            if other != type
            for device in inventory.of_type(other)
            if device.healthy
            and not any(one.type == other and one.minor == device.minor for one in held)
        }
    )
    return (
        f"{wanted} wanted, {len(idle)} idle on switches {places}; "
        f"the others are idle on switches {others}"
    )


def _has_free(device: Device, held: list[DeviceAllocation], need: DeviceNeed) -> bool:
    """Whether the amounts are free, and nobody on the device is, or would be, alone there."""
    here = [one for one in held if (one.type, one.minor) == (device.type, device.minor)]
    has = dict(device.amounts)
    if here and (need.exclusive or any(one.exclusive for one in here)):
        return False
    for name, wanted in need.amounts:
        unit = 1
        if name == "memory_ratio" and "memory" in has:
            name, wanted, unit = "memory", wanted * has["memory"], 100
        used = sum(dict(one.amounts).get(name, 0) for one in here)
        if wanted > unit * (has.get(name, 0) - used):
            return False
    return True


def _minors(devices: list[Any]) -> list[int]:
    return [device.minor for device in devices]
