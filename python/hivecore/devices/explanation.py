"""Why a request waits, what is missing where it nearly fits, and who would have to leave.

A node can serve the request if all its owners leave, or never (`Feasibility.resolvable`); who
would have to, see `hivecore.devices.preemption`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore._record import Record
from hivecore.decisions import Change, Explanation, Refusal
from hivecore.devices._room import has_function, times_free
from hivecore.devices.changes import other_changes
from hivecore.devices.device import TYPES, Device
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


class NodeShortage(Record, frozen=True):
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


class DeviceExplanation(Explanation, frozen=True):
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
    wanted = f"{'all' if need.every else need.count} {type}"
    devices = inventory.of_type(type)
    healthy = [one for one in devices if one.healthy and is_selected(need.selector, one.labels)]
    used = {one.minor for one in held if one.type == type}
    idle = [device for device in healthy if device.minor not in used]
    if code == "no devices":
        return f"{wanted} wanted, {len(healthy)} healthy there"
    if code in ("too few", "no match", "too small", "no functions", "unhealthy"):
        return f"{wanted} {_unsuited(need, inventory, code)}"
    if code == "capacity":
        return f"{wanted} {_lacking_room(need, inventory, healthy, held)}"
    if code == "model":
        return f"one of {', '.join(request.models)} wanted, it has {inventory.model!r}"
    if code == "isolation":
        return f"{request.isolation_provider!r} wanted, it has {inventory.isolation_provider!r}"
    if code == "unshareable":
        return f"{wanted} with {_amounts(need)} wanted, it gives whole ones"
    if code == "template":
        names = [one.name for one in inventory.templates.templates] if inventory.templates else []
        return f"{wanted} with {_amounts(need)} wanted, it has {', '.join(names) or 'no template'}"
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
    if code == "no functions":
        fitting = [one for one in labelled if has_function(one, [], need)]
        return f"with {_function(need)} wanted, {len(fitting)} of {len(labelled)} have any"
    times = {one.minor: times_free(one, inventory, [], need) for one in labelled}
    large = [one for one in labelled if times[one.minor]]
    healthy = [one for one in large if one.healthy]
    if need.repeat:
        counted = labelled if code == "too small" else healthy
        return _of_shares(need, sum(times[one.minor] for one in counted), len(counted))
    if code == "too small":
        return f"with {_amounts(need)} wanted, {len(large)} of {len(labelled)} have as much"
    return f"wanted, {len(healthy)} of {len(large)} healthy"


def _lacking_room(
    need: DeviceNeed, inventory: NodeDevices, healthy: list[Device], held: list[DeviceAllocation]
) -> str:
    """What is wanted of devices that are in use, and how many have it free."""
    times = [times_free(one, inventory, held, need) for one in healthy]
    if need.repeat:
        return _of_shares(need, sum(times), len(healthy))
    free = sum(time > 0 for time in times)
    is_whole = need.amounts in _WHOLE and need.exclusive is None
    things = [*map(rule_text, need.selector), *([] if is_whole else [_amounts(need)])]
    if need.vf_selector is not None:
        things.append(_function(need))
    text = f"with {', '.join(things)} wanted" if things else "wanted"
    return f"{text}, {free} of {len(healthy)} {'idle' if is_whole else 'have it free'}"


_WHOLE = ((("core", 100), ("memory_ratio", 100)), (("share", 100),))


def _function(need: DeviceNeed) -> str:
    rules = ", ".join(map(rule_text, need.vf_selector or ()))
    return f"a virtual function of {rules}" if rules else "a virtual function"


def _of_shares(need: DeviceNeed, shares: int, devices: int) -> str:
    return f"with {_amounts(need)} wanted, {devices} of them have room for {shares} such shares"


def _amounts(need: DeviceNeed) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in need.amounts)


def _minors(devices: list[Any]) -> list[int]:
    return [device.minor for device in devices]
