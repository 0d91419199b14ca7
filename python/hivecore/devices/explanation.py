"""Why a request waits, what is missing where it nearly fits, and who would have to leave.

A node can serve the request if all its owners leave, or never (`Feasibility.resolvable`); who
would have to, see `hivecore.devices.preemption`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.decisions import Change, Explanation, Refusal
from hivecore.devices.changes import other_changes
from hivecore.devices.device import TYPES, Device, share_of_memory
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.feasibility import CODES, REASONS, count_codes
from hivecore.devices.label_expression import is_selected, rule_text
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.preemption import cheapest_leavers

if TYPE_CHECKING:
    from hivecore.devices.device_cluster import DeviceCluster, Policy

__all__ = ["DeviceExplanation", "NodeShortage", "explain"]

_SHORTAGES = 3  # nodes that are described
_TRIED = 256  # nodes whose owners are thought away


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
    :param impossible: whether no node would serve it idle and healthy.

    ``changes`` names the cheapest owners to release on one node: those whose highest priority is
    the lowest, then those that hold least, counted in hundredths of devices; of equals those on the
    node that was added first. None of them can be left out. Up to 256 nodes are looked at, those
    that come nearest first; where a search of 10,000 steps does not settle who holds least, the
    least that was found is named.

    Where no owner's end would do, they name the fewest devices of a node that would have to be
    healthy again ("health"; cost: their number), and what the request could give up ("relax"): one
    wish, or devices or amounts beyond what is there, such as ``("gpu count",)``.
    """

    counts: tuple[tuple[str, int], ...]
    shortages: tuple[NodeShortage, ...]
    impossible: bool = False


def explain(
    cluster: "DeviceCluster", request: DeviceRequest, policy: "Policy"
) -> DeviceExplanation:
    """What `DeviceCluster.explain` answers; it is the caller's turn."""
    decision = cluster.schedule(request, policy=policy)
    if decision.outcome == "bind":
        return DeviceExplanation("bind", "", (), (), (), ())
    query, number = cluster._nodes.query(request), cluster._policy_number(policy)
    numbers = np.array(sorted(cluster._nodes.by_name.values()), dtype=np.int64)
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
    found = cheapest_leavers(cluster, query, number, candidates)
    if found is not None:
        changes: tuple[Change, ...] = (Change("release", found.names, found.held, (), request),)
    else:
        names = [cluster._nodes.names[int(numbers[i])] or "" for i in order[:_TRIED]]
        changes = other_changes(cluster, request, policy, names)
    return DeviceExplanation(
        "wait",
        decision.reason,
        refusals,
        changes,
        count_codes(codes),
        shortages,
        decision.impossible,
    )


# What is missing is told alike in both modes.
_STRICT = {
    "koordinator: no isolation": "isolation",
    "koordinator: unshareable": "unshareable",
    "koordinator: no template": "template",
    "koordinator: no devices": "no devices",
    "koordinator: no virtual functions": "no functions",
    "koordinator: no partition table": "partition",
    "koordinator: unsupported count": "partition",
    "koordinator: no topology": "scope",
    "koordinator: many shared": "scope",
    "koordinator: insufficient": "capacity",
    "koordinator: insufficient gpus": "capacity",
    "koordinator: insufficient partitions": "partition",
    "koordinator: insufficient scope": "scope",
    "koordinator: joint violation": "joint",
}


def _shortage(
    cluster: "DeviceCluster", request: DeviceRequest, node: int, code: str, type: str
) -> NodeShortage:
    name = cluster._nodes.names[node] or ""
    inventory = cluster._nodes.inventory(node)
    held = cluster._held_on(node)
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
    code = _STRICT.get(code, code)
    wanted = f"{'all' if need.every else need.count} {type}"
    healthy = [device for device in inventory.of_type(type) if device.healthy]
    used = {one.minor for one in held if one.type == type}
    idle = [device for device in healthy if device.minor not in used]
    if code in ("no devices", "no functions"):
        return f"{wanted} wanted, {len(healthy)} healthy there"
    if code in ("too few", "no match", "too small", "unhealthy"):
        return f"{wanted} {_unsuited(need, inventory, code)}"
    if code == "model":
        return f"one of {', '.join(request.models)} wanted, it has {inventory.model!r}"
    if code == "isolation":
        return f"{request.isolation_provider!r} wanted, it has {inventory.isolation_provider!r}"
    amounts = ", ".join(f"{name} {amount}" for name, amount in need.amounts)
    if code == "unshareable":
        return f"{wanted} with {amounts} wanted, it gives whole ones"
    if code == "template":
        names = [one.name for one in inventory.templates.templates] if inventory.templates else []
        return f"{wanted} with {amounts} wanted, it has {', '.join(names) or 'no template'}"
    if code == "capacity" and type == "gpu" and need.shared:
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


def _unsuited(need: DeviceNeed, inventory: NodeDevices, code: str) -> str:
    """What is wanted of devices that the node has too few of, and how many it has."""
    devices = inventory.of_type(need.type)
    if code == "too few":
        return f"wanted, it has {len(devices)}"
    labelled = [one for one in devices if is_selected(need.selector, one.labels)]
    if code == "no match":
        rules = ", ".join(map(rule_text, need.selector))
        return f"with {rules} wanted, {len(labelled)} of {len(devices)} match"
    large = [one for one in labelled if _has_free(one, [], need)]
    if code == "too small":
        amounts = ", ".join(f"{name} {amount}" for name, amount in need.amounts)
        return f"with {amounts} wanted, {len(large)} of {len(labelled)} have as much"
    healthy = sum(one.healthy for one in large)
    return f"wanted, {healthy} of {len(large)} healthy"


def _has_free(device: Device, held: list[DeviceAllocation], need: DeviceNeed) -> bool:
    """Whether the amounts are free, and nobody on the device is, or would be, alone there."""
    here = [one for one in held if (one.type, one.minor) == (device.type, device.minor)]
    has = dict(device.amounts)
    if here and (need.exclusive or any(one.exclusive for one in here)):
        return False
    for name, wanted in need.amounts:
        if name == "memory_ratio" and "memory" in has:
            name, wanted = "memory", share_of_memory(wanted, has["memory"])
        used = sum(dict(one.amounts).get(name, 0) for one in here)
        if wanted > has.get(name, 0) - used:
            return False
    return True


def _minors(devices: list[Any]) -> list[int]:
    return [device.minor for device in devices]
