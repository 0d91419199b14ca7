"""Why a request waits, what is missing where it nearly fits, and the owners to release.

A node can serve the request if all its owners leave, or never (`Feasibility.resolvable`). Which
have to, `hivecore.devices.preemption` finds.
"""

from collections.abc import Callable, Iterable

import numpy as np

from hivecore._record import Record
from hivecore.decisions import Change, Explanation, Refusal
from hivecore.devices._nodes import Nodes
from hivecore.devices._owners import Owners
from hivecore.devices._room import has_function, times_free
from hivecore.devices.changes import other_changes
from hivecore.devices.device import TYPES, Device
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_ledger import POLICIES, Policy
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.feasibility import CODES, REASONS, count_codes
from hivecore.devices.label_expression import is_selected, rule_text
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.placer import DevicePlacer
from hivecore.devices.preemption import cheapest_leavers

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
    that come nearest first; where a search of 10,000 steps does not settle which hold the least,
    the least that was found is named.

    Where no owner's end would do, they name the fewest devices of a node that would have to be
    healthy again ("health"; cost: their number), and what the request could give up ("relax"): one
    wish, or devices or amounts beyond what is there, such as ``("gpu count",)``.
    """

    counts: tuple[tuple[str, int], ...]
    shortages: tuple[NodeShortage, ...]
    impossible: bool = False


def explain(
    cluster: DevicePlacer, nodes: Nodes, owners: Owners, request: DeviceRequest, policy: Policy
) -> DeviceExplanation:
    """What `DeviceCluster.explain` answers, by its nodes and owners."""
    decision = cluster.schedule(request, policy=policy)
    if decision.outcome == "bind":
        return DeviceExplanation("bind", "", (), (), (), ())
    query, policy_number = nodes.query(request), POLICIES.index(policy)
    numbers = np.array(sorted(nodes.by_name.values()), dtype=np.int64)
    codes, types, resolvable, _ = nodes.core.filter(query, policy_number, numbers)
    order = np.lexsort((numbers, -codes, ~resolvable))
    nearest = [(int(numbers[i]), i) for i in order[:_TRIED]]
    names = [nodes.names[number] or "" for number, _ in nearest]
    shortages = []
    for name, (number, i) in zip(names, nearest[:_SHORTAGES], strict=False):
        code, type = CODES[codes[i]], TYPES[types[i]]
        lack = _Lack(request, nodes.inventory(number), nodes.held(number), type)
        shortages.append(NodeShortage(name, code, type, _DETAILS.get(code, _apart)(lack)))
    refusals = tuple(
        Refusal("devices", lack.code, f"{REASONS[lack.code]}: {lack.detail}", lack.node)
        for lack in shortages
    )
    candidates = [number for number, i in nearest if resolvable[i]]
    leavers = cheapest_leavers(owners, query, policy_number, candidates)
    if leavers is not None:
        changes: tuple[Change, ...] = (Change("release", leavers.names, leavers.held, (), request),)
    else:
        changes = other_changes(cluster, request, policy, names)
    return DeviceExplanation(
        "wait",
        decision.reason,
        refusals,
        changes,
        count_codes(codes),
        tuple(shortages),
        decision.impossible,
    )


class _Lack:
    """What a node lacks of the devices of one type that a request needs."""

    def __init__(
        self,
        request: DeviceRequest,
        inventory: NodeDevices,
        held: list[DeviceAllocation],
        type: str,
    ) -> None:
        need = request.need(type)
        assert need is not None
        self.request, self.inventory, self.held, self.need = request, inventory, held, need
        self.wanted = f"{'all' if need.every else need.count} {type}"
        self.amounts = ", ".join(f"{name} {amount}" for name, amount in need.amounts)
        self.devices = inventory.of_type(type)
        self.selected = [
            device for device in self.devices if is_selected(need.selector, device.labels)
        ]
        self.healthy = [device for device in self.selected if device.healthy]
        self.idle = self._unused(self.healthy)

    def _unused(self, devices: Iterable[Device]) -> list[Device]:
        used = {(allocation.type, allocation.minor) for allocation in self.held}
        return [device for device in devices if (device.type, device.minor) not in used]

    def of_shares(self, devices: list[Device], held: list[DeviceAllocation]) -> str:
        """How many shares fit on these devices, where one may give several."""
        need = self.need
        shares = sum(times_free(device, self.inventory, held, need) for device in devices)
        text = f"{len(devices)} of them have room for {shares} such shares"
        return f"{self.wanted} with {self.amounts} wanted, {text}"

    def switches(self) -> tuple[list[str], list[str]]:
        """On which the idle devices of the type are, and those of the types that join it."""
        joint = set(self.request.joint) - {self.need.type}
        others = self._unused(
            device for device in self.inventory.devices if device.type in joint and device.healthy
        )
        mine, theirs = ({str(device.pcie) for device in some} for some in (self.idle, others))
        return sorted(mine), sorted(theirs)


def _no_match(lack: _Lack) -> str:
    rules = ", ".join(map(rule_text, lack.need.selector))
    matching = f"{len(lack.selected)} of {len(lack.devices)} match"
    return f"{lack.wanted} with {rules} wanted, {matching}"


def _no_functions(lack: _Lack) -> str:
    fitting = sum(has_function(device, [], lack.need) for device in lack.selected)
    wanted = f"{lack.wanted} with {_function(lack.need)} wanted"
    return f"{wanted}, {fitting} of {len(lack.selected)} have any"


def _large(lack: _Lack) -> list[Device]:
    return [device for device in lack.selected if times_free(device, lack.inventory, [], lack.need)]


def _too_small(lack: _Lack) -> str:
    if lack.need.repeat:
        return lack.of_shares(lack.selected, [])
    much = f"{len(_large(lack))} of {len(lack.selected)} have as much"
    return f"{lack.wanted} with {lack.amounts} wanted, {much}"


def _unhealthy(lack: _Lack) -> str:
    large = _large(lack)
    healthy = [device for device in large if device.healthy]
    if lack.need.repeat:
        return lack.of_shares(healthy, [])
    return f"{lack.wanted} wanted, {len(healthy)} of {len(large)} healthy"


def _no_room(lack: _Lack) -> str:
    need = lack.need
    if need.repeat:
        return lack.of_shares(lack.healthy, lack.held)
    free = sum(times_free(device, lack.inventory, lack.held, need) > 0 for device in lack.healthy)
    is_whole = need.amounts in _WHOLE and need.exclusive is None
    things = [*map(rule_text, need.selector), *([] if is_whole else [lack.amounts])]
    if need.vf_selector is not None:
        things.append(_function(need))
    text = f"with {', '.join(things)} wanted" if things else "wanted"
    idle = "idle" if is_whole else "have it free"
    return f"{lack.wanted} {text}, {free} of {len(lack.healthy)} {idle}"


def _template(lack: _Lack) -> str:
    shares = lack.inventory.templates
    names = ", ".join(template.name for template in shares.templates) if shares else ""
    return f"{lack.wanted} with {lack.amounts} wanted, it has {names or 'no template'}"


def _partition(lack: _Lack) -> str:
    count, minors = lack.need.count, [device.minor for device in lack.idle]
    rows = len(lack.inventory.partitions_of(count, lack.request.links, is_asked=True))
    return f"one of {rows} partitions of {count} wanted, idle are {minors}"


def _scope(lack: _Lack) -> str:
    idle = f"idle are {len(lack.idle)} on switches {lack.switches()[0]}"
    return f"{lack.wanted} in one {lack.need.scope} wanted, {idle}"


def _apart(lack: _Lack) -> str:
    mine, theirs = lack.switches()
    return (
        f"{lack.wanted} wanted, {len(lack.idle)} idle on switches {mine}; "
        f"the others are idle on switches {theirs}"
    )


_DETAILS: dict[str, Callable[[_Lack], str]] = {
    "no devices": lambda at: f"{at.wanted} wanted, {len(at.healthy)} healthy there",
    "too few": lambda at: f"{at.wanted} wanted, it has {len(at.devices)}",
    "no match": _no_match,
    "no functions": _no_functions,
    "too small": _too_small,
    "unhealthy": _unhealthy,
    "capacity": _no_room,
    "model": lambda at: (
        f"one of {', '.join(at.request.models)} wanted, it has {at.inventory.model!r}"
    ),
    "isolation": lambda at: (
        f"{at.request.isolation_provider!r} wanted, it has {at.inventory.isolation_provider!r}"
    ),
    "unshareable": lambda at: f"{at.wanted} with {at.amounts} wanted, it gives whole ones",
    "template": _template,
    "partition": _partition,
    "scope": _scope,
}
_WHOLE = ((("core", 100), ("memory_ratio", 100)), (("share", 100),))


def _function(need: DeviceNeed) -> str:
    rules = ", ".join(map(rule_text, need.vf_selector or ()))
    return f"a virtual function of {rules}" if rules else "a virtual function"
